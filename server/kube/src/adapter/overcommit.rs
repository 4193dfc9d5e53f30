//! Nodes that other schedulers overcommit. The API server accepts a binding even to a full node.
//!
//! If repairs are switched on, our pods that have not started are deleted from such a node, at most one per minute: the
//! one of the lowest priority, and among equals the newest. Their controllers create them again, and they are scheduled
//! elsewhere. A pod without a controller is not deleted, because nobody would create it again.

use super::effects::{Action, Done, Repair};
use super::{Adapter, Effect, Entry, PodName, Remark, State};
use omega_cellstate::{Cell, MachineState};
use omega_core::limits::AMOUNT_MAX;
use omega_core::{Job, JobId, KindId, MachineId};
use omega_workload::kube::kinds::resource_name;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Minimum time between two attempts to delete a pod from one node, in milliseconds.
const REPAIR_INTERVAL_MS: u64 = 60_000;

/// The nodes that other schedulers have overcommitted, each with its repairs.
#[derive(Debug, Default)]
pub(super) struct Overcommits(BTreeMap<String, Repairs>);

/// The repairs of one node.
#[derive(Debug, Default)]
struct Repairs {
    /// Earliest time of the next attempt.
    due_ms: u64,
    /// Uid of the pod for which a disruption is held, because the outcome of its deletion is not known yet.
    pending_uid: Option<String>,
    /// Uids of the pods on the node that could not be deleted, each with the outcome. Other pods are tried instead.
    tried: BTreeMap<String, Done>,
}

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
        let over = self.excess_without(id, &self.unreal_on(id));
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
        let over = suspects
            .iter()
            .filter(|id| !self.excess_without(**id, &self.unreal_on(**id)).is_empty());
        over.filter_map(|id| self.names.get(id)).collect()
    }

    /// Records the nodes that were overcommitted before this process became the leader, so that they are repaired, too.
    pub(super) fn find_overcommits(&mut self) {
        if self.settings.repairs {
            let nodes: Vec<String> = self.overcommitted_nodes().into_iter().cloned().collect();
            for node in nodes {
                self.overcommits.0.entry(node).or_default();
            }
        }
    }

    /// Requests the deletion of one pod on each overcommitted node where a repair is due.
    pub(super) fn repair_overcommits(&mut self, now_ms: u64) {
        if !self.reports_reasons || !self.settings.repairs {
            return;
        }
        // The time of the last attempt is remembered until another one would be allowed.
        let due = self.overcommits.0.iter().filter(|(_, repairs)| repairs.due_ms <= now_ms);
        let due: Vec<String> = due.map(|(node, _)| node.clone()).collect();
        for node in due {
            // If the last attempt had no known outcome, the watch has shown its effect since.
            let pending =
                self.overcommits.0.get_mut(&node).and_then(|repairs| repairs.pending_uid.take());
            pending.into_iter().for_each(|uid| self.budgets.release(&uid));
            let over = self.lasting_excess(&node);
            if over.is_empty() {
                self.overcommits.0.remove(&node);
            } else {
                self.forget_tried(&node);
                self.repair(&node, &over, now_ms);
            }
        }
    }

    /// Forgets the attempts to delete pods that have left their node.
    fn forget_tried(&mut self, node: &str) {
        let Some(repairs) = self.overcommits.0.get_mut(node) else { return };
        let on_node = self.on_node.get(node).into_iter().flatten();
        let uids = on_node.filter_map(|name| Some(self.pods.get(name)?.pod.metadata.uid.as_str()));
        let uids: BTreeSet<&str> = uids.collect();
        repairs.tried.retain(|uid, _| uids.contains(uid.as_str()));
    }

    /// Requests the deletion of the least important pod of ours that may be deleted from a node, if there is one.
    fn repair(&mut self, node: &str, over: &[Excess], now_ms: u64) {
        let tried = |entry: &Entry| {
            let repairs = self.overcommits.0.get(node);
            repairs.is_some_and(|repairs| repairs.tried.contains_key(&entry.pod.metadata.uid))
        };
        let on_node = self.on_node.get(node).into_iter().flatten();
        let with_entry = on_node.filter_map(|name| Some((name, self.pods.get(name)?)));
        let untried = with_entry.filter(|(_, entry)| !tried(entry));
        let deletable =
            untried.filter_map(|(name, entry)| Some((name, entry, self.deletable(entry, over)?)));
        let choice = deletable.max_by_key(|(name, entry, _)| {
            let pod = &entry.pod;
            (Reverse(pod.spec.priority()), &pod.metadata.created, entry.job, *name)
        });
        let chosen = choice.map(|(name, entry, job)| {
            let (pod, uid) = (name.clone(), entry.pod.metadata.uid.clone());
            (Repair { pod, uid, node: node.to_owned(), resources: self.text(over) }, job)
        });
        let Some(repairs) = self.overcommits.0.get_mut(node) else { return };
        let Some((repair, job)) = chosen else {
            // The API server may allow later what it has refused, so these pods are tried once more.
            repairs.tried.retain(|_, done| *done != Done::Refused);
            return;
        };
        repairs.due_ms = now_ms + REPAIR_INTERVAL_MS;
        repairs.pending_uid = Some(repair.uid.clone());
        self.budgets.hold(&repair.uid, job);
        let Repair { pod, resources, .. } = &repair;
        tracing::warn!(%pod, %node, %resources, "deleting a pod from an overcommitted node");
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

    /// Handles the outcome of a deletion from an overcommitted node. If the pod was not deleted, the next attempt
    /// follows after the usual time.
    pub fn repaired(&mut self, repair: Repair, done: Done) {
        if done == Done::Unknown {
            // The pod may be gone. Its disruption stays held until the next attempt.
            return;
        }
        let Repair { pod, uid, node, resources } = repair;
        if done != Done::Done {
            self.budgets.release(&uid);
        }
        if let Some(repairs) = self.overcommits.0.get_mut(&node) {
            repairs.pending_uid.take_if(|pending| *pending == uid);
            if matches!(done, Done::Gone | Done::Refused) {
                repairs.tried.insert(uid, done);
            }
        }
        if done == Done::Done {
            self.counters.repairs += 1;
            self.effects.push(Effect::Tell(pod, Remark::Repaired { node, resources }));
        }
    }

    /// Returns the overcommitted resources of a node that remain when the pods that are being deleted are gone.
    fn lasting_excess(&self, node: &str) -> Vec<Excess> {
        let Some(id) = self.nodes.get(node).copied() else { return Vec::new() };
        let mut left_out = self.unreal_on(id);
        let entries = self.on_node.get(node).into_iter().flatten();
        let entries = entries.filter_map(|name| self.pods.get(name));
        let leaving = entries.filter(|entry| entry.pod.metadata.deleted.is_some());
        left_out.extend(leaving.filter_map(|entry| entry.job));
        self.excess_without(id, &left_out)
    }

    /// Returns the jobs on a machine that use nothing of it yet: those that keep room, and in a dry run the assumed
    /// pods, which are never bound by this process.
    fn unreal_on(&self, id: MachineId) -> Vec<JobId> {
        let mut jobs = self.kept_on(id);
        if !self.settings.binds {
            let on_node = self.names.get(&id).and_then(|node| self.on_node.get(node));
            let entries = on_node.into_iter().flatten().filter_map(|name| self.pods.get(name));
            let assumed = entries.filter(|entry| matches!(entry.state, State::Assumed { .. }));
            jobs.extend(assumed.filter_map(|entry| entry.job));
        }
        jobs
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
                let name = resource_name(name);
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
    // The true amount is unknown if it exceeds the maximum.
    let is_known = |has: i64| has < AMOUNT_MAX.cast_signed();
    let short =
        free.zip(&machine.claimable).filter(|((_, free), has)| *free < 0 && is_known(**has));
    let excess = short.map(|((kind, free), has)| Excess { kind, requested: has - free, has: *has });
    excess.collect()
}
