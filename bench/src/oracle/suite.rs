//! The suites, and which of them a case is of.

use super::difference::Found;
use super::line::Line;
use super::{
    balanced_allocation, fit, label_selector, node_affinity, pod_requests, quantity,
    taint_toleration,
};
use crate::workload::LoadError;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    Quantity,
    PodRequests,
    LabelSelector,
    Fit,
    BalancedAllocation,
    NodeAffinity,
    TaintToleration,
}

/// What tells the suite of a case.
#[derive(Deserialize)]
#[serde(expecting = "a case, which is an object")]
pub(super) struct Head {
    pub(super) id: Option<String>,
    /// Only a quantity is read `in`.
    r#in: Option<IgnoredAny>,
    /// Only a selector `matches`.
    matches: Option<IgnoredAny>,
}

impl Suite {
    /// All suites with their names. Of two names that begin alike the longer one is first.
    const ALL: [(&str, Suite); 7] = [
        ("balanced_allocation", Suite::BalancedAllocation),
        ("fit", Suite::Fit),
        ("label_selector", Suite::LabelSelector),
        ("node_affinity", Suite::NodeAffinity),
        ("pod_requests", Suite::PodRequests),
        ("quantity", Suite::Quantity),
        ("taint_toleration", Suite::TaintToleration),
    ];

    /// The suite of a case.
    pub(super) fn of(head: &Head, line: &Line<'_>) -> Result<Suite, LoadError> {
        let id = head.id.as_deref().unwrap_or_default();
        let file = line.file.file_name().unwrap_or_default().to_string_lossy();
        if let Some(suite) = Suite::named(id) {
            return Ok(suite);
        }
        match (&head.r#in, &head.matches) {
            (Some(_), None) => return Ok(Suite::Quantity),
            (None, Some(_)) => return Ok(Suite::LabelSelector),
            _ => {}
        }
        Suite::named(&file).ok_or_else(|| {
            let known: Vec<&str> = Suite::ALL.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "{id:?} is of no suite that we know, and nor is the file's name; known: {}",
                known.join(", ")
            );
            line.error(Some("id".into()), message)
        })
    }

    /// The suite whose name an id or a file's name begins with.
    fn named(name: &str) -> Option<Suite> {
        Suite::ALL.iter().find(|(suite, _)| name.starts_with(suite)).map(|(_, suite)| *suite)
    }

    /// Where our answer to a case differs.
    pub(super) fn replay(self, line: &Line<'_>) -> Result<Found, LoadError> {
        match self {
            Suite::Quantity => Ok(quantity::replay(&line.parse_all()?)),
            Suite::PodRequests => Ok(pod_requests::replay(&line.parse_all()?)),
            Suite::LabelSelector => Ok(label_selector::replay(&line.parse_all()?)),
            Suite::Fit => Ok(fit::replay(&line.parse_all()?)),
            Suite::BalancedAllocation => Ok(balanced_allocation::replay(&line.parse_all()?)),
            Suite::NodeAffinity => Ok(node_affinity::replay(&line.parse_all()?)),
            Suite::TaintToleration => Ok(taint_toleration::replay(&line.parse_all()?)),
        }
    }
}
