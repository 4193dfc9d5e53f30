//! Recorded results of one plugin, and their comparison with Omega's.

use crate::oracle::difference::Found;
use crate::oracle::world::World;
use omega_cellstate::GroupRef;
use omega_core::Operator;
use omega_schedulers::appraise::{
    appraise_filter, appraise_relative, appraise_score, filter_applies,
};
use omega_schedulers::{CellChecks, Filter, RelativeScore, SCORE_MAX, Score, ScoreColumns};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Number of Omega's score units in one point of Kubernetes' scores, which are 0 to 100.
pub(super) const POINT: i64 = SCORE_MAX as i64 / 100;

/// Scores by machine.
pub(super) type Scores = BTreeMap<String, i64>;

/// Kubernetes' verdict on a machine, or on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Code {
    /// Feasible.
    Success,
    /// The plugin does not apply.
    Skip,
    /// Rejected, but evictions could help.
    Unschedulable,
    /// Rejected, and evictions could not help.
    UnschedulableAndUnresolvable,
}

/// A code, with the plugin and the reasons.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Status {
    pub(super) code: Code,
    /// The plugin that rejected; `None` if the case is about a single plugin.
    pub(super) plugin: Option<String>,
    /// Reasons as text, which are not compared.
    #[serde(default, rename = "reasons")]
    _reasons: Vec<String>,
}

/// Results of one plugin for all machines.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Expect {
    pre_filter: Option<Status>,
    /// The only machines that the pre-filter left; `None` if it excluded no machine.
    pre_filter_nodes: Option<Vec<String>>,
    #[serde(default)]
    filter_rejected: BTreeMap<String, Status>,
    feasible: Vec<String>,
    pre_score: Option<Status>,
    raw_scores: Option<Scores>,
    scores: Option<Scores>,
}

