//! Preemption: which tasks of lower precedence to evict so that another task fits.
//!
//! ```text
//!   machines where ──▶ per machine: remove all tasks of lower precedence; if the task   ──▶ the machine with
//!   it may help        fits then, put back the most important ones while it still fits      the least harm
//! ```
//!
//! Both steps are those of kube-scheduler's `DefaultPreemption`: the least harmful victims on each machine, then the
//! best machine by six criteria. The tasks whose eviction would break a disruption budget are put back first.
//!
//! If a task has no rules about other tasks, only amounts matter. Then victims are found from sums of amounts alone,
//! and the view is not changed.

use crate::framework::evaluator::Evaluator;
use crate::framework::plugin::tasks;
use crate::framework::plugin::{CellChecks, Filter, Reads, Tasks, lanes};
use omega_cellstate::{BLOCK, GroupRef, PlacedTask, TaskSet, View};
use omega_core::{Job, JobId, KindId, Precedence, Preemption, TaskId};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// Number of tasks of a set that may be evicted now. (The current state of Kubernetes' `PodDisruptionBudget`.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Selector of the protected tasks.
    pub tasks: TaskSet,
    /// Number of evictions allowed now.
    pub allowed: u32,
}

impl Budget {
    /// Whether the budget allows the eviction of a task.
    pub(crate) fn lets_go(&self, view: &View, task: &PlacedTask) -> bool {
        self.allowed > 0 || !self.protects(view, task)
    }

    /// Counts an eviction (`more` is -1) or its reversal (1).
    pub(crate) fn count(&mut self, view: &View, task: &PlacedTask, more: i32) {
        if self.protects(view, task) {
            self.allowed = self.allowed.saturating_add_signed(more);
        }
    }

    fn protects(&self, view: &View, task: &PlacedTask) -> bool {
        let job = view.job_of(task.id);
        job.is_some_and(|job| self.tasks.includes(job, usize::from(task.group)))
    }
}

/// A task that is expected on a machine, because room was made there for this task. (Kubernetes' nominated pod.)
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The row of the machine.
    pub row: usize,
    /// Job of the task.
    pub job: JobId,
    /// Group of the task, compiled.
    pub group: GroupRef,
    /// Precedence of the task.
    pub precedence: Precedence,
}

/// The task to make room for, and the rules to obey.
#[derive(Clone, Copy, Debug)]
pub struct Preemptor<'a> {
    /// The profile whose filters must accept the machine afterwards.
    pub evaluator: &'a Evaluator,
    /// The task's group, compiled.
    pub group: GroupRef,
    /// Disruption budgets.
    pub budgets: &'a [Budget],
    /// Tasks expected on machines. Expected tasks of the same or a higher precedence must fit in addition to this task.
    pub expected: &'a [Expected],
}

/// Tasks that would have to be evicted. Usually there are few.
pub type Victims = SmallVec<[PlacedTask; 4]>;

/// A machine on which the task would fit if some other tasks were evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The machine's row.
    pub row: usize,
    /// Victims, the most important first. Never empty.
    pub victims: Victims,
    /// Number of victims whose eviction breaks a budget.
    pub violations: usize,
}

