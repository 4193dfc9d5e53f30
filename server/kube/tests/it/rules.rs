//! The rules for single answers and events, each with a test.

use crate::double::text;
use crate::pairs::Pair;
use crate::replay::transcript;
use omega_kube::adapter::bind_reply::{BindReply, FAILURES_MAX, PodRead};
use omega_kube::adapter::effects::Action;
use omega_kube::adapter::{Effect, PodName, State};
use omega_workload::kube::api::Pod;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn name(name: &str) -> PodName {
    PodName { namespace: "t".into(), name: name.into() }
}

#[test]
fn an_acknowledged_binding_stays_assumed_until_the_watch_shows_it() {
    let mut pair = Pair::new(1, 1);
    pair.create("a", 500);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    let answer = pair.send(&binding);
    assert_eq!(answer, BindReply::Bound);
    assert_eq!(pair.adapter.handle_bind_reply(binding, answer, 0), None);
    assert!(matches!(pair.adapter.state(&name("a")), Some(State::Assumed { .. })));
    pair.deliver();
    assert_eq!(pair.adapter.state(&name("a")), Some(&State::Bound("n0".into())));
}

#[test]
fn a_pod_that_another_scheduler_bound_is_adopted_there() {
    let mut pair = Pair::new(2, 1);
    pair.create("a", 500);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    let other = if binding.node == "n0" { "n1" } else { "n0" };
    pair.bind_elsewhere("a", other);
    let answer = pair.send(&binding);
    assert_eq!(answer, BindReply::Conflict);
    let action = pair.adapter.handle_bind_reply(binding.clone(), answer, 0);
    assert_eq!(action, Some(Action::Get(binding.clone(), 0)));
    let found = pair.get(&binding);
    assert_eq!(pair.adapter.handle_pod_read(binding, found, 0), None);
    assert_eq!(pair.adapter.state(&name("a")), Some(&State::Bound(other.into())));
    assert_eq!(pair.adapter.counters().foreign, 1);
}

