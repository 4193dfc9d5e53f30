//! The value of the objective, updated with each move.
//!
//! A move changes two machines, the pairs of tasks of its job in two domains, and the costs of moving. In a pass, the
//! search computes the change of some ten million possible moves without making them. Only a move that is made updates
//! the sums, term by term.
//!
//! [`Account::new`] computes the sums from scratch, and `tests/it/rebalancing/rebalance.rs` compares both ways with an
//! independent reference.

use super::aims::demand::{Change, Swings};
use super::aims::move_costs::Between;
use super::aims::rules::Shift;
use super::objective::{Costs, MACHINE, MOVE, Objectives, PAIR};
use super::plan::Picture;
use super::valuation::{Objective, Spot, Weights};
use foldhash::fast::FixedState;
use omega_cellstate::{BLOCK, Need, PlacedTask, View};
use omega_core::limits::KINDS_MAX;
use omega_core::{JobId, KindId, Text, TopologyLevel};
use std::collections::{BTreeMap, HashMap};

/// Number for a machine in no domain, because it lacks the label of the level.
const NOWHERE: u32 = u32::MAX;

/// A possible move of a task between rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proposed {
    pub(super) task: PlacedTask,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The objective of a view, as sums over rows, domains and moves.
#[derive(Debug)]
pub(super) struct Account {
    weights: Weights,
    /// The mean amount of each kind, over the machines that have any of it.
    means: Vec<u64>,
    /// The claimable amount of each kind, row by row, with all kinds of a machine side by side.
    capacity: Vec<i64>,
    /// Amounts up to the safety level, like `capacity`.
    safe: Vec<i64>,
    /// Cost of each machine while it is in use.
    in_use: Vec<i64>,
    /// Whether the machine in each row accepts tasks. Other machines have no cost of their own.
    counts: Vec<bool>,
    /// The weighted cost of each row.
    values: Vec<i64>,
    /// Differences between the use of tasks over time and their requests.
    swings: Swings,
    /// The cost of a move between two machines, as far as the objectives give such costs.
    between: Between,
    /// The additional cost of moving a task, for each job that has such a cost. The map is only looked up, never
    /// iterated.
    of_jobs: HashMap<JobId, i64, FixedState>,
    domains: Vec<u32>,
    /// The number of tasks of each job in each domain. The map is only looked up, never iterated, so its order does not
    /// matter.
    crowds: HashMap<(JobId, u32), u32, FixedState>,
    costs: Costs,
}

/// The amounts of one machine.
type Amounts = [i64; KINDS_MAX];

impl Account {
    /// Computes all sums from a view, except the number of misplaced tasks: the caller counts them.
    pub(super) fn new(objectives: &Objectives, view: &mut View) -> Account {
        let kinds = view.kinds().count();
        let capacity = capacities(view, kinds);
        let weights = Weights::new(objectives, kinds);
        let mut safe = vec![0; capacity.len()];
        let of_row = |(row, (capacity, safe)): (usize, (&[i64], &mut [i64]))| {
            weights.levels(view.machine(row).map(|machine| &**machine), capacity, safe)
        };
        let each = kinds.max(1);
        let rows = capacity.chunks(each).zip(safe.chunks_mut(each)).enumerate();
        let in_use = rows.map(of_row).collect();
        let mut account = Account {
            capacity,
            safe,
            in_use,
            counts: (0..view.rows()).map(|row| takes_tasks(view, row)).collect(),
            values: vec![0; view.rows()],
            swings: Swings::new(&objectives.demand, view, kinds),
            between: Between::new(&objectives.move_costs, view),
            of_jobs: of_jobs(view, &objectives.move_costs.jobs),
            domains: domains(view, &objectives.level),
            crowds: HashMap::default(),
            costs: Costs::none(kinds),
            means: means(view, kinds),
            weights,
        };
        for row in 0..view.rows() {
            account.come(view, row);
            for task in view.tasks_on(row) {
                account.enter(task.id.job, row);
            }
        }
        account
    }

