//! Packing of tasks that share devices: the policies of "Beware of Fragmentation" (USENIX ATC 2023), by its
//! protocol.
//!
//! A list of tasks arrives one by one, in an order drawn by seed, at machines with devices; none leaves, none
//! is tried again, until 130 % of all devices was asked for. What counts is how much of them is in use then.
//!
//! ```text
//!  Input ─▶ arrivals: shuffled, re-drawn to 130 %, machines in an order of their own
//!    │         │
//!    │         ▼
//!    │     run: for each task the machine with the best score of a Policy ─▶ Points by load
//!    ▼         ▲                                                               │
//!  Shapes ─▶ fragmentation                                             published: compared
//! ```
//!
//! **Why these are no plugins of a scheduler.** The published figures hang on details that a plugin has no
//! say in. Scores are whole percent, and rounded down: one percent of the gradient is some 40 thousandths of a device,
//! so that about one decision in two is a tie, which the name of the machine breaks. A policy also chooses the
//! device: the gradient takes the one that leaves least unusable, random takes any, where a cell always
//! gives the fullest that fits. Clustering asks which sizes of tasks ever came to a machine. So machines here
//! are plain amounts of processors, memory and devices, with the cell's own choice of device wherever a policy
//! has none of its own.

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
