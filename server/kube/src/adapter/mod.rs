//! The state machine between the API server and the cell. It does no I/O and reads no clock.
//!
//! Events of watches become commands of the cell. A claim that the cell accepted becomes a [`Binding`]. The pod is
//! *assumed* on its node until the watch reports it as bound, so no other pod gets its room. [`bind_reply`] has the
//! rules for answers of the API server.
//!
//! In reading order: [`types`], [`shared`], `nodes`, `place`, [`bind_reply`], `blind`, `overcommit`, `namespaces`,
//! [`preempt`], `nominations`, [`budgets`], `starts`, [`storage`], [`claims`], [`gangs`].

pub mod bind_reply;
mod blind;
pub mod budgets;
pub mod claims;
pub mod effects;
pub mod gangs;
mod namespaces;
mod nodes;
mod nominations;
mod overcommit;
mod place;
pub mod preempt;
pub mod shared;
mod starts;
pub mod storage;
pub mod types;

pub use effects::Effect;
pub(crate) use place::scheduler_of;
pub use shared::Shared;
pub use types::{Binding, Counters, PodName, Queues, Remark, Settings, State};

use blind::Blind;
use budgets::Budgets;
use claims::Waiting;
use gangs::Gangs;
use nominations::Nomination;
use overcommit::Overcommits;
use shared::Starts;
use storage::Storage;

use omega_cellstate::{Cell, CellHandle, SharedCell};
use omega_core::{Command, JobId, MachineId, SchedulerId, TaskId, TaskState};
use omega_workload::kube::api::Pod;
use omega_workload::kube::live::Converter;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Scheduler name under which the adapter itself commits to the cell.
const NAME: &str = "omega-kube/adapter";

/// Time after the acknowledgement of a binding at which the pod is read if the watch has not reported it as bound.
const ACKNOWLEDGED_MAX_MS: u64 = 60_000;

/// A pod, with the state that the adapter keeps for it.
#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    version: u64,
    state: State,
    job: Option<JobId>,
    /// Number of failed bindings of the current decision.
    failures: u32,
    /// The server's message about the last binding of the current decision, if the server refused the binding.
    refusal: Option<String>,
    /// Whether a request to bind the pod by the current decision may still arrive, although the pod is not bound.
    unsettled: bool,
    /// Time until which a request to bind the pod by a decision that was given up may arrive.
    late_until_ms: u64,
    /// Time at which the API server acknowledged the current decision's binding, unless the pod was read since.
    acknowledged_ms: Option<u64>,
    /// Number of times that the pod was parked, which determines its backoff.
    parked: u32,
    /// Room that is kept for the pod on a node.
    nomination: Option<Box<Nomination>>,
    /// Whether the reason for which the pod is held must be reported to its owner.
    refused: bool,
    /// The reason why the pod's job lacks requirements that keep other pods off the node, if it does.
    lacks: Option<String>,
    /// The job with which the pod's order among the pods of its node was last checked.
    ordered: Option<JobId>,
    /// The pod's binding, if it waits for volume claims.
    waiting: Option<Box<Waiting>>,
    /// The node of the pod's last nomination. The node is not tried again if the nomination failed.
    tried: String,
}

/// The state machine. See the head of the file.
pub struct Adapter {
    cell: SharedCell,
    converter: Converter,
    settings: Settings,
    pods: BTreeMap<PodName, Entry>,
    jobs: BTreeMap<JobId, PodName>,
    nodes: BTreeMap<String, MachineId>,
    /// Resources of each node that the cell does not count.
    untracked: BTreeMap<String, BTreeSet<String>>,
    names: BTreeMap<MachineId, String>,
    /// Names of the pods on each node. The node itself need not exist.
    on_node: BTreeMap<String, BTreeSet<PodName>>,
    /// Jobs that keep room on a node, each with the pod that gets the room.
    rooms: BTreeMap<JobId, PodName>,
    budgets: Budgets,
    starts: Starts,
    storage: Storage,
    gangs: Gangs,
    /// Whether this process may preempt: it is the leader, and preemption is switched on.
    leads: bool,
    /// Whether this process reports to users why pods are held, and repairs overcommit. Only the leader does.
    reports_reasons: bool,
    /// Id of the adapter in the cell.
    scheduler: SchedulerId,
    /// Number of the adapter's last transaction.
    transactions: u64,
    /// Deletions of victims that are requested again later, by the name of the victim.
    postponed: BTreeMap<PodName, preempt::Postponed>,
    /// Nodes that accept no pods, because the node or the requests of a pod on it are not known.
    blind: Blind,
    /// Nodes that other schedulers have overcommitted.
    overcommits: Overcommits,
    /// Pods whose rules depend on the labels of namespaces.
    selecting: BTreeSet<PodName>,
    /// Whether the first list is being handled. Pods that are bound in this list do not count as bound by other
    /// schedulers.
    starting: bool,
    submitted: u64,
    decisions: u64,
    /// The time of the last tick.
    now_ms: u64,
    counters: Counters,
    effects: Vec<Effect>,
}

