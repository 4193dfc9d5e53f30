//! Recorded answers of a real API server, as the client, the outbox and the watches handle them.

use crate::pairs::{Pair, add_node};
use crate::player::{Ending, Play, ReceivedRequest, answer, events, initial, play, stream};
use crate::process::Program;
use crate::replay::transcript;
use omega_kube::adapter::bind_reply::{BindReply, PodRead};
use omega_kube::adapter::effects::{Action, ClaimChoice, Eviction, GroupCondition, Nominee};
use omega_kube::adapter::{Binding, PodName, State};
use omega_kube::client::config::Config;
use omega_kube::client::{Call, Client};
use omega_kube::run::fence::Fence;
use omega_kube::run::input::Input;
use omega_kube::run::outbox::Outbox;
use omega_kube::run::{NODES, PODS};
use omega_kube::watch::{self, Event, Sink};
use omega_workload::kube::api::{Node, Pod};
use omega_workload::public_data;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, UnboundedSender, channel, unbounded_channel};

/// Runs work in one thread, and returns its result and the log.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> (T, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let file = Arc::new(std::fs::File::create(&path).expect("a file"));
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(file);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let done = tracing::subscriber::with_default(subscriber.finish(), || runtime.block_on(work));
    drop(runtime);
    (done, std::fs::read_to_string(&path).expect("text"))
}

fn client(url: &str) -> Client {
    Client::new(Config::plain(url), Duration::from_secs(600)).expect("a client")
}

pub(crate) fn outbox(url: &str) -> (Outbox, Receiver<Input>) {
    let (back, answers) = channel(100);
    (Outbox::new(client(url), 100, back, Fence::open(), Arc::default()), answers)
}

async fn answered(answers: &mut Receiver<Input>) -> (Binding, BindReply) {
    match answers.recv().await {
        Some(Input::BindReplied(binding, answer, _)) => (binding, answer),
        other => panic!("{other:?}"),
    }
}

/// Passes the events of a watch on to a test.
struct Seen<T>(UnboundedSender<Event<T>>);

impl<T: Send> Sink<T> for Seen<T> {
    async fn take(&mut self, event: Event<T>) -> bool {
        self.0.send(event).is_ok()
    }
}

/// Returns the call with this number of a transcript.
fn nth(calls: &[Value], seq: u64) -> &Value {
    calls.iter().find(|call| call["seq"] == seq).expect("a recorded call")
}

/// Method and path of a recorded call, without the query.
fn called(call: &Value) -> String {
    let part = |name: &str| call["request"][name].as_str().expect("text").to_owned();
    let path = part("path");
    format!("{} {}", part("method"), path.split('?').next().unwrap_or_default())
}

fn name(name: &str) -> PodName {
    PodName { namespace: "t".into(), name: name.into() }
}

/// The pair of an adapter and a server with the node `n1`, and the bindings of new pods.
fn decided(pods: &[(&str, &str)]) -> (Pair, Vec<Binding>) {
    let mut pair = Pair::new(0, 1);
    add_node(&mut pair.server, 1);
    for (pod, uid) in pods {
        pair.server.uids.push_back((*uid).to_owned());
        pair.create(pod, 100);
    }
    pair.deliver();
    let bindings = pair.decide();
    assert_eq!(bindings.len(), pods.len());
    (pair, bindings)
}

