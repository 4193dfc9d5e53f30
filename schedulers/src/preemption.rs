//! Making room: which tasks of lower precedence would have to go for one more to fit.
//!
//! ```text
//!   machines where ──▶ per machine: take all lower tasks off; if the task fits then,     ──▶ the one
//!   it may help        put back the most important ones first, as far as it still fits       that hurts least
//! ```
//!
//! Both halves are kube-scheduler's `DefaultPreemption`: the fewest victims that hurt least on each
//! machine, then the machine by six criteria. Putting back starts with tasks whose eviction would
//! break a disruption budget, so that they stay if anything can.
//!
//! Where no rule about other tasks concerns the task, only amounts can change, and a machine is
//! tried by sums alone, without touching the view.

use crate::plugin::Reads;
use crate::profile::Profile;
use crate::search::tasks;
use omega_cellstate::{BLOCK, GroupRef, PlacedTask, View};
use omega_core::{JobId, KindId, LabelSelector, Precedence, Text};
use smallvec::SmallVec;
use std::cmp::Reverse;

/// How many tasks may be disturbed. (Kubernetes' `PodDisruptionBudget`, in its present state.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Whose tasks it protects.
    pub tenant: Text,
    /// Which of them; a selector without requirements protects none.
    pub tasks: LabelSelector,
    /// How many of them may go now.
    pub allowed: u32,
}

impl Budget {
    fn protects(&self, view: &View, task: &PlacedTask) -> bool {
        let Some(job) = view.job_of(task.id).filter(|job| job.tenant == self.tenant) else {
            return false;
        };
        let labels = &job.groups[usize::from(task.group)].labels;
        let selects = !self.tasks.requirements.is_empty() && self.tasks.matches(labels);
        selects && !labels.is_empty()
    }
}

/// A task that is expected on a machine: room was made there for it. (Kubernetes' nominated pod.)
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The row of the machine.
    pub row: usize,
    /// Its job.
    pub job: JobId,
    /// Its group, compiled.
    pub group: GroupRef,
    /// Its precedence.
    pub precedence: Precedence,
}

/// For which task room is to be made, and what is to be respected.
#[derive(Clone, Copy, Debug)]
pub struct Preemptor<'a> {
    /// The plugins whose filters must allow the machine afterwards.
    pub profile: &'a Profile,
    /// The task's group, compiled.
    pub group: GroupRef,
    /// Disruption budgets.
    pub budgets: &'a [Budget],
    /// Tasks that are expected somewhere. Those of the same or higher precedence must fit beside
    /// the task.
    pub expected: &'a [Expected],
}

/// A machine on which the task would fit without some others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The machine's row.
    pub row: usize,
    /// Who has to go, the most important first. Never empty.
    pub victims: Vec<PlacedTask>,
    /// How many of them a budget protects.
    pub violations: usize,
}

