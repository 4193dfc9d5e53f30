//! Missing rights: each is named in the log, or in the error of a command.

use crate::double::Double;
use crate::double::hostile::Hostile;
use crate::double::http::Server;
use crate::pairs::add_node;
use crate::process::{block_on, create, pod, server};
use crate::recorded::{outbox, run};
use omega_kube::adapter::effects::{
    Action, ClaimChoice, Done, Eviction, GroupCondition, Nominee, Repair,
};
use omega_kube::adapter::{Binding, PodName};
use omega_kube::run::input::Input;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Output, Stdio};

fn name(name: &str) -> PodName {
    PodName { namespace: "t".into(), name: name.into() }
}

fn binding() -> Binding {
    Binding { decision: 1, pod: name("a"), uid: "u".into(), node: "n0".into() }
}

fn choice(volume: Option<(String, String)>) -> Action {
    let choice = ClaimChoice {
        binding: binding(),
        namespace: "t".into(),
        claim: "data".into(),
        uid: "c".into(),
        version: "1".into(),
        volume,
    };
    Action::Claim(choice, 0)
}

/// Sends an action, and returns its outcome.
async fn outcome(url: &str, actions: [Action; 2]) -> [Done; 2] {
    let (outbox, mut answers) = outbox(url);
    let mut outcomes = [Done::Unknown; 2];
    for (action, outcome) in actions.into_iter().zip(&mut outcomes) {
        outbox.act(action, 0);
        *outcome = match answers.recv().await.expect("an answer") {
            Input::Chosen(_, done)
            | Input::Nominated(_, done)
            | Input::GroupShown(_, done)
            | Input::Evicted(_, done)
            | Input::Repaired(_, done) => done,
            other => panic!("{other:?}"),
        };
    }
    outcomes
}

async fn start() -> Server {
    let mut double = Double::default();
    add_node(&mut double, 0);
    Server::start(double, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
}

#[test]
fn refused_writes_are_logged_once_each_with_the_missing_right() {
    let nominee = Nominee { pod: name("a"), uid: "u".into(), node: Some("n0".into()) };
    let group = GroupCondition {
        namespace: "t".into(),
        name: "g".into(),
        uid: "g".into(),
        unschedulable: None,
    };
    let eviction = Eviction {
        pod: name("a"),
        uid: "u".into(),
        by: name("b"),
        by_uid: "v".into(),
        scheduler: "omega".into(),
        node: "n0".into(),
    };
    for (right, action) in [
        ("patch persistentvolumeclaims", choice(None)),
        ("patch persistentvolumes", choice(Some(("disk".into(), "1".into())))),
        ("patch pods/status", Action::Nominate(nominee, 0)),
        ("patch pods/status", Action::Evict(eviction, 0)),
        ("patch podgroups/status", Action::Group(group, 0)),
    ] {
        let (outcomes, log) = run(async {
            let server = start().await;
            server.faults(|faults| faults.forbidden = vec![right]);
            outcome(&server.url(), [action.clone(), action]).await
        });
        assert_eq!(outcomes, [Done::Refused; 2], "{right}");
        let (verb, resource) = right.split_once(' ').expect("two words");
        let named = format!("cannot {verb} resource \"{resource}\"");
        assert_eq!(log.matches(&named).count(), 1, "{right}: {log}");
        assert!(log.contains("WARN"), "{log}");
    }
}

#[test]
fn a_pod_is_deleted_from_an_overcommitted_node_only_if_it_has_not_started() {
    let read = |phase: &'static str, forbidden: Vec<&'static str>| {
        run(async move {
            let server = start().await;
            create(&server, &pod("a", 500));
            let uid = server.with(|double| {
                double.bind_elsewhere("t", "a", "n0");
                let path = "/api/v1/namespaces/t/pods/a/status";
                let pod = double.call("PATCH", path, &json!({"status": {"phase": phase}})).body;
                pod["metadata"]["uid"].as_str().expect("a uid").to_owned()
            });
            server.faults(|faults| faults.forbidden = forbidden);
            let resources = String::new();
            let repair = Repair { pod: name("a"), uid, node: "n0".into(), resources };
            let other = Repair { uid: "another".into(), ..repair.clone() };
            let actions = [Action::Repair(other, 0), Action::Repair(repair, 0)];
            let outcomes = outcome(&server.url(), actions).await;
            let deletions = server.calls().iter().filter(|call| call.method == "DELETE").count();
            (outcomes, deletions)
        })
    };
    assert_eq!(read("Pending", Vec::new()).0, ([Done::Gone, Done::Done], 1));
    assert_eq!(read("Running", Vec::new()).0, ([Done::Gone, Done::Gone], 0));
    let (refused, log) = read("Pending", vec!["delete pods"]);
    assert_eq!(refused, ([Done::Gone, Done::Refused], 1));
    assert!(log.contains("cannot delete resource \"pods\""), "{log}");
}

/// Runs `omega-kube explain` for a pod.
async fn explain(server: &Server, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omega-kube"));
    command.args(["explain", "t/a", "--server", &server.url()]).args(more).stdin(Stdio::null());
    let ended = tokio::task::spawn_blocking(move || command.output()).await;
    ended.expect("a thread").expect("it starts")
}

#[test]
fn an_explanation_ends_with_an_error_that_names_the_missing_right() {
    block_on(async {
        let server = server(1).await;
        create(&server, &pod("a", 64_000));
        let explained = explain(&server, &[]).await;
        assert!(explained.status.success(), "{explained:?}");
        for (rights, path) in [
            (vec!["list nodes", "watch nodes"], "/api/v1/nodes"),
            (vec!["list pods", "watch pods"], "/api/v1/pods"),
            (vec!["watch namespaces"], "/api/v1/namespaces"),
            (vec!["watch csinodes"], "/apis/storage.k8s.io/v1/csinodes"),
            (vec!["list podgroups"], "groups of pods"),
        ] {
            let (verb, resource) = rights[rights.len() - 1].split_once(' ').expect("two words");
            server.faults(|faults| faults.forbidden = rights.clone());
            let ended = explain(&server, &[]).await;
            let error = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(1), "{error}");
            assert!(ended.stdout.is_empty());
            let named = format!("cannot {verb} resource \"{resource}\"");
            assert!(error.starts_with("omega-kube: ") && error.contains(path), "{error}");
            assert!(error.contains(&named), "{error}");
        }
    });
}

#[test]
fn an_explanation_ends_although_a_list_fails_again_and_again() {
    block_on(async {
        let server = server(1).await;
        create(&server, &pod("a", 500));
        server.faults(|faults| faults.hostile = Some(Hostile::Garbage));
        let ended = explain(&server, &["--request-timeout", "1"]).await;
        let error = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{error}");
        assert!(error.contains("/api/v1/pods cannot be listed within 3 seconds: "), "{error}");
    });
}
