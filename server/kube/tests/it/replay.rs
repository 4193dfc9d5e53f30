//! Checks that the double answers as a real API server did, with transcripts of calls and events.

use crate::double::query::Query;
use crate::double::{Double, Key, PODS, Target, text};
use omega_workload::public_data;
use serde_json::Value;

/// The parts of an answer that a scheduler depends on.
const PARTS: [&str; 8] = [
    "/status",
    "/reason",
    "/message",
    "/code",
    "/metadata/resourceVersion",
    "/metadata/labels",
    "/metadata/annotations",
    "/spec/nodeName",
];

/// Returns the calls of a transcript; `None` if the data is missing.
pub(crate) fn transcript(name: &str) -> Option<Vec<Value>> {
    let text = std::fs::read_to_string(public_data(&format!("kube-api/{name}"))?).expect("text");
    let calls = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    Some(calls.collect())
}

fn field<'a>(call: &'a Value, name: &str) -> &'a str {
    call["request"][name].as_str().unwrap_or_default()
}

/// Repeats a call of a transcript. New objects get the uids of the transcript.
pub(crate) fn make(double: &mut Double, call: &Value) -> (u16, Value) {
    let uid = call.pointer("/response/body/metadata/uid").and_then(Value::as_str);
    let version = call.pointer("/response/body/metadata/resourceVersion");
    let version = version.and_then(Value::as_str).and_then(|text| text.parse::<u64>().ok());
    // Other clients wrote objects between the recorded calls.
    let writes = field(call, "method") != "GET";
    if let Some(version) = version.filter(|version| writes && *version > double.version) {
        double.version = version - 1;
    }
    double.uids.clear();
    if field(call, "method") == "POST" {
        double.uids.extend(uid.map(str::to_owned));
    }
    let (method, path, content) =
        (field(call, "method"), field(call, "path"), field(call, "contentType"));
    let answer = double.call_as(method, path, content, &call["request"]["body"]);
    (answer.status, answer.body)
}

#[test]
fn bindings_are_answered_as_by_the_real_server() {
    let Some(calls) = transcript("binding.jsonl") else { return };
    let version = calls[0].pointer("/response/body/metadata/resourceVersion");
    let version = version.and_then(Value::as_str).and_then(|text| text.parse::<u64>().ok());
    let mut double = Double { version: version.expect("a version") - 1, ..Double::default() };
    for call in &calls {
        let (status, body) = make(&mut double, call);
        let (step, expected) = (&call["step"], &call["response"]);
        assert_eq!(u64::from(status), expected["status"], "{step}: {body}");
        let is_status = expected.pointer("/body/kind").is_some_and(|kind| kind == "Status");
        // The `status` of an object is not compared, but that of a `Status` is.
        for part in PARTS.iter().skip(usize::from(!is_status)) {
            assert_eq!(body.pointer(part), expected["body"].pointer(part), "{step}: {part}");
        }
    }
    assert!(calls.len() > 30);
}

/// Whether the double cannot answer a call of a transcript; each such call has its reason here.
fn is_beyond(step: &str) -> bool {
    let beyond = [
        // The double only has whole objects in JSON.
        "metadata only",
        "protobuf only",
        // A watch has no single answer.
        "watch of one object",
    ];
    beyond.iter().any(|begin| step.starts_with(begin))
}

#[test]
fn other_calls_have_the_status_and_reason_of_the_real_server() {
    for name in ["list.jsonl", "status.jsonl", "preemption.jsonl", "lease.jsonl"] {
        let Some(calls) = transcript(name) else { return };
        let version = |call: &Value| {
            let version = call.pointer("/response/body/metadata/resourceVersion");
            version.and_then(Value::as_str).and_then(|text| text.parse::<u64>().ok())
        };
        let first = calls.iter().find_map(version).expect("a version");
        let mut double = Double { version: first - 1, ..Double::default() };
        let mut checked = 0;
        for call in &calls {
            let step = call["step"].as_str().unwrap_or_default();
            if is_beyond(step) {
                continue;
            }
            let (status, body) = make(&mut double, call);
            let expected = &call["response"];
            assert_eq!(u64::from(status), expected["status"], "{name}: {step}: {body}");
            assert_eq!(body.get("reason"), expected["body"].get("reason"), "{name}: {step}");
            if name == "list.jsonl" {
                let names = |list: &Value| -> Vec<String> {
                    let items = list["items"].as_array().into_iter().flatten();
                    items.map(|item| text(item, "/metadata/name").to_owned()).collect()
                };
                assert_eq!(names(&body), names(&expected["body"]), "{step}");
                let next = "/metadata/continue";
                assert_eq!(body.pointer(next), expected["body"].pointer(next), "{step}");
            }
            checked += 1;
        }
        assert!(checked >= 9, "{name}");
    }
}

