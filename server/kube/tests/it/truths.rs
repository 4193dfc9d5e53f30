//! Tests of objects that cannot be parsed or exceed a limit, labels of namespaces, and overcommit by other schedulers.

use crate::double::Double;
use crate::pairs::Pair;
use omega_kube::adapter::{Effect, PodName, Remark, State};
use omega_kube::watch::partial::read;
use omega_workload::kube::api::{Node, Pod};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn name(name: &str) -> PodName {
    PodName { namespace: "t".into(), name: name.into() }
}

fn remarks(pair: &mut Pair) -> Vec<(String, Remark)> {
    let remark = |effect| match effect {
        Effect::Tell(pod, remark) => Some((pod.name, remark)),
        Effect::Act(_) | Effect::Refuse(..) | Effect::GiveUp(_) => None,
    };
    pair.adapter.effects().into_iter().filter_map(remark).collect()
}

/// A pod whose port has a protocol that no version of Kubernetes has.
fn strange(version: u32, node: &str, protocol: &str) -> Pod {
    let object = json!({"metadata": {"name": "strange", "namespace": "t", "uid": "u", "resourceVersion": version.to_string()},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}},
            "ports": [{"hostPort": 80, "protocol": protocol}]}]}});
    read(&object.to_string()).expect("its head")
}

#[test]
fn a_bound_pod_that_is_not_understood_closes_its_node_until_it_is_understood_or_gone() {
    let mut pair = Pair::new(1, 1);
    pair.deliver();
    pair.adapter.pod_changed(strange(1000, "n0", "QUIC"));
    assert_eq!(pair.adapter.state(&name("strange")), Some(&State::Bound("n0".into())));
    assert_eq!((pair.adapter.blind_nodes(), pair.adapter.unreadable()), (1, 1));
    let output = remarks(&mut pair);
    assert!(
        matches!(&output[..], [(pod, Remark::Unreadable { node, .. })] if pod == "strange" && node == "n0"),
        "{output:?}"
    );
    pair.create("a", 500);
    pair.deliver();
    assert!(pair.decide().is_empty(), "the node takes no pods");
    // The pod can be parsed now: it uses three cores, so one core is free.
    pair.adapter.pod_changed(strange(1001, "n0", "TCP"));
    assert_eq!((pair.adapter.blind_nodes(), pair.adapter.unreadable()), (0, 0));
    pair.create("b", 2000);
    pair.deliver();
    let bindings = pair.decide();
    assert_eq!(bindings.iter().map(|one| one.pod.name.as_str()).collect::<Vec<_>>(), ["a"]);
    pair.adapter.pod_changed(strange(1002, "n0", "QUIC"));
    assert_eq!(pair.adapter.blind_nodes(), 1);
    pair.adapter.pod_deleted(&strange(1003, "n0", "QUIC"));
    assert_eq!(pair.adapter.blind_nodes(), 0);
    assert_eq!(pair.decide().len(), 1);
}

