//! The pods of the API server as jobs of the cell.

use super::types::HoldReason;
use super::{Adapter, Effect, Entry, PodName, State};
use omega_core::{Command, Job, JobId, MachineId, Outcome, Rejection, TaskId};
use omega_workload::kube::api::Pod;
use omega_workload::kube::bounds::Lacks;
use omega_workload::kube::live::Converter;
use std::sync::Arc;

/// Scheduler name of jobs whose pods are already bound. No worker schedules such jobs.
pub(super) const PLACED: &str = "omega-kube/bound";

/// The reason why a pod is held, or its node closed, if the cell rejects the pod's job.
pub(super) const REJECTED: &str = "the cell rejects this pod; the log of omega-kube has the reason";

impl Adapter {
    /// Updates the job of a pod to the pod's present form.
    pub(super) fn settle(&mut self, name: &PodName) {
        let Some(entry) = self.pods.get(name) else { return };
        let pod = Arc::clone(&entry.pod);
        if !pod.spec.node_name.is_empty() {
            self.bound(name, &pod.spec.node_name);
            return;
        }
        let (assumed, parked) = match entry.state {
            State::Assumed { .. } => (true, false),
            State::Parked { .. } => (false, true),
            _ => (false, false),
        };
        // The binding of an assumed pod is in flight. Its answer or the watch will update the job.
        if assumed {
            return;
        }
        match self.held(&pod) {
            Some(why) => {
                self.replace(name, None);
                self.hold(name, why);
            }
            None if parked || Adapter::is_grouped(&pod) => {}
            None => self.submit(name),
        }
        self.follow_nomination(name);
        self.note_group_of(name);
    }

    /// Returns the reason why this program does not schedule a pod; `None` if the program schedules the pod.
    pub(super) fn held(&self, pod: &Pod) -> Option<HoldReason> {
        let scheduler = scheduler_of(pod);
        if !self.settings.scheduler_names.contains(scheduler) {
            return Some(HoldReason::Quiet(format!(
                "spec.schedulerName is {scheduler:?}, which \
                 omega-kube does not serve"
            )));
        }
        if pod.metadata.deleted.is_some() {
            return Some(HoldReason::Quiet("the pod is being deleted".into()));
        }
        if let Some(why) = &pod.metadata.unreadable {
            return Some(HoldReason::Reported(format!(
                "the pod has a field that omega-kube does not \
                 understand: {why}"
            )));
        }
        if !pod.spec.gates.is_empty() {
            return Some(HoldReason::Quiet("spec.schedulingGates is not empty".into()));
        }
        let obstacle = self.converter.obstacle(pod).or_else(|| self.lacks_resource(pod));
        let obstacle = obstacle.or_else(|| self.foreign_claim(pod)).map(HoldReason::Reported);
        obstacle.or_else(|| self.storage_obstacle(pod).map(HoldReason::Quiet))
    }

    /// Holds a pod. If the reason is new and the owner can remove it, reports it to the owner.
    pub(super) fn hold(&mut self, name: &PodName, why: HoldReason) {
        let Some(entry) = self.pods.get_mut(name) else { return };
        let (why, refused) = match why {
            HoldReason::Quiet(why) => (why, false),
            HoldReason::Reported(why) => (why, true),
        };
        let state = State::Held(why.clone());
        entry.refused = refused;
        if refused && self.reports_reasons && entry.state != state {
            self.effects.push(Effect::Refuse(name.clone(), why));
        }
        entry.state = state;
    }

    /// Starts to report the reasons why pods are held, beginning with all pods that are held now.
    pub(super) fn report_all(&mut self) {
        self.reports_reasons = true;
        let held = self.pods.iter().filter_map(|(name, entry)| match &entry.state {
            State::Held(why) if entry.refused => Some(Effect::Refuse(name.clone(), why.clone())),
            _ => None,
        });
        self.effects.extend(held);
    }

