//! A double of the API server: resource versions, lists, watches, bindings, patches, preconditions of requests.
//!
//! Its answers equal those of a real kube-apiserver v1.36.2. `../it/replay.rs` checks this with recorded transcripts. Tests
//! call it in the process, or over HTTP ([`http`]).

pub(crate) mod admission;
mod bind;
mod discovery;
pub(crate) mod forbid;
pub(crate) mod hostile;
pub(crate) mod http;
mod list;
mod objects;
pub(crate) mod query;
mod watch;

use self::admission::Plugin;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// Key of an object: the path of its collection without the namespace, its namespace and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) old: Option<Arc<Value>>,
    /// The new form; for a deletion, the last form with the version of the deletion.
    pub(crate) new: Arc<Value>,
    pub(crate) gone: bool,
}

/// A binding that was carried out, for checks at the end of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) uid: String,
    pub(crate) pod: String,
    pub(crate) node: String,
}

/// The server's state.
#[derive(Default)]
pub(crate) struct Double {
    pub(crate) version: u64,
    /// The uids of the next objects. When there are no more, uids are numbers.
    pub(crate) uids: VecDeque<String>,
    pub(crate) objects: BTreeMap<Key, Arc<Value>>,
    pub(crate) changes: Vec<Change>,
    /// Changes up to this version were removed by compaction.
    pub(crate) compacted: u64,
    /// All bindings that were carried out, in order.
    pub(crate) audit: Vec<Bound>,
    /// Number of watches opened so far.
    pub(crate) watches: u32,
    /// Whether pods do not get the topology labels of their nodes, as before Kubernetes 1.35.
    pub(crate) no_topology_labels: bool,
    /// Whether alpha APIs are off, as by default.
    pub(crate) no_alpha: bool,
    /// The admission plugins that are on.
    pub(crate) plugins: &'static [Plugin],
    /// The time of a transcript, which is written into objects; `None` means the real time.
    pub(crate) clock: Option<String>,
}

pub(crate) const PODS: &str = "/api/v1/pods";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
pub(crate) const CLAIMS: &str = "/api/v1/persistentvolumeclaims";
pub(crate) const VOLUMES: &str = "/api/v1/persistentvolumes";
pub(crate) const STORAGE: &str = "/apis/storage.k8s.io/v1";
pub(crate) const GROUPS: &str = "/apis/scheduling.k8s.io/v1alpha2/podgroups";
pub(crate) const WORKLOADS: &str = "/apis/scheduling.k8s.io/v1alpha2/workloads";
pub(crate) const BUDGETS: &str = "/apis/policy/v1/poddisruptionbudgets";

pub(crate) fn failure(status: u16, reason: Option<&str>, message: String) -> Response {
    let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "code": status});
    if let Some(reason) = reason {
        body["reason"] = reason.into();
    }
    Response { status, body }
}

fn conflict(what: &str, name: &str, why: &str) -> Response {
    let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
    failure(409, Some("Conflict"), message)
}

/// Returns a text of an object by its path; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn has_items(value: &Value, path: &str) -> bool {
    value.pointer(path).and_then(Value::as_array).is_some_and(|items| !items.is_empty())
}

/// A path of the API, split into its parts.
pub(crate) struct Target {
    /// The path of the collection without the namespace.
    pub(crate) resource: String,
    /// The name of the collection with its group, as error messages have it.
    pub(crate) called: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) sub: String,
}

impl Target {
    /// Splits a path into its parts; `None` if the path is not that of an object or collection.
    pub(crate) fn of(path: &str) -> Option<Target> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let (prefix, group, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => (format!("/api/{version}"), "", rest),
            ["apis", group, version, rest @ ..] => {
                (format!("/apis/{group}/{version}"), *group, rest)
            }
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..]
                if !matches!(rest, [] | ["status" | "finalize"]) =>
            {
                (*namespace, rest)
            }
            rest => ("", rest),
        };
        let (resource, name, sub) = match rest {
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            [resource, name, sub] => (*resource, *name, *sub),
            _ => return None,
        };
        let called = if group.is_empty() { resource.into() } else { format!("{resource}.{group}") };
        Some(Target {
            resource: format!("{prefix}/{resource}"),
            called,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            sub: sub.to_owned(),
        })
    }

    pub(crate) fn key(&self) -> Key {
        let (resource, namespace) = (self.resource.clone(), self.namespace.clone());
        Key { resource, namespace, name: self.name.clone() }
    }
}

