//! Pods, converted to tasks of jobs: the controller of a pod becomes the job, and each set of identical pods becomes a
//! group.
//!
//! Pods of a controller have some labels whose only purpose is to distinguish the pods. Such labels are removed, unless
//! a selector in the file uses them; pods that still differ are in separate groups.

use super::api::{Owner, Pod};
use super::pod::{TERMINATING, namespace};
use crate::{Arrival, RunTime};
use omega_core::limits::GROUPS_PER_JOB_MAX;
use omega_core::{
    Job, JobKind, Labels, PlacementRules, Precedence, Preemption, Requirement, SharedGroup,
    TaskGroup, TaskRule, TaskSelector, Text,
};
use std::collections::{BTreeMap, BTreeSet};

/// Labels by which controllers distinguish their pods or revisions.
const TELLING_APART: [&str; 7] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "controller-revision-hash",
    "controller-uid",
    "pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
];

/// A pod that becomes a task.
pub(super) struct PodTask<'a> {
    pub(super) pod: &'a Pod,
    pub(super) request: omega_core::Amounts,
    /// The image of each container of the pod.
    pub(super) images: Vec<Text>,
    pub(super) rules: PlacementRules,
    /// The volume claims that the pod uses.
    pub(super) volumes: Vec<Text>,
    /// Position of the pod's machine, if the pod is on one.
    pub(super) machine: Option<u32>,
}

/// Common properties of the pods of one job.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct JobKey<'a> {
    namespace: &'a str,
    /// Controller of the pods: the kind and the name. A pod without a controller has kind "".
    owner: (&'a str, &'a str),
    precedence: Precedence,
    preemption: Preemption,
    kind: JobKind,
}

/// A job being built.
struct Draft<'a> {
    key: JobKey<'a>,
    groups: Vec<TaskGroup>,
    /// The machine of each task, if any, by group.
    machines: Vec<Vec<Option<u32>>>,
    /// The uids of the pods' controllers.
    controllers: BTreeSet<&'a str>,
}

/// The jobs of a cluster.
pub(super) struct Jobs<'a> {
    pub(super) arrivals: Vec<Arrival>,
    /// The names of the jobs of each controller's pods, by the controller's uid.
    pub(super) of_controllers: BTreeMap<&'a str, Vec<Text>>,
}

/// The jobs of these pods, in the order of their first pods. `keys` are label keys that objects other than pods use.
pub(super) fn jobs<'a>(tasks: Vec<PodTask<'a>>, keys: impl Iterator<Item = Text>) -> Jobs<'a> {
    let looked_at: BTreeSet<Text> =
        tasks.iter().flat_map(|task| selector_keys(&task.rules)).chain(keys).collect();
    let mut drafts: Vec<Draft<'_>> = Vec::new();
    // The latest draft of a job for each key.
    let mut latest: BTreeMap<JobKey<'_>, usize> = BTreeMap::new();
    for task in tasks {
        let key = key(task.pod);
        let controller = controller(task.pod).map(|owner| owner.uid.as_str());
        let machine = task.machine;
        let group = group(task, &looked_at);
        let draft = *latest.entry(key.clone()).or_insert(drafts.len());
        let (draft, group) = match drafts.get(draft).map(|draft| draft.place_of(&group)) {
            Some(Some(place)) => (draft, place.unwrap_or_else(|| drafts[draft].add(group))),
            // There is no draft yet, or the latest one has the maximum number of groups.
            _ => {
                latest.insert(key.clone(), drafts.len());
                drafts.push(Draft::new(key));
                let draft = drafts.len() - 1;
                (draft, drafts[draft].add(group))
            }
        };
        drafts[draft].groups[group].count += 1;
        drafts[draft].machines[group].push(machine);
        drafts[draft].controllers.extend(controller);
    }
    let (mut names, mut of_controllers) = (BTreeMap::new(), BTreeMap::new());
    let mut arrivals = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let controllers = draft.controllers.clone();
        let arrival = draft.arrival(&mut names);
        for uid in controllers {
            let jobs: &mut Vec<Text> = of_controllers.entry(uid).or_default();
            jobs.push(arrival.job.name.clone());
        }
        arrivals.push(arrival);
    }
    Jobs { arrivals, of_controllers }
}

