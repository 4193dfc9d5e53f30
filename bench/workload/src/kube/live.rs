//! Conversion of single objects, for a cluster that is watched rather than read from a file.
//!
//! The kinds of a cell are fixed at its creation, from the nodes and pods at that time. If a pod requests any other
//! resource, the request is not ignored: the caller must hold the pod ([`Converter::untracked`]).

use super::api::{Namespace, Node, PersistentVolumeClaim, Pod, Resources};
use super::bounds::{self, Lacks};
use super::input::Fault;
use super::kinds::KindTable;
use super::node::{self, Topology};
use super::pod;
use super::quantity::Quantity;
use super::request::{nominal_request, pod_request, raise};
use super::rules::{self, Surroundings};
use super::selector::Namespaces;
use super::volumes;
use omega_core::{Job, JobKind, Kinds, Labels, Machine, Precedence, Preemption, TaskGroup, Text};
use std::collections::BTreeSet;

/// The converter of a live cluster's objects.
pub struct Converter {
    kinds: KindTable,
    around: Surroundings,
}

impl Converter {
    /// Returns the converter of a cluster that has these objects at the start.
    ///
    /// # Errors
    /// If two resources have the same name, which the API server prevents.
    pub fn new<'a>(
        nodes: &[Node],
        pods: impl IntoIterator<Item = &'a Pod> + Clone,
        namespaces: &'a [Namespace],
    ) -> Result<Converter, Fault> {
        // Only the names of the requested resources matter here, not the amounts.
        let mut requests = Resources::default();
        for pod in pods.clone() {
            raise(&mut requests, &pod_request(pod));
        }
        let kinds = KindTable::of_cluster(nodes.iter().map(node::capacity), [&requests])?;
        // Two nodes may share a hostname later, so no topology key denotes the machine itself.
        let topology = Topology::of_labels();
        let namespaces = Namespaces::new(namespaces, pods.into_iter().map(pod::namespace));
        Ok(Converter { kinds, around: Surroundings { topology, namespaces } })
    }

    /// Returns the kinds of the cell.
    #[must_use]
    pub fn kinds(&self) -> &Kinds {
        self.kinds.kinds()
    }

    /// Converts a node to a machine.
    #[must_use]
    pub fn machine(&self, node: &Node) -> Machine {
        let (mut machine, _) = node::machine(node, &self.kinds);
        bounds::fit_machine(&mut machine);
        machine
    }

    /// Returns the resources of a node that have no kind.
    #[must_use]
    pub fn untracked_on(&self, node: &Node) -> BTreeSet<String> {
        self.untracked_among(node::capacity(node)).map(str::to_owned).collect()
    }

    /// Returns the first resource that a pod requests and that has no kind.
    #[must_use]
    pub fn untracked(&self, pod: &Pod) -> Option<String> {
        self.untracked_among(&pod_request(pod)).next().map(str::to_owned)
    }

    fn untracked_among<'a>(&self, amounts: &'a Resources) -> impl Iterator<Item = &'a str> {
        let untracked = amounts
            .iter()
            .filter(|(name, amount)| *amount != Quantity::default() && !self.kinds.knows(name));
        untracked.map(|(name, _)| name.as_str())
    }

    /// Updates the labels of a namespace. Returns whether rules of pods may be affected.
    pub fn namespace_changed(&mut self, namespace: &Namespace) -> bool {
        self.around.namespaces.set(namespace)
    }

    /// Removes a namespace. Returns whether rules of pods may be affected.
    pub fn namespace_deleted(&mut self, name: &str) -> bool {
        self.around.namespaces.remove(name)
    }

    /// Replaces all namespaces. Returns whether anything has changed.
    pub fn namespaces_listed(&mut self, all: &[Namespace]) -> bool {
        let listed: BTreeSet<&str> = all.iter().map(|one| one.metadata.name.as_str()).collect();
        let known = self.around.namespaces.names();
        let gone: Vec<String> =
            known.filter(|name| !listed.contains(name.as_str())).cloned().collect();
        let removed = gone.iter().filter(|name| self.namespace_deleted(name)).count();
        let changed = all.iter().filter(|one| self.namespace_changed(one)).count();
        removed + changed > 0
    }

    /// Whether a pod's rules depend on the labels of namespaces.
    #[must_use]
    pub fn selects_namespaces(pod: &Pod) -> bool {
        let affinity = &pod.spec.affinity;
        let both = [&affinity.pod, &affinity.anti];
        both.into_iter().any(|rules| {
            let preferred = rules.preferred.iter().map(|weighted| &weighted.term);
            rules.required.iter().chain(preferred).any(|term| term.namespace_selector.is_some())
        })
    }

    /// Returns the names of a pod's volume claims, as `namespace/name`.
    #[must_use]
    pub fn claims(pod: &Pod) -> Vec<Text> {
        volumes::claims(pod::namespace(pod), &pod.metadata.name, &pod.spec)
    }

    /// Returns the claims of a pod's ephemeral volumes, as `namespace/name`. Each must have been created for the pod.
    #[must_use]
    pub fn ephemeral_claims(pod: &Pod) -> Vec<Text> {
        volumes::ephemeral_claims(pod)
    }

    /// Whether a claim was created for a pod.
    #[must_use]
    pub fn owns(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
        let mut owners = claim.metadata.owners.iter();
        owners.any(|owner| owner.controller && owner.uid == pod.metadata.uid)
    }

    /// Converts a pod to a job with one task. The job has the pod's preemption policy.
    #[must_use]
    pub fn job(&self, pod: &Pod, name: Text, scheduler: Text) -> Job {
        let (request, nominal) = (pod_request(pod), nominal_request(pod));
        let (request, _) = self.kinds.request(&request, &nominal);
        let labels = pod.metadata.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let terminating = pod.metadata.deleted.is_some().then_some((pod::TERMINATING, ""));
        let labels: Labels = labels.chain(terminating).collect();
        let (rules, _) = rules::rules(pod, &self.around);
        let images = pod::images(&pod.spec);
        let volumes = Converter::claims(pod);
        let mut group = TaskGroup { labels, images, rules, volumes, ..TaskGroup::new(1, request) };
        bounds::fit_group(&mut group);
        Job {
            tenant: pod::namespace(pod).into(),
            scheduler,
            precedence: Precedence(pod.spec.priority()),
            preemption: match pod.spec.preemption_policy.as_str() {
                "Never" => Preemption::Never,
                _ => Preemption::LowerPrecedence,
            },
            kind: JobKind::Service,
            ..Job::batch(name, group)
        }
    }

    /// Returns the first property of a pod that is not supported and could cause a wrong placement.
    #[must_use]
    pub fn obstacle(&self, pod: &Pod) -> Option<String> {
        let spec = &pod.spec;
        if let Some(volume) = spec.volumes.iter().find(|volume| pod::is_on_disk(volume)) {
            return Some(format!(
                "spec.volumes: {:?} names a disk, which is not supported: use a claim to a volume \
                 of a CSI driver",
                volume.name
            ));
        }
        if !spec.claims.is_empty() {
            return Some(
                "spec.resourceClaims: device claims (DRA) are not supported: remove them, or name \
                 another scheduler in spec.schedulerName"
                    .into(),
            );
        }
        if spec.workload.is_some() {
            return Some("spec.workloadRef: is not supported: use spec.schedulingGroup".into());
        }
        let (_, capped) = self.kinds.amounts(&pod_request(pod));
        capped.map(|_| "spec.containers: requests above 2^50 are not supported".into())
    }

    /// Shortens the job of a placed pod that the cell rejects.
    pub fn shorten(job: &mut Job) -> Lacks {
        job.groups.first_mut().map_or(Lacks::Nothing, |group| bounds::shorten(group))
    }

    /// Leaves only the request of a placed pod's job.
    pub fn strip(job: &mut Job) -> Lacks {
        job.groups.first_mut().map_or(Lacks::Nothing, |group| bounds::strip(group))
    }
}
