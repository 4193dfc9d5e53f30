//! The reasons why a pod fits on no node, in kube-scheduler's words.

use crate::adapter::Shared;
use crate::profiles::KubeProfile;
use omega_cellstate::View;
use omega_core::{JobId, Kinds, PlacementRules, Reason, Text};
use omega_schedulers::volumes::{VolumeObstacle, VolumeReason};
use omega_schedulers::{Explanation, Scheduler, Settings};
use omega_workload::kube::kinds::{is_nominal, resource_name};
use omega_workload::kube::node::cordon;
use std::collections::BTreeMap;

/// Schedulers that place no pods and only explain, one for each profile.
pub struct Explainer {
    shared: Shared,
    profiles: Vec<KubeProfile>,
    schedulers: BTreeMap<Text, Scheduler>,
}

impl Explainer {
    /// Creates the explainer of a cell with these profiles.
    #[must_use]
    pub fn new(shared: Shared, profiles: Vec<KubeProfile>) -> Explainer {
        Explainer { shared, profiles, schedulers: BTreeMap::new() }
    }

    /// Returns the reason why a job's pod fits on no node; `None` if the pod is gone, or would fit.
    pub fn message(&mut self, job: JobId) -> Option<String> {
        let cell = &self.shared.cell;
        let spec = cell.read(|cell| cell.job(job).cloned())?;
        let takes = spec.scheduler.clone();
        if !self.schedulers.contains_key(&takes) {
            let profile = self.profiles.iter().find(|profile| *profile.name == *takes)?;
            let bound = profile.bind_read_only(&self.shared);
            let name = format!("omega-kube/explainer/{takes}").into();
            let settings = Settings { name, ..Settings::worker(&takes, 0, 1) };
            let scheduler = Scheduler::new(cell, bound, settings).ok()?;
            self.schedulers.insert(takes.clone(), scheduler);
        }
        let scheduler = self.schedulers.get_mut(&takes)?;
        scheduler.look(cell, 0).ok()?;
        let mut explanation = scheduler.explain(job, 0)?;
        let kinds = scheduler.view().kinds();
        let group = spec.groups.first()?;
        separate_cordons(&mut explanation, cordoned(scheduler.view(), &group.rules));
        let claims = group.volumes.as_slice();
        if let Some(obstacle) = self.shared.volumes.obstacle_everywhere(claims) {
            return Some(of_claim(explanation.machines, &obstacle));
        }
        let closers = self.shared.closers.text();
        (explanation.feasible == 0).then(|| message(&explanation, kinds, &closers))
    }
}

/// Returns the number of machines that the cell counts as tainted because they are cordoned.
fn cordoned(view: &View, rules: &PlacementRules) -> usize {
    let cordon = cordon();
    if rules.tolerations.iter().any(|toleration| toleration.covers(&cordon)) {
        return 0;
    }
    let machines = (0..view.rows()).filter_map(|row| view.machine(row));
    let cordoned = machines.filter(|machine| {
        let mut taints = machine.taints.iter();
        taints.any(|taint| taint.key == cordon.key && taint.effect == cordon.effect)
    });
    // The cell checks affinity first.
    let required = rules.affinity.required.as_ref();
    let matching = cordoned.filter(|machine| {
        required.is_none_or(|terms| terms.iter().any(|term| term.matches(machine)))
    });
    matching.count()
}

/// Counts this number of tainted machines as cordoned, as kube-scheduler does.
fn separate_cordons(explanation: &mut Explanation, cordoned: usize) {
    let tainted = explanation.refused.iter_mut().find(|(reason, _)| *reason == Reason::Tainted);
    let Some((_, count)) = tainted.filter(|_| cordoned > 0) else { return };
    let cordoned = cordoned.min(*count);
    *count -= cordoned;
    explanation.refused.retain(|(_, count)| *count > 0);
    explanation.filtered.push(("node_unschedulable", cordoned));
}