impl<'a> Draft<'a> {
    fn new(key: JobKey<'a>) -> Draft<'a> {
        let (groups, machines, controllers) = (Vec::new(), Vec::new(), BTreeSet::new());
        Draft { key, groups, machines, controllers }
    }

    /// Returns the position of the group for tasks like this one: `Some(None)` if a new group is needed, and `None` if
    /// the job has the maximum number of groups.
    fn place_of(&self, like: &TaskGroup) -> Option<Option<usize>> {
        let alike = |group: &TaskGroup| {
            group.request == like.request
                && group.labels == like.labels
                && group.images == like.images
                && group.rules == like.rules
                && group.volumes == like.volumes
        };
        match self.groups.iter().position(alike) {
            None if self.groups.len() == GROUPS_PER_JOB_MAX => None,
            place => Some(place),
        }
    }

    /// Adds a group, and returns its position.
    fn add(&mut self, mut group: TaskGroup) -> usize {
        let position = self.groups.len();
        if position > 0 {
            group.name = format!("main-{}", position + 1).into();
        }
        self.groups.push(group);
        self.machines.push(Vec::new());
        position
    }

    /// Returns the finished job. If its name was used before, `#2` and so on is appended, which cannot occur in an
    /// object's name.
    fn arrival(self, names: &mut BTreeMap<String, u32>) -> Arrival {
        let key = self.key;
        let name = format!("{}/{}", key.namespace, key.owner.1);
        let seen = names.entry(name.clone()).or_insert(0);
        *seen += 1;
        let name = if *seen == 1 { name } else { format!("{name}#{seen}") };
        let job = Job {
            name: name.into(),
            tenant: key.namespace.into(),
            scheduler: match key.kind {
                JobKind::Service => "service".into(),
                JobKind::Batch => "batch".into(),
            },
            precedence: key.precedence,
            preemption: key.preemption,
            kind: key.kind,
            groups: self.groups.into_iter().map(SharedGroup::from).collect(),
            gang_min: None,
            gang_timeout_ms: None,
            runtime_estimate_ms: None,
            deadline_ms: None,
            update: None,
        };
        let tasks = (0..).zip(self.machines.into_iter().flatten());
        let placed = tasks.filter_map(|(task, machine)| Some((task, machine?))).collect();
        Arrival { at_ms: 0, job, placed, run: RunTime::Forever }
    }
}

/// Controller of a pod.
fn controller(pod: &Pod) -> Option<&Owner> {
    pod.metadata.owners.iter().find(|owner| owner.controller)
}

/// The job that a pod belongs to.
fn key(pod: &Pod) -> JobKey<'_> {
    let owner = controller(pod);
    JobKey {
        namespace: namespace(pod),
        owner: match owner {
            // The controller of static pods is their node. They have nothing else in common, so each of them is a job
            // by itself.
            Some(owner) if owner.kind != "Node" => (&owner.kind, &owner.name),
            _ => ("", &pod.metadata.name),
        },
        precedence: Precedence(pod.spec.priority()),
        preemption: match pod.spec.preemption_policy.as_str() {
            "Never" => Preemption::Never,
            _ => Preemption::LowerPrecedence,
        },
        kind: kind(pod, owner),
    }
}

/// Kind of a pod's job. If the controller's kind is unknown, the pod's restart policy decides.
fn kind(pod: &Pod, owner: Option<&Owner>) -> JobKind {
    match owner.map(|owner| owner.kind.as_str()) {
        None | Some("ReplicaSet" | "StatefulSet" | "DaemonSet" | "Node") => JobKind::Service,
        Some("Job" | "CronJob") => JobKind::Batch,
        Some(_) if matches!(pod.spec.restart_policy.as_str(), "Never" | "OnFailure") => {
            JobKind::Batch
        }
        Some(_) => JobKind::Service,
    }
}

/// An empty group for tasks like this one.
fn group(task: PodTask<'_>, looked_at: &BTreeSet<Text>) -> TaskGroup {
    let kept = |key: &str| !TELLING_APART.contains(&key) || looked_at.contains(key);
    let labels = task.pod.metadata.labels.iter().filter(|(key, _)| kept(key));
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
    let terminating = task.pod.metadata.deleted.is_some().then_some((TERMINATING, ""));
    let labels: Labels = labels.chain(terminating).collect();
    let PodTask { request, images, rules, volumes, .. } = task;
    TaskGroup { labels, images, rules, volumes, ..TaskGroup::new(0, request) }
}

/// The label keys by which the rules select other tasks.
fn selector_keys(rules: &PlacementRules) -> impl Iterator<Item = Text> {
    let selectors = rules.tasks.iter().flat_map(|rule| match rule {
        TaskRule::AntiAffinity { from: of, .. } | TaskRule::MaxPerDomain { of, .. } => vec![of],
        TaskRule::Affinity(terms) => terms.iter().map(|term| &term.tasks).collect(),
        TaskRule::Prefer { near, .. } => vec![&near.tasks],
        TaskRule::Spread(spread) => vec![&spread.of],
        _ => Vec::new(),
    });
    let requirements = selectors.flat_map(|selector| match selector {
        TaskSelector::Labels { labels, .. } => labels.requirements.as_slice(),
        TaskSelector::SameGroup | TaskSelector::SameJob => &[],
    });
    requirements.map(|requirement: &Requirement| requirement.key.clone())
}
