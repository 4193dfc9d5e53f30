//! Where each machine is at a level of the topology that a label names.

use crate::map::FastMap;
use omega_core::Text;

/// A domain of a level: the machine's row, or the number of the label's value.
pub(crate) type Domain = u32;

/// A domain by a name that means the same to the master and to every view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DomainName {
    /// The machine in this row.
    Row(u32),
    /// The value of the level's label.
    Value(Text),
}

/// One level of the topology and where each machine is in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level {
    ids: FastMap<Text, Domain>,
    names: Vec<Text>,
    of_slot: Vec<Option<Domain>>,
}

impl Level {
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

    pub(crate) fn of_slot(&self, slot: usize) -> Option<Domain> {
        *self.of_slot.get(slot)?
    }

    pub(super) fn name(&self, domain: Domain) -> Option<&Text> {
        self.names.get(domain as usize)
    }
}
