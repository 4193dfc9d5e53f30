//! Raft nodes in one thread, message by message: elections after a possible loss of a log's end, and membership changes
//! that a leader rejects.

use omega_cellstate::injected_bugs::{self, Bug};
use omega_store::log::{Entry, EntryKind, HardState, LogIndex, Position, ReplicaId, Term};
use omega_store::membership::{ChangeError, MemberStep, Membership, MembershipChange};
use omega_store::node::{self, Message, MessageKind, Node};
use omega_store::replica::FIRST;

fn at(index: u64) -> Position {
    Position { index: LogIndex(index), term: Term(2) }
}

/// A node that starts with entries up to `last`, and may have acknowledged further entries up to `doubt`.
fn start(id: u64, last: u64, doubt: Option<u64>, membership: &Membership) -> Node {
    let entry = |index| {
        let data = vec![7; 10].into();
        Entry { position: at(index), kind: EntryKind::Commands, data }
    };
    let start = node::Start {
        id: ReplicaId(id),
        base: FIRST,
        membership: membership.clone(),
        hard_state: HardState { term: Term(2), vote: None, commit: FIRST.index },
        entries: (2..=last).map(entry).collect(),
        suspected_loss: doubt.map(at),
    };
    Node::new(start, node::Settings::default())
}

fn three() -> Membership {
    Membership::initial([1, 2, 3].map(ReplicaId))
}

/// Delivers messages between these nodes until there are none. All other nodes are down.
fn settle(nodes: &mut [&mut Node]) {
    settle_but(nodes, |_| false);
}

/// Delivers all messages except those for which `lost` returns true, and returns these lost messages.
fn settle_but(nodes: &mut [&mut Node], lost: impl Fn(&Message) -> bool) -> Vec<Message> {
    let mut kept = Vec::new();
    loop {
        let mut messages = Vec::new();
        for node in nodes.iter_mut() {
            while let Some(effects) = node.effects() {
                messages.extend(effects.messages);
                effects.write.iter().for_each(|write| node.persisted(write.number));
                for entry in &effects.committed {
                    if entry.kind == EntryKind::Membership {
                        let change = MembershipChange::from_bytes(&entry.data).unwrap();
                        assert!(node.apply_change(&change));
                    }
                    node.applied(entry.position.index);
                }
            }
        }
        if messages.is_empty() {
            return kept;
        }
        for message in messages {
            if lost(&message) {
                kept.push(message);
            } else if let Some(node) = nodes.iter_mut().find(|node| node.id() == message.to) {
                node.receive(&message).unwrap();
            }
        }
    }
}

fn leads(node: &Node) -> bool {
    node.leadership().is_leader
}

/// Replicas 1 and 2 acknowledged entry 7, and replica 2 has lost it; replica 3 never had it.
#[test]
fn a_replica_in_doubt_elects_nobody_without_what_it_may_have_acknowledged() {
    let mut two = start(2, 6, Some(7), &three());
    let mut three_ = start(3, 6, None, &three());
    for _ in 0..2 {
        three_.campaign();
        settle(&mut [&mut two, &mut three_]);
        assert!(!leads(&three_), "3 would lead without entry 7");
        two.campaign();
        settle(&mut [&mut two, &mut three_]);
        assert!(!leads(&two), "2 would lead without entry 7");
    }

    let mut one = start(1, 7, None, &three());
    one.campaign();
    settle(&mut [&mut one, &mut two]);
    assert!(leads(&one), "2 may vote for whoever has entry 7");
    assert_eq!((two.entry(LogIndex(7)).unwrap().position, two.suspected_loss()), (at(7), None));
    settle(&mut [&mut one, &mut two, &mut three_]);
    two.campaign();
    settle(&mut [&mut two, &mut three_]);
    assert!(leads(&two), "it has caught up, and is elected as any other");
}

