//! Repairs of nodes that another scheduler overcommits: pods of ours that have not started are deleted, if the option is
//! given.

use crate::double::{Double, PODS, text};
use crate::pairs::{Pair, add_node};
use crate::process::{block_on, bound, create, pod, server, start};
use omega_kube::adapter::{Effect, Remark};
use serde_json::{Value, json};

/// Returns the pod of a ReplicaSet.
fn replica(name: &str, milli: u32) -> Value {
    let mut pod = pod(name, milli);
    pod["metadata"]["ownerReferences"] =
        json!([{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]);
    pod
}

fn post(double: &mut Double, pod: &Value) {
    double.call("POST", "/api/v1/namespaces/t/pods", pod);
}

/// Creates a pod of another scheduler on the node `n0`.
fn invade(double: &mut Double, name: &str, milli: u32) {
    let mut pod = pod(name, milli);
    pod["spec"]["schedulerName"] = "other".into();
    post(double, &pod);
    double.bind_elsewhere("t", name, "n0");
}

/// Returns a pair of one node with these pods, which our workers have bound.
fn pair(repairs: bool, pods: &[Value]) -> Pair {
    let mut server = Double::default();
    add_node(&mut server, 0);
    let mut pair = Pair::with_settings(server, 1, |settings| settings.repairs = repairs);
    for pod in pods {
        // Their times of creation differ only if a clock says so.
        pair.server.clock = Some(format!("2026-01-01T00:00:{:02}Z", pair.server.version));
        post(&mut pair.server, pod);
        pair.deliver();
        let binding = pair.decide().pop().expect("a decision");
        pair.send(&binding);
        pair.deliver();
    }
    pair
}

/// Advances the time, and returns the pods that are deleted then.
fn tick(pair: &mut Pair, now_ms: u64) -> Vec<String> {
    let before = leaving(pair);
    pair.adapter.tick(now_ms);
    assert!(pair.carry_out().is_empty());
    pair.deliver();
    leaving(pair).into_iter().filter(|pod| !before.contains(pod)).collect()
}

fn leaving(pair: &Pair) -> Vec<String> {
    let pods = pair.server.all(PODS);
    let leaving = pods.filter(|pod| pod["metadata"].get("deletionTimestamp").is_some());
    leaving.map(|pod| text(pod, "/metadata/name").to_owned()).collect()
}

#[test]
fn the_newest_pods_leave_an_overcommitted_node_one_in_a_minute() {
    let mut pair = pair(true, &["a", "b", "c"].map(|name| replica(name, 1000)));
    assert_eq!(tick(&mut pair, 1000), Vec::<String>::new(), "the node is not overcommitted");
    invade(&mut pair.server, "theirs", 3000);
    pair.deliver();
    assert_eq!(tick(&mut pair, 2000), ["c"]);
    assert_eq!(tick(&mut pair, 61_999), Vec::<String>::new());
    assert_eq!(tick(&mut pair, 62_000), ["b"]);
    assert_eq!(
        tick(&mut pair, 122_000),
        Vec::<String>::new(),
        "two pods are leaving: that is enough"
    );
    ["b", "c"].iter().for_each(|pod| pair.delete(pod));
    pair.deliver();
    assert_eq!(pair.adapter.overcommitted_nodes(), Vec::<&String>::new());
    assert_eq!(tick(&mut pair, 200_000), Vec::<String>::new());
    invade(&mut pair.server, "more", 1000);
    pair.deliver();
    assert_eq!(tick(&mut pair, 300_000), ["a"]);
    assert_eq!(pair.adapter.counters().repairs, 3);
    let told = pair.adapter.effects().into_iter().filter(|effect| {
        matches!(effect, Effect::Tell(pod, Remark::Repaired { node, resources })
            if pod.name == "a" && node == "n0" && resources.starts_with("cpu 5000 of 4000"))
    });
    assert_eq!(told.count(), 1);
}

#[test]
fn without_the_option_no_pod_leaves_an_overcommitted_node() {
    let mut pair = pair(false, &[replica("a", 1000)]);
    invade(&mut pair.server, "theirs", 4000);
    pair.deliver();
    assert_eq!(pair.adapter.overcommitted_nodes(), ["n0"]);
    for minute in 0..10 {
        assert_eq!(tick(&mut pair, minute * 60_000), Vec::<String>::new());
    }
}

#[test]
fn running_pods_pods_with_a_budget_and_pods_without_a_controller_stay() {
    let mut guarded = replica("guarded", 500);
    guarded["metadata"]["labels"] = json!({"app": "db"});
    let pods = [replica("running", 500), guarded, pod("alone", 500), replica("nothing", 0)];
    let mut pair = pair(true, &pods);
    let budget = json!({"metadata": {"name": "db"}, "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0}});
    let budgets = "/apis/policy/v1/namespaces/t/poddisruptionbudgets";
    pair.server.call("POST", budgets, &budget);
    let status = "/api/v1/namespaces/t/pods/running/status";
    pair.server.call("PATCH", status, &json!({"status": {"phase": "Running"}}));
    invade(&mut pair.server, "theirs", 4000);
    pair.deliver();
    for minute in 0..5 {
        assert_eq!(tick(&mut pair, minute * 60_000), Vec::<String>::new());
    }
    let allows = json!({"status": {"disruptionsAllowed": 1}});
    pair.server.call("PATCH", &format!("{budgets}/db/status"), &allows);
    pair.deliver();
    assert_eq!(tick(&mut pair, 600_000), ["guarded"]);
}

#[test]
fn the_program_deletes_a_pod_that_has_not_started_and_says_why() {
    block_on(async {
        let server = server(1).await;
        create(&server, &replica("ours", 3000));
        let _program = start(&server, &["--repair-overcommit", "on"]);
        server.until(|double| bound(double) == 1).await;
        server.with(|double| invade(double, "theirs", 3000));
        let says = |double: &Double, reason: &str| {
            let mut events = double.all("/apis/events.k8s.io/v1/events");
            events.any(|event| text(event, "/reason") == reason)
        };
        server.until(|double| says(double, "OvercommitRepaired")).await;
        let double = server.lock();
        let leaves = |pod: &Value| pod["metadata"].get("deletionTimestamp").is_some();
        let names: Vec<&str> = double
            .all(PODS)
            .filter(|pod| leaves(pod))
            .map(|pod| text(pod, "/metadata/name"))
            .collect();
        assert_eq!(names, ["ours"]);
        let event = double.all("/apis/events.k8s.io/v1/events");
        let mut event = event.filter(|event| text(event, "/reason") == "OvercommitRepaired");
        let note = text(event.next().expect("one"), "/note").to_owned();
        assert!(note.contains("overcommitted n0: cpu 6000 of 4000"), "{note}");
    });
}
