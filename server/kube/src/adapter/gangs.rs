//! Pods of a group that are bound together or not at all: the gangs of `PodGroup`, scheduling.k8s.io/v1alpha2.
//!
//! While a group has fewer placed pods than its minimum, its pending pods are one job of the cell, a gang. One
//! transaction places as many pods as are missing, or none. Then one batch of commands gives each placed pod a job of
//! its own, as any other pod has.
//!
//! | the group | its pending pods |
//! |---|---|
//! | is not known, has too few pods, or has a rule that is not supported | are held |
//! | has fewer placed pods than its minimum | are a gang |
//! | has enough placed pods, or no minimum | are single pods |
//!
//! Events only record which groups have changed. The groups are settled after a list or a batch of events, and before
//! any decision is carried out. Otherwise a large group would be settled once for each of its pods.
//!
//! A gang stays pending while further pods arrive of which it has enough already: those pods are held until the gang is
//! placed. Otherwise the gang would be submitted anew with each of them, and would never get its turn.

use super::effects::{Action, Done, GroupCondition};
use super::place::PLACED;
use super::types::HoldReason;
use super::{Adapter, Effect, PodName, State, scheduler_of};
use omega_core::limits::GROUPS_PER_JOB_MAX;
use omega_core::{
    Command, Job, JobId, MachineId, Outcome, Precedence, SharedGroup, TaskId, TaskState, Text,
};
use omega_workload::kube::api::{Pod, PodGroup};
use omega_workload::words::plural;
use std::collections::{BTreeMap, BTreeSet};

/// The groups, with their pods and gangs.
#[derive(Default)]
pub(super) struct Gangs {
    api: GroupApi,
    groups: BTreeMap<Text, PodGroup>,
    members: BTreeMap<Text, BTreeSet<PodName>>,
    pending: BTreeMap<Text, Pending>,
    jobs: BTreeMap<JobId, Text>,
    /// Groups that have changed since they were settled.
    changed: BTreeSet<Text>,
}

/// The state of the API for groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupApi {
    /// It is not known yet whether the API server serves groups, or the first list of groups has not arrived.
    #[default]
    Unknown,
    /// The API server does not serve groups.
    Absent,
    /// The API server has sent its list of groups.
    Listed,
}

/// A gang that is pending in the cell.
struct Pending {
    job: JobId,
    spec: Job,
    /// The gang's pods, in the order of its tasks.
    pods: Vec<PodName>,
}

/// A gang that may be submitted.
struct Gang {
    spec: Job,
    /// The gang's pods, in the order of its tasks.
    pods: Vec<PodName>,
    /// Pods that are left out, because the pending gang has enough pods of their kind.
    surplus: Vec<PodName>,
}

/// Way in which a group's pending pods are scheduled.
enum Plan {
    Hold(HoldReason),
    Gang(u32),
    Single,
}

/// Returns the group of a pod.
fn group_of(pod: &Pod) -> Option<Text> {
    let group = pod.spec.scheduling_group.as_ref()?;
    (!group.name.is_empty()).then(|| full_name(&pod.metadata.namespace, &group.name))
}

fn full_name(namespace: &str, name: &str) -> Text {
    format!("{namespace}/{name}").into()
}

fn key(group: &PodGroup) -> Text {
    full_name(&group.metadata.namespace, &group.metadata.name)
}

impl Adapter {
    /// Records that the API server does not serve groups.
    pub fn groups_absent(&mut self) {
        self.gangs.api = GroupApi::Absent;
        self.settle_all_groups();
    }

    /// Handles a list of all groups.
    pub fn groups_listed(&mut self, all: Vec<PodGroup>) {
        self.gangs.api = GroupApi::Listed;
        self.gangs.groups = all.into_iter().map(|group| (key(&group), group)).collect();
        self.settle_all_groups();
    }

    /// Handles a group that is new or has changed. [`Adapter::settle_groups`] then updates its pods.
    pub fn group_changed(&mut self, group: PodGroup) {
        let key = key(&group);
        self.gangs.groups.insert(key.clone(), group);
        self.gangs.changed.insert(key);
    }

