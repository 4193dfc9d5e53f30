//! Search for better machines, on a view that already contains the accepted moves.
//!
//! ```text
//!   task ─▶ lift it ─▶ filters: words of 64 machines ─▶ cheapest of those that were looked at ─▶ put it back
//!                                                                  │ a gain
//!                                                                  ▼
//!                              lift, claim (the view's check), compute the costs; no gain: undo all
//! ```
//! The profile's filters and the view's check decide where a task may run, with the task taken off its machine. The
//! search itself computes only the gains.

use super::Settings;
use super::account::{Account, Proposed};
use super::aims::demand::Change;
use super::aims::rules::{Keep, Shift};
use super::budget::{Left, Protectors, Spent};
use super::hold::Hold;
use super::objective::{Costs, Term};
use super::plan::{Hindrance, Move, Step, Why};
use crate::framework::plugin::lanes;
use crate::framework::plugin::tasks;
use crate::preemption::Budget as Disruption;
use foldhash::fast::FixedState;
use omega_cellstate::{BLOCK, GroupRef, Need, PlacedTask, View};
use omega_core::{Job, JobId, TaskId};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A task group whose tasks the search has examined.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) group: GroupRef,
    protectors: Protectors,
    /// The reason why no task of the group may move; `None` if its tasks may move.
    stays: Option<Hindrance>,
}

/// A placed task, and the row of its machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occupant {
    pub(super) row: usize,
    pub(super) task: PlacedTask,
}

/// Number of machines that are examined for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// All machines.
    Everywhere,
    /// Machines from a random block on, until this number of feasible machines is found.
    UntilFeasible(usize),
}

/// Result of a search for one task.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// The row where the task costs least, and its cost there.
    best: Option<(usize, i64)>,
    /// Number of feasible machines.
    feasible: usize,
    /// Number of feasible machines on which moved tasks still occupy the task's room until the next wave.
    held: usize,
    /// Number of further machines that would be feasible if no rule of the objectives forbade the move.
    ruled: usize,
    /// Number of further machines that would be feasible if they were in the domain where another task needs this task.
    apart: usize,
}

/// The state of a pass: the view with all moves so far, the costs, and the bounds that are left.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) view: &'a mut View,
    pub(super) settings: &'a Settings,
    pub(super) account: Account,
    pub(super) left: Left,
    pub(super) hold: Hold,
    pub(super) keep: Keep,
    pub(super) rng: Pcg64,
    known: Vec<Known>,
    numbers: HashMap<(JobId, u16), u32, FixedState>,
    pub(super) misplaced: HashSet<TaskId, FixedState>,
    pub(super) moved: HashSet<TaskId, FixedState>,
    /// For each row, whether a task has left or entered it since the row was last examined.
    pub(super) changed: Vec<bool>,
    /// Tasks removed from the view, each with its row, in the order of removal.
    lifted: Vec<(usize, PlacedTask)>,
    pub(super) done: Vec<Vec<Step>>,
    pub(super) wave: Vec<Step>,
    /// Whether a move that is impossible in this wave may be possible in the next.
    pub(super) awaits: bool,
    pub(super) considered: u64,
    /// Number of changes that annealing tried.
    pub(super) annealed: u64,
}

