//! The engine: the thread that owns the adapter. It receives all inputs through one queue.

use super::PODS;
use super::attempts::Attempts;
use super::first::First;
use super::input::Input;
use super::metrics::Metrics;
use super::notices::{Notice, Notices};
use super::outbox::Outbox;
use super::preempter::{Preempter, Preempting};
use crate::adapter::bind_reply::BindReply;
use crate::adapter::effects::{Action, ClaimChoice};
use crate::adapter::storage::{Stored, StoredKind};
use crate::adapter::{Adapter, Binding, Counters, Effect, PodName, Settings, State};
use crate::profiles::KubeProfile;
use crate::watch::Event;
use crate::watch::progress::Progress;
use crate::workers::{Collect, Workers};
use omega_core::MachineId;
use omega_workload::kube::api::{Namespace, Node, Pod, PodGroup};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::mpsc::{Receiver, Sender};

/// Maximum number of inputs that are handled before the workers are woken.
const BATCH_MAX: usize = 512;

/// Determines whether decisions are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Pods are bound.
    Bind,
    /// Decisions are only compared with the decisions of the present scheduler.
    DryRun,
}

/// Error after which the engine cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The cluster does not fit into a cell. The message names the limit.
    #[error("the cluster cannot be mirrored: {0}")]
    Cluster(String),
    /// A worker's thread cannot be started, or the cell rejects its name. The error has the reason.
    #[error("workers cannot start: {0}")]
    Workers(std::io::Error),
}

/// Whether the engine has mirrored the first lists of the cluster, for probes. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Whether the first lists are mirrored.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The parts from which an engine is made.
pub struct Parts {
    /// Settings of the adapter.
    pub settings: Settings,
    /// The profiles.
    pub profiles: Vec<KubeProfile>,
    /// Number of workers of each profile.
    pub workers: u32,
    /// Whether decisions are carried out.
    pub mode: Mode,
    /// The queue of requests to the API server.
    pub outbox: Outbox,
    /// The writer of Events and conditions.
    pub notices: Notices,
    /// The thread that proposes victims.
    pub preempting: Preempting,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The times at which the mirrored lists were last known to be up to date.
    pub progress: Progress,
    /// Whether the first lists are mirrored, for probes.
    pub readiness: Readiness,
    /// The sending side of the engine's own queue, for workers.
    pub queue: Sender<Input>,
}

/// The engine.
pub struct Engine {
    pub(super) parts: Parts,
    pub(super) first: First,
    pub(super) adapter: Option<Adapter>,
    pub(super) workers: Option<Workers>,
    pub(super) leads: bool,
    pub(super) started: Instant,
    /// The attempts to schedule each unbound pod, for metrics.
    pub(super) attempts: Attempts,
    /// In a dry run, the node that was chosen for each pod.
    pub(super) dry_run_nodes: BTreeMap<PodName, String>,
    /// Pods for which the preempter is looking for victims.
    pub(super) searching: BTreeSet<PodName>,
    /// Pods that are not scheduled, each with the reason, which is still to be reported to the pod's owner.
    pub(super) unreported_reasons: BTreeMap<PodName, String>,
    /// Pods for which the preempter must look for victims once more after its present search.
    pub(super) search_again: BTreeSet<PodName>,
    /// Machines that are left out of the present search for victims for a pod.
    pub(super) left_out: BTreeMap<PodName, BTreeSet<MachineId>>,
    /// The counters at the last update of the metrics.
    pub(super) counted: Counters,
    pub(super) ticks: u64,
}

impl Engine {
    /// Creates an engine.
    #[must_use]
    pub fn new(parts: Parts) -> Engine {
        Engine {
            parts,
            first: First::default(),
            adapter: None,
            workers: None,
            leads: false,
            started: Instant::now(),
            attempts: Attempts::default(),
            dry_run_nodes: BTreeMap::new(),
            searching: BTreeSet::new(),
            unreported_reasons: BTreeMap::new(),
            search_again: BTreeSet::new(),
            left_out: BTreeMap::new(),
            counted: Counters::default(),
            ticks: 0,
        }
    }

    /// Handles inputs until [`Input::Stop`] or the end of the queue.
    ///
    /// # Errors
    /// If the cluster does not fit into a cell, or workers cannot start.
    pub fn run(mut self, mut inputs: Receiver<Input>) -> Result<(), EngineError> {
        while let Some(input) = inputs.blocking_recv() {
            let mut next = Some(input);
            let mut taken = 0;
            while let Some(input) = next {
                if matches!(input, Input::Stop) {
                    return Ok(());
                }
                self.take(input)?;
                taken += 1;
                next = if taken < BATCH_MAX { inputs.try_recv().ok() } else { None };
            }
            self.settle_groups();
            if let Some(workers) = &self.workers {
                workers.wake();
            }
        }
        Ok(())
    }

