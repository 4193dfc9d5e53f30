//! A double of the API server: nodes and pods, resource versions, the binding subresource and its conflicts.
//!
//! Its answers are those of a real kube-apiserver v1.36.2, as `replay.rs` checks.

use omega_workload::kube::api::{Node, Pod};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// An event of a watch.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Pod(Value),
    PodGone(Value),
    Node(Value),
    NodeGone(String),
}

/// The server's state.
#[derive(Default)]
pub(crate) struct Double {
    pub(crate) version: u64,
    /// The uids of the next objects; after these they are numbers.
    pub(crate) uids: VecDeque<String>,
    pub(crate) nodes: BTreeMap<String, Value>,
    pub(crate) pods: BTreeMap<(String, String), Value>,
    pub(crate) events: VecDeque<Event>,
    /// Number of times each uid was bound.
    pub(crate) bound: BTreeMap<String, u32>,
}

pub(crate) fn pod(value: &Value) -> Pod {
    serde_json::from_value(value.clone()).expect("a pod")
}

pub(crate) fn node(value: &Value) -> Node {
    serde_json::from_value(value.clone()).expect("a node")
}

fn failure(status: u16, reason: Option<&str>, message: String) -> Response {
    let mut body =
        json!({"kind": "Status", "status": "Failure", "message": message, "code": status});
    if let Some(reason) = reason {
        body["reason"] = reason.into();
    }
    Response { status, body }
}

fn conflict(what: &str, name: &str, why: &str) -> Response {
    let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
    failure(409, Some("Conflict"), message)
}

fn not_found(name: &str) -> Response {
    failure(404, Some("NotFound"), format!("pods \"{name}\" not found"))
}

/// Texts of an object, or nothing.
fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn has_items(value: &Value, path: &str) -> bool {
    value.pointer(path).and_then(Value::as_array).is_some_and(|items| !items.is_empty())
}

impl Double {
    /// Answers a call.
    pub(crate) fn call(&mut self, method: &str, path: &str, body: &Value) -> Response {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let parts: Vec<&str> = path.trim_start_matches("/api/v1/").split('/').collect();
        match (method, parts.as_slice()) {
            ("POST", ["nodes"]) => self.create_node(body),
            ("POST", ["namespaces", ns, "pods"]) => self.create_pod(ns, body),
            ("POST", ["namespaces", ns, "bindings"]) => {
                self.bind(ns, text(body, "/metadata/name"), body, query)
            }
            ("POST", ["namespaces", ns, "pods", name, "binding"]) => {
                self.bind(ns, name, body, query)
            }
            ("GET", ["namespaces", ns, "pods", name]) => self.get(ns, name),
            ("DELETE", ["namespaces", ns, "pods", name]) => self.delete(ns, name),
            ("PATCH", ["namespaces", ns, "pods", name]) => self.patch_gates(ns, name, body),
            _ => failure(404, Some("NotFound"), "the double has no such path".into()),
        }
    }

    fn stamp(&mut self, object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
    }

    fn create_node(&mut self, body: &Value) -> Response {
        let mut node = body.clone();
        self.stamp(&mut node);
        let uid = self.uids.pop_front().unwrap_or_else(|| format!("n{}", self.version));
        node["metadata"]["uid"] = uid.into();
        self.nodes.insert(text(&node, "/metadata/name").to_owned(), node.clone());
        self.events.push_back(Event::Node(node.clone()));
        Response { status: 201, body: node }
    }

    /// Deletes a node; its pods stay.
    pub(crate) fn delete_node(&mut self, name: &str) {
        if self.nodes.remove(name).is_some() {
            self.version += 1;
            self.events.push_back(Event::NodeGone(name.to_owned()));
        }
    }

    fn create_pod(&mut self, namespace: &str, body: &Value) -> Response {
        let key = (namespace.to_owned(), text(body, "/metadata/name").to_owned());
        if self.pods.contains_key(&key) {
            return failure(
                409,
                Some("AlreadyExists"),
                format!("pods \"{}\" already exists", key.1),
            );
        }
        let mut pod = body.clone();
        self.stamp(&mut pod);
        pod["metadata"]["namespace"] = namespace.into();
        let uid = self.uids.pop_front().unwrap_or_else(|| format!("p{}", self.version));
        pod["metadata"]["uid"] = uid.into();
        self.copy_topology(&mut pod);
        self.store(key, pod)
    }

