//! Groups of pods, which are bound together or not at all; and the reports to owners of pods that are held.

use crate::double::{Double, GROUPS, PODS, text};
use crate::pairs::Pair;
use crate::process::{block_on, create, pod as plain_pod, server, start};
use crate::replay::transcript;
use omega_kube::adapter::bind_reply::BindReply;
use omega_kube::adapter::preempt::Verdict;
use omega_kube::adapter::{Effect, PodName, State};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(crate) fn group(server: &mut Double, name: &str, spec: &Value) {
    let body = json!({"metadata": {"name": name}, "spec": spec});
    let path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/t/podgroups";
    assert_eq!(server.call("POST", path, &body).status, 201);
}

pub(crate) fn gang(min: u32) -> Value {
    json!({"schedulingPolicy": {"gang": {"minCount": min}}})
}

pub(crate) fn member(group: &str, milli: u32) -> String {
    let spec = json!({"schedulerName": "omega", "schedulingGroup": {"podGroupName": group}, "containers": [
        {"name": "c", "resources": {"requests": {"cpu": format!("{milli}m")}}}]});
    spec.to_string()
}

fn name(name: &str) -> PodName {
    PodName { namespace: "t".into(), name: name.into() }
}

fn held(pair: &Pair, pod: &str) -> String {
    match pair.adapter.state(&name(pod)) {
        Some(State::Held(why)) => why.clone(),
        other => panic!("{pod}: {other:?}"),
    }
}

/// Decides, carries out requests and binds until nothing changes any more. Returns the number of bindings.
fn settle(pair: &mut Pair) -> usize {
    let mut bound = 0;
    loop {
        let mut bindings = pair.decide();
        bindings.extend(pair.carry_out());
        if bindings.is_empty() {
            return bound;
        }
        for binding in bindings {
            let answer = pair.send(&binding);
            assert_eq!(answer, BindReply::Bound);
            assert_eq!(pair.adapter.handle_bind_reply(binding, answer, 0), None);
            bound += 1;
        }
        pair.deliver();
    }
}

/// Creates the group `g` of at least `min` pods, and these pods, each with a request in thousandths of a core.
fn create_gang(pair: &mut Pair, min: u32, pods: &[&str], milli: u32) {
    group(&mut pair.server, "g", &gang(min));
    pods.iter().for_each(|pod| pair.create_with(pod, &member("g", milli)));
    pair.deliver();
}

fn condition<'a>(server: &'a Double, group: &str) -> &'a str {
    let mut groups = server.all(GROUPS);
    let found = groups.find(|known| text(known, "/metadata/name") == group).expect("a group");
    text(found, "/status/conditions/0/status")
}

#[test]
fn a_gang_waits_for_its_pods_and_is_bound_as_one() {
    let mut pair = Pair::new(4, 2);
    group(&mut pair.server, "g", &gang(3));
    pair.create_with("a", &member("g", 3000));
    pair.create_with("b", &member("g", 2000));
    pair.deliver();
    assert_eq!(settle(&mut pair), 0);
    assert_eq!(held(&pair, "a"), "the pod's group has 2 pods: it needs at least 3");
    pair.create_with("c", &member("g", 3000));
    pair.deliver();
    assert_eq!(settle(&mut pair), 3);
    assert_eq!(condition(&pair.server, "g"), "True");
    // An additional pod of the group is scheduled as a single pod. So is a pod that replaces a pod of the group.
    pair.create_with("d", &member("g", 1000));
    pair.deliver();
    assert_eq!(settle(&mut pair), 1);
    pair.delete("a");
    pair.create_with("a", &member("g", 1000));
    pair.deliver();
    assert_eq!(settle(&mut pair), 1);
}