    /// The objective by which machines are valued.
    pub(super) fn objective(&self) -> Objective<'_> {
        Objective { weights: &self.weights, means: &self.means }
    }

    /// The cost of each term.
    pub(super) fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The weighted sum.
    pub(super) fn total(&self) -> i128 {
        self.costs.total(&self.weights.objectives)
    }

    /// Whether the machine in a row accepts tasks, so that its cost is counted.
    pub(super) fn counts(&self, row: usize) -> bool {
        self.counts[row]
    }

    /// The weighted cost of a row, without pairs, misplaced tasks and moves.
    pub(super) fn value(&self, row: usize) -> i64 {
        self.values[row]
    }

    /// Returns the weighted cost of a row after these changes of its tasks, which free the amount `more(kind)` of each
    /// kind.
    pub(super) fn value_with(
        &self,
        view: &View,
        row: usize,
        changes: &[Change<'_>],
        more: impl Fn(usize) -> i64,
    ) -> i64 {
        if !self.counts[row] {
            return 0;
        }
        let mut free: Amounts = [0; KINDS_MAX];
        let kinds = self.weights.kinds;
        for (kind, free) in free[..kinds].iter_mut().enumerate() {
            *free = view.free(row, KindId(kind as u8)) + more(kind);
        }
        self.objective().value(self.spot(row, &free[..kinds], changes))
    }

    /// Returns by how much the cost of a row falls if a task of a job leaves it.
    pub(super) fn leaving(&self, view: &View, row: usize, job: JobId, need: &Need) -> i64 {
        let changes = [Change { job, request: &need.request, sign: -1 }];
        let freed = |kind| view.freed(row, need, KindId(kind as u8));
        let value = self.value_with(view, row, &changes, freed);
        self.values[row] - value + self.pairs(job, row, -1)
    }

    /// Returns by how much the cost of a row rises if a task arrives there from another row, with the cost of a move
    /// between the two machines. The caller has removed the task from the view, but not from the count of its old
    /// domain.
    pub(super) fn arriving(&self, view: &View, shift: Shift, need: &Need) -> i64 {
        let Shift { job, from, to: row } = shift;
        let changes = [Change { job, request: &need.request, sign: 1 }];
        let taken = |kind| -view.taken(row, need, KindId(kind as u8));
        let value = self.value_with(view, row, &changes, taken);
        let here = self.domains[row] == self.domains[from];
        value - self.values[row]
            + self.pairs(job, row, if here { -1 } else { 0 })
            + self.between(from, row)
    }

    /// Whether the objectives give costs of moves between two machines.
    pub(super) fn has_costs_between(&self) -> bool {
        let objectives = &self.weights.objectives;
        objectives.machine_moves > 0 && objectives.move_costs.has_machines()
    }

    /// Returns the part of a move's weighted cost that depends on its two machines.
    pub(super) fn between(&self, from: usize, to: usize) -> i64 {
        match self.weights.objectives.machine_moves {
            0 => 0,
            weight => self.between.cost(from, to) * MOVE * i64::from(weight),
        }
    }

    /// Returns the weighted cost of the pairs that one more task of a job would form in a row's domain. `more` is added
    /// to the counted tasks of the job there; it may be negative.
    pub(super) fn pairs(&self, job: JobId, row: usize, more: i64) -> i64 {
        let weight = self.weights.objectives.crowding;
        if weight == 0 || self.domains[row] == NOWHERE {
            return 0;
        }
        let others = self.crowds.get(&(job, self.domains[row])).copied().unwrap_or(0);
        (i64::from(others) + more).max(0) * PAIR * i64::from(weight)
    }

    /// Returns the weighted cost of one more move of a job of which `moved` tasks have moved. This includes the effect
    /// on the term of job moves, but not the cost of [`Account::between`].
    pub(super) fn of_move(&self, job: JobId, request: &[i64], moved: u32) -> i64 {
        let objectives = &self.weights.objectives;
        let more = (i128::from(moved) + 1) * i128::from(MOVE) - self.costs.job_moves;
        let of_job = if more > 0 { MOVE } else { 0 };
        self.of_move_alone(job, request) * i64::from(objectives.moves)
            + of_job * i64::from(objectives.job_moves)
    }

    /// Returns the cost of moving a task, without weights and without the terms of job moves and machine moves.
    pub(super) fn of_move_alone(&self, job: JobId, request: &[i64]) -> i64 {
        self.objective().of_move(request) + self.of_jobs.get(&job).copied().unwrap_or(0)
    }

    /// The weighted cost of a misplaced task.
    pub(super) fn of_misplaced(&self) -> i64 {
        MACHINE * i64::from(self.weights.objectives.misplaced)
    }

    /// Returns statistics of the machines. They do not depend on the weights of the objective.
    pub(super) fn picture(&self, view: &View) -> Picture {
        let kinds = self.weights.kinds;
        let mut picture =
            Picture { above: vec![0; kinds], fullest: vec![0; kinds], ..Picture::default() };
        for row in (0..view.rows()).filter(|row| self.counts[*row]) {
            picture.machines += 1;
            let mut is_used = false;
            for (kind, capacity) in self.capacity(row).iter().enumerate() {
                let used = capacity - view.free(row, KindId(kind as u8));
                is_used |= used > 0;
                picture.above[kind] += usize::from(used > self.safe(row)[kind].max(0));
                let percent = (used * 100).checked_div(*capacity).unwrap_or(0).max(0);
                picture.fullest[kind] = picture.fullest[kind].max(percent as u32);
            }
            picture.in_use += usize::from(is_used);
        }
        picture
    }

    // --- Counting ------------------------------------------------------------------------------

    /// Subtracts the cost of a row from the sums. Call it before the row changes.
    pub(super) fn go(&mut self, view: &View, row: usize) {
        self.count(view, row, -1);
    }

    /// Adds the cost of a row to the sums. Call it after the row has changed.
    pub(super) fn come(&mut self, view: &View, row: usize) {
        self.count(view, row, 1);
        self.values[row] = self.value_with(view, row, &[], |_| 0);
    }

    /// Counts the use over time of a task that arrives in a row or leaves it. Call it between [`Account::go`] and
    /// [`Account::come`] of the row.
    pub(super) fn swing(&mut self, row: usize, change: Change<'_>) {
        self.swings.count(row, change);
    }

    fn count(&mut self, view: &View, row: usize, sign: i128) {
        if !self.counts[row] {
            return;
        }
        let mut free: Amounts = [0; KINDS_MAX];
        let kinds = self.weights.kinds;
        for (kind, free) in free[..kinds].iter_mut().enumerate() {
            *free = view.free(row, KindId(kind as u8));
        }
        let mut costs = std::mem::take(&mut self.costs);
        self.objective().count(self.spot(row, &free[..kinds], &[]), sign, &mut costs);
        self.costs = costs;
    }

    /// Counts a task of a job in a row's domain.
    pub(super) fn enter(&mut self, job: JobId, row: usize) {
        if self.weights.objectives.crowding == 0 || self.domains[row] == NOWHERE {
            return;
        }
        let crowd = self.crowds.entry((job, self.domains[row])).or_default();
        self.costs.crowding += i128::from(*crowd) * i128::from(PAIR);
        *crowd += 1;
    }

    /// Removes a task of a job from the count of a row's domain.
    pub(super) fn exit(&mut self, job: JobId, row: usize) {
        if self.weights.objectives.crowding == 0 || self.domains[row] == NOWHERE {
            return;
        }
        let crowd = self.crowds.entry((job, self.domains[row])).or_default();
        *crowd -= 1;
        self.costs.crowding -= i128::from(*crowd) * i128::from(PAIR);
    }

    /// Counts a misplaced task, or removes one from the count if `sign` is -1.
    pub(super) fn misplaced(&mut self, sign: i128) {
        self.costs.misplaced += i128::from(MACHINE) * sign;
    }

    /// Adds the cost of a move, or subtracts it if `sign` is -1. [`Account::job_moves`] sets the cost of job moves.
    pub(super) fn moved(&mut self, m: &Proposed, request: &[i64], sign: i128) {
        self.costs.moves += i128::from(self.of_move_alone(m.task.id.job, request)) * sign;
        self.costs.machine_moves += i128::from(self.between.cost(m.from, m.to) * MOVE) * sign;
    }

    /// Sets the cost of job moves ([`Costs::job_moves`]), and returns the former cost.
    pub(super) fn job_moves(&mut self, most: i128) -> i128 {
        std::mem::replace(&mut self.costs.job_moves, most)
    }

    /// Returns the part of a row's claimable amount that is above the safety level.
    pub(super) fn unsafe_part(&self, row: usize, kind: usize) -> i64 {
        self.capacity(row)[kind] - self.safe(row)[kind]
    }

    fn capacity(&self, row: usize) -> &[i64] {
        let kinds = self.weights.kinds;
        &self.capacity[row * kinds..][..kinds]
    }

    fn safe(&self, row: usize) -> &[i64] {
        let kinds = self.weights.kinds;
        &self.safe[row * kinds..][..kinds]
    }

    /// The data from which the cost of a row with these free amounts is computed.
    fn spot<'a>(&'a self, row: usize, free: &'a [i64], changes: &'a [Change<'a>]) -> Spot<'a> {
        let (capacity, safe, in_use) = (self.capacity(row), self.safe(row), self.in_use[row]);
        Spot { row, capacity, free, safe, in_use, swings: &self.swings, changes }
    }

    /// Returns the mean gain per task if all tasks left a row. The search orders rows by this value.
    pub(super) fn pressure(&self, tasks: &[PlacedTask], row: usize) -> i64 {
        if tasks.is_empty() {
            return 0;
        }
        let pairs = tasks.iter().map(|task| self.pairs(task.id.job, row, -1)).sum::<i64>();
        (self.values[row] + pairs) / tasks.len() as i64
    }
}

fn takes_tasks(view: &View, row: usize) -> bool {
    view.block(row / BLOCK).schedulable() >> (row % BLOCK) & 1 == 1
}

/// Returns the claimable amounts of each machine, row by row, under the cell's overcommit policy.
fn capacities(view: &mut View, kinds: usize) -> Vec<i64> {
    (0..kinds as u8).for_each(|kind| view.keep_capacity(KindId(kind)));
    let of = |row: usize, kind| {
        let column = view.block(row / BLOCK).capacity(KindId(kind));
        column.map_or(0, |column| column[row % BLOCK])
    };
    let rows = 0..view.rows();
    rows.flat_map(|row| (0..kinds as u8).map(move |kind| of(row, kind))).collect()
}

/// Returns the mean amount of each kind, over the machines that have any of it, and 1 if none has.
fn means(view: &View, kinds: usize) -> Vec<u64> {
    let mean = |kind| view.mean_capacity(KindId(kind)).unwrap_or(0).max(1);
    (0..kinds as u8).map(mean).collect()
}

/// Returns the additional cost of moving a task, for each running job that `costs` names. `costs` gives these costs by
/// the names of the jobs.
fn of_jobs(view: &View, costs: &BTreeMap<Text, u32>) -> HashMap<JobId, i64, FixedState> {
    let mut known = HashMap::default();
    if costs.is_empty() {
        return known;
    }
    for task in (0..view.rows()).flat_map(|row| view.tasks_on(row)) {
        let cost = view.job_of(task.id).and_then(|job| costs.get(&job.name));
        if let Some(cost) = cost {
            known.insert(task.id.job, i64::from(*cost) * MOVE);
        }
    }
    known
}

/// Returns the number of the domain of each row: equal numbers for equal domains, [`NOWHERE`] without a domain.
fn domains(view: &View, level: &TopologyLevel) -> Vec<u32> {
    let mut numbers = BTreeMap::new();
    let mut number = |row: usize| {
        let Some(domain) = view.machine(row).and_then(|machine| machine.domain(level)) else {
            return NOWHERE;
        };
        let next = numbers.len() as u32;
        *numbers.entry(domain.clone()).or_insert(next)
    };
    (0..view.rows()).map(&mut number).collect()
}
