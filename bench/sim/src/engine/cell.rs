//! The event loop's interface to a cell. Schedulers are numbered, and the cell keeps a view for each.

/// Conflict check and granularity of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitMode {
    /// Conflict check: by fit, or by sequence number.
    pub check: omega_core::ConflictCheck,
    /// Whether a transaction with a conflict commits its other claims.
    pub granularity: Granularity,
}

/// Whether a transaction with a conflict commits its other claims.
pub use omega_core::Granularity;

/// Access of a scheduler to the cell during a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The scheduler decides on the state at the end of the decision, because no other scheduler exists.
    Live,
    /// The scheduler decides on a copy made when the decision began.
    Copy,
}

/// Result of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Number of tasks for which the attempt claimed a machine.
    pub claimed: u32,
    /// Number of claims that were committed.
    pub taken: u32,
    /// The started tasks, which end together.
    pub run: Option<Taken>,
}

/// Number by which the cell identifies the tasks of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taken(pub u32);

/// Tasks of a job that already run when the job arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Number of the tasks.
    pub tasks: u32,
    /// The running tasks, which end together.
    pub run: Option<Taken>,
}

/// Result of ending tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ended {
    /// Number of ended tasks.
    pub tasks: u32,
    /// Seconds until the next tasks of the same commit end; `None` if no others will end.
    pub again_s: Option<f64>,
}

/// Tasks of a job that lost their machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The number of the job.
    pub job: u32,
    /// Number of the job's tasks that lost their machine.
    pub tasks: u32,
    /// Number of the job's other tasks, which had no machine before.
    pub waiting: u32,
}

/// A cell that can be simulated.
pub trait Cell {
    /// Handles the arrival of a job. Returns its tasks that already run.
    fn arrive(&mut self, job: usize) -> Running;

    /// Returns the number of tasks that a job gets; by default, the requested number. The event loop calls this when
    /// the job's first decision begins.
    fn size(&mut self, _job: usize, tasks: u32) -> u32 {
        tasks
    }

    /// Copies the present state of the cell for a scheduler, at the beginning of its decision.
    fn copy(&mut self, scheduler: usize);

    /// Ends a scheduler's decision: places tasks of the job on its copy, and commits them.
    fn attempt(&mut self, scheduler: usize, job: usize, tasks: u32, access: Access) -> Attempt;

    /// Seconds from the start of a commit's tasks until the first of them ends; `None` if the tasks do not end.
    fn runs_for(&self, run: Taken) -> Option<f64>;

    /// Ends those tasks of a commit that are due to end now.
    fn end(&mut self, run: Taken) -> Ended;

    /// Whether a job has rules about other tasks, so that placements may make machines feasible for it.
    fn has_rules(&self, _job: usize) -> bool {
        false
    }

    /// Applies the machine change with this number. Returns the tasks that lost their machines. By default, nothing
    /// changes.
    fn change(&mut self, _number: usize) -> Vec<Lost> {
        Vec::new()
    }

    /// Advances the time to that of the next event. A cell may measure further figures here.
    fn pass(&mut self, _now_s: f64) {}

    /// Allocated shares of the cell's processors and memory.
    fn used(&self) -> [f64; 2];
}
