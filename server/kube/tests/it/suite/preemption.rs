//! Preemption: nominations, victims, and budgets.

use super::cluster::{Cluster, condition};
use crate::double::text;
use serde_json::{Value, json};

/// Creates a priority class of this value. A server computes the priority of a pod from its class.
async fn class(cluster: &Cluster, value: u32) -> String {
    let name = format!("{}-{value}", cluster.name);
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
        "value": value});
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    name
}

/// Creates a pod that needs a whole node.
async fn create(cluster: &Cluster, name: &str, class: &str, node: Option<u32>) {
    let mut pod = cluster.pod(name, 4);
    pod["spec"]["priorityClassName"] = class.into();
    if let Some(node) = node {
        pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] = cluster.node_name(node).into();
    }
    cluster.make(&cluster.pods(), &pod).await;
}

fn leaves(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}

pub(super) async fn a_pod_of_higher_priority_takes_the_room_of_its_victim(cluster: Cluster) {
    cluster.nodes(1).await;
    let (low, high) = (class(&cluster, 10).await, class(&cluster, 1000).await);
    let _program = cluster.start(&[]);
    create(&cluster, "low", &low, None).await;
    let node = cluster.bound("low").await;
    create(&cluster, "high", &high, None).await;
    let victim = cluster.until_one(&cluster.pods(), "low", leaves).await;
    let target = condition(&victim, "DisruptionTarget").expect("it precedes the deletion");
    assert_eq!(target["reason"], "PreemptionByScheduler");
    let is_nominated = |pod: &Value| text(pod, "/status/nominatedNodeName") == node;
    cluster.until_one(&cluster.pods(), "high", is_nominated).await;
    // The room is reserved: no other pod gets it.
    create(&cluster, "other", &low, None).await;
    cluster.unschedulable("other").await;
    // The pod has no kubelet that would end it.
    cluster.remove(&format!("{}/low", cluster.pods())).await;
    assert_eq!(cluster.bound("high").await, node);
    cluster.check_slots().await;
}

pub(super) async fn a_pod_with_a_disruption_budget_is_spared(cluster: Cluster) {
    cluster.nodes(2).await;
    let lowest = class(&cluster, 10).await;
    let (low, high) = (class(&cluster, 20).await, class(&cluster, 1000).await);
    let budgets = cluster.path("/apis/policy/v1/namespaces/{}/poddisruptionbudgets");
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}});
    cluster.make(&budgets, &budget).await;
    // The controller of budgets, where there is one, comes to the same result: the pod is not ready.
    let none = json!({"disruptionsAllowed": 0, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 0});
    cluster.patch(&format!("{budgets}/b/status"), &json!({"status": none})).await;
    let _program = cluster.start(&[]);
    // Without the budget, the pod of the lowest priority would be the victim.
    create(&cluster, "guarded", &lowest, Some(0)).await;
    create(&cluster, "free", &low, Some(1)).await;
    cluster.bound("guarded").await;
    cluster.bound("free").await;
    create(&cluster, "high", &high, None).await;
    let one_leaves = |pods: &[Value]| pods.iter().any(leaves);
    let pods = cluster.until(&cluster.pods(), one_leaves).await;
    let victims = pods.iter().filter(|pod| leaves(pod)).map(|pod| text(pod, "/metadata/name"));
    assert_eq!(victims.collect::<Vec<_>>(), ["free"]);
    cluster.remove(&format!("{}/free", cluster.pods())).await;
    assert_eq!(cluster.bound("high").await, cluster.node_name(1));
    let guarded = cluster.get(&format!("{}/guarded", cluster.pods())).await.expect("it stays");
    assert!(!leaves(&guarded));
}