    /// Settles the groups of pods that have changed since the last batch of inputs.
    fn settle_groups(&mut self) {
        let now_ms = self.now_ms();
        let Some(adapter) = &mut self.adapter else { return };
        adapter.settle_groups();
        self.follow_up(now_ms);
    }

    fn take(&mut self, input: Input) -> Result<(), EngineError> {
        match input {
            Input::LeftOut => {
                self.parts.metrics.left_out.inc();
            }
            Input::Lead => {
                self.leads = true;
                self.start_workers()?;
                let now_ms = self.now_ms();
                self.follow_up(now_ms);
            }
            input if self.adapter.is_some() => self.handle(input),
            Input::Tick => {}
            input => {
                self.first.take(input);
                if self.first.is_whole() {
                    self.mirror()?;
                }
            }
        }
        Ok(())
    }

    /// Makes the adapter from the first lists, once all of them have arrived. If this process is the leader, also
    /// starts the workers.
    fn mirror(&mut self) -> Result<(), EngineError> {
        let first = std::mem::take(&mut self.first);
        let made = first.adapter(self.parts.settings.clone());
        let (adapter, later) = made.map_err(EngineError::Cluster)?;
        let shared = adapter.shared();
        self.parts.notices.mirror(&shared, &self.parts.profiles);
        let budgets = adapter.budgets().clone();
        let preempter = Preempter::new(shared, self.parts.profiles.clone(), budgets);
        self.parts.preempting.mirror(preempter);
        self.adapter = Some(adapter);
        self.note_first_pods();
        later.into_iter().for_each(|input| self.handle(input));
        self.parts.readiness.set();
        self.figures();
        tracing::info!("the mirror is whole");
        self.start_workers()
    }

