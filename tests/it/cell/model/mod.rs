//! A model of the commit protocol, in which every order of events within bounds is tried.
//!
//! ```text
//!   client ──ask──▶ sender (a replica) ──▶ network: late, lost, doubled ──▶ leader of a term
//!     ▲                                                                      │ pre-check, or into its log
//!     └──────── reply, or timeout ◀── network ◀── reply ◀── committed ◀──────┘
//! ```
//!
//! It models `store/src/replica`: the requests that a leader answers in the pre-check, the requests that it accepts
//! from each sender, the entries of deposed leaders, and retries of clients. Raft itself is assumed to be correct: a
//! leader has all committed entries and any part of the uncommitted ones, and only the last leader commits. The network
//! is a set from which messages are never removed, so each may arrive late, twice or never.
//!
//! Each rule of the protocol can be left out, and the model must then find a violation. Otherwise the model would not
//! prove that the rule is needed.

mod world;

use stateright::{Checker, HasDiscoveries, Model, Property};
use std::collections::BTreeSet;
use world::{Act, Answer, World};

/// Rules of the protocol beyond those of Raft, each of which can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Results of past transactions are part of the state.
    Dedupe,
    /// A request is accepted only by the leader of the term that it is addressed to.
    TermInRequest,
    /// A leader accepts the requests of each sender in order, each at most once.
    AtMostOnce,
    /// A request that was sent before is never rejected by the pre-check.
    RetriesInLog,
}

/// Bounds of the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    pub(crate) left_out: Option<Rule>,
    /// Number of attempts of each client.
    pub(crate) attempts: &'static [u8],
    /// Number of leaders, one after another. An earlier leader may be unaware of a later one.
    pub(crate) terms: usize,
    /// Number of releases by another scheduler.
    pub(crate) releases: u8,
}

impl Protocol {
    pub(crate) fn keeps(&self, rule: Rule) -> bool {
        self.left_out != Some(rule)
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        world.acts(self, acts);
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        let mut next = world.clone();
        next.perform(self, &act);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        vec![
            Property::always("a transaction is taken at most once", |_, world: &World| {
                world.cell().taken.iter().all(|taken| *taken <= 1)
            }),
            Property::always("what was refused is never taken", |_, world: &World| {
                let taken = world.cell().taken;
                let refused = |results: &Vec<Answer>| results.contains(&Answer::Refused);
                let mut pairs = world.clients.iter().zip(taken);
                pairs.all(|(client, taken)| !refused(&client.results) || taken == 0)
            }),
            Property::always("what was said not to be done is not", |_, world: &World| {
                let taken = world.cell().taken;
                let mut pairs = world.clients.iter().zip(taken);
                pairs.all(|(client, taken)| !client.knows_that_nothing_was_done() || taken == 0)
            }),
            Property::always("what was said to be taken is", |_, world: &World| {
                let taken = world.cell().taken;
                let mut pairs = world.clients.iter().zip(taken);
                pairs.all(|(client, taken)| !client.results.contains(&Answer::Taken) || taken == 1)
            }),
            Property::always("a repeated request gets an equal result", |_, world: &World| {
                world.clients.iter().all(|client| client.results.windows(2).all(|w| w[0] == w[1]))
            }),
            Property::sometimes("every client has its answer", |_, world: &World| {
                world.clients.iter().all(|client| !client.results.is_empty())
            }),
            Property::sometimes("the last leader commits", |model: &Protocol, world: &World| {
                let last = world.committed.last();
                world.leaders.len() == model.terms && last.is_some_and(|entry| entry.is_claim())
            }),
            Property::sometimes("a result is received twice", |_, world: &World| {
                world.clients.iter().any(|client| client.results == [Answer::Taken; 2])
            }),
            Property::sometimes("a client is refused early", |_, world: &World| {
                world.clients.iter().any(|client| client.refused_early)
            }),
            Property::sometimes("an entry is overwritten", |_, world: &World| world.overwritten),
        ]
    }
}

const BOUNDS: Protocol = Protocol { left_out: None, attempts: &[2, 1], terms: 2, releases: 1 };

#[test]
fn the_commit_protocol_keeps_its_promises_in_every_order_of_events() {
    let checker = BOUNDS.checker().spawn_bfs().join();
    println!(
        "{} states, {} of them different",
        checker.state_count(),
        checker.unique_state_count()
    );
    checker.assert_properties();
    assert!(checker.is_done());
}

#[test]
fn without_any_one_of_its_rules_the_protocol_fails() {
    for (rule, broken) in [
        (Rule::Dedupe, "a transaction is taken at most once"),
        (Rule::TermInRequest, "what was said not to be done is not"),
        (Rule::AtMostOnce, "what was refused is never taken"),
        (Rule::RetriesInLog, "what was refused is never taken"),
    ] {
        let protocol = Protocol { left_out: Some(rule), ..BOUNDS };
        let found = HasDiscoveries::AnyOf(BTreeSet::from([broken]));
        let checker = protocol.checker().finish_when(found).spawn_bfs().join();
        let found = checker.discoveries();
        println!("without {rule:?}, after {} states: {:?}", checker.state_count(), found.keys());
        let path = found.get(broken);
        assert!(path.is_some(), "without {rule:?} the model finds nothing wrong");
        path.into_iter().for_each(|path| println!("{:?}", path.clone().into_actions()));
    }
}