/// The score of a plugin.
pub(super) enum Scoring<'a> {
    /// A score that depends on one machine at a time.
    Local(&'a dyn Score),
    /// A score that compares machines with each other.
    Relative(&'a dyn RelativeScore),
}

/// Expected code of each machine.
pub(super) fn codes(
    (pre_filter, rejected): (Option<&Status>, &BTreeMap<String, Status>),
    feasible: impl IntoIterator<Item = String>,
    machines: impl IntoIterator<Item = String>,
) -> BTreeMap<String, Code> {
    // If the pod is rejected as a whole, or a machine is excluded before the filters, the machine has no code of its
    // own. Kubernetes treats such a machine as one for which evictions could not help.
    let whole = match pre_filter.map(|status| status.code) {
        Some(code @ (Code::Unschedulable | Code::UnschedulableAndUnresolvable)) => code,
        _ => Code::UnschedulableAndUnresolvable,
    };
    let mut codes: BTreeMap<_, _> = machines.into_iter().map(|name| (name, whole)).collect();
    codes.extend(rejected.iter().map(|(name, status)| (name.clone(), status.code)));
    codes.extend(feasible.into_iter().map(|name| (name, Code::Success)));
    codes
}

/// The code of a rejected machine; `curable` means that evictions could help.
pub(super) fn refusal(curable: bool) -> Code {
    if curable { Code::Unschedulable } else { Code::UnschedulableAndUnresolvable }
}

impl Expect {
    /// Compares a plugin's filter: whether it applies, and the code of each machine.
    pub(super) fn compare_filter(
        &self,
        found: &mut Found,
        world: &mut World,
        (filter, group): (&dyn Filter, GroupRef),
    ) {
        filter.keep(&mut world.view);
        let named = named_machines(world, group);
        if let Some(status) = &self.pre_filter {
            let ours = if !filter_applies(&world.view, filter, group) {
                Code::Skip
            } else if filter.covers().includes(CellChecks::AFFINITY) {
                pre_filter_code(&named)
            } else {
                Code::Success
            };
            found.compare("preFilter.code", &status.code, &ours);
        }
        if filter.covers().includes(CellChecks::AFFINITY) {
            let recorded = self.pre_filter_nodes.as_ref();
            let recorded = recorded.map(|names| names.iter().cloned().collect());
            let ours = named.filter(|names| !names.is_empty());
            found.compare("preFilterNodes", &recorded, &ours);
        } else {
            found.compare("preFilterNodes", &self.pre_filter_nodes, &None);
        }
        let mut ours: BTreeMap<String, Code> =
            world.rows().map(|row| (world.name(row), Code::Success)).collect();
        for refused in appraise_filter(&world.view, filter, group) {
            ours.insert(world.name(refused.row), refusal(refused.curable));
        }
        self.compare_codes(found, &ours);
    }

    /// Compares the code of each machine.
    pub(super) fn compare_codes(&self, found: &mut Found, ours: &BTreeMap<String, Code>) {
        let machines = ours.keys().cloned();
        let recorded = (self.pre_filter.as_ref(), &self.filter_rejected);
        let mut expected = codes(recorded, self.feasible.clone(), machines);
        let refuses_all = matches!(
            self.pre_filter.as_ref().map(|status| status.code),
            Some(Code::Unschedulable | Code::UnschedulableAndUnresolvable)
        );
        if self.pre_filter_nodes.is_none() && !refuses_all {
            // If the pre-filter neither selected machines nor rejected the pod, every machine has a code. A recorded
            // case that lacks the code of a machine is damaged.
            let named = |name: &String| {
                self.filter_rejected.contains_key(name) || self.feasible.contains(name)
            };
            expected.retain(|name, _| named(name));
        }
        found.compare_each("filter", &expected, ours);
        let feasible = ours.iter().filter(|(_, code)| **code == Code::Success);
        let feasible: Vec<String> = feasible.map(|(name, _)| name.clone()).collect();
        found.compare("feasible", &self.feasible, &feasible);
    }

    /// Compares the results of a plugin that has no filter, and so rejects no machine.
    pub(super) fn compare_no_filter(&self, found: &mut Found, world: &World) {
        found.compare("preFilter", &self.pre_filter.as_ref().map(|status| status.code), &None);
        let ours = world.rows().map(|row| (world.name(row), Code::Success)).collect();
        self.compare_codes(found, &ours);
    }

    /// Compares the results of a plugin that has no score, or that gives no machine a score.
    pub(super) fn compare_no_scores(&self, found: &mut Found) {
        found.compare("preScore", &self.pre_score.as_ref().map(|status| status.code), &None);
        self.compare_absent_scores(found);
    }

    fn compare_absent_scores(&self, found: &mut Found) {
        found.compare("rawScores", &self.raw_scores, &None);
        found.compare("scores", &self.scores, &None);
    }

    /// Compares a plugin's score on the machines that were feasible in the recording.
    pub(super) fn compare_scores(
        &self,
        found: &mut Found,
        world: &mut World,
        (scoring, group): (Scoring<'_>, GroupRef),
    ) {
        if self.feasible.is_empty() {
            return self.compare_no_scores(found);
        }
        let feasible = |row: &u32| self.feasible.contains(&world.name(*row));
        let rows: Vec<u32> = world.rows().filter(feasible).collect();
        let columns = match scoring {
            Scoring::Local(score) => {
                score.keep(&mut world.view);
                let columns = appraise_score(&world.view, score, group, &rows);
                columns.map(|columns| ScoreColumns {
                    raw: columns.raw.iter().map(|raw| raw / POINT).collect(),
                    ..columns
                })
            }
            Scoring::Relative(score) => {
                score.keep(&mut world.view);
                appraise_relative(&world.view, score, group, &rows)
            }
        };
        // Kubernetes never skips a plugin that has no pre-score step. If Omega skips such a plugin, its scores are
        // taken as 0.
        let zeros = || vec![0; rows.len()];
        let columns = match (columns, &self.pre_score) {
            (None, None) => Some(ScoreColumns { raw: zeros(), scores: zeros() }),
            (columns, _) => columns,
        };
        let code = self.pre_score.as_ref().map_or(Code::Success, |status| status.code);
        let ours = if columns.is_none() { Code::Skip } else { Code::Success };
        found.compare("preScore.code", &code, &ours);
        let Some(columns) = columns.filter(|_| code == Code::Success) else {
            return self.compare_absent_scores(found);
        };
        let named = |values: &[i64]| -> Scores {
            rows.iter().map(|row| world.name(*row)).zip(values.iter().copied()).collect()
        };
        let none = Scores::new();
        let raw = self.raw_scores.as_ref().unwrap_or(&none);
        found.compare_each("rawScores", raw, &named(&columns.raw));
        let scores = self.scores.as_ref().unwrap_or(&none);
        found.compare_each("scores", &in_ours(scores), &named(&columns.scores));
    }
}

/// The only machines that a group's required affinity can match, if each of its alternatives names machines.
/// (Kubernetes' pre-filter of NodeAffinity passes only these to the filters.)
pub(super) fn named_machines(world: &World, group: GroupRef) -> Option<BTreeSet<String>> {
    let (job, index) = world.view.job(group);
    let required = job.groups[index].rules.affinity.required.as_ref()?;
    if required.is_empty() {
        return None;
    }
    let mut named = BTreeSet::new();
    for alternative in required {
        let lists = alternative.names.iter().filter(|names| names.operator == Operator::In);
        let sets = lists.map(|names| names.values.iter().map(|name| name.to_string()).collect());
        let both = |one: BTreeSet<String>, other: BTreeSet<String>| &one & &other;
        named.extend(sets.reduce(both)?);
    }
    Some(named)
}

/// The code of the pre-filter, given the machines that the affinity names.
pub(super) fn pre_filter_code(named: &Option<BTreeSet<String>>) -> Code {
    match named {
        Some(names) if names.is_empty() => Code::UnschedulableAndUnresolvable,
        _ => Code::Success,
    }
}

/// Converts Kubernetes' scores to Omega's unit, which can represent fractions of a point.
pub(super) fn in_ours(scores: &Scores) -> Scores {
    scores.iter().map(|(name, score)| (name.clone(), score * POINT)).collect()
}
