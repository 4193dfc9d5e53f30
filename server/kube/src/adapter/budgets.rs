//! PodDisruptionBudgets, with the values that their controller has computed.
//!
//! As in kube-scheduler, only `status.disruptionsAllowed` counts. Each chosen victim lowers the budgets that apply to
//! it, until the controller writes them again. So two preemptions do not use the same disruption. A deletion that may
//! still turn out to be impossible only holds a disruption, until its outcome is known.
//!
//! A budget with an empty selector is for all pods of its namespace. As in kube-scheduler, preemption ignores it. The
//! repair of overcommitted nodes, which Kubernetes does not have, respects it, like the eviction API.

use omega_cellstate::TaskSet;
use omega_core::Job;
use omega_schedulers::preemption::Budget;
use omega_workload::kube::api::DisruptionBudget;
use omega_workload::kube::selector::labels_or_nothing;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Namespace and name of a budget.
type Key = (String, String);

/// The budgets. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Budgets(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    listed: bool,
    budgets: BTreeMap<Key, Budget>,
    /// Allowed disruptions of the budgets that are for all pods of their namespaces.
    whole: BTreeMap<Key, u32>,
    /// Jobs of the pods for which a disruption is held, by the pod's uid.
    held: BTreeMap<String, Arc<Job>>,
}

impl Known {
    /// Returns the number of disruptions that a budget still allows; negative if more are held.
    fn left(&self, budget: &Budget) -> i64 {
        let held = self.held.values().filter(|job| budget.tasks.includes(job, 0)).count();
        i64::from(budget.allowed) - i64::try_from(held).unwrap_or(i64::MAX)
    }

    /// Whether each budget for all pods of a namespace allows one more disruption.
    fn whole_allow(&self, namespace: &str) -> bool {
        let held = self.held.values().filter(|job| &*job.tenant == namespace).count();
        let mut of = self.whole.iter().filter(|((of, _), _)| of == namespace);
        of.all(|(_, allowed)| usize::try_from(*allowed).is_ok_and(|allowed| held < allowed))
    }

    fn insert(&mut self, object: &DisruptionBudget) {
        let (key, budget) = (key(object), budget(object));
        if is_whole(object) {
            self.whole.insert(key.clone(), budget.allowed);
        } else {
            self.whole.remove(&key);
        }
        self.budgets.insert(key, budget);
    }
}

fn key(object: &DisruptionBudget) -> Key {
    (object.metadata.namespace.clone(), object.metadata.name.clone())
}

/// Whether a budget is for all pods of its namespace. So is a budget whose selector is not understood; it allows no
/// disruption.
fn is_whole(object: &DisruptionBudget) -> bool {
    match &object.spec.selector {
        Some(selector) => selector.labels.is_empty() && selector.expressions.is_empty(),
        None => object.metadata.unreadable.is_some(),
    }
}

/// Converts a budget. A budget that could only be read in part allows no disruption.
fn budget(object: &DisruptionBudget) -> Budget {
    let tasks = TaskSet {
        tenant: object.metadata.namespace.as_str().into(),
        tasks: labels_or_nothing(object.spec.selector.as_ref()),
    };
    let allowed = u32::try_from(object.status.allowed.max(0)).unwrap_or(u32::MAX);
    Budget { tasks, allowed }
}

impl Budgets {
    fn with<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Handles a list of all budgets.
    pub fn listed(&self, all: &[DisruptionBudget]) {
        self.with(|known| {
            known.listed = true;
            known.budgets.clear();
            known.whole.clear();
            all.iter().for_each(|object| known.insert(object));
        });
    }

    /// Handles a budget that is new or has changed.
    pub fn changed(&self, object: &DisruptionBudget) {
        self.with(|known| known.insert(object));
    }

    /// Handles the deletion of a budget.
    pub fn deleted(&self, object: &DisruptionBudget) {
        self.with(|known| {
            known.budgets.remove(&key(object));
            known.whole.remove(&key(object));
        });
    }

    /// Whether the first list of budgets has arrived.
    #[must_use]
    pub fn are_listed(&self) -> bool {
        self.with(|known| known.listed)
    }

    /// Returns the current budgets. Returns `None` before their first list has arrived; until then no pod may be
    /// preempted.
    #[must_use]
    pub fn now(&self) -> Option<Vec<Budget>> {
        let now = |known: &Known, budget: &Budget| {
            let allowed = u32::try_from(known.left(budget).max(0)).unwrap_or(u32::MAX);
            Budget { allowed, ..budget.clone() }
        };
        self.with(|known| {
            known.listed.then(|| known.budgets.values().map(|budget| now(known, budget)).collect())
        })
    }

    /// Returns how many of these victims, deleted in this order, would violate a budget.
    #[must_use]
    pub fn violations(&self, victims: &[Arc<Job>]) -> usize {
        self.with(|known| {
            let mut left: Vec<(i64, &Budget)> =
                known.budgets.values().map(|budget| (known.left(budget), budget)).collect();
            let breaks = victims.iter().filter(|victim| {
                let mut breaks = false;
                for (left, _) in
                    left.iter_mut().filter(|(_, budget)| budget.tasks.includes(victim, 0))
                {
                    *left -= 1;
                    breaks |= *left < 0;
                }
                breaks
            });
            breaks.count()
        })
    }

    /// Whether the budgets are known, and none of them forbids to delete this pod.
    #[must_use]
    pub fn allow(&self, victim: &Arc<Job>) -> bool {
        self.are_listed()
            && self.violations(std::slice::from_ref(victim)) == 0
            && self.with(|known| known.whole_allow(&victim.tenant))
    }

    /// Holds a disruption of each budget that applies to the pod with this uid, until it is released.
    pub fn hold(&self, uid: &str, pod: Arc<Job>) {
        self.with(|known| known.held.insert(uid.to_owned(), pod));
    }

    /// Releases the disruptions that are held for a pod. Returns the pod's job, if any were held.
    pub fn release(&self, uid: &str) -> Option<Arc<Job>> {
        self.with(|known| known.held.remove(uid))
    }

    /// Lowers the budgets that apply to a victim, until the budget controller has counted the disruption.
    pub fn spend(&self, victim: &Job) {
        self.with(|known| {
            let of_victim =
                known.budgets.values_mut().filter(|budget| budget.tasks.includes(victim, 0));
            of_victim.for_each(|budget| budget.allowed = budget.allowed.saturating_sub(1));
            let whole = known.whole.iter_mut().filter(|((of, _), _)| *of == *victim.tenant);
            whole.for_each(|(_, allowed)| *allowed = allowed.saturating_sub(1));
        });
    }
}