impl Preemptor<'_> {
    fn precedence(&self, view: &View) -> Precedence {
        view.job(self.group).0.precedence
    }

    /// Whether the filters allow the task on the machine in a row now, both with and without the tasks that are
    /// expected there.
    #[must_use]
    pub fn fits(&self, view: &mut View, row: usize) -> bool {
        if !self.expected.is_empty() && !self.fits_beside_expected(view, row) {
            return false;
        }
        self.is_feasible(view, row)
    }

    fn fits_beside_expected(&self, view: &mut View, row: usize) -> bool {
        let groups = self.assume_expected(view, row);
        let fits = groups.is_empty() || self.is_feasible(view, row);
        groups.iter().for_each(|group| view.assume(row, *group, 1));
        fits
    }

    /// Counts the expected tasks of a row as running if they must fit in addition to this task. Returns their groups.
    fn assume_expected(&self, view: &mut View, row: usize) -> SmallVec<[GroupRef; 4]> {
        let job = view.job_id(self.group);
        let precedence = self.precedence(view);
        let counts = |expected: &&Expected| {
            expected.row == row && expected.precedence >= precedence && expected.job != job
        };
        let groups: SmallVec<[GroupRef; 4]> =
            self.expected.iter().filter(counts).map(|expected| expected.group).collect();
        groups.iter().for_each(|group| view.assume(row, *group, -1));
        groups
    }

    fn is_feasible(&self, view: &View, row: usize) -> bool {
        let tasks = tasks(view, self.group);
        let bit = 1 << (row % BLOCK);
        let active = self.evaluator.active(&tasks);
        active.feasible(&tasks, view.block(row / BLOCK), bit) != 0
    }

    /// Returns the victims on the machine in a row; `None` if no eviction helps there.
    ///
    /// The view must keep placements ([`View::with_placements`]). After the call, the view is as before.
    #[must_use]
    pub fn candidate(&self, view: &mut View, row: usize) -> Option<Candidate> {
        let bit = 1 << (row % BLOCK);
        let by_amounts = self.by_amounts_alone(view, row / BLOCK, bit);
        self.candidate_by(view, row, FromSums::on(by_amounts, row % BLOCK))
    }

    /// Returns the victims on the machine in a row.
    fn candidate_by(&self, view: &mut View, row: usize, from_sums: FromSums) -> Option<Candidate> {
        let on_machine = view.tasks_on(row);
        let first = first_lower(on_machine, view.preemptible_below(self.precedence(view)));
        if first == on_machine.len() {
            return None;
        }
        let sums = match view.request_stride() {
            4 => self.by_sums::<4>(view, row, first, from_sums),
            8 => self.by_sums::<8>(view, row, first, from_sums),
            _ => self.by_sums::<16>(view, row, first, from_sums),
        };
        if let Sums::Known(candidate) = sums {
            return candidate;
        }
        let gone: Gone = view.evicted_from(row).collect();
        let lower = on_machine[first..].iter().filter(|task| !gone.contains(&task.id));
        let mut lower: Vec<PlacedTask> = lower.copied().collect();
        lower.iter().for_each(|task| view.lift(row, *task));
        keep_runtime_affinity(view, row, &mut lower);
        let mut candidate = None;
        if self.fits(view, row) {
            candidate = Some(self.put_back(view, row, &lower));
        } else {
            lower.iter().for_each(|task| view.put_back(row, *task));
        }
        debug_assert_eq!(view.lifted(), 0, "the view is as before");
        candidate.filter(|candidate| !candidate.victims.is_empty())
    }

    /// Returns candidates on the machines from row `start` on, cyclically. The search stops when there are `enough`
    /// candidates and one of them breaks no budget.
    ///
    /// Machines where the task fits without evictions are skipped.
    pub fn candidates(&self, view: &mut View, start: usize, enough: usize) -> Vec<Candidate> {
        let curable = |view: &mut View, block| self.worth_a_try(view, block);
        self.candidates_where(view, curable, start, enough)
    }

    /// Machines that reject the group's tasks and might accept them after evictions, as words with one bit per machine,
    /// by block.
    #[must_use]
    pub fn curable(&self, view: &mut View) -> Vec<u64> {
        (0..view.blocks()).map(|block| self.worth_a_try(view, block)).collect()
    }

    /// Like [`Preemptor::candidates`], but examines only the machines that [`Preemptor::curable`] returned.
    pub fn candidates_among(
        &self,
        view: &mut View,
        curable: &[u64],
        start: usize,
        enough: usize,
    ) -> Vec<Candidate> {
        self.candidates_where(view, |_, block| curable[block], start, enough)
    }

    fn candidates_where(
        &self,
        view: &mut View,
        curable: impl Fn(&mut View, usize) -> u64,
        start: usize,
        enough: usize,
    ) -> Vec<Candidate> {
        let mut found = Vec::new();
        let mut is_clean = false;
        let blocks = view.blocks();
        for index in 0..blocks {
            let block = (start / BLOCK + index) % blocks;
            let word = curable(view, block);
            if word == 0 {
                continue;
            }
            let by_amounts = self.by_amounts_alone(view, block, word);
            for lane in lanes(word) {
                let row = block * BLOCK + lane;
                let from_sums = FromSums::on(by_amounts, lane);
                let candidate = self.candidate_by(view, row, from_sums);
                let Some(candidate) = candidate else { continue };
                is_clean |= candidate.violations == 0;
                found.push(candidate);
                if found.len() >= enough && is_clean {
                    return found;
                }
            }
        }
        found
    }

    /// Machines of a block that a filter rejects now and might accept after evictions.
    fn worth_a_try(&self, view: &mut View, block: usize) -> u64 {
        let (_, mut curable) = self.sift(view, block, u64::MAX);
        for row in self.rows_of_expected(block) {
            let bit = 1 << (row % BLOCK);
            let groups = self.assume_expected(view, row);
            let (feasible, curable_beside) = self.sift(view, block, bit);
            groups.iter().for_each(|group| view.assume(row, *group, 1));
            if !groups.is_empty() && feasible == 0 {
                curable = curable & !bit | curable_beside;
            }
        }
        curable
    }

    /// The rows of a block in which tasks are expected.
    fn rows_of_expected(&self, block: usize) -> SmallVec<[usize; 8]> {
        let rows = self.expected.iter().map(|expected| expected.row);
        let mut rows: SmallVec<[usize; 8]> = rows.filter(|row| row / BLOCK == block).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Returns the machines of a block that all filters accept, and the machines that their first rejecting filter
    /// might accept after evictions.
    fn sift(&self, view: &View, block: usize, among: u64) -> (u64, u64) {
        let tasks = tasks(view, self.group);
        let block = view.block(block);
        let mut word = block.present() & among;
        let mut curable = 0;
        for filter in self.evaluator.filters().filter(|filter| filter.applies(&tasks)) {
            let allowed = filter.filter(&tasks, block, word) & word;
            if allowed != word {
                curable |= filter.curable(&tasks, block, word & !allowed);
            }
            word = allowed;
        }
        (word, curable)
    }

    /// Whether the amounts that an eviction frees are its only effect on this group.
    fn only_amounts_matter(&self, view: &View) -> bool {
        let need = view.need(self.group);
        // Every filter that reads amounts must check exactly the room that the cell checks, and nothing else.
        let tasks = tasks(view, self.group);
        let reads = |f: &&dyn Filter| f.reads().includes(Reads::AMOUNTS) && f.applies(&tasks);
        let mut on_amounts = self.evaluator.filters().filter(reads);
        self.expected.is_empty()
            && !view.any_runtime_affinity()
            && !need.has_rules()
            && need.devices.is_none()
            && need.cores.is_none()
            && need.demand_profiles.is_none()
            && on_amounts.all(|filter| filter.covers() == CellChecks::ROOM)
    }

    /// Returns the machines of a block where only amounts decide whether evictions help; none if anything else matters
    /// to the group.
    fn by_amounts_alone(&self, view: &View, block: usize, among: u64) -> u64 {
        if !self.only_amounts_matter(view) {
            return 0;
        }
        let tasks = tasks(view, self.group);
        // If a task has a demand profile, its eviction frees other amounts than its request.
        let varies = |lane: &usize| view.demand_profiles_on(block * BLOCK + lane).is_some();
        let among = if view.any_demand_profiles() {
            lanes(among).filter(|lane| !varies(lane)).fold(0, |word, lane| word | 1 << lane)
        } else {
            among
        };
        let block = view.block(block);
        let others = self.evaluator.filters().filter(|f| !f.reads().includes(Reads::AMOUNTS));
        others
            .filter(|filter| filter.applies(&tasks))
            .fold(among, |word, filter| word & filter.filter(&tasks, block, word))
    }

    /// Computes the result of [`Preemptor::put_back`] from sums of amounts. The possible victims are the tasks on the
    /// machine from position `first` on.
    fn by_sums<const N: usize>(
        &self,
        view: &View,
        row: usize,
        first: usize,
        from_sums: FromSums,
    ) -> Sums {
        let (requests, _) = view.requests_on(row)[first * N..].as_chunks::<N>();
        // Victims of other claims on this view have been removed already. Usually there are none.
        let gone: Gone = view.evicted_from(row).collect();
        let is_there = |task: &PlacedTask| gone.is_empty() || !gone.contains(&task.id);
        let lower = view.tasks_on(row)[first..].iter().zip(requests);
        let lower = || lower.clone().filter(|(task, _)| is_there(task));
        let mut room = Room::<N>::of(view, row, self.group);
        lower().for_each(|(_, request)| room.add(request));
        if !room.fits() {
            return Sums::Known(None);
        }
        if from_sums == FromSums::NoRoom {
            return Sums::Unknown;
        }
        let mut victims = Victims::new();
        let mut violations = 0;
        if self.budgets.is_empty() {
            let too_much = lower().filter(|(_, request)| !room.take(request));
            victims.extend(too_much.map(|(task, _)| *task));
        } else {
            let breaks = self.breaks_budget(view, lower().map(|(task, _)| task));
            for protected in [true, false] {
                let these = lower().zip(&breaks).filter(|(_, breaks)| **breaks == protected);
                for ((task, request), _) in these {
                    if !room.take(request) {
                        victims.push(*task);
                        violations += usize::from(protected);
                    }
                }
            }
        }
        victims.sort_by_key(|task| (Reverse(task.precedence), task.id));
        let is_one = !victims.is_empty();
        Sums::Known(is_one.then_some(Candidate { row, victims, violations }))
    }

    /// Chooses victims among the tasks in `lower`, so that as many of these as possible stay. Before the call, all
    /// tasks in `lower` must have been removed from the view, and the task to place must fit. After the call, all of
    /// them are on the view again.
    fn put_back(&self, view: &mut View, row: usize, lower: &[PlacedTask]) -> Candidate {
        let breaks = self.breaks_budget(view, lower.iter());
        let mut victims = Victims::new();
        let mut violations = 0;
        for protected in [true, false] {
            for (task, _) in lower.iter().zip(&breaks).filter(|(_, b)| **b == protected) {
                view.put_back(row, *task);
                if !self.fits(view, row) {
                    view.lift(row, *task);
                    victims.push(*task);
                    violations += usize::from(protected);
                }
            }
        }
        if victims.iter().any(|task| view.breaks_runtime_affinity(row, *task)) {
            // A remaining task may need a victim by runtime affinity. To avoid this, all tasks in `lower` become
            // victims.
            let stay = lower.iter().filter(|task| !victims.contains(task));
            stay.for_each(|task| view.lift(row, *task));
            victims = lower.into();
            violations = breaks.iter().filter(|breaks| **breaks).count();
        }
        victims.iter().for_each(|task| view.put_back(row, *task));
        victims.sort_by_key(|task| (Reverse(task.precedence), task.id));
        Candidate { row, victims, violations }
    }

    /// For each task, the most important first, whether its eviction would break a budget if all tasks before it were
    /// evicted too.
    fn breaks_budget<'t>(
        &self,
        view: &View,
        tasks: impl Iterator<Item = &'t PlacedTask>,
    ) -> SmallVec<[bool; 64]> {
        let mut left: SmallVec<[i64; 8]> =
            self.budgets.iter().map(|budget| i64::from(budget.allowed)).collect();
        let breaks = |task: &PlacedTask| {
            let mut breaks = false;
            for (budget, left) in self.budgets.iter().zip(&mut left) {
                if budget.protects(view, task) {
                    *left -= 1;
                    breaks |= *left < 0;
                }
            }
            breaks
        };
        tasks.map(breaks).collect()
    }
}

