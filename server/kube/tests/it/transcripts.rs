//! A replay of whole transcripts: each call is repeated on the double, and the answer compared with that of the real
//! server. `replay.rs` compares bindings, lists and watches in more detail.

use crate::double::admission::Plugin;
use crate::double::query::Query;
use crate::double::{Double, Key, NODES, PODS, Response, Target, forbid, text};
use crate::process::{block_on, server};
use crate::replay::{events, make, transcript};
use http::Method;
use omega_kube::client::config::Config;
use omega_kube::client::{Call, Client};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Entries that are not repeated, by the start of their step.
const SKIPPED: [&str; 7] = [
    // These are no calls.
    "kill -9",
    "answered again",
    // The recorded client got no answer. `faults.rs` and `recorded.rs` have the double and the client lose answers.
    "bind while it is down",
    "bind again, 0",
    // The double is ready from its start, and the program does not ask.
    "readyz",
    // The program does not ask for its rights.
    "may I?",
    // The double has the role of the recording only for this replay.
    "the role itself",
];

/// The parts of an object that are compared. The rest are defaults that no scheduler reads.
const PARTS: [&str; 19] = [
    "/metadata/name",
    "/metadata/uid",
    "/metadata/labels",
    "/metadata/annotations",
    "/metadata/finalizers",
    "/metadata/deletionGracePeriodSeconds",
    "/spec/nodeName",
    "/spec/taints",
    "/spec/unschedulable",
    "/spec/claimRef",
    "/spec/volumeName",
    "/spec/schedulingGroup",
    "/status/phase",
    "/status/allocatable",
    "/status/nominatedNodeName",
    "/status/allocation",
    "/status/reservedFor",
    "/series",
    "/note",
];

/// A replay of one transcript.
struct Replay {
    double: Double,
    name: &'static str,
    /// Calls that kube-scheduler made at the time of the transcript.
    others: VecDeque<Value>,
    /// The rules of the role that the recorded service account gets.
    role: Value,
    has_role: bool,
    checked: u32,
    order: Order,
}

/// The order of the calls of a transcript.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Each call was made when the call before it had been answered.
    Single,
    /// Calls were made at the same time, so their versions are not in the order of the log.
    Parallel,
}

/// Returns the calls of an audit log in the form of the other transcripts.
fn audited(name: &str) -> Option<Vec<Value>> {
    let call = |call: Value| {
        let method = match text(&call, "/verb") {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" => "DELETE",
            verb => panic!("{verb}"),
        };
        let content = if method == "PATCH" {
            "application/strategic-merge-patch+json"
        } else {
            "application/json"
        };
        json!({"step": call["uri"], "response": {"status": call["status"], "body": call["response"]},
            "request": {"method": method, "path": call["uri"], "contentType": content, "user": "admin",
                "body": call["request"]}})
    };
    Some(transcript(name)?.into_iter().map(call).collect())
}

fn number(object: &Value, path: &str) -> Option<u64> {
    object.pointer(path)?.as_str()?.parse().ok()
}

const VERSION: &str = "/metadata/resourceVersion";

impl Replay {
    fn new(name: &'static str) -> Replay {
        let (others, role) = (VecDeque::new(), Value::Null);
        Replay {
            double: Double::default(),
            name,
            others,
            role,
            has_role: false,
            checked: 0,
            order: Order::Single,
        }
    }

    /// Stores an object that another client wrote before the transcript begins.
    fn seed(&mut self, target: &Target, name: &str, object: Value) {
        let (resource, namespace) = (target.resource.clone(), target.namespace.clone());
        let key = Key { resource, namespace, name: name.to_owned() };
        self.double.objects.entry(key).or_insert_with(|| Arc::new(object));
    }

