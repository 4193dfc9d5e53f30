//! Creation, updates, patches and deletion of objects.

use super::{
    BUDGETS, Double, NAMESPACES, NODES, PODS, Response, Target, conflict, failure, has_items, text,
};
use omega_kube::client::time;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::SystemTime;

/// Lists whose elements are merged by a key, with the field that is the key.
const MERGED: [(&str, &str); 4] =
    [("conditions", "type"), ("containers", "name"), ("taints", "key"), ("tolerations", "key")];

/// Resources whose deletion is answered with a `Status`. Other deletions are answered with the deleted object.
const TOLD: [&str; 5] = [
    "nodes",
    "leases.coordination.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
    "poddisruptionbudgets.policy",
];

/// Treatment of lists by a patch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// Lists are merged by a key, if their elements have one.
    Merged,
    /// Lists are replaced.
    Replaced,
}

/// Merges a patch into a value.
fn merge(into: &mut Value, patch: &Value, lists: Lists) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (field, value) in patch.iter().filter(|(field, _)| !field.starts_with('$')) {
        let key = MERGED.iter().find(|(list, _)| list == field && lists == Lists::Merged);
        let key = key.map(|(_, key)| *key);
        match (value, key) {
            // The time of a condition's last probe is always null.
            (Value::Null, _) if field == "lastProbeTime" => into[field] = Value::Null,
            (Value::Null, _) => {
                into.as_object_mut().expect("it is one").remove(field);
            }
            (Value::Array(items), Some(key)) => merge_items(&mut into[field], items, key),
            (value, _) => merge(&mut into[field], value, lists),
        }
    }
}

fn merge_items(into: &mut Value, items: &[Value], key: &str) {
    if !into.is_array() {
        *into = json!([]);
    }
    let list = into.as_array_mut().expect("it is one");
    for item in items {
        match list.iter_mut().find(|known| known[key] == item[key]) {
            Some(known) => merge(known, item, Lists::Merged),
            None => list.push(item.clone()),
        }
    }
}

/// Whether finalizers keep an object that is deleted.
fn is_kept(object: &Value) -> bool {
    // Those of a namespace are in its `spec`.
    has_items(object, "/metadata/finalizers") || has_items(object, "/spec/finalizers")
}

impl Double {
    fn now(&self) -> String {
        self.clock.clone().unwrap_or_else(|| time::seconds(SystemTime::now()))
    }

    fn missing(target: &Target) -> Response {
        let message = format!("{} \"{}\" not found", target.called, target.name);
        let mut missing = failure(404, Some("NotFound"), message);
        missing.body["details"] = json!({"name": target.name, "kind": target.called});
        missing
    }

    pub(super) fn get(&self, target: &Target) -> Response {
        match self.objects.get(&target.key()) {
            Some(object) => Response { status: 200, body: Value::clone(object) },
            None => Double::missing(target),
        }
    }

    pub(super) fn create(&mut self, target: &Target, body: &Value) -> Response {
        let mut object = body.clone();
        if text(&object, "/metadata/name").is_empty() {
            let name = format!("{}{:x}", text(&object, "/metadata/generateName"), self.version);
            object["metadata"]["name"] = name.into();
        }
        let name = text(&object, "/metadata/name").to_owned();
        let named = Target {
            name: name.clone(),
            resource: target.resource.clone(),
            called: target.called.clone(),
            namespace: target.namespace.clone(),
            sub: String::new(),
        };
        if self.objects.contains_key(&named.key()) {
            let message = format!("{} \"{name}\" already exists", target.called);
            return failure(409, Some("AlreadyExists"), message);
        }
        if let Some(refusal) = self.rejection(target, &object) {
            return refusal;
        }
        if !target.namespace.is_empty() {
            object["metadata"]["namespace"] = target.namespace.as_str().into();
        }
        let letter = if target.resource == NODES { 'n' } else { 'p' };
        let next = format!("{letter}{}", self.version + 1);
        object["metadata"]["uid"] = self.uids.pop_front().unwrap_or(next).into();
        object["metadata"]["creationTimestamp"] = self.now().into();
        self.complete(target, &mut object);
        let body = self.store(named.key(), object);
        Response { status: 201, body }
    }

    pub(super) fn update(&mut self, target: &Target, body: &Value) -> Response {
        let Some(known) = self.objects.get(&target.key()) else { return Double::missing(target) };
        let requests = text(body, "/metadata/resourceVersion");
        if !requests.is_empty() && requests != text(known, "/metadata/resourceVersion") {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return conflict(&target.called, &target.name, why);
        }
        let mut object = Value::clone(known);
        if target.sub == "status" {
            object["status"] = body["status"].clone();
        } else {
            let (metadata, status) = (object["metadata"].clone(), object["status"].clone());
            object = body.clone();
            for field in ["uid", "creationTimestamp", "namespace"] {
                if let Some(value) = metadata.get(field) {
                    object["metadata"][field] = value.clone();
                }
            }
            if !status.is_null() && target.resource == PODS {
                object["status"] = status;
            }
        }
        Response { status: 200, body: self.settle(target, object) }
    }

    /// Stores a changed object. An object that waited for its last finalizer is removed.
    fn settle(&mut self, target: &Target, object: Value) -> Value {
        let ends = object.pointer("/metadata/deletionGracePeriodSeconds") == Some(&json!(0));
        if !ends || is_kept(&object) {
            return self.store(target.key(), object);
        }
        self.remove(&target.key());
        object
    }