impl Double {
    /// Answers a call that is not a watch; a PATCH is a strategic merge patch.
    pub(crate) fn call(&mut self, method: &str, path: &str, body: &Value) -> Response {
        self.call_as(method, path, "application/strategic-merge-patch+json", body)
    }

    /// Answers a call with a body of this content type. The call is not a watch.
    pub(crate) fn call_as(
        &mut self,
        method: &str,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Response {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let missing = || {
            failure(
                404,
                Some("NotFound"),
                "the server could not find the requested resource".into(),
            )
        };
        if self.no_alpha && path.contains("/v1alpha") {
            return missing();
        }
        if let Some(found) = discovery::answer(method, path) {
            return found;
        }
        let Some(target) = Target::of(path) else { return missing() };
        let query = query::Query::parse(query);
        match (method, target.name.as_str(), target.sub.as_str()) {
            ("GET", "", _) => self.list(&target, &query),
            ("GET", _, "" | "status") => self.get(&target),
            ("POST", "", _) if target.resource == "/api/v1/bindings" => {
                let name = text(body, "/metadata/name").to_owned();
                self.bind(&target.namespace, &name, body, &query)
            }
            ("POST", name, "binding") => self.bind(&target.namespace, name, body, &query),
            ("POST", _, "eviction") => self.evict(&target, body),
            ("POST", "", _) => self.create(&target, body),
            ("PUT", _, _) => self.update(&target, body),
            ("PATCH", _, _) => self.patch(&target, content, body),
            ("DELETE", name, "") if !name.is_empty() => self.delete(&target, body),
            _ => missing(),
        }
    }

    /// Gives an object the next version.
    fn stamp(&mut self, object: &mut Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
    }

    /// Stores an object in a new version, if it has changed.
    pub(crate) fn store(&mut self, key: Key, mut object: Value) -> Value {
        if let Some(known) = self.objects.get(&key) {
            object["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"].clone();
            if object == **known {
                return object;
            }
        }
        self.stamp(&mut object);
        let new = Arc::new(object.clone());
        let old = self.objects.insert(key.clone(), Arc::clone(&new));
        self.changes.push(Change { version: self.version, key, old, new, gone: false });
        object
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Value> {
        let old = self.objects.remove(key)?;
        let mut last = Value::clone(&old);
        self.stamp(&mut last);
        let new = Arc::new(last.clone());
        let (version, old) = (self.version, Some(old));
        self.changes.push(Change { version, key: key.clone(), old, new, gone: true });
        Some(last)
    }

    /// Removes changes up to now, so that older watches and lists expire.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.version;
        self.changes.clear();
    }

    /// Goes back to a version, as a server that is restored from a backup.
    pub(crate) fn restore(&mut self, version: u64) {
        self.objects = self.at(version);
        self.changes.retain(|change| change.version <= version);
        self.version = version;
    }

    /// Returns the objects of a resource.
    pub(crate) fn all(&self, resource: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.objects
            .iter()
            .filter(move |(key, _)| key.resource == resource)
            .map(|(_, object)| object)
    }

    /// Deletes a node. Its pods stay.
    pub(crate) fn delete_node(&mut self, name: &str) {
        let key = Key { resource: NODES.into(), namespace: String::new(), name: name.into() };
        self.remove(&key);
    }

    /// Number of bindings of each uid.
    pub(crate) fn bound(&self) -> BTreeMap<&str, u32> {
        let mut bound = BTreeMap::new();
        self.audit.iter().for_each(|binding| *bound.entry(binding.uid.as_str()).or_default() += 1);
        bound
    }

    /// Returns the nodes whose pods request more thousandths of a core than the node has.
    pub(crate) fn overcommitted(&self) -> Vec<String> {
        let mut used: BTreeMap<&str, u64> = BTreeMap::new();
        for pod in self.all(PODS) {
            let request = text(pod, "/spec/containers/0/resources/requests/cpu");
            let milli = request.trim_end_matches('m').parse::<u64>().unwrap_or(0);
            *used.entry(text(pod, "/spec/nodeName")).or_default() += milli;
        }
        let over = |node: &&Arc<Value>| {
            let has = text(node, "/status/allocatable/cpu").parse::<u64>().unwrap_or(0) * 1000;
            used.get(text(node, "/metadata/name")).is_some_and(|used| *used > has)
        };
        self.all(NODES).filter(over).map(|node| text(node, "/metadata/name").to_owned()).collect()
    }
}
