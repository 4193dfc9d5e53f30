//! Traces: statistics, and generation of longer or larger traces.
//!
//! [`info`] reads a stream once and describes machines, jobs and load; [`synth`] fits the distributions of one trace
//! and writes another. Both use bounded memory, however long the trace: counts in histograms ([`values`]), load in time
//! buckets that grow ([`load`]), and a sample of jobs.

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