#[test]
fn a_gang_without_room_leaves_no_pod_on_a_node() {
    let mut pair = Pair::new(2, 2);
    create_gang(&mut pair, 3, &["a", "b", "c"], 3000);
    assert_eq!(settle(&mut pair), 0);
    let job = pair.adapter.gang_of(&name("a")).expect("a gang");
    assert_eq!(pair.adapter.pods_of_gang(job).len(), 3);
    let why = pair.adapter.gang_unplaced(job).expect("a reason");
    assert!(why.contains("no room for 3 of its pods at once"), "{why}");
    pair.carry_out();
    pair.deliver();
    assert_eq!(condition(&pair.server, "g"), "False");
    // Other pods can use the room.
    pair.create("single", 4000);
    pair.deliver();
    assert_eq!(settle(&mut pair), 1);
    pair.delete("single");
    crate::pairs::add_node(&mut pair.server, 2);
    pair.deliver();
    assert_eq!(settle(&mut pair), 3);
    assert_eq!(condition(&pair.server, "g"), "True");
}

#[test]
fn a_gang_that_loses_a_node_before_it_is_bound_is_decided_again() {
    let mut pair = Pair::new(3, 1);
    create_gang(&mut pair, 3, &["a", "b", "c"], 3000);
    let (accepted, _) = pair.commit(0);
    assert_eq!(accepted.len(), 3);
    pair.server.delete_node("n0");
    pair.deliver();
    for claim in accepted {
        assert_eq!(pair.adapter.decided(claim.task, claim.machine), None);
    }
    assert_eq!(settle(&mut pair), 0, "two of three pods have no room");
    crate::pairs::add_node(&mut pair.server, 4);
    pair.deliver();
    assert_eq!(settle(&mut pair), 3);
}

/// The number of jobs that were submitted to the cell.
fn submitted(pair: &Pair) -> u64 {
    pair.adapter.cell().read(|cell| cell.next_job().0)
}

#[test]
fn a_gang_is_submitted_once_per_list_and_per_batch_of_events() {
    let mut pair = Pair::new(1, 1);
    pair.batch = usize::MAX;
    group(&mut pair.server, "g", &gang(251));
    pair.deliver();
    // Of neither kind of pods the gang ever has enough, so each pod beyond its minimum changes it.
    let create = |pair: &mut Pair, from: u32, to: u32| {
        for index in from..to {
            pair.create_with(&format!("p{index}"), &member("g", 100 + 100 * (index % 2)));
        }
    };
    let before = submitted(&pair);
    let gang = |pair: &Pair| {
        let job = pair.adapter.gang_of(&name("p0")).expect("a gang");
        (submitted(pair) - before, pair.adapter.pods_of_gang(job).len())
    };
    create(&mut pair, 0, 500);
    pair.relist();
    assert_eq!(gang(&pair), (1, 500), "a list");
    create(&mut pair, 500, 510);
    pair.server.end("t", "p9");
    pair.deliver();
    assert_eq!(gang(&pair), (2, 509), "a batch of events");
    pair.relist();
    assert_eq!(gang(&pair), (2, 509), "a list without changes");
}

#[test]
fn a_pending_gang_stays_when_pods_arrive_of_which_it_has_enough() {
    let mut pair = Pair::new(1, 1);
    create_gang(&mut pair, 2, &["b", "c"], 3000);
    assert_eq!(settle(&mut pair), 0);
    let job = pair.adapter.gang_of(&name("b"));
    assert!(job.is_some());
    pair.create_with("a", &member("g", 3000));
    pair.deliver();
    assert_eq!(pair.adapter.gang_of(&name("b")), job);
    assert!(held(&pair, "a").contains("enough pending pods"), "{}", held(&pair, "a"));
    // A further pod does not lower the gang's priority.
    let mut low: Value = serde_json::from_str(&member("g", 3000)).unwrap();
    low["priority"] = (-10).into();
    pair.create_with("low", &low.to_string());
    pair.deliver();
    assert_eq!(pair.adapter.gang_of(&name("b")), job);
    pair.delete("low");
    pair.deliver();
    // The further pod takes the place of a pod that is gone.
    pair.delete("b");
    pair.deliver();
    let job = pair.adapter.gang_of(&name("c")).expect("a gang");
    assert_eq!(pair.adapter.pods_of_gang(job), [name("a"), name("c")]);
    // A pod of another kind may be what the gang lacks.
    pair.create_with("d", &member("g", 1000));
    pair.deliver();
    assert_eq!(settle(&mut pair), 2);
    assert_eq!(pair.pending(), 1, "the group has its minimum, so the last pod is alone");
}

