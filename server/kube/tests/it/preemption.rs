//! Preemption, step by step: the victims, the room that is kept, and the time at which the pod is bound.

use crate::double::{Double, PODS, text};
use crate::pairs::Pair;
use omega_kube::adapter::bind_reply::{BindReply, FAILURES_MAX};
use omega_kube::adapter::effects::{Action, Done};
use omega_kube::adapter::preempt::Verdict;
use omega_kube::adapter::{Binding, PodName, State};
use serde_json::{Value, json};

fn name(name: &str) -> PodName {
    PodName { namespace: "t".into(), name: name.into() }
}

/// A server whose nodes are full with pods of priority 0, named `low0` and so on.
fn full(nodes: u32) -> Pair {
    let mut pair = Pair::new(nodes, 1);
    (0..nodes).for_each(|index| pair.create_ranked(&format!("low{index}"), 3000, 0));
    pair.deliver();
    bind_all(&mut pair);
    pair
}

/// Decides and binds until nothing changes any more.
fn bind_all(pair: &mut Pair) {
    for binding in pair.decide() {
        assert_eq!(pair.send(&binding), BindReply::Bound);
    }
    pair.deliver();
}

/// Requests victims for the pods that fit on no node, and deletes the victims.
fn preempt(pair: &mut Pair) -> Vec<Verdict> {
    pair.deliver();
    assert!(pair.decide().is_empty());
    let verdicts = pair.preempt();
    assert!(pair.carry_out().is_empty(), "nothing is bound before a victim is gone");
    pair.deliver();
    verdicts
}

fn node_of(pair: &Pair, pod: &str) -> String {
    let of = |value: &&std::sync::Arc<Value>| text(value, "/metadata/name") == pod;
    text(pair.server.all(PODS).find(of).expect("a pod"), "/spec/nodeName").to_owned()
}

fn leaving(pair: &Pair) -> Vec<String> {
    let leaves = |pod: &&std::sync::Arc<Value>| pod["metadata"].get("deletionTimestamp").is_some();
    pair.server.all(PODS).filter(leaves).map(|pod| text(pod, "/metadata/name").to_owned()).collect()
}

fn budget(pair: &mut Pair, name: &str, selector: &Value, allowed: u32) {
    let body = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": selector}},
        "status": {"disruptionsAllowed": allowed}});
    pair.server.call("POST", "/apis/policy/v1/namespaces/t/poddisruptionbudgets", &body);
    pair.deliver();
}

#[test]
fn a_pod_is_bound_once_its_victim_is_gone_and_nobody_takes_the_room_before() {
    let mut pair = full(1);
    pair.create_ranked("high", 2000, 10);
    assert_eq!(preempt(&mut pair), [Verdict::Nominated]);
    assert_eq!(leaving(&pair), ["low0"]);
    assert_eq!(pair.adapter.nominated_node(&name("high")), Some("n0"));
    // One core is free, and another one becomes free when the victim ends; two cores are kept for the pod.
    pair.create_ranked("other", 1500, 0);
    pair.create_ranked("small", 1000, 0);
    pair.deliver();
    assert!(pair.decide().is_empty(), "the victim and the nominated pod both take room");
    assert!(pair.preempt().iter().all(|verdict| *verdict != Verdict::Nominated));
    pair.server.end("t", "low0");
    pair.deliver();
    let bindings = pair.carry_out();
    assert_eq!(bindings.len(), 1);
    assert_eq!((bindings[0].pod.name.as_str(), bindings[0].node.as_str()), ("high", "n0"));
    assert_eq!(pair.send(&bindings[0]), BindReply::Bound);
    pair.deliver();
    assert_eq!(pair.adapter.state(&name("high")), Some(&State::Bound("n0".into())));
    bind_all(&mut pair);
    assert_eq!(pair.server.overcommitted(), Vec::<String>::new());
    assert_eq!(pair.pending(), 1, "two cores are left, and one of the others fits");
}

#[test]
fn a_pod_that_finds_room_elsewhere_does_not_wait_for_its_victim() {
    let mut pair = full(1);
    pair.create_ranked("high", 2000, 10);
    preempt(&mut pair);
    crate::pairs::add_node(&mut pair.server, 1);
    pair.deliver();
    bind_all(&mut pair);
    assert_eq!(node_of(&pair, "high"), "n1");
    assert_eq!(pair.adapter.nominated_node(&name("high")), None);
    pair.server.end("t", "low0");
    pair.deliver();
    assert!(pair.carry_out().is_empty());
}

