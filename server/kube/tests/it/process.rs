//! The program as a process, against the double over HTTP.

use crate::double::http::Server;
use crate::double::{Double, NODES, PODS, text};
use crate::pairs::add_node;
use crate::replay::transcript;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// A running program, which is killed when the value is dropped.
pub(crate) struct Program(pub(crate) Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program for pods that name the scheduler `omega`.
pub(crate) fn start(server: &Server, more: &[&str]) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omega-kube"));
    command.args(["run", "--server", &server.url(), "--listen", "off", "--request-timeout", "2"]);
    command.args(more).env("OMEGA_LOG", "warn").stdin(Stdio::null());
    Program(command.spawn().expect("the program starts"))
}

/// Starts a server with nodes of 4 cores.
pub(crate) async fn server(nodes: u32) -> Server {
    let mut double = Double::default();
    (0..nodes).for_each(|index| add_node(&mut double, index));
    let namespace = json!({"metadata": {"name": "t"}});
    double.call("POST", "/api/v1/namespaces", &namespace);
    Server::start(double, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
}

/// A pod that requests this many thousandths of a core.
pub(crate) fn pod(name: &str, milli: u32) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "t"}}, "spec": {"schedulerName": "omega",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": format!("{milli}m")}}}]}})
}

pub(crate) fn create(server: &Server, pod: &Value) {
    server.with(|double| double.call("POST", "/api/v1/namespaces/t/pods", pod));
}

/// Number of bound pods.
pub(crate) fn bound(double: &Double) -> usize {
    double.all(PODS).filter(|pod| !text(pod, "/spec/nodeName").is_empty()).count()
}

/// Checks the audit log: no pod was bound twice, and no node is overcommitted.
pub(crate) fn check(server: &Server) {
    let double = server.lock();
    assert!(double.bound().values().all(|times| *times == 1), "bound twice");
    assert_eq!(double.overcommitted(), Vec::<String>::new());
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

#[test]
fn pods_are_bound_to_nodes_with_room_and_told_of() {
    block_on(async {
        let server = server(10).await;
        (0..60).for_each(|index| create(&server, &pod(&format!("p{index}"), 500)));
        let _program = start(&server, &["--workers", "4"]);
        server.until(|double| bound(double) == 60).await;
        // While the program runs, more pods are created than fit.
        (60..120).for_each(|index| create(&server, &pod(&format!("p{index}"), 500)));
        server.until(|double| bound(double) == 80).await;
        let is_told = |pod: &&Arc<Value>| {
            pod.pointer("/status/conditions/0/status").is_some_and(|status| status == "False")
        };
        server.until(|double| double.all(PODS).any(|pod| is_told(&pod))).await;
        check(&server);
        let double = server.lock();
        let reported = double.all(PODS).find(is_told);
        let condition = &reported.expect("one")["status"]["conditions"][0];
        assert_eq!(condition["type"], "PodScheduled");
        assert_eq!(condition["status"], "False");
        assert_eq!(condition["reason"], "Unschedulable");
        assert_eq!(condition["message"], "0/10 nodes are available: 10 Insufficient cpu.");
        let agents = server.calls();
        assert!(agents.iter().all(|call| call.agent.starts_with("omega-kube/")));
        assert!(double.all(NODES).count() == 10);
    });
}

#[test]
fn the_default_scheduler_of_a_cluster_takes_all_pods_that_name_no_other() {
    block_on(async {
        let server = server(2).await;
        let mut unnamed = pod("unnamed", 500);
        unnamed["spec"].as_object_mut().expect("a spec").remove("schedulerName");
        let mut named = pod("named", 500);
        named["spec"]["schedulerName"] = "default-scheduler".into();
        // The controller of a DaemonSet names the node in this way.
        let mut daemon = named.clone();
        daemon["metadata"]["name"] = "daemon".into();
        let term = json!({"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n1"]}]});
        daemon["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
        for pod in [pod("other", 500), unnamed, named, daemon] {
            create(&server, &pod);
        }
        let _program = start(&server, &["--scheduler-name", "default-scheduler"]);
        server.until(|double| bound(double) == 3).await;
        check(&server);
        let double = server.lock();
        let node = |name: &str| {
            let pod = double.all(PODS).find(|pod| text(pod, "/metadata/name") == name);
            text(pod.expect("a pod"), "/spec/nodeName").to_owned()
        };
        assert_eq!((node("other").as_str(), node("daemon").as_str()), ("", "n1"));
    });
}

/// The fields of an Event that depend neither on the time nor on the pod's uid and version.
fn described(event: &Value) -> Vec<Value> {
    let fields = ["kind", "apiVersion", "action", "reason", "type"].map(|field| &event[field]);
    let about = ["kind", "apiVersion", "namespace", "name"].map(|field| &event["regarding"][field]);
    fields.into_iter().chain(about).cloned().collect()
}

#[test]
fn events_are_those_of_kube_scheduler() {
    let Some(calls) = transcript("kube-scheduler.jsonl") else { return };
    let about = |event: &Value, pod: &str| text(event, "/regarding/name") == pod;
    let events = "/apis/events.k8s.io/v1/events";
    block_on(async {
        let server = server(2).await;
        create(&server, &pod("plain", 500));
        create(&server, &pod("toobig", 64_000));
        let _program = start(&server, &[]);
        for name in ["plain", "toobig"] {
            server.until(|double| double.all(events).any(|event| about(event, name))).await;
            let double = server.lock();
            let ours = double.all(events).find(|event| about(event, name)).expect("an Event");
            let mut theirs = calls.iter().map(|call| &call["request"]);
            let theirs = theirs.find(|event| about(event, name)).expect("an Event");
            assert_eq!(described(ours), described(theirs));
            // The names of the nodes differ, and kube-scheduler adds sentences.
            let (note, more) = (text(ours, "/note"), text(theirs, "/note"));
            let note = note.rsplit_once(" to n").map_or(note, |(note, _)| note);
            assert!(more.starts_with(note), "{note}: {more}");
            assert_eq!(text(ours, "/eventTime").len(), text(theirs, "/eventTime").len());
        }
    });
}
