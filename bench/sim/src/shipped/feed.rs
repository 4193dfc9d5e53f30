//! Stream of jobs for a simulated cell, so that long workloads need not fit in memory.

use omega_workload::stream::{Event, Stream};
use omega_workload::{Arrival, LoadError};

/// The jobs of a workload in the order of their numbers. Each job is returned once.
pub trait Feed {
    /// Returns the next job; `None` at the end.
    ///
    /// # Errors
    /// If the rest cannot be read; the error names file, line and field.
    fn next_job(&mut self) -> Result<Option<Arrival>, LoadError>;
}

/// Jobs in a borrowed list.
pub struct HeldJobs<'a>(std::slice::Iter<'a, Arrival>);

impl<'a> HeldJobs<'a> {
    /// The jobs of a list, from the first.
    #[must_use]
    pub fn new(jobs: &'a [Arrival]) -> HeldJobs<'a> {
        HeldJobs(jobs.iter())
    }
}

impl Feed for HeldJobs<'_> {
    fn next_job(&mut self) -> Result<Option<Arrival>, LoadError> {
        Ok(self.0.next().cloned())
    }
}

/// Jobs that are read on demand. Machine changes are skipped.
pub struct StreamedJobs(Box<dyn Stream>);

impl StreamedJobs {
    /// Reads the jobs of a stream from which nothing was read yet.
    #[must_use]
    pub fn new(stream: Box<dyn Stream>) -> StreamedJobs {
        StreamedJobs(stream)
    }
}

impl Feed for StreamedJobs {
    fn next_job(&mut self) -> Result<Option<Arrival>, LoadError> {
        while let Some(event) = self.0.next_event()? {
            if let Event::Job(job) = event {
                return Ok(Some(job.arrival));
            }
        }
        Ok(None)
    }
}
