//! The program as processes: leader election, restarts, Events, and the commands that write nothing.

use super::cluster::Cluster;
use crate::double::text;
use crate::process::Program;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

pub(super) async fn a_second_process_takes_over_the_lease(cluster: Cluster) {
    cluster.nodes(2).await;
    let leases = cluster.path("/apis/coordination.k8s.io/v1/namespaces/{}/leases");
    let start = |identity: &str| {
        let name = cluster.name.as_str();
        cluster.start(&[
            "--leader-elect",
            "on",
            "--lease-namespace",
            name,
            "--lease-duration",
            "10",
            "--identity",
            identity,
            "--request-timeout",
            "2",
        ])
    };
    let is_led_by = |identity: &'static str| {
        move |lease: &Value| text(lease, "/spec/holderIdentity").starts_with(identity)
    };
    let first = start("first");
    cluster.until_one(&leases, "omega-kube", is_led_by("first")).await;
    let _second = start("second");
    for index in 0..4 {
        let name = format!("a{index}");
        cluster.create(&name, 1).await;
        cluster.bound(&name).await;
    }
    let lease = cluster.get(&format!("{leases}/omega-kube")).await.expect("the lease");
    assert!(is_led_by("first")(&lease));
    drop(first);
    cluster.create("b", 1).await;
    cluster.bound("b").await;
    let lease = cluster.get(&format!("{leases}/omega-kube")).await.expect("the lease");
    assert!(is_led_by("second")(&lease));
    cluster.check_slots().await;
}

/// The Events about a pod with this reason.
fn about(events: &[Value], pod: &str, reason: &str) -> Vec<Value> {
    let is_it =
        |event: &&Value| text(event, "/regarding/name") == pod && text(event, "/reason") == reason;
    events.iter().filter(is_it).cloned().collect()
}

pub(super) async fn pods_are_not_bound_twice_after_a_restart(cluster: Cluster) {
    cluster.nodes(2).await;
    for index in 0..12 {
        cluster.create(&format!("p{index}"), 1).await;
    }
    let nodes = |pods: &[Value]| -> Vec<(String, String)> {
        let bound = pods.iter().filter(|pod| !text(pod, "/spec/nodeName").is_empty());
        let part = |pod: &Value, path| text(pod, path).to_owned();
        bound.map(|pod| (part(pod, "/metadata/uid"), part(pod, "/spec/nodeName"))).collect()
    };
    let killed = cluster.start(&[]);
    let before = cluster.until(&cluster.pods(), |pods| !nodes(pods).is_empty()).await;
    cluster.kill(killed).await;
    let _program = cluster.start(&[]);
    let after = cluster.until(&cluster.pods(), |pods| nodes(pods).len() >= 8).await;
    let (before, after) = (nodes(&before), nodes(&after));
    assert!(before.iter().all(|pod| after.contains(pod)), "{before:?}, {after:?}");
    // Only the four pods without a slot are pending.
    cluster.create("probe", 5).await;
    cluster.unschedulable("probe").await;
    cluster.check_slots().await;
    let events = cluster.path("/apis/events.k8s.io/v1/namespaces/{}/events");
    let events = cluster.until(&events, |_| true).await;
    for index in 0..12 {
        assert!(about(&events, &format!("p{index}"), "Scheduled").len() <= 1);
    }
}

pub(super) async fn events_tell_the_outcome(cluster: Cluster) {
    cluster.nodes(1).await;
    let _program = cluster.start(&[]);
    let events = cluster.path("/apis/events.k8s.io/v1/namespaces/{}/events");
    for (name, slots, reason, kind) in
        [("a", 1, "Scheduled", "Normal"), ("big", 5, "FailedScheduling", "Warning")]
    {
        let pod = cluster.create(name, slots).await;
        let all = cluster.until(&events, |all| !about(all, name, reason).is_empty()).await;
        let event = about(&all, name, reason).remove(0);
        assert_eq!(event["type"], kind);
        assert_eq!(event["reportingController"], cluster.name.as_str());
        assert_eq!(event["regarding"]["uid"], pod["metadata"]["uid"]);
        let (note, node) = (text(&event, "/note"), cluster.node_name(0));
        let words = format!("Successfully assigned {}/a to {node}", cluster.name);
        let words = if name == "a" { &words } else { "1 Insufficient cpu" };
        assert!(note.contains(words), "{note}");
    }
}

/// Runs `omega-kube explain` for a pod of the test.
async fn explain(cluster: &Cluster, pod: &str) -> Output {
    let mut command = cluster.command("explain");
    command.arg(format!("{}/{pod}", cluster.name));
    let ended = tokio::task::spawn_blocking(move || command.output()).await;
    ended.expect("a thread").expect("it starts")
}

pub(super) async fn explanations_are_those_of_the_cluster(cluster: Cluster) {
    cluster.nodes(2).await;
    cluster.create("big", 5).await;
    cluster.create("small", 1).await;
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let big = explain(&cluster, "big").await;
    assert!(text(&big).contains("2 Insufficient cpu"), "{big:?}");
    let small = explain(&cluster, "small").await;
    assert!(text(&small).contains("fits on a node"), "{small:?}");
    let program = cluster.start(&[]);
    let node = cluster.bound("small").await;
    drop(program);
    let small = explain(&cluster, "small").await;
    assert!(text(&small).contains(&format!("is bound to {node}")), "{small:?}");
    let none = explain(&cluster, "none").await;
    assert!(!none.status.success());
    assert!(String::from_utf8_lossy(&none.stderr).contains("\"none\" not found"), "{none:?}");
}

pub(super) async fn a_dry_run_writes_nothing(cluster: Cluster) {
    cluster.nodes(1).await;
    cluster.create("a", 1).await;
    let mut command = cluster.command("run");
    command.args(["--dry-run", "--listen", "off", "--scheduler-name", &cluster.name]);
    let command = command.env("OMEGA_LOG", "info").stderr(Stdio::piped());
    let mut program = Program(command.spawn().expect("it starts"));
    let log = BufReader::new(program.0.stderr.take().expect("it is piped"));
    // The log ends when the program is ended.
    let decided = tokio::task::spawn_blocking(move || {
        log.lines().map_while(Result::ok).find(|line| line.contains("would bind"))
    });
    let line = decided.await.expect("a thread").expect("a decision");
    assert!(line.contains(&cluster.node_name(0)), "{line}");
    let pod = cluster.get(&format!("{}/a", cluster.pods())).await.expect("the pod");
    assert_eq!(text(&pod, "/spec/nodeName"), "");
    let events = cluster.path("/apis/events.k8s.io/v1/namespaces/{}/events");
    assert!(cluster.until(&events, |_| true).await.is_empty());
    drop(program);
}