/// Restores the tasks of `lifted` that remaining tasks need by runtime affinity, the most important first, and removes
/// them from `lifted`. The cell would reject their eviction.
fn keep_runtime_affinity(view: &mut View, row: usize, lifted: &mut Vec<PlacedTask>) {
    let is_needed = |view: &mut View, lifted: &[PlacedTask]| {
        lifted.iter().position(|task| view.breaks_runtime_affinity(row, *task))
    };
    while let Some(needed) = is_needed(view, lifted) {
        view.put_back(row, lifted.remove(needed));
    }
}

/// Tasks that other claims of the view evict.
type Gone = SmallVec<[TaskId; 4]>;

/// The position of the first task below a precedence.
fn first_lower(tasks: &[PlacedTask], bound: Precedence) -> usize {
    tasks.partition_point(|task| task.precedence >= bound)
}

/// Whether any task runs that may be evicted or throttled for a job.
pub(crate) fn has_lower(view: &View, job: &Job) -> bool {
    let bound = view.preemptible_below(job.precedence);
    let lowest = view.lowest_precedence();
    job.preemption != Preemption::Never && lowest.is_some_and(|lowest| lowest < bound)
}

/// Whether the machine in a row has tasks of lower precedence, and would have the required amounts if all of them left.
/// If false, no eviction helps there.
#[must_use]
pub(crate) fn could_fit_without_lower(tasks: &Tasks<'_>, row: usize) -> bool {
    let Tasks { view, need, job, .. } = *tasks;
    if row >= view.rows() {
        return false;
    }
    let first = first_lower(view.tasks_on(row), view.preemptible_below(job.precedence));
    let stride = view.request_stride();
    let lower = &view.requests_on(row)[first * stride..];
    let enough = |(kind, request): (usize, &i64)| {
        let there = view.free(row, KindId(kind as u8));
        let freed: i64 = lower.iter().skip(kind).step_by(stride).sum();
        *request <= 0 || there + freed >= *request
    };
    !lower.is_empty() && need.least().iter().enumerate().all(enough)
}

