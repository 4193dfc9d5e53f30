//! Nominations: room that is kept on a node for a pod until the victims of its preemption are gone.
//!
//! The room is a separate job, placed on the node in addition to the victims. So the cell's machine has more allocated
//! than the real node, and no worker takes the room that the victims leave. The pod itself stays pending. If another
//! node gets enough room first, the pod is placed there, as with kube-scheduler. When the victims are gone, a
//! transaction checks everything again and replaces the room with the pod.
//!
//! | nomination | room | victims |
//! |---|---|---|
//! | made here ([`preempt`](super::preempt)) | yes | chosen |
//! | found in the status of one of our pods, after a restart | yes | pods of lower priority on the node that are being deleted |
//! | found in the status of another scheduler's pod | yes | none: dropped when the pod is bound, or nominated elsewhere |

use super::effects::{Action, Nominee};
use super::place::PLACED;
use super::{Adapter, Binding, Effect, Entry, PodName, State};
use omega_core::{
    Claim, Command, Granularity, Job, JobId, MachineId, Outcome, SequenceNumber, TaskId, TaskState,
    Transaction, TransactionId,
};
use std::collections::BTreeMap;

/// Origin of a nomination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The adapter made the nomination.
    Ours,
    /// The nomination was found in the status of one of our pods.
    Found,
    /// The nomination was found in the status of another scheduler's pod.
    Foreign,
}

/// A nomination of a pod to a node.
#[derive(Debug)]
pub(super) struct Nomination {
    pub(super) node: String,
    /// Victims that must be gone before the pod is bound, each with its uid.
    pub(super) victims: BTreeMap<PodName, String>,
    /// The job that keeps the room.
    pub(super) room: JobId,
    pub(super) origin: Origin,
}

impl Adapter {
    /// Records that this process is now the leader, so that its decisions are carried out.
    pub fn lead(&mut self) {
        self.leads = self.settings.preempts;
        self.report_all();
        self.find_overcommits();
        let nominated: Vec<PodName> = self.rooms.values().cloned().collect();
        nominated.iter().for_each(|name| self.bind_if_free(name));
    }

    /// Returns the node on which room is kept for a pod.
    #[must_use]
    pub fn nominated_node(&self, name: &PodName) -> Option<&str> {
        let nomination = self.pods.get(name)?.nomination.as_ref()?;
        Some(&nomination.node)
    }

    /// Makes the room that is kept for an unbound pod match the nomination in the pod's status.
    pub(super) fn follow_nomination(&mut self, name: &PodName) {
        let Some(entry) = self.pods.get(name).filter(|_| !self.starting) else { return };
        let node = entry.pod.status.nominated_node.clone();
        let origin = match &entry.state {
            // Workers place the pods of a group together, so these pods are not nominated here.
            State::Pending if Adapter::is_grouped(&entry.pod) => return,
            State::Pending if self.settings.preempts => Origin::Found,
            State::Held(_) if !self.is_ours(entry) && entry.pod.metadata.deleted.is_none() => {
                Origin::Foreign
            }
            // A nomination that was made here keeps its room until the pod is bound or gone.
            State::Pending | State::Parked { .. } | State::Assumed { .. } => return,
            State::Held(_) | State::Bound(_) => {
                self.drop_nomination(name);
                return;
            }
        };
        match &entry.nomination {
            Some(kept) if kept.origin == Origin::Ours || kept.node == node => return,
            None if node.is_empty() || entry.tried == node => return,
            _ => {}
        }
        self.drop_nomination(name);
        if node.is_empty() {
            return;
        }
        let Some(machine) = self.nodes.get(&node).copied() else { return };
        let victims =
            if origin == Origin::Found { self.leaving(name, &node) } else { BTreeMap::new() };
        let Some(job) = self.room_for(name) else { return };
        let task = TaskId { job: self.cell.read(|cell| cell.next_job()), index: 0 };
        let commands = [Command::SubmitJob(job), Command::AdoptTask { task, machine }];
        let made = self.cell.apply_all(commands).into_iter().next();
        if let Some(Ok(Outcome::Job(room))) = made {
            self.keep(name, Nomination { node, victims, room, origin });
            self.bind_if_free(name);
        }
    }

    /// Returns the pods of lower priority on a node that are being deleted.
    fn leaving(&self, name: &PodName, node: &str) -> BTreeMap<PodName, String> {
        let Some(entry) = self.pods.get(name) else { return BTreeMap::new() };
        let pods = self.on_node.get(node).into_iter().flatten();
        let pods = pods.filter_map(|other| Some((other, self.pods.get(other)?)));
        let lower = pods.filter(|(_, other)| {
            other.pod.metadata.deleted.is_some()
                && other.pod.spec.priority() < entry.pod.spec.priority()
        });
        lower.map(|(other, entry)| (other.clone(), entry.pod.metadata.uid.clone())).collect()
    }

    /// Returns a new job that will keep the room of a pod.
    pub(super) fn room_for(&mut self, name: &PodName) -> Option<Job> {
        let entry = self.pods.get(name)?;
        self.submitted += 1;
        let called = format!("{name}#nominated{}", self.submitted);
        let job = self.converter.job(&entry.pod, called.into(), PLACED.into());
        Some(self.within_limits(job).0)
    }

    /// Records a nomination.
    pub(super) fn keep(&mut self, name: &PodName, nomination: Nomination) {
        let Some(entry) = self.pods.get_mut(name) else { return };
        entry.tried.clone_from(&nomination.node);
        self.rooms.insert(nomination.room, name.clone());
        entry.nomination = Some(Box::new(nomination));
    }

