//! Results of the whole default profile for a pod: the recorded results of Kubernetes, and the results of Omega.

use crate::oracle::case::Pod;
use crate::oracle::difference::Found;
use crate::oracle::expect::{
    Code, Scores, Status, in_ours, named_machines, pre_filter_code, refusal,
};
use crate::oracle::world::{Refused, World};
use omega_cellstate::{BLOCK, Block, GroupRef, View};
use omega_core::Precedence;
use omega_schedulers::appraise::Refusal;
use omega_schedulers::preemption::Expected;
use omega_schedulers::{Appraisal, Filter, Profile, Reads, Tasks, appraise};
use std::collections::{BTreeMap, BTreeSet};

/// Scores that Kubernetes never skips. If Omega skips one of them, its scores are taken as 0 for all machines.
const NEVER_SKIPPED: [&str; 1] = ["image_locality"];

/// A machine's code, and the filter that returned it; `None` if the code does not come from a single filter.
pub(super) type Verdict = (Code, Option<String>);

/// Omega's decision about a pod.
pub(super) struct Decision {
    /// The verdict on each machine.
    verdicts: BTreeMap<String, Verdict>,
    /// Weighted scores of each feasible machine, by applicable plugin.
    weighted: BTreeMap<String, Scores>,
    totals: Scores,
    best: BTreeSet<String>,
    /// The only machines that the pod's own affinity can match; `None` if the affinity names no machines.
    named: Option<BTreeSet<String>>,
}

/// Inputs for calling the filters for one machine after another.
pub(super) struct Asked<'a> {
    pub(super) profile: &'a Profile,
    pub(super) group: GroupRef,
    pub(super) precedence: Precedence,
    /// Pods that are expected to run on machines.
    pub(super) expected: &'a [Expected],
}

impl Asked<'_> {
    /// The expected pods that the pod may not preempt.
    fn beside(&self) -> impl Iterator<Item = &Expected> {
        self.expected.iter().filter(|other| other.precedence >= self.precedence)
    }

    /// Returns the first filter that would reject the machine at this row if the expected pods already ran there.
    fn refusal_beside(&self, view: &mut View, row: usize) -> Option<Refusal> {
        let there: Vec<GroupRef> =
            self.beside().filter(|other| other.row == row).map(|other| other.group).collect();
        there.iter().for_each(|other| view.assume(row, *other, -1));
        let refusal = self.refusal_alone(view, row);
        there.iter().for_each(|other| view.assume(row, *other, 1));
        refusal
    }

    fn refusal_alone(&self, view: &View, row: usize) -> Option<Refusal> {
        let appraisal = appraise(view, self.profile, self.group);
        appraisal.refused.into_iter().find(|refusal| refusal.row as usize == row)
    }

    /// Returns the verdict on the machine at this row. The filters are called with and without the expected pods.
    pub(super) fn verdict(&self, view: &mut View, row: usize) -> Verdict {
        let refused = match self.refusal_beside(view, row) {
            None => self.refusal_alone(view, row),
            refused => refused,
        };
        refused.map_or((Code::Success, None), |refused| verdict(&refused))
    }
}

fn verdict(refused: &Refusal) -> Verdict {
    (refusal(refused.curable), Some(refused.filter.to_owned()))
}

impl Decision {
    /// Decides about a pod. If the pod may not preempt the pods that are expected on a machine, there must be room for
    /// all of them. So the filters are called with and without the expected pods.
    pub(super) fn about(
        world: &mut World,
        (pod, group): (&Pod, GroupRef),
        expected: &[Expected],
    ) -> Decision {
        let profile = Profile::kube(&world.kinds());
        profile.prepare(&mut world.view);
        let asked =
            Asked { profile: &profile, group, precedence: Precedence(pod.priority), expected };
        let rows: BTreeSet<usize> = asked.beside().map(|other| other.row).collect();
        let first = |row: usize| Some((row, asked.refusal_beside(&mut world.view, row)?));
        let refused: BTreeMap<usize, Refusal> = rows.into_iter().filter_map(first).collect();
        let taken = Taken(refused.keys().copied().collect());
        let profile = Profile::kube(&world.kinds()).with_filter(taken);
        let mut appraisal = appraise(&world.view, &profile, group);
        for refusal in &mut appraisal.refused {
            if let Some(first) = refused.get(&(refusal.row as usize)) {
                *refusal = *first;
            }
        }
        let named = named_machines(world, group);
        Decision { named, ..Decision::of(world, &appraisal) }
    }

    fn of(world: &World, appraisal: &Appraisal) -> Decision {
        let feasible: Vec<String> = appraisal.feasible.iter().map(|row| world.name(*row)).collect();
        let by_name =
            |values: Vec<i64>| -> Scores { feasible.iter().cloned().zip(values).collect() };
        let mut verdicts: BTreeMap<String, Verdict> =
            feasible.iter().map(|name| (name.clone(), (Code::Success, None))).collect();
        verdicts.extend(
            appraisal.refused.iter().map(|refused| (world.name(refused.row), verdict(refused))),
        );
        let said = appraisal.scores.iter().filter(|score| score.columns.is_some());
        Decision {
            verdicts,
            weighted: said
                .map(|score| (score.name.to_owned(), by_name(score.weighted().collect())))
                .collect(),
            totals: by_name(appraisal.totals.clone()),
            best: appraisal.best.iter().map(|row| world.name(*row)).collect(),
            named: None,
        }
    }

