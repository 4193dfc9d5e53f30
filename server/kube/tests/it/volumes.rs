//! Tests of pods with volume claims: the nodes on which they fit, the choices that are written for their claims, and
//! the time at which they are bound.

use crate::double::{CLAIMS, Double, VOLUMES, text};
use crate::pairs::Pair;
use crate::process::{block_on, create, server, start};
use crate::replay::transcript;
use crate::storage::{bind, claim, class, make, pod_spec, provision, volume};
use omega_core::Text;
use omega_kube::adapter::claims::CLAIMS_TIMEOUT_MS;
use omega_kube::adapter::effects::{Action, ClaimChoice, Done};
use omega_kube::adapter::preempt::Verdict;
use omega_kube::adapter::{PodName, State};
use serde_json::{Value, json};

fn pod(pair: &mut Pair, name: &str, claims: &[&str]) {
    pair.create_with(name, &pod_spec(claims).to_string());
}

fn name(name: &str) -> PodName {
    PodName { namespace: "t".into(), name: name.into() }
}

/// Creates nodes with a label of their own name, and storage classes of both binding modes.
fn pair(nodes: u32, workers: u32) -> Pair {
    let mut pair = Pair::new(nodes, workers);
    for index in 0..nodes {
        let label = json!({"metadata": {"labels": {"host": format!("n{index}")}}});
        pair.server.call("PATCH", &format!("/api/v1/nodes/n{index}"), &label);
    }
    class(&mut pair.server, "late", "WaitForFirstConsumer", "csi.example.com");
    class(&mut pair.server, "local", "WaitForFirstConsumer", "kubernetes.io/no-provisioner");
    class(&mut pair.server, "early", "Immediate", "csi.example.com");
    pair.deliver();
    pair
}

/// Decides, and returns the choices to write. No pod is bound yet.
fn choices(pair: &mut Pair) -> Vec<ClaimChoice> {
    assert_eq!(pair.decide(), [], "the claims are not bound");
    let requests = pair.requests().into_iter();
    let choice = |request| match request {
        Action::Claim(choice, _) => choice,
        other => panic!("{other:?}"),
    };
    requests.map(choice).collect()
}

/// Creates the pod `a` with the unbound claim `data` of these access modes, and returns the choice for it.
fn choice_for_data(pair: &mut Pair, modes: &str) -> ClaimChoice {
    claim(&mut pair.server, "data", "late", modes);
    pod(pair, "a", &["data"]);
    pair.deliver();
    choices(pair).pop().expect("a choice")
}

/// Writes a choice, and delivers the events that follow.
fn write(pair: &mut Pair, choice: &ClaimChoice) {
    let done = pair.choose(choice);
    assert_eq!(pair.adapter.chosen(choice.clone(), done, 0), None);
    pair.deliver();
}

/// Returns the pods and nodes of the bindings that are effects of events.
fn bindings(pair: &mut Pair) -> Vec<(String, String)> {
    let bindings = pair.carry_out().into_iter();
    bindings.map(|binding| (binding.pod.name, binding.node)).collect()
}

/// Makes and binds the volume of the claim `data`, and returns the pods and nodes of the bindings that followed.
fn bindings_once_provisioned(pair: &mut Pair) -> Vec<(String, String)> {
    provision(&mut pair.server, "data");
    pair.deliver();
    bindings(pair)
}

#[test]
fn a_pod_goes_where_its_bound_volume_is() {
    let mut pair = pair(4, 2);
    claim(&mut pair.server, "data", "early", "ReadWriteOnce");
    pod(&mut pair, "a", &["data"]);
    pair.deliver();
    assert_eq!(pair.decide(), [], "the controller has not bound the claim");
    assert_eq!(pair.requests(), []);
    volume(&mut pair.server, "v", "early", "n2");
    bind(&mut pair.server, "data", "v");
    pair.deliver();
    let bound = pair.decide();
    assert_eq!(bound.iter().map(|one| one.node.as_str()).collect::<Vec<_>>(), ["n2"]);
    // A pod without claims does not wait. A pod whose claim does not exist waits.
    pod(&mut pair, "plain", &[]);
    pod(&mut pair, "lost", &["nowhere"]);
    pair.deliver();
    let bound = pair.decide();
    assert_eq!(bound.iter().map(|one| one.pod.name.as_str()).collect::<Vec<_>>(), ["plain"]);
    claim(&mut pair.server, "nowhere", "early", "ReadWriteOnce");
    volume(&mut pair.server, "w", "early", "n1");
    bind(&mut pair.server, "nowhere", "w");
    pair.deliver();
    assert_eq!(pair.decide().len(), 1);
}

