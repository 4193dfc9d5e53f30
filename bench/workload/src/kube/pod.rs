//! Classification of a pod: whether it becomes a task, where it runs, and its unsupported properties.

use super::api::{Pod, PodSpec, PodVolume};
use super::notes::Remarks;
use omega_core::Text;
use std::collections::BTreeMap;

/// Role of a pod in the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// A task that runs on the machine at this position.
    Runs(u32),
    /// A pending task.
    Waits,
    /// The pod does not become a task, for this reason.
    LeftOut(&'static str),
}

/// Label of a task whose pod is being deleted. Its resources and anti-affinity are still considered, but not its
/// spread. The key has a space, so no Kubernetes label equals it.
pub(super) const TERMINATING: &str = "is being deleted";

/// The classification of a pod in a cell with these machines.
pub(super) fn fate(pod: &Pod, machines: &BTreeMap<&str, u32>) -> Fate {
    let spec = &pod.spec;
    if matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
        return Fate::LeftOut("left out, because finished");
    }
    if !spec.node_name.is_empty() {
        return match machines.get(spec.node_name.as_str()) {
            Some(machine) => Fate::Runs(*machine),
            None => Fate::LeftOut("left out, because the node is not in the file"),
        };
    }
    if pod.metadata.deleted.is_some() {
        return Fate::LeftOut("left out, because deleted before running");
    }
    if !spec.gates.is_empty() {
        return Fate::LeftOut("left out, because of scheduling gates");
    }
    Fate::Waits
}

/// The pod's namespace.
pub(super) fn namespace(pod: &Pod) -> &str {
    match pod.metadata.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

/// The images of the pod's containers, init containers included. An image without a tag is
/// `latest`, as on machines.
pub(super) fn images(spec: &PodSpec) -> Vec<Text> {
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let images = containers.map(|container| {
        let image = container.image.as_str();
        match image.rsplit_once('/').unwrap_or(("", image)) {
            (_, name) if name.contains(':') => image.into(),
            _ => format!("{image}:latest").into(),
        }
    });
    images.collect()
}

/// Unsupported properties of a pod, except those of its rules, which `rules` reports.
pub(super) fn remarks(pod: &Pod, claims: Claims) -> Remarks {
    let spec = &pod.spec;
    let owned_by = |kind: &str| pod.metadata.owners.iter().any(|owner| owner.kind == kind);
    let claiming = spec.volumes.iter().any(|v| v.claim.is_some() || v.ephemeral.is_some());
    let other_scheduler = !matches!(spec.scheduler_name.as_str(), "" | "default-scheduler");
    let all = [
        (
            claiming && claims == Claims::Unknown,
            "persistent volume claims are ignored, because the file has none: get it with \
             `kubectl get nodes,pods,pvc,pv,sc,csinodes -A -o json`",
        ),
        (
            claiming && claims == Claims::Known,
            "volume claims are considered only by a profile with base kube, or with a filter of \
             volumes",
        ),
        (
            spec.volumes.iter().any(|volume| volume.csi.is_some()),
            "inline CSI volumes are not counted against the limits of a node",
        ),
        (spec.volumes.iter().any(is_on_disk), "a volume on a cloud disk is ignored"),
        (!spec.claims.is_empty(), "resource claims (DRA) are ignored"),
        (
            spec.scheduling_group.is_some() || spec.workload.is_some(),
            "a group of pods that start together is ignored",
        ),
        (
            !spec.runtime_class.is_empty(),
            "the runtime class is ignored, apart from the fields in the pod itself",
        ),
        (
            pod.spec.node_name.is_empty() && !pod.status.nominated_node.is_empty(),
            "the nomination to a node is ignored",
        ),
        (other_scheduler, "spec.schedulerName is ignored"),
        (
            spec.has_unknown_priority(),
            "the priority is taken as 0, because the file does not have the pod's PriorityClass: get it with \
             `kubectl get nodes,pods,priorityclasses -A -o json`",
        ),
        (pod.metadata.deleted.is_some(), "being deleted, but counted until gone"),
        (owned_by("DaemonSet"), "no pod of a DaemonSet is added for a machine that joins later"),
    ];
    all.into_iter().filter(|(has, _)| *has).map(|(_, remark)| remark).collect()
}

/// Whether the file has volume claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claims {
    Known,
    Unknown,
}

/// Whether a volume's source is only available on few machines, or to few pods.
pub(super) fn is_on_disk(volume: &PodVolume) -> bool {
    let PodVolume { aws, azure, cinder, gce, iscsi, rbd, .. } = volume;
    [aws, azure, cinder, gce, iscsi, rbd].into_iter().any(Option::is_some)
}