#[test]
fn a_lost_answer_is_settled_by_a_get_and_never_sent_elsewhere() {
    let mut pair = Pair::new(2, 1);
    pair.create("a", 500);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    assert!(pair.adapter.handle_bind_reply(binding.clone(), BindReply::Unknown, 0).is_some());
    let found = pair.get(&binding);
    match pair.adapter.handle_pod_read(binding.clone(), found, 0) {
        Some(Action::Bind(again, _)) => assert_eq!(again, binding),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_that_cannot_be_bound_is_parked_and_scheduled_again() {
    let mut pair = Pair::new(1, 1);
    pair.create("a", 500);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    for failure in 1..=FAILURES_MAX {
        assert!(pair.adapter.handle_bind_reply(binding.clone(), BindReply::Failed, 0).is_some());
        let found = pair.get(&binding);
        let action = pair.adapter.handle_pod_read(binding.clone(), found, 0);
        assert_eq!(action.is_some(), failure < FAILURES_MAX);
    }
    assert!(matches!(pair.adapter.state(&name("a")), Some(State::Parked { .. })));
    assert!(pair.decide().is_empty());
    pair.adapter.tick(pair.timeout_ms - 1);
    assert!(pair.decide().is_empty(), "a late request could still bind it");
    pair.adapter.tick(pair.timeout_ms);
    assert_eq!(pair.decide().len(), 1);
}

#[test]
fn an_acknowledgement_that_the_watch_does_not_confirm_is_checked_after_a_minute() {
    let mut pair = Pair::new(1, 1);
    pair.create("a", 500);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    // The request did not reach the API server.
    assert_eq!(pair.adapter.handle_bind_reply(binding.clone(), BindReply::Bound, 5), None);
    pair.adapter.tick(60_004);
    assert_eq!(pair.requests(), []);
    pair.adapter.tick(60_005);
    assert_eq!(pair.requests(), [Action::Get(binding.clone(), 60_005)]);
    pair.adapter.tick(200_000);
    assert_eq!(pair.requests(), [], "the answer is not there yet");
    let found = pair.get(&binding);
    let again = pair.adapter.handle_pod_read(binding.clone(), found, 200_000);
    assert!(matches!(&again, Some(Action::Bind(next, _)) if *next == binding), "{again:?}");
}

#[test]
fn flow_control_puts_a_binding_off_and_counts_as_no_failure() {
    let mut pair = Pair::new(1, 1);
    pair.create("a", 500);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    for _ in 0..FAILURES_MAX * 2 {
        let action = pair.adapter.handle_bind_reply(binding.clone(), BindReply::Throttled(1000), 7);
        assert_eq!(action, Some(Action::Bind(binding.clone(), 1007)));
    }
}

#[test]
fn a_pod_created_again_under_its_name_is_another_pod() {
    let mut pair = Pair::new(1, 1);
    pair.create("a", 500);
    pair.deliver();
    let old = pair.decide().pop().expect("a decision");
    pair.delete("a");
    pair.create("a", 500);
    assert_eq!(pair.send(&old), BindReply::Conflict, "the uid is a precondition");
    let found = pair.get(&old);
    assert!(matches!(found, PodRead::Pod(_)));
    assert_eq!(pair.adapter.handle_pod_read(old.clone(), found, 0), None);
    pair.deliver();
    let new = pair.decide().pop().expect("a decision");
    assert_ne!(new.uid, old.uid);
    assert_eq!(pair.send(&new), BindReply::Bound);
}

#[test]
fn a_pod_that_is_read_late_does_not_come_back() {
    let mut pair = Pair::new(1, 1);
    pair.create("a", 3000);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    assert_eq!(pair.send(&binding), BindReply::Bound);
    let found = pair.get(&binding);
    pair.delete("a");
    pair.deliver();
    assert_eq!(pair.adapter.handle_pod_read(binding, found, 0), None);
    assert_eq!(pair.adapter.state(&name("a")), None);
    pair.create("b", 3000);
    pair.deliver();
    assert_eq!(pair.decide().len(), 1, "the node is free");
}

#[test]
fn pods_that_are_not_ours_or_not_understood_are_held_with_a_reason() {
    let mut pair = Pair::new(1, 1);
    pair.create_with("gated", r#"{"schedulerName":"omega","schedulingGates":[{"name":"x/y"}]}"#);
    pair.create_with("other", r#"{"schedulerName":"volcano"}"#);
    let disk =
        r#"{"schedulerName":"omega","volumes":[{"name":"v","gcePersistentDisk":{"pdName":"d"}}]}"#;
    pair.create_with("disk", disk);
    pair.deliver();
    assert!(pair.decide().is_empty());
    for (pod, field) in [
        ("gated", "spec.schedulingGates"),
        ("other", "spec.schedulerName"),
        ("disk", "spec.volumes"),
    ] {
        match pair.adapter.state(&name(pod)) {
            Some(State::Held(why)) => assert!(why.contains(field), "{why}"),
            other => panic!("{pod}: {other:?}"),
        }
    }
}

/// Returns a recorded object.
fn recorded<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).expect("an object")
}

/// Whether a pod of two cores with these tolerations gets a place. The pod is deleted afterwards.
fn is_placed(pair: &mut Pair, tolerations: &Value) -> bool {
    let spec = json!({"schedulerName": "omega", "tolerations": tolerations,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]});
    pair.create_with("probe", &spec.to_string());
    pair.deliver();
    let bindings = pair.decide();
    pair.delete("probe");
    pair.deliver();
    bindings.len() == 1
}

#[test]
fn recorded_changes_of_a_node_open_and_close_it_for_pods() {
    let Some(calls) = transcript("nodes.jsonl") else { return };
    let mut pair = Pair::new(0, 1);
    let body = |step: &str| {
        let call = calls.iter().find(|call| text(call, "/step").starts_with(step));
        &call.expect("a recorded call")["response"]["body"]
    };
    let tolerant = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]);
    for (step, plain, tolerated) in [
        ("create", true, true),
        ("cordon", false, false),
        ("uncordon", true, true),
        // Pods are kept away by the taint of a node that is not ready, and not by its condition.
        ("not ready", true, true),
        ("taint", false, true),
        ("less allocatable", false, false),
    ] {
        pair.adapter.node_changed(&recorded(body(step)));
        assert_eq!(is_placed(&mut pair, &json!([])), plain, "{step}");
        assert_eq!(is_placed(&mut pair, &tolerant), tolerated, "{step}");
    }
    // The server added tolerations to the recorded pod, and half a core is free.
    pair.adapter.pod_changed(recorded::<Pod>(body("pod")));
    let binding = pair.decide().pop().expect("a decision");
    assert_eq!(binding.node, "rec-n9");
    // The node is deleted while the binding is in flight. The server accepts the binding, and the pod then fails.
    pair.adapter.node_deleted("rec-n9");
    assert_eq!(pair.adapter.handle_bind_reply(binding.clone(), BindReply::Bound, 0), None);
    assert_eq!((pair.adapter.node_count(), pair.decide()), (0, Vec::new()));
    pair.adapter.pod_changed(recorded::<Pod>(body("pod rejected")));
    assert_eq!(pair.adapter.state(&binding.pod), None);
}

