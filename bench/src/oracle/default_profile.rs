//! Suites `default_profile` and `default_profile_large`: the results of all plugins together.

use crate::oracle::decision::{Decision, expected};
use crate::oracle::difference::Found;
use crate::oracle::expect::{Scores, Status};
use crate::oracle::plugins::plugin::{Case, NoArgs};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Recorded decision.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Expect {
    pre_filter: Status,
    #[serde(default)]
    rejected: BTreeMap<String, Status>,
    feasible: BTreeSet<String>,
    /// Weighted scores by plugin; empty if no machine is feasible.
    #[serde(default)]
    weighted_scores: BTreeMap<String, Scores>,
    #[serde(default)]
    total_scores: Scores,
    #[serde(default)]
    best: Vec<String>,
}

/// Compares Omega's decision with the recorded one.
pub(super) fn replay(case: &Case<NoArgs, Expect>) -> Found {
    let expect = &case.expect;
    case.replay(|found, world, group| {
        let nominated = expected(world, &case.pods)?;
        let ours = Decision::about(world, (&case.pod, group), &nominated);
        ours.compare_verdicts(found, &expect.pre_filter, &expect.rejected);
        found.compare("feasible", &expect.feasible, &ours.feasible());
        ours.compare_weighted(found, &expect.weighted_scores);
        ours.compare_totals(found, &expect.total_scores, &expect.best);
        Ok(())
    })
}
