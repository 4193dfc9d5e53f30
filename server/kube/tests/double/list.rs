//! Lists: versions, pages, continue tokens.

use super::query::Query;
use super::{Double, Key, Response, Target, failure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Token of a page, from which a list continues.
struct Token {
    version: u64,
    start: String,
}

impl Token {
    fn text(&self) -> String {
        // The order of fields is that of the real server.
        let start = Value::from(self.start.as_str());
        URL_SAFE_NO_PAD.encode(format!(
            "{{\"v\":\"meta.k8s.io/v1\",\"rv\":{},\"start\":{start}}}",
            self.version
        ))
    }

    fn parse(text: &str) -> Option<Token> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        let version = value["rv"].as_i64()?;
        let start = value["start"].as_str()?.to_owned();
        Some(Token { version: u64::try_from(version).unwrap_or(u64::MAX), start })
    }
}

/// The kind of the lists of a resource.
pub(super) fn list_kind(resource: &str) -> (String, String) {
    let (group, plural) = resource.rsplit_once('/').unwrap_or_default();
    let version = group.trim_start_matches("/apis/").trim_start_matches("/api/");
    let kind = super::discovery::kind(plural);
    (format!("{kind}List"), version.to_owned())
}

impl Double {
    /// Returns all objects as they were at a version.
    pub(super) fn at(&self, version: u64) -> BTreeMap<Key, Arc<Value>> {
        let mut objects = self.objects.clone();
        for change in self.changes.iter().rev().take_while(|change| change.version > version) {
            match &change.old {
                Some(old) => objects.insert(change.key.clone(), Arc::clone(old)),
                None => objects.remove(&change.key),
            };
        }
        objects
    }

    pub(super) fn list(&self, target: &Target, query: &Query) -> Response {
        let selector = match query.selector() {
            Ok(selector) => selector,
            Err(field) => {
                let message = format!("field label not supported: {field}");
                return failure(400, Some("BadRequest"), message);
            }
        };
        let (version, start) = match self.from(query) {
            Ok(from) => from,
            Err(refusal) => return refusal,
        };
        let limit = query.number("limit").filter(|limit| *limit > 0);
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let objects = self.at(version);
        let found = objects.iter().filter(|(key, object)| {
            let place = place(target, key);
            key.resource == target.resource
                && (target.namespace.is_empty() || key.namespace == target.namespace)
                && place > start
                && selector.takes(object)
        });
        let found: Vec<_> = found.collect();
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if found.len() > limit {
            let start = format!("{}\0", place(target, found[limit - 1].0));
            metadata["continue"] = Token { version, start }.text().into();
            // With a selector, the real server does not count the rest.
            if !selector.is_narrow() {
                metadata["remainingItemCount"] = (found.len() - limit).into();
            }
        }
        let items: Vec<Value> =
            found.iter().take(limit).map(|(_, object)| Value::clone(object)).collect();
        let (kind, api) = list_kind(&target.resource);
        Response {
            status: 200,
            body: json!({"kind": kind, "apiVersion": api, "metadata": metadata, "items": items}),
        }
    }

    /// Returns the version of a list, and the position from which the list continues.
    fn from(&self, query: &Query) -> Result<(u64, String), Response> {
        if let Some(text) = query.get("continue") {
            let Some(token) = Token::parse(text) else {
                let message = "invalid continue token: continue key is not valid: invalid character 'i' looking for \
                               beginning of value";
                return Err(failure(400, Some("BadRequest"), message.into()));
            };
            if token.version < self.compacted {
                let message = "The provided continue parameter is too old to display a consistent list result. You can \
                               start a new list without the continue parameter, or use the continue token in this \
                               response to retrieve the remainder of the results. Continuing with the provided token \
                               results in an inconsistent list - objects that were created, modified, or deleted between \
                               the time the first chunk was returned and now may show up in the list.";
                let mut refusal = failure(410, Some("Expired"), message.into());
                let start = token.start;
                let start = Value::from(start.as_str());
                let token = URL_SAFE_NO_PAD
                    .encode(format!("{{\"v\":\"meta.k8s.io/v1\",\"rv\":-1,\"start\":{start}}}"));
                refusal.body["metadata"]["continue"] = token.into();
                return Err(refusal);
            }
            return Ok((token.version.min(self.version), token.start));
        }
        let requests = query.number("resourceVersion").unwrap_or(0);
        if requests > self.version {
            let (requests, now) = (requests, self.version);
            let message =
                format!("Timeout: Too large resource version: {requests}, current: {now}");
            let mut refusal = failure(504, Some("Timeout"), message);
            refusal.body["details"] = json!({"causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1});
            return Err(refusal);
        }
        if query.get("resourceVersionMatch") == Some("Exact") {
            if requests < self.compacted {
                let message = "The resourceVersion for the provided list is too old.";
                return Err(failure(410, Some("Expired"), message.into()));
            }
            return Ok((requests, String::new()));
        }
        Ok((self.version, String::new()))
    }
}

/// Position of an object in the order of a list.
fn place(target: &Target, key: &Key) -> String {
    // The position has the same form as in the tokens of the real server.
    match (target.namespace.is_empty(), key.namespace.is_empty()) {
        (true, true) => format!("/{}", key.name),
        (true, false) => format!("{}/{}", key.namespace, key.name),
        (false, _) => format!("/{}", key.name),
    }
}
