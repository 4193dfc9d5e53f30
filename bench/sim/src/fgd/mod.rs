//! Packing of tasks that share devices: the policies and the protocol of "Beware of Fragmentation" (USENIX ATC 2023).
//!
//! A list of tasks arrives one by one, in a random order, at machines with devices. No task ends, and no task is
//! retried. The run ends when 130 % of all devices were requested. The result is the allocated part of the devices at
//! the end.
//!
//! ```text
//!  Input ─▶ arrivals: shuffled, extended to 130 %; machines in a separate order
//!    │         │
//!    │         ▼
//!    │     run: for each task the machine with the best score of a Policy ─▶ Points by load
//!    ▼         ▲                                                               │
//!  Shapes ─▶ fragmentation                                             published: compared
//! ```
//!
//! **Why the policies are not plugins of a scheduler.** The published figures depend on details that a plugin
//! cannot control. Scores are whole percent, rounded down. One percent of the gradient is some 40 thousandths
//! of a device, so about one decision in two is a tie. The machines' names decide ties. A policy also chooses
//! the device: the gradient policy takes the device with which least becomes unusable, and the random policy
//! takes any device. A cell always chooses the fullest device that fits. The clustering policy considers which
//! sizes of tasks were ever placed on a machine. So machines here are plain amounts of processors, memory and
//! devices. If a policy chooses no device, the task gets the one that a cell would choose.

pub mod ahead;
pub mod arrivals;
pub mod fragments;
pub mod input;
pub mod machine;
pub mod policy;
pub mod published;
pub mod run;

#[cfg(test)]
mod tests;