impl Adapter {
    /// Creates an adapter with an empty cell, which has the converter's resource kinds.
    #[must_use]
    pub fn new(converter: Converter, settings: Settings) -> Adapter {
        let cell = SharedCell::new(Cell::new(converter.kinds().clone()));
        // This cannot fail, because an empty cell accepts every name.
        let (scheduler, transactions) = cell.register(NAME.into()).unwrap_or_default();
        Adapter {
            cell,
            converter,
            settings,
            pods: BTreeMap::new(),
            jobs: BTreeMap::new(),
            nodes: BTreeMap::new(),
            untracked: BTreeMap::new(),
            names: BTreeMap::new(),
            on_node: BTreeMap::new(),
            rooms: BTreeMap::new(),
            budgets: Budgets::default(),
            starts: Starts::default(),
            storage: Storage::default(),
            gangs: Gangs::default(),
            leads: false,
            reports_reasons: false,
            scheduler,
            transactions,
            postponed: BTreeMap::new(),
            blind: Blind::default(),
            overcommits: Overcommits::default(),
            selecting: BTreeSet::new(),
            starting: false,
            submitted: 0,
            decisions: 0,
            now_ms: 0,
            counters: Counters::default(),
            effects: Vec::new(),
        }
    }

    /// Returns the cell, for workers.
    #[must_use]
    pub fn cell(&self) -> &SharedCell {
        &self.cell
    }

    /// Returns the state that schedulers share with the adapter.
    #[must_use]
    pub fn shared(&self) -> Shared {
        Shared {
            cell: self.cell.clone(),
            volumes: self.storage.list.clone(),
            closers: self.blind.closers(),
            starts: self.starts.clone(),
        }
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the budgets that preemption respects.
    #[must_use]
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Returns the effects of events since the last call, which the caller must carry out.
    #[must_use]
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns the state of a pod.
    #[must_use]
    pub fn state(&self, pod: &PodName) -> Option<&State> {
        self.pods.get(pod).map(|entry| &entry.state)
    }

    /// Returns the last known form of a pod.
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

    /// Returns the number of pods in states for which `of` is true.
    pub fn count(&self, of: impl Fn(&State) -> bool) -> usize {
        self.pods.values().filter(|entry| of(&entry.state)).count()
    }

    /// Returns the numbers of pods in each queue. `failed` tells whether the last attempt to place a pending pod
    /// failed.
    #[must_use]
    pub fn queues(&self, failed: impl Fn(&Pod) -> bool) -> Queues {
        let mut queues = Queues::default();
        for entry in self.pods.values() {
            let of_state = match &entry.state {
                State::Pending if failed(&entry.pod) => &mut queues.unschedulable,
                State::Pending => &mut queues.active,
                State::Parked { .. } => &mut queues.backoff,
                State::Held(_) if entry.pod.metadata.deleted.is_none() && self.is_ours(entry) => {
                    &mut queues.gated
                }
                State::Assumed { .. } => &mut queues.assumed,
                State::Bound(_) => &mut queues.bound,
                State::Held(_) => continue,
            };
            *of_state += 1;
        }
        queues
    }

    /// Returns the pods that are pending tasks of the cell.
    pub fn pending(&self) -> impl Iterator<Item = &Pod> {
        let pending = self.pods.values().filter(|entry| entry.state == State::Pending);
        pending.map(|entry| &*entry.pod)
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Handles a pod from an event, a list or an answer. A form older than the known one is ignored. The pod's group is
    /// only updated by the next call of [`Adapter::settle_groups`].
    pub fn pod_changed(&mut self, pod: impl Into<Arc<Pod>>) {
        let pod = pod.into();
        let name = PodName::of(&pod);
        let version = version(&pod.metadata.version);
        if let Some(known) = self.pods.get(&name) {
            if version <= known.version {
                return;
            }
            // A bound pod stays bound, unless the API server was restored from a backup.
            let is_undone = matches!(known.state, State::Bound(_)) && pod.spec.node_name.is_empty();
            if is_undone || known.pod.metadata.uid != pod.metadata.uid {
                self.forget(&name);
            }
        }
        if matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
            self.forget(&name);
            return;
        }
        if Converter::selects_namespaces(&pod) {
            self.selecting.insert(name.clone());
        } else {
            self.selecting.remove(&name);
        }
        match self.pods.get_mut(&name) {
            Some(entry) => (entry.pod, entry.version) = (pod, version),
            None => {
                let state = State::Held(String::new());
                let entry = Entry {
                    pod,
                    version,
                    state,
                    job: None,
                    failures: 0,
                    refusal: None,
                    unsettled: false,
                    late_until_ms: 0,
                    acknowledged_ms: None,
                    parked: 0,
                    nomination: None,
                    refused: false,
                    lacks: None,
                    ordered: None,
                    waiting: None,
                    tried: String::new(),
                };
                self.pods.insert(name.clone(), entry);
                self.join_group(&name);
            }
        }
        if let Some(entry) = self.pods.get(&name).filter(|it| it.pod.metadata.deleted.is_some()) {
            self.budgets.note_leaving(&entry.pod.metadata.uid, self.now_ms);
        }
        self.settle(&name);
    }

    /// Handles versions that went back, such as after the API server was restored from a backup: every form in the next
    /// list counts as new. Bindings that were acknowledged may be lost, so assumed pods are read.
    pub fn versions_reset(&mut self) {
        for (name, entry) in &mut self.pods {
            entry.version = 0;
            if let Some(binding) = sent_binding(name, entry) {
                self.effects.push(Effect::Act(effects::Action::Get(binding, self.now_ms)));
            }
        }
    }

    /// Reads the pods whose binding was acknowledged long ago, and is still missing in the watch: the acknowledgement
    /// may be wrong.
    fn read_acknowledged(&mut self) {
        let now_ms = self.now_ms;
        for (name, entry) in &mut self.pods {
            let is_due = |at: u64| now_ms >= at.saturating_add(ACKNOWLEDGED_MAX_MS);
            if entry.acknowledged_ms.take_if(|at| is_due(*at)).is_some()
                && let Some(binding) = sent_binding(name, entry)
            {
                self.effects.push(Effect::Act(effects::Action::Get(binding, now_ms)));
            }
        }
    }

    /// Handles the deletion of a pod. The pod's group is only updated by the next call of [`Adapter::settle_groups`].
    pub fn pod_deleted(&mut self, pod: &Pod) {
        let name = PodName::of(pod);
        let gone = version(&pod.metadata.version);
        if self.pods.get(&name).is_some_and(|known| known.version <= gone) {
            self.forget(&name);
        }
    }

    /// Handles a list of all pods at a version. Pods that are not in the list are gone; assumed pods stay assumed.
    pub fn pods_listed(&mut self, mut pods: Vec<Arc<Pod>>, at: &str) {
        let at = version(at);
        self.starting = self.pods.is_empty();
        // With equal priority, preemption treats the pod with the lower job number as more important. So pods get their
        // job numbers in the order of their start. Kubernetes writes all times in one format, so their alphabetical
        // order is their order in time.
        pods.sort_by(|a, b| {
            let is_open = |pod: &Pod| pod.status.started.is_empty();
            is_open(a).cmp(&is_open(b)).then_with(|| a.status.started.cmp(&b.status.started))
        });
        let listed: BTreeSet<PodName> = pods.iter().map(|pod| PodName::of(pod)).collect();
        let gone =
            |(name, entry): &(&PodName, &Entry)| entry.version <= at && !listed.contains(*name);
        let gone: Vec<PodName> =
            self.pods.iter().filter(gone).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| self.forget(name));
        pods.into_iter().for_each(|pod| self.pod_changed(pod));
        self.settle_groups();
        self.starting = false;
        // All pods are known at this point, including those that are being deleted.
        let nominated =
            self.pods.iter().filter(|(_, entry)| !entry.pod.status.nominated_node.is_empty());
        let nominated: Vec<PodName> = nominated.map(|(name, _)| name.clone()).collect();
        nominated.iter().for_each(|name| self.follow_nomination(name));
    }