#[test]
fn a_recorded_pod_with_a_device_claim_is_left_alone_until_it_is_gone() {
    let Some(calls) = transcript("dra.jsonl") else { return };
    let mut pair = Pair::new(1, 1);
    pair.deliver();
    let body = |seq: usize| &calls[seq - 1]["response"]["body"];
    pair.adapter.pod_changed(recorded::<Pod>(body(4)));
    assert_eq!(pair.decide(), []);
    let pod = name("d1");
    let Some(State::Held(why)) = pair.adapter.state(&pod) else { panic!("it is held") };
    assert!(
        why.starts_with("spec.resourceClaims: ") && why.contains("spec.schedulerName"),
        "{why}"
    );
    let reported = Effect::Refuse(pod.clone(), why.clone());
    assert_eq!(pair.adapter.effects(), [reported], "its owner is told, and nothing is written");
    pair.adapter.pod_deleted(&recorded(body(8)));
    assert_eq!(pair.adapter.state(&pod), None);
}

#[test]
fn a_recorded_pod_with_a_device_claim_uses_the_node_to_which_kube_scheduler_bound_it() {
    let Some(calls) = transcript("kube-scheduler.jsonl") else { return };
    let mut pair = Pair::new(1, 1);
    pair.deliver();
    let own = |call: &&Value| text(call, "/uri").ends_with("/pods/dra/status");
    let mut pod = calls.iter().find(own).expect("a status")["response"].clone();
    let is_binding = |call: &&Value| text(call, "/uri").ends_with("/pods/dra/binding");
    let binding = &calls.iter().find(is_binding).expect("a binding")["request"];
    assert_eq!(pod["metadata"]["uid"], binding["metadata"]["uid"]);
    pair.adapter.pod_changed(recorded::<Pod>(&pod));
    assert!(matches!(pair.adapter.state(&name("dra")), Some(State::Held(_))));
    let node = json!({"metadata": {"name": text(binding, "/target/name")},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"}}});
    pair.adapter.node_deleted("n0");
    pair.adapter.node_changed(&recorded(&node));
    assert!(is_placed(&mut pair, &json!([])));
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    pod["metadata"]["resourceVersion"] = "1000".into();
    pair.adapter.pod_changed(recorded::<Pod>(&pod));
    assert!(!is_placed(&mut pair, &json!([])), "a hundredth of a core is missing");
    assert_eq!(pair.adapter.blind_nodes(), 0, "the node is open for smaller pods");
    pair.adapter.pod_deleted(&recorded(&pod));
    assert!(is_placed(&mut pair, &json!([])));
}
