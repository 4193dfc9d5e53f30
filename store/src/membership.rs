//! Membership of a cell, and its changes.
//!
//! The membership is replicated state: entries of the log change it, and snapshots contain it. The id of a replica is
//! never reused. A removed replica may have forgotten its promises, so it can only return under a new id, as a learner.

use crate::codec::{self, CodecError};
use crate::log::ReplicaId;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum bytes of a replica's address.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// Maximum number of replicas of a cell. Each further replica makes every commit more expensive, and more than seven
/// voters are not useful.
pub const REPLICAS_MAX: usize = 32;

/// Maximum number of unused ids below the id of a new replica. A typing error could use up the ids otherwise, because
/// each new id must be above all earlier ones.
const IDS_LEFT_OUT_MAX: u64 = 1000;

/// The replicas of a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Voters, whose majority commits.
    pub voters: BTreeSet<ReplicaId>,
    /// The former voters while a change of several replicas is in progress. Until the change is complete, a commit also
    /// needs their majority.
    pub voters_outgoing: BTreeSet<ReplicaId>,
    /// Replicas that receive the log but do not vote.
    pub learners: BTreeSet<ReplicaId>,
    /// Outgoing voters that become learners when the change is complete.
    pub learners_next: BTreeSet<ReplicaId>,
    /// Whether the leader completes a change of several replicas by itself.
    pub auto_leave: bool,
    /// Highest id that was ever used.
    pub highest: Option<ReplicaId>,
    /// Addresses (`host:port`) at which the other replicas reach a replica. A replica has an entry only if a change has
    /// set its address.
    pub addresses: BTreeMap<ReplicaId, String>,
}

/// One step of a change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemberStep {
    /// Makes a learner that has caught up a voter.
    Promote(ReplicaId),
    /// Adds a new replica as a learner.
    AddLearner(ReplicaId),
    /// Removes a replica, whose id can never return.
    Remove(ReplicaId),
    /// Sets the address at which the other replicas reach a replica.
    Locate {
        /// Id of the replica, which is a member or is added by an earlier step of the change.
        id: ReplicaId,
        /// The address, as `host:port`.
        address: String,
    },
}

/// A change of the membership. It takes effect as a whole, even if it changes several replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipChange {
    /// Steps of the change. An empty list completes a change of several replicas.
    pub steps: Vec<MemberStep>,
}

