//! Random histories with lost and late requests, throttling, relists, deleted and recreated pods, removed and added
//! nodes, and foreign bindings. No pod is bound twice, no pod is forgotten, and without foreign bindings no node is
//! overcommitted.

use crate::double::{NODES as NODE_LIST, PODS as POD_LIST, text};
use crate::pairs::{Pair, add_node};
use omega_kube::adapter::answer::{Action, Answer};
use omega_kube::adapter::preempt::Done;
use omega_kube::adapter::{Binding, PodName};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::Value;
use std::sync::Arc;

const NODES: u32 = 4;
const PODS: u32 = 24;

struct World {
    pair: Pair,
    dice: Pcg64,
    now_ms: u64,
    actions: Vec<Action>,
    /// Requests whose answers were lost, and which arrive late.
    late: Vec<(u64, Binding)>,
    /// Whether other schedulers bind pods, and nodes are removed.
    foreign: bool,
    /// Whether pods differ in priority.
    ranked: bool,
}

impl World {
    fn chance(&mut self, of: u32) -> u32 {
        self.dice.random_range(0..of)
    }

    fn pick(&mut self) -> String {
        format!("p{}", self.chance(PODS))
    }

    fn turn(&mut self) {
        match self.chance(16) {
            0 | 1 => {
                let (name, milli) = (self.pick(), 500 + 500 * self.chance(3));
                let priority = if self.ranked { self.chance(3) } else { 0 };
                self.pair.create_ranked(&name, milli, priority);
            }
            2 => {
                let name = self.pick();
                self.pair.delete(&name);
            }
            13 => drop(self.pair.preempt()),
            14 => self.kubelet(),
            3 if self.foreign => {
                let (name, node) = (self.pick(), self.chance(NODES));
                self.pair.bind_elsewhere(&name, &format!("n{node}"));
            }
            4 if self.foreign => {
                let node = self.chance(NODES);
                let name = format!("n{node}");
                if self.pair.server.all(NODE_LIST).any(|node| node["metadata"]["name"] == name) {
                    self.pair.server.delete_node(&format!("n{node}"));
                } else {
                    add_node(&mut self.pair.server, node);
                }
            }
            5 if self.chance(8) == 0 => self.pair.relist(),
            6 => self.pass(500),
            7 if self.chance(8) == 0 => self.pass(self.pair.timeout_ms),
            8 | 9 => {
                let worker = self.chance(self.pair.workers.len() as u32) as usize;
                let bindings = self.pair.step(worker).0;
                self.actions.extend(bindings.into_iter().map(|b| Action::Bind(b, 0)));
            }
            10..=12 if !self.actions.is_empty() => {
                let which = self.chance(self.actions.len() as u32) as usize;
                self.act(which, true);
            }
            _ => drop(self.pair.deliver_one()),
        }
        self.actions.extend(self.pair.requests());
    }

    /// Ends a pod that is being deleted.
    fn kubelet(&mut self) {
        let leaves = |pod: &&Arc<Value>| pod["metadata"].get("deletionTimestamp").is_some();
        let leaving = self.pair.server.all(POD_LIST).find(leaves);
        if let Some(name) = leaving.map(|pod| text(pod, "/metadata/name").to_owned()) {
            self.pair.server.end("t", &name);
        }
    }

