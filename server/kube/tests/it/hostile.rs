//! Servers that are broken or hostile: the program's memory stays bounded, and the program continues when the servers
//! answer correctly again.

use crate::double::hostile::Hostile;
use crate::double::http::Server;
use crate::pairs::Pair;
use crate::process::{Program, block_on, bound, check, create, pod, server, start};
use omega_kube::adapter::{PodName, State};
use omega_kube::client::config::Config;
use omega_kube::client::{Call, Client};
use omega_kube::run::PODS;
use omega_kube::watch::{self, Event, Settings, Sink};
use omega_workload::kube::api::Pod;
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of lists and watches that got a hostile answer.
fn struck(server: &Server) -> usize {
    server.calls().iter().filter(|call| call.agent == "struck").count()
}

/// Peak memory of a program, in MiB.
fn memory(program: &Program) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.0.id()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    let kib = line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("a number") / 1024
}

/// Sends hostile answers to a program, and then correct answers, after which the program must bind the pod.
fn survives(hostile: Hostile, strikes: usize, most_mib: u64) {
    block_on(async {
        let server = server(2).await;
        create(&server, &pod("a", 500));
        let listed = hostile == Hostile::EndlessBody;
        server.faults(|faults| {
            faults.no_watch_list = listed;
            faults.hostile = Some(hostile);
        });
        let program = start(&server, &[]);
        server.until(|_| struck(&server) >= strikes).await;
        let memory = memory(&program);
        assert!(memory < most_mib, "{hostile:?}: {memory} MiB");
        server.faults(|faults| faults.hostile = None);
        server.until(|double| bound(double) == 1).await;
        check(&server);
    });
}

#[test]
fn a_line_without_an_end_takes_bounded_memory() {
    survives(Hostile::EndlessLine, 3, 200);
}

#[test]
fn a_list_without_an_end_takes_bounded_memory() {
    survives(Hostile::EndlessBody, 4, 400);
}

#[test]
fn garbage_is_survived() {
    survives(Hostile::Garbage, 3, 200);
}

#[test]
fn deep_nesting_is_survived() {
    survives(Hostile::Nested, 3, 200);
}

/// A sink that must get no event: it panics.
struct NoList;

impl Sink<Arc<Pod>> for NoList {
    async fn take(&mut self, event: Event<Arc<Pod>>) -> bool {
        panic!("{event:?} has no end");
    }
}

/// A sink that notes what it takes, up to the first deletion.
#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<String>>>);

impl Noted {
    fn note(&self, what: String) {
        self.0.lock().expect("no panic with it").push(what);
    }
}

impl Sink<Arc<Pod>> for Noted {
    async fn take(&mut self, event: Event<Arc<Pod>>) -> bool {
        let names = |pods: &[Arc<Pod>]| -> Vec<String> {
            pods.iter().map(|pod| pod.metadata.name.clone()).collect()
        };
        match &event {
            Event::Listed(pods, _) => self.note(format!("listed {:?}", names(pods))),
            Event::Changed(pod) => self.note(format!("changed {}", pod.metadata.name)),
            Event::Deleted(pod) => self.note(format!("deleted {}", pod.metadata.name)),
        }
        !matches!(event, Event::Deleted(_))
    }

    async fn left_out(&mut self) {
        self.note("left out".into());
    }
}

#[test]
fn an_event_that_is_too_long_is_left_out_and_the_watch_goes_on() {
    block_on(async {
        let server = server(0).await;
        server.faults(|faults| faults.hostile = Some(Hostile::LongLines));
        let client = Client::new(Config::plain(&server.url()), Duration::from_secs(60));
        let noted = Noted::default();
        let client = client.expect("a client");
        watch::keep::<Arc<Pod>, _>(&client, PODS, Settings::default(), noted.clone()).await;
        let noted = noted.0.lock().expect("no panic with it").clone();
        assert_eq!(noted, ["left out", "listed [\"p1\"]", "left out", "deleted long"]);
        assert_eq!(struck(&server), 1, "nothing is asked for again");
    });
}