/// Error of an invalid membership change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The change is empty. Name at least one replica.
    #[error("the change names no replica: name at least one")]
    Empty,
    /// The id was used before. Choose one above the highest.
    #[error("the id {0} was used before: choose an id above {1}")]
    IdUsed(ReplicaId, ReplicaId),
    /// The replica is no member. Choose one from the list of members.
    #[error("{0} is not a replica of this cell: choose one from the list of replicas")]
    Unknown(ReplicaId),
    /// The replica votes already.
    #[error("{0} already has a vote: there is nothing to change")]
    Votes(ReplicaId),
    /// The change names a replica twice. Name each once.
    #[error("{0} is named twice: name it once")]
    Twice(ReplicaId),
    /// No voter would be left. Keep at least one.
    #[error("no replica with a vote would be left: keep at least one")]
    NoVoters,
    /// There would be too many replicas. Remove one first.
    #[error("a cell has at most {REPLICAS_MAX} replicas: remove one first")]
    TooMany,
    /// The learner has not caught up. Wait until it has the entries of the leader.
    #[error("{0} has not caught up with the leader yet: wait, then promote it")]
    Behind(ReplicaId),
    /// Too few of the new voters respond. Make sure that they run first.
    #[error(
        "after the change, {voters} replicas would have a vote, and the others could not decide \
         without {}, which the leader does not reach: start it, or correct its address (`omega \
         member update`), then try again",
        list(silent)
    )]
    NoQuorum {
        /// Number of voters after the change.
        voters: usize,
        /// Voters that have not replied to the leader recently.
        silent: Vec<ReplicaId>,
    },
    /// The leader would remove itself. Transfer leadership first.
    #[error(
        "{0} leads the cell: transfer the leadership to another replica first (`omega member \
         transfer`)"
    )]
    Leads(ReplicaId),
    /// Another change is in progress. Wait until it is complete.
    #[error("another change of the membership is in progress: wait until it is done")]
    Pending,
    /// This replica is not the leader. Send the request to the leader.
    #[error("this replica does not lead: ask the leader")]
    NotLeader,
    /// The address is invalid. Give a host and a port.
    #[error(
        "{0:?} is not the address of a replica: must be host:port, of at most {ADDRESS_BYTES_MAX} \
         bytes"
    )]
    Address(String),
    /// Another replica has the address. Give each replica its own.
    #[error("{address} is already the address of {id}: give each replica its own")]
    AddressTaken {
        /// The address.
        address: String,
        /// Replica that has the address.
        id: ReplicaId,
    },
    /// The learner does not respond to the leader. Start it, or correct its address.
    #[error(
        "the leader does not reach {id} at {}: start {id}, and check that this is the address in \
         its own --peers; `omega member update` changes it",
        address.as_deref().unwrap_or("its address")
    )]
    NoAnswer {
        /// The learner.
        id: ReplicaId,
        /// Address of the learner, if a change has set it.
        address: Option<String>,
    },
    /// The new id is far above all earlier ones, which would use up the ids. Choose the next one.
    #[error("the id {id} leaves out too many ids: choose {next}")]
    IdAhead {
        /// The given id.
        id: ReplicaId,
        /// The next id.
        next: ReplicaId,
    },
}

/// Replicas as a list, such as `r2 or r3`.
fn list(replicas: &[ReplicaId]) -> String {
    replicas.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

/// Whether a text is a `host:port` address. The host's name is resolved only when a replica connects.
#[must_use]
pub fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_host = |one: char| one.is_ascii_alphanumeric() || "-._:[]%".contains(one);
    text.len() <= ADDRESS_BYTES_MAX
        && !host.is_empty()
        && host.chars().all(is_host)
        && (!host.contains(':') || host.starts_with('[') && host.ends_with(']'))
        && port.parse::<u16>().is_ok_and(|port| port > 0)
}

impl Membership {
    /// The initial membership of a cell, with these voters.
    #[must_use]
    pub fn initial(voters: impl IntoIterator<Item = ReplicaId>) -> Membership {
        let voters: BTreeSet<_> = voters.into_iter().collect();
        Membership { highest: voters.last().copied(), voters, ..Membership::default() }
    }

    /// Whether a replica is a member, in any role.
    #[must_use]
    pub fn contains(&self, id: ReplicaId) -> bool {
        let sets = [&self.voters, &self.voters_outgoing, &self.learners];
        sets.into_iter().any(|set| set.contains(&id))
    }

    /// Whether a replica was a member and was removed. This is known because ids are assigned in ascending order, each
    /// once.
    #[must_use]
    pub fn has_removed(&self, id: ReplicaId) -> bool {
        self.highest.is_some_and(|highest| id <= highest) && !self.contains(id)
    }

    /// Every replica, in ascending order.
    #[must_use]
    pub fn members(&self) -> BTreeSet<ReplicaId> {
        let sets = [&self.voters, &self.voters_outgoing, &self.learners];
        sets.into_iter().flatten().copied().collect()
    }