    /// Submits a pod as a pending task of the cell, unless the cell already has such a task with an equal job.
    pub(super) fn submit(&mut self, name: &PodName) {
        let Some(entry) = self.pods.get(name) else { return };
        let scheduler = scheduler_of(&entry.pod);
        let job = self.converter.job(&entry.pod, "".into(), scheduler.into());
        if entry.state == State::Pending && self.is_same(entry, &job) {
            return;
        }
        if let Err(why) = self.check(&job) {
            self.replace(name, None);
            self.hold(
                name,
                HoldReason::Reported(format!("the pod exceeds a limit of omega-kube: {why}")),
            );
            return;
        }
        self.replace(name, Some((job, None)));
        let submitted = self.pods.get(name).is_some_and(|entry| entry.job.is_some());
        let state = if submitted { State::Pending } else { State::Held(REJECTED.into()) };
        self.set(name, state);
    }

    /// Records that a pod is bound to a node, by this or another scheduler.
    fn bound(&mut self, name: &PodName, node: &str) {
        let Some(entry) = self.pods.get(name) else { return };
        let job = self.converter.job(&entry.pod, "".into(), PLACED.into());
        let there = match &entry.state {
            State::Bound(at) => at == node,
            State::Assumed { node: at, .. } => at == node,
            _ => false,
        };
        if !there {
            self.leave_node(name);
        }
        self.stop_waiting(name);
        self.set(name, State::Bound(node.to_owned()));
        self.on_node.entry(node.to_owned()).or_default().insert(name.clone());
        self.place(name, job);
        self.order_by_start(name);
        // The kept room is removed only after the pod is placed, so that no worker takes the room in between.
        self.drop_nomination(name);
        self.note_group_of(name);
        self.note_sight(name);
        if !there && !self.starting {
            self.counters.foreign += 1;
            self.note_overcommit(name);
        }
    }

    /// Places the task of a bound or assumed pod on its node, if the node exists.
    pub(super) fn place(&mut self, name: &PodName, job: Job) {
        let Some(entry) = self.pods.get(name) else { return };
        let Some(node) = node_of(&entry.state) else { return };
        let Some(machine) = self.nodes.get(node).copied() else {
            self.replace(name, None);
            return;
        };
        let is_placed =
            |job: &Job| self.is_same(entry, job) && self.machine_of(entry) == Some(machine);
        if is_placed(&job) {
            return;
        }
        let (job, lacks) = self.within_limits(job);
        let is_placed = is_placed(&job);
        if let Some(entry) = self.pods.get_mut(name) {
            entry.lacks = lacks;
        }
        if !is_placed {
            self.replace(name, Some((job, Some(machine))));
        }
    }

    /// Returns a form of a placed pod's job that the cell accepts. If the form lacks requirements that keep other pods
    /// off the node, also returns the reason.
    pub(super) fn within_limits(&self, job: Job) -> (Job, Option<String>) {
        let Err(why) = self.check(&job) else { return (job, None) };
        let mut short = job.clone();
        let mut lacks = Converter::shorten(&mut short);
        if self.check(&short).is_err() {
            short = job;
            lacks = Converter::strip(&mut short);
        }
        let lacks = lacks == Lacks::Requirements;
        (short, lacks.then(|| format!("the pod exceeds a limit of omega-kube: {why}")))
    }

    /// Checks whether the cell accepts a job, which need not have a name yet.
    fn check(&self, job: &Job) -> Result<(), Rejection> {
        let command = Command::SubmitJob(Job { name: PLACED.into(), ..job.clone() });
        self.cell.read(|cell| cell.check(&command))
    }

    /// Returns the job of a pod that is already placed.
    pub(super) fn placed_job(&self, name: &PodName) -> Option<Job> {
        let entry = self.pods.get(name)?;
        Some(self.converter.job(&entry.pod, "".into(), PLACED.into()))
    }

    pub(super) fn machine_of(&self, entry: &Entry) -> Option<MachineId> {
        let task = TaskId { job: entry.job?, index: 0 };
        self.cell.read(|cell| cell.task(task)).and_then(|state| state.machine())
    }

