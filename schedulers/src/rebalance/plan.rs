//! The plan of a pass: moves in an order in which each is possible.
//!
//! A *step* is one transaction: one move, or two moves that need each other's room. A *wave* is a list of steps whose
//! moves may all be in progress at once; the next wave begins when the moved tasks run again. Each step reduces the
//! objective, so a plan that is applied in part is useful too. The only exception is a step that makes room for a
//! task of the next wave.

use super::objective::{Costs, Objectives, Term};
use omega_core::{MachineId, TaskId};
use serde::Serialize;
use smallvec::SmallVec;

/// A move of one task from one machine to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The task.
    pub task: TaskId,
    /// The position of the task's group in its job.
    pub group: u16,
    /// Machine on which the task runs.
    pub from: MachineId,
    /// Machine to which the task moves.
    pub to: MachineId,
}

/// The reason for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The move reduces the objective; this term has the largest part in the gain.
    Gain(Term),
    /// The step makes room for a task that moves in the next wave.
    MakesRoom,
}

/// A step: the moves of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The moves, in order.
    pub moves: SmallVec<[Move; 2]>,
    /// The reason for the step.
    pub why: Why,
    /// The decrease of the weighted objective.
    pub gain: i128,
}

/// The reason for which a task stays on its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hindrance {
    /// No examined machine would accept the task.
    NoMachine,
    /// All machines that would accept the task lack room until another task's move is done.
    RoomHeld,
    /// All machines that would accept the task are outside its present domain, where other tasks need it (runtime
    /// affinity).
    RuntimeAffinity,
    /// For all machines that would accept the task, a rule of the objectives forbids the move.
    Rule,
    /// No move of the task would gain more than it costs.
    NotWorth,
    /// The pass has reached its maximum number of moves.
    Moves,
    /// The pass has reached the maximum number of moves of the task's job.
    MovesOfJob,
    /// A disruption budget forbids the move in every wave.
    Disruption,
    /// The task uses volumes, of which the cell has no record.
    Volumes,
    /// The settings exclude the type of the task's job (service or batch).
    LeftAlone,
    /// The pass ended before the task was examined.
    NotReached,
}

impl Hindrance {
    /// A description in a few words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Hindrance::NoMachine => "no machine can accept it",
            Hindrance::RoomHeld => "room is held until other moves are done",
            Hindrance::RuntimeAffinity => "other tasks need it on its machine",
            Hindrance::Rule => "a rule of the objectives forbids it",
            Hindrance::NotWorth => "not worth a move",
            Hindrance::Moves => "the maximum number of moves is reached",
            Hindrance::MovesOfJob => "the maximum number of moves of its job is reached",
            Hindrance::Disruption => "a disruption budget forbids it",
            Hindrance::Volumes => "it uses volumes",
            Hindrance::LeftAlone => "jobs of its kind are excluded",
            Hindrance::NotReached => "the pass ended before its turn",
        }
    }
}

/// A misplaced task that stays on its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The task.
    pub task: TaskId,
    /// The position of the task's group in its job.
    pub group: u16,
    /// Machine on which the task stays.
    pub machine: MachineId,
    /// The reason for which the task stays.
    pub why: Hindrance,
}

/// The reason for which a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The search found no further move that reduces the objective.
    NothingBetter,
    /// The maximum number of moves was reached.
    Moves,
    /// The maximum number of waves was reached.
    Waves,
    /// The maximum number of examined pairs of a task and a machine was reached.
    Steps,
    /// The caller ended the pass, for example because its time was over.
    Told,
}

/// Statistics of the machines that accept tasks, independent of weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// Number of machines that accept tasks.
    pub machines: usize,
    /// Number of machines on which something is claimed.
    pub in_use: usize,
    /// Number of machines above the safety level, by kind.
    pub above: Vec<usize>,
    /// The largest claimed percentage of any machine, by kind.
    pub fullest: Vec<u32>,
}

/// A plan, and other results of the pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Objectives of the pass.
    pub objectives: Objectives,
    /// The costs before the plan.
    pub before: Costs,
    /// The costs after the plan.
    pub after: Costs,
    /// The statistics before and after the plan.
    pub pictures: [Picture; 2],
    /// The steps of each wave. No wave is empty.
    pub waves: Vec<Vec<Step>>,
    /// Misplaced tasks that stay on their machines.
    pub stuck: Vec<Stuck>,
    /// For each reason, the number of tasks that stay although their departure would gain. Misplaced tasks are not
    /// counted. The count for each machine is from the last time that the pass examined the machine.
    pub hindered: Vec<(Hindrance, usize)>,
    /// Number of running tasks at the start of the pass.
    pub tasks: usize,
    /// Number of running tasks that were misplaced.
    pub misplaced: usize,
    /// Number of examined pairs of a task and a machine.
    pub considered: u64,
    /// The reason for which the pass ended.
    pub ended: Ended,
}

impl Plan {
    /// All steps in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.waves.iter().flatten()
    }

    /// All moves in order.
    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        self.steps().flat_map(|step| &step.moves)
    }

    /// The decrease of the weighted objective by the whole plan.
    #[must_use]
    pub fn gain(&self) -> i128 {
        self.before.total(&self.objectives) - self.after.total(&self.objectives)
    }
}