#[test]
fn budgets_are_respected_where_another_victim_will_do_and_broken_where_none_will() {
    let mut pair = full(2);
    let protected = node_of(&pair, "low0");
    let path = "/api/v1/namespaces/t/pods/low0";
    pair.server.call("PATCH", path, &json!({"metadata": {"labels": {"app": "db"}}}));
    budget(&mut pair, "db", &json!({"app": "db"}), 0);
    pair.create_ranked("first", 3000, 10);
    preempt(&mut pair);
    assert_eq!(leaving(&pair), ["low1"]);
    assert_ne!(pair.adapter.nominated_node(&name("first")), Some(protected.as_str()));
    // As with kube-scheduler, a budget is only a preference: it can be violated.
    pair.create_ranked("second", 3000, 10);
    assert_eq!(preempt(&mut pair), [Verdict::Nominated]);
    assert_eq!(leaving(&pair), ["low0", "low1"]);
}

#[test]
fn two_preemptions_do_not_use_one_allowed_disruption() {
    let mut pair = full(3);
    let labels = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    for pod in ["low0", "low1"] {
        pair.server.call("PATCH", &format!("/api/v1/namespaces/t/pods/{pod}"), &labels("db"));
    }
    budget(&mut pair, "db", &json!({"app": "db"}), 1);
    (0..2).for_each(|index| pair.create_ranked(&format!("high{index}"), 3000, 10));
    preempt(&mut pair);
    // The second proposal was made before the first was carried out. It is made again if it would now violate the
    // budget.
    let again: Vec<_> = ["high0", "high1"]
        .iter()
        .filter_map(|pod| Some((name(pod), pair.adapter.job_of(&name(pod))?)))
        .collect();
    pair.unplaced.extend(again);
    pair.preempt();
    pair.carry_out();
    let leaving = leaving(&pair);
    assert_eq!(leaving.len(), 2);
    assert!(leaving.contains(&"low2".to_owned()), "{leaving:?}");
}

#[test]
fn the_least_important_pods_go_and_no_more_of_them_than_needed() {
    let mut pair = Pair::new(1, 1);
    for (pod, priority) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        pair.create_ranked(pod, 1000, priority);
    }
    pair.deliver();
    bind_all(&mut pair);
    pair.create_ranked("high", 2000, 10);
    preempt(&mut pair);
    assert_eq!(leaving(&pair), ["a", "b"]);
    pair.server.end("t", "a");
    pair.deliver();
    assert!(pair.carry_out().is_empty(), "one victim is left");
    pair.server.end("t", "b");
    pair.deliver();
    assert_eq!(pair.carry_out().len(), 1);
}

#[test]
fn equal_priorities_and_the_policy_never_preempt_nobody() {
    let mut pair = full(1);
    pair.create_ranked("equal", 3000, 0);
    let spec = json!({"schedulerName": "omega", "priority": 10, "preemptionPolicy": "Never", "containers": [
        {"name": "c", "resources": {"requests": {"cpu": "3"}}}]});
    pair.create_with("never", &spec.to_string());
    assert!(preempt(&mut pair).is_empty());
    assert!(leaving(&pair).is_empty());
}

#[test]
fn a_pod_that_is_more_important_takes_the_room_of_a_nomination() {
    let mut pair = full(1);
    pair.create_ranked("high", 3000, 10);
    preempt(&mut pair);
    pair.create_ranked("higher", 3000, 20);
    assert_eq!(preempt(&mut pair), [Verdict::Nominated]);
    assert_eq!(pair.adapter.nominated_node(&name("high")), None);
    assert_eq!(pair.adapter.nominated_node(&name("higher")), Some("n0"));
    let of = |value: &&std::sync::Arc<Value>| text(value, "/metadata/name") == "high";
    let high = pair.server.all(PODS).find(of).expect("a pod");
    assert_eq!(text(high, "/status/nominatedNodeName"), "");
    pair.server.end("t", "low0");
    pair.deliver();
    let bindings = pair.carry_out();
    assert_eq!(bindings.len(), 1);
    assert_eq!(bindings[0].pod.name, "higher");
}

