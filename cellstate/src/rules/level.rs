//! Topology levels: the domain of each machine, which the value of a label determines.

use crate::state::map::FastMap;
use omega_core::{Machine, Text};
use std::sync::Arc;

/// Number of domains per page, equal to the number of machines per block.
pub(super) const PAGE: usize = 64;

/// A domain of a level: at the machine level the row of the machine, otherwise the number of the label's value.
pub type Domain = u32;

/// Value for machines that have no domain, because they lack the label.
pub(super) const NOWHERE: Domain = Domain::MAX;

/// Index of a level in [`Levels`]. A later level may get the id of a dropped one, so outcomes must not depend on ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelId(usize);

/// The name of a domain. Unlike the number, it is equal in the cell and in every view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainName {
    /// The machine in this row.
    Row(u32),
    /// The value of the level's label.
    Value(Text),
}

/// One level of the topology, with the domain of each machine.
#[derive(Clone, Debug)]
pub struct Level {
    /// Key of the level's label.
    key: Text,
    /// Number of trackers with this level.
    users: u32,
    /// Whether the level stays without users, because a plugin reads it.
    kept: bool,
    ids: FastMap<Text, Domain>,
    names: Vec<Text>,
    /// Number of machines that have the label.
    machines: u32,
    /// The domain of each row, in arrays of one block each.
    of_block: Vec<[Domain; PAGE]>,
}

impl Level {
    /// The level of a label, without users.
    fn new(key: Text, machines: &[Option<Arc<Machine>>]) -> Level {
        let (ids, names, of_block) = (FastMap::default(), Vec::new(), Vec::new());
        let mut level = Level { key, users: 0, kept: false, ids, names, machines: 0, of_block };
        for (slot, machine) in machines.iter().enumerate() {
            level.set_machine(slot, machine.as_deref());
        }
        level
    }

    fn set_machine(&mut self, slot: usize, machine: Option<&Machine>) {
        let value = machine.and_then(|machine| machine.labels.get(&self.key));
        let domain = value.map_or(NOWHERE, |value| self.domain(value));
        if self.of_block.len() <= slot / PAGE {
            self.of_block.resize(slot / PAGE + 1, [NOWHERE; PAGE]);
        }
        let before = std::mem::replace(&mut self.of_block[slot / PAGE][slot % PAGE], domain);
        self.machines += u32::from(domain != NOWHERE);
        self.machines -= u32::from(before != NOWHERE);
    }

    /// The domain for a value of the label, created if it is new.
    pub(super) fn domain(&mut self, value: &Text) -> Domain {
        if let Some(domain) = self.ids.get(value) {
            return *domain;
        }
        let domain = self.names.len() as Domain;
        self.names.push(value.clone());
        self.ids.insert(value.clone(), domain);
        domain
    }

    pub(crate) fn of_slot(&self, slot: usize) -> Option<Domain> {
        let domain = self.of_block(slot / PAGE)[slot % PAGE];
        (domain != NOWHERE).then_some(domain)
    }

    /// The domain of each row of a block, or [`NOWHERE`].
    pub(super) fn of_block(&self, block: usize) -> &[Domain; PAGE] {
        self.of_block.get(block).unwrap_or(&[NOWHERE; PAGE])
    }

    /// Whether the counts of all domains of the level fit on one page.
    pub(super) fn is_small(&self) -> bool {
        self.names.len() <= PAGE
    }

    pub(super) fn name(&self, domain: Domain) -> Option<&Text> {
        self.names.get(domain as usize)
    }
}

/// The levels of all trackers, and those that plugins read. A level is dropped, with the names of its domains, when
/// nothing uses it any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Levels {
    list: Vec<Option<Level>>,
    /// The positions in `list` without a level.
    free: Vec<LevelId>,
    by_key: FastMap<Text, LevelId>,
}

impl Levels {
    /// Number of levels.
    pub(super) fn count(&self) -> usize {
        self.by_key.len()
    }