impl Preemptor<'_> {
    fn precedence(&self, view: &View) -> Precedence {
        view.job(self.group).0.precedence
    }

    /// Whether the filters allow the task on the machine in a row now, with and without the tasks
    /// that are expected there.
    #[must_use]
    pub fn fits(&self, view: &mut View, row: usize) -> bool {
        if !self.expected.is_empty() && !self.fits_beside_expected(view, row) {
            return false;
        }
        self.is_feasible(view, row)
    }

    fn fits_beside_expected(&self, view: &mut View, row: usize) -> bool {
        let job = self.job_id(view);
        let precedence = self.precedence(view);
        let counts = |expected: &&Expected| {
            expected.row == row && expected.precedence >= precedence && expected.job != job
        };
        let groups: Vec<GroupRef> =
            self.expected.iter().filter(counts).map(|expected| expected.group).collect();
        groups.iter().for_each(|group| view.assume(row, *group, -1));
        let fits = groups.is_empty() || self.is_feasible(view, row);
        groups.iter().for_each(|group| view.assume(row, *group, 1));
        fits
    }

    fn job_id(&self, view: &View) -> JobId {
        view.job_id(self.group)
    }

    fn is_feasible(&self, view: &View, row: usize) -> bool {
        let tasks = tasks(view, self.group);
        let bit = 1 << (row % BLOCK);
        let active = self.profile.active(&tasks);
        active.feasible(&tasks, view.block(row / BLOCK), bit) != 0
    }

    /// What would have to go from the machine in a row; `None` if nothing there helps.
    ///
    /// The view must keep placements ([`View::with_placements`]); it is as before when this
    /// returns.
    #[must_use]
    pub fn candidate(&self, view: &mut View, row: usize) -> Option<Candidate> {
        let precedence = self.precedence(view);
        let on_machine = view.tasks_on(row);
        let first = on_machine.partition_point(|task| task.precedence >= precedence);
        let lower = &on_machine[first..];
        if lower.is_empty() {
            return None;
        }
        let kinds = view.kinds().count();
        let mut room = Room::of(view, row, self.group);
        let requests = view.requests_on(row)[first * kinds..].chunks_exact(kinds);
        requests.clone().for_each(|request| room.add(request));
        if !room.fits() {
            return None;
        }
        if self.only_amounts_matter(view) {
            return self
                .is_allowed(view, row)
                .then(|| self.by_sums(view, lower, requests, room))?;
        }
        let lower = lower.to_vec();
        lower.iter().for_each(|task| view.lift(row, *task));
        let mut candidate = None;
        if self.fits(view, row) {
            candidate = Some(self.put_back(view, row, &lower));
        } else {
            lower.iter().for_each(|task| view.put_back(row, *task));
        }
        debug_assert_eq!(view.lifted(), 0, "the view is as before");
        candidate.filter(|candidate| !candidate.victims.is_empty())
    }

    /// Whether nothing but amounts can change when tasks go.
    fn only_amounts_matter(&self, view: &View) -> bool {
        let need = view.need(self.group);
        let on_amounts = self.profile.filters().filter(|f| f.reads().includes(Reads::AMOUNTS));
        // One filter is the cell's own; a second one would be somebody's who knows more.
        self.expected.is_empty()
            && !need.has_rules()
            && need.cards.is_none()
            && on_amounts.count() == 1
    }

    /// Whether the filters that do not look at amounts allow a machine.
    fn is_allowed(&self, view: &View, row: usize) -> bool {
        let tasks = tasks(view, self.group);
        let (block, bit) = (view.block(row / BLOCK), 1 << (row % BLOCK));
        let others = self.profile.filters().filter(|f| !f.reads().includes(Reads::AMOUNTS));
        others
            .filter(|filter| filter.applies(&tasks))
            .all(|filter| filter.filter(&tasks, block, bit) & bit != 0)
    }

    /// As [`Preemptor::put_back`], by what would be left of each kind.
    fn by_sums<'r>(
        &self,
        view: &View,
        lower: &[PlacedTask],
        requests: impl Iterator<Item = &'r [i64]> + Clone,
        mut room: Room<'_>,
    ) -> Option<Candidate> {
        let breaks = self.breaks_budget(view, lower);
        let mut victims = Vec::new();
        let mut violations = 0;
        for protected in [true, false] {
            let both = lower.iter().zip(requests.clone()).zip(&breaks);
            for ((task, request), _) in both.filter(|(_, breaks)| **breaks == protected) {
                if !room.take(request) {
                    victims.push(*task);
                    violations += usize::from(protected);
                }
            }
        }
        victims.sort_by_key(|task| (Reverse(task.precedence), task.id));
        (!victims.is_empty()).then_some(Candidate { row: room.row, victims, violations })
    }

    /// Puts back what may stay, then the victims, too. The task fits without all of them.
    fn put_back(&self, view: &mut View, row: usize, lower: &[PlacedTask]) -> Candidate {
        let breaks = self.breaks_budget(view, lower);
        let mut victims = Vec::new();
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
        victims.iter().for_each(|task| view.put_back(row, *task));
        victims.sort_by_key(|task| (Reverse(task.precedence), task.id));
        Candidate { row, victims, violations }
    }

    /// For each task, the most important first, whether its eviction would break a budget if all
    /// before it went.
    fn breaks_budget(&self, view: &View, tasks: &[PlacedTask]) -> SmallVec<[bool; 64]> {
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
        tasks.iter().map(breaks).collect()
    }
}

/// What a machine would have left of each kind.
struct Room<'a> {
    row: usize,
    left: SmallVec<[i64; 8]>,
    request: &'a [i64],
}

impl<'a> Room<'a> {
    fn of(view: &'a View, row: usize, group: GroupRef) -> Room<'a> {
        let kinds = (0..view.kinds().count() as u8).map(KindId);
        let left = kinds.map(|kind| view.free(row, kind)).collect();
        Room { row, left, request: &view.need(group).request }
    }

    fn add(&mut self, request: &[i64]) {
        self.left.iter_mut().zip(request).for_each(|(left, amount)| *left += amount);
    }

    fn fits(&self) -> bool {
        self.left.iter().zip(self.request).all(|(left, request)| request <= left || *request == 0)
    }

    /// Takes an amount, if the task still fits then. The answer is whether it did.
    fn take(&mut self, amounts: &[i64]) -> bool {
        self.left.iter_mut().zip(amounts).for_each(|(left, amount)| *left -= amount);
        let fits = self.fits();
        if !fits {
            self.add(amounts);
        }
        fits
    }
}

/// The candidate that hurts least: with the fewest broken budgets; then with the lowest precedence
/// of its most important victim; then with the least sum of precedences, each counted from the
/// lowest there is; then with the fewest victims; then the one whose oldest victim of the highest
/// precedence is the youngest; then the first.
#[must_use]
pub fn best(candidates: &[Candidate]) -> Option<&Candidate> {
    candidates.iter().min_by_key(|candidate| harm(candidate))
}

/// What [`best`] compares. The candidates of equal harm are equally good.
#[must_use]
pub fn harm(candidate: &Candidate) -> impl Ord + use<> {
    let victims = &candidate.victims;
    let highest = victims.first().map_or(Precedence(i32::MIN), |task| task.precedence);
    let sum: u64 =
        victims.iter().map(|task| (i64::from(task.precedence.0) + (1 << 31)) as u64).sum();
    let oldest = victims.iter().filter(|task| task.precedence == highest).map(|t| t.id).min();
    (candidate.violations, highest, sum, victims.len(), Reverse(oldest))
}
