//! PodDisruptionBudgets, with the values that their controller has computed.
//!
//! As in kube-scheduler, only `status.disruptionsAllowed` counts. Each pod that is chosen for deletion holds a
//! disruption of the budgets that apply to it. So two preemptions do not use the same disruption. It is released when
//! the deletion turns out to be impossible, or once the controller has counted it: when the budget changes after the
//! pod is known to be leaving, or half a minute later. A pod in `status.disruptedPods` costs no disruption, because the
//! eviction API has counted it.
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

/// Time after which the controller has counted a pod that is leaving.
const COUNTED_MS: u64 = 30_000;

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
    /// Pods for which a disruption is held, by uid.
    held: BTreeMap<String, Held>,
}

/// A pod that is to be deleted.
#[derive(Debug)]
struct Held {
    job: Arc<Job>,
    /// Time since which the pod is known to be leaving.
    leaving_ms: Option<u64>,
    /// Budgets that have changed since then.
    counted: BTreeSet<Key>,
}

impl BudgetState {
    /// Returns the number of disruptions that a budget still allows; negative if more are held.
    fn left(&self, key: &Key, budget: &Budget) -> i64 {
        let open = self.held.values().filter(|held| !held.counted.contains(key));
        let held = open.filter(|held| self.counts(key, budget, &held.job)).count();
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
        let in_namespace = || self.held.values().filter(|held| &*held.job.tenant == namespace);
        let held = |key: &Key| in_namespace().filter(|held| !held.counted.contains(key)).count();
        let mut of = self.whole.iter().filter(|((of, _), _)| of == namespace);
        of.all(|(key, allowed)| usize::try_from(*allowed).is_ok_and(|allowed| held(key) < allowed))
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
        for held in self.held.values_mut().filter(|held| held.leaving_ms.is_some()) {
            held.counted.insert(key.clone());
        }
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

    /// Holds a disruption of each budget that applies to the pod with this uid.
    pub fn hold(&self, uid: &str, job: Arc<Job>) {
        let held = Held { job, leaving_ms: None, counted: BTreeSet::new() };
        self.with(|state| {
            state.held.entry(uid.to_owned()).or_insert(held);
        });
    }

    /// Releases the disruptions that are held for a pod, because the pod is not deleted.
    pub fn release(&self, uid: &str) {
        self.with(|state| drop(state.held.remove(uid)));
    }

    /// Records that a pod is being deleted, or is gone.
    pub fn note_leaving(&self, uid: &str, now_ms: u64) {
        self.with(|state| {
            if let Some(held) = state.held.get_mut(uid) {
                held.leaving_ms.get_or_insert(now_ms);
            }
        });
    }

    /// Releases the disruptions that the controller must have counted by now.
    pub fn tick(&self, now_ms: u64) {
        let is_open = |held: &Held| {
            held.leaving_ms.is_none_or(|since| now_ms < since.saturating_add(COUNTED_MS))
        };
        self.with(|state| state.held.retain(|_, held| is_open(held)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::TaskGroup;

    /// A budget of the namespace `t` for pods with these labels, which allows this number of disruptions.
    fn object(labels: &str, allowed: u32) -> DisruptionBudget {
        let text = format!(
            r#"{{"metadata":{{"name":"b","namespace":"t"}},"spec":{{"selector":{labels}}},
                "status":{{"disruptionsAllowed":{allowed}}}}}"#
        );
        serde_json::from_str(&text).expect("a budget")
    }

    fn pod(name: &str) -> Arc<Job> {
        let group = TaskGroup::new(1, omega_core::Amounts::default()).with_label("app", "db");
        Arc::new(Job::batch(name, group).with_tenant("t"))
    }

    fn allowed(budgets: &Budgets) -> u32 {
        budgets.now().expect("budgets")[0].allowed
    }

    #[test]
    fn a_held_disruption_is_released_when_the_controller_has_counted_it() {
        let budgets = Budgets::default();
        let selector = r#"{"matchLabels":{"app":"db"}}"#;
        budgets.listed(&[object(selector, 2)]);
        budgets.hold("u", pod("t/a#1"));
        budgets.hold("u", pod("t/a#2"));
        assert_eq!(allowed(&budgets), 1, "two preemptors may wait for one victim");
        let change = |allowed| budgets.changed(&object(selector, allowed));
        change(2);
        assert_eq!(allowed(&budgets), 1, "the pod is not leaving yet");
        budgets.note_leaving("u", 1000);
        assert_eq!(allowed(&budgets), 1);
        change(1);
        assert_eq!(allowed(&budgets), 1, "the controller has counted the pod");
        // The controller writes nothing if another pod has taken the place of the deleted one.
        budgets.hold("v", pod("t/b#3"));
        budgets.note_leaving("v", 2000);
        budgets.note_leaving("v", 9000);
        budgets.tick(31_999);
        assert_eq!(allowed(&budgets), 0);
        budgets.tick(32_000);
        assert_eq!(allowed(&budgets), 1);
        budgets.hold("w", pod("t/c#4"));
        budgets.release("w");
        assert_eq!(allowed(&budgets), 1, "the deletion was refused");
    }

    #[test]
    fn a_budget_for_a_whole_namespace_counts_held_disruptions_in_the_same_way() {
        let budgets = Budgets::default();
        budgets.listed(&[object("{}", 1)]);
        let other = pod("t/b#2");
        assert!(budgets.allow(&other));
        budgets.hold("u", pod("t/a#1"));
        assert!(!budgets.allow(&other));
        budgets.note_leaving("u", 0);
        assert!(!budgets.allow(&other));
        budgets.changed(&object("{}", 1));
        assert!(budgets.allow(&other));
    }
}
