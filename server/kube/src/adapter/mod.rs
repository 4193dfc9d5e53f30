//! The step machine between the API server and the cell. It does no I/O and reads no clock.
//!
//! Events of watches become commands of the cell. A claim that the cell accepted becomes a [`Binding`]; its pod is
//! *assumed* on the node until the watch shows it bound, so its room is never given away twice. [`answer`] has the
//! rules for answers of the API server.

pub mod answer;
mod nodes;
mod place;

pub(crate) use place::scheduler_of;

use omega_cellstate::{Cell, SharedCell};
use omega_core::{Command, JobId, MachineId, TaskId, TaskState};
use omega_workload::kube::api::Pod;
use omega_workload::kube::live::Converter;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    /// Not to be scheduled by us, for this reason.
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
    /// It could not be bound; it is scheduled again at this time, so that it does not starve others.
    Parked {
        /// The time, in milliseconds of the caller's clock.
        until_ms: u64,
    },
}

/// A pod as the adapter knows it.
#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    version: u64,
    state: State,
    job: Option<JobId>,
    /// Bindings of the present decision that failed.
    failures: u32,
    /// Number of times the pod was parked, for the backoff.
    parked: u32,
}

/// Settings of the adapter.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `schedulerName`s of the pods to schedule.
    pub scheduler_names: BTreeSet<String>,
    /// Time for which a request may be under way before its outcome is unknown, in milliseconds. A decision is given up only
    /// after as long, because a late request could still bind the pod.
    pub request_timeout_ms: u64,
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
}

/// The step machine. See the head of the file.
pub struct Adapter {
    cell: SharedCell,
    converter: Converter,
    settings: Settings,
    pods: BTreeMap<PodName, Entry>,
    jobs: BTreeMap<JobId, PodName>,
    nodes: BTreeMap<String, MachineId>,
    names: BTreeMap<MachineId, String>,
    /// The pods on each node, also on one that is not there (yet).
    on_node: BTreeMap<String, BTreeSet<PodName>>,
    submitted: u64,
    decisions: u64,
    counters: Counters,
}

impl Adapter {
    /// Creates the adapter of an empty cell with the kinds of the converter.
    #[must_use]
    pub fn new(converter: Converter, settings: Settings) -> Adapter {
        Adapter {
            cell: SharedCell::new(Cell::new(converter.kinds().clone())),
            converter,
            settings,
            pods: BTreeMap::new(),
            jobs: BTreeMap::new(),
            nodes: BTreeMap::new(),
            names: BTreeMap::new(),
            on_node: BTreeMap::new(),
            submitted: 0,
            decisions: 0,
            counters: Counters::default(),
        }
    }

    /// Returns the cell, for workers.
    #[must_use]
    pub fn cell(&self) -> &SharedCell {
        &self.cell
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the state of a pod.
    #[must_use]
    pub fn state(&self, pod: &PodName) -> Option<&State> {
        self.pods.get(pod).map(|entry| &entry.state)
    }

    /// Returns the last form of a pod that is known.
    #[must_use]
    pub fn pod(&self, pod: &PodName) -> Option<&Arc<Pod>> {
        self.pods.get(pod).map(|entry| &entry.pod)
    }

    /// Returns the cell's job of a pod.
    #[must_use]
    pub fn job_of(&self, pod: &PodName) -> Option<JobId> {
        self.pods.get(pod).and_then(|entry| entry.job)
    }

    /// Returns the pod of a job.
    #[must_use]
    pub fn pod_of(&self, job: JobId) -> Option<&PodName> {
        self.jobs.get(&job)
    }

    /// Returns how many pods are in a state.
    pub fn count(&self, of: impl Fn(&State) -> bool) -> usize {
        self.pods.values().filter(|entry| of(&entry.state)).count()
    }

    /// Returns the number of pods that are pending, assumed, and parked.
    #[must_use]
    pub fn queues(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for entry in self.pods.values() {
            match entry.state {
                State::Pending => counts[0] += 1,
                State::Assumed { .. } => counts[1] += 1,
                State::Parked { .. } => counts[2] += 1,
                State::Held(_) | State::Bound(_) => {}
            }
        }
        counts
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Takes in a pod of an event, a list or an answer. Older news than what is known is ignored.
    pub fn pod_changed(&mut self, pod: Pod) {
        let name = PodName::of(&pod);
        let version = version(&pod.metadata.version);
        if let Some(known) = self.pods.get(&name) {
            if version <= known.version {
                return;
            }
            if known.pod.metadata.uid != pod.metadata.uid {
                self.forget(&name);
            }
        }
        if matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
            self.forget(&name);
            return;
        }
        let pod = Arc::new(pod);
        match self.pods.get_mut(&name) {
            Some(entry) => (entry.pod, entry.version) = (pod, version),
            None => {
                let state = State::Held(String::new());
                let entry = Entry { pod, version, state, job: None, failures: 0, parked: 0 };
                self.pods.insert(name.clone(), entry);
            }
        }
        self.settle(&name);
    }

    /// Takes in the deletion of a pod.
    pub fn pod_deleted(&mut self, pod: &Pod) {
        let name = PodName::of(pod);
        let gone = version(&pod.metadata.version);
        if self.pods.get(&name).is_some_and(|known| known.version <= gone) {
            self.forget(&name);
        }
    }

    /// Takes in a list of all pods at a version. Pods that it lacks are gone; what is assumed stays assumed.
    pub fn pods_listed(&mut self, pods: Vec<Pod>, at: &str) {
        let at = version(at);
        let listed: BTreeSet<PodName> = pods.iter().map(PodName::of).collect();
        let gone =
            |(name, entry): &(&PodName, &Entry)| entry.version <= at && !listed.contains(*name);
        let gone: Vec<PodName> =
            self.pods.iter().filter(gone).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| self.forget(name));
        pods.into_iter().for_each(|pod| self.pod_changed(pod));
    }

    /// Takes in an accepted claim, and returns its binding. `None` if the pod or the node has changed since.
    pub fn decided(&mut self, task: TaskId, machine: MachineId) -> Option<Binding> {
        let name = self.jobs.get(&task.job)?.clone();
        let node = self.names.get(&machine)?.clone();
        let placed = self.cell.read(|cell| cell.task(task));
        if placed != Some(TaskState::Placed(machine)) {
            return None;
        }
        let entry = self.pods.get_mut(&name)?;
        if entry.state != State::Pending {
            return None;
        }
        self.decisions += 1;
        let decision = self.decisions;
        entry.state = State::Assumed { decision, node: node.clone() };
        entry.failures = 0;
        self.on_node.entry(node.clone()).or_default().insert(name.clone());
        let uid = entry.pod.metadata.uid.clone();
        Some(Binding { decision, pod: name, uid, node })
    }

    /// Lets time pass: schedules parked pods again, and has the cell forget ended jobs.
    pub fn tick(&mut self, now_ms: u64) {
        let due =
            |entry: &Entry| matches!(entry.state, State::Parked { until_ms } if until_ms <= now_ms);
        let due = self.pods.iter().filter(|(_, entry)| due(entry));
        let due: Vec<PodName> = due.map(|(name, _)| name.clone()).collect();
        for name in due {
            if let Some(entry) = self.pods.get_mut(&name) {
                entry.state = State::Held(String::new());
            }
            self.settle(&name);
        }
        let _ = self.cell.apply(Command::Expire { now_ms });
    }
}

/// Returns a resource version as the number that it is; text that is no number counts as the oldest.
fn version(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}
