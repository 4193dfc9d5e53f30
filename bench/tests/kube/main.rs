//! Tests of the reader of Kubernetes clusters: small clusters, bad input, and runs of the results.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

mod bad;
mod cluster;
mod rules;
mod volumes;

use omega_workload::Workload;
use omega_workload::kube::load;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A separate temporary file with this content.
fn file(content: &[u8]) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("omega-kube-{}-{number}.json", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, content).unwrap();
    file
}

/// Reads a workload from this content. An error is returned as its line after the file's name.
fn read(content: impl AsRef<[u8]>) -> Result<Workload, String> {
    let file = file(content.as_ref());
    let result = load(&file).map_err(|error| {
        let line = error.to_string();
        assert!(!line.contains('\n'), "{line}");
        line.strip_prefix(&file.display().to_string()).unwrap().to_owned()
    });
    std::fs::remove_file(&file).unwrap();
    result
}

/// A list of these items.
fn list(items: &[&str]) -> String {
    format!(r#"{{"kind":"List","items":[{}]}}"#, items.join(","))
}

/// A node of this name with 4 cores, 8 GiB and 10 pods.
fn node(name: &str) -> String {
    format!(
        r#"{{"kind":"Node","metadata":{{"name":"{name}","labels":{{"kubernetes.io/hostname":"{name}"}}}},
        "status":{{"allocatable":{{"cpu":"4","memory":"8Gi","pods":"10"}}}}}}"#
    )
}

/// A pod of this name with this content of its spec.
fn pod(name: &str, spec: &str) -> String {
    format!(r#"{{"kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{{spec}}}}}"#)
}

/// The workload of three nodes and a pod with this spec.
fn one(spec: &str) -> Workload {
    read(list(&[&node("a"), &node("b"), &node("c"), &pod("p", spec)])).unwrap()
}
