//! Creation, updates, patches and deletion of objects.

use super::{Double, NODES, PODS, Response, Target, conflict, failure, has_items, text};
use omega_kube::client::time;
use serde_json::{Value, json};
use std::time::SystemTime;

/// Lists of objects that are merged by a key, by their field.
const MERGED: [(&str, &str); 4] =
    [("conditions", "type"), ("containers", "name"), ("taints", "key"), ("tolerations", "key")];

/// Merges a patch into a value, as a strategic merge patch does.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (field, value) in patch.iter().filter(|(field, _)| !field.starts_with('$')) {
        let key = MERGED.iter().find(|(list, _)| list == field).map(|(_, key)| *key);
        match (value, key) {
            (Value::Null, _) => {
                into.as_object_mut().expect("it is one").remove(field);
            }
            (Value::Array(items), Some(key)) => merge_items(&mut into[field], items, key),
            (value, _) => merge(&mut into[field], value),
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
            Some(known) => merge(known, item),
            None => list.push(item.clone()),
        }
    }
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
        if !target.namespace.is_empty() {
            object["metadata"]["namespace"] = target.namespace.as_str().into();
        }
        let letter = if target.resource == NODES { 'n' } else { 'p' };
        let next = format!("{letter}{}", self.version + 1);
        object["metadata"]["uid"] = self.uids.pop_front().unwrap_or(next).into();
        object["metadata"]["creationTimestamp"] = self.now().into();
        if target.resource == PODS {
            if object.pointer("/status/phase").is_none() {
                object["status"]["phase"] = "Pending".into();
            }
            if text(&object, "/spec/schedulerName").is_empty() {
                object["spec"]["schedulerName"] = "default-scheduler".into();
            }
            self.copy_topology(&mut object);
        }
        let body = self.store(named.key(), object);
        Response { status: 201, body }
    }

    pub(super) fn update(&mut self, target: &Target, body: &Value) -> Response {
        let Some(known) = self.objects.get(&target.key()) else { return Double::missing(target) };
        let asked = text(body, "/metadata/resourceVersion");
        if !asked.is_empty() && asked != text(known, "/metadata/resourceVersion") {
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
        Response { status: 200, body: self.store(target.key(), object) }
    }

    pub(super) fn patch(&mut self, target: &Target, body: &Value) -> Response {
        let Some(known) = self.objects.get(&target.key()) else { return Double::missing(target) };
        let name = &target.name;
        let asked = text(body, "/metadata/uid");
        if !asked.is_empty() && asked != text(known, "/metadata/uid") {
            let is = text(known, "/metadata/uid");
            let message = format!(
                "Pod \"{name}\" is invalid: metadata.uid: Invalid value: \"{asked}\": field is immutable (is {is})"
            );
            return failure(422, Some("Invalid"), message);
        }
        let asked = text(body, "/metadata/resourceVersion");
        if !asked.is_empty() && asked != text(known, "/metadata/resourceVersion") {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return conflict(&target.called, name, why);
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
            merge(&mut object["status"], &body["status"]);
        } else {
            merge(&mut object, body);
        }
        Response { status: 200, body: self.store(target.key(), object) }
    }

    pub(super) fn delete(&mut self, target: &Target, body: &Value) -> Response {
        let Some(known) = self.objects.get(&target.key()) else { return Double::missing(target) };
        for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
            let asked = text(body, &format!("/preconditions/{field}"));
            let is = text(known, &format!("/metadata/{field}"));
            if !asked.is_empty() && asked != is {
                let why = format!(
                    "the {called} in the precondition ({asked}) does not match the {called} in record ({is}). The \
                     object might have been deleted and then recreated"
                );
                return conflict(&target.called, &target.name, &why);
            }
        }
        let waits =
            body["gracePeriodSeconds"] != 0 && target.resource == PODS && self.is_running(target);
        let known = &self.objects[&target.key()];
        let mut object = Value::clone(known);
        if has_items(known, "/metadata/finalizers") || waits {
            object["metadata"]["deletionTimestamp"] = self.now().into();
            return Response { status: 200, body: self.store(target.key(), object) };
        }
        Response { status: 200, body: self.remove(&target.key()).unwrap_or_default() }
    }

    /// Whether a kubelet has to end the pod first.
    fn is_running(&self, target: &Target) -> bool {
        self.objects.get(&target.key()).is_some_and(|pod| text(pod, "/status/phase") == "Running")
    }

    /// Ends pods that are being deleted, as kubelets would.
    pub(crate) fn end_deleted(&mut self) {
        let ended = self.objects.iter().filter(|(key, pod)| {
            key.resource == PODS
                && !text(pod, "/metadata/deletionTimestamp").is_empty()
                && !has_items(pod, "/metadata/finalizers")
        });
        let ended: Vec<_> = ended.map(|(key, _)| key.clone()).collect();
        ended.iter().for_each(|key| drop(self.remove(key)));
    }

    pub(super) fn evict(&mut self, target: &Target, body: &Value) -> Response {
        let answer = self.delete(target, &body["deleteOptions"]);
        if answer.status != 200 {
            return answer;
        }
        let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Response { status: 201, body }
    }
}
