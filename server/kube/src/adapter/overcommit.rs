//! Nodes that other schedulers overcommit. The API server accepts a binding even to a full node.
//!
//! If repairs are switched on, our pods that have not started are deleted from such a node, at most one per minute, the
//! newest first. Their controllers create them again, and they are scheduled elsewhere. A pod without a controller is
//! not deleted, because nobody would create it again.

use super::effects::{Action, Done, Repair};
use super::{Adapter, Effect, Entry, PodName, Remark, State};
use omega_cellstate::{Cell, MachineState};
use omega_core::{Job, JobId, KindId, MachineId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Minimum time between two deletions from one node, in milliseconds.
const REPAIR_INTERVAL_MS: u64 = 60_000;

/// The nodes that other schedulers have overcommitted, each with the earliest time of its next repair.
#[derive(Debug, Default)]
pub(super) struct Overcommits(BTreeMap<String, u64>);

/// An amount of a resource that pods request beyond what the node has.
struct Excess {
    kind: KindId,
    requested: i64,
    has: i64,
}

impl Adapter {
    /// Counts and reports another scheduler's binding, if the node's pods now request more than the node has.
    pub(super) fn note_overcommit(&mut self, name: &PodName) {
        let Some(State::Bound(node)) = self.state(name) else { return };
        let Some(id) = self.nodes.get(node).copied() else { return };
        let node = node.clone();
        let over = self.excess_without(id, &self.kept_on(id));
        if over.is_empty() {
            return;
        }
        let resources = self.text(&over);
        self.counters.overcommits += 1;
        tracing::warn!(pod = %name, %node, %resources, "another scheduler has overcommitted the node");
        if self.settings.repairs {
            self.overcommits.0.entry(node.clone()).or_default();
        }
        let remark = Remark::Overcommitted { node, resources };
        self.effects.push(Effect::Tell(name.clone(), remark));
    }

    /// Returns the nodes whose pods request more than the node has, whichever scheduler bound the pods.
    #[must_use]
    pub fn overcommitted_nodes(&self) -> Vec<&String> {
        let suspects: Vec<MachineId> = self.cell.read(|cell| {
            let over = cell.machines().filter(|machine| !excess(cell, machine, &[]).is_empty());
            over.map(|machine| machine.id).collect()
        });
        let over =
            suspects.iter().filter(|id| !self.excess_without(**id, &self.kept_on(**id)).is_empty());
        over.filter_map(|id| self.names.get(id)).collect()
    }

    /// Requests the deletion of one pod on each overcommitted node where a repair is due.
    pub(super) fn repair_overcommits(&mut self, now_ms: u64) {
        if !self.tells || !self.settings.repairs {
            return;
        }
        let nodes: Vec<(String, u64)> =
            self.overcommits.0.iter().map(|(node, due_ms)| (node.clone(), *due_ms)).collect();
        for (node, due_ms) in nodes {
            let over = self.lasting_excess(&node);
            if over.is_empty() {
                // The time of the last repair is remembered until another one would be allowed.
                if due_ms <= now_ms {
                    self.overcommits.0.remove(&node);
                }
            } else if due_ms <= now_ms {
                self.repair(&node, &over, now_ms);
            }
        }
    }

    /// Requests the deletion of the newest pod of ours that may be deleted from a node, if there is one.
    fn repair(&mut self, node: &str, over: &[Excess], now_ms: u64) {
        let on_node = self.on_node.get(node).into_iter().flatten();
        let with_entry = on_node.filter_map(|name| Some((name, self.pods.get(name)?)));
        let deletable = with_entry
            .filter_map(|(name, entry)| Some((name, entry, self.deletable(entry, over)?)));
        let newest = deletable
            .max_by_key(|(name, entry, _)| (&entry.pod.metadata.created, entry.job, *name));
        let Some((name, entry, job)) = newest else { return };
        let (pod, uid) = (name.clone(), entry.pod.metadata.uid.clone());
        let resources = self.text(over);
        self.budgets.spend(&job);
        self.overcommits.0.insert(node.to_owned(), now_ms + REPAIR_INTERVAL_MS);
        tracing::warn!(%pod, %node, %resources, "deleting a pod from an overcommitted node");
        let repair = Repair { pod, uid, node: node.to_owned(), resources };
        self.effects.push(Effect::Act(Action::Repair(repair, 0)));
    }

    /// Returns the job of a bound pod of ours if the pod has not started, its controller would create it again for any
    /// node, no budget forbids its deletion, and it requests one of these resources.
    fn deletable(&self, entry: &Entry, over: &[Excess]) -> Option<Arc<Job>> {
        let pod = &entry.pod;
        // A daemon set, and a node with a static pod, would create the pod again for the same node.
        let moves = |kind: &str| !["DaemonSet", "Node"].contains(&kind);
        let mut owners = pod.metadata.owners.iter();
        let has_controller = owners.any(|owner| owner.controller && moves(&owner.kind));
        let is_bound = matches!(entry.state, State::Bound(_));
        if !is_bound
            || !has_controller
            || !self.is_ours(entry)
            || pod.status.phase != "Pending"
            || pod.metadata.deleted.is_some()
        {
            return None;
        }
        let job = self.cell.read(|cell| cell.job(entry.job?).cloned())?;
        let request = &job.groups.first()?.request;
        let helps = over.iter().any(|excess| request.get(excess.kind) > 0);
        (helps && self.budgets.allow(&job)).then_some(job)
    }

    /// Handles the outcome of a deletion from an overcommitted node. If the pod was not deleted, it is tried again
    /// after the usual time.
    pub fn repaired(&mut self, repair: Repair, done: Done) {
        if done == Done::Done {
            let Repair { pod, node, resources, .. } = repair;
            self.counters.repairs += 1;
            self.effects.push(Effect::Tell(pod, Remark::Repaired { node, resources }));
        }
    }

    /// Returns the overcommitted resources of a node that remain when the pods that are being deleted are gone.
    fn lasting_excess(&self, node: &str) -> Vec<Excess> {
        let Some(id) = self.nodes.get(node).copied() else { return Vec::new() };
        let mut left_out = self.kept_on(id);
        let entries = self.on_node.get(node).into_iter().flatten();
        let entries = entries.filter_map(|name| self.pods.get(name));
        let leaving = entries.filter(|entry| entry.pod.metadata.deleted.is_some());
        left_out.extend(leaving.filter_map(|entry| entry.job));
        self.excess_without(id, &left_out)
    }

    fn excess_without(&self, id: MachineId, left_out: &[JobId]) -> Vec<Excess> {
        let excess = |cell: &Cell| cell.machine(id).map(|machine| excess(cell, &machine, left_out));
        self.cell.read(excess).unwrap_or_default()
    }

    /// Returns overcommitted resources as text, such as `cpu 4500 of 4000`.
    fn text(&self, over: &[Excess]) -> String {
        self.cell.read(|cell| {
            let texts = over.iter().map(|Excess { kind, requested, has }| {
                let name = cell.kinds().get(*kind).map_or("a resource", |kind| kind.name.as_str());
                format!("{name} {requested} of {has}")
            });
            texts.collect::<Vec<_>>().join(", ")
        })
    }
}

/// Returns the overcommitted resources of a machine. The jobs in `left_out` are on the machine, and are not counted.
fn excess(cell: &Cell, machine: &MachineState<'_>, left_out: &[JobId]) -> Vec<Excess> {
    if machine.free.iter().all(|free| *free >= 0) {
        return Vec::new();
    }
    let kept = |kind: KindId| -> i64 {
        let requests =
            left_out.iter().filter_map(|job| Some(&cell.job(*job)?.groups.first()?.request));
        requests.map(|request| i64::try_from(request.get(kind)).unwrap_or(i64::MAX)).sum()
    };
    let kinds = (0..).map(KindId).zip(machine.free);
    let free = kinds.map(|(kind, free)| (kind, free + kept(kind)));
    let short = free.zip(&machine.claimable).filter(|((_, free), _)| *free < 0);
    let excess = short.map(|((kind, free), has)| Excess { kind, requested: has - free, has: *has });
    excess.collect()
}
