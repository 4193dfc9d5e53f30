//! Inputs of the engine: everything that happens, in one queue.

use crate::adapter::answer::{Answer, Found};
use crate::adapter::claims::ClaimChoice;
use crate::adapter::gangs::GroupCondition;
use crate::adapter::preempt::{Done, Eviction, Nominee, Proposal};
use crate::adapter::storage::{Stored, StoredKind};
use crate::adapter::{Binding, PodName};
use crate::watch::{Event, Sink};
use crate::workers::Collect;
use omega_workload::kube::api::{DisruptionBudget, Namespace, Node, Pod, PodGroup};
use tokio::sync::mpsc::Sender;

/// An input.
#[derive(Debug)]
pub enum Input {
    /// From the watch of pods.
    Pods(Box<Event<Pod>>),
    /// From the watch of nodes.
    Nodes(Box<Event<Node>>),
    /// From the watch of namespaces.
    Namespaces(Event<Namespace>),
    /// From a worker.
    Decided(Collect),
    /// The answer to a binding.
    Answered(Binding, Answer),
    /// The answer to the GET of a pod.
    Found(Binding, Found),
    /// From the watch of disruption budgets.
    Budgets(Event<DisruptionBudget>),
    /// From the watch of storage objects of a kind.
    Storage(StoredKind, Event<Stored>),
    /// From the watch of groups of pods.
    Groups(Event<PodGroup>),
    /// The server does not serve groups of pods.
    GroupsAbsent,
    /// The outcome of a written condition of a group.
    GroupShown(GroupCondition, Done),
    /// The outcome of a written choice of a volume.
    Chosen(ClaimChoice, Done),
    /// The preempter's answer about a pod.
    Proposed(PodName, Option<Proposal>),
    /// The outcome of a change of a nominated node.
    Nominated(Nominee, Done),
    /// The outcome of a victim's deletion.
    Evicted(Eviction, Done),
    /// A pod's state in words was computed.
    Explained(PodName, String),
    /// Time has passed.
    Tick,
    /// This process is the leader from now on.
    Lead,
    /// The end.
    Stop,
}

/// A sink of watched objects in the engine's queue.
pub struct Into<T> {
    /// The queue.
    pub queue: Sender<Input>,
    /// The input that an event is.
    pub wrap: fn(Event<T>) -> Input,
}

impl<T: Send> Sink<T> for Into<T> {
    async fn take(&mut self, event: Event<T>) -> bool {
        self.queue.send((self.wrap)(event)).await.is_ok()
    }
}