    /// Handles the deletion of a group. [`Adapter::settle_groups`] then updates its pods.
    pub fn group_deleted(&mut self, group: &PodGroup) {
        let key = key(group);
        self.gangs.groups.remove(&key);
        self.gangs.changed.insert(key);
    }

    /// Updates the jobs of the pods of all groups that have changed. Call this after each event, or after a batch of
    /// events. Lists and ticks include it.
    pub fn settle_groups(&mut self) {
        while let Some(group) = self.gangs.changed.pop_first() {
            self.settle_group(&group);
        }
    }

    /// Returns the pods of a pending gang.
    pub fn pods_of_gang(&self, job: JobId) -> &[PodName] {
        let pending = self.gangs.jobs.get(&job).and_then(|group| self.gangs.pending.get(group));
        pending.map_or(&[], |pending| pending.pods.as_slice())
    }

    /// Returns the pending gang to which a pod belongs.
    #[must_use]
    pub fn gang_of(&self, name: &PodName) -> Option<JobId> {
        let group = group_of(&self.pods.get(name)?.pod)?;
        self.gangs.pending.get(&group).map(|pending| pending.job)
    }

    /// Whether a pod belongs to a group.
    pub(super) fn is_grouped(pod: &Pod) -> bool {
        pod.spec.scheduling_group.is_some()
    }

    /// Adds a pod to its group, if the pod has one.
    pub(super) fn join_group(&mut self, name: &PodName) {
        let group = self.pods.get(name).and_then(|entry| group_of(&entry.pod));
        if let Some(group) = group {
            self.gangs.members.entry(group).or_default().insert(name.clone());
        }
    }

    /// Removes a pod from its group, if the pod has one.
    pub(super) fn leave_group(&mut self, name: &PodName) {
        let Some(group) = self.pods.get(name).and_then(|entry| group_of(&entry.pod)) else {
            return;
        };
        if let Some(members) = self.gangs.members.get_mut(&group) {
            members.remove(name);
            if members.is_empty() {
                self.gangs.members.remove(&group);
            }
        }
        self.gangs.changed.insert(group);
    }

    /// Records that a pod's group has changed, if the pod has one.
    pub(super) fn note_group_of(&mut self, name: &PodName) {
        let group = self.pods.get(name).and_then(|entry| group_of(&entry.pod));
        self.gangs.changed.extend(group);
    }

    /// Settles a pod's group now, if the group has changed.
    pub(super) fn settle_group_of(&mut self, name: &PodName) {
        let group = self.pods.get(name).and_then(|entry| group_of(&entry.pod));
        if let Some(group) = group.filter(|group| self.gangs.changed.contains(group)) {
            self.settle_group(&group);
        }
    }

    fn settle_all_groups(&mut self) {
        self.gangs.changed.extend(self.gangs.members.keys().cloned());
        self.settle_groups();
    }

    /// Updates the jobs of a group's pending pods to the group's present state.
    fn settle_group(&mut self, group: &Text) {
        self.gangs.changed.remove(group);
        let members = self.gangs.members.get(group).into_iter().flatten();
        let members: Vec<PodName> = members.cloned().collect();
        let state = |name: &PodName| self.pods.get(name).map(|entry| &entry.state);
        let is_placed =
            |name: &&PodName| matches!(state(name), Some(State::Bound(_) | State::Assumed { .. }));
        let placed = members.iter().filter(is_placed).count();
        let ready = |name: &&PodName| {
            let entry = self.pods.get(*name);
            entry.is_some_and(|entry| {
                entry.pod.spec.node_name.is_empty()
                    && matches!(entry.state, State::Held(_) | State::Pending)
                    && self.held(&entry.pod).is_none()
            })
        };
        let ready: Vec<PodName> = members.iter().filter(ready).cloned().collect();
        match self.plan(group, &ready, placed) {
            Plan::Hold(why) => {
                self.dissolve(group);
                self.hold_all(&ready, &why);
            }
            Plan::Single => {
                self.dissolve(group);
                ready.iter().for_each(|name| self.submit(name));
            }
            Plan::Gang(missing) => self.submit_gang(group, &ready, missing),
        }
    }

