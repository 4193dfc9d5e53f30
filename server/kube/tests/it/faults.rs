//! Faults of the server, of the network and of the program, each with a check of the double's audit log.

use crate::double::http::Server;
use crate::double::{Double, PODS, text};
use crate::process::{block_on, bound, check, create, pod, server, start};
use serde_json::json;
use std::process::Command;
use std::time::Duration;

/// Creates pods of a quarter of a node each, more than fit.
fn fill(server: &Server, pods: u32) {
    (0..pods).for_each(|index| create(server, &pod(&format!("p{index}"), 1000)));
}

#[test]
fn lost_refused_and_throttled_bindings_are_settled() {
    block_on(async {
        let server = server(20).await;
        server.faults(|faults| {
            faults.throttled = 3;
            faults.lost_answers = 5;
            faults.lost_requests = 5;
            faults.failing = 5;
            faults.conflicting = 20;
        });
        fill(&server, 80);
        let _program = start(&server, &["--workers", "4"]);
        server.until(|double| bound(double) == 80).await;
        check(&server);
        let throttled = server.calls().iter().filter(|call| call.status == 429).count();
        assert_eq!(throttled, 3);
    });
}

#[test]
fn a_killed_program_goes_on_where_it_was() {
    block_on(async {
        let server = server(30).await;
        fill(&server, 150);
        for killed_at in [1, 17, 40, 63, 90] {
            let mut program = start(&server, &["--workers", "2", "--in-flight", "4"]);
            server.until(|double| bound(double) >= killed_at).await;
            program.0.kill().expect("it runs");
        }
        let _program = start(&server, &["--workers", "2"]);
        server.until(|double| bound(double) == 120).await;
        check(&server);
    });
}

#[test]
fn closed_expired_and_delayed_watches_lose_nothing() {
    block_on(async {
        let server = server(20).await;
        let _program = start(&server, &["--workers", "2"]);
        for round in 0..8 {
            if round == 4 {
                server.faults(|faults| faults.watch_delay = Duration::from_millis(300));
            }
            (0..10).for_each(|index| create(&server, &pod(&format!("r{round}-{index}"), 1000)));
            if round % 2 == 1 {
                server.with(Double::compact);
            }
            server.close_watches();
            server.until(|double| bound(double) == 10 * (round + 1)).await;
        }
        check(&server);
    });
}

#[test]
fn late_watches_neither_bind_a_pod_twice_nor_overcommit_a_node() {
    block_on(async {
        let server = server(10).await;
        // As a delay of ten seconds is to the usual time limit of ten seconds, so is this one to that of the program.
        server.faults(|faults| {
            faults.watch_delay = Duration::from_secs(2);
            faults.lost_answers = 3;
            faults.lost_requests = 3;
        });
        let _program = start(&server, &["--workers", "4"]);
        fill(&server, 60);
        server.until(|double| bound(double) >= 40).await;
        server.with(|double| {
            let pods: Vec<String> = double.audit.iter().take(5).map(|it| it.pod.clone()).collect();
            pods.iter().for_each(|pod| double.end("t", pod));
            // Another scheduler binds a pod to a node that only it uses. The watch still says that the pod is unbound.
            let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
            let closed = json!({"metadata": {"name": "closed"}, "spec": {"unschedulable": true},
                "status": {"allocatable": resources}});
            double.call("POST", "/api/v1/nodes", &closed);
            let unbound = double.all(PODS).filter(|pod| pod["spec"].get("nodeName").is_none());
            let pod = text(unbound.last().expect("one"), "/metadata/name").to_owned();
            double.bind_elsewhere("t", &pod, "closed");
        });
        server.until(|double| bound(double) >= 41).await;
        check(&server);
    });
}

#[test]
fn an_old_server_without_watch_list_is_read_in_pages() {
    block_on(async {
        let server = server(4).await;
        server.faults(|faults| faults.no_watch_list = true);
        fill(&server, 8);
        let _program = start(&server, &[]);
        server.until(|double| bound(double) == 8).await;
        check(&server);
        assert!(server.calls().iter().any(|call| call.path.starts_with("/api/v1/pods?limit=")));
    });
}

#[test]
fn foreign_bindings_deleted_nodes_and_recreated_pods_are_followed() {
    block_on(async {
        let server = server(10).await;
        let _program = start(&server, &["--workers", "4"]);
        for round in 0..5 {
            (0..3).for_each(|index| create(&server, &pod(&format!("r{round}-{index}"), 1000)));
            server.with(|double| {
                // Another scheduler binds one of our pods, whether it fits or not.
                double.bind_elsewhere("t", &format!("r{round}-0"), "n0");
                double.delete_node(&format!("n{}", 9 - round));
                double.end("t", &format!("r{round}-1"));
                double.call(
                    "POST",
                    "/api/v1/namespaces/t/pods",
                    &pod(&format!("r{round}-1"), 1000),
                );
            });
            server.until(|double| unbound(double) == 0).await;
        }
        let double = server.lock();
        assert!(double.bound().values().all(|times| *times == 1), "bound twice");
        // Only the node that the other scheduler used is overcommitted.
        assert!(double.overcommitted().iter().all(|node| node == "n0"));
    });
}

fn unbound(double: &Double) -> usize {
    double.all(PODS).filter(|pod| pod["spec"].get("nodeName").is_none()).count()
}

/// Sends a signal to a program that a test started.
fn signal(program: &crate::process::Program, name: &str) {
    let sent = Command::new("kill").args([name, &program.0.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_paused_leader_writes_nothing_after_another_has_taken_over() {
    block_on(async {
        let server = server(10).await;
        let elect = ["--leader-elect", "on", "--lease-duration", "2", "--identity"];
        let mut paused = start(&server, &[&elect[..], &["paused"]].concat());
        (0..10).for_each(|index| create(&server, &pod(&format!("a{index}"), 1000)));
        server.until(|double| bound(double) == 10).await;
        signal(&paused, "-STOP");
        let _next = start(&server, &[&elect[..], &["next"]].concat());
        (0..40).for_each(|index| create(&server, &pod(&format!("b{index}"), 1000)));
        server.until(|double| bound(double) == 40).await;
        let before = server.lock().audit.len();
        signal(&paused, "-CONT");
        // The program ends by itself, because another process has the lease.
        let ended = tokio::task::spawn_blocking(move || paused.0.wait()).await.expect("a thread");
        assert!(!ended.expect("a status").success());
        check(&server);
        assert_eq!(server.lock().audit.len(), before);
    });
}

#[test]
fn a_program_that_ends_gives_the_lease_back() {
    block_on(async {
        let server = server(2).await;
        let elect = ["--leader-elect", "on", "--lease-duration", "300", "--identity"];
        let mut first = start(&server, &[&elect[..], &["first"]].concat());
        create(&server, &pod("a", 1000));
        server.until(|double| bound(double) == 1).await;
        signal(&first, "-TERM");
        let ended = tokio::task::spawn_blocking(move || first.0.wait()).await.expect("a thread");
        assert!(ended.expect("a status").success());
        let lease = "/apis/coordination.k8s.io/v1/leases";
        let holder =
            server.lock().all(lease).next().expect("a lease")["spec"]["holderIdentity"].clone();
        assert_eq!(holder, "");
        let _second = start(&server, &[&elect[..], &["second"]].concat());
        create(&server, &pod("b", 1000));
        server.until(|double| bound(double) == 2).await;
        check(&server);
    });
}
