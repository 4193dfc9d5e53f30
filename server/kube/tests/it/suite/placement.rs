//! Where pods go: taints, affinity, room, gates, groups, and changes by others.

use super::cluster::{Cluster, condition};
use crate::double::text;
use serde_json::{Value, json};

pub(super) async fn pods_go_to_nodes_that_admit_them(cluster: Cluster) {
    cluster.node(0, json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    let taint = json!({"key": "dedicated", "value": "x", "effect": "NoSchedule"});
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    cluster.node(1, json!({"spec": {"taints": [taint, not_ready]}})).await;
    cluster.node(2, Value::Null).await;
    let _program = cluster.start(&[]);
    let mut fast = cluster.pod("fast", 1);
    fast["spec"]["affinity"]["nodeAffinity"] = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}});
    cluster.make(&cluster.pods(), &fast).await;
    assert_eq!(cluster.bound("fast").await, cluster.node_name(0));
    // The pods need different nodes, and only two nodes have no taint of the test.
    let apart = json!({"requiredDuringSchedulingIgnoredDuringExecution": [{
        "labelSelector": {"matchLabels": {"set": "apart"}}, "topologyKey": "kubernetes.io/hostname"}]});
    let named = ["apart0", "apart1", "apart2"];
    for name in named {
        let mut pod = cluster.pod(name, 1);
        pod["metadata"]["labels"]["set"] = "apart".into();
        pod["spec"]["affinity"]["podAntiAffinity"] = apart.clone();
        cluster.make(&cluster.pods(), &pod).await;
        if name != "apart2" {
            assert_ne!(cluster.bound(name).await, cluster.node_name(1));
        }
    }
    assert_ne!(cluster.bound("apart0").await, cluster.bound("apart1").await);
    let why = cluster.unschedulable("apart2").await;
    assert!(why.contains("2 node(s) didn't match pod anti-affinity rules"), "{why}");
    assert!(why.contains("1 node(s) had untolerated taint(s)"), "{why}");
    // Four slots are free only on the node with the taint.
    let mut large = cluster.pod("large", 4);
    let tolerations = large["spec"]["tolerations"].as_array_mut().expect("tolerations");
    tolerations.push(json!({"key": "dedicated", "operator": "Equal", "value": "x"}));
    cluster.make(&cluster.pods(), &large).await;
    assert_eq!(cluster.bound("large").await, cluster.node_name(1));
    cluster.check_slots().await;
}

pub(super) async fn a_pod_without_a_node_has_a_condition_that_says_why(cluster: Cluster) {
    cluster.nodes(3).await;
    let _program = cluster.start(&[]);
    cluster.create("big", 5).await;
    let why = cluster.unschedulable("big").await;
    assert!(why.starts_with("0/") && why.contains("3 Insufficient cpu"), "{why}");
    // The pod is tried again when the cluster has changed.
    let more = json!({"status": {"capacity": {"cpu": "2000"}, "allocatable": {"cpu": "2000"}}});
    let node = format!("/api/v1/nodes/{}/status", cluster.node_name(1));
    cluster.patch(&node, &more).await;
    assert_eq!(cluster.bound("big").await, cluster.node_name(1));
    let is_bound = |pod: &Value| {
        condition(pod, "PodScheduled").is_some_and(|condition| condition["status"] == "True")
    };
    cluster.until_one(&cluster.pods(), "big", is_bound).await;
}

pub(super) async fn a_gated_pod_waits_until_its_gates_are_removed(cluster: Cluster) {
    cluster.nodes(1).await;
    let mut gated = cluster.pod("gated", 1);
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    cluster.make(&cluster.pods(), &gated).await;
    let _program = cluster.start(&[]);
    cluster.create("later", 1).await;
    cluster.bound("later").await;
    let path = format!("{}/gated", cluster.pods());
    let waiting = cluster.get(&path).await.expect("the pod");
    assert_eq!(text(&waiting, "/spec/nodeName"), "");
    cluster.patch(&path, &json!({"spec": {"schedulingGates": null}})).await;
    cluster.bound("gated").await;
}

pub(super) async fn a_pod_that_is_created_again_is_bound_again(cluster: Cluster) {
    cluster.nodes(1).await;
    let _program = cluster.start(&[]);
    let mut uids = Vec::new();
    // Each pod needs the whole node, so the room of its predecessor must be free.
    for _ in 0..3 {
        let made = cluster.create("a", 4).await;
        uids.push(text(&made, "/metadata/uid").to_owned());
        cluster.bound("a").await;
        cluster.remove(&format!("{}/a", cluster.pods())).await;
    }
    uids.sort_unstable();
    uids.dedup();
    assert_eq!(uids.len(), 3);
}