    /// Whether a change of several replicas is in progress.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        !self.voters_outgoing.is_empty()
    }

    /// Whether the membership is consistent. Called for memberships that were decoded or come from another replica.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let votes = |id| self.voters.contains(id) || self.voters_outgoing.contains(id);
        let members = self.members();
        !self.voters.is_empty()
            && members.len() <= REPLICAS_MAX
            && members.first().is_some_and(|first| first.0 > 0)
            && self.learners.iter().all(|id| !votes(id))
            && self.learners_next.iter().all(|id| self.voters_outgoing.contains(id))
            && self.learners_next.iter().all(|id| !self.voters.contains(id))
            && (self.is_joint() || !self.auto_leave && self.learners_next.is_empty())
            && members.last() <= self.highest.as_ref()
            && self.addresses.keys().all(|id| members.contains(id))
            && self.addresses.values().all(|address| is_address(address))
    }

    /// Checks a change against this membership. Every replica calls this when it applies the change, with equal
    /// results.
    ///
    /// # Errors
    /// The change is invalid.
    pub fn check(&self, change: &MembershipChange) -> Result<(), ChangeError> {
        if change.steps.is_empty() {
            return if self.is_joint() { Ok(()) } else { Err(ChangeError::Empty) };
        }
        if self.is_joint() {
            return Err(ChangeError::Pending);
        }
        let mut named = BTreeSet::new();
        let (mut voters, mut members) = (self.voters.clone(), self.members());
        for step in &change.steps {
            let (MemberStep::Promote(id) | MemberStep::AddLearner(id) | MemberStep::Remove(id)) =
                *step
            else {
                continue;
            };
            if !named.insert(id) {
                return Err(ChangeError::Twice(id));
            }
            match step {
                MemberStep::AddLearner(_) => {
                    let highest = self.highest.unwrap_or(ReplicaId(0));
                    let comes_back = omega_cellstate::injected!(IdComesBack) && !self.contains(id);
                    if id <= highest && !comes_back {
                        return Err(ChangeError::IdUsed(id, highest));
                    }
                    members.insert(id);
                }
                _ if !self.contains(id) => return Err(ChangeError::Unknown(id)),
                MemberStep::Promote(_) if !voters.insert(id) => return Err(ChangeError::Votes(id)),
                MemberStep::Promote(_) => {}
                MemberStep::Remove(_) => {
                    voters.remove(&id);
                    members.remove(&id);
                }
                MemberStep::Locate { .. } => {}
            }
        }
        self.check_addresses(change, &members)?;
        if voters.is_empty() {
            Err(ChangeError::NoVoters)
        } else if members.len() > REPLICAS_MAX {
            Err(ChangeError::TooMany)
        } else {
            Ok(())
        }
    }

    /// Checks that a change leaves out few ids. Only a leader checks this, before it proposes the change, because logs
    /// of earlier versions may have other changes.
    ///
    /// # Errors
    /// An id is far above all earlier ones.
    pub(crate) fn check_ids(&self, change: &MembershipChange) -> Result<(), ChangeError> {
        let highest = self.highest.map_or(0, |highest| highest.0);
        let is_ahead = |id: &ReplicaId| id.0 > highest.saturating_add(IDS_LEFT_OUT_MAX);
        match change.added().find(is_ahead) {
            Some(id) => Err(ChangeError::IdAhead { id, next: ReplicaId(highest + 1) }),
            None => Ok(()),
        }
    }

    /// Checks the addresses that a change sets, among the replicas that are members after it.
    fn check_addresses(
        &self,
        change: &MembershipChange,
        members: &BTreeSet<ReplicaId>,
    ) -> Result<(), ChangeError> {
        let mut located = BTreeSet::new();
        let mut addresses = self.addresses.clone();
        addresses.retain(|id, _| members.contains(id));
        for (id, address) in change.located() {
            if !members.contains(&id) {
                return Err(ChangeError::Unknown(id));
            }
            if !located.insert(id) {
                return Err(ChangeError::Twice(id));
            }
            if !is_address(address) {
                return Err(ChangeError::Address(address.to_owned()));
            }
            addresses.insert(id, address.to_owned());
        }
        for (id, address) in change.located() {
            let mut others = addresses.iter().filter(|(other, _)| **other != id);
            if let Some((&id, _)) = others.find(|(_, other)| *other == address) {
                return Err(ChangeError::AddressTaken { address: address.to_owned(), id });
            }
        }
        Ok(())
    }

    /// The voters after a change.
    #[must_use]
    pub fn voters_after(&self, change: &MembershipChange) -> BTreeSet<ReplicaId> {
        let mut voters = self.voters.clone();
        for step in &change.steps {
            match step {
                MemberStep::Promote(id) => _ = voters.insert(*id),
                MemberStep::Remove(id) => _ = voters.remove(id),
                MemberStep::AddLearner(_) | MemberStep::Locate { .. } => {}
            }
        }
        voters
    }

    /// Applies the membership that raft-rs derived from a change.
    pub(crate) fn follow(&mut self, state: &ConfState, change: &MembershipChange) {
        let highest = self.highest.into_iter().chain(change.added()).max();
        let set = |ids: &[u64]| ids.iter().copied().map(ReplicaId).collect();
        let mut addresses = std::mem::take(&mut self.addresses);
        addresses.extend(change.located().map(|(id, address)| (id, address.to_owned())));
        *self = Membership {
            voters: set(&state.voters),
            voters_outgoing: set(&state.voters_outgoing),
            learners: set(&state.learners),
            learners_next: set(&state.learners_next),
            auto_leave: state.auto_leave,
            highest,
            addresses: BTreeMap::new(),
        };
        addresses.retain(|id, _| self.contains(*id));
        self.addresses = addresses;
    }

    /// The membership in the types of raft-rs.
    pub(crate) fn to_raft(&self) -> ConfState {
        let list = |set: &BTreeSet<ReplicaId>| set.iter().map(|id| id.0).collect::<Vec<_>>();
        ConfState {
            voters: list(&self.voters),
            voters_outgoing: list(&self.voters_outgoing),
            learners: list(&self.learners),
            learners_next: list(&self.learners_next),
            auto_leave: self.auto_leave,
            ..ConfState::default()
        }
    }
}

