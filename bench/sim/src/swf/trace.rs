//! The simulated jobs of a log, and the number of skipped jobs.
//!
//! The log is read as for the published figures. A job needs its allocated processors or, if these are unknown, the
//! requested ones. It runs for its logged time, but not longer than requested, because the machine would have ended it
//! then. A job that never ran is skipped.

use omega_workload::LoadError;
use omega_workload::swf::{Header, Log, LoggedJob};
use omega_workload::words::plural;
use std::path::Path;

/// A simulated job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimJob {
    /// Time from the submission of the first job to that of this one.
    pub submit_ms: u64,
    /// Run time: at most `requested_ms`, and not 0.
    pub run_ms: u64,
    /// Requested run time.
    pub requested_ms: u64,
    /// Number of processors that the job needs at the same time.
    pub processors: u64,
    /// Wait of the job in the log.
    pub waited_ms: Option<u64>,
}

/// Simulated part of a log.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The processors of the machine.
    pub processors: u64,
    /// Jobs by time of submission, then in the order of the log.
    pub jobs: Vec<SimJob>,
    /// The jobs that were left out.
    pub left_out: LeftOut,
    /// Assumptions about missing data, in sentences.
    pub notes: Vec<String>,
}

/// Number of jobs that were left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Jobs with more processors than the machine.
    pub too_large: u64,
    /// Jobs that never ran, or with unknown run time.
    pub run_unknown: u64,
    /// Jobs whose number of processors is unknown or zero.
    pub size_unknown: u64,
    /// Jobs whose time of submission is unknown.
    pub submission_unknown: u64,
}

impl LeftOut {
    /// The sum of all counts.
    #[must_use]
    pub fn sum(self) -> u64 {
        self.too_large + self.run_unknown + self.size_unknown + self.submission_unknown
    }
}

impl Trace {
    /// Reads a log for a machine with this number of processors; if it is `None`, the log's header has the number.
    ///
    /// # Errors
    /// If the log cannot be read, a line is invalid, or no job can be simulated.
    pub fn read(file: &Path, processors: Option<u64>) -> Result<Trace, LoadError> {
        let mut log = Log::open(file)?;
        let mut trace = Trace::default();
        let mut unrequested = 0_u64;
        let mut earlier = 0_u64;
        let mut previous = 0;
        while let Some(job) = log.next_job()? {
            earlier += u64::from(job.submit_ms.is_some_and(|submit_ms| submit_ms < previous));
            previous = job.submit_ms.unwrap_or(previous);
            match sim_job(&job) {
                Ok(sim) => {
                    unrequested += u64::from(job.requested_ms.unwrap_or(0) == 0);
                    trace.jobs.push(sim);
                }
                Err(Unknown::Run) => trace.left_out.run_unknown += 1,
                Err(Unknown::Size) => trace.left_out.size_unknown += 1,
                Err(Unknown::Submission) => trace.left_out.submission_unknown += 1,
            }
        }
        trace.notes = log.notes();
        trace.find_processors(processors, log.header());
        let jobs = trace.jobs.len();
        let size = trace.processors;
        trace.jobs.retain(|job| job.processors <= size);
        trace.left_out.too_large = (jobs - trace.jobs.len()) as u64;
        if trace.jobs.is_empty() {
            return Err(LoadError::new(file, trace.why_empty()));
        }
        trace.jobs.sort_by_key(|job| job.submit_ms);
        let first_ms = trace.jobs[0].submit_ms;
        trace.jobs.iter_mut().for_each(|job| job.submit_ms -= first_ms);
        trace.check_times(file)?;
        if unrequested > 0 {
            trace.notes.push(format!(
                "the actual run time of {} is used as estimate, because the requested time is \
                 missing",
                plural(unrequested, "job")
            ));
        }
        if earlier > 0 {
            trace.notes.push(format!(
                "jobs are replayed by their time of submission, because {} of the log {} out of \
                 order",
                plural(earlier, "line"),
                if earlier == 1 { "is" } else { "are" }
            ));
        }
        Ok(trace)
    }

    /// Checks that all times of a simulation fit in 64 bits, even if the jobs run one after the other.
    fn check_times(&self, file: &Path) -> Result<(), LoadError> {
        let last_ms = self.jobs.last().map_or(0, |job| job.submit_ms);
        let end_ms =
            self.jobs.iter().try_fold(last_ms, |end_ms, job| end_ms.checked_add(job.requested_ms));
        end_ms.map(drop).ok_or_else(|| {
            let message = "the run times are too large: their sum is more than 584 million years";
            LoadError::new(file, message)
        })
    }

    /// Reason why no job is left.
    fn why_empty(&self) -> String {
        let LeftOut { too_large, run_unknown, size_unknown, submission_unknown } = self.left_out;
        let size = self.processors;
        let reasons = [
            (run_unknown, "without a run time".to_owned()),
            (size_unknown, "without a number of processors".to_owned()),
            (submission_unknown, "without a time of submission".to_owned()),
            (too_large, format!("with more processors than the machine ({size})")),
        ];
        let reasons = reasons.iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<String> =
            reasons.map(|(count, rule)| format!("{} {rule}", plural(*count, "job"))).collect();
        if reasons.is_empty() {
            return "the log has no jobs".to_owned();
        }
        format!("no job of the log can be simulated: {}", reasons.join(", "))
    }

    fn find_processors(&mut self, given: Option<u64>, header: Header) {
        let largest = self.jobs.iter().map(|job| job.processors).max().unwrap_or(0);
        self.processors = match (given, header.processors, header.nodes) {
            (Some(given), ..) => given,
            (None, Some(processors), _) => processors,
            (None, None, Some(nodes)) => {
                let note = format!("the header has no MaxProcs: MaxNodes ({nodes}) is used");
                self.notes.push(note);
                nodes
            }
            (None, None, None) => {
                self.notes.push(format!(
                    "the header has neither MaxProcs nor MaxNodes: the size of the largest job \
                     ({largest}) is used, unless --processors is given"
                ));
                largest
            }
        };
    }

    /// The end of the last job if every job starts at once.
    #[must_use]
    pub fn span_ms(&self) -> u64 {
        self.jobs.iter().map(|job| job.submit_ms.saturating_add(job.run_ms)).max().unwrap_or(0)
    }

    /// Returns the trace with perfect user estimates: each job requests its true run time.
    #[must_use]
    pub fn with_perfect_estimates(&self) -> Trace {
        let mut trace = self.clone();
        for job in &mut trace.jobs {
            job.requested_ms = job.run_ms;
        }
        trace
    }
}

/// A missing field without which a job cannot be simulated.
enum Unknown {
    Run,
    Size,
    Submission,
}

fn sim_job(job: &LoggedJob) -> Result<SimJob, Unknown> {
    let known = |count: &u64| *count > 0;
    let run_ms = job.run_ms.filter(known).ok_or(Unknown::Run)?;
    let processors = job.allocated.filter(known).or(job.requested.filter(known));
    let processors = processors.ok_or(Unknown::Size)?;
    let requested_ms = job.requested_ms.filter(known).unwrap_or(run_ms);
    let run_ms = run_ms.min(requested_ms);
    Ok(SimJob {
        submit_ms: job.submit_ms.ok_or(Unknown::Submission)?,
        run_ms,
        requested_ms,
        processors,
        waited_ms: job.wait_ms,
    })
}