/// Free amounts of a machine after evictions.
struct Room<const N: usize> {
    left: [i64; N],
    /// Amounts that the task needs; `i64::MIN` for resource kinds that it does not need, so that any amount is enough.
    needed: [i64; N],
}

/// The results that sums of amounts may give on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FromSums {
    /// All results, because only amounts matter on the machine.
    Victims,
    /// Only that the task would not fit even after the eviction of all possible victims.
    NoRoom,
}

impl FromSums {
    /// The results on a machine of a block; `by_amounts` has the machines on which only amounts matter.
    fn on(by_amounts: u64, lane: usize) -> FromSums {
        if by_amounts >> lane & 1 == 1 { FromSums::Victims } else { FromSums::NoRoom }
    }
}

/// Result that follows from sums alone.
enum Sums {
    /// The candidate, or `None` if the task does not fit.
    Known(Option<Candidate>),
    /// The amounts suffice, but other conditions are still to be checked.
    Unknown,
}

impl<const N: usize> Room<N> {
    fn of(view: &View, row: usize, group: GroupRef) -> Room<N> {
        let mut room = Room { left: [0; N], needed: [i64::MIN; N] };
        for (kind, request) in (0..).map(KindId).zip(view.need(group).least()) {
            room.left[kind.index()] = view.free(row, kind);
            if *request > 0 {
                room.needed[kind.index()] = *request;
            }
        }
        room
    }