impl MembershipChange {
    /// A change of one step.
    #[must_use]
    pub fn one(step: MemberStep) -> MembershipChange {
        MembershipChange { steps: vec![step] }
    }

    /// The replicas that the change adds.
    fn added(&self) -> impl Iterator<Item = ReplicaId> {
        self.steps.iter().filter_map(|step| match step {
            MemberStep::AddLearner(id) => Some(*id),
            _ => None,
        })
    }

    /// The addresses that the change sets, in the order of its steps.
    fn located(&self) -> impl Iterator<Item = (ReplicaId, &str)> {
        self.steps.iter().filter_map(|step| match step {
            MemberStep::Locate { id, address } => Some((*id, address.as_str())),
            _ => None,
        })
    }

    /// Converts the change to the types of raft-rs. Those types have no addresses. So the field `context` of a change
    /// that sets addresses contains the whole encoded change.
    pub(crate) fn to_raft(&self) -> ConfChangeV2 {
        let single = |step: &MemberStep| {
            let (kind, id) = match step {
                MemberStep::Promote(id) => (ConfChangeType::AddNode, id.0),
                MemberStep::AddLearner(id) => (ConfChangeType::AddLearnerNode, id.0),
                MemberStep::Remove(id) => (ConfChangeType::RemoveNode, id.0),
                MemberStep::Locate { .. } => return None,
            };
            Some(ConfChangeSingle { change_type: kind, node_id: id, ..ConfChangeSingle::default() })
        };
        let mut changes: Vec<_> = self.steps.iter().filter_map(single).collect();
        let sets_addresses = self.located().next().is_some();
        if sets_addresses && changes.is_empty() {
            // raft-rs ignores this change of replica 0. Without it, the list of changes would be empty, and would
            // complete a joint change.
            changes.push(ConfChangeSingle::default());
        }
        let context = if sets_addresses { self.to_bytes() } else { Vec::new() };
        ConfChangeV2 { changes: changes.into(), context: context.into(), ..ConfChangeV2::default() }
    }

