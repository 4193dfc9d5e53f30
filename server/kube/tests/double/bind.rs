//! The binding subresource and its conflicts.

use super::query::Query;
use super::{Bound, Double, Key, NODES, PODS, Response, conflict, failure, has_items, text};
use serde_json::{Value, json};

fn not_found(name: &str) -> Response {
    failure(404, Some("NotFound"), format!("pods \"{name}\" not found"))
}

impl Double {
    /// Copies the labels of topology from a pod's node, as admission does.
    pub(super) fn copy_topology(&self, pod: &mut Value) {
        let name = text(pod, "/spec/nodeName").to_owned();
        let key = Key { resource: NODES.into(), namespace: String::new(), name };
        let Some(node) = self.objects.get(&key).filter(|_| !self.no_topology_labels) else {
            return;
        };
        for key in ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"] {
            if let Some(value) = node["metadata"]["labels"].get(key) {
                pod["metadata"]["labels"][key] = value.clone();
            }
        }
    }

    pub(super) fn bind(
        &mut self,
        namespace: &str,
        name: &str,
        body: &Value,
        query: &Query,
    ) -> Response {
        if text(body, "/metadata/name") != name {
            let message = "name in URL does not match name in Binding object".to_owned();
            return failure(400, Some("BadRequest"), message);
        }
        let (kind, target) = (text(body, "/target/kind"), text(body, "/target/name"));
        if !matches!(kind, "" | "Node") {
            let values = "supported values: \"Node\", \"<empty>\"";
            let message = format!("target.kind: Unsupported value: \"{kind}\": {values}");
            return failure(500, None, message);
        }
        if target.is_empty() {
            return failure(500, None, "target.name: Required value".into());
        }
        let (resource, namespace) = (PODS.to_owned(), namespace.to_owned());
        let key = Key { resource, namespace, name: name.to_owned() };
        let Some(mut pod) = self.objects.get(&key).map(|pod| Value::clone(pod)) else {
            return not_found(name);
        };
        if let Some(refusal) = refusal(&pod, body) {
            return refusal;
        }
        let success = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        if query.get("dryRun") != Some("All") {
            pod["spec"]["nodeName"] = target.into();
            if let Some(status) = pod["status"].as_object_mut() {
                status.remove("nominatedNodeName");
            }
            if let Some(annotations) = body.pointer("/metadata/annotations") {
                pod["metadata"]["annotations"] = annotations.clone();
            }
            self.copy_topology(&mut pod);
            self.note_scheduled(&mut pod);
            let (uid, node) = (text(&pod, "/metadata/uid").to_owned(), target.to_owned());
            self.audit.push(Bound { uid, pod: name.to_owned(), node });
            self.store(key, pod);
        }
        Response { status: 201, body: success }
    }

    /// Binds a pod as another scheduler would.
    pub(crate) fn bind_elsewhere(&mut self, namespace: &str, name: &str, node: &str) {
        let body = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
        self.bind(namespace, name, &body, &Query::default());
    }
}

/// Returns the conflict between a binding and the present pod, if there is one.
fn refusal(pod: &Value, body: &Value) -> Option<Response> {
    let name = text(pod, "/metadata/name");
    let namespace = text(pod, "/metadata/namespace");
    for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let path = format!("/metadata/{field}");
        let (requests, is) = (text(body, &path), text(pod, &path));
        if !requests.is_empty() && requests != is {
            let differs = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{namespace}/{name}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: {called} in precondition: {requests}, {called} in object \
                 meta: {is}"
            );
            return Some(conflict("pods", name, &differs));
        }
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
