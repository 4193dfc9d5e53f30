//! Repairs of nodes that another scheduler overcommits: pods of ours that have not started are deleted, if the option
//! is given.

use crate::double::{Double, NODES, PODS, text};
use crate::pairs::{self, Pair, add_node};
use crate::player::{answer, play};
use crate::process::{block_on, bound, create, pod, server, start};
use crate::recorded::{outbox, run};
use omega_kube::adapter::effects::{Action, Done, Repair};
use omega_kube::adapter::{Adapter, Effect, PodName, Remark, Settings};
use omega_kube::client::Client;
use omega_kube::client::config::Config;
use omega_kube::run::fence::Fence;
use omega_kube::run::input::Input;
use omega_kube::run::outbox::Outbox;
use omega_workload::kube::live::Converter;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, channel};

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

/// Returns a pod of a ReplicaSet, with the label of the budget `db`.
fn guarded(name: &str, milli: u32) -> Value {
    let mut pod = replica(name, milli);
    pod["metadata"]["labels"] = json!({"app": "db"});
    pod
}

const BUDGETS: &str = "/apis/policy/v1/namespaces/t/poddisruptionbudgets";

/// Creates the budget `db`.
fn create_budget(double: &mut Double, allowed: u32) {
    let selector = json!({"matchLabels": {"app": "db"}});
    let budget = json!({"metadata": {"name": "db"}, "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed}});
    double.call("POST", BUDGETS, &budget);
}

/// Writes the budget `db` as its controller does.
fn write_budget(double: &mut Double, allowed: u32) {
    let allows = json!({"status": {"disruptionsAllowed": allowed}});
    double.call("PATCH", &format!("{BUDGETS}/db/status"), &allows);
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

/// Advances the time, and returns the deletion that is requested then. It is not carried out.
fn request(pair: &mut Pair, now_ms: u64) -> Option<Repair> {
    pair.adapter.tick(now_ms);
    let repairs = pair.requests().into_iter().map(|action| match action {
        Action::Repair(repair, _) => repair,
        other => panic!("{other:?}"),
    });
    let mut repairs: Vec<Repair> = repairs.collect();
    assert!(repairs.len() <= 1, "{repairs:?}");
    repairs.pop()
}

/// Advances the time, and reports an outcome for the deletion that is requested then. Returns the name of its pod.
fn try_repair(pair: &mut Pair, now_ms: u64, done: Done) -> Option<String> {
    let repair = request(pair, now_ms)?;
    let name = repair.pod.name.clone();
    pair.adapter.repaired(repair, done);
    Some(name)
}

/// Replaces the adapter with one that has listed the server's objects, and is not the leader.
fn stand_by(pair: &mut Pair) {
    let nodes: Vec<_> = pair.server.all(NODES).map(|value| pairs::node(value)).collect();
    let pods: Vec<_> = pair.server.all(PODS).map(|value| pairs::pod(value)).collect();
    let converter = Converter::new(&nodes, &pods, &[]).expect("kinds");
    let scheduler_names = BTreeSet::from(["omega".to_owned()]);
    let settings = Settings {
        scheduler_names,
        request_timeout_ms: 10_000,
        preempts: true,
        repairs: true,
        binds: true,
    };
    pair.adapter = Adapter::new(converter, settings);
    pair.relist();
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
    let reported = pair.adapter.effects().into_iter().filter(|effect| {
        matches!(effect, Effect::Tell(pod, Remark::Repaired { node, resources })
            if pod.name == "a" && node == "n0" && resources.starts_with("cpu 5000 of 4000"))
    });
    assert_eq!(reported.count(), 1);
}

#[test]
fn the_decisions_of_a_dry_run_overcommit_no_node() {
    for (binds, overcommits) in [(false, 0), (true, 1)] {
        let mut server = Double::default();
        add_node(&mut server, 0);
        let mut pair = Pair::with_settings(server, 1, |settings| settings.binds = binds);
        pair.create("ours", 3000);
        pair.deliver();
        assert_eq!(pair.decide().len(), 1);
        pair.create("theirs", 3000);
        pair.bind_elsewhere("theirs", "n0");
        pair.deliver();
        assert_eq!(pair.adapter.counters().overcommits, overcommits);
        assert_eq!(pair.adapter.overcommitted_nodes().len() as u64, overcommits);
    }
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
    let guarded = guarded("guarded", 500);
    let pods = [replica("running", 500), guarded, pod("alone", 500), replica("nothing", 0)];
    let mut pair = pair(true, &pods);
    create_budget(&mut pair.server, 0);
    let status = "/api/v1/namespaces/t/pods/running/status";
    pair.server.call("PATCH", status, &json!({"status": {"phase": "Running"}}));
    invade(&mut pair.server, "theirs", 4000);
    pair.deliver();
    for minute in 0..5 {
        assert_eq!(tick(&mut pair, minute * 60_000), Vec::<String>::new());
    }
    write_budget(&mut pair.server, 1);
    pair.deliver();
    assert_eq!(tick(&mut pair, 600_000), ["guarded"]);
}

#[test]
fn a_budget_with_an_empty_selector_protects_all_pods_of_its_namespace() {
    let mut pair = pair(true, &[replica("ours", 1000)]);
    let budget = json!({"metadata": {"name": "db"}, "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 0}});
    pair.server.call("POST", BUDGETS, &budget);
    invade(&mut pair.server, "theirs", 4000);
    pair.deliver();
    assert_eq!(request(&mut pair, 0), None);
    write_budget(&mut pair.server, 1);
    pair.deliver();
    assert_eq!(tick(&mut pair, 600_000), ["ours"]);
}

#[test]
fn a_pod_that_is_resized_in_place_uses_more_of_its_node() {
    let mut pair = pair(false, &[replica("grows", 1000)]);
    let status = "/api/v1/namespaces/t/pods/grows/status";
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "3500m"}}});
    pair.server.call("PATCH", status, &json!({"status": {"containerStatuses": [container]}}));
    post(&mut pair.server, &replica("next", 1000));
    pair.deliver();
    assert!(pair.decide().is_empty());
    pair.server.call("PATCH", status, &json!({"status": {"containerStatuses": []}}));
    pair.deliver();
    assert_eq!(pair.decide().len(), 1);
}

#[test]
fn pods_that_would_return_to_their_node_stay() {
    let owned = |name: &str, kind: &str| {
        let mut pod = replica(name, 1000);
        pod["metadata"]["ownerReferences"][0]["kind"] = kind.into();
        pod
    };
    let mut pair = pair(true, &[owned("daemon", "DaemonSet"), owned("mirror", "Node")]);
    invade(&mut pair.server, "theirs", 4000);
    pair.deliver();
    for minute in 0..5 {
        assert_eq!(request(&mut pair, minute * 60_000), None);
    }
}

#[test]
fn of_the_pods_of_the_lowest_priority_the_newest_leaves_first() {
    let ranked = |(name, priority): (&str, u32)| {
        let mut pod = replica(name, 500);
        pod["spec"]["priority"] = priority.into();
        pod
    };
    let pods = [("high", 100), ("old", 0), ("new", 0), ("higher", 200)];
    let mut pair = pair(true, &pods.map(ranked));
    invade(&mut pair.server, "theirs", 4000);
    pair.deliver();
    for (minute, expected) in (0..).zip(["new", "old", "high", "higher"]) {
        assert_eq!(tick(&mut pair, minute * 60_000), [expected]);
    }
}

#[test]
fn a_pod_that_cannot_be_deleted_spends_no_budget_and_is_not_tried_again() {
    let mut pair = pair(true, &["a", "b", "c"].map(|name| guarded(name, 1000)));
    create_budget(&mut pair.server, 1);
    invade(&mut pair.server, "theirs", 4000);
    pair.deliver();
    let allowed = |pair: &Pair| pair.adapter.budgets().now().expect("budgets")[0].allowed;
    // A container of the newest pod has begun, which only the attempt shows.
    let repair = request(&mut pair, 0).expect("an attempt");
    assert_eq!((repair.pod.name.as_str(), allowed(&pair)), ("c", 0));
    pair.adapter.repaired(repair, Done::Gone);
    assert_eq!(allowed(&pair), 1);
    assert_eq!(try_repair(&mut pair, 59_999, Done::Gone), None);
    assert_eq!(try_repair(&mut pair, 60_000, Done::Done).as_deref(), Some("b"));
    assert_eq!(allowed(&pair), 0);
    assert_eq!(try_repair(&mut pair, 120_000, Done::Gone), None, "the budget is spent");
    write_budget(&mut pair.server, 2);
    pair.deliver();
    assert_eq!(try_repair(&mut pair, 180_000, Done::Gone).as_deref(), Some("b"));
    assert_eq!(try_repair(&mut pair, 240_000, Done::Gone).as_deref(), Some("a"));
    for minute in 5..10 {
        assert_eq!(request(&mut pair, minute * 60_000), None, "all were tried");
    }
    // Another pod of the name is another pod.
    pair.delete("c");
    post(&mut pair.server, &guarded("c", 1000));
    pair.server.bind_elsewhere("t", "c", "n0");
    pair.deliver();
    assert_eq!(try_repair(&mut pair, 600_000, Done::Gone).as_deref(), Some("c"));
}

#[test]
fn after_a_refused_deletion_the_other_pods_are_tried_before_it_is_tried_again() {
    let mut pair = pair(true, &["a", "b"].map(|name| replica(name, 1000)));
    invade(&mut pair.server, "theirs", 4000);
    pair.deliver();
    assert_eq!(try_repair(&mut pair, 0, Done::Refused).as_deref(), Some("b"));
    assert_eq!(try_repair(&mut pair, 60_000, Done::Refused).as_deref(), Some("a"));
    assert_eq!(try_repair(&mut pair, 120_000, Done::Refused), None);
    assert_eq!(try_repair(&mut pair, 120_500, Done::Refused).as_deref(), Some("b"));
    assert_eq!(try_repair(&mut pair, 121_000, Done::Refused), None, "one attempt in a minute");
    assert_eq!(try_repair(&mut pair, 180_500, Done::Throttled(1000)).as_deref(), Some("a"));
    assert_eq!(try_repair(&mut pair, 240_500, Done::Unknown).as_deref(), Some("a"));
    assert_eq!(try_repair(&mut pair, 300_500, Done::Done).as_deref(), Some("a"));
}

#[test]
fn the_repairs_of_two_nodes_do_not_use_the_same_disruption() {
    let mut server = Double::default();
    let mut pair = Pair::with_settings(
        {
            (0..2).for_each(|node| add_node(&mut server, node));
            server
        },
        1,
        |settings| settings.repairs = true,
    );
    create_budget(&mut pair.server, 1);
    for node in ["n0", "n1"] {
        let (ours, theirs) = (format!("ours-{node}"), format!("theirs-{node}"));
        let mut other = pod(&theirs, 4000);
        other["spec"]["schedulerName"] = "other".into();
        post(&mut pair.server, &guarded(&ours, 1000));
        post(&mut pair.server, &other);
        pair.server.bind_elsewhere("t", &ours, node);
        pair.server.bind_elsewhere("t", &theirs, node);
    }
    pair.deliver();
    assert_eq!(try_repair(&mut pair, 0, Done::Gone).as_deref(), Some("ours-n0"));
    // The pod may be gone, so its disruption is held until the next attempt.
    assert_eq!(try_repair(&mut pair, 500, Done::Unknown).as_deref(), Some("ours-n1"));
    assert_eq!(pair.adapter.budgets().now().expect("budgets")[0].allowed, 0);
    assert_eq!(try_repair(&mut pair, 60_499, Done::Unknown), None);
    assert_eq!(try_repair(&mut pair, 60_500, Done::Done).as_deref(), Some("ours-n1"));
}

#[test]
fn a_standby_repairs_nothing_until_it_leads_and_then_also_what_was_before() {
    for was_before in [true, false] {
        let mut pair = pair(true, &[replica("a", 1000)]);
        if was_before {
            invade(&mut pair.server, "theirs", 4000);
        }
        stand_by(&mut pair);
        if !was_before {
            invade(&mut pair.server, "theirs", 4000);
            pair.deliver();
        }
        for minute in 0..3 {
            assert_eq!(request(&mut pair, minute * 60_000), None, "{was_before}");
        }
        assert_eq!(pair.adapter.overcommitted_nodes(), ["n0"]);
        pair.adapter.lead();
        let repair = request(&mut pair, 180_000).expect("a repair");
        assert_eq!(repair.pod.name, "a", "{was_before}");
    }
}

fn repair_of_a(uid: &str) -> Repair {
    let pod = PodName { namespace: "t".into(), name: "a".into() };
    Repair { pod, uid: uid.into(), node: "n0".into(), resources: String::new() }
}

/// Returns an outbox with this fence.
fn fenced(url: &str, fence: Fence) -> (Outbox, Receiver<Input>) {
    let client = Client::new(Config::plain(url), Duration::from_secs(600)).expect("a client");
    let (back, answers) = channel(100);
    (Outbox::new(client, 100, back, fence, Arc::default()), answers)
}

async fn outcome(answers: &mut Receiver<Input>) -> Done {
    match answers.recv().await {
        Some(Input::Repaired(_, done)) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_process_that_does_not_lead_reads_and_deletes_nothing() {
    let (calls, _) = run(async {
        let server = server(1).await;
        create(&server, &pod("a", 500));
        server.with(|double| double.bind_elsewhere("t", "a", "n0"));
        let (outbox, mut answers) = fenced(&server.url(), Fence::closed());
        outbox.act(Action::Repair(repair_of_a("u"), 0), 0);
        drop(outbox);
        assert!(answers.recv().await.is_none());
        server.calls()
    });
    assert!(calls.is_empty(), "{calls:?}");
}

/// A bound pod that has not started, as a recorded call.
fn unstarted() -> Value {
    let pod = json!({"metadata": {"name": "a", "namespace": "t", "uid": "u", "resourceVersion": "7"},
        "spec": {"nodeName": "n0"}, "status": {"phase": "Pending"}});
    json!({"response": {"status": 200, "body": pod}})
}

#[test]
fn a_process_that_loses_the_lease_after_it_has_read_a_pod_does_not_delete_the_pod() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let fence = Fence::open();
    let lost = fence.clone();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).expect("a request");
            request.extend(byte);
        }
        lost.close();
        let body = unstarted()["response"]["body"].to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        socket.write_all((head + &body).as_bytes()).expect("it is sent");
        // The client closes the connection at the end of the test. Until then, it sends nothing more.
        let mut more = Vec::new();
        let _ = socket.read_to_end(&mut more);
        more
    });
    let (done, _) = run(async {
        let (outbox, mut answers) = fenced(&url, fence);
        outbox.act(Action::Repair(repair_of_a("u"), 0), 0);
        outcome(&mut answers).await
    });
    assert_eq!(done, Done::Unknown);
    assert_eq!(server.join().expect("no panic"), Vec::<u8>::new());
}