    fn start_workers(&mut self) -> Result<(), EngineError> {
        if !self.leads || self.workers.is_some() {
            return Ok(());
        }
        let queue = self.parts.queue.clone();
        if let Some(adapter) = &mut self.adapter {
            adapter.lead();
        }
        let Some(adapter) = &self.adapter else { return Ok(()) };
        let pass = move |collect: Collect| drop(queue.blocking_send(Input::Decided(collect)));
        let (profiles, count) = (&self.parts.profiles, self.parts.workers);
        let workers = Workers::start(&adapter.shared(), profiles, count, pass);
        self.workers = Some(workers.map_err(EngineError::Workers)?);
        tracing::info!(workers = self.parts.workers, "scheduling");
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn handle(&mut self, input: Input) {
        let now_ms = self.now_ms();
        match input {
            Input::Pods(event) => self.pods(event),
            Input::Nodes(event) => self.nodes(*event),
            Input::Decided(collect) => self.decided(&collect),
            Input::BindReplied(binding, answer, refusal) => {
                if let (Some(adapter), Some(why)) = (&mut self.adapter, refusal) {
                    adapter.binding_refused(&binding, why);
                }
                self.handle_bind_reply(binding, answer, now_ms);
            }
            Input::PodRead(binding, found) => {
                let Some(adapter) = &mut self.adapter else { return };
                let action = adapter.handle_pod_read(binding, found, now_ms);
                self.act(action, now_ms);
            }
            Input::Explained(pod, message) => self.explained(&pod, message),
            Input::Tick => {
                if let Some(adapter) = &mut self.adapter {
                    adapter.tick(now_ms);
                }
                for pod in std::mem::take(&mut self.search_again) {
                    self.search(pod);
                }
                self.report_reasons();
                self.figures();
            }
            Input::Namespaces(event) => self.namespaces(event),
            Input::Budgets(event) => self.budgets(event),
            Input::Storage(kind, event) => self.storage(kind, event),
            Input::Groups(event) => self.groups(event),
            Input::GroupsAbsent => {
                let Some(adapter) = &mut self.adapter else { return };
                adapter.groups_absent();
            }
            Input::GroupShown(condition, done) => {
                let Some(adapter) = &mut self.adapter else { return };
                let action = adapter.group_shown(condition, done, now_ms);
                self.act(action, now_ms);
            }
            Input::Chosen(choice, done) => {
                let Some(adapter) = &mut self.adapter else { return };
                let action = adapter.chosen(choice, done, now_ms);
                self.act(action, now_ms);
            }
            Input::Proposed(pod, proposal) => self.proposed(pod, proposal),
            Input::Nominated(nominee, done) => {
                let Some(adapter) = &mut self.adapter else { return };
                let action = adapter.nominated(nominee, done, now_ms);
                self.act(action, now_ms);
            }
            Input::Evicted(eviction, done) => {
                let Some(adapter) = &mut self.adapter else { return };
                adapter.evicted(eviction, done, now_ms);
            }
            Input::Repaired(repair, done) => {
                let Some(adapter) = &mut self.adapter else { return };
                adapter.repaired(repair, done);
            }
            Input::Reset(path) => self.versions_reset(path),
            Input::Lead | Input::LeftOut | Input::Refused(..) | Input::Stop => {}
        }
        self.follow_up(now_ms);
    }

    fn storage(&mut self, kind: StoredKind, event: Event<Stored>) {
        let Some(adapter) = &mut self.adapter else { return };
        match event {
            Event::Listed(all, _) => adapter.storage_listed(kind, all),
            Event::Changed(object) => adapter.storage_changed(object),
            Event::Deleted(object) => adapter.storage_deleted(&object),
        }
    }

    /// Handles a list whose versions went back. Only pods are compared by version. Lists of other objects replace what
    /// is known in any case.
    fn versions_reset(&mut self, path: &str) {
        if let Some(adapter) = self.adapter.as_mut().filter(|_| path == PODS.path) {
            adapter.versions_reset();
        }
    }

    /// Carries out the effects of an event.
    fn follow_up(&mut self, now_ms: u64) {
        let Some(adapter) = &mut self.adapter else { return };
        for effect in adapter.effects() {
            if let Effect::Act(
                Action::Claim(ClaimChoice { binding, .. }, _) | Action::Bind(binding, _),
            ) = &effect
            {
                self.note_placed(&binding.pod, None);
            }
            match effect {
                Effect::Act(
                    Action::Claim(ClaimChoice { binding, .. }, _) | Action::Bind(binding, _),
                ) if self.parts.mode == Mode::DryRun => {
                    tracing::info!(pod = %binding.pod, node = %binding.node, "would bind");
                    self.dry_run_nodes.insert(binding.pod, binding.node);
                }
                Effect::Refuse(name, why) => drop(self.unreported_reasons.insert(name, why)),
                Effect::GiveUp(name) => self.note_given_up(&name),
                Effect::Act(_) if self.parts.mode == Mode::DryRun => {}
                Effect::Act(action) => self.act(Some(action), now_ms),
                Effect::Tell(name, remark) => {
                    let pod = self.adapter.as_ref().and_then(|adapter| adapter.pod(&name));
                    let notice = pod.map(|pod| Notice::remark(pod, remark));
                    // Remarks about watched pods arise in every process, so only the leader writes the Events.
                    notice
                        .filter(|_| self.leads)
                        .into_iter()
                        .for_each(|it| self.parts.notices.queue(it));
                }
            }
        }
    }

    fn namespaces(&mut self, event: Event<Namespace>) {
        let Some(adapter) = &mut self.adapter else { return };
        match event {
            Event::Listed(all, _) => adapter.namespaces_listed(&all),
            Event::Changed(namespace) => adapter.namespace_changed(&namespace),
            Event::Deleted(namespace) => adapter.namespace_deleted(&namespace.metadata.name),
        }
    }

    fn groups(&mut self, event: Event<PodGroup>) {
        let Some(adapter) = &mut self.adapter else { return };
        match event {
            Event::Listed(all, _) => adapter.groups_listed(all),
            Event::Changed(group) => adapter.group_changed(group),
            Event::Deleted(group) => adapter.group_deleted(&group),
        }
    }

    fn pods(&mut self, event: Event<Arc<Pod>>) {
        self.note_pods(&event);
        if let Event::Changed(pod) = &event {
            self.compare(pod);
        }
        let Some(adapter) = &mut self.adapter else { return };
        match event {
            Event::Listed(pods, at) => adapter.pods_listed(pods, &at),
            Event::Changed(pod) => adapter.pod_changed(pod),
            Event::Deleted(pod) => {
                self.dry_run_nodes.remove(&PodName::of(&pod));
                adapter.pod_deleted(&pod);
            }
        }
    }

    fn nodes(&mut self, event: Event<Node>) {
        let Some(adapter) = &mut self.adapter else { return };
        match event {
            Event::Listed(nodes, _) => adapter.nodes_listed(&nodes),
            Event::Changed(node) => adapter.node_changed(&node),
            Event::Deleted(node) => adapter.node_deleted(&node.metadata.name),
        }
    }

    /// Compares the node that the dry run chose for a pod with the node to which the pod is bound.
    fn compare(&mut self, pod: &Pod) {
        if self.parts.mode != Mode::DryRun || pod.spec.node_name.is_empty() {
            return;
        }
        let name = PodName::of(pod);
        let Some(ours) = self.dry_run_nodes.remove(&name) else { return };
        let theirs = &pod.spec.node_name;
        let outcome = if ours == *theirs { "same" } else { "other" };
        self.parts.metrics.dry_run.get_or_create(&[("node", outcome)]).inc();
        tracing::info!(pod = %name, %ours, %theirs, "dry run");
    }

    fn decided(&mut self, collect: &Collect) {
        let (mut bindings, mut placed) = (Vec::<Binding>::new(), Vec::new());
        let (mut unplaced, mut missed) = (Vec::new(), Vec::new());
        let Some(adapter) = &mut self.adapter else { return };
        // A gang may have lost a pod since the workers decided about it.
        adapter.settle_groups();
        self.parts.metrics.conflicts.inc_by(collect.conflicts as u64);
        for claim in &collect.accepted {
            let job = claim.task.job;
            let pods = adapter.pods_of_gang(job).iter().chain(adapter.pod_of(job));
            placed.extend(pods.map(|pod| (pod.clone(), job)));
            bindings.extend(adapter.decided(claim.task, claim.machine));
        }
        for job in &collect.unplaced {
            if let Some(why) = adapter.gang_unplaced(*job) {
                let pods = adapter.pods_of_gang(*job).iter();
                missed.extend(pods.clone().map(|pod| (pod.clone(), *job)));
                self.unreported_reasons.extend(pods.map(|pod| (pod.clone(), why.clone())));
            }
            if let Some(pod) = adapter.pod_of(*job) {
                self.parts.notices.request_explanation(pod.clone(), *job);
                missed.push((pod.clone(), *job));
                unplaced.push(pod.clone());
            }
        }
        let time = |job| collect.times.get(&job).copied();
        placed.iter().for_each(|(pod, job)| self.note_placed(pod, time(*job)));
        missed.iter().for_each(|(pod, job)| self.note_unplaced(pod, time(*job)));
        for binding in bindings {
            if self.parts.mode == Mode::DryRun {
                tracing::info!(pod = %binding.pod, node = %binding.node, "would bind");
                self.dry_run_nodes.insert(binding.pod, binding.node);
            } else {
                self.parts.outbox.act(Action::Bind(binding, 0), 0);
            }
        }
        unplaced.into_iter().for_each(|pod| self.request_victims(pod));
    }

    fn handle_bind_reply(&mut self, binding: Binding, answer: BindReply, now_ms: u64) {
        let Some(adapter) = &mut self.adapter else { return };
        let outcome = match answer {
            BindReply::Bound => "bound",
            BindReply::Conflict => "conflict",
            BindReply::Throttled(_) => "throttled",
            BindReply::Refused | BindReply::Failed => "failed",
            BindReply::Unknown => "unknown",
        };
        self.parts.metrics.bindings.get_or_create(&[("answer", outcome)]).inc();
        if answer == BindReply::Bound
            && let Some(pod) = adapter.pod(&binding.pod)
        {
            self.parts.notices.queue(Notice::scheduled(pod, &binding.node));
        }
        let action = adapter.handle_bind_reply(binding.clone(), answer, now_ms);
        if answer == BindReply::Bound {
            self.note_bound(&binding);
        }
        self.act(action, now_ms);
    }

    fn act(&self, action: Option<Action>, now_ms: u64) {
        let Some(action) = action else { return };
        let delay = action.at_ms().saturating_sub(now_ms);
        self.parts.outbox.act(action, delay);
    }

    /// Passes the unreported reasons to the explainer, until its queue is full.
    fn report_reasons(&mut self) {
        while let Some((pod, why)) = self.unreported_reasons.pop_first() {
            if !self.parts.notices.send_reason(pod.clone(), why.clone()) {
                self.unreported_reasons.insert(pod, why);
                return;
            }
        }
    }

    /// Writes a notice that a pod is not scheduled, if the pod is still not placed.
    fn explained(&self, name: &PodName, message: String) {
        let Some(adapter) = &self.adapter else { return };
        let state = adapter.state(name);
        if matches!(state, Some(State::Pending | State::Held(_) | State::Parked { .. }))
            && let Some(pod) = adapter.pod(name)
        {
            self.parts.notices.queue(Notice::unschedulable(pod, message));
        }
    }
}