#[test]
fn bindings_that_an_overloaded_server_rejects_are_sent_again_after_its_delay() {
    let Some(calls) = transcript("overload.jsonl") else { return };
    let names: Vec<String> = (0..calls.len()).map(|index| format!("o{index}")).collect();
    let pods: Vec<(&str, &str)> = names.iter().map(|pod| (pod.as_str(), pod.as_str())).collect();
    let (mut pair, bindings) = decided(&pods);
    let accepted = calls.iter().find(|call| call["response"]["status"] == 201).expect("a 201");
    let mut script: Vec<_> = calls.iter().map(|call| (called(call), answer(call))).collect();
    script.extend(calls.iter().map(|call| (called(call), answer(accepted))));
    let (url, mut requests) = play(script);
    let work = async {
        let (outbox, mut answers) = outbox(&url);
        let mut rejected = 0;
        for binding in bindings {
            outbox.act(Action::Bind(binding, 0), 0);
            let (binding, answer) = answered(&mut answers).await;
            let request = requests.recv().await.expect("a request");
            let call = calls.iter().find(|call| called(call) == request.call).expect("it");
            let action = pair.adapter.handle_bind_reply(binding.clone(), answer, 500);
            if call["response"]["status"] == 201 {
                assert_eq!((answer, action), (BindReply::Bound, None));
                continue;
            }
            // `Retry-After: 1` is one second.
            assert_eq!(action, Some(Action::Bind(binding.clone(), 1500)), "{answer:?}");
            assert!(matches!(pair.adapter.state(&binding.pod), Some(State::Assumed { .. })));
            outbox.act(Action::Bind(binding, 1500), 0);
            let (binding, answer) = answered(&mut answers).await;
            assert_eq!(requests.recv().await.expect("a request").call, request.call);
            assert_eq!(pair.adapter.handle_bind_reply(binding, answer, 1500), None, "{answer:?}");
            rejected += 1;
        }
        rejected
    };
    let (rejected, _) = run(work);
    assert!(rejected > 10);
    let counters = pair.adapter.counters();
    assert_eq!((counters.throttled, counters.bound), (rejected, calls.len() as u64));
}

