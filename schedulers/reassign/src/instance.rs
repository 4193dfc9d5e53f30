//! Instance of the machine reassignment problem as plain data: machines, jobs, tasks, where each task runs, and costs.
//!
//! The rules and the costs are those of the ROADEF/EURO challenge 2012; docs/rebalance.md states them. The contest has
//! no [`Sharing`], allowed machines, limits on moves or balance ratios (`per`): these are additions for cells.

/// Resource kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Whether a moving task occupies this kind only on the new machine, or also on the old one.
    pub use_while_moving: Transience,
    /// Cost of each unit of use above the safety level.
    pub load_weight: i64,
}

/// Machines on which a task occupies a resource kind while it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transience {
    /// On the new machine only.
    New,
    /// On the old and the new machine.
    Both,
}

/// Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Domain that counts for dependencies between jobs.
    pub neighbourhood: u32,
    /// Domain that counts for the spread of a job.
    pub location: u32,
    /// Capacity of each kind.
    pub capacity: Vec<i64>,
    /// Safety level of each kind: use above it has a cost.
    pub safety: Vec<i64>,
    /// Cost of moving a task from this machine to each machine; empty if moves cost nothing.
    pub move_costs: Vec<i64>,
}

/// Whether several tasks of a job may run on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// At most one task of the job on a machine.
    #[default]
    Apart,
    /// Any number of tasks of the job on a machine.
    Together,
}

/// Job: tasks under common rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Whether tasks of the job may share a machine.
    pub sharing: Sharing,
    /// Minimum number of locations in which its tasks run.
    pub spread: u32,
    /// Jobs on which this job depends. In each neighbourhood with a task of this job, each of these jobs must have a
    /// task.
    pub depends_on: Vec<u32>,
}

/// Task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Position of the task's job.
    pub job: u32,
    /// Use of each kind.
    pub request: Vec<i64>,
    /// Cost of moving the task.
    pub move_cost: i64,
    /// Set of machines to which the task may move, as a position in [`Instance::allowed`]; `None` allows all machines.
    pub allowed: Option<u32>,
}

/// Balance objective: a desired ratio of the free amounts of two kinds, as whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Kind whose free amount sets how much of `second` should be free.
    pub first: u32,
    /// Kind that should be free in proportion to `first`.
    pub second: u32,
    /// Desired free units of `second` for every `per` units of `first` that are free.
    pub target: i64,
    /// Units of `first` to which `target` refers; at least 1.
    pub per: i64,
    /// Cost per missing unit of `second`, where the missing amount is first multiplied by `per`.
    pub weight: i64,
}

/// Weights of the costs of moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveWeights {
    /// Weight of the sum of [`Task::move_cost`] over moved tasks.
    pub task: i64,
    /// Weight of the largest number of moved tasks of any job.
    pub job: i64,
    /// Weight of the sum of [`Machine::move_costs`] over moved tasks.
    pub machine: i64,
}

/// Limits on the number of moved tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveLimits {
    /// Maximum number of moved tasks of all jobs together.
    pub total: u32,
    /// Maximum number of moved tasks of one job.
    pub per_job: u32,
}

impl Default for MoveLimits {
    fn default() -> MoveLimits {
        MoveLimits { total: u32::MAX, per_job: u32::MAX }
    }
}

/// All data of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Resource kinds.
    pub kinds: Vec<Kind>,
    /// Machines.
    pub machines: Vec<Machine>,
    /// Jobs.
    pub jobs: Vec<Job>,
    /// Tasks.
    pub tasks: Vec<Task>,
    /// Balance objectives.
    pub balances: Vec<Balance>,
    /// Sets of allowed machines, for [`Task::allowed`]; each set has a flag for every machine.
    pub allowed: Vec<Vec<bool>>,
    /// Weights of moves.
    pub weights: MoveWeights,
    /// Limits on moves.
    pub limits: MoveLimits,
    /// Machine on which each task runs.
    pub initial: Vec<u32>,
}