#[test]
fn a_pod_of_ours_that_is_not_understood_is_held_and_a_node_takes_no_pods() {
    let mut pair = Pair::new(1, 1);
    pair.deliver();
    pair.adapter.pod_changed(strange(1000, "", "QUIC"));
    assert!(matches!(pair.adapter.state(&name("strange")), Some(State::Held(_))));
    let node = |version: u32, effect: &str| {
        let object = json!({"metadata": {"name": "n0", "resourceVersion": version.to_string()},
            "spec": {"taints": [{"key": "k", "effect": effect}]},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
        read::<Node>(&object.to_string()).expect("its head")
    };
    pair.adapter.node_changed(&node(1001, "NoPods"));
    assert_eq!(pair.adapter.blind_nodes(), 1);
    pair.create("a", 500);
    pair.deliver();
    assert!(pair.decide().is_empty());
    pair.adapter.node_changed(&node(1002, "PreferNoSchedule"));
    assert_eq!(pair.decide().len(), 1);
}

#[test]
fn a_namespace_that_changes_its_labels_changes_whom_its_selectors_select() {
    let mut pair = Pair::new(2, 1);
    let namespace =
        |labels: &serde_json::Value| json!({"metadata": {"name": "other", "labels": labels}});
    pair.server.call("POST", "/api/v1/namespaces", &namespace(&json!({"team": "a"})));
    let there = json!({"metadata": {"name": "there", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c"}], "nodeName": "n0"}});
    pair.server.call("POST", "/api/v1/namespaces/other/pods", &there);
    // The pod has anti-affinity to the pods of all namespaces with the label of team b.
    let spec = json!({"schedulerName": "omega", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "nodeSelector": {"only": "n0"},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "topology.kubernetes.io/zone",
            "namespaceSelector": {"matchLabels": {"team": "b"}}}]}}});
    let patch = json!({"metadata": {"labels": {"only": "n0"}}});
    pair.server.call("PATCH", "/api/v1/nodes/n0", &patch);
    pair.create_with("a", &spec.to_string());
    let patch = |team: &str| json!({"metadata": {"labels": {"team": team}}});
    pair.server.call("PATCH", "/api/v1/namespaces/other", &patch("b"));
    pair.deliver();
    assert!(pair.decide().is_empty(), "by now the namespace is of team b");
    pair.server.call("PATCH", "/api/v1/namespaces/other", &patch("a"));
    pair.deliver();
    assert_eq!(pair.decide().len(), 1);
}

#[test]
fn overcommit_by_another_scheduler_is_counted_and_told() {
    let mut pair = Pair::new(1, 1);
    pair.create("ours", 3000);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    pair.send(&binding);
    pair.deliver();
    let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2500m"}}}]});
    pair.create_with("theirs", &spec.to_string());
    pair.bind_elsewhere("theirs", "n0");
    pair.deliver();
    assert_eq!(pair.adapter.counters().overcommits, 1);
    assert_eq!(pair.adapter.overcommitted_nodes(), ["n0"]);
    let output = remarks(&mut pair);
    let resources = "cpu 5500 of 4000".to_owned();
    let reported = ("theirs".to_owned(), Remark::Overcommitted { node: "n0".into(), resources });
    assert_eq!(output, [reported]);
    pair.delete("theirs");
    pair.deliver();
    assert!(pair.adapter.overcommitted_nodes().is_empty());
    // After a restart, pods that were already bound are not reported again.
    pair.create_with("theirs", &spec.to_string());
    pair.bind_elsewhere("theirs", "n0");
    pair.restart(1);
    assert_eq!((pair.adapter.counters().overcommits, pair.adapter.counters().foreign), (0, 0));
    assert_eq!(pair.adapter.overcommitted_nodes(), ["n0"]);
    assert!(remarks(&mut pair).is_empty());
}

/// Creates a node whose allocatable resources include these.
fn node_with(server: &mut Double, name: &str, more: &[(String, &str)]) {
    let mut resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    for (resource, amount) in more {
        resources[resource] = (*amount).into();
    }
    let node = json!({"metadata": {"name": name}, "status": {"allocatable": resources, "capacity": resources}});
    server.call("POST", "/api/v1/nodes", &node);
}

/// Specification of a pod that requests one of a resource.
fn asks(scheduler: &str, resources: &[String]) -> Value {
    let requests: BTreeMap<&String, &str> = resources.iter().map(|name| (name, "1")).collect();
    json!({"schedulerName": scheduler, "containers": [
        {"name": "c", "resources": {"requests": requests}}]})
}

fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| format!("example.com/{prefix}{index:02}")).collect()
}

fn why_held(pair: &Pair, pod: &str) -> String {
    match pair.adapter.state(&name(pod)) {
        Some(State::Held(why)) => why.clone(),
        other => panic!("{pod}: {other:?}"),
    }
}