#[test]
fn a_volume_is_made_for_the_chosen_node_and_then_the_pod_is_bound() {
    let mut pair = pair(3, 2);
    let choice = choice_for_data(&mut pair, "ReadWriteOnce");
    assert_eq!((choice.claim.as_str(), &choice.volume), ("data", &None));
    write(&mut pair, &choice);
    assert_eq!(bindings(&mut pair), [], "the provisioner works");
    assert_eq!(
        bindings_once_provisioned(&mut pair),
        [("a".to_owned(), choice.binding.node.clone())]
    );
}

#[test]
fn a_pod_whose_provisioning_fails_is_decided_anew() {
    let mut pair = pair(2, 1);
    let first = choice_for_data(&mut pair, "ReadWriteOnce");
    write(&mut pair, &first);
    let path = "/api/v1/namespaces/t/persistentvolumeclaims/data";
    let away = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": null}}});
    pair.server.call("PATCH", path, &away);
    pair.deliver();
    assert!(matches!(pair.adapter.state(&name("a")), Some(State::Parked { .. })));
    // When the claims are bound, the node of the pod has no room any more.
    pair.server.delete_node(&first.binding.node);
    pair.deliver();
    pair.adapter.tick(60_000);
    let second = choices(&mut pair).pop().expect("another choice");
    assert_ne!(second.binding.node, first.binding.node);
    write(&mut pair, &second);
    assert_eq!(bindings_once_provisioned(&mut pair), [("a".to_owned(), second.binding.node)]);
}

#[test]
fn claims_that_are_never_bound_end_the_decision_after_ten_minutes() {
    let mut pair = pair(1, 1);
    let choice = choice_for_data(&mut pair, "ReadWriteOnce");
    write(&mut pair, &choice);
    pair.adapter.tick(1000);
    pair.adapter.tick(CLAIMS_TIMEOUT_MS + 999);
    assert!(matches!(pair.adapter.state(&name("a")), Some(State::Assumed { .. })));
    pair.adapter.tick(CLAIMS_TIMEOUT_MS + 1000);
    assert!(matches!(pair.adapter.state(&name("a")), Some(State::Parked { .. })));
    // The provisioner may still be working for this node, so the annotation is not written again.
    pair.adapter.tick(2 * CLAIMS_TIMEOUT_MS);
    assert_eq!(choices(&mut pair), []);
    assert!(matches!(pair.adapter.state(&name("a")), Some(State::Assumed { .. })));
}

#[test]
fn static_volumes_are_bound_to_the_claims_of_pods_one_each() {
    let mut pair = pair(3, 3);
    for index in 0..2 {
        volume(&mut pair.server, &format!("disk{index}"), "local", &format!("n{index}"));
    }
    for index in 0..3 {
        claim(&mut pair.server, &format!("c{index}"), "local", "ReadWriteOnce");
        pod(&mut pair, &format!("p{index}"), &[&format!("c{index}")]);
    }
    pair.deliver();
    let chosen = choices(&mut pair);
    let mut volumes: Vec<&str> =
        chosen.iter().filter_map(|one| Some(one.volume.as_ref()?.0.as_str())).collect();
    volumes.sort_unstable();
    assert_eq!(volumes, ["disk0", "disk1"], "two disks for three pods");
    for choice in &chosen {
        write(&mut pair, choice);
        let (volume, _) = choice.volume.as_ref().expect("a disk");
        assert_eq!(volume.trim_start_matches("disk"), choice.binding.node.trim_start_matches('n'));
        bind(&mut pair.server, &choice.claim, volume);
        pair.deliver();
    }
    assert_eq!(bindings(&mut pair).len(), 2);
    // A disk is added for the third pod.
    volume(&mut pair.server, "disk2", "local", "n2");
    pair.deliver();
    let third = choices(&mut pair).pop().expect("a choice");
    assert_eq!(third.binding.node, "n2");
}