/// All replicas lost power, and one log has a torn record that no other replica has. At most one disk is damaged, so
/// the votes of all replicas prove that the record was never committed.
#[test]
fn all_votes_together_count_in_spite_of_doubts() {
    let torn = Some(7);
    for (candidate, third) in [(0, None), (1, None), (2, None), (0, torn), (2, torn)] {
        let mut nodes =
            [(1, torn), (2, torn), (3, third)].map(|(id, doubt)| start(id, 6, doubt, &three()));
        nodes[candidate].campaign();
        let [one, two, three] = &mut nodes;
        settle(&mut [one, two, three]);
        assert!(leads(&nodes[candidate]), "candidate {candidate}");
        assert!(
            nodes.iter().all(|node| node.suspected_loss().is_none()),
            "its first entry goes further"
        );
    }
}

/// The votes of all replicas must be for the same candidate and term.
#[test]
fn a_late_vote_is_not_one_of_all() {
    let mut one = start(1, 6, None, &three());
    let mut two = start(2, 6, Some(7), &three());
    let mut candidate = start(3, 6, None, &three());
    let vote_of_one =
        |message: &Message| message.kind == MessageKind::Voted && message.from == ReplicaId(1);
    let mut late = Vec::new();
    for _ in 0..2 {
        candidate.campaign();
        late.extend(settle_but(&mut [&mut one, &mut two, &mut candidate], vote_of_one));
    }
    assert_eq!(late.iter().map(|vote| vote.term).collect::<Vec<_>>(), [Term(3), Term(4)]);
    candidate.receive(&late[0]).unwrap();
    settle(&mut [&mut two, &mut candidate]);
    assert!(!leads(&candidate));
    candidate.receive(&late[1]).unwrap();
    settle(&mut [&mut two, &mut candidate]);
    assert!(leads(&candidate));
}

#[test]
fn a_replica_in_doubt_does_not_lead_alone() {
    let mut node = start(1, 6, Some(7), &Membership::initial([ReplicaId(1)]));
    (0..100).for_each(|_| node.tick());
    node.campaign();
    assert!(!leads(&node));
}

/// A leader of three voters with equal logs, and a learner whose log is empty.
fn with_learner(last: u64) -> [Node; 4] {
    let mut membership = three();
    membership.learners.insert(ReplicaId(4));
    membership.highest = Some(ReplicaId(4));
    let mut nodes =
        [1, 2, 3, 4].map(|id| start(id, if id == 4 { 1 } else { last }, None, &membership));
    nodes[0].campaign();
    let [one, two, three, _] = &mut nodes;
    settle(&mut [one, two, three]);
    assert!(leads(&nodes[0]));
    nodes
}

/// Ticks the leader, and delivers replies of the nodes that are up.
fn tick(leader: &mut Node, others: &mut [&mut Node]) {
    for _ in 0..3 * node::Settings::default().election_ticks {
        leader.tick();
        let mut up: Vec<&mut Node> = others.iter_mut().map(|node| &mut **node).collect();
        up.push(leader);
        settle(&mut up);
    }
}

#[test]
fn a_learner_is_promoted_when_it_has_caught_up_and_answers() {
    let promote = MembershipChange::one(MemberStep::Promote(ReplicaId(4)));
    let behind = Err(ChangeError::Behind(ReplicaId(4)));
    let silent = Err(ChangeError::NoAnswer { id: ReplicaId(4), address: None });
    let [mut one, mut two, mut three, mut four] = with_learner(200);
    assert_eq!(one.propose_change(&promote), silent, "it was never reached");
    for _ in 0..3 * node::Settings::default().election_ticks {
        one.tick();
        settle_but(&mut [&mut one, &mut two, &mut three, &mut four], |message| {
            message.to == ReplicaId(4) && message.kind != MessageKind::Heartbeat
        });
    }
    assert_eq!(one.propose_change(&promote), behind, "it answers, but has nothing yet");
    tick(&mut one, &mut [&mut two, &mut three, &mut four]);
    tick(&mut one, &mut [&mut two, &mut three]);
    assert_eq!(one.propose_change(&promote), silent, "it is silent now");
    tick(&mut one, &mut [&mut two, &mut three, &mut four]);
    assert!(one.propose_change(&promote).is_ok());
    settle(&mut [&mut one, &mut two, &mut three, &mut four]);
    assert!(one.membership().voters.contains(&ReplicaId(4)));
}