#[test]
fn a_pod_that_is_nested_too_deep_is_held_and_not_forgotten() {
    let mut pair = Pair::new(1, 1);
    let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    let text = |node: &str| {
        format!(
            r#"{{"metadata":{{"name":"deep","namespace":"t","uid":"u","resourceVersion":"9{}","labels":{{"a":{deep}}}}},
                "spec":{{"schedulerName":"omega","nodeName":"{node}"}}}}"#,
            node.len()
        )
    };
    let pod = PodName { namespace: "t".into(), name: "deep".into() };
    pair.adapter.pod_changed(watch::partial::read::<Pod>(&text("")).expect("its head"));
    let state = pair.adapter.state(&pod);
    assert!(matches!(state, Some(State::Held(why)) if why.contains("does not understand")));
    pair.adapter.pod_changed(watch::partial::read::<Pod>(&text("n0")).expect("its head"));
    assert_eq!(pair.adapter.state(&pod), Some(&State::Bound("n0".into())));
    assert_eq!(pair.adapter.blind_nodes(), 1, "its node takes no pods");
}

#[test]
fn lists_of_too_many_objects_are_not_taken() {
    for (hostile, listed) in [(Hostile::EndlessPages, true), (Hostile::EndlessPods, false)] {
        block_on(async {
            let server = server(0).await;
            server.faults(|faults| {
                faults.no_watch_list = listed;
                faults.hostile = Some(hostile);
            });
            let client = Client::new(Config::plain(&server.url()), Duration::from_secs(60));
            let client = client.expect("a client");
            let settings = Settings { objects: 3000, page: 100, ..Settings::default() };
            let keep = watch::keep::<Arc<Pod>, _>(&client, PODS, settings, NoList);
            // Each attempt reads 31 pages, or one watch.
            let attempts = if listed { 3 * 31 } else { 3 };
            tokio::select! {
                () = keep => unreachable!("the sink takes events"),
                () = server.until(|_| struck(&server) >= attempts) => {}
            }
        });
    }
}

#[test]
fn a_wait_of_half_an_eternity_is_five_minutes() {
    block_on(async {
        let server = server(0).await;
        server.faults(|faults| faults.hostile = Some(Hostile::Throttled));
        let client = Client::new(Config::plain(&server.url()), Duration::from_secs(60));
        let answer = client.expect("a client").call(&Call::get("/api/v1/pods")).await;
        assert_eq!(answer.expect("an answer").retry_after, Some(300));
    });
}

#[test]
fn quantities_that_no_pod_has_break_nothing() {
    let mut pair = Pair::new(2, 2);
    let strange = [
        "-1",
        "-999999999999999999999",
        "1e999",
        "-1e999",
        "999999999999999999999999Ei",
        "1e-999",
        "0.000000000000000000001",
        "NaN",
        "inf",
        "",
        "-0",
        "1E",
        "\u{0}",
        "9223372036854775808",
    ];
    for (index, quantity) in strange.iter().enumerate() {
        let spec = json!({"schedulerName": "omega", "containers": [{"name": "c", "resources": {
            "requests": {"cpu": quantity, "memory": quantity, "ephemeral-storage": quantity}}}]});
        let metadata =
            json!({"name": format!("s{index}"), "namespace": "t", "resourceVersion": "1"});
        let text = json!({"metadata": metadata, "spec": spec}).to_string();
        if let Some(pod) = watch::partial::read::<Pod>(&text) {
            pair.adapter.pod_changed(pod);
        }
        let resources = json!({"cpu": quantity, "memory": quantity, "pods": quantity});
        let node = json!({"metadata": {"name": format!("m{index}")}, "status": {"allocatable": resources}});
        if let Some(node) = watch::partial::read(&node.to_string()) {
            pair.adapter.node_changed(&node);
        }
    }
    pair.create("a", 1000);
    pair.deliver();
    let bound = pair.decide();
    let ours = bound.iter().find(|binding| binding.pod.name == "a").expect("a binding");
    assert!(ours.node.starts_with('n') || ours.node.starts_with('m'));
    let large = bound.iter().filter(|binding| ["s4", "s13"].contains(&binding.pod.name.as_str()));
    assert!(large.clone().all(|binding| !binding.node.starts_with('n')), "{:?}", large.count());
}

#[test]
fn an_object_whose_name_is_none_is_left_out() {
    let object = |name: &str, namespace: &str| {
        let text = serde_json::json!({"metadata": {"name": name, "namespace": namespace}});
        watch::partial::read::<Pod>(&text.to_string())
    };
    assert!(object("web-0.a", "t").is_some());
    let long = "a".repeat(254);
    for name in
        ["", "..", "a/../b", "a?dryRun=All", "a%2fb", "a\u{1b}[2J", "a b", "\u{202e}", &long]
    {
        assert!(object(name, "t").is_none(), "{name:?}");
        assert!(name.is_empty() || object("a", name).is_none(), "{name:?}");
    }
}