    /// Holds pods of a group for one reason. They have neither jobs nor nominations any more.
    fn hold_all(&mut self, pods: &[PodName], why: &HoldReason) {
        for name in pods {
            self.give_nomination_up(name);
            self.replace(name, None);
            self.hold(name, why.clone());
        }
    }

    fn plan(&self, group: &Text, ready: &[PodName], placed: usize) -> Plan {
        let quiet = |why: String| Plan::Hold(HoldReason::Quiet(why));
        let reported = |why: String| Plan::Hold(HoldReason::Reported(why));
        let Some(known) = self.gangs.groups.get(group) else {
            let name = group.rsplit('/').next().unwrap_or_default();
            return match self.gangs.api {
                GroupApi::Unknown => quiet(
                    "the pod's group is not known yet: omega-kube has not read the list of \
                         groups"
                        .into(),
                ),
                GroupApi::Absent => reported(format!(
                    "spec.schedulingGroup: {name:?} is not supported, because this API server \
                     does not serve PodGroup of scheduling.k8s.io/v1alpha2: remove the group"
                )),
                GroupApi::Listed => quiet(format!("the pod's group {name:?} does not exist")),
            };
        };
        if let Some(why) = &known.metadata.unreadable {
            return reported(format!("the pod's PodGroup is not understood: {why}"));
        }
        if known.spec.constraints.as_ref().is_some_and(|rules| !rules.topology.is_empty()) {
            let rule = "schedulingConstraints of its PodGroup are not supported: remove them";
            return reported(format!("spec.schedulingGroup: {rule}"));
        }
        let Some(gang) = &known.spec.policy.gang else { return Plan::Single };
        let missing = (gang.min as usize).saturating_sub(placed);
        if missing == 0 {
            return Plan::Single;
        }
        if ready.len() < missing {
            let there = ready.len() + placed;
            return quiet(format!(
                "the pod's group has {}: it needs at least {}",
                plural(there as u64, "pod"),
                gang.min
            ));
        }
        let scheduler = |name: &PodName| self.pods.get(name).map(|entry| scheduler_of(&entry.pod));
        if ready.iter().any(|name| scheduler(name) != scheduler(&ready[0])) {
            let rule = "all pods of a group must have the same scheduler: give all of them the \
                 same name";
            return reported(format!("spec.schedulerName: {rule}"));
        }
        Plan::Gang(u32::try_from(missing).unwrap_or(u32::MAX))
    }

    /// Submits the pending pods of a group as one job, unless an equal job of these pods exists.
    fn submit_gang(&mut self, group: &Text, ready: &[PodName], missing: u32) {
        let Some(Gang { spec, pods, surplus }) = self.gang(group, ready, missing) else {
            let rule = format!(
                "the pod's group has more than {GROUPS_PER_JOB_MAX} different kinds of pods, \
                 which is not supported"
            );
            self.dissolve(group);
            self.hold_all(ready, &HoldReason::Reported(rule));
            return;
        };
        let wait = "the pod's group has enough pending pods of this kind: this pod is scheduled \
             after them";
        self.hold_all(&surplus, &HoldReason::Quiet(wait.into()));
        let same = |pending: &Pending| pending.pods == pods && is_same(&pending.spec, &spec);
        if self.gangs.pending.get(group).is_some_and(same) {
            // A pod of the gang may have been deleted and created again since.
            pods.iter().for_each(|name| self.set(name, State::Pending));
            return;
        }
        self.dissolve(group);
        for name in &pods {
            // A pod may have room of its own, kept by a nomination. The gang would lack that room.
            self.give_nomination_up(name);
            self.replace(name, None);
            self.set(name, State::Pending);
        }
        self.submitted += 1;
        let spec = Job { name: format!("{group}#gang{}", self.submitted).into(), ..spec };
        match self.cell.apply(Command::SubmitJob(spec.clone())) {
            Ok(Outcome::Job(job)) => {
                self.gangs.jobs.insert(job, group.clone());
                self.gangs.pending.insert(group.clone(), Pending { job, spec, pods });
            }
            Ok(_) => {}
            Err(why) => {
                tracing::warn!(%group, %why, "the cell rejects the gang");
                let why = format!("the pod's group exceeds a limit of omega-kube: {why}");
                self.hold_all(&pods, &HoldReason::Reported(why));
            }
        }
    }

