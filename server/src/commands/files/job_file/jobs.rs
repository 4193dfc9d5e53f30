//! A file of one job, or of several.

use super::JobFile;
use crate::commands::CommandError;
use omega_core::{Job, Kinds};
use omega_workload::file::{self, FileError, shown};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::Path;

/// A file with several jobs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct JobsFile {
    /// The jobs.
    job: Vec<JobFile>,
}

/// Result of a first pass over a file: whether the file has several jobs.
#[derive(Debug, Deserialize)]
struct Peek {
    job: Option<IgnoredAny>,
}

impl JobsFile {
    /// Reads a file with one job, or with several as `[[job]]`.
    ///
    /// # Errors
    /// If the file cannot be read, or does not describe jobs.
    pub(in crate::commands) fn read(file: &Path) -> Result<JobsFile, FileError> {
        let text = file::text(file)?;
        match file::parse::<Peek>(file, &text)?.job {
            Some(_) => file::parse(file, &text),
            None => Ok(JobsFile { job: vec![file::parse(file, &text)?] }),
        }
    }

    /// Reads a file with one job, which may be written as `[[job]]`.
    ///
    /// # Errors
    /// If the file cannot be read, or does not describe one job.
    pub(in crate::commands) fn read_one(file: &Path) -> Result<JobFile, CommandError> {
        let JobsFile { mut job } = JobsFile::read(file)?;
        let why = match (job.pop(), job.len()) {
            (Some(only), 0) => return Ok(only),
            (None, _) => "has no job".to_owned(),
            (Some(_), others) => format!(
                "has {} jobs, and `omega job submit` submits one: run `omega job apply -f {}`",
                others + 1,
                file.display()
            ),
        };
        Err(CommandError::Field { place: format!("{}: job", shown(file)), why })
    }

    /// The jobs that the file describes, for a cell with these kinds.
    ///
    /// # Errors
    /// As [`JobFile::job`], or if two jobs have the same name.
    pub(in crate::commands) fn jobs(
        &self,
        kinds: &Kinds,
        file: &Path,
    ) -> Result<Vec<Job>, CommandError> {
        let place = |job: &JobFile| match self.job.len() {
            1 => shown(file),
            _ => format!("{}: job {:?}", shown(file), job.name),
        };
        let jobs = self.job.iter().map(|job| job.job_at(kinds, file, &place(job)));
        let jobs: Vec<Job> = jobs.collect::<Result<_, _>>()?;
        for (at, job) in jobs.iter().enumerate() {
            if jobs[..at].iter().any(|earlier| earlier.name == job.name) {
                let place = format!("{}: job[{at}].name", shown(file));
                let why = format!("{:?} appears twice: give each job once", &*job.name);
                return Err(CommandError::Field { place, why });
            }
        }
        Ok(jobs)
    }
}
