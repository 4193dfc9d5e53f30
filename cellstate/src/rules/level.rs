//! Where each machine is at a level of the topology that a label names.

use super::counts::PAGE;
use crate::map::FastMap;
use omega_core::Text;

/// A domain of a level: the machine's row, or the number of the label's value.
pub(crate) type Domain = u32;

/// A level among those of a [`RuleBook`](super::RuleBook).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelId(pub(super) usize);

/// A domain by a name that means the same to the master and to every view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DomainName {
    /// The machine in this row.
    Row(u32),
    /// The value of the level's label.
    Value(Text),
}

/// One level of the topology and where each machine is in it.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// The key of the label that names it.
    pub(super) key: Text,
    ids: FastMap<Text, Domain>,
    names: Vec<Text>,
    of_slot: Vec<Option<Domain>>,
}

impl Level {
    pub(super) fn new(key: Text) -> Level {
        Level { key, ids: FastMap::default(), names: Vec::new(), of_slot: Vec::new() }
    }

    pub(super) fn set_machine(&mut self, slot: usize, value: Option<&Text>) {
        if self.of_slot.len() <= slot {
            self.of_slot.resize(slot + 1, None);
        }
        self.of_slot[slot] = value.map(|value| self.domain(value));
    }

    /// The domain of a value, made if it is new.
    pub(super) fn domain(&mut self, value: &Text) -> Domain {
        if let Some(domain) = self.ids.get(value) {
            return *domain;
        }
        let domain = self.names.len() as Domain;
        self.names.push(value.clone());
        self.ids.insert(value.clone(), domain);
        domain
    }

    pub(super) fn of_slot(&self, slot: usize) -> Option<Domain> {
        *self.of_slot.get(slot)?
    }

    /// The domains of up to 64 rows, from the first on; later rows have none.
    pub(super) fn of_block(&self, first_row: usize) -> &[Option<Domain>] {
        let rows = self.of_slot.get(first_row..).unwrap_or_default();
        &rows[..rows.len().min(PAGE as usize)]
    }

    pub(super) fn name(&self, domain: Domain) -> Option<&Text> {
        self.names.get(domain as usize)
    }
}
