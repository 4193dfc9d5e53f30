//! The double answers as a real API server did: the transcript of bindings, call by call.

use crate::double::Double;
use serde_json::Value;
use std::path::PathBuf;

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

#[test]
fn bindings_are_answered_as_by_the_real_server() {
    let data = std::env::var_os("OMEGA_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let file = data.join("kube-api/binding.jsonl");
    let Ok(text) = std::fs::read_to_string(&file) else {
        println!("skipped: {} not found", file.display());
        return;
    };
    let calls = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let calls: Vec<Value> = calls.collect();
    let version = calls[0].pointer("/response/body/metadata/resourceVersion");
    let version = version.and_then(Value::as_str).and_then(|text| text.parse::<u64>().ok());
    let mut double = Double { version: version.expect("a version") - 1, ..Double::default() };
    for call in &calls {
        let (request, expected) = (&call["request"], &call["response"]);
        let field = |name: &str| request[name].as_str().unwrap_or_default();
        let uid = expected.pointer("/body/metadata/uid").and_then(Value::as_str);
        if field("method") == "POST" {
            double.uids.extend(uid.map(str::to_owned));
        }
        let answer = double.call(field("method"), field("path"), &request["body"]);
        let step = &call["step"];
        assert_eq!(u64::from(answer.status), expected["status"], "{step}: {}", answer.body);
        let is_status = expected.pointer("/body/kind").is_some_and(|kind| kind == "Status");
        // The `status` of an object is of no matter here; that of a Status is.
        for part in PARTS.iter().skip(usize::from(!is_status)) {
            assert_eq!(answer.body.pointer(part), expected["body"].pointer(part), "{step}: {part}");
        }
    }
    assert!(calls.len() > 30);
}