/// The types, names and versions of events, without bookmarks.
pub(crate) fn events(stream: &Value) -> Vec<(String, String, String)> {
    let events = stream.as_array().into_iter().flatten();
    let events = events.map(|event| event.get("event").unwrap_or(event));
    let parts = events.map(|event| {
        let part = |path| text(event, path).to_owned();
        (part("/type"), part("/object/metadata/name"), part("/object/metadata/resourceVersion"))
    });
    parts.filter(|(kind, ..)| kind != "BOOKMARK").collect()
}

/// Repeats the events of a watch as changes of the double.
fn relive(double: &mut Double, stream: &Value) {
    for event in stream.as_array().into_iter().flatten() {
        let (kind, object) = (text(&event["event"], "/type"), &event["event"]["object"]);
        let name = text(object, "/metadata/name").to_owned();
        let key = Key { resource: PODS.into(), namespace: "t".into(), name };
        let version = text(object, "/metadata/resourceVersion");
        double.version = version.parse::<u64>().expect("a version") - 1;
        match kind {
            "DELETED" => drop(double.remove(&key)),
            "ADDED" | "MODIFIED" => drop(double.store(key, object.clone())),
            kind => panic!("{kind}"),
        }
    }
}

#[test]
fn watches_show_a_pods_life_as_the_real_server_did() {
    let Some(calls) = transcript("watch.jsonl") else { return };
    let version = calls[0].pointer("/response/body/metadata/resourceVersion");
    let version = version.and_then(Value::as_str).and_then(|text| text.parse::<u64>().ok());
    let mut double = Double { version: version.expect("a version"), ..Double::default() };
    relive(&mut double, &calls[1]["response"]["stream"]);
    let mut checked = 0;
    for call in &calls[1..] {
        let step = call["step"].as_str().unwrap_or_default();
        // The transcript has no events from before its start, and future versions are never reached.
        if step.starts_with("version 1,") || step.starts_with("a version from the future") {
            continue;
        }
        let (path, query) = field(call, "path").split_once('?').expect("a query");
        let query = Query::parse(query);
        let expected = &call["response"];
        match double.watch(Target::of(path).expect("a path"), &query) {
            Ok(mut watch) => {
                assert_eq!(expected["status"], 200, "{step}");
                let seen = Value::Array(double.events(&mut watch));
                assert_eq!(events(&seen), events(&expected["stream"]), "{step}");
            }
            Err(refusal) => assert_eq!(expected["status"], refusal.status, "{step}"),
        }
        checked += 1;
    }
    assert!(checked >= 6);
}

#[test]
fn compacted_versions_are_gone_as_from_the_real_server() {
    let Some(calls) = transcript("gone.jsonl") else { return };
    let mut double = Double { version: 39_006, ..Double::default() };
    double.compact();
    for call in &calls[1..] {
        let (step, expected) = (&call["step"], &call["response"]);
        let (path, query) = field(call, "path").split_once('?').expect("a query");
        let query = Query::parse(query);
        if query.has("watch") {
            let watch = double.watch(Target::of(path).expect("a path"), &query);
            let seen = double.events(&mut watch.expect("a watch"));
            let error = &expected["stream"][0]["event"];
            assert_eq!(seen[0]["type"], error["type"], "{step}");
            assert_eq!(seen[0]["object"]["code"], error["object"]["code"], "{step}");
            assert_eq!(seen[0]["object"]["reason"], error["object"]["reason"], "{step}");
            continue;
        }
        let (status, body) = make(&mut double, call);
        assert_eq!(u64::from(status), expected["status"], "{step}: {body}");
        for part in ["/reason", "/message", "/metadata/continue"] {
            assert_eq!(body.pointer(part), expected["body"].pointer(part), "{step}: {part}");
        }
    }
}
