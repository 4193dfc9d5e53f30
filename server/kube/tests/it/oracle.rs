//! Comparison with the nodes that the real kube-scheduler chose: recorded cases are sent through the double.
//!
//! By default a sample of the cases is compared; `OMEGA_KUBE_CASES=all` compares all. As in the recording, every node
//! is scored.

use crate::double::{Double, NODES, PODS, text};
use crate::pairs::Pair;
use flate2::read::GzDecoder;
use omega_kube::adapter::PodName;
use omega_kube::adapter::bind_reply::BindReply;
use omega_kube::adapter::effects::Action;
use omega_workload::public_data;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Returns one in `every` cases of a suite, or all if so requested; `None` if the data is missing.
fn cases(suite: &str, every: usize) -> Option<Vec<Value>> {
    let opened =
        File::open(public_data(&format!("kube-oracle/{suite}.jsonl.gz"))?).expect("a file");
    let all = std::env::var("OMEGA_KUBE_CASES").is_ok_and(|which| which == "all");
    let lines = BufReader::new(GzDecoder::new(opened)).lines().map(|line| line.expect("text"));
    let lines = lines.step_by(if all { 1 } else { every });
    Some(lines.map(|line| serde_json::from_str(&line).expect("JSON")).collect())
}

fn amounts(short: &Value) -> Value {
    let quantity = |(name, amount): (&String, &Value)| {
        let unit = if name == "cpu" { "m" } else { "" };
        (name.clone(), Value::from(format!("{amount}{unit}")))
    };
    Value::Object(
        short.as_object().map(|all| all.iter().map(quantity).collect()).unwrap_or_default(),
    )
}

/// Copies the fields whose names are the same in a recorded case and in the API.
fn copy(into: &mut Value, from: &Value, fields: &[&str]) {
    for field in fields {
        if let Some(value) = from.get(field) {
            into[field] = value.clone();
        }
    }
}

fn containers(short: &Value) -> Value {
    let container = |(index, short): (usize, &Value)| {
        let mut container = json!({"name": format!("c{index}"),
            "resources": {"requests": amounts(&short["requests"])}});
        copy(&mut container, short, &["image", "ports", "restartPolicy"]);
        container
    };
    short.as_array().into_iter().flatten().enumerate().map(container).collect()
}

fn node(short: &Value) -> Value {
    let mut node = json!({"metadata": {}, "spec": {}, "status": {"allocatable": amounts(&short["allocatable"])}});
    copy(&mut node["metadata"], short, &["name", "labels"]);
    copy(&mut node["spec"], short, &["taints", "unschedulable"]);
    copy(&mut node["status"], short, &["images"]);
    node
}

