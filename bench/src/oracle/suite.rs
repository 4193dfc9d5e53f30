//! The suites, and the suite of a case.

use crate::oracle::difference::Found;
use crate::oracle::line::Line;
use crate::oracle::plugins::balanced_allocation;
use crate::oracle::plugins::fit;
use crate::oracle::plugins::image_locality;
use crate::oracle::plugins::interpod_affinity;
use crate::oracle::plugins::node_affinity;
use crate::oracle::plugins::node_ports;
use crate::oracle::plugins::taint_toleration;
use crate::oracle::plugins::topology_spread;
use crate::oracle::{
    default_profile, label_selector, pod_requests, preemption, quantity, sequence,
};
use omega_workload::LoadError;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A suite of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    BalancedAllocation,
    DefaultProfile,
    Fit,
    ImageLocality,
    InterpodAffinity,
    LabelSelector,
    NodeAffinity,
    NodePorts,
    PodRequests,
    Preemption,
    Quantity,
    Sequence,
    TaintToleration,
    TopologySpread,
}

/// Fields by which the suite of a case is found.
#[derive(Deserialize)]
#[serde(expecting = "a case, which is an object")]
pub(super) struct Head {
    pub(super) id: Option<String>,
    /// Text of a quantity; no other suite has this field.
    r#in: Option<IgnoredAny>,
    /// Result of a selector; no other suite has this field.
    matches: Option<IgnoredAny>,
}

impl Suite {
    /// All suites by name. `default_profile_large` is another name of the suite `default_profile`.
    const ALL: [(&str, Suite); 14] = [
        ("balanced_allocation", Suite::BalancedAllocation),
        ("default_profile", Suite::DefaultProfile),
        ("fit", Suite::Fit),
        ("image_locality", Suite::ImageLocality),
        ("interpod_affinity", Suite::InterpodAffinity),
        ("label_selector", Suite::LabelSelector),
        ("node_affinity", Suite::NodeAffinity),
        ("node_ports", Suite::NodePorts),
        ("pod_requests", Suite::PodRequests),
        ("preemption", Suite::Preemption),
        ("quantity", Suite::Quantity),
        ("sequence", Suite::Sequence),
        ("taint_toleration", Suite::TaintToleration),
        ("topology_spread", Suite::TopologySpread),
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
                "neither the case {id:?} nor the file's name belongs to a known suite; the suites \
                 are: {}",
                known.join(", ")
            );
            line.error(Some("id".into()), message)
        })
    }

    /// Returns the suite whose name is a prefix of an id or of a file name.
    fn named(name: &str) -> Option<Suite> {
        Suite::ALL.iter().find(|(suite, _)| name.starts_with(suite)).map(|(_, suite)| *suite)
    }

    /// Returns the differences between Omega's result of a case and the recorded one.
    pub(super) fn replay(self, line: &Line<'_>) -> Result<Found, LoadError> {
        Ok(match self {
            Suite::BalancedAllocation => balanced_allocation::replay(&line.parse_all()?),
            Suite::DefaultProfile => default_profile::replay(&line.parse_all()?),
            Suite::Fit => fit::replay(&line.parse_all()?),
            Suite::ImageLocality => image_locality::replay(&line.parse_all()?),
            Suite::InterpodAffinity => interpod_affinity::replay(&line.parse_all()?),
            Suite::LabelSelector => label_selector::replay(&line.parse_all()?),
            Suite::NodeAffinity => node_affinity::replay(&line.parse_all()?),
            Suite::NodePorts => node_ports::replay(&line.parse_all()?),
            Suite::PodRequests => pod_requests::replay(&line.parse_all()?),
            Suite::Preemption => preemption::replay(&line.parse_all()?),
            Suite::Quantity => quantity::replay(&line.parse_all()?),
            Suite::Sequence => sequence::replay(&line.parse_all()?),
            Suite::TaintToleration => taint_toleration::replay(&line.parse_all()?),
            Suite::TopologySpread => topology_spread::replay(&line.parse_all()?),
        })
    }
}
