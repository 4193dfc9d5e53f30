//! The plan of a pass: moves in an order in which each is possible.
//!
//! A *step* is one transaction: one move, or two that need each other's room. A *wave* is a list of steps whose moves
//! may all be in progress at once; the next wave begins when the moved tasks run again. Each step reduces the
//! objective, so every prefix of a plan does, too. The only exception is a step that makes room for a task of the next
//! wave.

use super::objective::{Costs, Objectives, Term};
use omega_core::{MachineId, TaskId};
use serde::Serialize;
use smallvec::SmallVec;

/// A move of one task from one machine to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The task.
    pub task: TaskId,
    /// The position of its group in its job.
    pub group: u16,
    /// Its present machine.
    pub from: MachineId,
    /// Its new machine.
    pub to: MachineId,
}

/// The reason for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The move reduces the objective; this term gains most.
    Gain(Term),
    /// A task of the next step needs the room.
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
    /// None of the examined machines would accept it.
    NoMachine,
    /// All machines that would accept it have no room until another move is done.
    RoomHeld,
    /// All machines that would accept it are outside of the domain in which other tasks need it (runtime affinity).
    RuntimeAffinity,
    /// No move gains more than moving costs.
    NotWorth,
    /// The moves of the pass are used up.
    Moves,
    /// The moves of its job are used up.
    MovesOfJob,
    /// A disruption budget forbids its move in every wave.
    Disruption,
    /// The task uses volumes, which are not in the cell.
    Volumes,
    /// Its kind of job is excluded by the settings.
    LeftAlone,
    /// The pass ended before it was examined.
    NotReached,
}

impl Hindrance {
    /// A description in a few words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Hindrance::NoMachine => "no machine takes it",
            Hindrance::RoomHeld => "room is held until other moves are done",
            Hindrance::RuntimeAffinity => "others need it where it is",
            Hindrance::NotWorth => "not worth a move",
            Hindrance::Moves => "the moves are spent",
            Hindrance::MovesOfJob => "the moves of its job are spent",
            Hindrance::Disruption => "a disruption budget forbids it",
            Hindrance::Volumes => "it uses volumes",
            Hindrance::LeftAlone => "jobs of its kind are left alone",
            Hindrance::NotReached => "the pass ended before its turn",
        }
    }
}

/// A misplaced task that stays on its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The task.
    pub task: TaskId,
    /// The position of its group in its job.
    pub group: u16,
    /// Its machine.
    pub machine: MachineId,
    /// The reason.
    pub why: Hindrance,
}

/// The reason for which a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The search found nothing better.
    NothingBetter,
    /// The moves are used up.
    Moves,
    /// The waves are used up.
    Waves,
    /// The limit on examined moves was reached.
    Steps,
    /// The caller ended it, for example because its time is over.
    Told,
}

/// Statistics of the machines that accept tasks, independent of weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// Number of machines.
    pub machines: usize,
    /// Number of machines on which something is claimed.
    pub in_use: usize,
    /// Number of machines above the safety level, by kind.
    pub above: Vec<usize>,
    /// The largest claimed percentage of any machine, by kind.
    pub fullest: Vec<u32>,
}

/// A plan, and what the pass found out.
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
    /// Misplaced tasks that stay.
    pub stuck: Vec<Stuck>,
    /// Number of other tasks whose departure would gain, but which stay, by reason. Each machine counts as of the last
    /// time it was examined.
    pub hindered: Vec<(Hindrance, usize)>,
    /// Number of tasks that were running.
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

    /// The decrease of the weighted objective.
    #[must_use]
    pub fn gain(&self) -> i128 {
        self.before.total(&self.objectives) - self.after.total(&self.objectives)
    }
}