fn pod(short: &Value, scheduler: &str) -> Value {
    let mut pod = json!({"metadata": {}, "status": {},
        "spec": {"schedulerName": scheduler, "containers": containers(&short["containers"]),
            "initContainers": containers(&short["initContainers"]),
            "resources": {"requests": amounts(&short["podLevelRequests"])}, "overhead": amounts(&short["overhead"])}});
    copy(&mut pod["metadata"], short, &["name", "labels"]);
    let fields =
        ["priority", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"];
    copy(&mut pod["spec"], short, &fields);
    if let Some(node) = short.get("node") {
        pod["spec"]["nodeName"] = node.clone();
    }
    if let Some(node) = short.get("nominatedNode") {
        pod["status"]["nominatedNodeName"] = node.clone();
    }
    if short["preemptionPolicyNever"] == true {
        pod["spec"]["preemptionPolicy"] = "Never".into();
    }
    if short["terminating"] == true {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    if let Some(seconds) = short.get("startTime") {
        // Only the order of the times matters.
        pod["status"]["startTime"] = format!("{seconds:0>20}").into();
    }
    pod
}

fn create(server: &mut Double, short: &Value, scheduler: &str) {
    let path = format!("/api/v1/namespaces/{}/pods", text(short, "/namespace"));
    let answer = server.call("POST", &path, &pod(short, scheduler));
    assert_eq!(answer.status, 201, "{}", answer.body);
}

fn items<'a>(case: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    case[field].as_array().into_iter().flatten()
}

/// The world of a case, and a program that has listed it.
fn world(case: &Value) -> Pair {
    let mut server = Double { no_topology_labels: true, ..Double::default() };
    for (name, labels) in case["namespaces"].as_object().unwrap_or(&Map::new()) {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        server.call("POST", "/api/v1/namespaces", &namespace);
    }
    items(case, "nodes").for_each(|short| drop(server.call("POST", NODES, &node(short))));
    items(case, "pods").for_each(|short| create(&mut server, short, "another"));
    for budget in items(case, "pdbs") {
        let mut body = json!({"metadata": {"name": budget["name"]}, "spec": {},
            "status": {"disruptionsAllowed": budget["disruptionsAllowed"]}});
        copy(&mut body["spec"], budget, &["selector"]);
        let namespace = text(budget, "/namespace");
        let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
        assert_eq!(server.call("POST", &path, &body).status, 201);
    }
    if case.get("pod").is_some() {
        create(&mut server, &case["pod"], "omega");
    }
    let mut pair = Pair::of(server, 1);
    pair.relist();
    pair
}

fn name_of(short: &Value) -> PodName {
    PodName { namespace: text(short, "/namespace").into(), name: text(short, "/name").into() }
}

fn bound_node(pair: &Pair, name: &PodName) -> String {
    let is_it = |pod: &&std::sync::Arc<Value>| {
        text(pod, "/metadata/name") == name.name
            && text(pod, "/metadata/namespace") == name.namespace
    };
    text(pair.server.all(PODS).find(is_it).expect("the pod"), "/spec/nodeName").to_owned()
}

fn names(list: &Value) -> BTreeSet<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The expected nodes. The pod must be bound to one of them.
fn wanted(case: &Value) -> BTreeSet<&str> {
    let expect = &case["expect"];
    // In this program, nominated pods also affect scores.
    let is_scored_alike = items(case, "pods").all(|pod| pod.get("nominatedNode").is_none());
    let part = if is_scored_alike && expect.get("best").is_some() { "best" } else { "feasible" };
    names(&expect[part])
}

/// Cases with other nominated pods whose outcome differs from that of kube-scheduler.
const DIFFERENT: [&str; 4] = [
    // A nominated pod of lower priority uses room.
    "default_profile-00231",
    "preemption-00542",
    "preemption-00741",
    // A nominated pod is spread with the pods of all nodes. Kube-scheduler counts it only for its own node.
    "default_profile-00770",
];

fn differs(case: &Value) -> bool {
    DIFFERENT.iter().any(|id| case["id"] == *id)
}

fn compare_bindings(suite: &str, every: usize, least: usize) {
    let Some(cases) = cases(suite, every) else { return };
    let mut compared = 0;
    for case in &cases {
        let mut pair = world(case);
        for binding in pair.decide() {
            assert_eq!(pair.send(&binding), BindReply::Bound);
        }
        let (node, wanted) = (bound_node(&pair, &name_of(&case["pod"])), wanted(case));
        let right =
            if wanted.is_empty() { node.is_empty() } else { wanted.contains(node.as_str()) };
        let right = right != differs(case);
        assert!(right, "{}: bound to {node:?}, and not to one of {wanted:?}", case["id"]);
        compared += 1;
    }
    println!("{suite}: {compared} of {} cases compared", cases.len());
    assert!(compared >= least);
}

#[test]
fn single_pods_go_where_kube_scheduler_put_them() {
    compare_bindings("default_profile", 10, 40);
}

#[test]
fn single_pods_in_large_clusters_go_where_kube_scheduler_put_them() {
    compare_bindings("default_profile_large", 8, 2);
}

#[test]
fn sequences_of_pods_go_where_kube_scheduler_put_them() {
    let Some(cases) = cases("sequence", 16) else { return };
    let mut compared = 0;
    for case in &cases {
        let mut pair = world(case);
        for step in items(case, "steps") {
            create(&mut pair.server, &step["pod"], "omega");
            pair.deliver();
            let name = name_of(&step["pod"]);
            let ours = pair.decide().into_iter().find(|binding| binding.pod == name);
            let (ours, best) = (ours.map(|binding| binding.node), names(&step["best"]));
            let placed = step["placed"].as_str().filter(|node| !node.is_empty());
            let right = match (&ours, placed) {
                (Some(ours), Some(placed)) => *ours == placed || best.contains(ours.as_str()),
                (None, None) => true,
                _ => false,
            };
            assert!(right, "{}: {name}: {ours:?}, not {placed:?} of {best:?}", case["id"]);
            match placed {
                // If several nodes have the best score, the recording chose the first, so the pod is bound there.
                Some(node) => pair.server.bind_elsewhere(&name.namespace, &name.name, node),
                // The recording tried each pod once, so a pod that does not fit is removed.
                None => pair.server.end(&name.namespace, &name.name),
            }
            pair.deliver();
            compared += 1;
        }
    }
    println!("sequence: {compared} steps compared");
    assert!(compared >= 100);
}

#[test]
fn pods_are_nominated_where_kube_scheduler_would_preempt_for_them() {
    let Some(cases) = cases("preemption", 10) else { return };
    let mut compared = 0;
    for case in &cases {
        let (mut pair, name) = (world(case), name_of(&case["pod"]));
        let bound = pair.decide();
        let (expect, id) = (&case["expect"], &case["id"]);
        assert_eq!(bound.is_empty(), names(&expect["filter"]["feasible"]).is_empty(), "{id}");
        if !bound.is_empty() {
            continue;
        }
        pair.preempt();
        let chosen = names(&expect["chosenAnyOf"]);
        let node = pair.adapter.nominated_node(&name).map(str::to_owned);
        let right = node.as_deref().map_or(chosen.is_empty(), |node| chosen.contains(node));
        assert!(right != differs(case), "{id}: nominated to {node:?}, not to one of {chosen:?}");
        let Some(node) = node.filter(|_| right) else { continue };
        // A victim that is being deleted already is not evicted.
        let is_leaving = |name: &str| {
            let mut pods = case["pods"].as_array().into_iter().flatten();
            pods.any(|pod| pod["name"] == name && pod["terminating"] == true)
        };
        let mut victims = names(&expect["candidates"][&node]["pods"]);
        victims.retain(|name| !is_leaving(name));
        let evicted = |action| match action {
            Action::Evict(eviction, _) => Some(eviction.pod.name),
            _ => None,
        };
        let evicted: BTreeSet<String> = pair.requests().into_iter().filter_map(evicted).collect();
        assert_eq!(
            evicted.iter().map(String::as_str).collect::<BTreeSet<_>>(),
            victims,
            "{id}: victims on {node}"
        );
        compared += 1;
    }
    println!("preemption: {compared} of {} cases compared", cases.len());
    assert!(compared >= 30);
}
