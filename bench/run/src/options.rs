//! Options of a run, and its progress.

use crate::backend::DurableBackend;
use crate::stop::Stop;
use omega_core::{Command, ConflictCheck, Granularity};
use omega_schedulers::config::Profiles;
use omega_schedulers::rebalance::Objectives;
use omega_schedulers::{Nanos, Search};
use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum lead of the clock over the schedulers at full pace, in tasks. The clock waits while this many tasks are
/// pending, or while some scheduler has not yet seen four times as many arrivals and ends of tasks. In small cells the
/// limit is two tasks for five machines. With this window, every scheduler has work. The window is also small compared
/// with the number of running tasks, so tasks are placed, and end, only slightly later than in the trace. (Without a
/// limit, all jobs of a small workload would arrive before its first task ends.)
pub const WINDOW_MAX: usize = 4096;

/// Names of clients that are not schedulers. Jobs for `offers` are placed by frameworks that get offers, one per
/// tenant. Each job for `asks` is an application that requests containers.
pub const CLIENTS: [&str; 2] = ["offers", "asks"];

/// Speed of the workload's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the schedulers can follow.
    Fastest,
    /// As fast as possible, but before each event the schedulers try all pending jobs. The same input then gives the
    /// same run, unless the order of the schedulers' commits matters.
    InTurns,
    /// Seconds of the workload per second of the run.
    Speed(f64),
}

impl Pace {
    /// Whether the wall clock determines the times of events.
    pub(crate) fn is_timed(self) -> bool {
        matches!(self, Pace::Speed(_))
    }
}

/// Concurrency of the schedulers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// Each scheduler has its own thread. If two schedulers claim the same resources, the timing of the threads decides
    /// which of the two commits first.
    #[default]
    Threads,
    /// All schedulers run in lock step on one thread: the same input and seed give the same placements, conflicts and
    /// samples. This requires a cell in memory, and a pace that does not follow the wall clock.
    LockStep,
}

/// Schedulers that may evict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evict {
    /// The schedulers whose profiles have a plugin that evicts.
    #[default]
    AsProfilesSay,
    /// Every scheduler.
    Always,
}

/// Rebalancing during a run.
#[derive(Clone, Debug)]
pub struct Rebalancing {
    /// Interval of the passes, in milliseconds of the workload's time.
    pub every_ms: u64,
    /// Objectives by which tasks are moved.
    pub objectives: Objectives,
}

/// Output of the placements of a run, as CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacedFile {
    /// Standard output.
    Stdout,
    /// A file with this path, which is replaced.
    Path(PathBuf),
}

impl Display for PlacedFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            PlacedFile::Stdout => f.write_str("standard output"),
            PlacedFile::Path(path) => path.display().fmt(f),
        }
    }
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Number of schedulers for the jobs that name `service`.
    pub service_schedulers: u32,
    /// Number of schedulers for the jobs that name `batch`; each gets a part of the jobs.
    pub batch_schedulers: u32,
    /// Maximum number of claims in a transaction.
    pub claims_max: usize,
    /// Time in nanoseconds for which a scheduler keeps a transaction open when it has no further job to try.
    pub hold: Nanos,
    /// Whether transactions may be committed in part.
    pub granularity: Granularity,
    /// Check that decides whether a claim conflicts.
    pub check: ConflictCheck,
    /// Search method of all schedulers; `None` keeps the search method of each profile.
    pub search: Option<Search>,
    /// Profiles by scheduler name. Other schedulers have built-in profiles.
    pub profiles: Profiles,
    /// Schedulers that evict tasks of lower precedence for tasks that fit on no machine.
    pub evict: Evict,
    /// Speed of the workload's time.
    pub pace: Pace,
    /// Concurrency of the schedulers.
    pub workers: Workers,
    /// The seed of the schedulers' choices.
    pub seed: u64,
    /// A request to end the run early.
    pub stop: Stop,
    /// The storage of the cell; `None` for a cell in memory.
    pub backend: Option<Arc<dyn DurableBackend>>,
    /// Commands that are applied before all others. They set what a workload does not contain, such as tenants, quotas
    /// and policy.
    pub setup: Vec<Command>,
    /// Rebalancing during the run; `None` leaves tasks on their machines.
    pub rebalancing: Option<Rebalancing>,
    /// Output of the placements: a row for each placement or move that the cell accepts; `None` writes none.
    pub placed: Option<PlacedFile>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            service_schedulers: 1,
            batch_schedulers: 3,
            claims_max: 100,
            hold: 0,
            granularity: Granularity::Incremental,
            check: ConflictCheck::ResourceFit,
            search: None,
            profiles: Profiles::default(),
            evict: Evict::default(),
            pace: Pace::Fastest,
            workers: Workers::default(),
            seed: 1,
            stop: Stop::default(),
            backend: None,
            setup: Vec::new(),
            rebalancing: None,
            placed: None,
        }
    }
}

/// Progress of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Number of tasks that were submitted.
    pub submitted: u64,
    /// Number of tasks of the whole workload.
    pub tasks: u64,
    /// Placements so far.
    pub placements: u64,
    /// Number of pending tasks.
    pub pending: u64,
}
