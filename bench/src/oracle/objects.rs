//! Converts the short form of a case to objects of Kubernetes' API.

use crate::oracle::case;
use omega_workload::kube::api;
use omega_workload::kube::quantity::Quantity;

/// Converts a node to an API object.
pub(super) fn node(node: &case::Node) -> api::Node {
    api::Node {
        metadata: api::Metadata {
            name: node.name.clone(),
            labels: node.labels.clone(),
            ..Default::default()
        },
        spec: api::NodeSpec { unschedulable: node.unschedulable, taints: node.taints.clone() },
        status: api::NodeStatus {
            allocatable: resources(&node.allocatable),
            images: node.images.clone(),
            ..Default::default()
        },
    }
}

/// Converts a namespace to an API object.
pub(super) fn namespace(name: &str, labels: &case::Labels) -> api::Namespace {
    api::Namespace {
        metadata: api::Metadata {
            name: name.to_owned(),
            labels: labels.clone(),
            ..Default::default()
        },
    }
}

/// Converts a pod to an API object. Kubernetes has no field for the only node on which a pending pod may run, so the
/// code that builds the job sets it.
pub(super) fn pod(pod: &case::Pod) -> api::Pod {
    api::Pod {
        metadata: api::Metadata {
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            labels: pod.labels.clone(),
            deleted: pod.terminating.then(|| "1970-01-01T00:00:00Z".to_owned()),
            ..Default::default()
        },
        spec: api::PodSpec {
            node_name: pod.node.clone().unwrap_or_default(),
            priority: Some(pod.priority),
            preemption_policy: preemption_policy(pod).to_owned(),
            containers: containers(&pod.containers),
            init_containers: containers(&pod.init_containers),
            resources: requests(&pod.pod_level_requests),
            overhead: resources(&pod.overhead),
            node_selector: pod.node_selector.clone(),
            affinity: pod.affinity.clone(),
            tolerations: pod.tolerations.clone(),
            spreads: pod.topology_spread_constraints.clone(),
            ..Default::default()
        },
        status: api::PodStatus {
            nominated_node: pod.nominated_node.clone().unwrap_or_default(),
            ..Default::default()
        },
    }
}

fn preemption_policy(pod: &case::Pod) -> &'static str {
    if pod.preemption_policy_never { "Never" } else { "" }
}

fn containers(containers: &[case::Container]) -> Box<[api::Container]> {
    let objects = containers.iter().map(|container| api::Container {
        image: container.image.clone(),
        resources: requests(&container.requests),
        restart_policy: container.restart_policy.clone(),
        ports: container.ports.clone(),
        ..Default::default()
    });
    objects.collect()
}

fn requests(amounts: &case::Amounts) -> api::Requirements {
    api::Requirements { requests: resources(amounts), ..Default::default() }
}

/// Converts amounts to quantities; cpu is in thousandths of a core.
fn resources(amounts: &case::Amounts) -> api::Resources {
    let quantity = |(name, amount): (&String, &u64)| {
        let amount = i64::try_from(*amount).unwrap_or(i64::MAX);
        let quantity = match name.as_str() {
            "cpu" => Quantity::from_milli(amount),
            _ => Quantity::from_value(amount),
        };
        (name.clone(), quantity)
    };
    amounts.iter().map(quantity).collect()
}
