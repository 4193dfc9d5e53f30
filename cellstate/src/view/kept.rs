//! What a view keeps ready for plugins, beyond what the judge needs.
//!
//! A plugin says once what its scores read; then the view keeps it true with every sync, and a
//! decision reads a column or a word instead of a description.

use super::{BLOCK, Block, View};
use crate::sets::{SetId, SetKey};
use omega_core::{KindId, Machine, MachineSelector, TaintEffect, Text};

/// Capacities are kept up to this, the largest integer that a plugin turns into a float by its bits
/// alone. Only overcommit of a pebibyte can exceed it.
const CAPACITY_MAX: u64 = (1 << 52) - 1;

/// What the machines of a set have in common that a plugin asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MachineSet {
    /// They match one of these selectors.
    Matching(Vec<MachineSelector>),
    /// They have a taint of this key and effect, whatever its value.
    Tainted(Text, TaintEffect),
}

impl From<MachineSet> for SetKey {
    fn from(set: MachineSet) -> SetKey {
        match set {
            MachineSet::Matching(selectors) => SetKey::Match(selectors),
            MachineSet::Tainted(key, effect) => SetKey::Tainted(key, effect),
        }
    }
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// By kind: what the machine in each row may give, or nothing if nobody reads it.
    capacities: Vec<Option<Vec<i64>>>,
    sets: Vec<(MachineSet, SetId)>,
}

impl Kept {
    /// Makes room for so many rows.
    pub(super) fn grow(&mut self, rows: usize) {
        for column in self.capacities.iter_mut().flatten() {
            column.resize(rows.next_multiple_of(BLOCK), 0);
        }
    }

    /// Notes that a machine came, changed or went.
    pub(super) fn set_machine(&mut self, row: usize, machine: Option<&Machine>) {
        for (kind, column) in (0..).map(KindId).zip(&mut self.capacities) {
            if let Some(column) = column {
                column[row] = capacity(machine, kind);
            }
        }
    }
}

fn capacity(machine: Option<&Machine>, kind: KindId) -> i64 {
    machine.map_or(0, |machine| machine.claimable(kind).min(CAPACITY_MAX)) as i64
}

impl View {
    /// Has a column of a kind's capacities ready, which exact scores read.
    pub fn keep_capacity(&mut self, kind: KindId) {
        let rows = self.rows().next_multiple_of(BLOCK);
        let columns = &mut self.kept.capacities;
        if columns.len() <= kind.index() {
            columns.resize(kind.index() + 1, None);
        }
        let machines = &self.facts.machines;
        let of = |row| capacity(machines.get(row).and_then(Option::as_deref), kind);
        let column = &mut columns[kind.index()];
        column.get_or_insert_with(|| (0..rows).map(of).collect());
    }

    /// Has a set of machines ready, for ever.
    pub fn keep_set(&mut self, set: &MachineSet) {
        if self.kept_set(set).is_none() {
            let id = self.facts.sets.acquire(set.clone().into(), &self.facts.machines);
            self.kept.sets.push((set.clone(), id));
        }
    }

    /// A set that is kept; `None` unless [`View::keep_set`] was called.
    #[must_use]
    pub fn kept_set(&self, set: &MachineSet) -> Option<SetId> {
        self.kept.sets.iter().find(|(known, _)| known == set).map(|(_, id)| *id)
    }

    /// Makes what is kept anew, of machines that were all forgotten.
    pub(super) fn keep_again(&mut self) {
        self.kept.capacities.iter_mut().flatten().for_each(Vec::clear);
        for (set, id) in &mut self.kept.sets {
            *id = self.facts.sets.acquire(set.clone().into(), &self.facts.machines);
        }
    }
}

impl<'a> Block<'a> {
    /// What each machine may give of a kind, overcommit included; `None` unless
    /// [`View::keep_capacity`] was called.
    #[must_use]
    pub fn capacity(&self, kind: KindId) -> Option<&'a [i64; BLOCK]> {
        let column = self.view().kept.capacities.get(kind.index())?.as_ref()?;
        column[self.first_row()..].first_chunk()
    }
}
