//! Objectives of a run: bounds on waits, on placed jobs, and on usage of the cell.
//!
//! The waits of all arrived jobs count. A job that is still pending at the end has waited until then, and a job that was
//! abandoned has an infinite wait. Otherwise a cell that is much too small would look good.

use crate::scenario::{JobOutcome, Outcome};
use omega_core::JobKind;

/// Measured time of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Time from submission to the placement of the last task, or to the end of the run.
    Wait,
    /// Time from submission to the placement of the last task; infinite if there is none.
    Placed,
}

/// An objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// This percentage of the jobs of a kind, or of all, take at most this time.
    Times {
        /// The measured time.
        of: Of,
        /// Kind of the jobs; `None` for all.
        kind: Option<JobKind>,
        /// Percentage of the jobs.
        percent: u8,
        /// Maximum in seconds.
        most_s: f64,
    },
    /// At least this share of the jobs is placed completely.
    Placed {
        /// Kind of the jobs; `None` for all.
        kind: Option<JobKind>,
        /// The minimum share.
        least: f64,
    },
    /// At most this share of the processors, and of the memory, is in use on average.
    Used {
        /// The maximum share.
        most: f64,
    },
}

/// The noun for jobs of a kind.
fn jobs(kind: Option<JobKind>) -> &'static str {
    match kind {
        None => "all jobs",
        Some(JobKind::Batch) => "batch jobs",
        Some(JobKind::Service) => "service jobs",
    }
}

impl Objective {
    /// Name of the objective's value, for columns and files.
    #[must_use]
    pub fn name(&self) -> String {
        let (name, kind) = match self {
            Objective::Times { of: Of::Wait, kind, percent, .. } => {
                (format!("wait_p{percent}_s"), *kind)
            }
            Objective::Times { of: Of::Placed, kind, percent, .. } => {
                (format!("placed_p{percent}_s"), *kind)
            }
            Objective::Placed { kind, .. } => ("placed".to_owned(), *kind),
            Objective::Used { .. } => ("used".to_owned(), None),
        };
        match kind {
            None => name,
            Some(JobKind::Batch) => format!("batch_{name}"),
            Some(JobKind::Service) => format!("service_{name}"),
        }
    }

    /// Objective in words.
    #[must_use]
    pub fn words(&self) -> String {
        match *self {
            Objective::Times { of: Of::Wait, kind, percent, most_s } => {
                format!("{percent} % of {} wait at most {most_s} s", jobs(kind))
            }
            Objective::Times { of: Of::Placed, kind, percent, most_s } => {
                format!("{percent} % of {} are placed whole within {most_s} s", jobs(kind))
            }
            Objective::Placed { kind, least } => {
                format!("at least {} % of {} are placed whole", round(least * 100.0), jobs(kind))
            }
            Objective::Used { most } => {
                format!("at most {} % of processors and memory are taken", round(most * 100.0))
            }
        }
    }

    /// The bound of the objective.
    #[must_use]
    pub fn bound(&self) -> f64 {
        match *self {
            Objective::Times { most_s, .. } => most_s,
            Objective::Placed { least, .. } => least,
            Objective::Used { most } => most,
        }
    }

    /// Whether the objective is about jobs of this kind.
    #[must_use]
    pub fn is_about(&self, jobs: JobKind) -> bool {
        match *self {
            Objective::Times { kind, .. } | Objective::Placed { kind, .. } => {
                kind.is_none_or(|kind| kind == jobs)
            }
            Objective::Used { .. } => true,
        }
    }

    /// Whether the objective's value is a share rather than a time.
    #[must_use]
    pub fn is_share(&self) -> bool {
        !matches!(self, Objective::Times { .. })
    }

    /// Formats a value of the objective for people.
    #[must_use]
    pub fn show(&self, figure: f64) -> String {
        if figure.is_infinite() {
            "never".to_owned()
        } else if self.is_share() {
            format!("{:.2} %", figure * 100.0)
        } else {
            format!("{figure:.3}")
        }
    }

    /// Value of the objective in a run, maybe infinite.
    #[must_use]
    pub fn figure(&self, outcome: &Outcome) -> f64 {
        let mine = |kind: Option<JobKind>| {
            outcome.jobs().filter(move |job| kind.is_none_or(|kind| job.kind == kind))
        };
        match *self {
            Objective::Times { of, kind, percent, .. } => {
                let time = |job: JobOutcome| match of {
                    Of::Wait => job.pending_s,
                    Of::Placed => job.placed_s,
                };
                let mut times: Vec<f64> = mine(kind).filter(JobOutcome::waited).map(time).collect();
                times.sort_unstable_by(f64::total_cmp);
                // The least time that this percentage of the jobs does not exceed.
                let rank = (times.len() * usize::from(percent)).div_ceil(100);
                times.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
            }
            Objective::Placed { kind, .. } => {
                let placed = mine(kind).filter(|job| job.placed_s.is_finite()).count();
                match mine(kind).count() {
                    0 => 1.0,
                    all => placed as f64 / all as f64,
                }
            }
            Objective::Used { .. } => outcome.report.cpu_used.max(outcome.report.memory_used),
        }
    }

    /// Whether a value meets the objective.
    #[must_use]
    pub fn holds(&self, figure: f64) -> bool {
        match *self {
            Objective::Times { most_s, .. } => figure <= most_s,
            Objective::Placed { least, .. } => figure >= least,
            Objective::Used { most } => figure <= most,
        }
    }
}

/// Rounds to six decimal digits, which removes the error of binary fractions.
fn round(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