#[test]
fn a_choice_on_an_old_version_is_written_again() {
    let mut pair = pair(1, 1);
    let choice = choice_for_data(&mut pair, "ReadWriteOnce");
    let path = "/api/v1/namespaces/t/persistentvolumeclaims/data";
    pair.server.call("PATCH", path, &json!({"metadata": {"labels": {"x": "y"}}}));
    write(&mut pair, &choice);
    let Some(Action::Claim(again, _)) = pair.requests().pop() else {
        panic!("it is written again")
    };
    assert_ne!(again.version, choice.version);
    write(&mut pair, &again);
    provision(&mut pair.server, "data");
    pair.deliver();
    assert_eq!(bindings(&mut pair).len(), 1);
}

#[test]
fn a_claim_for_one_pod_is_used_by_one_pod() {
    let mut pair = pair(2, 2);
    claim(&mut pair.server, "data", "early", "ReadWriteOncePod");
    volume(&mut pair.server, "v", "early", "n0");
    bind(&mut pair.server, "data", "v");
    pod(&mut pair, "a", &["data"]);
    pod(&mut pair, "b", &["data"]);
    pair.deliver();
    let bound = pair.decide();
    assert_eq!(bound.len(), 1);
    pair.send(&bound[0]);
    pair.deliver();
    assert_eq!(pair.decide(), []);
    pair.restart(2);
    assert_eq!(pair.decide(), [], "known from the lists too");
    pair.delete(&bound[0].pod.name);
    pair.deliver();
    assert_eq!(pair.decide().len(), 1);
}

#[test]
fn limits_of_drivers_count_pods_and_attachments() {
    let mut pair = pair(1, 1);
    let node = json!({"metadata": {"name": "n0"}, "spec": {"drivers": [
        {"name": "csi.example.com", "nodeID": "n0", "topologyKeys": ["host"], "allocatable": {"count": 2}}]}});
    make(&mut pair.server, "/apis/storage.k8s.io/v1/csinodes", &node);
    volume(&mut pair.server, "left", "early", "n0");
    let attachment = json!({"metadata": {"name": "at"}, "spec": {"attacher": "csi.example.com",
        "nodeName": "n0", "source": {"persistentVolumeName": "left"}}});
    make(&mut pair.server, "/apis/storage.k8s.io/v1/volumeattachments", &attachment);
    for index in 0..2 {
        claim(&mut pair.server, &format!("c{index}"), "early", "ReadWriteOnce");
        volume(&mut pair.server, &format!("v{index}"), "early", "n0");
        bind(&mut pair.server, &format!("c{index}"), &format!("v{index}"));
        pod(&mut pair, &format!("p{index}"), &[&format!("c{index}")]);
    }
    pair.deliver();
    assert_eq!(pair.decide().len(), 1, "one of two places is taken by what is still attached");
    pair.server.call("DELETE", "/apis/storage.k8s.io/v1/volumeattachments/at", &Value::Null);
    pair.deliver();
    assert_eq!(pair.decide().len(), 1);
}

#[test]
fn volumes_are_made_only_where_their_driver_has_room() {
    let mut pair = pair(3, 1);
    let driver =
        json!({"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": true}});
    make(&mut pair.server, "/apis/storage.k8s.io/v1/csidrivers", &driver);
    let room = |name: &str, node: &str, size: &str| {
        json!({"metadata": {"name": name}, "storageClassName": "late", "capacity": size,
            "nodeTopology": {"matchLabels": {"host": node}}})
    };
    let path = "/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities";
    make(&mut pair.server, path, &room("small", "n0", "500Mi"));
    claim(&mut pair.server, "data", "late", "ReadWriteOnce");
    pod(&mut pair, "a", &["data"]);
    pair.deliver();
    assert_eq!(choices(&mut pair), [], "n0 has too little, and the others none");
    make(&mut pair.server, path, &room("large", "n2", "5Gi"));
    pair.deliver();
    let choice = choices(&mut pair).pop().expect("a choice");
    assert_eq!(choice.binding.node, "n2");
}