pub(super) async fn no_pod_goes_to_a_deleted_node(cluster: Cluster) {
    cluster.nodes(2).await;
    let _program = cluster.start(&[]);
    cluster.create("first", 1).await;
    cluster.bound("first").await;
    cluster.remove(&format!("/api/v1/nodes/{}", cluster.node_name(0))).await;
    // The deletion of the node and a new pod come on different watches, so the pod may come first.
    for number in 0.. {
        let probe = format!("probe{number}");
        cluster.create(&probe, 5).await;
        let why = cluster.unschedulable(&probe).await;
        if why.contains("1 Insufficient cpu") {
            break;
        }
        assert!(why.contains("2 Insufficient cpu"), "{why}");
    }
    for name in ["a", "b", "c"] {
        cluster.create(name, 1).await;
        assert_eq!(cluster.bound(name).await, cluster.node_name(1));
    }
    cluster.check_slots().await;
}

pub(super) async fn a_pod_that_another_scheduler_binds_uses_room(cluster: Cluster) {
    cluster.nodes(1).await;
    let _program = cluster.start(&[]);
    cluster.create("ours", 1).await;
    cluster.bound("ours").await;
    let mut foreign = cluster.pod("foreign", 2);
    foreign["spec"]["schedulerName"] = "another-scheduler".into();
    cluster.make(&cluster.pods(), &foreign).await;
    cluster.bind_elsewhere("foreign").await;
    cluster.create("large", 2).await;
    let why = cluster.unschedulable("large").await;
    assert!(why.contains("1 Insufficient cpu"), "{why}");
    cluster.create("small", 1).await;
    cluster.bound("small").await;
    cluster.check_slots().await;
    cluster.remove(&format!("{}/foreign", cluster.pods())).await;
    cluster.bound("large").await;
    cluster.check_slots().await;
}

pub(super) async fn workers_with_more_pods_than_slots_overcommit_no_node(cluster: Cluster) {
    cluster.nodes(4).await;
    for index in 0..20 {
        cluster.create(&format!("before{index}"), 1).await;
    }
    let _program = cluster.start(&[]);
    for index in 0..20 {
        cluster.create(&format!("after{index}"), 1).await;
    }
    let has_node = |pod: &&Value| !text(pod, "/spec/nodeName").is_empty();
    let is_told = |pod: &&Value| {
        condition(pod, "PodScheduled").is_some_and(|one| one["reason"] == "Unschedulable")
    };
    let settled = |pods: &[Value]| {
        pods.iter().filter(has_node).count() >= 16
            && pods.iter().filter(|pod| !has_node(pod) && is_told(pod)).count() >= 24
    };
    let pods = cluster.until(&cluster.pods(), settled).await;
    assert_eq!(pods.iter().filter(has_node).count(), 16);
    cluster.check_slots().await;
}

pub(super) async fn a_group_of_pods_waits_until_it_is_complete(cluster: Cluster) {
    let api = "/apis/scheduling.k8s.io/v1alpha2";
    if cluster.get(api).await.is_none() {
        println!("skipped: the server does not serve PodGroup");
        return;
    }
    cluster.nodes(2).await;
    let _program = cluster.start(&[]);
    let groups = cluster.path("/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups");
    let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}});
    cluster.make(&groups, &group).await;
    let member = |name: &str| {
        let mut pod = cluster.pod(name, 3);
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "g"});
        pod
    };
    cluster.make(&cluster.pods(), &member("a")).await;
    cluster.create("single", 1).await;
    cluster.bound("single").await;
    let waiting = cluster.get(&format!("{}/a", cluster.pods())).await.expect("the pod");
    assert_eq!(text(&waiting, "/spec/nodeName"), "");
    cluster.make(&cluster.pods(), &member("b")).await;
    assert_ne!(cluster.bound("a").await, cluster.bound("b").await);
    let is_scheduled = |group: &Value| {
        condition(group, "PodGroupScheduled").is_some_and(|one| one["status"] == "True")
    };
    cluster.until_one(&groups, "g", is_scheduled).await;
    cluster.check_slots().await;
}