impl<'a> Search<'a> {
    /// Begins a pass on a synced view.
    pub(super) fn new(
        view: &'a mut View,
        settings: &'a Settings,
        disruptions: Vec<Disruption>,
    ) -> Search<'a> {
        let mut search = Search {
            account: Account::new(&settings.objectives, view),
            left: Left::new(&settings.bounds, disruptions),
            hold: Hold::new(&settings.transient, view),
            keep: Keep::new(&settings.objectives.rules, view),
            rng: Pcg64::seed_from_u64(settings.seed),
            known: Vec::new(),
            numbers: HashMap::default(),
            misplaced: HashSet::default(),
            moved: HashSet::default(),
            changed: vec![false; view.rows()],
            lifted: Vec::new(),
            done: Vec::new(),
            wave: Vec::new(),
            awaits: false,
            considered: 0,
            annealed: 0,
            view,
            settings,
        };
        search.find_misplaced();
        search
    }

    /// Records the misplaced tasks. A task is misplaced if its machine would not accept it now, even with enough room
    /// and without rules about other tasks.
    fn find_misplaced(&mut self) {
        for row in 0..self.view.rows() {
            for index in 0..self.view.tasks_on(row).len() {
                let task = self.view.tasks_on(row)[index];
                let Some(known) = self.know(task) else { continue };
                let need = self.view.need(self.known[known].group);
                if self.settings.objectives.misplaced > 0 && !suits(self.view, row, need) {
                    self.misplaced.insert(task.id);
                    self.account.misplaced(1);
                }
            }
        }
    }

    /// Returns the position of a task's group in the list of known groups, and adds the group if it is new. Returns
    /// `None` if the job has ended.
    pub(super) fn know(&mut self, task: PlacedTask) -> Option<usize> {
        if let Some(number) = self.numbers.get(&(task.id.job, task.group)) {
            return Some(*number as usize);
        }
        let job = self.view.job_of(task.id)?.clone();
        let index = usize::from(task.group);
        let known = Known {
            group: self.view.compile(task.id.job, &job, index),
            protectors: self.left.protectors(&job, index),
            stays: self.stays(&job, index),
        };
        let number = self.known.len();
        self.numbers.insert((task.id.job, task.group), number as u32);
        self.known.push(known);
        Some(number)
    }

    fn stays(&self, job: &Arc<Job>, group: usize) -> Option<Hindrance> {
        if !job.groups[group].volumes.is_empty() {
            return Some(Hindrance::Volumes);
        }
        let is_left = self.settings.only.is_some_and(|kind| kind != job.kind);
        is_left.then_some(Hindrance::LeftAlone)
    }

    /// Whether no task of a known group may move.
    pub(super) fn stays_put(&self, known: usize) -> bool {
        self.known[known].stays.is_some()
    }

    /// The compiled form of a known group.
    pub(super) fn group(&self, known: usize) -> GroupRef {
        self.known[known].group
    }

    /// The needs of a known group.
    pub(super) fn need(&self, known: usize) -> &Need {
        self.view.need(self.known[known].group)
    }

    /// Returns the tasks on a row that may move and have not moved, the most important first.
    ///
    /// Tasks whose allocation differs from their group's request are left out, because a move would change the
    /// allocation back to the request.
    pub(super) fn unmoved(&self, row: usize) -> SmallVec<[PlacedTask; 32]> {
        let tasks = self.view.tasks_on(row).iter();
        let stays = |task: &&PlacedTask| {
            self.moved.contains(&task.id) || self.view.has_allocation_override(task.id)
        };
        tasks.filter(|task| !stays(task)).copied().collect()
    }

    /// Checks whether these tasks may move together in this wave.
    pub(super) fn may_move(&mut self, tasks: &[(PlacedTask, usize)]) -> Result<(), Hindrance> {
        for (_, known) in tasks {
            self.known[*known].stays.map_or(Ok(()), Err)?;
        }
        let with = tasks.iter().map(|(task, known)| (task.id, &self.known[*known].protectors));
        self.left.allows(with).map_err(|spent| match spent {
            Spent::Moves => Hindrance::Moves,
            Spent::OfJob => Hindrance::MovesOfJob,
            Spent::Disruption => {
                self.awaits = true;
                Hindrance::Disruption
            }
        })
    }

    /// Returns the weighted gain of removing a task from its row, minus the cost of the move.
    pub(super) fn gain_of_leaving(&self, row: usize, task: PlacedTask, known: usize) -> i64 {
        let request = &self.need(known).request;
        let misplaced =
            if self.misplaced.contains(&task.id) { self.account.of_misplaced() } else { 0 };
        self.account.leaving(self.view, row, task.id.job, self.need(known)) + misplaced
            - self.account.of_move(task.id.job, request, self.left.moved_of(task.id.job))
    }

    /// Returns the best move of a task off its row, and the gain of this move, which is at least `least`. `off` is the
    /// gain of the task's departure alone. If there is no such move, returns the reason.
    pub(super) fn best_move(
        &mut self,
        at: Occupant,
        off: i64,
        least: i64,
        look: Look,
    ) -> Result<(Proposed, i64), Hindrance> {
        let Occupant { row, task } = at;
        let known = self.know(task).ok_or(Hindrance::NoMachine)?;
        self.may_move(&[(task, known)])?;
        let objective = self.account.objective();
        if off + objective.arrival_gain_max(&self.need(known).request) < least.max(1) {
            return Err(Hindrance::NotWorth);
        }
        let (to, costs) = self.cheapest(at, known, look)?;
        let gain = off - costs;
        if gain >= least.max(1) {
            Ok((Proposed { task, from: row, to }, gain))
        } else {
            Err(Hindrance::NotWorth)
        }
    }

    /// Returns the row where a task would cost least, and its cost there; or the reason why there is none.
    pub(super) fn cheapest(
        &mut self,
        Occupant { row, task }: Occupant,
        known: usize,
        look: Look,
    ) -> Result<(usize, i64), Hindrance> {
        self.view.lift(row, task);
        let found = self.scan(row, task.id.job, known, look);
        self.view.put_back(row, task);
        match found.best {
            Some(best) => Ok(best),
            None if found.feasible == 0 && found.apart > 0 => Err(Hindrance::RuntimeAffinity),
            None if found.feasible == 0 && found.ruled > 0 => Err(Hindrance::Rule),
            None if found.feasible == 0 => Err(Hindrance::NoMachine),
            None => Err(Hindrance::RoomHeld),
        }
    }

    fn scan(&mut self, from: usize, job: JobId, known: usize, look: Look) -> Found {
        let blocks = self.view.blocks();
        let start = if blocks == 0 { 0 } else { self.rng.random_range(0..blocks) };
        let Search { view, account, hold, keep, settings, .. } = self;
        let view: &View = view;
        let tasks = tasks(view, self.known[known].group);
        let active = settings.profile.evaluator.active(&tasks);
        let mut found = Found::default();
        let is_runtime_affinity = view.may_be_runtime_affinity(tasks.need);
        let is_ruled = keep.concerns(job);
        for block in (start..blocks).chain(0..start) {
            if !view.block_may_fit(block, tasks.need.least()) {
                continue;
            }
            let block = view.block(block);
            for lane in lanes(active.feasible(&tasks, block, block.present())) {
                let row = block.first_row() + lane;
                if row == from {
                    continue;
                }
                if is_runtime_affinity && !view.keeps_runtime_affinity(tasks.need, from, row) {
                    found.apart += 1;
                    continue;
                }
                let shift = Shift { job, from, to: row };
                if is_ruled && !keep.allows(&[shift]) {
                    found.ruled += 1;
                    continue;
                }
                found.feasible += 1;
                if !hold.fits(view, row, tasks.need) {
                    found.held += 1;
                    continue;
                }
                let costs = account.arriving(view, shift, tasks.need);
                if found.best.is_none_or(|(_, least)| costs < least) {
                    found.best = Some((row, costs));
                }
            }
            if matches!(look, Look::UntilFeasible(enough) if found.feasible >= enough) {
                break;
            }
        }
        self.considered += found.feasible as u64;
        self.awaits |= found.held > 0;
        found
    }

    /// Makes moves together if that reduces the objective. Returns the decrease, and the term that gained most.
    ///
    /// Otherwise changes nothing and returns `None`.
    pub(super) fn try_moves(&mut self, moves: &[Proposed]) -> Option<(i128, Term)> {
        let before = self.account.costs().clone();
        let rows = rows_of(moves);
        rows.iter().for_each(|row| self.account.go(self.view, *row));
        moves.iter().for_each(|m| self.view.lift(m.from, m.task));
        let claimed = moves.iter().take_while(|m| self.claim(m)).count();
        let breaks = moves.iter().any(|m| self.view.breaks_runtime_affinity(m.from, m.task));
        self.swing(moves, 1);
        rows.iter().for_each(|row| self.account.come(self.view, *row));
        let jobs = self.count_moves(moves, 1);
        let gain = before.total(&self.settings.objectives) - self.account.total();
        let shifts = shifts(moves);
        if claimed == moves.len() && !breaks && gain > 0 && self.keep.allows(&shifts) {
            self.keep.count(&shifts);
            self.lifted.extend(moves.iter().map(|m| (m.from, m.task)));
            let why = self.reason(&before);
            return Some((gain, why));
        }
        self.count_moves(moves, -1);
        self.account.job_moves(jobs);
        rows.iter().for_each(|row| self.account.go(self.view, *row));
        self.swing(moves, -1);
        self.view.drop_claims(claimed);
        moves.iter().for_each(|m| self.view.put_back(m.from, m.task));
        rows.iter().for_each(|row| self.account.come(self.view, *row));
        debug_assert_eq!(*self.account.costs(), before, "what was not done changes nothing");
        None
    }

    fn claim(&mut self, m: &Proposed) -> bool {
        let Some(known) = self.know(m.task) else { return false };
        let machine = self.view.machine_id(m.to);
        self.view.claim(m.task.id, machine, self.known[known].group).is_ok()
    }

    /// Counts the use over time of moved tasks on their new rows, or on their old rows again if `sign` is -1.
    fn swing(&mut self, moves: &[Proposed], sign: i64) {
        for m in moves {
            let Some(known) = self.know(m.task) else { continue };
            let request = &self.view.need(self.known[known].group).request;
            let job = m.task.id.job;
            self.account.swing(m.from, Change { job, request, sign: -sign });
            self.account.swing(m.to, Change { job, request, sign });
        }
    }

    /// Counts moves: their costs, and the domains of their tasks. Reverses this if `sign` is -1. Returns the former
    /// cost of job moves ([`Costs::job_moves`]).
    fn count_moves(&mut self, moves: &[Proposed], sign: i128) -> i128 {
        let mut most = self.account.costs().job_moves;
        for m in moves {
            let job = m.task.id.job;
            let (old, new) = if sign > 0 { (m.from, m.to) } else { (m.to, m.from) };
            self.account.exit(job, old);
            self.account.enter(job, new);
            if self.misplaced.contains(&m.task.id) {
                self.account.misplaced(-sign);
            }
            if let Some(known) = self.know(m.task) {
                let need = self.view.need(self.known[known].group);
                self.account.moved(m, &need.request, sign);
            }
            let of_job = moves.iter().filter(|other| other.task.id.job == job).count();
            let moved = i128::from(self.left.moved_of(job)) + of_job as i128;
            most = most.max(moved * i128::from(super::objective::MOVE));
        }
        self.account.job_moves(most)
    }

    /// Returns the term that gained most since the costs `before`.
    fn reason(&self, before: &Costs) -> Term {
        let after = self.account.costs();
        let objectives = &self.settings.objectives;
        let gains = before.terms().zip(after.terms());
        let gains =
            gains.map(|((term, b), (_, a))| ((b - a) * i128::from(objectives.weight(term)), term));
        // If several terms gained the same, the first of them is used.
        let best = gains.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map_or(Term::Moves, |(_, term)| term)
    }

    /// Records moves that were made, as one step of this wave.
    pub(super) fn note(&mut self, moves: &[Proposed], gain: i128, why: Why) {
        for m in moves {
            if let Some(known) = self.know(m.task) {
                let Known { group, protectors, .. } = &self.known[known];
                self.left.spend(m.task.id, protectors);
                self.hold.leave(m.from, self.view.need(*group));
            }
            self.moved.insert(m.task.id);
            self.changed[m.from] = true;
            self.changed[m.to] = true;
        }
        let step = |m: &Proposed| Move {
            task: m.task.id,
            group: m.task.group,
            from: self.view.machine_id(m.from),
            to: self.view.machine_id(m.to),
        };
        self.wave.push(Step { moves: moves.iter().map(step).collect(), why, gain });
    }

    /// Begins a wave, in which the moves of the previous wave are done. Returns false, and begins no wave, if the
    /// previous wave has no moves or the number of waves is used up.
    pub(super) fn next_wave(&mut self) -> bool {
        if self.wave.is_empty() || self.done.len() + 1 >= self.settings.bounds.waves {
            return false;
        }
        self.done.push(std::mem::take(&mut self.wave));
        self.left.next_wave();
        self.hold.next_wave();
        self.awaits = false;
        true
    }

    /// Restores the view to its state before the pass.
    pub(super) fn restore(&mut self) {
        self.view.drop_claims(self.view.open_claims());
        for (row, task) in self.lifted.drain(..) {
            self.view.put_back(row, task);
        }
        debug_assert_eq!(self.view.lifted(), 0, "the view is as before");
        let mut jobs: Vec<JobId> = self.numbers.keys().map(|(job, _)| *job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs.into_iter().for_each(|job| self.view.forget_job(job));
    }
}