/// Returns an explanation in kube-scheduler's words. `closers` are the objects that close nodes, as text.
#[must_use]
pub fn message(explanation: &Explanation, kinds: &Kinds, closers: &str) -> String {
    let nodes = explanation.machines;
    if nodes == 0 {
        return "no nodes available to schedule pods".into();
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (reason, count) in &explanation.refused {
        let text = match reason {
            // The object that closed the node may be gone meanwhile.
            Reason::MachineDraining if closers.is_empty() => {
                Some("node(s) were unschedulable".to_owned())
            }
            Reason::MachineDraining => Some(format!("node(s) were closed by {closers}")),
            reason => words(*reason, kinds),
        };
        if let Some(text) = text {
            *counts.entry(text).or_default() += count;
        }
    }
    for (filter, count) in &explanation.filtered {
        *counts.entry(filter_words(filter)).or_default() += count;
    }
    let mut parts: Vec<String> =
        counts.iter().map(|(text, count)| format!("{count} {text}")).collect();
    parts.sort();
    format!("0/{nodes} nodes are available: {}.", parts.join(", "))
}

/// Returns the words for a reason. Returns `None` for a nominal kind such as `cpu (nominal)`, which exists only in the
/// cell, for scores: the reason for the real kind `cpu` is enough.
fn words(reason: Reason, kinds: &Kinds) -> Option<String> {
    let text = match reason {
        Reason::NoRoom(kind) => {
            let name = kinds.get(kind).map_or("resources", |kind| kind.name.as_str());
            if is_nominal(name) {
                return None;
            }
            return Some(match name {
                "pods" => "Too many pods".into(),
                name => format!("Insufficient {}", resource_name(name)),
            });
        }
        Reason::OtherMachine => "node(s) didn't match the requested node name",
        Reason::AffinityUnmet => "node(s) didn't match Pod's node affinity/selector",
        Reason::Tainted => "node(s) had untolerated taint(s)",
        Reason::PortTaken | Reason::NoPorts => {
            "node(s) didn't have free ports for the requested pod ports"
        }
        Reason::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
        Reason::TaskAffinityUnmet => "node(s) didn't match pod affinity rules",
        Reason::Skew => "node(s) didn't match pod topology spread constraints",
        Reason::NoDomain => {
            "node(s) didn't match pod topology spread constraints (missing required label)"
        }
        other => return Some(format!("node(s) were rejected: {other:?}")),
    };
    Some(text.into())
}

/// Returns the message for a volume claim that keeps a pod from every node.
fn of_claim(nodes: usize, obstacle: &VolumeObstacle) -> String {
    let claim = obstacle.claim.rsplit('/').next().unwrap_or_default();
    let why = match obstacle.reason {
        VolumeReason::UnknownClaim => format!("persistentvolumeclaim {claim:?} not found"),
        VolumeReason::IsEnding => format!("persistentvolumeclaim {claim:?} is being deleted"),
        VolumeReason::NotBound => "pod has unbound immediate PersistentVolumeClaims".into(),
        VolumeReason::NoSuchVolume => {
            format!("persistentvolumeclaim {claim:?} bound to non-existent persistentvolume")
        }
        _ => obstacle.to_string(),
    };
    format!("0/{nodes} nodes are available: {why}.")
}

fn filter_words(filter: &str) -> String {
    match filter {
        "volume_binding" => "node(s) didn't find available persistent volumes to bind".into(),
        "volume_zone" => "node(s) had no available volume zone".into(),
        "volume_limits" => "node(s) exceed max volume count".into(),
        "volume_restrictions" => {
            "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode".into()
        }
        "node_unschedulable" | "schedulable" => "node(s) were unschedulable".into(),
        "taint_toleration" | "taints" => "node(s) had untolerated taint(s)".into(),
        "node_affinity" => "node(s) didn't match Pod's node affinity/selector".into(),
        other => format!("node(s) were rejected by {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{Adapter, Settings as AdapterSettings};
    use omega_core::{KindId, ResourceKind, Unit};
    use omega_workload::kube::api::{Node, Pod};
    use omega_workload::kube::live::Converter;
    use serde_json::{Value, json};

    fn node(name: &str, spec: &Value) -> Node {
        let node = json!({"metadata": {"name": name, "labels": {"zone": name}}, "spec": spec,
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
        serde_json::from_value(node).expect("a node")
    }

    #[test]
    fn cordoned_nodes_are_told_from_tainted_ones() {
        let taint = |key: &str| json!({"key": key, "effect": "NoSchedule"});
        let closed = taint("node.kubernetes.io/unschedulable");
        let nodes = [
            node("cordoned", &json!({"unschedulable": true})),
            node("with-taint", &json!({"unschedulable": true, "taints": [closed]})),
            node("tainted", &json!({"taints": [taint("gpu")]})),
            node("elsewhere", &json!({"unschedulable": true})),
        ];
        let term = json!({"matchExpressions": [
            {"key": "zone", "operator": "NotIn", "values": ["elsewhere"]}]});
        let affinity = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        let message = |tolerations: Value| {
            let pod = json!({"metadata": {"name": "a", "namespace": "t", "uid": "u"},
                "spec": {"schedulerName": "omega", "affinity": affinity, "tolerations": tolerations,
                    "containers": [{"resources": {"requests": {"cpu": "8"}}}]}});
            let pod: Pod = serde_json::from_value(pod).expect("a pod");
            let converter = Converter::new(&nodes, [&pod], &[]).expect("kinds");
            let settings = AdapterSettings {
                scheduler_names: ["omega".to_owned()].into(),
                request_timeout_ms: 1,
                preempts: false,
                repairs: false,
                binds: true,
            };
            let mut adapter = Adapter::new(converter, settings);
            adapter.nodes_listed(&nodes);
            adapter.pod_changed(pod.clone());
            let job = adapter.job_of(&crate::adapter::PodName::of(&pod)).expect("a job");
            let profiles = vec![KubeProfile::new("omega")];
            Explainer::new(adapter.shared(), profiles).message(job).expect("a reason")
        };
        assert_eq!(
            message(json!([])),
            "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated \
             taint(s), 2 node(s) were unschedulable."
        );
        assert_eq!(
            message(json!([{"key": "gpu", "operator": "Exists"}])),
            "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, \
             2 node(s) were unschedulable."
        );
        let tolerant = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
        assert_eq!(
            message(tolerant),
            "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated \
             taint(s), 2 Insufficient cpu."
        );
    }

    #[test]
    fn reasons_are_counted_and_sorted_as_by_kube_scheduler() {
        let kinds = Kinds::standard();
        let cpu = kinds.get(KindId(0)).expect("a kind").name.clone();
        let explanation = Explanation {
            machines: 6,
            refused: vec![
                (Reason::Tainted, 1),
                (Reason::NoRoom(KindId(0)), 3),
                (Reason::MachineDraining, 1),
            ],
            filtered: vec![("node_affinity", 1)],
            ..Explanation::default()
        };
        let expected = format!(
            "0/6 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated \
             taint(s), 1 node(s) were closed by pod t/a, 3 Insufficient {cpu}."
        );
        assert_eq!(message(&explanation, &kinds, "pod t/a"), expected);
        let none = message(&Explanation::default(), &kinds, "");
        assert_eq!(none, "no nodes available to schedule pods");
        let disk = ResourceKind { name: "disk".into(), unit: Unit::Bytes, compressible: false };
        let disk = Kinds::new(vec![disk]).expect("kinds");
        let refused = vec![(Reason::NoRoom(KindId(0)), 1)];
        let explanation = Explanation { machines: 1, refused, ..Explanation::default() };
        let expected = "0/1 nodes are available: 1 Insufficient ephemeral-storage.";
        assert_eq!(message(&explanation, &disk, ""), expected);
    }
}
