//! Makes room by evicting tasks of lower precedence, as kube-scheduler's `DefaultPreemption` does.
//!
//! The plugin tries evictions on some of the machines where they could help, starting at a random one, and takes the
//! machine with the lowest cost: see [`preemption`](crate::preemption). Most calls are for jobs that wait in a full
//! cell, so cheap checks come first: whether any less important task runs, and, in one pass of the filters, whether
//! evictions could change any rejection.

use crate::framework::disruption::DisruptionBudget;
use crate::framework::events::Events;
use crate::framework::plugin::News;
use crate::framework::plugin::Tasks;
use crate::framework::points::{Lack, MadeRoom, PostFilter};
use crate::plugins::cheapest::RandomStart;
use crate::preemption::{Budget, Candidate, Preemptor, best, could_fit_without_lower, has_lower};
use omega_cellstate::View;
use omega_core::Preemption;

/// Number of machines on which evictions are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateMachines {
    /// Part to examine of the machines where evictions could help, in percent.
    pub percentage: u32,
    /// Smallest number of machines that are examined.
    pub absolute: u32,
}

impl Default for CandidateMachines {
    /// Returns the defaults of Kubernetes.
    fn default() -> CandidateMachines {
        CandidateMachines { percentage: 10, absolute: 100 }
    }
}

impl CandidateMachines {
    /// The number of machines to try, if evictions could help on `machines` machines.
    #[must_use]
    pub fn among(self, machines: usize) -> usize {
        let share = machines.saturating_mul(self.percentage as usize) / 100;
        share.max(self.absolute as usize).min(machines)
    }
}

/// The plugin `default_preemption`; see the head of the file.
#[derive(Clone, Debug, Default)]
pub struct DefaultPreemption {
    candidates: CandidateMachines,
    budgets: Vec<DisruptionBudget>,
    start: RandomStart,
}

impl DefaultPreemption {
    /// Creates the plugin with disruption budgets. The plugin breaks a budget only if there is no other choice.
    #[must_use]
    pub fn new(candidates: CandidateMachines, budgets: Vec<DisruptionBudget>) -> DefaultPreemption {
        DefaultPreemption { candidates, budgets, start: RandomStart::default() }
    }
}

/// Whether a limit of a tenant rejects the tasks on every machine, and no possible victim counts against this limit.
fn quota_is_final(view: &View, lack: &Lack<'_>) -> bool {
    let bound = view.preemptible_below(lack.job.precedence);
    let short = view.quota_lack(lack.group);
    short.is_some_and(|short| !view.any_lower_below(bound, &short.tenant))
}

impl PostFilter for DefaultPreemption {
    fn name(&self) -> &'static str {
        "default_preemption"
    }

    fn keep(&self, view: &mut View) {
        self.budgets.iter().for_each(|budget| view.count_tasks(&budget.set));
    }

    fn protect(&mut self, budgets: &[DisruptionBudget]) {
        self.budgets.extend_from_slice(budgets);
    }

    fn wakes_on(&self, tasks: &Tasks<'_>, all: Events) -> Events {
        match tasks.job.preemption {
            // Suppose a more important task leaves and a less important one takes its place. The machine's free
            // resources have not grown, but the task that waits can now evict the new task.
            Preemption::LowerPrecedence => {
                all | Events::ROOM_FREED | Events::ROOM_TAKEN | Events::EVICTIONS_REFILLED
            }
            Preemption::Never => Events::NONE,
        }
    }

    fn may_help(&self, tasks: &Tasks<'_>, news: &News<'_>) -> bool {
        // After an event that is not about particular machines, evictions may help on any machine.
        let elsewhere = !news.events.without(Events::OF_MACHINES).is_empty();
        let could_fit = |row: &u32| could_fit_without_lower(tasks, *row as usize);
        has_lower(tasks.view, tasks.job) && (elsewhere || news.rows.iter().any(could_fit))
    }

    fn make_room(&mut self, view: &mut View, lack: &Lack<'_>) -> Option<MadeRoom> {
        let left = view.evictions_left().unwrap_or(usize::MAX);
        if left == 0 || !has_lower(view, lack.job) || quota_is_final(view, lack) {
            return None;
        }
        let budgets: Vec<Budget> = self.budgets.iter().map(|budget| budget.now(view)).collect();
        let Lack { evaluator, group, .. } = *lack;
        let preemptor = Preemptor { evaluator, group, budgets: &budgets, expected: &[] };
        let curable = preemptor.curable(view);
        let machines = curable.iter().map(|word| word.count_ones() as usize).sum();
        if machines == 0 {
            return None;
        }
        let enough = self.candidates.among(machines);
        let start = self.start.draw(view, view.rows());
        let mut candidates = preemptor.candidates_among(view, &curable, start, enough);
        let may_go = |candidate: &Candidate| candidate.victims.len() <= left;
        candidates.retain(may_go);
        if candidates.is_empty() && left < usize::MAX {
            // All tried machines need more evictions than the limit allows. Other machines may need fewer.
            candidates = preemptor.candidates_among(view, &curable, start, usize::MAX);
            candidates.retain(may_go);
        }
        let best = best(&candidates)?;
        let machine = view.machine_id(best.row);
        Some(MadeRoom { machine, evictions: best.victims.to_vec(), throttled: Vec::new() })
    }
}
