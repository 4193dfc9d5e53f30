//! Replays recorded answers of kube-scheduler v1.36.2. Without the recordings a test says so and
//! passes.

use super::super::api::{LabelSelector, Pod};
use super::super::quantity::Quantity;
use super::super::request::pod_request;
use super::super::selector::labels_or_nothing;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// The cases of one recording; none if it is not there.
fn cases(suite: &str) -> Vec<Value> {
    let folder = std::env::var_os("OMEGA_DATA").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"))
    });
    let path = folder.join("kube-oracle").join(format!("{suite}.jsonl.gz"));
    let Ok(file) = File::open(&path) else {
        println!("skipped: {} not found", path.display());
        return Vec::new();
    };
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let cases: Vec<Value> =
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    println!("{suite}: {} cases", cases.len());
    cases
}

/// Compares a number with Kubernetes' answer, which has 64 bits. Where more are needed it answers
/// the low 64 bits or 0, depending on how the quantity was written; we refuse or cap such amounts,
/// but check that we lost nothing before.
fn assert_same(ours: i128, case: &Value, field: &str) {
    let theirs = case[field].as_i64().unwrap();
    match i64::try_from(ours) {
        Ok(ours) => assert_eq!(ours, theirs, "{field} of {case}"),
        Err(_) => assert!(theirs == 0 || theirs == ours as i64, "{field} {ours} of {case}"),
    }
}

#[test]
fn quantities_are_read_as_kubernetes_reads_them() {
    for case in cases("quantity") {
        let quantity = Quantity::parse(case["in"].as_str().unwrap());
        assert_eq!(quantity.is_err(), case["error"] == true, "{case}");
        if let Ok(quantity) = quantity {
            assert_same(quantity.value(), &case, "value");
            assert_same(quantity.milli_value(), &case, "milliValue");
        }
    }
}

/// Amounts as Kubernetes writes them: those of the recording are plain numbers, cpu in thousandths.
fn as_quantities(amounts: &Value) -> Value {
    let amounts = amounts.as_object().into_iter().flatten();
    let written = amounts.map(|(name, amount)| match name.as_str() {
        "cpu" => (name.clone(), json!(format!("{amount}m"))),
        _ => (name.clone(), json!(amount.to_string())),
    });
    Value::Object(written.collect())
}

/// The containers of a recorded pod as Kubernetes writes them.
fn as_containers(containers: &Value) -> Value {
    let containers = containers.as_array().into_iter().flatten();
    let written = containers.map(|container| {
        json!({
            "restartPolicy": container["restartPolicy"],
            "resources": {"requests": as_quantities(&container["requests"])},
        })
    });
    Value::Array(written.collect())
}

#[test]
fn pods_ask_for_what_kubernetes_says_they_ask_for() {
    for case in cases("pod_requests") {
        let recorded = &case["pod"];
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": recorded["name"]},
            "spec": {
                "containers": as_containers(&recorded["containers"]),
                "initContainers": as_containers(&recorded["initContainers"]),
                "resources": {"requests": as_quantities(&recorded["podLevelRequests"])},
                "overhead": as_quantities(&recorded["overhead"]),
            },
        }))
        .unwrap();
        let ours: BTreeMap<String, i128> = pod_request(&pod.spec)
            .into_iter()
            .map(|(name, amount)| match name.as_str() {
                "cpu" => (name, amount.milli_value()),
                _ => (name, amount.value()),
            })
            .filter(|(_, amount)| *amount != 0)
            .collect();
        let theirs = recorded["computedRequest"].as_object().into_iter().flatten();
        let theirs: BTreeMap<String, i128> =
            theirs.map(|(name, amount)| (name.clone(), amount.as_i64().unwrap().into())).collect();
        assert_eq!(ours, theirs, "{}", case["id"]);
    }
}

#[test]
fn label_selectors_match_what_they_match_in_kubernetes() {
    for case in cases("label_selector") {
        let selector: Option<LabelSelector> =
            serde_json::from_value(case["selector"].clone()).unwrap();
        let labels = case["labels"].as_object().into_iter().flatten();
        let labels: omega_core::Labels =
            labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap())).collect();
        let matches = labels_or_nothing(selector.as_ref()).matches(&labels);
        assert_eq!(matches, case["matches"] == true, "{case}");
    }
}
