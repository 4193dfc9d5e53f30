//! Traces: statistics, and generation of longer or larger traces.
//!
//! [`collector`] reads a stream once and describes machines, jobs and load ([`info`]); [`synth`] fits the distributions
//! of one trace and writes another. Both use bounded memory, however long the trace is: they keep counts in histograms
//! ([`values`]), the load in a bounded number of time buckets, which become wider ([`load`]), the ends of running
//! tasks, and a sample of the jobs.

mod breakdown;
pub mod collector;
pub mod command;
pub mod info;
pub mod load;
mod machines;
mod peak;
pub mod plots;
pub mod show;
pub mod synth;
pub mod values;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
