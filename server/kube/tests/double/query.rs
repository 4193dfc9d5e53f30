//! Queries, and the selectors in them.

use super::text;
use serde_json::Value;
use std::collections::BTreeMap;

/// The query parameters of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let hex: Vec<u8> = rest.by_ref().take(2).collect();
                let hex = String::from_utf8_lossy(&hex).into_owned();
                bytes.push(u8::from_str_radix(&hex, 16).unwrap_or(b'?'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Query {
    pub(crate) fn parse(text: &str) -> Query {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Query(pairs.map(|(key, value)| (unescape(key), unescape(value))).collect())
    }

    /// Returns a parameter if it is present and not empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns a boolean parameter, read as the real server reads it: `false` and `0` are false, all other values are
    /// true, and so is a parameter with an empty value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.get(key).and_then(|value| value.parse().ok())
    }

    /// Returns the field and label selectors. The error is the name of a field by which objects cannot be selected.
    pub(crate) fn selector(&self) -> Result<Selector, String> {
        let mut terms = Vec::new();
        for term in split(self.get("fieldSelector")) {
            let term = Term::parse(term);
            match path(&term.key) {
                Some(path) => terms.push(Term { key: path.to_owned(), ..term }),
                None => return Err(term.key),
            }
        }
        let labels = split(self.get("labelSelector")).map(|term| {
            let term = Term::parse(term);
            let key = term.key.replace('~', "~0").replace('/', "~1");
            Term { key: format!("/metadata/labels/{key}"), ..term }
        });
        terms.extend(labels);
        Ok(Selector(terms))
    }
}

fn split(list: Option<&str>) -> impl Iterator<Item = &str> {
    list.into_iter().flat_map(|list| list.split(',')).filter(|term| !term.is_empty())
}

fn path(field: &str) -> Option<&'static str> {
    Some(match field {
        "metadata.name" => "/metadata/name",
        "metadata.namespace" => "/metadata/namespace",
        "spec.nodeName" => "/spec/nodeName",
        "spec.schedulerName" => "/spec/schedulerName",
        "status.phase" => "/status/phase",
        "status.nominatedNodeName" => "/status/nominatedNodeName",
        "involvedObject.name" | "regarding.name" => "/regarding/name",
        _ => return None,
    })
}

#[derive(Clone, Debug)]
struct Term {
    key: String,
    value: String,
    differs: bool,
}

impl Term {
    fn parse(term: &str) -> Term {
        let (key, value, differs) = match term.split_once("!=") {
            Some((key, value)) => (key, value, true),
            None => {
                let (key, value) = term.split_once('=').unwrap_or((term, ""));
                (key, value.trim_start_matches('='), false)
            }
        };
        Term { key: key.to_owned(), value: value.to_owned(), differs }
    }
}

/// A selector of objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector(Vec<Term>);

impl Selector {
    /// Whether the selector has a term.
    pub(crate) fn is_narrow(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn takes(&self, object: &Value) -> bool {
        self.0.iter().all(|term| (text(object, &term.key) == term.value) != term.differs)
    }
}