#[test]
fn after_a_restart_a_claim_keeps_the_node_that_was_written() {
    let mut pair = pair(3, 1);
    let choice = choice_for_data(&mut pair, "ReadWriteMany");
    write(&mut pair, &choice);
    pair.restart(1);
    // Another pod with the same claim goes to the same node.
    pod(&mut pair, "b", &["data"]);
    pair.deliver();
    assert_eq!(choices(&mut pair), [], "nothing is written again");
    for pod in ["a", "b"] {
        let state = pair.adapter.state(&name(pod)).expect("it is known");
        assert!(
            matches!(state, State::Assumed { node, .. } if *node == choice.binding.node),
            "{state:?}"
        );
    }
    provision(&mut pair.server, "data");
    pair.deliver();
    assert_eq!(bindings(&mut pair).len(), 2);
}

#[test]
fn a_deleted_claim_ends_the_wait_and_gives_the_volume_back() {
    let mut pair = pair(1, 1);
    volume(&mut pair.server, "disk", "local", "n0");
    claim(&mut pair.server, "gone", "local", "ReadWriteOnce");
    pod(&mut pair, "a", &["gone"]);
    pair.deliver();
    assert_eq!(choices(&mut pair).len(), 1);
    pair.server.call("DELETE", "/api/v1/namespaces/t/persistentvolumeclaims/gone", &Value::Null);
    claim(&mut pair.server, "other", "local", "ReadWriteOnce");
    pod(&mut pair, "b", &["other"]);
    pair.deliver();
    assert!(matches!(pair.adapter.state(&name("a")), Some(State::Parked { .. })));
    let choice = choices(&mut pair).pop().expect("a choice");
    assert_eq!((choice.claim.as_str(), choice.binding.pod.name.as_str()), ("other", "b"));
    let users = pair.adapter.volumes().claim("t/other").expect("it is known").users;
    assert_eq!(users.len(), 1);
}

#[test]
fn a_pod_with_a_claim_preempts_and_is_bound_after_its_claim() {
    let mut pair = pair(1, 1);
    pair.create_ranked("low", 4000, 0);
    pair.deliver();
    let low = pair.decide();
    pair.send(&low[0]);
    claim(&mut pair.server, "data", "late", "ReadWriteOnce");
    let mut spec = pod_spec(&["data"]);
    spec["priority"] = 10.into();
    pair.create_with("high", &spec.to_string());
    pair.deliver();
    assert_eq!(pair.decide(), []);
    assert_eq!(pair.preempt(), [Verdict::Nominated]);
    assert_eq!(bindings(&mut pair), [], "the victim is there");
    pair.delete("low");
    pair.deliver();
    let choice = choices(&mut pair).pop().expect("a choice");
    assert_eq!((choice.claim.as_str(), choice.binding.node.as_str()), ("data", "n0"));
    write(&mut pair, &choice);
    assert_eq!(bindings(&mut pair), [], "the provisioner works");
    assert_eq!(bindings_once_provisioned(&mut pair), [("high".to_owned(), "n0".to_owned())]);
}

#[test]
fn a_pod_that_waits_for_its_claims_gives_its_room_to_a_more_important_pod() {
    let mut pair = pair(1, 1);
    let choice = choice_for_data(&mut pair, "ReadWriteOnce");
    pair.create_ranked("high", 4000, 10);
    pair.deliver();
    assert_eq!(pair.decide(), []);
    assert_eq!(pair.preempt(), [Verdict::Nominated]);
    assert_eq!(bindings(&mut pair), [("high".to_owned(), "n0".to_owned())], "nobody is deleted");
    assert_eq!(pair.adapter.state(&name("a")), Some(&State::Pending));
    // The answer to the write of the choice is late.
    assert_eq!(pair.adapter.chosen(choice, Done::Done, 0), None);
    assert_eq!(pair.adapter.state(&name("a")), Some(&State::Pending));
}