    /// Whether the cell's job of a pod equals this one.
    fn is_same(&self, entry: &Entry, job: &Job) -> bool {
        let Some(id) = entry.job else { return false };
        self.cell.read(|cell| {
            let known = cell.job(id);
            known.is_some_and(|known| {
                known.groups == job.groups
                    && known.precedence == job.precedence
                    && known.scheduler == job.scheduler
            })
        })
    }

    /// Replaces a pod's job, or only removes it if `job` is `None`. The commands are one batch that places the new job
    /// before the old one ends, so no worker takes the room in between.
    pub(super) fn replace(&mut self, name: &PodName, job: Option<(Job, Option<MachineId>)>) {
        let Some(entry) = self.pods.get_mut(name) else { return };
        let old = entry.job.take();
        let mut commands = Vec::new();
        let new = job.is_some();
        // Only the adapter submits jobs, so this is the id that the next job will get.
        let task = TaskId { job: self.cell.read(|cell| cell.next_job()), index: 0 };
        if let Some((mut job, machine)) = job {
            self.submitted += 1;
            job.name = format!("{name}#{}", self.submitted).into();
            if let Some(node) = machine.and_then(|machine| self.names.get(&machine)) {
                self.note_use(task, &job, node);
            }
            commands.push(Command::SubmitJob(job));
            commands.extend(machine.map(|machine| Command::AdoptTask { task, machine }));
        }
        commands.extend(old.map(|job| Command::KillJob { job }));
        let outcomes = self.cell.apply_all(commands);
        if let Some(old) = old {
            self.jobs.remove(&old);
            self.starts.forget(old);
            self.storage.list.left(TaskId { job: old, index: 0 });
        }
        match outcomes.into_iter().next().filter(|_| new) {
            Some(Ok(Outcome::Job(id))) => self.note(name, id),
            Some(Err(why)) => {
                tracing::warn!(pod = %name, %why, "the cell rejects the pod");
                self.storage.list.left(task);
            }
            _ => {}
        }
    }

    pub(super) fn note(&mut self, name: &PodName, id: JobId) {
        self.jobs.insert(id, name.clone());
        if let Some(entry) = self.pods.get_mut(name) {
            entry.job = Some(id);
        }
    }

    pub(super) fn set(&mut self, name: &PodName, state: State) {
        if let Some(entry) = self.pods.get_mut(name) {
            entry.state = state;
        }
    }

    /// Removes a pod from the pods of its node.
    pub(super) fn leave_node(&mut self, name: &PodName) {
        self.forget_sight(name);
        let Some(node) = self.pods.get(name).and_then(|entry| node_of(&entry.state)) else {
            return;
        };
        if let Some(pods) = self.on_node.get_mut(node) {
            pods.remove(name);
            if pods.is_empty() {
                let node = node.to_owned();
                self.on_node.remove(&node);
            }
        }
    }

    /// Removes a pod that is gone or has ended.
    pub(super) fn forget(&mut self, name: &PodName) {
        self.leave_node(name);
        self.stop_waiting(name);
        self.drop_nomination(name);
        self.replace(name, None);
        self.selecting.remove(name);
        self.leave_group(name);
        if let Some(entry) = self.pods.remove(name) {
            self.budgets.note_leaving(&entry.pod.metadata.uid, self.now_ms);
        }
        self.victim_left(name);
    }
}

/// Returns the scheduler that a pod names.
pub(crate) fn scheduler_of(pod: &Pod) -> &str {
    match pod.spec.scheduler_name.as_str() {
        "" => "default-scheduler",
        name => name,
    }
}

/// Returns the node on which a pod is or will be.
pub(super) fn node_of(state: &State) -> Option<&str> {
    match state {
        State::Bound(node) | State::Assumed { node, .. } => Some(node),
        State::Held(_) | State::Pending | State::Parked { .. } => None,
    }
}
