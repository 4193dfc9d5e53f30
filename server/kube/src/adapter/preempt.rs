//! Preemption: a proposal becomes a nomination, and the victims are deleted.
//!
//! ```text
//!  proposal ──check──▶ room beside the victims ──▶ PATCH nominatedNodeName (pod)
//!                                              ──▶ PATCH DisruptionTarget, then DELETE with the uid (each victim)
//!  all victims gone ──check──▶ Binding
//! ```
//!
//! The cell checks the proposal: a transaction evicts the victims and claims their room. In the same batch of commands
//! the victims are adopted again, because they run until their kubelet reports their end.
//!
//! | a victim | step |
//! |---|---|
//! | is bound | it is deleted |
//! | is room that is kept for a pod, or for a pod whose binding was not sent or has failed | the room is given up |
//! | is a pod whose binding may arrive | the caller makes a proposal for another machine |

use super::effects::{Action, Done, Eviction, Nominee};
use super::nominations::{Nomination, Origin};
use super::{Adapter, Effect, Entry, PodName, Remark, State, scheduler_of};
use omega_core::{Claim, Command, Job, JobId, MachineId, Outcome, SequenceNumber, TaskId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Delay in milliseconds before a pod is tried again if the API server refused to delete one of its victims, and before
/// a deletion is requested again if the victim seemed to be gone or leaving, and is still there.
const REFUSED_MS: u64 = 30_000;

/// A proposal: victims whose deletion would let a pod fit on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The pod that would fit.
    pub pod: PodName,
    /// Job of the pod.
    pub job: JobId,
    /// Machine of the victims.
    pub machine: MachineId,
    /// Jobs of the victims, the most important first.
    pub victims: Vec<JobId>,
    /// Number of victims whose deletion violates a disruption budget.
    pub violations: usize,
}

/// The outcome of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The pod is nominated.
    Nominated,
    /// The cluster has changed since the proposal was made. The caller must make another one.
    Again,
    /// The binding of a victim may still arrive. The caller must make a proposal for another machine.
    InFlight,
    /// The pod does not need to be scheduled any more.
    Obsolete,
}

/// A deletion that is requested again later.
#[derive(Debug)]
pub(super) struct Postponed {
    eviction: Eviction,
    at_ms: u64,
}

/// A job that must leave its machine for a proposal.
enum Victim {
    /// A pod that is bound.
    Pod(PodName, Arc<Job>),
    /// Room that is kept for a less important pod. The room is given up, and no pod is deleted.
    Room(PodName),
    /// A pod that has room, is not bound, and of which no binding can arrive. It is scheduled elsewhere.
    Undecided(PodName),
}

impl Adapter {
    /// Whether a pod may preempt others at present.
    #[must_use]
    pub fn may_preempt(&self, name: &PodName) -> bool {
        let able = |entry: &super::Entry| {
            let waits = entry.nomination.as_ref().is_some_and(|kept| !kept.victims.is_empty());
            entry.state == State::Pending && !waits && entry.pod.spec.preemption_policy != "Never"
        };
        self.leads && self.budgets.are_listed() && self.pods.get(name).is_some_and(able)
    }

    /// Carries out a proposal, if it is still valid.
    pub fn preempt(&mut self, proposal: &Proposal) -> Verdict {
        self.settle_groups();
        let Proposal { pod: name, job, machine, .. } = proposal;
        let current = self.pods.get(name).is_some_and(|entry| entry.job == Some(*job));
        let Some(node) = self.names.get(machine).cloned() else { return Verdict::Obsolete };
        if !current || !self.may_preempt(name) {
            return Verdict::Obsolete;
        }
        let victims = match self.victims(proposal, &node) {
            Ok(victims) => victims,
            Err(verdict) => return verdict,
        };
        let mut jobs = Vec::new();
        for victim in &victims {
            if let Victim::Pod(_, job) = victim {
                jobs.push(Arc::clone(job));
            }
        }
        if self.budgets.violations(&jobs) > proposal.violations {
            return Verdict::Again;
        }
        self.drop_nomination(name);
        let Some(room) = self.make_room(proposal) else { return Verdict::Again };
        let mut leaving = BTreeMap::new();
        for victim in victims {
            match victim {
                Victim::Pod(victim, job) => {
                    let Some(entry) = self.pods.get(&victim) else { continue };
                    let uid = entry.pod.metadata.uid.clone();
                    // The controller has counted a pod that is leaving already.
                    if entry.pod.metadata.deleted.is_none() {
                        self.budgets.hold(&uid, job);
                    }
                    leaving.insert(victim, uid);
                }
                Victim::Room(nominee) => self.give_nomination_up(&nominee),
                Victim::Undecided(victim) => self.displace(&victim),
            }
        }
        self.counters.preemptions += 1;
        self.counters.victims += leaving.len() as u64;
        tracing::info!(pod = %name, %node, victims = leaving.len(), "preempting");
        let (victims, origin) = (leaving.clone(), Origin::Ours);
        self.keep(name, Nomination { node: node.clone(), victims, room, origin });
        self.show_nomination(name, Some(node));
        leaving.keys().for_each(|victim| self.evict(victim, name));
        self.bind_if_free(name);
        Verdict::Nominated
    }