#[test]
fn a_pod_that_is_created_again_within_a_batch_stays_in_its_gang() {
    let mut pair = Pair::new(1, 1);
    pair.batch = usize::MAX;
    create_gang(&mut pair, 2, &["a", "b"], 1000);
    let (accepted, _) = pair.commit(0);
    assert_eq!(accepted.len(), 2);
    pair.delete("a");
    pair.create_with("a", &member("g", 1000));
    pair.deliver();
    assert_eq!(pair.adapter.state(&name("a")), Some(&State::Pending));
    for claim in accepted {
        assert_eq!(pair.adapter.decided(claim.task, claim.machine), None);
    }
    assert_eq!(settle(&mut pair), 2);
}

#[test]
fn a_gang_that_loses_a_pod_within_a_batch_is_not_bound() {
    let mut pair = Pair::new(2, 1);
    pair.batch = usize::MAX;
    create_gang(&mut pair, 2, &["a", "b"], 1000);
    let (accepted, _) = pair.commit(0);
    assert_eq!(accepted.len(), 2);
    pair.delete("a");
    // The batch has not ended when the decision arrives.
    while pair.deliver_one() {}
    for claim in accepted {
        assert_eq!(pair.adapter.decided(claim.task, claim.machine), None);
    }
    assert_eq!(settle(&mut pair), 0);
    assert_eq!(held(&pair, "b"), "the pod's group has 1 pod: it needs at least 2");
}

#[test]
fn of_two_gangs_with_room_for_one_one_is_whole() {
    for workers in [1, 2, 4] {
        let mut pair = Pair::new(6, workers);
        for gangs in ["x", "y"] {
            group(&mut pair.server, gangs, &gang(4));
            for index in 0..4 {
                pair.create_with(&format!("{gangs}{index}"), &member(gangs, 3000));
            }
        }
        pair.deliver();
        assert_eq!(settle(&mut pair), 4, "{workers} workers");
        let mut of_gang: BTreeMap<String, u32> = BTreeMap::new();
        for pod in pair.server.all(PODS).filter(|pod| !text(pod, "/spec/nodeName").is_empty()) {
            let group = text(pod, "/spec/schedulingGroup/podGroupName").to_owned();
            *of_gang.entry(group).or_default() += 1;
        }
        assert_eq!(of_gang.into_values().collect::<Vec<_>>(), [4]);
    }
}

#[test]
fn a_nominated_pod_that_joins_a_gang_gives_its_room_up() {
    let mut pair = Pair::new(1, 1);
    group(&mut pair.server, "g", &gang(2));
    let important = |milli| {
        let mut spec: Value = serde_json::from_str(&member("g", milli)).expect("JSON");
        spec["priority"] = 10.into();
        spec.to_string()
    };
    pair.create_ranked("low", 2000, 0);
    ["a", "b"].iter().for_each(|pod| pair.create_with(pod, &important(1000)));
    pair.deliver();
    assert_eq!(settle(&mut pair), 3);
    // The group has its minimum, so a further pod counts as a single pod, and may preempt.
    pair.create_with("c", &important(2000));
    pair.deliver();
    assert_eq!(settle(&mut pair), 0);
    assert_eq!(pair.preempt(), [Verdict::Nominated]);
    assert_eq!(settle(&mut pair), 0);
    // Now the group lacks a pod again, and its gang consists of the nominated pod only.
    pair.delete("a");
    pair.deliver();
    assert!(pair.adapter.gang_of(&name("c")).is_some());
    assert_eq!(pair.adapter.nominated_node(&name("c")), None);
    pair.delete("low");
    pair.deliver();
    assert_eq!(settle(&mut pair), 1, "the room of the nomination is free for the gang");
    let mut pods = pair.server.all(PODS);
    let bound = pods.find(|pod| text(pod, "/metadata/name") == "c").expect("it is there");
    assert_eq!(text(bound, "/status/nominatedNodeName"), "");
}