#[test]
fn a_nomination_by_another_scheduler_takes_room_until_its_pod_is_bound_or_gone() {
    let mut pair = Pair::new(1, 1);
    let spec = json!({"schedulerName": "volcano", "containers": [
        {"name": "c", "resources": {"requests": {"cpu": "3"}}}]});
    pair.create_with("foreign", &spec.to_string());
    let status = json!({"status": {"nominatedNodeName": "n0"}});
    pair.server.call("PATCH", "/api/v1/namespaces/t/pods/foreign/status", &status);
    pair.create("ours", 2000);
    pair.deliver();
    assert!(pair.decide().is_empty(), "three of four cores are promised");
    assert_eq!(pair.adapter.nominated_node(&name("foreign")), Some("n0"));
    pair.bind_elsewhere("foreign", "n0");
    pair.deliver();
    assert_eq!(pair.adapter.nominated_node(&name("foreign")), None);
    assert!(pair.decide().is_empty(), "now they are taken");
    assert_eq!(pair.adapter.counters().overcommits, 0);
    pair.delete("foreign");
    pair.deliver();
    assert_eq!(pair.decide().len(), 1);
}

#[test]
fn a_restart_in_the_middle_goes_on_with_the_nomination_or_begins_again() {
    // The program restarts after it has requested the deletion of the victim.
    let mut pair = full(1);
    pair.create_ranked("high", 3000, 10);
    preempt(&mut pair);
    pair.restart(1);
    assert_eq!(pair.adapter.nominated_node(&name("high")), Some("n0"));
    pair.create_ranked("other", 1000, 10);
    pair.deliver();
    assert!(pair.decide().is_empty(), "the room is kept over the restart");
    pair.server.end("t", "low0");
    pair.deliver();
    let bindings = pair.carry_out();
    assert_eq!(bindings.iter().map(|one| one.pod.name.as_str()).collect::<Vec<_>>(), ["high"]);
    assert_eq!(pair.send(&bindings[0]), BindReply::Bound);
    // The program restarts before it requests the deletion: the status names the node, and the victim still runs.
    let mut pair = full(1);
    pair.create_ranked("high", 3000, 10);
    let status = json!({"status": {"nominatedNodeName": "n0"}});
    pair.server.call("PATCH", "/api/v1/namespaces/t/pods/high/status", &status);
    pair.restart(1);
    assert_eq!(pair.adapter.nominated_node(&name("high")), None, "nobody is leaving");
    assert_eq!(preempt(&mut pair), [Verdict::Nominated]);
    assert_eq!(leaving(&pair), ["low0"]);
}

#[test]
fn a_victim_that_may_not_be_deleted_puts_the_pod_off() {
    let mut pair = full(1);
    pair.create_ranked("high", 3000, 10);
    pair.deliver();
    assert!(pair.decide().is_empty());
    pair.preempt();
    let evictions: Vec<_> = pair
        .requests()
        .into_iter()
        .filter_map(|action| match action {
            Action::Evict(eviction, _) => Some(eviction),
            _ => None,
        })
        .collect();
    let [eviction] = evictions.as_slice() else { panic!("{evictions:?}") };
    pair.adapter.evicted(eviction.clone(), Done::Throttled(2000), 5);
    pair.adapter.tick(2004);
    assert_eq!(pair.requests(), []);
    pair.adapter.tick(2005);
    assert_eq!(pair.requests(), [Action::Evict(eviction.clone(), 0)]);
    pair.adapter.evicted(eviction.clone(), Done::Refused, 2005);
    assert!(matches!(pair.adapter.state(&name("high")), Some(State::Parked { .. })));
    assert_eq!(pair.adapter.nominated_node(&name("high")), None);
    pair.create_ranked("small", 1000, 0);
    pair.deliver();
    bind_all(&mut pair);
    assert_eq!(node_of(&pair, "small"), "n0", "the room is given back");
    pair.adapter.tick(40_000);
    assert_eq!(pair.adapter.state(&name("high")), Some(&State::Pending));
}

#[test]
fn a_node_that_goes_takes_its_nominations_with_it() {
    let mut pair = full(1);
    pair.create_ranked("high", 3000, 10);
    preempt(&mut pair);
    pair.server.delete_node("n0");
    pair.deliver();
    assert_eq!(pair.adapter.nominated_node(&name("high")), None);
    crate::pairs::add_node(&mut pair.server, 5);
    pair.deliver();
    bind_all(&mut pair);
    assert_eq!(node_of(&pair, "high"), "n5");
}

/// Writes the start of a pod into its status, as its kubelet does.
fn start(pair: &mut Pair, pod: &str, second: u32) {
    let started = format!("2026-01-01T00:00:{second:02}Z");
    let status = json!({"status": {"phase": "Running", "startTime": started}});
    pair.server.call("PATCH", &format!("/api/v1/namespaces/t/pods/{pod}/status"), &status);
    pair.deliver();
}

