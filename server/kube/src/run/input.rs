//! Inputs of the engine, which all come through one queue.

use crate::adapter::bind_reply::{BindReply, PodRead};
use crate::adapter::effects::{ClaimChoice, Done, Eviction, GroupCondition, Nominee, Repair};
use crate::adapter::preempt::Proposal;
use crate::adapter::storage::{Stored, StoredKind};
use crate::adapter::{Binding, PodName};
use crate::watch::progress::Progress;
use crate::watch::{Event, Sink};
use crate::workers::Collect;
use omega_workload::kube::api::{DisruptionBudget, Namespace, Node, Pod, PodGroup};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::Sender;

/// An input.
#[derive(Debug)]
pub enum Input {
    /// An event from the watch of pods.
    Pods(Event<Arc<Pod>>),
    /// An event from the watch of nodes.
    Nodes(Box<Event<Node>>),
    /// An event from the watch of namespaces.
    Namespaces(Event<Namespace>),
    /// Decisions of a worker.
    Decided(Collect),
    /// The answer to a binding, with the server's message if the server refuses the binding.
    BindReplied(Binding, BindReply, Option<String>),
    /// The answer to the GET of a pod.
    PodRead(Binding, PodRead),
    /// An event from the watch of disruption budgets.
    Budgets(Event<DisruptionBudget>),
    /// An event from the watch of storage objects of a kind.
    Storage(StoredKind, Event<Stored>),
    /// An event from the watch of groups of pods.
    Groups(Event<PodGroup>),
    /// The server does not serve groups of pods.
    GroupsAbsent,
    /// The outcome of writing a condition of a group.
    GroupShown(GroupCondition, Done),
    /// The outcome of writing the choice of a volume.
    Chosen(ClaimChoice, Done),
    /// The preempter's answer about a pod.
    Proposed(PodName, Option<Proposal>),
    /// The outcome of changing a nominated node.
    Nominated(Nominee, Done),
    /// The outcome of deleting a victim.
    Evicted(Eviction, Done),
    /// The outcome of deleting a pod on an overcommitted node.
    Repaired(Repair, Done),
    /// The API server refuses the list or watch with this path. The message has the reason.
    Refused(&'static str, String),
    /// The reason why a pod is pending, in words.
    Explained(PodName, String),
    /// The versions of the list with this path went back, so all known versions of its objects are void.
    Reset(&'static str),
    /// A change of an object was left out, because it was too long to be read.
    LeftOut,
    /// Time has passed.
    Tick,
    /// This process is the leader from now on.
    Lead,
    /// The engine must stop.
    Stop,
}

/// Sink that converts events of a watch to inputs, and puts them into the engine's queue.
pub struct Into<T> {
    /// The engine's queue.
    pub queue: Sender<Input>,
    /// Converts an event to an input.
    pub wrap: fn(Event<T>) -> Input,
    /// The times at which lists were known to be up to date.
    pub progress: Progress,
}

impl<T: Send> Sink<T> for Into<T> {
    async fn take(&mut self, event: Event<T>) -> bool {
        self.queue.send((self.wrap)(event)).await.is_ok()
    }

    async fn left_out(&mut self) {
        // If the engine has stopped, it need not count this change.
        let _ = self.queue.send(Input::LeftOut).await;
    }

    fn progressed(&mut self, path: &'static str) {
        self.progress.note(path, Instant::now());
    }

    fn failed(&mut self, path: &'static str, why: String) {
        self.progress.fail(path, why);
    }

    async fn reset(&mut self, path: &'static str) {
        let _ = self.queue.send(Input::Reset(path)).await;
    }

    async fn refused(&mut self, path: &'static str, why: String) {
        let _ = self.queue.send(Input::Refused(path, why)).await;
    }
}