    /// Handles an accepted claim. Returns the binding of its pod; `None` if the pod or the node has changed since, or
    /// if the binding waits for volume claims. For a gang it also returns `None`, and the bindings are among the
    /// effects.
    pub fn decided(&mut self, task: TaskId, machine: MachineId) -> Option<Binding> {
        self.settle_groups();
        if self.gang_decided(task.job) {
            return None;
        }
        let name = self.jobs.get(&task.job)?.clone();
        let node = self.names.get(&machine)?.clone();
        let placed = self.cell.read(|cell| cell.task(task));
        if placed != Some(TaskState::Placed(machine)) {
            return None;
        }
        if self.state(&name) != Some(&State::Pending) {
            if matches!(self.state(&name), Some(State::Parked { .. })) {
                // The pod is scheduled again later, so it must not take room meanwhile.
                self.replace(&name, None);
            }
            return None;
        }
        let binding = self.assume(&name, node);
        // The pod may have been nominated to another node. It no longer needs the room that is kept there.
        self.drop_nomination(&name);
        self.bind_with_claims(binding?)
    }

    /// Advances the time: schedules parked pods whose time has come, and makes the cell remove ended jobs.
    pub fn tick(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.tick_claims(now_ms);
        self.read_acknowledged();
        self.budgets.tick(now_ms);
        self.evict_postponed(now_ms);
        self.repair_overcommits(now_ms);
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
        self.settle_groups();
        let _ = self.cell.apply(Command::Expire { now_ms });
    }
}

/// Returns the binding of an assumed pod, if it was sent.
fn sent_binding(name: &PodName, entry: &Entry) -> Option<Binding> {
    let State::Assumed { decision, node } = &entry.state else { return None };
    let (pod, uid, node) = (name.clone(), entry.pod.metadata.uid.clone(), node.clone());
    entry.waiting.is_none().then_some(Binding { decision: *decision, pod, uid, node })
}

/// Parses a resource version; text that is not a number is version 0, the oldest.
fn version(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}