/// A leader of three voters with these entries, which adds replica 4. The others are in contact with the leader.
fn adding_a_learner(last: u64) -> [Node; 4] {
    let mut nodes =
        [1, 2, 3, 4].map(|id| start(id, if id == 4 { 1 } else { last }, None, &three()));
    nodes[0].campaign();
    let [one, two, three, _] = &mut nodes;
    tick(one, &mut [two, three]);
    one.propose_change(&MembershipChange::one(MemberStep::AddLearner(ReplicaId(4)))).unwrap();
    settle(&mut [one, two, three]);
    nodes
}

#[test]
fn a_new_learner_that_never_answered_gets_no_vote() {
    let promote = MembershipChange::one(MemberStep::Promote(ReplicaId(4)));
    let [mut one, mut two, mut three, mut four] = adding_a_learner(6);
    let silent = Err(ChangeError::NoAnswer { id: ReplicaId(4), address: None });
    assert_eq!(one.propose_change(&promote), silent);
    tick(&mut one, &mut [&mut two, &mut three, &mut four]);
    assert!(one.propose_change(&promote).is_ok());
}

#[test]
fn a_learner_that_needs_a_snapshot_gets_no_vote() {
    let promote = MembershipChange::one(MemberStep::Promote(ReplicaId(4)));
    let [mut one, mut two, mut three, mut four] = adding_a_learner(6);
    let end = one.last();
    let position = Position { index: end, term: one.leadership().term };
    one.snapshot_taken(position, one.membership().clone());
    assert_eq!(one.compact(end, 0).index, end);
    for _ in 0..3 * node::Settings::default().election_ticks {
        one.tick();
        settle_but(&mut [&mut one, &mut two, &mut three, &mut four], |message| {
            message.kind == MessageKind::Snapshot
        });
    }
    assert_eq!(one.propose_change(&promote), Err(ChangeError::Behind(ReplicaId(4))));
}

#[test]
fn a_change_that_would_lose_the_quorum_is_refused() {
    let remove = |id| MembershipChange::one(MemberStep::Remove(ReplicaId(id)));
    let [mut one, mut two, mut three, _] = with_learner(5);
    tick(&mut one, &mut [&mut two]);
    let refused = ChangeError::NoQuorum { voters: 2, silent: vec![ReplicaId(3)] };
    let text = refused.to_string();
    assert!(text.contains("without r3, which the leader does not reach"), "{text}");
    assert_eq!(one.propose_change(&remove(2)), Err(refused), "3 is silent, 2 would be gone");
    tick(&mut one, &mut [&mut two, &mut three]);
    assert!(one.propose_change(&remove(2)).is_ok());
}

/// Whether a new leader still leads after it has committed an earlier leader's entry that removes it.
fn leads_after_its_removal() -> bool {
    let [mut one, mut two, mut three] = [1, 2, 3].map(|id| start(id, 6, None, &three()));
    one.campaign();
    settle(&mut [&mut one, &mut two, &mut three]);
    tick(&mut one, &mut [&mut two, &mut three]);
    let remove = MembershipChange::one(MemberStep::Remove(two.id()));
    one.propose_change(&remove).unwrap();
    // Both other nodes have the entry, but the leader does not learn this, because it stops before the commit.
    settle_but(&mut [&mut one, &mut two, &mut three], |message| message.to == ReplicaId(1));
    assert!(two.membership().contains(two.id()));
    // This election is like one after a transfer of leadership. Otherwise the others would not vote while they assume
    // that there is a leader.
    let term = one.leadership().term;
    two.receive(&Message::new(MessageKind::StandNow, one.id(), two.id(), term)).unwrap();
    settle(&mut [&mut two, &mut three]);
    assert!(!two.membership().contains(two.id()), "it was elected, and committed the change");
    leads(&two)
}

#[test]
fn a_leader_that_commits_its_own_removal_steps_down() {
    assert!(!leads_after_its_removal());
    let with_mistake = injected_bugs::with(Some(Bug::RemovedLeaderStays), leads_after_its_removal);
    assert!(with_mistake, "the mistake shows here");
}