    fn add(&mut self, amounts: &[i64; N]) {
        self.left.iter_mut().zip(amounts).for_each(|(left, amount)| *left += amount);
    }

    fn fits(&self) -> bool {
        let short = self.left.iter().zip(&self.needed).map(|(left, needed)| left < needed);
        !short.fold(false, |any, short| any | short)
    }

    /// Subtracts amounts if the task still fits afterwards. Returns whether they were subtracted.
    fn take(&mut self, amounts: &[i64; N]) -> bool {
        let before = self.left;
        self.left.iter_mut().zip(amounts).for_each(|(left, amount)| *left -= amount);
        let fits = self.fits();
        if !fits {
            self.left = before;
        }
        fits
    }
}

/// Returns the least harmful candidate; `None` if there are none.
///
/// These criteria decide, in this order: the fewest broken budgets; the lowest precedence of the most important victim;
/// the lowest sum of precedences, each counted from the minimum precedence; the fewest victims; the youngest decisive
/// victim; the first candidate. The decisive victim of a candidate is the oldest of its victims with the highest
/// precedence.
#[must_use]
pub fn best(candidates: &[Candidate]) -> Option<&Candidate> {
    candidates.iter().min_by_key(|candidate| harm(candidate))
}

/// Key by which [`best`] compares candidates: the harm of the evictions.
#[must_use]
pub fn harm(candidate: &Candidate) -> impl Ord + use<> {
    let victims = &candidate.victims;
    let highest = victims.first().map_or(Precedence(i32::MIN), |task| task.precedence);
    let sum: u64 =
        victims.iter().map(|task| (i64::from(task.precedence.0) + (1 << 31)) as u64).sum();
    let oldest = victims.iter().filter(|task| task.precedence == highest).map(|t| t.id).min();
    (candidate.violations, highest, sum, victims.len(), Reverse(oldest))
}