    pub(super) fn patch(&mut self, target: &Target, content: &str, body: &Value) -> Response {
        let merged = content.contains("strategic");
        let lists = if merged { Lists::Merged } else { Lists::Replaced };
        let Some(known) = self.objects.get(&target.key()) else { return Double::missing(target) };
        let name = &target.name;
        let requests = text(body, "/metadata/uid");
        if !requests.is_empty() && requests != text(known, "/metadata/uid") {
            let message = format!(
                "Pod \"{name}\" is invalid: metadata.uid: Invalid value: \"{requests}\": field is immutable"
            );
            return failure(422, Some("Invalid"), message);
        }
        let requests = text(body, "/metadata/resourceVersion");
        if !requests.is_empty() && requests != text(known, "/metadata/resourceVersion") {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return conflict(&target.called, name, why);
        }
        if body
            .pointer("/spec/schedulerName")
            .is_some_and(|name| *name != known["spec"]["schedulerName"])
        {
            let message = format!(
                "Pod \"{name}\" is invalid: spec: Forbidden: pod updates may not change fields"
            );
            return failure(422, Some("Invalid"), message);
        }
        if let Some(gate) = body.pointer("/spec/schedulingGates/0/name").and_then(Value::as_str) {
            let message = format!(
                "Pod \"{name}\" is invalid: spec.schedulingGates[0].name: Forbidden: only deletion is allowed, \
                 but found new scheduling gate '{gate}'"
            );
            return failure(422, Some("Invalid"), message);
        }
        let mut object = Value::clone(known);
        if target.sub == "status" {
            merge(&mut object["status"], &body["status"], lists);
        } else {
            merge(&mut object, body, lists);
        }
        Response { status: 200, body: self.settle(target, object) }
    }

    pub(super) fn delete(&mut self, target: &Target, body: &Value) -> Response {
        let Some(known) = self.objects.get(&target.key()) else { return Double::missing(target) };
        for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let requests = text(body, &format!("/preconditions/{field}"));
            let is = text(known, &format!("/metadata/{field}"));
            if !requests.is_empty() && requests != is {
                let fate = if field == "uid" { "deleted and then recreated" } else { "modified" };
                let why = format!(
                    "the {called} in the precondition ({requests}) does not match the {called} in record ({is}). The \
                     object might have been {fate}"
                );
                let (_, plural) = target.resource.rsplit_once('/').unwrap_or_default();
                return conflict(super::discovery::kind(plural), &target.name, &why);
            }
        }
        let known = &self.objects[&target.key()];
        let grace = Double::grace(target, known, body);
        let mut object = Value::clone(known);
        if grace > 0 && !text(known, "/metadata/deletionTimestamp").is_empty() {
            return Response { status: 200, body: object };
        }
        if is_kept(known) || grace > 0 {
            object["metadata"]["deletionTimestamp"] = self.now().into();
            object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            if target.resource == NAMESPACES {
                object["status"]["phase"] = "Terminating".into();
            }
            return Response { status: 200, body: self.store(target.key(), object) };
        }
        if target.resource == PODS {
            // The last form of a pod shows that it was deleted.
            object["metadata"]["deletionTimestamp"] = self.now().into();
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            self.objects.insert(target.key(), Arc::new(object));
        }
        let last = self.remove(&target.key()).unwrap_or_default();
        if !TOLD.iter().any(|plural| target.called == *plural) {
            return Response { status: 200, body: last };
        }
        let (kind, group) = target.called.split_once('.').unwrap_or((&target.called, ""));
        let mut details =
            json!({"name": target.name, "kind": kind, "uid": last["metadata"]["uid"]});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": details});
        Response { status: 200, body }
    }

    /// Adds the condition `PodScheduled` to a pod that is bound.
    pub(super) fn note_scheduled(&self, pod: &mut Value) {
        let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": self.now()});
        let conditions = &mut pod["status"]["conditions"];
        if let Some(all) = conditions.as_array_mut() {
            all.retain(|known| known["type"] != "PodScheduled");
        }
        merge_items(conditions, &[condition], "type");
    }

    /// Returns the grace period of a deleted pod in seconds; 0 if the pod is not on a node, or has ended.
    fn grace(target: &Target, pod: &Value, body: &Value) -> u64 {
        let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        if target.resource != PODS || text(pod, "/spec/nodeName").is_empty() || ended {
            return 0;
        }
        let requests = body["gracePeriodSeconds"].as_u64();
        requests.or(pod["spec"]["terminationGracePeriodSeconds"].as_u64()).unwrap_or(30)
    }

    /// Ends a pod that is being deleted, as its kubelet would.
    pub(crate) fn end(&mut self, namespace: &str, name: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        self.call("DELETE", &path, &json!({"gracePeriodSeconds": 0}));
    }

    pub(super) fn evict(&mut self, target: &Target, body: &Value) -> Response {
        let pod = self.objects.get(&target.key());
        let guards = |budget: &Value| {
            let wanted = budget.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
            let labels = pod.map(|pod| &pod["metadata"]["labels"]);
            wanted.is_some_and(|wanted| {
                wanted.iter().all(|(key, value)| labels.is_some_and(|labels| labels[key] == *value))
            })
        };
        // The double has no controller for budgets, so an eviction that a budget covers is never allowed.
        if self.all(BUDGETS).any(|budget| guards(budget)) {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            return failure(429, Some("TooManyRequests"), message.into());
        }
        let answer = self.delete(target, &body["deleteOptions"]);
        if answer.status != 200 {
            return answer;
        }
        let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Response { status: 201, body }
    }
}
