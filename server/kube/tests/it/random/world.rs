//! Random histories with lost and late requests, throttling, relists, deleted and recreated pods, removed and added
//! nodes, and foreign bindings. No pod is bound twice, no pod is forgotten, and without foreign bindings no node is
//! overcommitted.

use super::storage::Controllers;
use super::{NODES, PODS};
use crate::double::{NODES as NODE_LIST, PODS as POD_LIST, text};
use crate::pairs::{Pair, add_node};
use omega_kube::adapter::bind_reply::BindReply;
use omega_kube::adapter::effects::{Action, Done};
use omega_kube::adapter::{Binding, PodName, State};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pods of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No pod has a group or claims.
    Single,
    /// Many belong to groups.
    Grouped,
    /// Many have volume claims.
    Claiming,
    /// Many belong to groups and have volume claims.
    Both,
}

impl Kind {
    pub(super) fn has_groups(self) -> bool {
        matches!(self, Kind::Grouped | Kind::Both)
    }

    pub(super) fn has_claims(self) -> bool {
        matches!(self, Kind::Claiming | Kind::Both)
    }
}

pub(super) struct World {
    pub(super) pair: Pair,
    dice: Pcg64,
    now_ms: u64,
    pub(super) actions: Vec<Action>,
    /// Requests whose answers were lost, and which arrive late.
    late: Vec<(u64, Binding)>,
    /// Whether other schedulers bind pods, and nodes are removed.
    pub(super) foreign: bool,
    /// Whether pods differ in priority.
    pub(super) ranked: bool,
    pub(super) kind: Kind,
    pub(super) controllers: Controllers,
    /// The version of the server that the watches had delivered when a decision was made.
    pub(super) decided: BTreeMap<u64, u64>,
}

impl World {
    pub(super) fn new(seed: u64, kind: Kind) -> World {
        let claims = kind.has_claims();
        let mut world = World {
            pair: Pair::new(NODES, 1 + (seed % 3) as u32),
            dice: Pcg64::seed_from_u64(seed),
            now_ms: 0,
            actions: Vec::new(),
            late: Vec::new(),
            // The checks of volumes assume that no other scheduler binds pods.
            foreign: seed % 2 == 1 && !claims,
            ranked: seed % 4 > 1,
            kind,
            controllers: Controllers::default(),
            decided: BTreeMap::new(),
        };
        if claims {
            world.set_storage_up(seed);
        }
        if kind.has_groups() {
            world.set_groups_up();
        }
        world
    }

    pub(super) fn chance(&mut self, of: u32) -> u32 {
        self.dice.random_range(0..of)
    }

    fn pick(&mut self) -> String {
        format!("p{}", self.chance(PODS))
    }

    pub(super) fn turn(&mut self) {
        let turn = if self.kind == Kind::Single { 3 } else { self.chance(4) };
        match turn {
            0 if self.kind.has_groups() => self.turn_groups(),
            1 if self.kind.has_claims() => self.turn_storage(),
            _ => self.turn_pods(),
        }
        self.take_requests();
    }

    fn turn_pods(&mut self) {
        match self.chance(16) {
            0 | 1 => self.create(),
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
                self.take_bindings(bindings);
            }
            10..=12 if !self.actions.is_empty() => {
                let which = self.chance(self.actions.len() as u32) as usize;
                self.act(which, true);
            }
            _ => drop(self.pair.deliver_one()),
        }
    }

    /// Creates a pod of the history's kind.
    fn create(&mut self) {
        let (name, mut milli) = (self.pick(), 500 + 500 * self.chance(3));
        let priority = if self.ranked { self.chance(3) } else { 0 };
        let mut spec = json!({"schedulerName": "omega", "priority": priority});
        if self.kind.has_groups()
            && let Some(group) = self.pick_group()
        {
            milli = group.milli();
            spec["schedulingGroup"] = json!({"podGroupName": group.name()});
        }
        if self.kind.has_claims() {
            spec["volumes"] = self.pick_volumes();
        }
        spec["containers"] =
            json!([{"name": "c", "resources": {"requests": {"cpu": format!("{milli}m")}}}]);
        self.pair.create_with(&name, &spec.to_string());
    }

    /// Takes in bindings that follow from a decision.
    fn take_bindings(&mut self, bindings: Vec<Binding>) {
        self.actions.extend(bindings.into_iter().map(|binding| Action::Bind(binding, 0)));
        self.take_requests();
    }

    fn take_requests(&mut self) {
        self.note_decisions();
        for request in self.pair.requests() {
            if let Action::Claim(choice, _) = &request {
                self.check_choice(choice);
            }
            self.actions.push(request);
        }
    }

    /// Records new decisions, and checks them at once. If a pod waits for a claim of another pod, its decision has no
    /// request for a long time, and meanwhile its group may change.
    fn note_decisions(&mut self) {
        for index in 0..PODS {
            let pod = PodName { namespace: "t".into(), name: format!("p{index}") };
            let Some(State::Assumed { decision, .. }) = self.pair.adapter.state(&pod) else {
                continue;
            };
            if !self.decided.contains_key(decision) {
                self.decided.insert(*decision, self.pair.delivered_version());
                self.check_group_of(&pod);
            }
        }
    }

    /// Sends a binding, and checks what the server then has.
    fn send(&mut self, binding: &Binding) -> BindReply {
        let answer = self.pair.send(binding);
        if answer == BindReply::Bound && self.kind.has_claims() {
            self.check_volumes(binding);
        }
        answer
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
        self.pair.pass(ms);
        let end = self.now_ms.saturating_sub(self.pair.timeout_ms);
        let late = std::mem::take(&mut self.late);
        for (sent, binding) in late {
            if sent <= end {
                self.send(&binding);
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
                self.pair.adapter.handle_pod_read(binding, found, self.now_ms)
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
                self.pair.adapter.evicted(eviction, done, self.now_ms);
                None
            }
            Action::Repair(..) => unreachable!("repairs are switched off"),
            Action::Bind(binding, _) => {
                let answer = match if faults { self.chance(8) } else { 7 } {
                    0 => BindReply::Throttled(1000),
                    1 => BindReply::Failed,
                    2 => BindReply::Unknown,
                    3 => {
                        self.send(&binding);
                        BindReply::Unknown
                    }
                    4 => {
                        self.late.push((self.now_ms, binding.clone()));
                        BindReply::Unknown
                    }
                    _ => self.send(&binding),
                };
                self.pair.adapter.handle_bind_reply(binding, answer, self.now_ms)
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
    pub(super) fn rest(&mut self) {
        for _ in 0..super::RESTS {
            while self.pair.deliver_one() {
                self.note_decisions();
            }
            self.pair.adapter.settle_groups();
            let bindings = self.pair.decide();
            self.take_bindings(bindings);
            drop(self.pair.preempt());
            self.take_requests();
            while !self.actions.is_empty() {
                self.act(0, false);
                self.take_requests();
            }
            if self.kind.has_claims() {
                self.run_controllers();
            }
            (0..PODS).for_each(|_| self.kubelet());
            self.pass(400_000);
        }
    }
}
