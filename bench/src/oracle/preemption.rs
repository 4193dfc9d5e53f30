//! Suite `preemption`: the node and the victims for a pod that fits on no node.

use crate::oracle::case::{Labels, Node, Pod};
use crate::oracle::cordon::without_taints;
use crate::oracle::decision::{Asked, Decision, Verdict, expected, our_name};
use crate::oracle::difference::Found;
use crate::oracle::expect::{Code, Status};
use crate::oracle::world::{Refused, Setting, World};
use omega_cellstate::{PlacedTask, TaskSet, View};
use omega_core::Precedence;
use omega_schedulers::Profile;
use omega_schedulers::preemption::{Budget, Candidate, Preemptor, harm};
use omega_workload::kube::api::{LabelSelector, or_default};
use omega_workload::kube::selector::labels_or_nothing;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A world in which a pod may preempt others.
#[derive(Deserialize)]
pub(super) struct Case {
    #[serde(rename = "id")]
    _id: String,
    #[serde(default, deserialize_with = "or_default")]
    namespaces: BTreeMap<String, Labels>,
    nodes: Vec<Node>,
    #[serde(default, deserialize_with = "or_default")]
    pods: Vec<Pod>,
    pod: Pod,
    #[serde(default, deserialize_with = "or_default")]
    pdbs: Vec<DisruptionBudget>,
    expect: Expect,
}

/// Number of pods that may be disrupted.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DisruptionBudget {
    #[serde(rename = "name")]
    _name: String,
    namespace: String,
    selector: Option<LabelSelector>,
    disruptions_allowed: i64,
}

/// Recorded result.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expect {
    filter: Filtered,
    /// Whether the pod's own preemption policy allows it to preempt others.
    eligible_to_preempt: bool,
    candidates: BTreeMap<String, Victims>,
    /// Nodes that were tried without success, with the verdict after the eviction of all pods with lower priority.
    #[serde(default)]
    non_candidates: BTreeMap<String, Status>,
    chosen_any_of: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filtered {
    pre_filter: Status,
    #[serde(default)]
    rejected: BTreeMap<String, Status>,
    feasible: BTreeSet<String>,
}

/// Victims on a node, in descending order of importance.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Victims {
    pods: Vec<String>,
    #[serde(rename = "numPDBViolations")]
    violations: usize,
}

/// Compares the decision, the victims on each node, and the best nodes.
pub(super) fn replay(case: &Case) -> Found {
    let mut found = Found::default();
    if let Err(Refused(why)) = compare(case, &mut found) {
        found.note("world", "a cell".to_owned(), why);
    }
    found
}

fn compare(case: &Case, found: &mut Found) -> Result<(), Refused> {
    let Case { namespaces, expect, .. } = case;
    let (nodes, draining) = without_taints(&case.nodes, &case.pod);
    // Of pods with equal priority, the older pod is more important. In the cell, the pod that was submitted first is
    // older.
    let mut pods: Vec<&Pod> = case.pods.iter().collect();
    pods.sort_by_key(|pod| pod.start_time);
    pods.push(&case.pod);
    let mut world = World::new(Setting { nodes: &nodes, namespaces, pods: &pods })?;
    world.drain(&draining)?;
    let nominated = expected(&mut world, &case.pods)?;
    let group = world.group(&case.pod)?;
    let decision = Decision::about(&mut world, (&case.pod, group), &nominated);
    decision.compare_verdicts(found, &expect.filter.pre_filter, &expect.filter.rejected);
    found.compare("filter.feasible", &expect.filter.feasible, &decision.feasible());
    let eligible = !case.pod.preemption_policy_never;
    found.compare("eligibleToPreempt", &expect.eligible_to_preempt, &eligible);
    let budgets: Vec<Budget> = case.pdbs.iter().map(budget).collect();
    let profile = Profile::kube(&world.kinds());
    profile.prepare(&mut world.view);
    let preemptor = Preemptor {
        evaluator: profile.evaluator(),
        group,
        budgets: &budgets,
        expected: &nominated,
    };
    let wanted = eligible && decision.feasible().is_empty();
    let tried: Vec<u32> = if wanted {
        world.rows().filter(|row| decision.is_curable(&world.name(*row))).collect()
    } else {
        Vec::new()
    };
    let try_one = |row: &u32| preemptor.candidate(&mut world.view, *row as usize);
    let candidates: Vec<Candidate> = tried.iter().filter_map(try_one).collect();
    compare_candidates(expect, found, &world, &candidates);
    let asked = Asked {
        profile: &profile,
        group,
        precedence: Precedence(case.pod.priority),
        expected: &nominated,
    };
    let in_vain = tried.iter().filter(|row| !candidates.iter().any(|c| c.row == **row as usize));
    let in_vain =
        in_vain.map(|row| (world.name(*row), without_lower(&mut world.view, &asked, *row)));
    let in_vain: BTreeMap<String, Verdict> = in_vain.collect();
    let recorded = expect.non_candidates.iter().map(|(name, status)| {
        (name.clone(), (status.code, status.plugin.as_deref().map(our_name)))
    });
    found.compare_each("nonCandidates", &recorded.collect(), &in_vain);
    Ok(())
}

/// The verdict on a machine without its tasks of lower precedence. Kubernetes calls a machine without such tasks
/// unresolvable.
fn without_lower(view: &mut View, asked: &Asked<'_>, row: u32) -> Verdict {
    let row = row as usize;
    let bound = view.preemptible_below(asked.precedence);
    let lower = view.tasks_on(row).iter().filter(|task| task.precedence < bound);
    let lower: Vec<PlacedTask> = lower.copied().collect();
    if lower.is_empty() {
        return (Code::UnschedulableAndUnresolvable, None);
    }
    lower.iter().for_each(|task| view.lift(row, *task));
    let verdict = asked.verdict(view, row);
    lower.iter().for_each(|task| view.put_back(row, *task));
    verdict
}

/// Compares the victims on each node, and the nodes that Kubernetes prefers by their victims.
fn compare_candidates(expect: &Expect, found: &mut Found, world: &World, candidates: &[Candidate]) {
    let name = |candidate: &Candidate| world.name(candidate.row as u32);
    let victims = |candidate: &Candidate| Victims {
        pods: candidate.victims.iter().map(|task| world.pod_of(task.id.job)).collect(),
        violations: candidate.violations,
    };
    let ours = candidates.iter().map(|candidate| (name(candidate), victims(candidate))).collect();
    found.compare_each("candidates", &expect.candidates, &ours);
    let least = candidates.iter().map(harm).min();
    let best = candidates.iter().filter(|candidate| Some(harm(candidate)) == least);
    found.compare("chosenAnyOf", &expect.chosen_any_of, &best.map(name).collect());
}

fn budget(budget: &DisruptionBudget) -> Budget {
    Budget {
        tasks: TaskSet {
            tenant: budget.namespace.as_str().into(),
            tasks: labels_or_nothing(budget.selector.as_ref()),
        },
        allowed: u32::try_from(budget.disruptions_allowed.max(0)).unwrap_or(u32::MAX),
    }
}
