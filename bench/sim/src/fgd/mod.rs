//! Packing of tasks that share devices: the policies and the protocol of "Beware of Fragmentation" (USENIX ATC 2023).
//!
//! A list of tasks arrives one by one, in a random order, at machines with devices. No task ends, and no task is retried.
//! The run ends when 130 % of all devices were requested. The result is the allocated part of the devices at the end.
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
//! **Why the policies are not plugins of a scheduler.** The published figures depend on details that a plugin cannot
//! control. Scores are whole percent, rounded down; one percent of the gradient is some 40 thousandths of a device, so
//! about one decision in two is a tie, which is decided by the machines' names. A policy also chooses the device: the
//! gradient policy takes the device that leaves least unusable, and the random policy takes any, whereas a cell always
//! chooses the fullest device that fits. The clustering policy considers which sizes of tasks were ever placed on a
//! machine. So machines here are plain amounts of processors, memory and devices, and the device is the one that a cell
//! would choose if the policy does not choose.

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