    /// Returns the victims of a proposal. Returns an error if one of them is gone, or its binding may arrive.
    fn victims(&self, proposal: &Proposal, node: &str) -> Result<Vec<Victim>, Verdict> {
        let victim = |job: &JobId| {
            if let Some(nominee) = self.rooms.get(job) {
                return Ok(Victim::Room(nominee.clone()));
            }
            let name = self.jobs.get(job).ok_or(Verdict::Again)?;
            let entry = self.pods.get(name).ok_or(Verdict::Again)?;
            if self.machine_of(entry) != Some(proposal.machine) {
                return Err(Verdict::Again);
            }
            match &entry.state {
                State::Bound(at) if at == node => {
                    let spec = self.cell.read(|cell| cell.job(*job).cloned());
                    Ok(Victim::Pod(name.clone(), spec.ok_or(Verdict::Again)?))
                }
                State::Assumed { .. } | State::Parked { .. } if self.may_arrive(entry) => {
                    Err(Verdict::InFlight)
                }
                State::Assumed { .. } | State::Parked { .. } => Ok(Victim::Undecided(name.clone())),
                State::Held(_) | State::Pending | State::Bound(_) => Err(Verdict::Again),
            }
        };
        proposal.victims.iter().map(victim).collect()
    }

    /// Whether a binding of a pod that has room, and is not bound, may still arrive.
    fn may_arrive(&self, entry: &Entry) -> bool {
        match entry.state {
            State::Assumed { .. } => entry.waiting.is_none(),
            _ => entry.late_until_ms > self.now_ms,
        }
    }

    /// Takes the room of a pod that is not bound, and of which no binding can arrive.
    fn displace(&mut self, name: &PodName) {
        if matches!(self.state(name), Some(State::Assumed { .. })) {
            self.effects.push(Effect::GiveUp(name.clone()));
            self.stop_waiting(name);
            self.leave_node(name);
            self.set(name, State::Held(String::new()));
        }
        self.replace(name, None);
        self.settle(name);
    }

    /// Places a job that keeps room for the pod on the machine of its victims, if the pod fits without them. Returns
    /// that job. All commands are one batch, so no worker finds the room free.
    fn make_room(&mut self, proposal: &Proposal) -> Option<JobId> {
        let machine = proposal.machine;
        let task = |job| TaskId { job, index: 0 };
        let job = self.room_for(&proposal.pod)?;
        let room = self.cell.read(|cell| cell.next_job());
        let evictions = proposal.victims.iter().map(|job| task(*job)).collect();
        let claim = Claim::new(task(room), machine, SequenceNumber::default());
        let transaction = self.transaction(vec![claim], evictions);
        let mut commands = vec![Command::SubmitJob(job), Command::Commit(transaction)];
        // After a conflict the victims are still placed. Adopting them then changes nothing.
        let stay = proposal.victims.iter().filter(|job| !self.rooms.contains_key(job));
        commands.extend(stay.map(|job| Command::AdoptTask { task: task(*job), machine }));
        let outcomes = self.cell.apply_all(commands);
        match outcomes.get(1) {
            Some(Ok(Outcome::Commit(commit))) if commit.conflicts.is_empty() => Some(room),
            other => {
                tracing::debug!(pod = %proposal.pod, ?other, "a preemption conflicts");
                if matches!(outcomes.first(), Some(Ok(_))) {
                    let _ = self.cell.apply(Command::KillJob { job: room });
                }
                None
            }
        }
    }

