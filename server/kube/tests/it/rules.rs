//! The rules for single answers and events, each with a test.

use crate::pairs::Pair;
use omega_kube::adapter::answer::{Answer, FAILURES_MAX, Found};
use omega_kube::adapter::effects::Action;
use omega_kube::adapter::{PodName, State};

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
    assert_eq!(answer, Answer::Bound);
    assert_eq!(pair.adapter.answered(binding, answer, 0), None);
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
    assert_eq!(answer, Answer::Conflict);
    let action = pair.adapter.answered(binding.clone(), answer, 0);
    assert_eq!(action, Some(Action::Get(binding.clone(), 0)));
    let found = pair.get(&binding);
    assert_eq!(pair.adapter.found(binding, found, 0), None);
    assert_eq!(pair.adapter.state(&name("a")), Some(&State::Bound(other.into())));
    assert_eq!(pair.adapter.counters().foreign, 1);
}

#[test]
fn a_lost_answer_is_settled_by_a_get_and_never_sent_elsewhere() {
    let mut pair = Pair::new(2, 1);
    pair.create("a", 500);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    assert!(pair.adapter.answered(binding.clone(), Answer::Unknown, 0).is_some());
    let found = pair.get(&binding);
    match pair.adapter.found(binding.clone(), found, 0) {
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
        assert!(pair.adapter.answered(binding.clone(), Answer::Failed, 0).is_some());
        let found = pair.get(&binding);
        let action = pair.adapter.found(binding.clone(), found, 0);
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
fn flow_control_puts_a_binding_off_and_counts_as_no_failure() {
    let mut pair = Pair::new(1, 1);
    pair.create("a", 500);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    for _ in 0..FAILURES_MAX * 2 {
        let action = pair.adapter.answered(binding.clone(), Answer::Throttled(1000), 7);
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
    assert_eq!(pair.send(&old), Answer::Conflict, "the uid is a precondition");
    let found = pair.get(&old);
    assert!(matches!(found, Found::Pod(_)));
    assert_eq!(pair.adapter.found(old.clone(), found, 0), None);
    pair.deliver();
    let new = pair.decide().pop().expect("a decision");
    assert_ne!(new.uid, old.uid);
    assert_eq!(pair.send(&new), Answer::Bound);
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
