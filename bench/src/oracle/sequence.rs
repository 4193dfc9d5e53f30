//! Suite `sequence`: pods that are placed one after another, each on a cell with the pods before it.
//!
//! After each step, the recorded placement is made, not Omega's, so a difference does not affect later steps.

use crate::oracle::case::{Labels, Node, Pod};
use crate::oracle::decision::{Decision, expected};
use crate::oracle::difference::Found;
use crate::oracle::expect::{Scores, Status};
use crate::oracle::world::{Refused, Setting, World};
use omega_workload::kube::api::or_default;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A world, and the pods that arrive in it.
#[derive(Deserialize)]
pub(super) struct Case {
    #[serde(rename = "id")]
    _id: String,
    #[serde(default, deserialize_with = "or_default")]
    namespaces: BTreeMap<String, Labels>,
    nodes: Vec<Node>,
    #[serde(default, deserialize_with = "or_default")]
    pods: Vec<Pod>,
    steps: Vec<Step>,
}

/// A pod and its recorded result.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    pod: Pod,
    pre_filter: Status,
    #[serde(default)]
    rejected: BTreeMap<String, Status>,
    /// Sums of weighted scores by machine; empty if no machine was feasible.
    #[serde(default)]
    total_scores: Scores,
    #[serde(default)]
    best: Vec<String>,
    placed: Option<String>,
}

/// Compares the decision of each step with the recorded one.
pub(super) fn replay(case: &Case) -> Found {
    let mut found = Found::default();
    if let Err(Refused(why)) = steps(case, &mut found) {
        found.note("world", "a cell".to_owned(), why);
    }
    found
}

fn steps(case: &Case, found: &mut Found) -> Result<(), Refused> {
    let Case { nodes, namespaces, .. } = case;
    let pods: Vec<&Pod> = case.pods.iter().chain(case.steps.iter().map(|step| &step.pod)).collect();
    let mut world = World::new(Setting { nodes, namespaces, pods: &pods })?;
    for (i, step) in case.steps.iter().enumerate() {
        let mut here = Found::default();
        let nominated = expected(&mut world, &case.pods)?;
        let group = world.group(&step.pod)?;
        let ours = Decision::about(&mut world, (&step.pod, group), &nominated);
        ours.compare_verdicts(&mut here, &step.pre_filter, &step.rejected);
        ours.compare_totals(&mut here, &step.total_scores, &step.best);
        ours.compare_placed(&mut here, step.placed.as_ref());
        found.append(here.within(&format!("steps[{i}]")));
        if let Some(node) = &step.placed {
            world.place(&step.pod, node)?;
        }
    }
    Ok(())
}