    /// Removes and returns the nomination of a pod, and kills the job that keeps its room.
    pub(super) fn drop_nomination(&mut self, name: &PodName) -> Option<Box<Nomination>> {
        let nomination = self.pods.get_mut(name)?.nomination.take()?;
        self.rooms.remove(&nomination.room);
        let _ = self.cell.apply(Command::KillJob { job: nomination.room });
        Some(nomination)
    }

    /// Removes the nomination of a pod. If it was made here, also requests its removal from the pod's status.
    pub(super) fn give_nomination_up(&mut self, name: &PodName) {
        let dropped = self.drop_nomination(name);
        if dropped.is_some_and(|nomination| nomination.origin == Origin::Ours) {
            self.show_nomination(name, None);
        }
    }

    /// Requests a change of the nominated node in the pod's status; `None` removes the node.
    pub(super) fn show_nomination(&mut self, name: &PodName, node: Option<String>) {
        let Some(entry) = self.pods.get(name) else { return };
        let uid = entry.pod.metadata.uid.clone();
        let nominee = Nominee { pod: name.clone(), uid, node };
        self.effects.push(Effect::Act(Action::Nominate(nominee, 0)));
    }

    /// Gives up all nominations to a node that was deleted.
    pub(super) fn forget_nominations_to(&mut self, node: &str) {
        let to = |name: &&PodName| self.nominated_node(name) == Some(node);
        let names: Vec<PodName> = self.rooms.values().filter(to).cloned().collect();
        names.iter().for_each(|name| self.give_nomination_up(name));
    }

    /// Records that a victim is gone, and binds the nominated pods that waited for it.
    pub(super) fn victim_left(&mut self, victim: &PodName) {
        let mut freed = Vec::new();
        for name in self.rooms.values() {
            let nomination = self.pods.get_mut(name).and_then(|entry| entry.nomination.as_mut());
            if let Some(nomination) = nomination
                && nomination.victims.remove(victim).is_some()
            {
                freed.push(name.clone());
            }
        }
        freed.iter().for_each(|name| self.bind_if_free(name));
    }

    /// Binds a nominated pod in the room that is kept for it, if all victims are gone. If the pod no longer fits, it is
    /// scheduled anew.
    pub(super) fn bind_if_free(&mut self, name: &PodName) {
        // If the pod's group has lost other pods, this pod gives its room up, and is placed with the group.
        self.settle_group_of(name);
        let Some(entry) = self.pods.get(name).filter(|_| self.leads) else { return };
        let (Some(job), Some(nomination)) = (entry.job, &entry.nomination) else { return };
        let waits = !nomination.victims.is_empty() || nomination.origin == Origin::Foreign;
        let Some(machine) = self.nodes.get(&nomination.node).copied() else { return };
        if waits || entry.state != State::Pending {
            return;
        }
        let (room, node, task) =
            (nomination.room, nomination.node.clone(), TaskId { job, index: 0 });
        let claim = self
            .transaction(vec![Claim::new(task, machine, SequenceNumber::default())], Vec::new());
        let reserved = self.reserve(name, task, machine);
        if reserved {
            // The batch kills the room's job, so dropping the nomination only removes its records.
            self.cell.apply_all([Command::KillJob { job: room }, Command::Commit(claim)]);
        }
        let placed = self.cell.read(|cell| cell.task(task));
        if placed == Some(TaskState::Placed(machine)) {
            self.drop_nomination(name);
            let binding = self.assume(name, node).and_then(|it| self.bind_with_claims(it));
            self.effects.extend(binding.map(|binding| Effect::Act(Action::Bind(binding, 0))));
        } else {
            if reserved {
                // Otherwise, the claims would keep volumes that this node alone may have.
                self.storage.list.unreserve(task);
            }
            tracing::info!(pod = %name, %node, "a nominated pod no longer fits its node: it is \
                 decided again");
            self.give_nomination_up(name);
        }
    }

    /// Records that the cell placed a pod on a node, and returns the pod's binding.
    pub(super) fn assume(&mut self, name: &PodName, node: String) -> Option<Binding> {
        self.decisions += 1;
        let decision = self.decisions;
        let entry = self.pods.get_mut(name)?;
        entry.state = State::Assumed { decision, node: node.clone() };
        (entry.failures, entry.refusal) = (0, None);
        (entry.unsettled, entry.acknowledged_ms) = (false, None);
        self.on_node.entry(node.clone()).or_default().insert(name.clone());
        let uid = entry.pod.metadata.uid.clone();
        Some(Binding { decision, pod: name.clone(), uid, node })
    }

    /// Returns an all-or-nothing transaction of the adapter's own scheduler.
    pub(super) fn transaction(
        &mut self,
        claims: Vec<Claim>,
        evictions: Vec<TaskId>,
    ) -> Transaction {
        self.transactions += 1;
        let id = TransactionId { scheduler: self.scheduler, number: self.transactions };
        let base = self.cell.read(omega_cellstate::Cell::version);
        Transaction {
            granularity: Granularity::AllOrNothing,
            evictions,
            ..Transaction::new(id, base, claims)
        }
    }

    /// Whether a pod names one of our schedulers.
    pub(super) fn is_ours(&self, entry: &Entry) -> bool {
        self.settings.scheduler_names.contains(super::scheduler_of(&entry.pod))
    }

    /// Returns the jobs that keep room on a machine.
    pub(super) fn kept_on(&self, machine: MachineId) -> Vec<JobId> {
        let node = self.names.get(&machine);
        let on =
            |(_, name): &(&JobId, &PodName)| self.nominated_node(name) == node.map(String::as_str);
        self.rooms.iter().filter(on).map(|(room, _)| *room).collect()
    }
}