    /// Stores the objects that a call is about, if they are not yet known.
    fn prepare(&mut self, target: &Target, call: &Value) {
        let (answer, request) = (&call["response"]["body"], &call["request"]["body"]);
        let is_read = call["request"]["method"] == "GET";
        if let Some(version) = number(answer, VERSION).filter(|_| is_read) {
            self.double.version = self.double.version.max(version);
        }
        for item in answer["items"].as_array().into_iter().flatten() {
            self.seed(target, text(item, "/metadata/name"), item.clone());
        }
        if target.name.is_empty() || call["response"]["status"].as_u64() >= Some(400) {
            return;
        }
        let node = text(request, "/target/name");
        if ["rec-n1", "rec-n2"].contains(&node) {
            let labels = json!({"topology.kubernetes.io/zone": "z1"});
            let object = json!({"metadata": {"name": node, "labels": labels}});
            self.seed(&Target::of(&format!("{NODES}/{node}")).expect("a path"), node, object);
        }
        let uid = [answer, request].map(|object| text(object, "/metadata/uid"));
        let uid = uid.into_iter().find(|uid| !uid.is_empty()).unwrap_or("u");
        let mut object =
            json!({"metadata": {"name": target.name, "namespace": target.namespace, "uid": uid}});
        if target.resource == PODS {
            object["metadata"]["labels"]["app"] = "t".into();
            object["status"]["phase"] = "Pending".into();
        }
        for part in ["labels", "finalizers"] {
            if let Some(value) = answer.pointer(&format!("/metadata/{part}")) {
                object["metadata"][part] = value.clone();
            }
        }
        if let Some(version) = request.pointer(VERSION) {
            object["metadata"]["resourceVersion"] = version.clone();
        }
        if let Some(phase) = answer.pointer("/status/phase") {
            object["status"]["phase"] = phase.clone();
        }
        self.seed(target, &target.name, object);
    }

    /// Returns the rejection of a call by the credentials and rights of its user.
    fn rejection(&mut self, target: &Target, call: &Value) -> Option<Response> {
        let query = Query::parse(text(call, "/request/path").split_once('?').unwrap_or_default().1);
        let right = forbid::Right::of(text(call, "/request/method"), target, &query);
        let user = match call["request"]["user"].as_str() {
            Some("wrong") => return Some(forbid::unauthorized()),
            Some(user) if !user.starts_with("system:serviceaccount:") => return None,
            _ if self.role.is_null() => return None,
            user => user.unwrap_or("system:anonymous"),
        };
        let has = |rule: &Value, field: &str, value: &str| {
            rule[field].as_array().is_some_and(|all| all.iter().any(|one| one == value))
        };
        let mut rules = self.role.as_array().into_iter().flatten();
        let may = rules.any(|rule| {
            let named = rule.get("resourceNames").is_none() || right.verb == "create";
            named
                && has(rule, "verbs", right.verb)
                && has(rule, "apiGroups", &right.group)
                && has(rule, "resources", &right.resource)
        });
        let is_allowed = may && self.has_role && user != "system:anonymous";
        (!is_allowed).then(|| right.rejection(user, target))
    }

    /// Repeats a call, and compares the answers.
    fn repeat(&mut self, call: &Value) {
        let (step, path) = (text(call, "/step").to_owned(), text(call, "/request/path"));
        let path = path.split('?').next().unwrap_or_default();
        if step.starts_with("bind while it is down") {
            // The restarted server does not have the events from before.
            self.double.compact();
        }
        if SKIPPED.iter().any(|begin| step.starts_with(begin)) {
            return;
        }
        self.checked += 1;
        let of = format!("{}: {step}", self.name);
        let Some(target) = Target::of(path) else { return self.discover(call, &of) };
        if call["response"].get("stream").is_some() {
            return self.watch(target, call, &of);
        }
        let answer = self.rejection(&target, call).unwrap_or_else(|| {
            self.prepare(&target, call);
            let fillers = self.fill(&target, call);
            let (status, body) = make(&mut self.double, call);
            fillers.iter().for_each(|key| drop(self.double.objects.remove(key)));
            Response { status, body }
        });
        self.has_role |= path.ends_with("/clusterrolebindings") && answer.status == 201;
        compare(&answer, &call["response"], &of);
        if self.order == Order::Single {
            let versions =
                [&answer.body, &call["response"]["body"]].map(|one| number(one, VERSION));
            assert_eq!(versions[0], versions[1], "{of}");
        }
    }