    /// Number of levels whose label no machine has.
    pub(super) fn count_without_machines(&self) -> usize {
        self.list.iter().flatten().filter(|level| level.machines == 0).count()
    }

    pub(super) fn get(&self, id: LevelId) -> Option<&Level> {
        self.list[id.0].as_ref()
    }

    pub(super) fn get_mut(&mut self, id: LevelId) -> Option<&mut Level> {
        self.list[id.0].as_mut()
    }

    /// The level of a label.
    pub(super) fn find(&self, key: &str) -> Option<&Level> {
        self.by_key.get(key).and_then(|id| self.get(*id))
    }

    /// Adds a user to the level of a label, which is built if there is none. Each call must be followed by one
    /// [`Levels::release`].
    pub(super) fn acquire(&mut self, key: &Text, machines: &[Option<Arc<Machine>>]) -> LevelId {
        let id = self.find_or_build(key, machines);
        self.list[id.0].as_mut().expect("the level was found or built").users += 1;
        id
    }

    /// Removes a user of a level.
    pub(super) fn release(&mut self, id: LevelId) {
        let Some(level) = self.get_mut(id) else { return };
        level.users -= 1;
        if level.users > 0 || level.kept {
            return;
        }
        if let Some(dropped) = self.list[id.0].take() {
            self.by_key.remove(&dropped.key);
            self.free.push(id);
        }
    }

    /// Keeps the level of a label even without users.
    pub(super) fn keep(&mut self, key: &Text, machines: &[Option<Arc<Machine>>]) {
        let id = self.find_or_build(key, machines);
        self.list[id.0].as_mut().expect("the level was found or built").kept = true;
    }

    fn find_or_build(&mut self, key: &Text, machines: &[Option<Arc<Machine>>]) -> LevelId {
        if let Some(id) = self.by_key.get(key) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.list.push(None);
            LevelId(self.list.len() - 1)
        });
        self.list[id.0] = Some(Level::new(key.clone(), machines));
        self.by_key.insert(key.clone(), id);
        id
    }

    /// Updates all levels for a machine that was added, changed or removed.
    pub(super) fn set_machine(&mut self, slot: usize, machine: Option<&Machine>) {
        self.list.iter_mut().flatten().for_each(|level| level.set_machine(slot, machine));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Labels};

    #[test]
    fn a_level_is_dropped_with_its_last_user() {
        let machine = |rack: &str| Machine {
            labels: Labels::new([("rack", rack)]),
            ..Machine::new("box", Amounts::zero())
        };
        let mut machines = vec![Some(Arc::new(machine("r0"))), None];
        let mut levels = Levels::default();
        let (rack, zone) = ("rack".into(), "zone".into());
        let id = levels.acquire(&rack, &machines);
        assert_eq!(levels.acquire(&rack, &machines), id);
        levels.keep(&zone, &machines);
        for round in 1..100 {
            let value = machine(&format!("r{round}"));
            levels.set_machine(0, Some(&value));
            machines[0] = Some(Arc::new(value));
        }
        assert_eq!((levels.count(), levels.find("rack").unwrap().names.len()), (2, 100));
        assert_eq!(levels.count_without_machines(), 1, "no machine has a zone");
        levels.set_machine(0, None);
        assert_eq!(levels.count_without_machines(), 2);
        levels.set_machine(0, machines[0].as_deref());
        assert_eq!(levels.find("rack").unwrap().machines, 1);
        levels.release(id);
        assert!(levels.find("rack").is_some());
        levels.release(id);
        assert!(levels.find("rack").is_none());
        let again = levels.acquire(&rack, &machines);
        let level = levels.get(again).unwrap();
        assert_eq!(level.names, [Text::from("r99")], "earlier values are forgotten");
        assert_eq!((level.of_slot(0), level.of_slot(1)), (Some(0), None));
        levels.release(again);
        let used = levels.acquire(&zone, &machines);
        levels.release(used);
        assert_eq!((levels.count(), levels.list.len()), (1, 2), "kept levels stay");
    }
}
