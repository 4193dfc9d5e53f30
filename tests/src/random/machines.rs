//! Random machines: zones, racks, taints, devices, overcommit.

use super::Generator;
use crate::reference::Reference;
use omega_core::{Command, Image, KindId, Labels, Machine, Taint, TaintEffect, Text};

impl Generator {
    pub(super) fn register_machine(&mut self) -> Command {
        let name = if self.dice.chance(5) {
            format!("m{}", self.names).into()
        } else {
            self.fresh_name("m")
        };
        let mut machine = self.machine(name);
        self.give_nodes(&mut machine, None);
        self.give_range(&mut machine);
        Command::RegisterMachine(machine)
    }

    pub(super) fn update_machine(&mut self, reference: &Reference) -> Command {
        let id = self.some_machine(reference);
        let old = reference.host(id).map(|host| host.spec.clone());
        let name = old.as_ref().map_or_else(|| "unknown".into(), |old| old.name.clone());
        let mut machine = self.machine(name);
        self.give_nodes(&mut machine, old.as_deref());
        self.give_range(&mut machine);
        if let Some(old) = old {
            // Devices that are in use must remain, so most updates do not change them. In half of the cases, only
            // labels change.
            machine.devices = if self.dice.chance(60) { old.devices } else { machine.devices };
            if self.dice.chance(50) {
                machine = Machine { labels: machine.labels, ..Machine::clone(&old) };
            }
        }
        if self.dice.chance(3) {
            machine.name = "another".into();
        }
        Command::UpdateMachine { id, machine }
    }

    fn machine(&mut self, name: Text) -> Machine {
        let mut capacity = self.amounts(14);
        if self.dice.chance(80) {
            // In every resource kind, the machine has room for a few tasks.
            for kind in 0..self.kinds.count() as u8 {
                let amount = capacity.get(KindId(kind)) + 3;
                capacity.set(KindId(kind), amount);
            }
        }
        let mut machine = Machine::new(name, capacity);
        if self.dice.chance(40) {
            machine.overcommit = self.overcommit();
        }
        let mut labels: Vec<(&str, Text)> = Vec::new();
        if self.dice.chance(85) {
            labels.push(("zone", format!("z{}", self.dice.below(3)).into()));
        }
        if self.dice.chance(70) {
            labels.push(("rack", format!("r{}", self.dice.below(4)).into()));
        }
        if self.dice.chance(50) {
            labels.push(("disk", (*self.dice.pick(&["ssd", "hdd"])).into()));
        }
        machine.labels = Labels::new(labels);
        if self.dice.chance(15) {
            machine.taints = (0..1 + self.dice.below(2)).map(|_| self.taint()).collect();
        }
        if self.dice.chance(10) {
            let name = (*self.dice.pick(&["image", "image", "other", ""])).into();
            machine.images = Box::new([Image { name, bytes: 1 << 20 }]);
        }
        if self.dice.chance(50) {
            machine.devices = self.dice.below(5) as u8;
        }
        machine
    }

    fn taint(&mut self) -> Taint {
        use TaintEffect::{NoExecute, NoSchedule, PreferNoSchedule};
        Taint {
            key: (*self.dice.pick(&["old", "special"])).into(),
            value: (*self.dice.pick(&["", "yes"])).into(),
            effect: *self.dice.pick(&[NoExecute, NoSchedule, PreferNoSchedule]),
        }
    }
}