#[test]
fn a_pod_that_changes_after_it_was_read_may_be_tried_again() {
    let path = "/api/v1/namespaces/t/pods/a";
    let conflict = json!({"response": {"status": 409, "body": {"message": "modified"}}});
    let answers = vec![
        (format!("GET {path}"), answer(&unstarted())),
        (format!("DELETE {path}"), answer(&conflict)),
    ];
    let (url, mut requests) = play(answers);
    let (done, _) = run(async {
        let (outbox, mut answers) = outbox(&url);
        outbox.act(Action::Repair(repair_of_a("u"), 0), 0);
        outcome(&mut answers).await
    });
    assert_eq!(done, Done::Unknown);
    let deletion = std::iter::from_fn(|| requests.try_recv().ok()).last().expect("a deletion");
    assert_eq!(deletion.body["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
}

#[test]
fn the_chart_switches_repairs_with_a_boolean_which_the_program_accepts() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/chart/values.yaml");
    let values = std::fs::read_to_string(path).expect("values");
    let values: Value = serde_saphyr::from_str(&values).expect("YAML");
    assert!(values["repairOvercommit"].is_boolean());
    // Helm's YAML reads these words as booleans if they are not quoted.
    let switches = ["on", "off", "yes", "no"].map(Value::from);
    assert!(!values.as_object().expect("values").values().any(|value| switches.contains(value)));
    for value in ["true", "false", "on", "off"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_omega-kube"));
        command.args(["run", "--server", "http://127.0.0.1:1", "--listen", "nowhere"]);
        command.arg(format!("--repair-overcommit={value}")).stdin(Stdio::null());
        let ended = command.output().expect("it starts");
        let error = String::from_utf8_lossy(&ended.stderr);
        // The options are right, but for the address.
        assert_eq!(ended.status.code(), Some(1), "{value}: {error}");
        assert!(error.contains("--listen \"nowhere\""), "{value}: {error}");
    }
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
