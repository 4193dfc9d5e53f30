//! Batch queues on logs of real machines, simulated under classic policies.
//!
//! A log ([`omega_workload::swf`]) is a list of gangs: each job requests a number of processors at the same time, for
//! at most the run time that its user estimated. As in the literature with which the figures are compared, a machine is
//! only a number of processors.
//!
//! ```text
//!  log ─▶ Trace: jobs in order of submission, and jobs left out
//!           │
//!           ▼            ┌── Ordered: FCFS, EASY, SJF + EASY, with one reservation
//!        simulate ◀─ Policy
//!           │            ├── Conservative: a Profile of free processors, a reservation for each job
//!           │            └── Shipped: the cell and the scheduler of this project
//!           ▼
//!        Figures: waits, slowdowns, utilisation
//! ```

pub mod conservative;
pub mod figures;
pub mod ordered;
pub mod profile;
pub mod shipped;
pub mod simulate;
pub mod trace;

#[cfg(test)]
mod tests;