#[test]
fn resources_that_only_pods_name_neither_stop_the_start_nor_displace_those_of_nodes() {
    let mut server = Double::default();
    node_with(&mut server, "n0", &[("example.com/gpu".to_owned(), "2")]);
    let spec = asks("other", &numbered("a", 20));
    let invented = json!({"metadata": {"name": "invented"}, "spec": spec});
    server.call("POST", "/api/v1/namespaces/t/pods", &invented);
    let mut pair = Pair::of(server, 1);
    let spec = |resource: &str| asks("omega", &[resource.to_owned()]).to_string();
    pair.create_with("gpu", &spec("example.com/gpu"));
    pair.create_with("none", &spec("example.com/fpga"));
    pair.deliver();
    let bound: Vec<String> = pair.decide().into_iter().map(|binding| binding.pod.name).collect();
    assert_eq!(bound, ["gpu"]);
    let why = "0/1 nodes are available: 1 Insufficient example.com/fpga.";
    assert_eq!(why_held(&pair, "none"), why);
    // A node that gets the resource later.
    node_with(&mut pair.server, "n1", &[("example.com/fpga".to_owned(), "1")]);
    pair.deliver();
    let why = why_held(&pair, "none");
    assert!(why.starts_with("omega-kube tracks at most 10 extended resources"), "{why}");
    pair.restart(1);
    let bound: Vec<String> = pair.decide().into_iter().map(|binding| binding.pod.name).collect();
    assert!(bound.contains(&"none".to_owned()), "resources of nodes come first: {bound:?}");
}

#[test]
fn only_pods_that_request_a_resource_beyond_the_limit_are_held() {
    let mut server = Double::default();
    let resources = numbered("r", 12);
    let amounts: Vec<(String, &str)> = resources.iter().map(|name| (name.clone(), "1")).collect();
    node_with(&mut server, "n0", &amounts);
    let mut pair = Pair::of(server, 1);
    for index in [9, 10] {
        let spec = asks("omega", &resources[index..=index]);
        pair.create_with(&format!("p{index}"), &spec.to_string());
    }
    pair.deliver();
    let bound: Vec<String> = pair.decide().into_iter().map(|binding| binding.pod.name).collect();
    assert_eq!(bound, ["p9"]);
    let why = why_held(&pair, "p10");
    assert!(why.starts_with("omega-kube tracks at most 10 extended resources"), "{why}");
}

#[test]
fn a_pod_that_requests_more_than_can_be_counted_is_held() {
    let mut pair = Pair::of(Double::default(), 1);
    node_with(&mut pair.server, "n0", &[("ephemeral-storage".to_owned(), "4Pi")]);
    let asks = |amount: &str| {
        json!({"schedulerName": "omega", "containers": [{"name": "c", "resources": {"requests":
            {"ephemeral-storage": amount}}}]})
    };
    pair.create_with("large", &asks("2Pi").to_string());
    let mut foreign = asks("1Pi");
    (foreign["schedulerName"], foreign["nodeName"]) = ("other".into(), "n0".into());
    ["f0", "f1"].iter().for_each(|pod| pair.create_with(pod, &foreign.to_string()));
    pair.deliver();
    assert_eq!(pair.decide(), []);
    assert!(why_held(&pair, "large").contains("above 2^50"));
    assert!(pair.adapter.overcommitted_nodes().is_empty(), "the node has 4 PiB");
}

/// Replaces the labels of the node `n0`, and sets whether it is cordoned.
fn label_node(pair: &mut Pair, count: usize, cordoned: &Value) {
    let labels: BTreeMap<String, &str> = (0..count).map(|at| (format!("l{at}"), "v")).collect();
    let patch = json!({"metadata": {"labels": null}});
    pair.server.call("PATCH", "/api/v1/nodes/n0", &patch);
    let patch = json!({"metadata": {"labels": labels}, "spec": {"unschedulable": cordoned}});
    pair.server.call("PATCH", "/api/v1/nodes/n0", &patch);
    pair.deliver();
}

#[test]
fn a_node_that_the_cell_rejects_is_closed_and_counted() {
    let mut pair = Pair::new(1, 1);
    pair.deliver();
    label_node(&mut pair, 300, &json!(true));
    assert_eq!((pair.adapter.blind_nodes(), pair.adapter.unreadable()), (1, 1));
    assert_eq!(pair.adapter.shared().closers.text(), "node n0");
    pair.create("a", 500);
    pair.deliver();
    assert_eq!(pair.decide(), []);
    label_node(&mut pair, 200, &json!(false));
    assert_eq!((pair.adapter.blind_nodes(), pair.adapter.unreadable()), (0, 0));
    assert_eq!(pair.decide().len(), 1);
    // A new node is counted, too, until it is gone.
    label_node(&mut pair, 300, &json!(false));
    pair.restart(1);
    assert_eq!((pair.adapter.blind_nodes(), pair.adapter.node_count()), (1, 0));
    pair.server.delete_node("n0");
    pair.relist();
    assert_eq!(pair.adapter.blind_nodes(), 0);
}

