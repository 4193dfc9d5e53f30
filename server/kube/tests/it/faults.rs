//! Faults of the server, of the network and of the program, each with a check of the double's audit log.

use crate::double::http::Server;
use crate::double::{Double, PODS, text};
use crate::pairs::{self, Pair};
use crate::process::{block_on, bound, check, create, pod, server, start};
use crate::recorded::{outbox, run};
use omega_kube::adapter::bind_reply::BindReply;
use omega_kube::adapter::effects::{Action, Done};
use omega_kube::adapter::{Binding, Effect, PodName};
use omega_kube::client::Client;
use omega_kube::client::config::Config;
use omega_kube::run::fence::Fence;
use omega_kube::run::metrics::Metrics;
use omega_kube::run::notices::{Choice, Notice, Notices, Parts, Written};
use serde_json::json;
use std::process::Command;
use std::sync::Arc;
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
            let program = start(&server, &["--workers", "2", "--in-flight", "4"]);
            server.until(|double| bound(double) >= killed_at).await;
            drop(program);
            // The next program would not know of a binding that is carried out after it has read the pods.
            server.until_unused().await;
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
        let elect = ["--leader-elect", "on", "--lease-duration", "10", "--identity"];
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

#[test]
fn a_victim_that_seemed_to_be_gone_and_is_still_there_is_deleted_later() {
    let mut pair = Pair::new(1, 1);
    pair.create("low", 4000);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    pair.send(&binding);
    pair.create_ranked("high", 4000, 1000);
    pair.deliver();
    assert!(pair.decide().is_empty());
    pair.preempt();
    let eviction = pair.requests().into_iter().find_map(|action| match action {
        Action::Evict(eviction, _) => Some(eviction),
        _ => None,
    });
    let eviction = eviction.expect("a victim");
    // A status that others write often causes a conflict, which looks like another uid.
    let again = [Action::Evict(eviction.clone(), 0)];
    pair.adapter.evicted(eviction.clone(), Done::Gone, 1000);
    pair.adapter.tick(30_999);
    assert_eq!(pair.requests(), []);
    pair.adapter.tick(31_000);
    assert_eq!(pair.requests(), again);
    // Meanwhile, the preempting pod is deleted, so its victim stays.
    pair.adapter.evicted(eviction, Done::Unknown, 31_000);
    pair.delete("high");
    pair.deliver();
    pair.adapter.tick(70_000);
    let more = pair.requests();
    assert!(!more.iter().any(|action| matches!(action, Action::Evict(..))), "{more:?}");
}

#[test]
fn the_owner_of_a_pod_learns_why_its_binding_is_refused() {
    let mut pair = Pair::new(1, 1);
    pair.create("a", 1000);
    pair.deliver();
    let binding = pair.decide().pop().expect("a decision");
    let mut next = Some(Action::Bind(binding.clone(), 0));
    while let Some(action) = next {
        next = match action {
            Action::Bind(binding, _) => {
                pair.adapter.binding_refused(&binding, "pods \"a\" is forbidden".into());
                pair.adapter.handle_bind_reply(binding, BindReply::Failed, 0)
            }
            Action::Get(binding, _) => {
                let found = pair.get(&binding);
                pair.adapter.handle_pod_read(binding, found, 0)
            }
            other => panic!("{other:?}"),
        };
    }
    let why = "the API server refuses the binding: pods \"a\" is forbidden".to_owned();
    assert!(pair.adapter.effects().contains(&Effect::Refuse(binding.pod, why)));
}

/// Number of refused requests in the next test, which are more than are written to the log in a minute.
const REFUSED: u64 = 30;

#[test]
fn refused_bindings_and_events_of_several_pods_are_named_but_not_all_of_them() {
    let (_, log) = run(async {
        let server = server(1).await;
        server.faults(|faults| faults.forbidden = vec!["create pods/binding", "create events"]);
        let (outbox, mut answers) = outbox(&server.url());
        let metrics = Arc::<Metrics>::default();
        let written = Written { events: Choice::On, conditions_per_second: 0 };
        let client = Client::new(Config::plain(&server.url()), Duration::from_secs(600));
        let parts = Parts {
            client: client.expect("a client"),
            fence: Fence::open(),
            metrics: Arc::clone(&metrics),
            instance: "i".into(),
            written,
        };
        let (back, _explained) = tokio::sync::mpsc::channel(1);
        let notices = Notices::start(parts, back).expect("a thread");
        for number in 0..REFUSED {
            let name = PodName { namespace: "t".into(), name: format!("p{number}") };
            let (uid, node) = (format!("u{number}"), "n0".to_owned());
            let binding = Binding { decision: number, pod: name, uid, node };
            outbox.act(Action::Bind(binding, 0), 0);
            assert!(answers.recv().await.is_some());
            // In each namespace, the server's message is another one.
            let mut pod = pod("p", 100);
            pod["metadata"]["namespace"] = format!("t{number}").into();
            notices.queue(Notice::scheduled(&pairs::pod(&pod), "n0"));
        }
        let refused = format!("omega_kube_notices_total{{outcome=\"refused\"}} {REFUSED}\n");
        for _ in 0..1_000_000 {
            if metrics.text().contains(&refused) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("not all Events were refused: {}", metrics.text());
    });
    for named in ["cannot create resource \"pods/binding\"", "cannot create resource \"events\""] {
        assert_eq!(log.matches(named).count(), 10, "{named}: {log}");
    }
}

/// The variable that makes the next test panic in a thread.
const PANICS: &str = "OMEGA_KUBE_TEST_PANICS";

#[test]
fn a_part_of_the_program_that_panics_ends_the_process() {
    if std::env::var_os(PANICS).is_some() {
        omega_kube::run::end_on_panic();
        let _ = std::thread::spawn(|| panic!("planted")).join();
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(["--exact", "faults::a_part_of_the_program_that_panics_ends_the_process"]);
    let ended = command.arg("--nocapture").env(PANICS, "1").output().expect("it starts");
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(error.contains("planted"), "{error}");
    assert_eq!(ended.status.code(), Some(1), "{error}");
}