    /// Copies the labels of topology from a pod's node, as admission does.
    fn copy_topology(&self, pod: &mut Value) {
        let Some(node) = self.nodes.get(text(pod, "/spec/nodeName")) else { return };
        for key in ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"] {
            if let Some(value) = node["metadata"]["labels"].get(key) {
                pod["metadata"]["labels"][key] = value.clone();
            }
        }
    }

    fn store(&mut self, key: (String, String), pod: Value) -> Response {
        self.events.push_back(Event::Pod(pod.clone()));
        self.pods.insert(key, pod.clone());
        Response { status: 201, body: pod }
    }

    fn get(&self, namespace: &str, name: &str) -> Response {
        match self.pods.get(&(namespace.to_owned(), name.to_owned())) {
            Some(pod) => Response { status: 200, body: pod.clone() },
            None => not_found(name),
        }
    }

    fn delete(&mut self, namespace: &str, name: &str) -> Response {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(mut pod) = self.pods.get(&key).cloned() else { return not_found(name) };
        self.stamp(&mut pod);
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        if has_items(&pod, "/metadata/finalizers") {
            return Response { status: 200, ..self.store(key, pod) };
        }
        self.pods.remove(&key);
        self.events.push_back(Event::PodGone(pod.clone()));
        Response { status: 200, body: pod }
    }

    /// A merge patch of the scheduling gates, the only one that is made here.
    fn patch_gates(&mut self, namespace: &str, name: &str, body: &Value) -> Response {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(mut pod) = self.pods.get(&key).cloned() else { return not_found(name) };
        if let Some(gate) = body.pointer("/spec/schedulingGates/0/name").and_then(Value::as_str) {
            let message = format!(
                "Pod \"{name}\" is invalid: spec.schedulingGates[0].name: Forbidden: only deletion is allowed, \
                 but found new scheduling gate '{gate}'"
            );
            return failure(422, Some("Invalid"), message);
        }
        self.stamp(&mut pod);
        pod["spec"]["schedulingGates"] = Value::Null;
        Response { status: 200, ..self.store(key, pod) }
    }

    fn bind(&mut self, namespace: &str, name: &str, body: &Value, query: &str) -> Response {
        if text(body, "/metadata/name") != name {
            let message = "name in URL does not match name in Binding object".to_owned();
            return failure(400, Some("BadRequest"), message);
        }
        let (kind, target) = (text(body, "/target/kind"), text(body, "/target/name"));
        if !matches!(kind, "" | "Node") {
            let values = "supported values: \"Node\", \"<empty>\"";
            return failure(
                500,
                None,
                format!("target.kind: Unsupported value: \"{kind}\": {values}"),
            );
        }
        if target.is_empty() {
            return failure(500, None, "target.name: Required value".into());
        }
        let key = (namespace.to_owned(), name.to_owned());
        let Some(mut pod) = self.pods.get(&key).cloned() else { return not_found(name) };
        if let Some(refusal) = refusal(&pod, body) {
            return refusal;
        }
        let success = json!({"kind": "Status", "status": "Success", "code": 201});
        if !query.contains("dryRun=All") {
            self.stamp(&mut pod);
            pod["spec"]["nodeName"] = target.into();
            if let Some(annotations) = body.pointer("/metadata/annotations") {
                pod["metadata"]["annotations"] = annotations.clone();
            }
            self.copy_topology(&mut pod);
            *self.bound.entry(text(&pod, "/metadata/uid").to_owned()).or_default() += 1;
            self.store(key, pod);
        }
        Response { status: 201, body: success }
    }

    /// Whether the pods on each node fit, by the cpu in thousandths that they request.
    pub(crate) fn overcommitted(&self) -> Vec<String> {
        let mut used: BTreeMap<&str, u64> = BTreeMap::new();
        for pod in self.pods.values() {
            let request = text(pod, "/spec/containers/0/resources/requests/cpu");
            let milli = request.trim_end_matches('m').parse::<u64>().unwrap_or(0);
            *used.entry(text(pod, "/spec/nodeName")).or_default() += milli;
        }
        let over = |(name, node): &(&String, &Value)| {
            let has = text(node, "/status/allocatable/cpu").parse::<u64>().unwrap_or(0) * 1000;
            used.get(name.as_str()).is_some_and(|used| *used > has)
        };
        self.nodes.iter().filter(over).map(|(name, _)| name.clone()).collect()
    }
}

/// The conflict of a binding with the pod, if there is one.
fn refusal(pod: &Value, body: &Value) -> Option<Response> {
    let name = text(pod, "/metadata/name");
    let namespace = text(pod, "/metadata/namespace");
    let mut differs = None;
    for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let path = format!("/metadata/{field}");
        let (asked, is) = (text(body, &path), text(pod, &path));
        if !asked.is_empty() && asked != is && differs.is_none() {
            differs = Some(format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: {called} in precondition: {asked}, {called} in object \
                 meta: {is}"
            ));
        }
    }
    if let Some(differs) = differs {
        return Some(conflict("pods", name, &differs));
    }
    let why = if !text(pod, "/metadata/deletionTimestamp").is_empty() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !text(pod, "/spec/nodeName").is_empty() {
        format!("pod {name} is already assigned to node \"{}\"", text(pod, "/spec/nodeName"))
    } else if has_items(pod, "/spec/schedulingGates") {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return None;
    };
    Some(conflict("pods/binding", name, &why))
}