/// Creates a pod of another scheduler on the node `n0`, with this many labels and required anti-affinity terms.
fn place_foreign(pair: &mut Pair, labels: usize, terms: usize) {
    let labels: BTreeMap<String, &str> = (0..labels).map(|at| (format!("l{at}"), "v")).collect();
    let term = |at| {
        json!({"topologyKey": "topology.kubernetes.io/zone",
            "labelSelector": {"matchLabels": {"app": format!("a{at}")}}})
    };
    let terms: Vec<Value> = (0..terms).map(term).collect();
    let spec = json!({"schedulerName": "other", "nodeName": "n0",
        "containers": [{"name": "c", "image": "x".repeat(600), "resources": {"requests": {"cpu": "3"}}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
    let pod = json!({"metadata": {"name": "foreign", "labels": labels}, "spec": spec});
    pair.server.call("POST", "/api/v1/namespaces/t/pods", &pod);
    pair.deliver();
}

#[test]
fn a_bound_pod_beyond_the_limits_uses_room_and_leaves_its_node_open() {
    let mut pair = Pair::new(1, 1);
    place_foreign(&mut pair, 300, 64);
    assert_eq!(pair.adapter.blind_nodes(), 0);
    pair.create("large", 2000);
    pair.create("small", 1000);
    // The pod keeps its anti-affinity.
    let pod = json!({"metadata": {"name": "far", "labels": {"app": "a63"}},
        "spec": {"schedulerName": "omega", "containers": [{"name": "c"}]}});
    pair.server.call("POST", "/api/v1/namespaces/t/pods", &pod);
    pair.deliver();
    let bound: Vec<String> = pair.decide().into_iter().map(|binding| binding.pod.name).collect();
    assert_eq!(bound, ["small"]);
}

#[test]
fn a_bound_pod_with_too_much_anti_affinity_closes_its_node() {
    let mut pair = Pair::new(1, 1);
    place_foreign(&mut pair, 1, 65);
    assert_eq!(pair.adapter.blind_nodes(), 1);
    assert_eq!(pair.adapter.shared().closers.text(), "pod t/foreign");
    let output = remarks(&mut pair);
    let [(_, Remark::Unreadable { why, .. })] = &output[..] else { panic!("{output:?}") };
    assert!(why.starts_with("the pod exceeds a limit of omega-kube: rules"), "{why}");
    pair.create("a", 500);
    pair.deliver();
    assert_eq!(pair.decide(), []);
    pair.delete("foreign");
    pair.deliver();
    assert_eq!(pair.adapter.blind_nodes(), 0);
    assert_eq!(pair.decide().len(), 1);
}

#[test]
fn a_pod_of_ours_beyond_the_limits_is_told_why_unless_preferences_can_be_left_out() {
    let mut pair = Pair::new(1, 1);
    pair.deliver();
    let many = |item: &dyn Fn(usize) -> Value| (0..65).map(item).collect::<Vec<Value>>();
    let tolerations = many(&|at| json!({"key": format!("k{at}"), "operator": "Exists"}));
    let terms = many(&|at| {
        json!({"weight": 1, "preference": {"matchExpressions": [
            {"key": format!("k{at}"), "operator": "Exists"}]}})
    });
    let spec = json!({"schedulerName": "omega", "containers": [{"name": "c"}], "tolerations": tolerations});
    pair.create_with("tolerant", &spec.to_string());
    let spec = json!({"schedulerName": "omega", "containers": [{"name": "c", "image": "x".repeat(600)}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}});
    pair.create_with("wishful", &spec.to_string());
    pair.deliver();
    let reported = pair.adapter.effects().into_iter().filter_map(|effect| match effect {
        Effect::Refuse(pod, why) => Some((pod.name, why)),
        _ => None,
    });
    let reported: Vec<(String, String)> = reported.collect();
    let why = "the pod exceeds a limit of omega-kube: tolerations of a group: 65 are too many: at most 64 are allowed";
    assert_eq!(reported, [("tolerant".to_owned(), why.to_owned())]);
    assert_eq!(why_held(&pair, "tolerant"), why);
    let bound: Vec<String> = pair.decide().into_iter().map(|binding| binding.pod.name).collect();
    assert_eq!(bound, ["wishful"]);
}