    /// Advances the time. A late request arrives at its timeout at the latest.
    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        let end = self.now_ms.saturating_sub(self.pair.timeout_ms);
        let late = std::mem::take(&mut self.late);
        for (sent, binding) in late {
            if sent <= end {
                self.pair.send(&binding);
            } else {
                self.late.push((sent, binding));
            }
        }
        self.pair.adapter.tick(self.now_ms);
    }

    fn act(&mut self, which: usize, faults: bool) {
        let next = match self.actions.swap_remove(which) {
            Action::Get(binding, _) => {
                let found = self.pair.get(&binding);
                self.pair.adapter.found(binding, found, self.now_ms)
            }
            Action::Nominate(nominee, _) => {
                let done = self.fault(faults).unwrap_or_else(|| self.pair.nominate(&nominee));
                self.pair.adapter.nominated(nominee, done, self.now_ms)
            }
            Action::Group(condition, _) => {
                let done = self.fault(faults).unwrap_or_else(|| self.pair.show_group(&condition));
                self.pair.adapter.group_shown(condition, done, self.now_ms)
            }
            Action::Claim(choice, _) => {
                let done = self.fault(faults).unwrap_or_else(|| self.pair.choose(&choice));
                self.pair.adapter.chosen(choice, done, self.now_ms)
            }
            Action::Evict(eviction, _) => {
                let done = self.fault(faults).unwrap_or_else(|| self.pair.evict(&eviction));
                self.pair.adapter.evicted(eviction, done, self.now_ms)
            }
            Action::Bind(binding, _) => {
                let answer = match if faults { self.chance(8) } else { 7 } {
                    0 => Answer::Throttled(1000),
                    1 => Answer::Failed,
                    2 => Answer::Unknown,
                    3 => {
                        self.pair.send(&binding);
                        Answer::Unknown
                    }
                    4 => {
                        self.late.push((self.now_ms, binding.clone()));
                        Answer::Unknown
                    }
                    _ => self.pair.send(&binding),
                };
                self.pair.adapter.answered(binding, answer, self.now_ms)
            }
        };
        self.actions.extend(next);
    }

    /// Chooses a fault for a request about a victim or a nomination.
    fn fault(&mut self, faults: bool) -> Option<Done> {
        match if faults { self.chance(8) } else { 7 } {
            0 => Some(Done::Throttled(1000)),
            1 => Some(Done::Refused),
            2 => Some(Done::Unknown),
            _ => None,
        }
    }

    /// Ends all faults, and runs until nothing changes any more.
    fn rest(&mut self) {
        for _ in 0..60 {
            self.pair.deliver();
            let bindings = self.pair.decide();
            self.actions.extend(bindings.into_iter().map(|b| Action::Bind(b, 0)));
            drop(self.pair.preempt());
            self.actions.extend(self.pair.requests());
            while !self.actions.is_empty() {
                self.act(0, false);
                self.actions.extend(self.pair.requests());
            }
            (0..PODS).for_each(|_| self.kubelet());
            self.pass(400_000);
        }
    }
}

fn run(seed: u64) -> u64 {
    let foreign = seed % 2 == 1;
    let pair = Pair::new(NODES, 1 + (seed % 3) as u32);
    let dice = Pcg64::seed_from_u64(seed);
    let (actions, late, ranked) = (Vec::new(), Vec::new(), seed % 4 > 1);
    let mut world = World { pair, dice, now_ms: 0, actions, late, foreign, ranked };
    for _ in 0..200 {
        world.turn();
        if !foreign {
            assert_eq!(world.pair.server.overcommitted(), Vec::<String>::new(), "seed {seed}");
        }
    }
    world.rest();
    let server = &world.pair.server;
    assert!(server.bound().values().all(|times| *times == 1), "seed {seed}: bound twice");
    let unbound = server.all(POD_LIST).filter(|pod| pod["spec"].get("nodeName").is_none());
    // Every unbound pod is pending because there is no room. No pod is forgotten, parked or assumed forever.
    assert_eq!(unbound.count(), world.pair.pending(), "seed {seed}");
    let nominated = |pod: &&Arc<Value>| {
        let name = PodName { namespace: "t".into(), name: text(pod, "/metadata/name").into() };
        world.pair.adapter.nominated_node(&name).is_some()
    };
    assert_eq!(
        server.all(POD_LIST).filter(nominated).count(),
        0,
        "seed {seed}: room is kept for ever"
    );
    server.bound().len() as u64
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn no_history_loses_a_pod_or_overcommits_a_node() {
    let (from, count) = match setting("OMEGA_KUBE_SEED") {
        Some(seed) => (seed, 1),
        None => (setting("OMEGA_SEEDS_FROM").unwrap_or(0), setting("OMEGA_SEEDS").unwrap_or(400)),
    };
    let bound: u64 = (from..from + count).map(run).sum();
    assert!(bound >= count, "the histories bind pods");
}

#[test]
fn workers_overcommit_no_node_when_pods_exceed_the_room() {
    for workers in [1, 2, 4, 8] {
        let mut pair = Pair::new(10, workers);
        (0..400).for_each(|pod| pair.create(&format!("p{pod}"), 500));
        pair.deliver();
        // Each worker decides from its own view before it syncs the commits of the others.
        let mut bindings = Vec::new();
        for worker in 0..workers as usize {
            bindings.extend(pair.step(worker).0);
        }
        bindings.extend(pair.decide());
        for binding in &bindings {
            assert_eq!(pair.send(binding), Answer::Bound);
        }
        pair.deliver();
        assert_eq!(bindings.len(), 80, "{workers} workers fill the room");
        assert_eq!(pair.server.overcommitted(), Vec::<String>::new());
        assert_eq!(pair.pending(), 320);
    }
}
