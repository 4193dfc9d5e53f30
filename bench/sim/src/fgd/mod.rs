//! Packing of tasks that share devices: the policies of "Beware of Fragmentation" (USENIX ATC 2023), with its protocol.
//!
//! A list of tasks arrives one by one, in a random order, at machines with devices. None ends and none is retried,
//! until 130 % of all devices were requested. The result is the allocated part of the devices at the end.
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
//! **Why these are not plugins of a scheduler.** The published figures depend on details that a plugin cannot control.
//! Scores are whole percent, rounded down: one percent of the gradient is some 40 thousandths of a device, so about one
//! decision in two is a tie, which the name of the machine breaks. A policy also chooses the device: the gradient takes
//! the one that leaves least unusable, and random takes any, whereas a cell always chooses the fullest that fits.
//! Clustering considers which sizes of tasks were ever placed on a machine. So machines here are plain amounts of
//! processors, memory and devices, with the cell's choice of device where a policy has none.

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