#[test]
fn a_volume_that_others_took_is_not_bound_to_the_pod() {
    let mut pair = pair(2, 1);
    volume(&mut pair.server, "disk", "local", "n0");
    claim(&mut pair.server, "ours", "local", "ReadWriteOnce");
    claim(&mut pair.server, "theirs", "local", "ReadWriteOnce");
    pod(&mut pair, "a", &["ours"]);
    pair.deliver();
    let choice = choices(&mut pair).pop().expect("a choice");
    bind(&mut pair.server, "theirs", "disk");
    write(&mut pair, &choice);
    let volume = pair.adapter.volumes().claim("t/theirs").expect("a claim").volume;
    assert_eq!(volume, Some(Text::from("disk")));
    assert_eq!(pair.adapter.volumes().claim("t/ours").expect("a claim").volume, None);
    assert_eq!(bindings(&mut pair), []);
}

#[test]
fn no_new_volume_is_requested_in_place_of_a_chosen_disk_that_is_gone() {
    let mut pair = pair(2, 1);
    volume(&mut pair.server, "disk", "local", "n0");
    claim(&mut pair.server, "data", "local", "ReadWriteOnce");
    pod(&mut pair, "a", &["data"]);
    pair.deliver();
    let choice = choices(&mut pair).pop().expect("a choice");
    pair.server.call("DELETE", &format!("{VOLUMES}/disk"), &Value::Null);
    write(&mut pair, &choice);
    pair.adapter.tick(1000);
    assert_eq!(
        pair.requests(),
        [],
        "the claim is not tied to a node on which no volume is created"
    );
    assert!(matches!(pair.adapter.state(&name("a")), Some(State::Parked { .. })));
    volume(&mut pair.server, "other", "local", "n1");
    pair.deliver();
    pair.adapter.tick(60_000);
    let choice = choices(&mut pair).pop().expect("another choice");
    assert_eq!(choice.binding.node, "n1");
    write(&mut pair, &choice);
    bind(&mut pair.server, "data", "other");
    pair.deliver();
    assert_eq!(bindings(&mut pair), [("a".to_owned(), "n1".to_owned())]);
}

#[test]
fn the_storage_calls_of_a_real_server_are_answered_and_followed() {
    let Some(calls) = transcript("volumes.jsonl") else { return };
    let version = calls[0].pointer("/response/body/metadata/resourceVersion");
    let version = version.and_then(Value::as_str).and_then(|text| text.parse::<u64>().ok());
    let mut double = Double { version: version.expect("a version") - 1, ..Double::default() };
    let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    let node = json!({"metadata": {"name": "rec-n1", "labels": {"kubernetes.io/hostname": "rec-n1"}},
        "status": {"allocatable": resources}});
    double.call("POST", "/api/v1/nodes", &node);
    let mut pair = Pair::of(double, 1);
    pod(&mut pair, "a", &["c1"]);
    pair.relist();
    for call in calls.iter().take_while(|call| call["step"] != "remove") {
        let (step, expected) = (text(call, "/step"), &call["response"]);
        if step.starts_with("PreBind") {
            // The adapter must write what the recorded kube-scheduler wrote.
            let choice = choices(&mut pair).pop().expect("a choice");
            assert_eq!((choice.binding.node.as_str(), choice.claim.as_str()), ("rec-n1", "c1"));
            write(&mut pair, &choice);
            let claim = pair.server.all(CLAIMS).next().expect("the claim");
            let (ours, theirs) = (&claim["metadata"], &expected["body"]["metadata"]);
            assert_eq!(ours["annotations"], theirs["annotations"]);
            continue;
        }
        let mut body = call["request"]["body"].clone();
        // Versions and uids in the transcript are replaced by those of the double.
        let old = step.contains("old version");
        if let Some(metadata) = body["metadata"].as_object_mut().filter(|_| !old) {
            metadata.remove("resourceVersion");
            metadata.remove("uid");
        }
        let content = text(call, "/request/contentType");
        let answer = pair.server.call_as(
            text(call, "/request/method"),
            text(call, "/request/path"),
            content,
            &body,
        );
        assert_eq!(expected["status"], answer.status, "{step}: {}", answer.body);
        assert_eq!(answer.body.get("reason"), expected["body"].get("reason"), "{step}");
        pair.deliver();
    }
    assert_eq!(bindings(&mut pair), [("a".to_owned(), "rec-n1".to_owned())]);
}

