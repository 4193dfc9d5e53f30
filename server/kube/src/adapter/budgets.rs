//! PodDisruptionBudgets, with the values that their controller has computed.
//!
//! As in kube-scheduler, only `status.disruptionsAllowed` counts. Each chosen victim lowers the budgets that apply to
//! it, until the controller writes them again. So two preemptions do not use the same disruption. A deletion that may
//! still turn out to be impossible only holds a disruption, until its outcome is known. A pod in `status.disruptedPods`
//! costs no disruption, because the eviction API has counted it.
//!
//! A budget with an empty selector is for all pods of its namespace. As in kube-scheduler, preemption ignores it. The
//! repair of overcommitted nodes, which Kubernetes does not have, respects it, like the eviction API.

use omega_cellstate::TaskSet;
use omega_core::Job;
use omega_schedulers::preemption::Budget;
use omega_workload::kube::api::DisruptionBudget;
use omega_workload::kube::selector::labels_or_nothing;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Namespace and name of a budget.
type Key = (String, String);

/// The budgets. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Budgets(Arc<Mutex<BudgetState>>);

#[derive(Debug, Default)]
struct BudgetState {
    listed: bool,
    budgets: BTreeMap<Key, Budget>,
    /// Names of the pods whose disruption is already counted, by budget.
    disrupted: BTreeMap<Key, BTreeSet<String>>,
    /// Allowed disruptions of the budgets that are for all pods of their namespaces.
    whole: BTreeMap<Key, u32>,
    /// Jobs of the pods for which a disruption is held, by the pod's uid.
    held: BTreeMap<String, Arc<Job>>,
}

impl BudgetState {
    /// Returns the number of disruptions that a budget still allows; negative if more are held.
    fn left(&self, key: &Key, budget: &Budget) -> i64 {
        let held = self.held.values().filter(|job| self.counts(key, budget, job)).count();
        i64::from(budget.allowed) - i64::try_from(held).unwrap_or(i64::MAX)
    }

    /// Whether the deletion of a pod costs a disruption of a budget.
    fn counts(&self, key: &Key, budget: &Budget, pod: &Job) -> bool {
        let disrupted = self.disrupted.get(key);
        budget.tasks.includes(pod, 0)
            && !disrupted.is_some_and(|disrupted| disrupted.contains(pod_name(pod)))
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
        let disrupted = object.status.disrupted.iter().map(|(name, _)| name.clone());
        self.disrupted.insert(key.clone(), disrupted.collect());
        self.budgets.insert(key, budget);
    }

    fn remove(&mut self, key: &Key) {
        self.budgets.remove(key);
        self.disrupted.remove(key);
        self.whole.remove(key);
    }
}

/// Returns the name of a job's pod. The job is named after the namespace, the pod and a number: `shop/web#17`.
fn pod_name(job: &Job) -> &str {
    let full = job.name.split_once('#').map_or(&*job.name, |(full, _)| full);
    full.split_once('/').map_or(full, |(_, name)| name)
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
    fn with<T>(&self, look: impl FnOnce(&mut BudgetState) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Handles a list of all budgets.
    pub fn listed(&self, all: &[DisruptionBudget]) {
        self.with(|state| {
            state.listed = true;
            state.budgets.clear();
            state.disrupted.clear();
            state.whole.clear();
            all.iter().for_each(|object| state.insert(object));
        });
    }

    /// Handles a budget that is new or has changed.
    pub fn changed(&self, object: &DisruptionBudget) {
        self.with(|state| state.insert(object));
    }

    /// Handles the deletion of a budget.
    pub fn deleted(&self, object: &DisruptionBudget) {
        self.with(|state| state.remove(&key(object)));
    }

    /// Whether the first list of budgets has arrived.
    #[must_use]
    pub fn are_listed(&self) -> bool {
        self.with(|state| state.listed)
    }

    /// Returns the current budgets. Returns `None` before their first list has arrived; until then no pod may be
    /// preempted.
    #[must_use]
    pub fn now(&self) -> Option<Vec<Budget>> {
        let now = |state: &BudgetState, (key, budget): (&Key, &Budget)| {
            let allowed = u32::try_from(state.left(key, budget).max(0)).unwrap_or(u32::MAX);
            Budget { allowed, ..budget.clone() }
        };
        self.with(|state| {
            state.listed.then(|| state.budgets.iter().map(|budget| now(state, budget)).collect())
        })
    }

    /// Returns how many of these victims, deleted in this order, would violate a budget.
    #[must_use]
    pub fn violations(&self, victims: &[Arc<Job>]) -> usize {
        self.with(|state| {
            let left = state.budgets.iter().map(|(key, of)| (state.left(key, of), (key, of)));
            let mut left: Vec<(i64, (&Key, &Budget))> = left.collect();
            let breaks = victims.iter().filter(|victim| {
                let mut breaks = false;
                for (left, (key, of)) in &mut left {
                    if state.counts(key, of, victim) {
                        *left -= 1;
                        breaks |= *left < 0;
                    }
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
            && self.with(|state| state.whole_allow(&victim.tenant))
    }

    /// Holds a disruption of each budget that applies to the pod with this uid, until it is released.
    pub fn hold(&self, uid: &str, pod: Arc<Job>) {
        self.with(|state| state.held.insert(uid.to_owned(), pod));
    }

    /// Releases the disruptions that are held for a pod. Returns the pod's job, if any were held.
    pub fn release(&self, uid: &str) -> Option<Arc<Job>> {
        self.with(|state| state.held.remove(uid))
    }

    /// Lowers the budgets that apply to a victim, until the budget controller has counted the disruption.
    pub fn spend(&self, victim: &Job) {
        self.with(|state| {
            let mut budgets = std::mem::take(&mut state.budgets);
            let of_victim = budgets.iter_mut().filter(|(key, of)| state.counts(key, of, victim));
            of_victim.for_each(|(_, of)| of.allowed = of.allowed.saturating_sub(1));
            state.budgets = budgets;
            let whole = state.whole.iter_mut().filter(|((of, _), _)| *of == *victim.tenant);
            whole.for_each(|(_, allowed)| *allowed = allowed.saturating_sub(1));
        });
    }
}
