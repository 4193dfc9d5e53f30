//! Priorities of pods. A pod of a cluster has its priority in its specification, where the API server writes it when the
//! pod is created. A pod from elsewhere may only name its class.

use super::api::{Pod, PodSpec, PriorityClass};
use super::input::Place;
use std::collections::BTreeMap;

/// The classes that every cluster has.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

impl PodSpec {
    /// The priority: that of the specification, or of a class that every cluster has, or else 0.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.priority.or_else(|| built_in(&self.priority_class)).unwrap_or_default()
    }

    /// Whether the pod has a class whose priority is not known.
    pub(super) fn has_unknown_priority(&self) -> bool {
        let known = self.priority.is_some() || built_in(&self.priority_class).is_some();
        !known && !self.priority_class.is_empty()
    }
}

fn built_in(class: &str) -> Option<i32> {
    let found = BUILT_IN.iter().find(|(name, _)| *name == class);
    found.map(|(_, priority)| *priority)
}

/// Gives pods without a priority that of their class, or of the default class if they name none, as the API server does.
pub(super) fn resolve(pods: &mut [(Place, Pod)], classes: &[PriorityClass]) {
    let by_name: BTreeMap<&str, &PriorityClass> =
        classes.iter().map(|class| (class.metadata.name.as_str(), class)).collect();
    // Of several default classes, the API server uses the one of the lowest priority.
    let default = classes.iter().filter(|class| class.is_default).min_by_key(|class| class.value);
    for (_, pod) in pods.iter_mut().filter(|(_, pod)| pod.spec.priority.is_none()) {
        let class = match pod.spec.priority_class.as_str() {
            "" => default,
            name => by_name.get(name).copied(),
        };
        let Some(class) = class else { continue };
        pod.spec.priority = Some(class.value);
        if pod.spec.preemption_policy.is_empty() {
            pod.spec.preemption_policy.clone_from(&class.preemption_policy);
        }
    }
}