/// Creates a node with pods of two cores, which start in this order, and changes the labels of the pod `old`.
fn relabelled(pods: &[&str]) -> Pair {
    let mut pair = Pair::new(1, 1);
    for (second, pod) in (1..).zip(pods) {
        pair.create_ranked(pod, 2000, 0);
        pair.deliver();
        bind_all(&mut pair);
        start(&mut pair, pod, second);
    }
    let labels = json!({"metadata": {"labels": {"app": "other"}}});
    pair.server.call("PATCH", "/api/v1/namespaces/t/pods/old", &labels);
    pair
}

#[test]
fn the_victim_is_the_pod_that_started_last_even_if_another_has_changed_since() {
    let mut pair = relabelled(&["old", "young"]);
    pair.create_ranked("high", 2000, 10);
    assert_eq!(preempt(&mut pair), [Verdict::Nominated]);
    assert_eq!(leaving(&pair), ["young"]);
}

#[test]
fn the_node_whose_victim_started_last_is_chosen() {
    let mut pair = full(2);
    start(&mut pair, "low0", 1);
    start(&mut pair, "low1", 2);
    let labels = json!({"metadata": {"labels": {"app": "other"}}});
    pair.server.call("PATCH", "/api/v1/namespaces/t/pods/low0", &labels);
    pair.create_ranked("high", 3000, 10);
    assert_eq!(preempt(&mut pair), [Verdict::Nominated]);
    assert_eq!(leaving(&pair), ["low1"]);
}

#[test]
fn a_disruption_that_is_already_counted_breaks_no_budget_and_is_not_held_again() {
    let mut pair = full(2);
    for pod in ["low0", "low1"] {
        let labels = json!({"metadata": {"labels": {"app": "db"}}});
        pair.server.call("PATCH", &format!("/api/v1/namespaces/t/pods/{pod}"), &labels);
    }
    budget(&mut pair, "db", &json!({"app": "db"}), 1);
    let path = "/apis/policy/v1/namespaces/t/poddisruptionbudgets/db/status";
    let disrupted = json!({"status": {"disruptedPods": {"low0": "2026-01-01T00:00:00Z"}}});
    pair.server.call("PATCH", path, &disrupted);
    pair.deliver();
    let job = |pair: &Pair, pod: &str| {
        let job = pair.adapter.job_of(&name(pod)).expect("a job");
        pair.adapter.cell().read(|cell| cell.job(job).cloned()).expect("the job")
    };
    let (first, second) = (job(&pair, "low0"), job(&pair, "low1"));
    let budgets = pair.adapter.budgets().clone();
    let allowed = || budgets.now().expect("budgets")[0].allowed;
    budgets.hold("first", first.clone());
    assert_eq!(allowed(), 1);
    assert_eq!(budgets.violations(&[first.clone(), second.clone()]), 0);
    budgets.hold("second", second.clone());
    assert_eq!(allowed(), 0);
    assert_eq!(budgets.violations(&[first, second]), 1);
}

/// Fails the binding of a pod until its decision is given up.
fn give_up(pair: &mut Pair, binding: &Binding, reply: BindReply) {
    for _ in 0..FAILURES_MAX {
        pair.adapter.handle_bind_reply(binding.clone(), reply, 0);
        let found = pair.get(binding);
        pair.adapter.handle_pod_read(binding.clone(), found, 0);
    }
    assert!(matches!(pair.adapter.state(&binding.pod), Some(State::Parked { .. })));
}

#[test]
fn a_parked_pod_is_a_victim_once_its_binding_cannot_arrive_any_more() {
    let mut server = Double::default();
    crate::pairs::add_node(&mut server, 0);
    // The pod stays parked for longer than a request may take.
    let mut pair = Pair::with_settings(server, 1, |settings| settings.request_timeout_ms = 100);
    pair.create_ranked("low", 3000, 0);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    give_up(&mut pair, &binding, BindReply::Unknown);
    pair.create_ranked("high", 3000, 10);
    pair.deliver();
    assert!(pair.decide().is_empty());
    assert_eq!(pair.preempt(), [Verdict::InFlight]);
    assert_eq!(pair.preempt(), [], "no other machine has victims");
    pair.adapter.tick(100);
    let again = (name("high"), pair.adapter.job_of(&name("high")).expect("a job"));
    pair.unplaced.push(again);
    assert_eq!(pair.preempt(), [Verdict::Nominated]);
    assert_eq!(leaving(&pair), Vec::<String>::new(), "nobody is deleted");
    let bindings = pair.carry_out();
    assert_eq!(bindings.iter().map(|one| one.pod.name.as_str()).collect::<Vec<_>>(), ["high"]);
}

