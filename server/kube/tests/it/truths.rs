//! Tests of objects that cannot be parsed, labels of namespaces, and overcommit by other schedulers.

use crate::pairs::Pair;
use omega_kube::adapter::{Effect, PodName, Remark, State};
use omega_kube::watch::partial::read;
use omega_workload::kube::api::{Node, Pod};
use serde_json::json;

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
    let said = remarks(&mut pair);
    assert!(
        matches!(&said[..], [(pod, Remark::Unreadable { node, .. })] if pod == "strange" && node == "n0"),
        "{said:?}"
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
    let said = remarks(&mut pair);
    let resources = "cpu 5500 of 4000".to_owned();
    let told = ("theirs".to_owned(), Remark::Overcommitted { node: "n0".into(), resources });
    assert_eq!(said, [told]);
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