    /// Converts a change from the types of raft-rs. The bytes come only from this replica's own raft-rs.
    pub(crate) fn from_raft(change: &ConfChangeV2) -> MembershipChange {
        if !change.context.is_empty() {
            return MembershipChange::from_bytes(&change.context).expect("this replica wrote it");
        }
        let step = |single: &ConfChangeSingle| match single.change_type {
            ConfChangeType::AddNode => MemberStep::Promote(ReplicaId(single.node_id)),
            ConfChangeType::AddLearnerNode => MemberStep::AddLearner(ReplicaId(single.node_id)),
            ConfChangeType::RemoveNode => MemberStep::Remove(ReplicaId(single.node_id)),
        };
        MembershipChange { steps: change.changes.iter().map(step).collect() }
    }

    /// The bytes of the change in an entry.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        codec::encode_small(self)
    }

    /// Decodes the content of an entry.
    ///
    /// # Errors
    /// The bytes are no membership change.
    pub fn from_bytes(bytes: &[u8]) -> Result<MembershipChange, CodecError> {
        codec::decode_small(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Membership {
        Membership::initial([1, 2, 3].map(ReplicaId))
    }

    #[test]
    fn an_id_is_never_used_twice() {
        let change = MembershipChange::one(MemberStep::AddLearner(ReplicaId(3)));
        assert_eq!(three().check(&change), Err(ChangeError::IdUsed(ReplicaId(3), ReplicaId(3))));
        let change = MembershipChange::one(MemberStep::AddLearner(ReplicaId(4)));
        assert_eq!(three().check(&change), Ok(()));
    }

    #[test]
    fn ids_are_not_used_up() {
        let add = |id| MembershipChange::one(MemberStep::AddLearner(ReplicaId(id)));
        assert_eq!(three().check_ids(&add(3 + IDS_LEFT_OUT_MAX)), Ok(()));
        for id in [4 + IDS_LEFT_OUT_MAX, u64::MAX] {
            let refused = ChangeError::IdAhead { id: ReplicaId(id), next: ReplicaId(4) };
            assert_eq!(three().check_ids(&add(id)), Err(refused));
            assert_eq!(three().check(&add(id)), Ok(()), "a log may have it");
        }
    }

    #[test]
    fn somebody_votes() {
        let steps = [1, 2, 3].map(|id| MemberStep::Remove(ReplicaId(id))).to_vec();
        assert_eq!(three().check(&MembershipChange { steps }), Err(ChangeError::NoVoters));
        assert_eq!(three().check(&MembershipChange::default()), Err(ChangeError::Empty));
        let twice = vec![MemberStep::Remove(ReplicaId(1)), MemberStep::Promote(ReplicaId(1))];
        let twice = MembershipChange { steps: twice };
        assert_eq!(three().check(&twice), Err(ChangeError::Twice(ReplicaId(1))));
    }

    #[test]
    fn a_cell_has_so_many_replicas_and_no_more() {
        let founders = |count| Membership::initial((1..=count).map(ReplicaId));
        let (next, most) = (REPLICAS_MAX as u64 + 1, founders(REPLICAS_MAX as u64));
        let add = MembershipChange::one(MemberStep::AddLearner(ReplicaId(next)));
        assert_eq!(most.check(&add), Err(ChangeError::TooMany));
        assert!(most.is_sound() && !founders(next).is_sound());
        let exchange =
            vec![MemberStep::Remove(ReplicaId(1)), MemberStep::AddLearner(ReplicaId(next))];
        assert_eq!(most.check(&MembershipChange { steps: exchange }), Ok(()));
        let add = MembershipChange::one(MemberStep::AddLearner(ReplicaId(next - 1)));
        assert_eq!(founders(next - 2).check(&add), Ok(()));
    }

    #[test]
    fn soundness_is_checked() {
        assert!(three().is_sound());
        assert!(!Membership::default().is_sound());
        assert!(!Membership::initial([0, 1].map(ReplicaId)).is_sound());
        let mut both = three();
        both.learners.insert(ReplicaId(2));
        assert!(!both.is_sound());
        let mut beyond = three();
        beyond.highest = Some(ReplicaId(2));
        assert!(!beyond.is_sound());
    }

    fn locate(id: u64, address: &str) -> MemberStep {
        MemberStep::Locate { id: ReplicaId(id), address: address.to_owned() }
    }

    #[test]
    fn addresses_are_those_of_members_and_all_different() {
        let add = |address: &str| MembershipChange {
            steps: vec![MemberStep::AddLearner(ReplicaId(4)), locate(4, address)],
        };
        assert_eq!(three().check(&add("four.example:7700")), Ok(()));
        assert_eq!(three().check(&add("[::1]:7700")), Ok(()));
        for bad in
            ["", "four.example", ":7700", "four:0", "four:99999", "a b:1", "::1:7700", "x\n:1"]
        {
            assert_eq!(
                three().check(&add(bad)),
                Err(ChangeError::Address(bad.to_owned())),
                "{bad:?}"
            );
        }
        let foreign = MembershipChange::one(locate(9, "nine:7700"));
        assert_eq!(three().check(&foreign), Err(ChangeError::Unknown(ReplicaId(9))));
        let removed = MembershipChange {
            steps: vec![MemberStep::Remove(ReplicaId(3)), locate(3, "three:7700")],
        };
        assert_eq!(three().check(&removed), Err(ChangeError::Unknown(ReplicaId(3))));
        let twice = MembershipChange { steps: vec![locate(1, "one:7700"), locate(1, "two:7700")] };
        assert_eq!(three().check(&twice), Err(ChangeError::Twice(ReplicaId(1))));
        let same = MembershipChange { steps: vec![locate(1, "one:7700"), locate(2, "one:7700")] };
        assert!(matches!(three().check(&same), Err(ChangeError::AddressTaken { .. })));
        // The address of a removed replica may be given to another one.
        let addresses = BTreeMap::from([(ReplicaId(3), "three:7700".to_owned())]);
        let known = Membership { addresses, ..three() };
        let taken =
            Err(ChangeError::AddressTaken { address: "three:7700".into(), id: ReplicaId(3) });
        assert_eq!(known.check(&add("three:7700")), taken);
        let mut replaced = add("three:7700");
        replaced.steps.push(MemberStep::Remove(ReplicaId(3)));
        assert_eq!(known.check(&replaced), Ok(()));
    }

    #[test]
    fn raft_carries_addresses_without_reading_them() {
        let moved = MembershipChange::one(locate(2, "two:7701"));
        let added = MembershipChange {
            steps: vec![MemberStep::AddLearner(ReplicaId(4)), locate(4, "f:1")],
        };
        let plain = MembershipChange::one(MemberStep::Remove(ReplicaId(2)));
        let complete = MembershipChange::default();
        for change in [&moved, &added, &plain, &complete] {
            assert_eq!(MembershipChange::from_raft(&change.to_raft()), *change);
            assert_eq!(MembershipChange::from_bytes(&change.to_bytes()).unwrap(), *change);
        }
        assert!(!moved.to_raft().leave_joint() && complete.to_raft().leave_joint());
        assert_eq!(added.to_raft().enter_joint(), None, "one replica changes: a simple change");
    }

    #[test]
    fn a_removed_replica_has_no_address_any_more() {
        let mut members = three();
        let set = MembershipChange { steps: vec![locate(2, "two:1"), locate(3, "three:1")] };
        members.follow(&members.to_raft(), &set);
        assert_eq!(members.addresses.len(), 2);
        assert!(members.is_sound());
        let remove = MembershipChange::one(MemberStep::Remove(ReplicaId(3)));
        members.follow(&Membership::initial([1, 2].map(ReplicaId)).to_raft(), &remove);
        assert_eq!(members.addresses, BTreeMap::from([(ReplicaId(2), "two:1".to_owned())]));
        assert_eq!(members.highest, Some(ReplicaId(3)));
    }
}