#[test]
fn a_pod_whose_binding_is_in_flight_is_no_victim_and_another_machine_is_chosen() {
    let mut pair = Pair::new(2, 1);
    ["low0", "low1"].iter().for_each(|pod| pair.create_ranked(pod, 3000, 5));
    pair.deliver();
    bind_all(&mut pair);
    // The room of the first pod is free again, and a less important pod is assumed there.
    let node = node_of(&pair, "low0");
    pair.server.end("t", "low0");
    pair.create_ranked("assumed", 3000, 1);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    assert_eq!(binding.node, node);
    pair.create_ranked("high", 3000, 10);
    pair.deliver();
    assert!(pair.decide().is_empty());
    assert_eq!(pair.preempt(), [Verdict::InFlight]);
    assert_eq!(pair.preempt(), [Verdict::Nominated]);
    pair.carry_out();
    assert_eq!(leaving(&pair), ["low1"]);
    assert_eq!(pair.send(&binding), BindReply::Bound);
}

#[test]
fn refused_bindings_give_the_room_of_a_pod_back_at_once() {
    let mut pair = Pair::new(1, 1);
    pair.create("a", 3000);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    give_up(&mut pair, &binding, BindReply::Refused);
    pair.create("b", 3000);
    pair.deliver();
    let bound: Vec<String> = pair.decide().into_iter().map(|binding| binding.pod.name).collect();
    assert_eq!(bound, ["b"]);
    pair.delete("b");
    pair.deliver();
    pair.adapter.tick(pair.timeout_ms);
    assert_eq!(pair.decide().len(), 1, "the pod is tried again");
}

#[test]
fn a_parked_pod_loses_its_room_with_its_node() {
    let mut pair = Pair::new(1, 1);
    pair.create("a", 3000);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    give_up(&mut pair, &binding, BindReply::Unknown);
    pair.server.delete_node("n0");
    crate::pairs::add_node(&mut pair.server, 1);
    pair.deliver();
    assert!(pair.decide().is_empty(), "the pod is parked");
    pair.create("b", 3000);
    pair.deliver();
    let bound: Vec<String> = pair.decide().into_iter().map(|binding| binding.pod.name).collect();
    assert_eq!(bound, ["b"], "the parked pod is not on the other node");
}

#[test]
fn a_victim_that_is_not_leaving_after_its_deletion_is_deleted_again() {
    let mut pair = full(1);
    pair.create_ranked("high", 3000, 10);
    pair.deliver();
    assert!(pair.decide().is_empty());
    pair.preempt();
    let eviction = pair.requests().into_iter().find_map(|action| match action {
        Action::Evict(eviction, _) => Some(eviction),
        _ => None,
    });
    let eviction = eviction.expect("a victim");
    // The answer said so, but the pod has no time of deletion.
    pair.adapter.evicted(eviction.clone(), Done::Done, 0);
    pair.adapter.tick(29_999);
    assert_eq!(pair.requests(), []);
    pair.adapter.tick(30_000);
    assert_eq!(pair.requests(), [Action::Evict(eviction.clone(), 0)]);
    assert_eq!(pair.evict(&eviction), Done::Done);
    pair.adapter.evicted(eviction, Done::Done, 30_000);
    pair.deliver();
    pair.adapter.tick(60_000);
    assert_eq!(pair.requests(), [], "the pod is leaving");
}

#[test]
fn a_budget_is_free_again_when_its_victim_cannot_be_deleted() {
    let mut pair = full(1);
    let labels = json!({"metadata": {"labels": {"app": "db"}}});
    pair.server.call("PATCH", "/api/v1/namespaces/t/pods/low0", &labels);
    budget(&mut pair, "db", &json!({"app": "db"}), 1);
    let allowed = |pair: &Pair| pair.adapter.budgets().now().expect("budgets")[0].allowed;
    pair.create_ranked("high", 3000, 10);
    pair.deliver();
    assert!(pair.decide().is_empty());
    pair.preempt();
    assert_eq!(allowed(&pair), 0);
    for action in pair.requests() {
        if let Action::Evict(eviction, _) = action {
            pair.adapter.evicted(eviction, Done::Refused, 0);
        }
    }
    assert_eq!(allowed(&pair), 1);
}
