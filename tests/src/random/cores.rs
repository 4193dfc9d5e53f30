//! Machines with NUMA nodes, and tasks with exclusive cores.

use super::{Dice, Generator};
use crate::reference::Reference;
use omega_core::{
    CorePlace, CoreRequest, KindId, Kinds, Machine, NodeCores, ResourceKind, TaskGroup,
    Transaction, Unit,
};

impl Generator {
    /// Creates a history in which the first kind is `cpu`, machines have NUMA nodes, and tasks have exclusive cores.
    #[must_use]
    pub fn with_cores(mut self, seed: u64) -> Generator {
        let renamed = self.kinds.iter().map(|(id, kind)| match id {
            KindId::CPU => {
                ResourceKind { name: "cpu".to_owned(), unit: Unit::Milli, ..kind.clone() }
            }
            _ => kind.clone(),
        });
        self.kinds = Kinds::new(renamed.collect()).expect("no other kind is called so");
        self.cores = Some(Dice::new(seed ^ 0xC03E));
        self
    }

    /// Adds NUMA nodes to a machine, mostly with as many cores as the machine has `cpu`, and often the same nodes as
    /// before.
    pub(super) fn give_nodes(&mut self, machine: &mut Machine, old: Option<&Machine>) {
        let Some(dice) = self.cores.as_mut() else { return };
        machine.numa = match old {
            Some(old) if dice.chance(60) => old.numa,
            _ if dice.chance(25) => NodeCores::NONE,
            _ => {
                let nodes: Vec<u16> = (0..dice.below(4)).map(|_| dice.below(5) as u16).collect();
                NodeCores::new(&nodes).expect("there are few")
            }
        };
        if dice.chance(1) {
            machine.numa = machine.numa.with(7, *dice.pick(&[1024, 1025, u16::MAX]));
        }
        if !dice.chance(3) {
            let cpu = machine.capacity.get(KindId::CPU) % 1000 + machine.numa.cpu_milli();
            machine.capacity.set(KindId::CPU, cpu + *dice.pick(&[0, 0, 1000]));
        }
    }

    /// Sometimes adds exclusive cores to a group, mostly with enough `cpu` for them in its request and at each time of
    /// day.
    pub(super) fn need_cores(&mut self, group: &mut TaskGroup) {
        let Some(dice) = self.cores.as_mut() else { return };
        if !dice.chance(60) {
            return;
        }
        let count = 1 + dice.below(4) as u16;
        let count = if dice.chance(2) { *dice.pick(&[0, u16::MAX]) } else { count };
        let place = *dice.pick(&[CorePlace::OneNode, CorePlace::AnyNodes]);
        let cores = CoreRequest { count, place };
        group.cores = Some(cores);
        let cpu = group.request.get(KindId::CPU);
        if dice.chance(3) || cpu > 1000 {
            return;
        }
        group.request.set(KindId::CPU, cpu + cores.cpu_milli());
        for demand_profile in group
            .demand_profiles
            .iter_mut()
            .filter(|demand_profile| demand_profile.kind == KindId::CPU)
        {
            let all_day = !dice.chance(10);
            let rises = |point: &u64| all_day || *point == cpu;
            let points = demand_profile.points.iter_mut().filter(|point| rises(point));
            points.for_each(|point| *point += cores.cpu_milli());
        }
    }

    /// In most resizes, keeps the `cpu` that exclusive cores need.
    pub(super) fn keep_cores(&mut self, reference: &Reference, txn: &mut Transaction) {
        let Some(dice) = self.cores.as_mut() else { return };
        for resize in txn.resizes.iter_mut().filter(|_| dice.chance(70)) {
            let Some((_, task)) = reference.task(resize.task) else { continue };
            let cpu = resize.to.get(KindId::CPU) + task.cores.cpu_milli();
            resize.to.set(KindId::CPU, cpu);
        }
    }
}
