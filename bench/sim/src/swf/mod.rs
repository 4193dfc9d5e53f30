//! Batch queues on logs of real machines: what the classic policies would have made of them.
//!
//! A log ([`omega_workload::swf`]) is a list of gangs: each job wants so many processors at once, for
//! at most as long as its user said. The machine is a number of free processors and nothing else, as
//! in the literature that these figures are compared with.
//!
//! ```text
//!  log ─▶ Trace: jobs in order of submission, what was left out
//!           │
//!           ▼            ┌── Ordered: FCFS, EASY, SJF + EASY ── who runs, and one reservation
//!        simulate ◀─ Policy
//!           │            ├── Conservative ── a Profile of free processors, a reservation each
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
