//! Traces: what one is like, and a longer or larger one after its example.
//!
//! [`info`] reads a stream once and tells of machines, jobs and load; [`synth`] fits the distributions of one and
//! writes another. Both hold a bounded amount, however long the trace: counts in histograms
//! ([`values`]), load in buckets of time that grow with the span ([`load`]), and a sample of jobs.

pub mod command;
pub mod info;
pub mod load;
pub mod plots;
pub mod show;
pub mod synth;
pub mod values;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
