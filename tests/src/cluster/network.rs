//! A simulated network that loses, delays, duplicates and reorders messages, and that can be partitioned.

use super::plan::{Micros, Plan};
use crate::random::Dice;
use omega_store::log::ReplicaId;
use std::collections::BTreeSet;

/// Maximum delay in microseconds of a late copy of a message, which is several elections.
const LATE_MAX: usize = 5_000_000;

/// The network; see the head of the file.
#[derive(Debug, Default)]
pub struct Network {
    /// Pairs of hosts that cannot communicate.
    cuts: BTreeSet<(ReplicaId, ReplicaId)>,
    /// Whether faults are over.
    pub calm: bool,
}

impl Network {
    /// Arrival delays of the copies of a message, in microseconds.
    pub fn arrivals(
        &self,
        way: (ReplicaId, ReplicaId),
        plan: &Plan,
        dice: &mut Dice,
    ) -> Vec<Micros> {
        if self.cuts.contains(&way) || (!self.calm && dice.below(1000) < plan.loss) {
            return Vec::new();
        }
        let copies = 1 + usize::from(!self.calm && dice.below(1000) < plan.double);
        let delay_max = if self.calm { plan.delay_max.min(1_000) } else { plan.delay_max };
        let delays = (0..copies).map(|_| 50 + dice.below(delay_max as usize) as Micros);
        let mut delays: Vec<Micros> = delays.collect();
        if !self.calm && dice.below(1000) < plan.late {
            delays.push(dice.below(LATE_MAX) as Micros);
        }
        delays
    }

    /// Partitions these replicas from the others, in both directions or in one.
    pub fn partition(&mut self, replicas: &[ReplicaId], dice: &mut Dice) {
        let one_way = dice.chance(30);
        let side: Vec<bool> = replicas.iter().map(|_| dice.chance(50)).collect();
        for (a, in_a) in replicas.iter().zip(&side) {
            for (b, in_b) in replicas.iter().zip(&side) {
                if in_a != in_b && (*in_a || !one_way) {
                    self.cuts.insert((*a, *b));
                }
            }
        }
    }

    /// Ends all partitions.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }
}