#[test]
fn a_nominated_pod_that_is_held_with_its_group_gives_its_room_up() {
    let mut pair = Pair::new(1, 1);
    group(&mut pair.server, "g", &json!({"schedulingPolicy": {"basic": {}}}));
    pair.create_ranked("low", 4000, 0);
    pair.deliver();
    assert_eq!(settle(&mut pair), 1);
    let mut spec: Value = serde_json::from_str(&member("g", 4000)).expect("JSON");
    spec["priority"] = 10.into();
    pair.create_with("a", &spec.to_string());
    pair.deliver();
    assert_eq!(settle(&mut pair), 0);
    assert_eq!(pair.preempt(), [Verdict::Nominated]);
    assert_eq!(settle(&mut pair), 0);
    let path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/t/podgroups/g";
    pair.server.call("DELETE", path, &Value::Null);
    pair.deliver();
    assert_eq!(held(&pair, "a"), "the pod's group \"g\" does not exist");
    assert_eq!(pair.adapter.nominated_node(&name("a")), None);
    pair.delete("low");
    pair.create("other", 4000);
    pair.deliver();
    assert_eq!(settle(&mut pair), 1, "other pods can use the room");
}

#[test]
fn a_restart_in_the_middle_of_a_gang_completes_it() {
    let mut pair = Pair::new(4, 1);
    create_gang(&mut pair, 3, &["a", "b", "c"], 3000);
    pair.decide();
    let bindings = pair.carry_out();
    assert_eq!(bindings.len(), 3);
    pair.send(&bindings[0]);
    pair.restart(1);
    assert_eq!(settle(&mut pair), 2);
    let double = &pair.server;
    assert!(double.bound().values().all(|times| *times == 1));
}

#[test]
fn groups_that_are_not_known_or_not_supported_hold_their_pods() {
    let mut pair = Pair::new(2, 1);
    pair.create_with("lost", &member("nowhere", 500));
    group(
        &mut pair.server,
        "spread",
        &json!({"schedulingPolicy": {"gang": {"minCount": 1}},
        "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone"}]}}),
    );
    pair.create_with("near", &member("spread", 500));
    group(&mut pair.server, "loose", &json!({"schedulingPolicy": {"basic": {}}}));
    pair.create_with("alone", &member("loose", 500));
    pair.deliver();
    assert_eq!(settle(&mut pair), 1, "a group without a minimum");
    assert_eq!(held(&pair, "lost"), "the pod's group \"nowhere\" does not exist");
    assert!(held(&pair, "near").contains("schedulingConstraints"));
    pair.adapter.groups_absent();
    pair.create_with("late", &member("other", 500));
    pair.deliver();
    let why = held(&pair, "late");
    assert!(why.contains("does not serve PodGroup"), "{why}");
    let reported = pair.adapter.effects().into_iter().filter_map(|effect| match effect {
        Effect::Refuse(pod, why) => Some((pod.name, why)),
        _ => None,
    });
    assert_eq!(reported.collect::<BTreeMap<_, _>>().get("late"), Some(&why));
}

