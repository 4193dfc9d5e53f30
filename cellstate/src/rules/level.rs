//! Topology levels: the domain of each machine, which the value of a label determines.

use crate::state::map::FastMap;
use omega_core::Text;

/// Number of domains per page, equal to the number of machines per block.
pub(super) const PAGE: usize = 64;

/// A domain of a level: at the machine level the row of the machine, otherwise the number of the label's value.
pub type Domain = u32;

/// Value for machines that have no domain, because they lack the label.
pub(super) const NOWHERE: Domain = Domain::MAX;

/// Index of a level in a [`RuleIndex`](super::RuleIndex).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelId(pub(super) usize);

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
    pub(super) key: Text,
    ids: FastMap<Text, Domain>,
    names: Vec<Text>,
    /// The domain of each row, in arrays of one block each.
    of_block: Vec<[Domain; PAGE]>,
}

impl Level {
    pub(super) fn new(key: Text) -> Level {
        Level { key, ids: FastMap::default(), names: Vec::new(), of_block: Vec::new() }
    }

    pub(super) fn set_machine(&mut self, slot: usize, value: Option<&Text>) {
        let domain = value.map_or(NOWHERE, |value| self.domain(value));
        if self.of_block.len() <= slot / PAGE {
            self.of_block.resize(slot / PAGE + 1, [NOWHERE; PAGE]);
        }
        self.of_block[slot / PAGE][slot % PAGE] = domain;
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