    /// Compares the verdict on each machine.
    pub(super) fn compare_verdicts(
        &self,
        found: &mut Found,
        pre_filter: &Status,
        rejected: &BTreeMap<String, Status>,
    ) {
        let ours = pre_filter_code(&self.named);
        let plugin = (ours != Code::Success).then(|| "node_affinity".to_owned());
        let recorded = (pre_filter.code, pre_filter.plugin.as_deref().map(our_name));
        found.compare("preFilter", &recorded, &(ours, plugin));
        let whole = match pre_filter.code {
            Code::Success | Code::Skip => Code::Success,
            refused => refused,
        };
        let expected = self.verdicts.iter().map(|(name, (_, ours))| {
            let verdict = match rejected.get(name) {
                // Kubernetes rejected the machine before its filters ran, so it does not matter which of Omega's
                // filters rejects it.
                Some(Status { code, plugin: None, .. }) => (*code, ours.clone()),
                Some(Status { code, plugin: Some(plugin), .. }) => (*code, Some(our_name(plugin))),
                None if whole == Code::Success => (whole, None),
                None => (whole, ours.clone()),
            };
            (name.clone(), verdict)
        });
        let mut expected: BTreeMap<String, Verdict> = expected.collect();
        for (name, status) in rejected.iter().filter(|(name, _)| !self.verdicts.contains_key(*name))
        {
            expected.insert(name.clone(), (status.code, status.plugin.clone()));
        }
        found.compare_each("rejected", &expected, &self.verdicts);
    }

    /// Compares each weighted score; the score of a missing plugin is taken as 0. If no machine is feasible, there are
    /// no scores.
    pub(super) fn compare_weighted(&self, found: &mut Found, expected: &BTreeMap<String, Scores>) {
        let expected: BTreeMap<String, Scores> =
            expected.iter().map(|(plugin, scores)| (our_name(plugin), in_ours(scores))).collect();
        if self.totals.is_empty() {
            return found.compare("weightedScores", &expected, &BTreeMap::new());
        }
        let none = Scores::new();
        let silent: Scores = self.totals.keys().map(|name| (name.clone(), 0)).collect();
        let names: BTreeSet<&String> = expected.keys().chain(self.weighted.keys()).collect();
        for name in names {
            let expected = expected.get(name);
            let ours = match self.weighted.get(name) {
                None if NEVER_SKIPPED.contains(&name.as_str()) => Some(&silent),
                ours => ours,
            };
            let field = format!("weightedScores.{name}");
            found.compare(&format!("{field}.skipped"), &expected.is_none(), &ours.is_none());
            found.compare_each(&field, expected.unwrap_or(&none), ours.unwrap_or(&none));
        }
    }

    /// Compares the node on which the pod was placed: of the nodes with the best score, the first by name.
    pub(super) fn compare_placed(&self, found: &mut Found, placed: Option<&String>) {
        found.compare("placed", &placed, &self.best.first());
    }

    /// Compares the sums of scores, and the machines with the highest sum.
    pub(super) fn compare_totals(&self, found: &mut Found, totals: &Scores, best: &[String]) {
        found.compare_each("totalScores", &in_ours(totals), &self.totals);
        found.compare("best", &best.iter().cloned().collect(), &self.best);
    }

    /// Returns the names of the feasible machines.
    pub(super) fn feasible(&self) -> BTreeSet<String> {
        self.totals.keys().cloned().collect()
    }

    /// Whether the pod could fit on this machine if some of its tasks were evicted.
    pub(super) fn is_curable(&self, machine: &str) -> bool {
        matches!(self.verdicts.get(machine), Some((Code::Unschedulable, _)))
    }
}

/// The pods that are expected to run on machines.
pub(super) fn expected(world: &mut World, pods: &[Pod]) -> Result<Vec<Expected>, Refused> {
    let mut all = Vec::new();
    for pod in pods {
        let Some(node) = &pod.nominated_node else { continue };
        let group = world.group(pod)?;
        let Some(machine) = world.view.machine_by_name(node) else { continue };
        let job = world.view.job_id(group);
        let precedence = Precedence(pod.priority);
        all.push(Expected { row: machine.row(), job, group, precedence });
    }
    Ok(all)
}

/// The name of Omega's equivalent of a Kubernetes plugin.
pub(super) fn our_name(plugin: &str) -> String {
    if plugin == "NodeResourcesBalancedAllocation" {
        return "balanced_allocation".to_owned();
    }
    let mut name = String::new();
    for letter in plugin.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Filter that rejects the machines in these rows, because other pods are expected there.
struct Taken(BTreeSet<usize>);

impl Filter for Taken {
    fn name(&self) -> &'static str {
        "taken"
    }

    fn reads(&self) -> Reads {
        Reads::OTHER_MACHINES
    }

    fn filter(&self, _: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let first = block.first_row();
        let taken = self.0.range(first..first + BLOCK).map(|row| 1 << (row - first));
        taken.fold(among, |word, bit: u64| word & !bit)
    }
}