#[test]
fn device_claims_are_refused_and_their_owner_is_told_once() {
    let mut pair = Pair::new(1, 1);
    let spec = json!({"schedulerName": "omega", "resourceClaims": [{"name": "g", "resourceClaimName": "rc1"}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]});
    pair.create_with("d", &spec.to_string());
    pair.deliver();
    let refused = |pair: &mut Pair| {
        let effects = pair.adapter.effects().into_iter();
        effects.filter(|effect| matches!(effect, Effect::Refuse(..))).count()
    };
    assert!(held(&pair, "d").contains("device claims (DRA) are not supported"));
    assert_eq!(refused(&mut pair), 1);
    pair.server.call(
        "PATCH",
        "/api/v1/namespaces/t/pods/d",
        &json!({"metadata": {"labels": {"x": "y"}}}),
    );
    pair.deliver();
    assert_eq!(refused(&mut pair), 0);
    // A process that becomes the leader reports pods that were held before.
    pair.adapter.lead();
    assert_eq!(refused(&mut pair), 1);
}

#[test]
fn refused_pods_and_gangs_without_room_have_conditions_over_http() {
    block_on(async {
        let server = server(2).await;
        server.with(|double| {
            group(double, "fits", &gang(2));
            group(double, "large", &gang(3));
        });
        let _program = start(&server, &["--condition-rate", "50"]);
        let of_group = |pod: &str, group: &str, milli: u32| {
            let spec: Value = serde_json::from_str(&member(group, milli)).expect("JSON");
            json!({"metadata": {"name": pod}, "spec": spec})
        };
        for index in 0..3 {
            create(&server, &of_group(&format!("large{index}"), "large", 3000));
        }
        for index in 0..2 {
            create(&server, &of_group(&format!("fits{index}"), "fits", 3000));
        }
        server.until(|double| double.audit.len() == 2).await;
        let mut device = plain_pod("device", 500);
        device["spec"]["resourceClaims"] = json!([{"name": "g", "resourceClaimName": "rc1"}]);
        create(&server, &device);
        let reported = |double: &Double, pod: &str| {
            let mut pods = double.all(PODS).filter(|known| text(known, "/metadata/name") == pod);
            let condition = "/status/conditions/0";
            pods.next()
                .is_some_and(|pod| text(pod, &format!("{condition}/reason")) == "Unschedulable")
        };
        server
            .until(|double| {
                (0..3).all(|index| reported(double, &format!("large{index}")))
                    && reported(double, "device")
                    && condition(double, "large") == "False"
                    && condition(double, "fits") == "True"
            })
            .await;
        crate::process::check(&server);
    });
}

#[test]
fn groups_end_as_with_the_recorded_kube_scheduler() {
    let Some(calls) = transcript("podgroup.jsonl") else { return };
    let mut pair = Pair::new(3, 2);
    for call in &calls {
        let step = text(call, "/step");
        let (method, path) = (text(call, "/request/method"), text(call, "/request/path"));
        if method == "GET" && step.ends_with(": pods") {
            pair.deliver();
            settle(&mut pair);
            let expected = call["response"]["body"]["items"].as_array().expect("pods");
            for theirs in expected {
                let pod = text(theirs, "/metadata/name");
                // Constraints of topology are not supported.
                if pod.starts_with("g3") {
                    assert!(held(&pair, pod).contains("schedulingConstraints"));
                    continue;
                }
                let mut pods = pair.server.all(PODS);
                let ours = pods.find(|ours| text(ours, "/metadata/name") == pod).expect("a pod");
                let is_bound = |pod: &Value| !text(pod, "/spec/nodeName").is_empty();
                assert_eq!(is_bound(ours), is_bound(theirs), "{step}: {pod}");
            }
            continue;
        }
        let mut body = call["request"]["body"].clone();
        if method == "POST" && path.ends_with("/pods") {
            body["spec"]["schedulerName"] = "omega".into();
        }
        let answer = pair.server.call(method, path, &body);
        assert_eq!(call["response"]["status"], answer.status, "{step}: {}", answer.body);
    }
}
