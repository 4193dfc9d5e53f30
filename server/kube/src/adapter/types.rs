//! Names, states and effects: the types that the adapter shares with its callers.

use super::answer::Action;
use omega_cellstate::SharedCell;
use omega_schedulers::Volumes;
use omega_workload::kube::api::Pod;
use std::collections::BTreeSet;

/// The name of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name in the namespace.
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

/// The state that schedulers share with the adapter. Clones share it too.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The cell.
    pub cell: SharedCell,
    /// The volumes.
    pub volumes: Volumes,
}

/// A binding to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The number of the decision, so that an answer to an older one is ignored.
    pub decision: u64,
    /// The pod.
    pub pod: PodName,
    /// Its uid, the precondition of the binding.
    pub uid: String,
    /// The node.
    pub node: String,
}

/// The state of a pod in the adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not scheduled here, for this reason.
    Held(String),
    /// A pending task of the cell.
    Pending,
    /// The cell placed it; its binding is under way, or acknowledged but not yet seen by the watch.
    Assumed {
        /// The number of the decision.
        decision: u64,
        /// The node.
        node: String,
    },
    /// The API server shows it on this node.
    Bound(String),
    /// It could not be bound, or no victim could be deleted for it. It is scheduled again later, so that it does not delay others.
    Parked {
        /// The time, in milliseconds of the caller's clock.
        until_ms: u64,
    },
}

/// Settings of the adapter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `schedulerName`s of the pods to schedule.
    pub scheduler_names: BTreeSet<String>,
    /// Timeout of a request in milliseconds. A pod whose decision is given up keeps its room at least as long, because a late
    /// request could still bind it.
    pub request_timeout_ms: u64,
    /// Whether pods of lower priority are deleted for those that find no node.
    pub preempts: bool,
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
    /// Bindings put off by the API server's flow control.
    pub throttled: u64,
    /// Decisions given up after repeated failures.
    pub given_up: u64,
    /// Pods that were found bound by another scheduler, or by their owner.
    pub foreign: u64,
    /// Foreign bindings after which the pods of the node request more than it has.
    pub overcommits: u64,
    /// Pods for which others were preempted.
    pub preemptions: u64,
    /// Pods that were preempted.
    pub victims: u64,
}

/// A consequence of an event that the caller carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A request to the API server.
    Act(Action),
    /// An Event about a pod.
    Tell(PodName, Remark),
    /// The reason for which a pod is not scheduled, which its owner can remove.
    Refuse(PodName, String),
}

/// The reason for which a pod is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The reason ends by itself, or the pod's owner chose it: no condition.
    Quiet(String),
    /// The pod's owner has to change the pod: a condition has the reason.
    Told(String),
}

/// The content of an Event about a pod that is not about its own scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The pod could not be read, so its node takes no further pods.
    Unreadable {
        /// The node.
        node: String,
        /// The error.
        why: String,
    },
    /// Another scheduler bound the pod to a node without room for it.
    Overcommitted {
        /// The node.
        node: String,
        /// The resources, as `cpu 4500 of 4000`.
        resources: String,
    },
    /// The pod was deleted so that another one fits.
    Preempted {
        /// The uid of that pod.
        by_uid: String,
        /// The node.
        node: String,
    },
}