    /// Stores objects for the rest of a list, of which the transcript only has the number.
    fn fill(&mut self, target: &Target, call: &Value) -> Vec<Key> {
        let left = call.pointer("/response/body/metadata/remainingItemCount");
        let key = |index: u64| Key {
            resource: target.resource.clone(),
            namespace: target.namespace.clone(),
            name: format!("~{index}"),
        };
        let keys: Vec<Key> = (0..left.and_then(Value::as_u64).unwrap_or(0)).map(key).collect();
        for key in &keys {
            self.double
                .objects
                .insert(key.clone(), Arc::new(json!({"metadata": {"name": key.name}})));
        }
        keys
    }

    fn watch(&mut self, target: Target, call: &Value, of: &str) {
        let query = text(call, "/request/path").split_once('?').expect("a query").1;
        let mut watch = self.double.watch(target, &Query::parse(query)).expect("a watch");
        let seen = self.double.events(&mut watch);
        let theirs = &call["response"]["stream"];
        let reason = |event: &Value| text(event, "/object/message").to_owned();
        let reasons =
            theirs.as_array().expect("events").iter().map(|event| reason(&event["event"]));
        assert_eq!(
            seen.iter().map(reason).collect::<Vec<_>>(),
            reasons.collect::<Vec<_>>(),
            "{of}"
        );
        assert_eq!(events(&Value::Array(seen)), events(theirs), "{of}");
    }

    /// Compares the answer to a call about the server itself. The double has fewer resources.
    fn discover(&mut self, call: &Value, of: &str) {
        let (status, body) = make(&mut self.double, call);
        let expected = &call["response"];
        assert_eq!(expected["status"], status, "{of}");
        for (list, name) in [("resources", "name"), ("groups", "name")] {
            let theirs = expected["body"][list].as_array();
            let named = |one: &Value| {
                theirs.into_iter().flatten().find(|known| known[name] == one[name]).cloned()
            };
            for one in body[list].as_array().into_iter().flatten() {
                let known = named(one).unwrap_or_else(|| panic!("{of}: {}", one[name]));
                for part in ["kind", "namespaced", "preferredVersion"] {
                    assert_eq!(one.get(part), known.get(part), "{of}: {}", one[name]);
                }
            }
        }
        for part in
            ["/kind", "/groupVersion", "/gitVersion", "/major", "/minor", "/reason", "/message"]
        {
            assert_eq!(body.pointer(part), expected["body"].pointer(part), "{of}: {part}");
        }
    }

    /// Repeats the calls that kube-scheduler had made before a list.
    fn catch_up(&mut self, call: &Value) {
        let Some(now) = number(&call["response"]["body"], VERSION) else { return };
        let version = |other: &Value| number(&other["response"]["body"], VERSION);
        let last = self.others.iter().rposition(|other| version(other).is_some_and(|at| at <= now));
        let calls: Vec<Value> = self.others.drain(..last.map_or(0, |last| last + 1)).collect();
        calls.iter().for_each(|other| self.repeat(other));
    }
}

fn compare(answer: &Response, expected: &Value, of: &str) {
    let (ours, theirs) = (&answer.body, &expected["body"]);
    assert_eq!(expected["status"], answer.status, "{of}: {ours}");
    if theirs["kind"] == "Status" {
        for part in ["/kind", "/status", "/reason", "/code", "/details/uid"] {
            assert_eq!(ours.pointer(part), theirs.pointer(part), "{of}: {part}");
        }
        // A message about an invalid object goes on with the difference of Go's objects.
        let (ours, theirs) = (text(ours, "/message"), text(theirs, "/message"));
        let is_same = if answer.status == 422 { theirs.starts_with(ours) } else { ours == theirs };
        assert!(is_same, "{of}: {ours}, and not {theirs}");
        return;
    }
    if let Some(items) = theirs["items"].as_array() {
        let part = |item: &Value| {
            ["/metadata/name", "/spec/nodeName", "/status/nominatedNodeName"]
                .map(|path| text(item, path).to_owned())
        };
        let ours_items = ours["items"].as_array().expect("items");
        assert_eq!(
            ours_items.iter().map(|item| (part(item), conditions(item))).collect::<Vec<_>>(),
            items.iter().map(|item| (part(item), conditions(item))).collect::<Vec<_>>(),
            "{of}"
        );
        for part in ["/metadata/continue", "/metadata/remainingItemCount"] {
            assert_eq!(ours.pointer(part), theirs.pointer(part), "{of}: {part}");
        }
        return;
    }
    for part in PARTS {
        assert_eq!(ours.pointer(part), theirs.pointer(part), "{of}: {part}");
    }
    assert_eq!(conditions(ours), conditions(theirs), "{of}");
}