/// Converts moves for the check of the rules.
pub(super) fn shifts(moves: &[Proposed]) -> SmallVec<[Shift; 2]> {
    moves.iter().map(|m| Shift { job: m.task.id.job, from: m.from, to: m.to }).collect()
}

/// Returns the rows that the moves change, each once.
fn rows_of(moves: &[Proposed]) -> SmallVec<[usize; 4]> {
    let mut rows: SmallVec<[usize; 4]> = moves.iter().flat_map(|m| [m.from, m.to]).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Whether the machine in a row would accept a task with these needs if the machine had enough room and there were no
/// rules about other tasks.
pub(super) fn suits(view: &View, row: usize, need: &Need) -> bool {
    let block = view.block(row / BLOCK);
    let is_in = |word: u64| word >> (row % BLOCK) & 1 == 1;
    is_in(block.schedulable())
        && need.machine.is_none_or(|set| is_in(block.set(set)))
        && need.affinity.is_none_or(|set| is_in(block.set(set)))
        && is_in(block.set(need.tolerated))
}

/// Makes moves together and records them as a step, if they reduce the objective. Returns whether they were made.
pub(super) fn step(search: &mut Search<'_>, moves: &[Proposed]) -> bool {
    let Some((gain, term)) = search.try_moves(moves) else { return false };
    search.note(moves, gain, Why::Gain(term));
    true
}
