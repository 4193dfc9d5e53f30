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
        return Fate::LeftOut("has finished, left out");
    }
    if !spec.node_name.is_empty() {
        return match machines.get(spec.node_name.as_str()) {
            Some(machine) => Fate::Runs(*machine),
            None => Fate::LeftOut("runs on a node that is not in the file, left out"),
        };
    }
    if pod.metadata.deleted.is_some() {
        return Fate::LeftOut("is being deleted before it ran, left out");
    }
    if !spec.gates.is_empty() {
        return Fate::LeftOut("is held back by scheduling gates, left out");
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
            "a persistent volume claim is not understood without the claims (kubectl get nodes,pods,pvc,pv,sc,csinodes -A)",
        ),
        (
            claiming && claims == Claims::Known,
            "uses volume claims: a profile of base kube or with a filter of volumes places it by them, any other anywhere",
        ),
        (
            spec.volumes.iter().any(|volume| volume.csi.is_some()),
            "an inline csi volume is not counted against the limits of a node",
        ),
        (spec.volumes.iter().any(is_on_disk), "a volume on a cloud's disk is not understood"),
        (!spec.claims.is_empty(), "a resource claim is not understood"),
        (
            spec.scheduling_group.is_some() || spec.workload.is_some(),
            "a group of pods that start together is not understood",
        ),
        (
            !spec.runtime_class.is_empty(),
            "of a runtime class only what stands in the pod itself is understood",
        ),
        (
            pod.spec.node_name.is_empty() && !pod.status.nominated_node.is_empty(),
            "is nominated to a node, which is not understood",
        ),
        (other_scheduler, "names a scheduler of its own, which is not understood"),
        (pod.metadata.deleted.is_some(), "is being deleted, but counts until it is gone"),
        (owned_by("DaemonSet"), "of a DaemonSet: no pod is added for a machine that joins later"),
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