/// The conditions of an object without their times.
fn conditions(object: &Value) -> Vec<[String; 4]> {
    let all = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut all: Vec<_> = all
        .into_iter()
        .flatten()
        .map(|one| {
            ["/type", "/status", "/reason", "/message"].map(|part| text(one, part).to_owned())
        })
        .collect();
    all.sort();
    all
}

#[test]
fn whole_transcripts_are_answered_as_by_the_real_server() {
    for (name, least) in [
        ("auth.jsonl", 20),
        ("dra.jsonl", 12),
        ("flowcontrol.jsonl", 11),
        ("lease.jsonl", 10),
        ("nodes.jsonl", 10),
        ("podgroup.jsonl", 47),
        ("preemption.jsonl", 22),
        ("restart.jsonl", 9),
        ("status.jsonl", 12),
        ("volumes.jsonl", 14),
    ] {
        let Some(calls) = transcript(name) else { return };
        let mut replay = Replay::new(name);
        let role = calls.iter().find(|call| call["step"] == "the role itself");
        replay.role = role.map_or(Value::Null, |role| role["response"]["body"]["rules"].clone());
        // The groups of pods are off in the recording of rights.
        replay.double.no_alpha = name == "auth.jsonl";
        replay.double.plugins = &[Plugin::PodGroupProtection, Plugin::StorageObjectInUseProtection];
        if name == "podgroup.jsonl" {
            let Some(others) = audited("podgroup-kube-scheduler.jsonl") else { return };
            replay.others = others.into();
            replay.order = Order::Parallel;
        }
        for call in &calls {
            replay.catch_up(call);
            replay.repeat(call);
        }
        assert!(replay.others.is_empty(), "{name}");
        assert!(replay.checked >= least, "{name}: {} calls", replay.checked);
    }
}

#[test]
fn the_calls_of_kube_scheduler_are_answered_as_by_the_real_server() {
    let Some(calls) = audited("kube-scheduler.jsonl") else { return };
    let mut replay = Replay { order: Order::Parallel, ..Replay::new("kube-scheduler.jsonl") };
    calls.iter().for_each(|call| replay.repeat(call));
    assert_eq!(replay.checked, 40);
}

#[test]
fn an_overloaded_double_rejects_bindings_as_the_real_server() {
    let Some(calls) = transcript("overload.jsonl") else { return };
    block_on(async {
        let server = server(1).await;
        let config = Config::plain(&server.url());
        let client = Client::new(config, Duration::from_secs(60)).expect("a client");
        let mut rejected = 0;
        for call in &calls {
            let (body, expected) = (&call["request"]["body"], &call["response"]);
            let pod = json!({"metadata": {"name": body["metadata"]["name"]}});
            crate::process::create(&server, &pod);
            let is_rejected = expected["status"] == 429;
            server.faults(|faults| faults.throttled = u32::from(is_rejected));
            let answer =
                client.call(&Call::json(Method::POST, text(call, "/request/path"), body)).await;
            let answer = answer.expect("an answer");
            assert_eq!(expected["status"], answer.status);
            let after = text(expected, "/headers/retry-after").parse::<u64>().ok();
            assert_eq!(answer.retry_after, after);
            if is_rejected {
                assert_eq!(answer.body, text(expected, "/body").as_bytes());
                rejected += 1;
            }
        }
        assert!(rejected > 10);
    });
}