    /// Requests the deletion of a victim, unless the deletion was already requested.
    fn evict(&mut self, victim: &PodName, by: &PodName) {
        let (Some(entry), Some(preemptor)) = (self.pods.get(victim), self.pods.get(by)) else {
            return;
        };
        let waited_for = |name: &&PodName| {
            let kept = self.pods.get(*name).and_then(|entry| entry.nomination.as_ref());
            *name != by && kept.is_some_and(|kept| kept.victims.contains_key(victim))
        };
        if entry.pod.metadata.deleted.is_some() || self.rooms.values().any(|name| waited_for(&name))
        {
            return;
        }
        let State::Bound(node) = &entry.state else { return };
        let eviction = Eviction {
            pod: victim.clone(),
            uid: entry.pod.metadata.uid.clone(),
            by: by.clone(),
            by_uid: preemptor.pod.metadata.uid.clone(),
            scheduler: scheduler_of(&preemptor.pod).to_owned(),
            node: node.clone(),
        };
        self.postponed.remove(victim);
        self.effects.push(Effect::Act(Action::Evict(eviction, 0)));
    }

    /// Whether a pod still waits for the deletion of this victim.
    fn is_wanted(&self, eviction: &Eviction) -> bool {
        let waits = |entry: &super::Entry| {
            let kept = entry.nomination.as_ref();
            kept.is_some_and(|kept| kept.victims.get(&eviction.pod) == Some(&eviction.uid))
        };
        self.rooms.values().any(|name| self.pods.get(name).is_some_and(waits))
    }

    /// Handles the outcome of a victim's deletion.
    pub fn evicted(&mut self, eviction: Eviction, done: Done, now_ms: u64) {
        let delay_ms = match done {
            Done::Done => {
                let Eviction { pod, by_uid, node, .. } = eviction.clone();
                self.effects.push(Effect::Tell(pod, Remark::Preempted { by_uid, node }));
                REFUSED_MS
            }
            Done::Refused => return self.put_off(&eviction, now_ms),
            // Usually, the watch reports that the victim is gone. But a status that others often write causes the same
            // answer, and without another request the preempting pod would wait for ever.
            Done::Gone => REFUSED_MS,
            Done::Throttled(ms) => ms,
            Done::Unknown => 1000,
        };
        let at_ms = now_ms.saturating_add(delay_ms);
        self.postponed.insert(eviction.pod.clone(), Postponed { eviction, at_ms });
    }

    /// Requests the postponed deletions whose time has come. A deletion is dropped if the victim is leaving, or if no
    /// pod waits for it any more: the pod may have been bound elsewhere since, or may have been deleted.
    pub(super) fn evict_postponed(&mut self, now_ms: u64) {
        let due = self.postponed.extract_if(.., |_, postponed| postponed.at_ms <= now_ms);
        let due: Vec<Postponed> = due.map(|(_, postponed)| postponed).collect();
        for Postponed { eviction, .. } in due {
            let victim = self.pods.get(&eviction.pod).map(|entry| &entry.pod.metadata);
            if victim.is_none_or(|it| it.uid != eviction.uid || it.deleted.is_some()) {
                continue;
            }
            if self.is_wanted(&eviction) {
                self.effects.push(Effect::Act(Action::Evict(eviction, 0)));
            } else {
                self.budgets.release(&eviction.uid);
            }
        }
    }

    /// Gives up the nominations that wait for this victim, because the API server refuses to delete it.
    fn put_off(&mut self, eviction: &Eviction, now_ms: u64) {
        self.budgets.release(&eviction.uid);
        let waits = |name: &&PodName| {
            let kept = self.pods.get(*name).and_then(|entry| entry.nomination.as_ref());
            kept.is_some_and(|kept| kept.victims.contains_key(&eviction.pod))
        };
        let names: Vec<PodName> = self.rooms.values().filter(waits).cloned().collect();
        for name in names {
            self.give_nomination_up(&name);
            if self.state(&name) == Some(&State::Pending) {
                self.replace(&name, None);
                self.set(&name, State::Parked { until_ms: now_ms + REFUSED_MS });
            }
        }
    }

    /// Handles the outcome of a change of a nominated node.
    pub fn nominated(&mut self, nominee: Nominee, done: Done, now_ms: u64) -> Option<Action> {
        let delay = match done {
            Done::Throttled(ms) => ms,
            Done::Unknown => 1000,
            Done::Done | Done::Gone | Done::Refused => return None,
        };
        let entry = self.pods.get(&nominee.pod)?;
        let kept = entry.nomination.as_ref().map(|kept| kept.node.clone());
        let wanted = entry.pod.metadata.uid == nominee.uid
            && kept == nominee.node
            && entry.state == State::Pending;
        wanted.then(|| Action::Nominate(nominee, now_ms + delay))
    }
}
