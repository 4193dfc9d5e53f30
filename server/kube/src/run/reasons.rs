//! The reasons for which a pod finds no node, in kube-scheduler's words.

use crate::adapter::WORKERS;
use omega_cellstate::SharedCell;
use omega_core::{JobId, Kinds, Reason};
use omega_schedulers::{Explanation, Profile, Scheduler, Settings};
use std::collections::BTreeMap;

/// A scheduler that decides nothing and explains.
pub struct Explainer {
    cell: SharedCell,
    scheduler: Scheduler,
}

impl Explainer {
    /// Creates the explainer of a cell; `None` if the cell refuses its name.
    #[must_use]
    pub fn new(cell: SharedCell) -> Option<Explainer> {
        let profile = cell.read(|cell| Profile::kube(cell.kinds()));
        let settings =
            Settings { name: "omega-kube-explainer".into(), ..Settings::worker(WORKERS, 0, 1) };
        let scheduler = Scheduler::new(&cell, profile, settings).ok()?;
        Some(Explainer { cell, scheduler })
    }

    /// Returns the reason for which a job's pod finds no node; `None` if it would find one, or is gone.
    pub fn message(&mut self, job: JobId) -> Option<String> {
        self.scheduler.look(&self.cell, 0).ok()?;
        let explanation = self.scheduler.explain(job, 0)?;
        let kinds = self.scheduler.view().kinds();
        (explanation.feasible == 0).then(|| message(&explanation, kinds))
    }
}

/// Returns an explanation as kube-scheduler words it.
#[must_use]
pub fn message(explanation: &Explanation, kinds: &Kinds) -> String {
    let nodes = explanation.machines;
    if nodes == 0 {
        return "no nodes available to schedule pods".into();
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (reason, count) in &explanation.refused {
        if let Some(text) = words(*reason, kinds) {
            *counts.entry(text).or_default() += count;
        }
    }
    for (filter, count) in &explanation.filtered {
        *counts.entry(filter_words(filter)).or_default() += count;
    }
    let mut parts: Vec<String> =
        counts.iter().map(|(text, count)| format!("{count} {text}")).collect();
    parts.sort();
    format!("0/{nodes} nodes are available: {}.", parts.join(", "))
}

/// Returns the words for a reason; `None` for a kind of our own, beside which the real one stands.
fn words(reason: Reason, kinds: &Kinds) -> Option<String> {
    let text = match reason {
        Reason::NoRoom(kind) => {
            let name = kinds.get(kind).map_or("resources", |kind| kind.name.as_str());
            if name.ends_with(" (nominal)") {
                return None;
            }
            return Some(match name {
                "pods" => "Too many pods".into(),
                name => format!("Insufficient {name}"),
            });
        }
        Reason::MachineDraining => "node(s) were unschedulable",
        Reason::OtherMachine => "node(s) didn't match the requested node name",
        Reason::AffinityUnmet => "node(s) didn't match Pod's node affinity/selector",
        Reason::Tainted => "node(s) had untolerated taint(s)",
        Reason::PortTaken => "node(s) didn't have free ports for the requested pod ports",
        Reason::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
        Reason::TaskAffinityUnmet => "node(s) didn't match pod affinity rules",
        Reason::Skew => "node(s) didn't match pod topology spread constraints",
        Reason::NoDomain => {
            "node(s) didn't match pod topology spread constraints (missing required label)"
        }
        other => return Some(format!("node(s) were rejected: {other:?}")),
    };
    Some(text.into())
}

fn filter_words(filter: &str) -> String {
    match filter {
        "node_unschedulable" | "schedulable" => "node(s) were unschedulable".into(),
        "taint_toleration" | "taints" => "node(s) had untolerated taint(s)".into(),
        "node_affinity" => "node(s) didn't match Pod's node affinity/selector".into(),
        other => format!("node(s) were rejected by {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::KindId;

    #[test]
    fn reasons_are_counted_and_sorted_as_by_kube_scheduler() {
        let kinds = Kinds::standard();
        let cpu = kinds.get(KindId(0)).expect("a kind").name.clone();
        let explanation = Explanation {
            machines: 5,
            refused: vec![(Reason::Tainted, 1), (Reason::NoRoom(KindId(0)), 3)],
            filtered: vec![("node_affinity", 1)],
            ..Explanation::default()
        };
        let expected = format!(
            "0/5 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated \
             taint(s), 3 Insufficient {cpu}."
        );
        assert_eq!(message(&explanation, &kinds), expected);
        assert_eq!(message(&Explanation::default(), &kinds), "no nodes available to schedule pods");
    }
}
