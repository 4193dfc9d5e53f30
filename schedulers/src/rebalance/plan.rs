//! Plan of a pass: moves in an order in which each is possible.
//!
//! A *step* is what one transaction does, all of it or nothing: one move, or two that need each other's room.
//! A *wave* is the steps whose moves may all be under way at once; the next wave begins when the tasks of the
//! last one run again. Each step makes the objective smaller, and so does every beginning of a plan; the only
//! exception is a step that makes room for a task of the next wave.

use super::objective::{Costs, Objectives, Term};
use omega_core::{MachineId, TaskId};
use serde::Serialize;
use smallvec::SmallVec;

/// One task from one machine to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which.
    pub task: TaskId,
    /// The position of its group in its job.
    pub group: u16,
    /// Where it runs.
    pub from: MachineId,
    /// Where it is to run.
    pub to: MachineId,
}

/// Why a step is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The term that gains most by it.
    Gain(Term),
    /// A task of the next step needs the room.
    MakesRoom,
}

/// Actions of one transaction. See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The moves, in order.
    pub moves: SmallVec<[Move; 2]>,
    /// Why.
    pub why: Why,
    /// By how much the weighted objective becomes smaller.
    pub gain: i128,
}

/// Why a task stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hindrance {
    /// No machine that was looked at would take it.
    NoMachine,
    /// Only machines would take it where the room is held until another move is done.
    RoomHeld,
    /// Only machines would take it that are too far from tasks that need it near them.
    RuntimeAffinity,
    /// No move of it would be worth what moving costs.
    NotWorth,
    /// The moves are spent.
    Moves,
    /// The moves of its job are spent.
    MovesOfJob,
    /// A disruption budget forbids it, in every wave.
    Disruption,
    /// It uses volumes, of which the cell knows nothing.
    Volumes,
    /// It is of a kind of job that is to be left alone.
    LeftAlone,
    /// The pass ended before its turn came.
    NotReached,
}

impl Hindrance {
    /// It in a few words for a person.
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

/// A misplaced task that stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Which.
    pub task: TaskId,
    /// The position of its group in its job.
    pub group: u16,
    /// Where.
    pub machine: MachineId,
    /// Why.
    pub why: Hindrance,
}

/// Why a pass looked no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It found nothing better.
    NothingBetter,
    /// The moves are spent.
    Moves,
    /// The waves are.
    Waves,
    /// It has looked at as many moves as it may.
    Steps,
    /// The caller said so: the time is over.
    Told,
}

/// Facts about a cell without weights: of the machines that take tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// Their number.
    pub machines: usize,
    /// Number of them something that is claimed of.
    pub in_use: usize,
    /// By kind: how many are above their safety level.
    pub above: Vec<usize>,
    /// By kind: how much of the fullest one is claimed, in percent.
    pub fullest: Vec<u32>,
}

/// See the head of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Objectives of the pass.
    pub objectives: Objectives,
    /// The objective as it was.
    pub before: Costs,
    /// The objective once all is done.
    pub after: Costs,
    /// The cell as it was, and as it is once all is done.
    pub pictures: [Picture; 2],
    /// The steps, wave by wave. No wave is empty.
    pub waves: Vec<Vec<Step>>,
    /// Misplaced tasks that stay.
    pub stuck: Vec<Stuck>,
    /// Number of other tasks would leave a dearer place, and stay for each reason: as of the last look at each
    /// machine.
    pub hindered: Vec<(Hindrance, usize)>,
    /// Number of tasks that were running.
    pub tasks: usize,
    /// Number of them that were misplaced.
    pub misplaced: usize,
    /// Number of pairs of a task and a machine were looked at.
    pub considered: u64,
    /// Why it looked no further.
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

    /// By how much the weighted objective becomes smaller.
    #[must_use]
    pub fn gain(&self) -> i128 {
        self.before.total(&self.objectives) - self.after.total(&self.objectives)
    }
}