#[test]
fn a_token_that_the_server_rejects_is_read_again() {
    let Some(calls) = transcript("auth.jsonl") else { return };
    let nodes = "GET /api/v1/nodes".to_owned();
    let (rejected, listed) = (nth(&calls, 1), nth(&calls, 6));
    let script = vec![
        (nodes.clone(), answer(listed)),
        (nodes.clone(), answer(rejected)),
        (nodes.clone(), answer(listed)),
        (nodes.clone(), answer(rejected)),
        (nodes, initial(listed)),
    ];
    let (url, mut requests) = play(script);
    let home = tempfile::tempdir().expect("a folder");
    let write = |token: &str| std::fs::write(home.path().join("token"), token).expect("a file");
    let config = json!({"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}]});
    let file = home.path().join("config");
    std::fs::write(&file, config.to_string()).expect("a file");
    let config = Config::of_file(&file, None).expect("a kubeconfig");
    let work = async {
        write("first");
        let client = Client::new(config, Duration::from_secs(600)).expect("a client");
        let call = Call::get("/api/v1/nodes");
        assert_eq!(client.call(&call).await.expect("an answer").status, 200);
        write("second");
        assert_eq!(client.call(&call).await.expect("an answer").status, 200);
        write("third");
        let (reported, mut seen) = unbounded_channel();
        tokio::select! {
            () = watch::keep::<Node, _>(&client, NODES, watch::Settings::default(), Seen(reported)) => {}
            event = seen.recv() => assert!(matches!(event, Some(Event::Listed(..))), "{event:?}"),
        }
    };
    run(work);
    for token in ["first", "first", "second", "second", "third"] {
        assert_eq!(requests.try_recv().expect("a request").token, format!("Bearer {token}"));
    }
}

#[test]
fn a_watch_that_is_forbidden_names_the_missing_right_and_starts_once_it_is_given() {
    let Some(calls) = transcript("auth.jsonl") else { return };
    let nodes = || "GET /api/v1/nodes".to_owned();
    let (forbidden, listed) = (nth(&calls, 3), nth(&calls, 6));
    let (url, _asked) = play(vec![(nodes(), answer(forbidden)), (nodes(), initial(listed))]);
    let ((), log) = run(async {
        let (reported, mut seen) = unbounded_channel();
        let client = client(&url);
        tokio::select! {
            () = watch::keep::<Node, _>(&client, NODES, watch::Settings::default(), Seen(reported)) => {}
            event = seen.recv() => {
                let Some(Event::Listed(nodes, at)) = event else { panic!("{event:?}") };
                assert_eq!((nodes[0].metadata.name.as_str(), at.as_str()), ("rec-n1", "338"));
            }
        }
    });
    let message = forbidden["response"]["body"]["message"].as_str().expect("a message");
    assert!(log.contains(&format!("status 403: {message}")), "{log}");
}

#[test]
fn a_binding_that_is_forbidden_names_the_missing_right() {
    let Some(calls) = transcript("auth.jsonl") else { return };
    let call = nth(&calls, 4);
    let (mut pair, mut bindings) = decided(&[("x", "u")]);
    let (url, _asked) = play(vec![(called(call), answer(call))]);
    let binding = bindings.pop().expect("a binding");
    let ((binding, answer), log) = run(async {
        let (outbox, mut answers) = outbox(&url);
        outbox.act(Action::Bind(binding, 0), 0);
        answered(&mut answers).await
    });
    assert_eq!(answer, BindReply::Refused);
    let action = pair.adapter.handle_bind_reply(binding.clone(), answer, 0);
    assert_eq!(action, Some(Action::Get(binding, 0)));
    let message = call["response"]["body"]["message"].as_str().expect("a message");
    assert!(log.contains("WARN") && log.contains(message), "{log}");
}

/// The events and the requested versions of a watch of pods, until the player leaves a request open.
fn watched(script: Vec<Play>) -> (Vec<Event<Arc<Pod>>>, Vec<String>) {
    let count = script.len() + 1;
    let pods = script.into_iter().map(|play| ("GET /api/v1/pods".to_owned(), play));
    let (url, mut requests) = play(pods.collect());
    let (reported, mut seen) = unbounded_channel();
    let work = async {
        let client = client(&url);
        let all = async {
            let mut versions = Vec::new();
            while versions.len() < count {
                let query = requests.recv().await.expect("a request").query;
                let version = query.split('&').find_map(|one| one.strip_prefix("resourceVersion="));
                versions.push(version.expect("a version").to_owned());
            }
            versions
        };
        tokio::select! {
            () = watch::keep::<Arc<Pod>, _>(&client, PODS, watch::Settings::default(), Seen(reported)) => Vec::new(),
            versions = all => versions,
        }
    };
    let (versions, _) = run(work);
    let events = std::iter::from_fn(|| seen.try_recv().ok()).collect();
    (events, versions)
}

#[test]
fn a_watch_goes_on_from_the_last_event_after_the_server_was_killed() {
    let Some(calls) = transcript("restart.jsonl") else { return };
    let (list, killed) = (nth(&calls, 1), nth(&calls, 4));
    // The connection that followed the kill was reset.
    let script = vec![initial(list), stream(killed, &events(killed), Ending::Cut), Play::default()];
    let (events, versions) = watched(script);
    assert_eq!(versions, ["", "38980", "38981", "38981"]);
    let [Event::Listed(pods, _), Event::Changed(pod)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((pods.len(), pods[0].spec.node_name.as_str()), (1, ""));
    assert_eq!((pod.metadata.name.as_str(), pod.spec.node_name.as_str()), ("a1", "n1"));
}

#[test]
fn a_version_that_a_restarted_server_no_longer_has_is_listed_anew() {
    let Some(calls) = transcript("restart.jsonl") else { return };
    let (list, killed, gone, again) =
        (nth(&calls, 1), nth(&calls, 4), nth(&calls, 9), nth(&calls, 12));
    // The kill is before the event that is recorded.
    let script = vec![
        initial(list),
        stream(killed, &[], Ending::Cut),
        Play::default(),
        stream(gone, &events(gone), Ending::Whole),
        initial(again),
    ];
    let (events, versions) = watched(script);
    assert_eq!(versions, ["", "38980", "38980", "38980", "", "38985"]);
    let [Event::Listed(before, _), Event::Listed(after, at)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((before.len(), after.len(), at.as_str()), (1, 3, "38985"));
    assert!(after.iter().all(|pod| pod.spec.node_name == "n1"));
}

#[test]
fn a_binding_whose_answer_was_lost_in_a_restart_is_found_and_not_sent_again() {
    let Some(calls) = transcript("restart.jsonl") else { return };
    let pods = nth(&calls, 12)["response"]["body"]["items"].as_array().expect("pods");
    let pod = pods.iter().find(|pod| pod["metadata"]["name"] == "a2").expect("the pod");
    let (mut pair, mut bindings) =
        decided(&[("a2", pod["metadata"]["uid"].as_str().expect("a uid"))]);
    let mut found = nth(&calls, 12).clone();
    found["response"]["body"] = pod.clone();
    let get = || "GET /api/v1/namespaces/t/pods/a2".to_owned();
    // The binding and the first GET are lost in the kill.
    let script = vec![
        (called(nth(&calls, 5)), Play::default()),
        (get(), Play::default()),
        (get(), answer(&found)),
    ];
    let (url, mut requests) = play(script);
    let binding = bindings.pop().expect("a binding");
    let work = async {
        let (outbox, mut answers) = outbox(&url);
        outbox.act(Action::Bind(binding.clone(), 0), 0);
        let (binding, answer) = answered(&mut answers).await;
        assert_eq!(answer, BindReply::Unknown);
        let mut action = pair.adapter.handle_bind_reply(binding, answer, 0);
        let mut times = Vec::new();
        while let Some(next) = action {
            assert!(matches!(next, Action::Get(..)), "{next:?}");
            times.push(next.at_ms());
            outbox.act(next, 0);
            let Some(Input::PodRead(binding, found)) = answers.recv().await else {
                panic!("an answer")
            };
            let is_lost = matches!(found, PodRead::Unknown);
            assert_eq!(is_lost, times.len() == 1);
            action = pair.adapter.handle_pod_read(binding, found, 0);
        }
        times
    };
    let (times, _) = run(work);
    assert_eq!(times, [0, 1000]);
    assert_eq!(pair.adapter.state(&name("a2")), Some(&State::Bound("n1".into())));
    assert_eq!(pair.adapter.counters().foreign, 0, "it is our own binding");
    let sent = std::iter::from_fn(|| requests.try_recv().ok());
    assert_eq!(sent.filter(|request| request.call.starts_with("POST")).count(), 1);
}

/// Returns the body of the only request for an action.
fn body_of(action: Action) -> (String, Value) {
    let (url, mut requests) = play(Vec::new());
    let (request, _) = run(async {
        let (outbox, _answers) = outbox(&url);
        outbox.act(action, 0);
        requests.recv().await.expect("a request")
    });
    (request.call, request.body)
}

/// Whether an object has all fields of another. Items of lists may be in any place, and times may differ.
fn has(object: &Value, part: &Value) -> bool {
    match (object, part) {
        (Value::Object(object), Value::Object(part)) => part.iter().all(|(field, value)| {
            let known = object.get(field);
            known.is_some_and(|known| field == "lastTransitionTime" || has(known, value))
        }),
        (Value::Array(object), Value::Array(part)) => {
            part.iter().all(|value| object.iter().any(|known| has(known, value)))
        }
        (object, part) => object == part,
    }
}

/// The recorded requests of kube-scheduler that Omega must make as well, each with Omega's action.
fn actions(calls: &[Value], groups: &[Value]) -> Vec<(Value, Action)> {
    let text = |call: &Value, path: &str| {
        call.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let uid = |call: &Value| text(call, "/response/metadata/uid");
    let binding = |pod: &str, uid: String, node: &str| Binding {
        decision: 1,
        pod: name(pod),
        uid,
        node: node.into(),
    };
    let choice = |claim: &str, part: &str, call: &Value, volume| ClaimChoice {
        binding: binding("p", "u".into(), "rec-n1"),
        namespace: "t".into(),
        claim: claim.into(),
        uid: text(call, &format!("{part}/uid")),
        version: text(call, &format!("{part}/resourceVersion")),
        volume,
    };
    let [bind, evict, nominate, select, volume] =
        [1, 16, 23, 24, 28].map(|seq| nth(calls, seq).clone());
    let of_bind = Action::Bind(binding("plain", text(&bind, "/request/metadata/uid"), "rec-n1"), 0);
    let eviction = Eviction {
        pod: name("low1"),
        uid: uid(&evict),
        by: name("high"),
        by_uid: String::new(),
        scheduler: "default-scheduler".into(),
        node: "rec-n2".into(),
    };
    let nominee = Nominee { pod: name("vol"), uid: uid(&nominate), node: Some("rec-n1".into()) };
    let selected = choice("c1", "/request/metadata", &select, None);
    let of_volume = ("rec-pv2".to_owned(), text(&volume, "/request/metadata/resourceVersion"));
    let chosen = choice("c2", "/request/spec/claimRef", &volume, Some(of_volume));
    let mut actions = vec![
        (bind, of_bind),
        (evict, Action::Evict(eviction, 0)),
        (nominate, Action::Nominate(nominee, 0)),
        (select, Action::Claim(selected, 0)),
        (volume, Action::Claim(chosen, 0)),
    ];
    for (seq, group) in [(5, "g1"), (14, "g2")] {
        let call = nth(groups, seq).clone();
        let message = text(&call, "/request/status/conditions/0/message");
        let unschedulable = (!message.is_empty()).then_some(message);
        let (namespace, name, uid) = ("t".into(), group.into(), uid(&call));
        actions
            .push((call, Action::Group(GroupCondition { namespace, name, uid, unschedulable }, 0)));
    }
    actions
}

#[test]
fn requests_write_what_kube_scheduler_writes() {
    let Some(calls) = transcript("kube-scheduler.jsonl") else { return };
    let Some(groups) = transcript("podgroup-kube-scheduler.jsonl") else { return };
    for (call, action) in actions(&calls, &groups) {
        let uri = call["uri"].as_str().expect("a path");
        let (made, body) = body_of(action);
        let (method, path) = made.split_once(' ').expect("two words");
        assert_eq!(path, uri);
        // The recorded bodies of patches lack the uid, which is a precondition of Omega's patches. The objects in
        // the answers have it. Omega patches claims and volumes, so that fields that it does not know are not lost.
        let theirs = if call["verb"] == "patch" { &call["response"] } else { &call["request"] };
        assert_eq!(method, if call["verb"] == "create" { "POST" } else { "PATCH" });
        assert!(body["metadata"].is_object() && has(theirs, &body), "{uri}: {body}");
        for part in
            ["/target", "/status/conditions/0/type", "/spec/claimRef", "/metadata/annotations"]
        {
            let in_theirs = call["request"].pointer(part);
            assert_eq!(body.pointer(part), in_theirs, "{uri}: {part}");
        }
    }
}

/// Path and parameters of a watch. Parameters without an effect, and timeouts, are left out.
fn parts(path: &str, query: &str) -> (String, BTreeMap<String, String>) {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.filter(|(name, value)| !value.is_empty() && !name.starts_with("timeout"));
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.replace("true", "1")));
    (path.to_owned(), pairs.collect())
}

#[test]
fn the_program_reads_what_kube_scheduler_reads_in_one_pass_each() {
    let Some(file) = public_data("kube-api/kube-scheduler-reads.json") else { return };
    let text = std::fs::read_to_string(file).expect("text");
    let reads: Vec<String> = serde_json::from_str(&text).expect("JSON");
    let theirs = reads.iter().filter_map(|read| read.split_once('?'));
    let mut theirs: BTreeMap<_, _> = theirs.map(|(path, query)| parts(path, query)).collect();
    for not_read in [
        // Without constraints of its own, a pod is not spread over zones by its owner.
        "/api/v1/services",
        "/api/v1/replicationcontrollers",
        "/apis/apps/v1/replicasets",
        "/apis/apps/v1/statefulsets",
        // Pods with device claims are left to other schedulers.
        "/apis/resource.k8s.io/v1/deviceclasses",
        "/apis/resource.k8s.io/v1/resourceclaims",
        "/apis/resource.k8s.io/v1/resourceslices",
    ] {
        assert!(theirs.remove(not_read).is_some(), "{not_read}");
    }
    let Some(calls) = transcript("auth.jsonl") else { return };
    let groups = nth(&calls, 22);
    let (url, mut requests) = play(vec![(called(groups), answer(groups))]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_omega-kube"));
    // A request that takes too long is sent again.
    command.args(["run", "--listen", "off", "--server", &url, "--request-timeout", "300"]);
    command.stdin(Stdio::null());
    let _program = Program(command.env("OMEGA_LOG", "warn").spawn().expect("it starts"));
    let mut ours = BTreeMap::new();
    let mut discovery = 0;
    while ours.len() < theirs.len() || discovery == 0 {
        let ReceivedRequest { call, query, .. } = requests.blocking_recv().expect("a request");
        let path = call.strip_prefix("GET ").expect("it only reads");
        if call == called(groups) {
            discovery += 1;
            continue;
        }
        let (path, parameters) = parts(path, &query);
        let known = ours.insert(path, parameters);
        assert_eq!(known, None, "one list of each resource");
    }
    assert_eq!(ours, theirs);
}
