//! Watches: the events that follow a version.

use super::query::{Query, Selector};
use super::{Change, Double, Response, Target, failure};
use serde_json::{Value, json};
use std::sync::Arc;

/// A watch.
pub(crate) struct Watch {
    target: Target,
    selector: Selector,
    /// The version up to which events were sent.
    pub(crate) version: u64,
    bookmarks: bool,
    /// Objects of the initial list, which are sent first.
    initial: Vec<Arc<Value>>,
    /// Whether a bookmark is sent after the initial list.
    ends_initial: bool,
}

fn event(kind: &str, object: &Value) -> Value {
    json!({"type": kind, "object": object})
}

impl Double {
    /// Opens a watch, or rejects it.
    pub(crate) fn watch(&self, target: Target, query: &Query) -> Result<Watch, Response> {
        let selector = query.selector().map_err(|field| {
            failure(400, Some("BadRequest"), format!("field label not supported: {field}"))
        })?;
        let sends = query.has("sendInitialEvents");
        if sends && query.get("resourceVersionMatch") != Some("NotOlderThan") {
            let message = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: \
                           sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(failure(422, Some("Invalid"), message.into()));
        }
        let requests = query.number("resourceVersion").unwrap_or(0);
        let from_start = sends || requests == 0;
        let mut initial = Vec::new();
        if from_start {
            let found = self.objects.iter().filter(|(key, object)| {
                key.resource == target.resource
                    && (target.namespace.is_empty() || key.namespace == target.namespace)
                    && selector.takes(object)
            });
            initial.extend(found.map(|(_, object)| Arc::clone(object)));
        }
        let version = if from_start { self.version } else { requests };
        let bookmarks = query.has("allowWatchBookmarks");
        Ok(Watch { target, selector, version, bookmarks, initial, ends_initial: sends })
    }

    /// Returns the next events of a watch. After an ERROR event there are no others.
    pub(crate) fn events(&self, watch: &mut Watch) -> Vec<Value> {
        let mut events: Vec<Value> =
            watch.initial.drain(..).map(|object| event("ADDED", &object)).collect();
        if std::mem::take(&mut watch.ends_initial) {
            let ends = json!({"k8s.io/initial-events-end": "true"});
            let mut bookmark = self.bookmark(watch);
            bookmark["object"]["metadata"]["annotations"] = ends;
            events.push(bookmark);
        }
        if watch.version < self.compacted {
            let (requests, oldest) = (watch.version, self.compacted);
            let message = format!("too old resource version: {requests} ({oldest})");
            events.push(event("ERROR", &failure(410, Some("Expired"), message).body));
            return events;
        }
        let after = self.changes.partition_point(|change| change.version <= watch.version);
        events.extend(self.changes[after..].iter().filter_map(|change| watch.see(change)));
        watch.version = watch.version.max(self.version);
        events
    }

    /// Returns a bookmark at the watch's version.
    pub(crate) fn bookmark(&self, watch: &Watch) -> Value {
        let (list, api) = super::list::list_kind(&watch.target.resource);
        let kind = list.trim_end_matches("List");
        event(
            "BOOKMARK",
            &json!({"kind": kind, "apiVersion": api,
                "metadata": {"resourceVersion": watch.version.to_string()}}),
        )
    }
}

impl Watch {
    /// Whether the call requested bookmarks.
    pub(crate) fn wants_bookmarks(&self) -> bool {
        self.bookmarks
    }

    /// Returns the event that this watch gets for a change.
    fn see(&self, change: &Change) -> Option<Value> {
        let (key, target) = (&change.key, &self.target);
        let watched = key.resource == target.resource
            && (target.namespace.is_empty() || key.namespace == target.namespace)
            && (target.name.is_empty() || key.name == target.name);
        if !watched {
            return None;
        }
        let was = change.old.as_ref().is_some_and(|old| self.selector.takes(old));
        let is = !change.gone && self.selector.takes(&change.new);
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(event("ADDED", &change.new)),
            (true, true) => Some(event("MODIFIED", &change.new)),
            (true, false) if change.gone => Some(event("DELETED", &change.new)),
            (true, false) => {
                // The object is no longer selected, so the event has the last selected form, with the version of the
                // change.
                let mut last = Value::clone(change.old.as_ref()?);
                last["metadata"]["resourceVersion"] = change.version.to_string().into();
                Some(event("DELETED", &last))
            }
        }
    }
}
