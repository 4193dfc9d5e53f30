//! A server whose watch cannot continue, or that was restored from a backup with older versions: the objects are listed
//! again, and the list is the truth.

use crate::pairs::Pair;
use crate::player::{Ending, Play, answer, initial, play, stream};
use crate::process::block_on;
use omega_kube::adapter::bind_reply::BindReply;
use omega_kube::adapter::effects::Action;
use omega_kube::adapter::{PodName, State};
use omega_kube::client::Client;
use omega_kube::client::config::Config;
use omega_kube::run::NODES;
use omega_kube::watch::{self, Event, Settings, Sink};
use omega_workload::kube::api::Node;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// A sink that notes lists and resets.
struct Noted(UnboundedSender<String>);

impl Sink<Node> for Noted {
    async fn take(&mut self, event: Event<Node>) -> bool {
        let Event::Listed(nodes, at) = event else { panic!("{event:?}") };
        self.0.send(format!("listed {} at {at}", nodes.len())).is_ok()
    }

    async fn reset(&mut self, path: &'static str) {
        let _ = self.0.send(format!("reset {path}"));
    }
}

fn call(status: u16, body: &Value) -> Value {
    json!({"response": {"status": status, "body": body}})
}

/// The initial events of a watch that begins with an empty list at a version.
fn list(version: &str) -> Play {
    initial(&call(200, &json!({"items": [], "metadata": {"resourceVersion": version}})))
}

/// Returns the notes about a watch of nodes that gets these answers, until there are so many.
fn notes(script: Vec<Play>, count: usize) -> Vec<String> {
    let script = script.into_iter().map(|play| ("GET /api/v1/nodes".to_owned(), play));
    let (url, _asked) = play(script.collect());
    block_on(async {
        let (reported, mut seen) = unbounded_channel();
        let client = Client::new(Config::plain(&url), Duration::from_secs(600)).expect("a client");
        let all = async {
            let mut notes = Vec::new();
            while notes.len() < count {
                notes.extend(seen.recv().await);
            }
            notes
        };
        tokio::select! {
            () = watch::keep::<Node, _>(&client, NODES, Settings::default(), Noted(reported)) => Vec::new(),
            notes = all => notes,
        }
    })
}

#[test]
fn a_watch_that_cannot_continue_from_its_version_begins_with_a_new_list() {
    let head = call(200, &Value::Null);
    let failed = json!({"kind": "Status", "code": 500, "message": "etcd event received"});
    let events = |event: Value| stream(&head, &[event], Ending::Whole);
    let too_large = json!({"message": "Too large resource version: 100, current: 90"});
    let older = json!({"metadata": {"resourceVersion": "90"}});
    let broken = json!("{\"type\":\"MODIFIED\",\"object\":{");
    for failure in [
        answer(&call(504, &too_large)),
        events(json!({"type": "ERROR", "object": failed})),
        events(broken),
        events(json!({"type": "BOOKMARK", "object": older})),
    ] {
        let seen = notes(vec![list("100"), failure, list("100")], 2);
        assert_eq!(seen, ["listed 0 at 100", "listed 0 at 100"]);
    }
    // Other failures are repeated twice.
    let refused = || answer(&call(500, &json!({"message": "not now"})));
    let script = vec![list("100"), refused(), refused(), refused(), list("100")];
    assert_eq!(notes(script, 2).len(), 2);
}

#[test]
fn a_list_that_takes_too_long_is_read_in_smaller_pages() {
    let old = answer(&call(422, &json!({"message": "there is no WatchList"})));
    let (url, mut requests) = play(vec![("GET /api/v1/nodes".to_owned(), old)]);
    block_on(async {
        let (reported, _seen) = unbounded_channel();
        let client = Client::new(Config::plain(&url), Duration::from_millis(100));
        let client = client.expect("a client");
        let settings = Settings { patience: Duration::ZERO, ..Settings::default() };
        let all = async {
            let mut pages = Vec::new();
            while pages.len() < 5 {
                let query = requests.recv().await.expect("a request").query;
                pages.extend(query.strip_prefix("limit=").map(str::to_owned));
            }
            pages
        };
        tokio::select! {
            () = watch::keep::<Node, _>(&client, NODES, settings, Noted(reported)) => {}
            pages = all => assert_eq!(pages, ["1000", "500", "250", "125", "62"]),
        }
    });
}

#[test]
fn a_list_with_an_older_version_resets_what_is_known() {
    let too_large = json!({"message": "Too large resource version: 100, current: 50"});
    let seen = notes(vec![list("100"), answer(&call(504, &too_large)), list("50")], 3);
    assert_eq!(seen, ["listed 0 at 100", "reset /api/v1/nodes", "listed 0 at 50"]);
}

#[test]
fn the_pods_of_a_restored_server_replace_those_that_were_known() {
    let mut pair = Pair::new(1, 1);
    pair.create("bound", 1000);
    pair.create("assumed", 1000);
    pair.deliver();
    let backup = pair.server.version;
    pair.create("lost", 1000);
    pair.deliver();
    let bindings = pair.decide();
    assert_eq!(bindings.len(), 3);
    for binding in bindings.iter().filter(|binding| binding.pod.name != "assumed") {
        pair.send(binding);
    }
    pair.deliver();
    let assumed = bindings.iter().find(|binding| binding.pod.name == "assumed").expect("one");
    assert_eq!(pair.adapter.handle_bind_reply(assumed.clone(), BindReply::Bound, 0), None);
    pair.server.restore(backup);
    pair.adapter.versions_reset();
    pair.relist();
    let name = |name: &str| PodName { namespace: "t".into(), name: name.into() };
    assert_eq!(pair.adapter.state(&name("bound")), Some(&State::Pending));
    assert_eq!(pair.adapter.state(&name("lost")), None);
    // An acknowledged binding may be lost with the other changes, so the pod is read.
    assert_eq!(pair.requests(), [Action::Get(assumed.clone(), 0)]);
    let found = pair.get(assumed);
    let again = pair.adapter.handle_pod_read(assumed.clone(), found, 0);
    assert!(matches!(again, Some(Action::Bind(..))), "{again:?}");
    assert_eq!(pair.decide().len(), 1, "the other pod is decided again");
}
