//! Names, states and effects: the types that the adapter shares with its callers.

use omega_workload::kube::api::Pod;
use std::collections::BTreeSet;

/// The name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod in the namespace.
    pub name: String,
}

impl PodName {
    /// Returns the name of a pod.
    #[must_use]
    pub fn of(pod: &Pod) -> PodName {
        let metadata = &pod.metadata;
        PodName { namespace: metadata.namespace.clone(), name: metadata.name.clone() }
    }
}

impl std::fmt::Display for PodName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A binding to send to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Number of the decision. An answer to an older decision has another number, and is ignored.
    pub decision: u64,
    /// The pod.
    pub pod: PodName,
    /// Uid of the pod, which is a precondition of the binding.
    pub uid: String,
    /// Node to which the pod is bound.
    pub node: String,
}

/// The state of a pod in the adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The pod is not scheduled here, for this reason.
    Held(String),
    /// The pod is a pending task of the cell.
    Pending,
    /// The cell placed the pod. Its binding is in flight, or is acknowledged but not yet reported by the watch.
    Assumed {
        /// The number of the decision.
        decision: u64,
        /// Node on which the pod is placed.
        node: String,
    },
    /// The API server reports the pod as bound to this node.
    Bound(String),
    /// The pod could not be bound, or no victim could be deleted for it. It is scheduled again later, so that it does
    /// not delay other pods now.
    Parked {
        /// Time at which the pod is scheduled again, in milliseconds of the caller's clock.
        until_ms: u64,
    },
}

/// Numbers of pods by their place in the adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Pending pods that are to be tried.
    pub active: usize,
    /// Pending pods whose last attempt found no node.
    pub unschedulable: usize,
    /// Pods that could not be bound, and are scheduled again later.
    pub backoff: usize,
    /// Pods of our schedulers that are not tried: they have gates, are not supported, or wait for their group.
    pub gated: usize,
    /// Pods whose binding the watch has not reported yet.
    pub assumed: usize,
    /// Bound pods of all schedulers.
    pub bound: usize,
}

/// Settings of the adapter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `schedulerName`s of the pods to schedule.
    pub scheduler_names: BTreeSet<String>,
    /// Timeout of a request in milliseconds. If a decision is given up, the pod keeps its room for at least this time,
    /// because a late request could still bind it.
    pub request_timeout_ms: u64,
    /// Whether pods of lower priority are deleted for pods that fit on no node.
    pub preempts: bool,
    /// Whether pods that have not started are deleted from nodes that another scheduler has overcommitted.
    pub repairs: bool,
    /// Whether decisions are carried out. Otherwise, assumed pods do not count as overcommitting their nodes.
    pub binds: bool,
}

/// Counters of the adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bindings that the API server acknowledged.
    pub bound: u64,
    /// Bindings whose answer was a conflict or a missing pod.
    pub conflicts: u64,
    /// Bindings whose outcome was unknown.
    pub unknown: u64,
    /// Bindings that the API server's flow control rejected for now.
    pub throttled: u64,
    /// Decisions that were given up after repeated failures.
    pub given_up: u64,
    /// Pods that another scheduler or their owner bound.
    pub foreign: u64,
    /// Bindings by other schedulers after which a node's pods request more than the node has.
    pub overcommits: u64,
    /// Pods for which other pods were preempted.
    pub preemptions: u64,
    /// Pods that were preempted.
    pub victims: u64,
    /// Pods that were deleted because another scheduler has overcommitted their node.
    pub repairs: u64,
}

/// The reason why a pod is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HoldReason {
    /// The reason ends by itself, or the pod's owner chose it, so no condition is written.
    Quiet(String),
    /// The pod's owner has to change the pod, so the reason is written into a condition.
    Reported(String),
}

/// Content of an Event about a pod, except for the usual Events of scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The pod could not be read, so its node accepts no further pods.
    Unreadable {
        /// Node of the pod.
        node: String,
        /// The error.
        why: String,
    },
    /// Another scheduler bound the pod to a node that had no room for the pod.
    Overcommitted {
        /// Node to which the pod is bound.
        node: String,
        /// The overcommitted resources, such as `cpu 4500 of 4000`.
        resources: String,
    },
    /// The pod was deleted because another scheduler has overcommitted its node.
    Repaired {
        /// Node of the deleted pod.
        node: String,
        /// The overcommitted resources.
        resources: String,
    },
    /// The pod was deleted so that another pod fits.
    Preempted {
        /// Uid of the other pod.
        by_uid: String,
        /// Node of the deleted pod.
        node: String,
    },
}
