//! Histories in which the watches are ten seconds late, while pods come and go, answers are lost, and another scheduler
//! binds pods to its own node.

use crate::double::{PODS, text};
use crate::pairs::Pair;
use omega_kube::adapter::Binding;
use omega_kube::adapter::bind_reply::BindReply;
use omega_kube::adapter::effects::Action;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Delay of the watches in seconds.
const DELAY: u64 = 10;

/// The node to which the other scheduler binds pods.
const FOREIGN: &str = "n0";

struct Late {
    pair: Pair,
    dice: Pcg64,
    now: u64,
    /// The time of each change of the server.
    changed: Vec<u64>,
    /// Number of changes that the watches have delivered.
    delivered: usize,
    actions: Vec<Action>,
}

impl Late {
    fn new(seed: u64) -> Late {
        let mut pair = Pair::new(4, 3);
        // The adapter begins with the nodes.
        pair.deliver();
        let delivered = pair.server.changes.len();
        let (changed, actions) = (vec![0; delivered], Vec::new());
        Late { pair, dice: Pcg64::seed_from_u64(seed), now: 0, changed, delivered, actions }
    }

    fn chance(&mut self, of: u32) -> bool {
        self.dice.random_range(0..of) == 0
    }

    /// Returns the name of a pod that is bound by us, or unbound.
    fn any_pod(&mut self, bound: impl Fn(&str) -> bool) -> Option<String> {
        let pods = self.pair.server.all(PODS).filter(|pod| bound(text(pod, "/spec/nodeName")));
        let names: Vec<String> = pods.map(|pod| text(pod, "/metadata/name").to_owned()).collect();
        if names.is_empty() {
            return None;
        }
        Some(names[self.dice.random_range(0..names.len())].clone())
    }

    fn second(&mut self) {
        for index in 0..self.dice.random_range(0..3) {
            self.pair.create(&format!("p{}-{index}", self.now), 1000);
        }
        if self.chance(3)
            && let Some(pod) = self.any_pod(|node| !node.is_empty())
        {
            self.pair.delete(&pod);
        }
        if self.chance(6)
            && let Some(pod) = self.any_pod(str::is_empty)
        {
            self.pair.bind_elsewhere(&pod, FOREIGN);
        }
        self.work();
    }

    /// Lets the workers decide, carries out all actions, and delivers the events that are due.
    fn work(&mut self) {
        let bindings = self.pair.decide();
        self.actions.extend(bindings.into_iter().map(|binding| Action::Bind(binding, 0)));
        for action in std::mem::take(&mut self.actions) {
            let now_ms = self.now * 1000;
            let next = match action {
                Action::Bind(binding, _) => {
                    let answer = self.bind(&binding);
                    self.pair.adapter.handle_bind_reply(binding, answer, now_ms)
                }
                Action::Get(binding, _) => {
                    let found = self.pair.get(&binding);
                    self.pair.adapter.handle_pod_read(binding, found, now_ms)
                }
                other => panic!("{other:?}"),
            };
            self.actions.extend(next);
        }
        self.now += 1;
        self.pair.adapter.tick(self.now * 1000);
        self.changed.resize(self.pair.server.changes.len(), self.now);
        while self.changed.get(self.delivered).is_some_and(|at| at + DELAY <= self.now) {
            self.pair.deliver_one();
            self.delivered += 1;
        }
    }

    fn bind(&mut self, binding: &Binding) -> BindReply {
        if self.chance(8) {
            return BindReply::Unknown;
        }
        let answer = self.pair.send(binding);
        if self.chance(8) { BindReply::Unknown } else { answer }
    }

    fn check(&self, seed: u64) {
        let server = &self.pair.server;
        assert!(server.bound().values().all(|times| *times == 1), "seed {seed}: bound twice");
        let over = server.overcommitted();
        assert!(over.iter().all(|node| node == FOREIGN), "seed {seed}: {over:?}");
    }
}

#[test]
fn late_watches_cause_neither_double_bindings_nor_overcommit() {
    let mut bound = 0;
    for seed in 0..40 {
        let mut late = Late::new(seed);
        for _ in 0..100 {
            late.second();
            late.check(seed);
        }
        for _ in 0..60 {
            late.work();
            late.check(seed);
        }
        bound += late.pair.server.audit.len();
        let unbound =
            late.pair.server.all(PODS).filter(|pod| pod["spec"].get("nodeName").is_none());
        assert_eq!(unbound.count(), late.pair.pending(), "seed {seed}: a pod is lost");
    }
    assert!(bound > 1000, "{bound}");
}