#[test]
fn pods_with_claims_are_bound_over_http() {
    block_on(async {
        let server = server(3).await;
        server.with(|double| {
            for index in 0..3 {
                let label = json!({"metadata": {"labels": {"host": format!("n{index}")}}});
                double.call("PATCH", &format!("/api/v1/nodes/n{index}"), &label);
            }
            class(double, "late", "WaitForFirstConsumer", "csi.example.com");
            for index in 0..4 {
                claim(double, &format!("c{index}"), "late", "ReadWriteOnce");
            }
        });
        let _program = start(&server, &[]);
        for index in 0..4 {
            let spec = pod_spec(&[&format!("c{index}")]);
            let name = format!("p{index}");
            create(&server, &json!({"metadata": {"name": name}, "spec": spec}));
        }
        let selected = "/metadata/annotations/volume.kubernetes.io~1selected-node";
        let is_selected = |double: &Double| {
            double.all(CLAIMS).filter(|claim| claim.pointer(selected).is_some()).count() == 4
        };
        server.until(is_selected).await;
        assert!(server.lock().audit.is_empty(), "no pod is bound before its claim");
        server.with(|double| (0..4).for_each(|index| provision(double, &format!("c{index}"))));
        server.until(|double| double.audit.len() == 4).await;
        crate::process::check(&server);
    });
}

/// Creates the bound claim `a-data`. With `uid`, it was created for the pod with this uid.
fn claim_for(pair: &mut Pair, uid: Option<&str>) {
    let owners = uid.map(|uid| json!({"kind": "Pod", "name": "a", "uid": uid, "controller": true}));
    let owners: Vec<Value> = owners.into_iter().collect();
    let object = json!({"metadata": {"name": "a-data", "ownerReferences": owners},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "early",
            "resources": {"requests": {"storage": "1Gi"}}}});
    make(&mut pair.server, "/api/v1/namespaces/t/persistentvolumeclaims", &object);
}

#[test]
fn an_ephemeral_volume_gets_no_claim_of_somebody_else() {
    let mut pair = pair(1, 1);
    volume(&mut pair.server, "v", "early", "n0");
    claim_for(&mut pair, None);
    bind(&mut pair.server, "a-data", "v");
    let mut spec = pod_spec(&[]);
    spec["volumes"] = json!([{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]);
    pair.create_with("a", &spec.to_string());
    pair.deliver();
    assert_eq!(pair.decide(), []);
    let why = "PVC t/a-data was not created for pod t/a (pod is not owner)";
    assert_eq!(pair.adapter.state(&name("a")), Some(&State::Held(why.into())));
    // Somebody deletes the claim, and the controller of ephemeral volumes creates it for the pod.
    let path = "/api/v1/namespaces/t/persistentvolumeclaims/a-data";
    pair.server.call("DELETE", path, &json!({}));
    pair.deliver();
    assert_eq!(pair.decide(), [], "the claim is missing");
    let uid = pair.adapter.pod(&name("a")).expect("a pod").metadata.uid.clone();
    claim_for(&mut pair, Some(&uid));
    bind(&mut pair.server, "a-data", "v");
    pair.deliver();
    pair.pass(600_000);
    let bindings = pair.decide();
    assert_eq!(bindings.iter().map(|binding| binding.node.as_str()).collect::<Vec<_>>(), ["n0"]);
}
