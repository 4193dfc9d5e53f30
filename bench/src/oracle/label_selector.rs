//! Suite `label_selector`: the labels that a selector matches.

use crate::oracle::difference::Found;
use omega_workload::kube::api::{LabelSelector, or_default};
use omega_workload::kube::selector::labels_or_nothing;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A selector, labels, and whether the selector matches the labels.
#[derive(Deserialize)]
pub(super) struct Case {
    #[serde(rename = "id")]
    _id: Option<String>,
    /// The selector; `null` matches no labels, `{}` matches all.
    selector: Option<LabelSelector>,
    #[serde(default, deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
    matches: bool,
}

/// Compares Omega's match with the recorded one.
pub(super) fn replay(case: &Case) -> Found {
    let labels: omega_core::Labels =
        case.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let mut found = Found::default();
    let ours = labels_or_nothing(case.selector.as_ref()).matches(&labels);
    found.compare("matches", &case.matches, &ours);
    found
}