    /// Returns the gang of a group's pending pods; `None` if the pods have more different specifications than a job may
    /// have groups.
    fn gang(&self, group: &Text, ready: &[PodName], missing: u32) -> Option<Gang> {
        let mut kinds: Vec<(SharedGroup, Vec<PodName>)> = Vec::new();
        let mut whole: Option<Job> = None;
        let mut precedences: BTreeMap<&PodName, Precedence> = BTreeMap::new();
        for name in ready {
            let pod = &self.pods.get(name)?.pod;
            let mut job = self.converter.job(pod, "".into(), scheduler_of(pod).into());
            let kind = job.groups.pop()?;
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, pods)) => pods.push(name.clone()),
                None => {
                    if kinds.len() == GROUPS_PER_JOB_MAX {
                        return None;
                    }
                    kinds.push((kind, vec![name.clone()]));
                }
            }
            precedences.insert(name, job.precedence);
            whole.get_or_insert(job);
        }
        let pending = self.gangs.pending.get(group).into_iter().flat_map(|pending| &pending.pods);
        let pending: BTreeSet<&PodName> = pending.collect();
        let (mut spec, mut pods, mut surplus) = (whole?, Vec::new(), Vec::new());
        for (index, (mut kind, mut of_kind)) in kinds.into_iter().enumerate() {
            // Pods of one kind are interchangeable, and the gang needs at most `missing` of them.
            if of_kind.iter().filter(|name| pending.contains(name)).count() >= missing as usize {
                surplus.extend(of_kind.extract_if(.., |name| !pending.contains(&&*name)));
            }
            let count = u32::try_from(of_kind.len()).unwrap_or(u32::MAX);
            (kind.name, kind.count) = (format!("kind{index}").into(), count);
            spec.groups.push(kind);
            pods.extend(of_kind);
        }
        // The gang gets the lowest priority of its pods. Otherwise one important pod would make the whole group
        // important.
        spec.precedence = pods.iter().filter_map(|name| precedences.get(name)).min().copied()?;
        spec.gang_min = Some(missing);
        Some(Gang { spec, pods, surplus })
    }

    /// Removes a group's gang from the cell. Its pods then have no job.
    fn dissolve(&mut self, group: &Text) {
        let Some(pending) = self.gangs.pending.remove(group) else { return };
        self.gangs.jobs.remove(&pending.job);
        let _ = self.cell.apply(Command::KillJob { job: pending.job });
    }

    /// Gives each placed pod of a gang its own job and binds it, after the gang's claims were accepted. Returns whether
    /// the job is a gang.
    pub(super) fn gang_decided(&mut self, job: JobId) -> bool {
        let Some(group) = self.gangs.jobs.get(&job).cloned() else { return false };
        let Some(pending) = self.gangs.pending.get(&group) else { return false };
        let place = |index: u32| match self.cell.read(|cell| cell.task(TaskId { job, index })) {
            Some(TaskState::Placed(machine)) => Some(machine),
            _ => None,
        };
        let places = (0..)
            .zip(&pending.pods)
            .filter_map(|(index, name)| Some((name.clone(), place(index)?)));
        let places: Vec<(PodName, MachineId)> = places.collect();
        if places.is_empty() {
            return true;
        }
        // If a pod's node or volume is gone, that pod would be decided again later, without the others. So the whole
        // gang is dissolved.
        let least = self.cell.read(|cell| cell.job(job).and_then(|job| job.gang_min)).unwrap_or(0);
        let is_incomplete = places.len() < least as usize;
        if is_incomplete || places.iter().any(|(name, _)| self.lacks_volume(name)) {
            self.dissolve(&group);
            self.settle_group(&group);
            return true;
        }
        // No worker schedules jobs with this scheduler name, so the jobs stay pending until they are adopted.
        let mut submit = Vec::new();
        for (name, _) in &places {
            self.submitted += 1;
            let Some(entry) = self.pods.get(name) else { continue };
            let called = format!("{name}#{}", self.submitted);
            submit.push(Command::SubmitJob(self.converter.job(
                &entry.pod,
                called.into(),
                PLACED.into(),
            )));
        }
        let outcomes = self.cell.apply_all(submit);
        let mut commands = Vec::new();
        let mut own = Vec::new();
        for ((name, machine), outcome) in places.into_iter().zip(outcomes) {
            let (Ok(Outcome::Job(id)), Some(node)) = (outcome, self.names.get(&machine).cloned())
            else {
                continue;
            };
            let task = TaskId { job: id, index: 0 };
            if let Some(spec) = self.cell.read(|cell| cell.job(id).cloned()) {
                self.note_use(task, &spec, &node);
            }
            commands.push(Command::AdoptTask { task, machine });
            own.push((name, id, node));
        }
        commands.push(Command::KillJob { job });
        // The commands are applied as one batch, so that no worker sees the room free in between.
        self.cell.apply_all(commands);
        self.gangs.pending.remove(&group);
        self.gangs.jobs.remove(&job);
        for (name, id, node) in own {
            self.note(&name, id);
            let binding = self.assume(&name, node).and_then(|it| self.bind_with_claims(it));
            self.effects.extend(binding.map(|binding| Effect::Act(Action::Bind(binding, 0))));
        }
        self.show_group(&group, None);
        self.settle_group(&group);
        true
    }

    /// Requests a condition in the group's status that its gang does not fit. Returns the reason as a text for the
    /// gang's pods; `None` if the job is no gang.
    pub fn gang_unplaced(&mut self, job: JobId) -> Option<String> {
        let group = self.gangs.jobs.get(&job)?.clone();
        let missing = self.gangs.pending.get(&group)?.spec.gang_min?;
        let why = format!(
            "the pod group is unschedulable: there is no room for {missing} of its \
             pods at once"
        );
        self.show_group(&group, Some(why.clone()));
        Some(why)
    }

    /// Requests that a condition is written into a group's status, unless the status already has it.
    fn show_group(&mut self, group: &Text, unschedulable: Option<String>) {
        let Some(known) = self.gangs.groups.get(group) else { return };
        let (status, message) = match &unschedulable {
            None => ("True", ""),
            Some(why) => ("False", why.as_str()),
        };
        let mut conditions = known.status.conditions.iter();
        if conditions.any(|it| {
            it.kind == "PodGroupScheduled" && it.status == status && it.message == message
        }) {
            return;
        }
        let condition = GroupCondition {
            namespace: known.metadata.namespace.clone(),
            name: known.metadata.name.clone(),
            uid: known.metadata.uid.clone(),
            unschedulable,
        };
        self.effects.push(Effect::Act(Action::Group(condition, 0)));
    }

    /// Handles the outcome of a written condition.
    pub fn group_shown(
        &mut self,
        condition: GroupCondition,
        done: Done,
        now_ms: u64,
    ) -> Option<Action> {
        let group = full_name(&condition.namespace, &condition.name);
        let there =
            self.gangs.groups.get(&group).is_some_and(|known| known.metadata.uid == condition.uid);
        match done {
            Done::Throttled(ms) if there => Some(Action::Group(condition, now_ms + ms)),
            Done::Unknown if there => Some(Action::Group(condition, now_ms + 1000)),
            _ => None,
        }
    }
}

/// Whether two gangs are equal, except for their names.
fn is_same(a: &Job, b: &Job) -> bool {
    a.groups == b.groups
        && a.gang_min == b.gang_min
        && a.precedence == b.precedence
        && a.scheduler == b.scheduler
}
