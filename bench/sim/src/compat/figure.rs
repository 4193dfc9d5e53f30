//! Compared figures, and their tolerances.

use super::Architecture;
use crate::engine::{JobRecord, Kind, Records, SchedulerRecord};

/// A column of a reference file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Fraction of time in which a scheduler of the group was deciding.
    Busy,
    /// Fraction of time in which a scheduler made decisions that met no conflict.
    Useful,
    /// Fraction of time in which a scheduler made decisions that met a conflict.
    Wasted,
    /// Transactions without a conflict.
    Succeeded,
    /// Transactions with a conflict.
    Failed,
    /// Ratio of transactions with a conflict to transactions without.
    ConflictFraction,
    /// Attempts without a feasible machine.
    NoRoom,
    /// Transactions of jobs that had an attempt before.
    Retried,
    /// Abandoned jobs.
    Abandoned,
    /// Jobs that are queued at the end.
    LeftInQueue,
    /// Jobs with at least one completed attempt.
    JobsAttempted,
    /// Jobs all of whose tasks were placed.
    JobsFully,
    /// Tasks that were placed.
    TasksPlaced,
    /// Mean time from the submission of a job to its first attempt, over jobs with an attempt.
    WaitMean,
}

/// Computed value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Got {
    /// A number.
    Number(f64),
    /// A fraction whose denominator is zero; programs print it in different ways.
    Undefined,
}

impl Figure {
    /// All figures, in the order of the columns.
    pub const ALL: [Figure; 14] = [
        Figure::Busy,
        Figure::Useful,
        Figure::Wasted,
        Figure::Succeeded,
        Figure::Failed,
        Figure::ConflictFraction,
        Figure::NoRoom,
        Figure::Retried,
        Figure::Abandoned,
        Figure::LeftInQueue,
        Figure::JobsAttempted,
        Figure::JobsFully,
        Figure::TasksPlaced,
        Figure::WaitMean,
    ];

    /// Name of the figure's column in the file.
    #[must_use]
    pub fn column(self) -> &'static str {
        match self {
            Figure::Busy => "busy",
            Figure::Useful => "useful",
            Figure::Wasted => "wasted",
            Figure::Succeeded => "succ_tx",
            Figure::Failed => "fail_tx",
            Figure::ConflictFraction => "conflict_fraction",
            Figure::NoRoom => "nofit_attempts",
            Figure::Retried => "retried_tx",
            Figure::Abandoned => "abandoned",
            Figure::LeftInQueue => "left_in_queue",
            Figure::JobsAttempted => "wl_jobs_attempted",
            Figure::JobsFully => "wl_jobs_fully",
            Figure::TasksPlaced => "wl_tasks_placed",
            Figure::WaitMean => "wait_mean",
        }
    }

    /// Whether the reference reports the figure for this architecture.
    #[must_use]
    pub fn is_compared(self, architecture: Architecture) -> bool {
        let shared = matches!(architecture, Architecture::SharedState(_));
        shared || !matches!(self, Figure::NoRoom | Figure::Retried)
    }

    /// The figure's value for the schedulers of a group and the jobs of a kind.
    #[must_use]
    pub fn of(
        self,
        records: &[SchedulerRecord],
        jobs: &[JobRecord],
        tasks: u64,
        end_s: f64,
    ) -> Got {
        let share = |of: &dyn Fn(&SchedulerRecord) -> f64| {
            records.iter().map(|record| of(record) / end_s).sum::<f64>() / records.len() as f64
        };
        let sum = |of: &dyn Fn(&SchedulerRecord) -> u64| records.iter().map(of).sum::<u64>() as f64;
        let attempted = || jobs.iter().filter(|job| job.attempts > 0);
        Got::Number(match self {
            Figure::Busy => share(&|record| record.useful_s + record.wasted_s),
            Figure::Useful => share(&|record| record.useful_s),
            Figure::Wasted => share(&|record| record.wasted_s),
            Figure::Succeeded => sum(&|record| record.succeeded),
            Figure::Failed => sum(&|record| record.failed),
            Figure::ConflictFraction => {
                return match sum(&|record| record.succeeded) {
                    0.0 => Got::Undefined,
                    succeeded => Got::Number(sum(&|record| record.failed) / succeeded),
                };
            }
            Figure::NoRoom => sum(&|record| record.no_room),
            Figure::Retried => sum(&|record| record.retried),
            Figure::Abandoned => sum(&|record| record.abandoned),
            Figure::LeftInQueue => sum(&|record| record.left_in_queue),
            Figure::JobsAttempted => attempted().count() as f64,
            Figure::JobsFully => jobs.iter().filter(|job| job.unplaced == 0).count() as f64,
            Figure::TasksPlaced => {
                let unplaced: u64 = jobs.iter().map(|job| u64::from(job.unplaced)).sum();
                (tasks - unplaced) as f64
            }
            Figure::WaitMean => match attempted().count() {
                0 => return Got::Undefined,
                count => attempted().map(|job| job.wait_s).sum::<f64>() / count as f64,
            },
        })
    }
}

/// The number of decimals of a printed number.
fn places(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, places)| places.len())
}

impl Got {
    /// Whether the value, printed with as many decimals as the text, equals the text. A value exactly between two such
    /// numbers equals both, because C rounds half to even, and Java rounds half up.
    #[must_use]
    pub fn is(self, text: &str) -> bool {
        let Ok(expected) = text.parse::<f64>() else { return false };
        match self {
            Got::Undefined => expected == 0.0 || !expected.is_finite(),
            Got::Number(number) => {
                let unit = 10_f64.powi(-(places(text) as i32));
                // A millionth of the last digit's unit is far more than rounding errors, and far less than a digit.
                (number - expected).abs() <= unit * (0.5 + 1e-6)
            }
        }
    }

    /// Prints the value in the form of the given text.
    #[must_use]
    pub fn like(self, text: &str) -> String {
        match self {
            Got::Undefined => "undefined".into(),
            Got::Number(number) => format!("{number:.*}", places(text)),
        }
    }
}

/// Returns the jobs of a kind from records in which batch jobs come first.
pub(super) fn jobs_of(records: &Records, batch_jobs: usize, kind: Kind) -> &[JobRecord] {
    let (batch, service) = records.jobs.split_at(batch_jobs);
    match kind {
        Kind::Batch => batch,
        Kind::Service => service,
    }
}
