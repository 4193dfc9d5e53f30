//! Instance of the machine reassignment problem as plain data: machines, jobs, tasks, where each task runs, and costs.
//!
//! The rules and the costs are those of the ROADEF/EURO challenge 2012; docs/rebalance.md states them.

/// Resource kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Whether a task occupies both machines until its move is done.
    pub use_while_moving: Transience,
    /// Cost of each unit of use above the safety level.
    pub load_weight: i64,
}

/// Use of a kind by a task that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transience {
    /// Only the new machine.
    New,
    /// Both machines.
    Both,
}

/// Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Domain for dependencies between jobs.
    pub neighbourhood: u32,
    /// Domain for the spread of a job.
    pub location: u32,
    /// Capacity of each kind.
    pub capacity: Vec<i64>,
    /// Use of each kind above which load costs.
    pub safety: Vec<i64>,
    /// Cost of moving a task from here to each machine; empty if it costs nothing.
    pub move_costs: Vec<i64>,
}

/// Job: tasks that never share a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Least number of locations in which its tasks run.
    pub spread: u32,
    /// Jobs of which a task runs in each neighbourhood in which a task of this job runs.
    pub depends_on: Vec<u32>,
}

/// Task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Position of its job.
    pub job: u32,
    /// Use of each kind.
    pub request: Vec<i64>,
    /// Cost of moving it.
    pub move_cost: i64,
}

/// Balance objective: for each free unit of one kind, so many free units of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Kind that is free.
    pub first: u32,
    /// Kind to be free beside it.
    pub second: u32,
    /// Units of `second` for each unit of `first`.
    pub target: i64,
    /// Cost of each missing unit of `second`.
    pub weight: i64,
}

/// Weights of the costs of moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveWeights {
    /// Weight of the sum of [`Task::move_cost`] over moved tasks.
    pub task: i64,
    /// Weight of the number of moved tasks of the job with the most.
    pub job: i64,
    /// Weight of the sum of [`Machine::move_costs`] over moved tasks.
    pub machine: i64,
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
    /// Weights of moves.
    pub weights: MoveWeights,
    /// Machine on which each task runs.
    pub initial: Vec<u32>,
}
