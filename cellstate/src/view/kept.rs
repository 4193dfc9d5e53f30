//! Columns and sets that plugins read, beyond those of the placement check.
//!
//! A plugin declares once what its scores read. The view then updates that with every sync, so that a decision reads a
//! column or a word instead of descriptions.

use super::{BLOCK, Block, View};
use crate::delta::Delta;
use crate::machines::claimable_of;
use crate::rules::Values;
use crate::sets::{SetId, SetKey};
use omega_core::{Band, KindId, Kinds, Machine, MachineSelector, Overcommit, TaintEffect, Text};

/// The bound of kept capacities: the largest integer that becomes a double by its bits alone. Only overcommit of a
/// pebibyte can exceed it.
const CAPACITY_MAX: i64 = (1 << 52) - 1;

/// The condition on the machines of a kept set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MachineSet {
    /// Matches one of these selectors.
    Matching(Vec<MachineSelector>),
    /// Has a taint of this key and effect, with any value.
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

/// The data kept for plugins. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// By kind: the claimable amount in each row, if some plugin reads it.
    capacities: Vec<Option<Vec<i64>>>,
    sets: Vec<(MachineSet, SetId)>,
    /// The keys of labels whose values are kept.
    levels: Vec<Text>,
    /// The policy's bound on overcommit.
    overcommit_max: Overcommit,
    /// The precedence bands.
    pub(super) bands: Vec<Band>,
    /// The number of evictions left in the cell's limit; `None` without a limit.
    pub(super) evictions_left: Option<u32>,
}

impl Kept {
    /// Grows the columns to `rows` rows.
    pub(super) fn grow(&mut self, rows: usize) {
        for column in self.capacities.iter_mut().flatten() {
            column.resize(rows.next_multiple_of(BLOCK), 0);
        }
    }

    /// Updates the data after a machine was added, changed or removed.
    pub(super) fn set_machine(&mut self, row: usize, machine: Option<&Machine>, kinds: &Kinds) {
        for (kind, column) in (0..).map(KindId).zip(&mut self.capacities) {
            if let Some(column) = column {
                column[row] = capacity(machine, (kinds, &self.overcommit_max), kind);
            }
        }
    }
}

fn capacity(
    machine: Option<&Machine>,
    (kinds, overcommit_max): (&Kinds, &Overcommit),
    kind: KindId,
) -> i64 {
    let claimable = |machine| claimable_of(machine, kinds, overcommit_max, kind);
    machine.map_or(0, claimable).min(CAPACITY_MAX)
}

impl View {
    /// Has the view keep the reciprocals of a kind's capacities, for scores of shares.
    pub fn keep_inverse(&mut self, kind: omega_core::KindId) {
        let rows = self.rows().next_multiple_of(BLOCK);
        let machines = &self.facts.machines;
        let Some(inverse) = self.inverses.get_mut(kind.index()) else { return };
        if inverse.is_none() {
            let of = |row| inverse_capacity(machines.get(row).and_then(Option::as_deref), kind);
            *inverse = Some((0..rows).map(of).collect());
        }
    }

    /// Has the view keep a column of a kind's capacities, for exact scores. It is zero for a kind that the cell does
    /// not have.
    pub fn keep_capacity(&mut self, kind: KindId) {
        let known = self.kept.capacities.len();
        self.kept.capacities.resize(known.max(kind.index() + 1), None);
        if self.kept.capacities[kind.index()].is_none() {
            self.kept.capacities[kind.index()] = Some(self.capacities(kind));
        }
    }

    /// The claimable amounts of a kind, by row.
    fn capacities(&self, kind: KindId) -> Vec<i64> {
        let rows = self.rows().next_multiple_of(BLOCK);
        let bounds = (&self.kinds, &self.kept.overcommit_max);
        let of = |row| capacity(self.machine(row).map(|machine| &**machine), bounds, kind);
        (0..rows).map(of).collect()
    }

    /// Applies the cell's policy; a change may affect every capacity.
    pub(super) fn keep_policy(&mut self, delta: &Delta) {
        self.kept.bands.clone_from(&delta.bands);
        self.kept.evictions_left = delta.evictions_left;
        if self.kept.overcommit_max == delta.overcommit_max {
            return;
        }
        self.kept.overcommit_max = delta.overcommit_max.clone();
        for kind in (0..self.kept.capacities.len() as u8).map(KindId) {
            if self.kept.capacities[kind.index()].is_some() {
                self.kept.capacities[kind.index()] = Some(self.capacities(kind));
            }
        }
    }

    /// Has the view keep a set of machines for good.
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

    /// Whether a set contains no machine.
    #[must_use]
    pub fn is_empty_set(&self, set: SetId) -> bool {
        self.facts.sets.is_empty(set)
    }

    /// Rebuilds the kept data after all machines were forgotten.
    pub(super) fn keep_again(&mut self) {
        self.kept.capacities.iter_mut().flatten().for_each(Vec::clear);
        for (set, id) in &mut self.kept.sets {
            *id = self.facts.sets.acquire(set.clone().into(), &self.facts.machines);
        }
        for key in &self.kept.levels {
            self.facts.rules.keep_level(key, &self.facts.machines);
        }
    }

    /// Has the view keep each machine's value of a label for good.
    pub fn keep_level(&mut self, key: &Text) {
        if !self.kept.levels.contains(key) {
            self.kept.levels.push(key.clone());
            self.facts.rules.keep_level(key, &self.facts.machines);
        }
    }

    /// Each machine's value of a label; `None` unless [`View::keep_level`] was called.
    #[must_use]
    pub fn level(&self, key: &str) -> Option<Level<'_>> {
        self.facts.rules.values(key).map(Level)
    }
}

/// The values of one label. See [`View::level`].
#[derive(Clone, Copy, Debug)]
pub struct Level<'a>(&'a Values);

impl Level<'_> {
    /// The value of the machine in a row as a small number; equal numbers are equal values. `None` without the label.
    #[must_use]
    pub fn of(&self, row: usize) -> Option<u32> {
        self.0.of_slot(row)
    }
}

impl<'a> Block<'a> {
    /// The claimable amount of a kind on each machine, overcommit included; `None` unless [`View::keep_capacity`] was
    /// called.
    #[must_use]
    pub fn capacity(&self, kind: KindId) -> Option<&'a [i64; BLOCK]> {
        let column = self.view().kept.capacities.get(kind.index())?.as_ref()?;
        column[self.first_row()..].first_chunk()
    }
}

pub(super) fn inverse_capacity(machine: Option<&Machine>, kind: omega_core::KindId) -> f32 {
    match machine.map_or(0, |machine| machine.capacity.get(kind)) {
        0 => 0.0,
        capacity => (1.0 / capacity as f64) as f32,
    }
}
