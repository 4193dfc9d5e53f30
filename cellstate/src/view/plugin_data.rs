//! Columns and sets that plugins read, beyond those of the placement check.
//!
//! A plugin declares once which data its scores read. Every sync then updates these data, so a decision reads a column,
//! or the bits of a set, instead of machine descriptions.

use crate::delta::Delta;
use crate::index::machine_index::MachineIndex;
use crate::index::sets::{SetId, SetKey};
use crate::rules::Values;
use crate::state::machines::claimable_of;
use crate::view::{BLOCK, Block, View};
use omega_core::{KindId, Kinds, Machine, MachineSelector, Overcommit, TaintEffect, Text};
use std::sync::Arc;

/// Upper bound of kept capacities: the largest integer that bit operations can convert to a double. A capacity is at
/// most a pebibyte, 2^50, so only an overcommit of 400 % or more can exceed this bound.
const CAPACITY_MAX: i64 = (1 << 52) - 1;

/// The condition on the machines of a kept set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MachineSet {
    /// The machine matches one of these selectors.
    Matching(Vec<MachineSelector>),
    /// The machine has a taint with this key and effect, and any value.
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
pub(super) struct PluginData {
    /// For each kind, the reciprocals of the capacities by row, if some plugin reads them.
    inverses: Vec<Option<Vec<f32>>>,
    /// For each kind, the claimable amounts by row, if some plugin reads them.
    capacities: Vec<Option<Capacities>>,
    sets: Vec<(MachineSet, SetId)>,
    /// Keys of labels whose values are kept.
    levels: Vec<Text>,
    /// Upper bound of overcommit, from the cell's policy.
    overcommit_max: Overcommit,
}

/// The claimable amounts of one kind, by row, with their sum.
#[derive(Clone, Debug, Default)]
struct Capacities {
    column: Vec<i64>,
    sum: u128,
    /// Number of machines with an amount above zero.
    machines: u64,
}

impl Capacities {
    fn new(column: Vec<i64>) -> Capacities {
        let sum = column.iter().map(|amount| u128::from(amount.unsigned_abs())).sum();
        let machines = column.iter().filter(|amount| **amount > 0).count() as u64;
        Capacities { column, sum, machines }
    }

    fn set(&mut self, row: usize, amount: i64) {
        let old = std::mem::replace(&mut self.column[row], amount);
        self.sum = self.sum - u128::from(old.unsigned_abs()) + u128::from(amount.unsigned_abs());
        self.machines = self.machines - u64::from(old > 0) + u64::from(amount > 0);
    }
}

/// Descriptions of the machines, from which the columns are computed.
#[derive(Clone, Copy)]
pub(super) struct Described<'a> {
    /// The number of rows.
    pub(super) rows: usize,
    pub(super) machines: &'a [Option<Arc<Machine>>],
    pub(super) kinds: &'a Kinds,
}

impl<'a> Described<'a> {
    /// The machine in each row, up to the end of the last block.
    fn by_row(self) -> impl Iterator<Item = Option<&'a Machine>> {
        let rows = 0..self.rows.next_multiple_of(BLOCK);
        rows.map(move |row| self.machines.get(row).and_then(Option::as_deref))
    }
}

impl PluginData {
    /// Grows the columns to `rows` rows.
    pub(super) fn grow(&mut self, rows: usize) {
        let rows = rows.next_multiple_of(BLOCK);
        self.capacities.iter_mut().flatten().for_each(|all| all.column.resize(rows, 0));
        self.inverses.iter_mut().flatten().for_each(|column| column.resize(rows, 0.0));
    }

    /// Updates the data after a machine was added, changed or removed.
    pub(super) fn set_machine(&mut self, row: usize, machine: Option<&Machine>, kinds: &Kinds) {
        for (kind, column) in (0..).map(KindId).zip(&mut self.inverses) {
            if let Some(column) = column {
                column[row] = inverse_capacity(machine, kind);
            }
        }
        for (kind, all) in (0..).map(KindId).zip(&mut self.capacities) {
            if let Some(all) = all {
                all.set(row, capacity(machine, kinds, &self.overcommit_max, kind));
            }
        }
    }

    /// Applies the cell's policy. A change of the overcommit bound may affect every capacity.
    pub(super) fn set_policy(&mut self, delta: &Delta, described: Described<'_>) {
        if self.overcommit_max == delta.overcommit_max {
            return;
        }
        self.overcommit_max = delta.overcommit_max.clone();
        for kind in (0..self.capacities.len() as u8).map(KindId) {
            if self.capacities[kind.index()].is_some() {
                self.capacities[kind.index()] = Some(self.capacities_of(kind, described));
            }
        }
    }

    /// The claimable amounts of a kind, by row.
    fn capacities_of(&self, kind: KindId, described: Described<'_>) -> Capacities {
        let capacity = |machine| capacity(machine, described.kinds, &self.overcommit_max, kind);
        Capacities::new(described.by_row().map(capacity).collect())
    }

    /// Prepares these data for new machines, after all machines were dropped. Drops the reciprocals of kinds that the
    /// cell no longer has.
    pub(super) fn reset(&mut self, machine_index: &mut MachineIndex, kinds: usize) {
        self.inverses.truncate(kinds);
        self.inverses.iter_mut().flatten().for_each(Vec::clear);
        self.capacities.iter_mut().flatten().for_each(|all| *all = Capacities::default());
        for (set, id) in &mut self.sets {
            *id = machine_index.sets.acquire(set.clone().into(), &machine_index.machines);
        }
        for key in &self.levels {
            machine_index.rules.keep_level(key, &machine_index.machines);
        }
    }

    fn keep_inverse(&mut self, kind: KindId, described: Described<'_>) {
        let column = at(&mut self.inverses, kind);
        if column.is_none() {
            let of = |machine| inverse_capacity(machine, kind);
            *column = Some(described.by_row().map(of).collect());
        }
    }

    fn keep_capacity(&mut self, kind: KindId, described: Described<'_>) {
        if at(&mut self.capacities, kind).is_none() {
            self.capacities[kind.index()] = Some(self.capacities_of(kind, described));
        }
    }

    fn keep_set(&mut self, set: &MachineSet, machine_index: &mut MachineIndex) {
        if self.set(set).is_none() {
            let id = machine_index.sets.acquire(set.clone().into(), &machine_index.machines);
            self.sets.push((set.clone(), id));
        }
    }

    fn set(&self, set: &MachineSet) -> Option<SetId> {
        self.sets.iter().find(|(known, _)| known == set).map(|(_, id)| *id)
    }

    fn keep_level(&mut self, key: &Text, machine_index: &mut MachineIndex) {
        if !self.levels.contains(key) {
            self.levels.push(key.clone());
            machine_index.rules.keep_level(key, &machine_index.machines);
        }
    }

    /// The reciprocals of a kind's capacities for the 64 machines from a row on, if they are kept.
    #[inline]
    pub(super) fn inverses(&self, kind: KindId, first_row: usize) -> Option<&[f32; BLOCK]> {
        let column = self.inverses.get(kind.index())?.as_ref()?;
        column[first_row..].first_chunk()
    }
}

/// The column of a kind, in a list that grows as needed.
fn at<T>(columns: &mut Vec<Option<T>>, kind: KindId) -> &mut Option<T> {
    let known = columns.len();
    columns.resize_with(known.max(kind.index() + 1), || None);
    &mut columns[kind.index()]
}

fn capacity(
    machine: Option<&Machine>,
    kinds: &Kinds,
    overcommit_max: &Overcommit,
    kind: KindId,
) -> i64 {
    let claimable = |machine| claimable_of(machine, kinds, overcommit_max, kind);
    machine.map_or(0, claimable).min(CAPACITY_MAX)
}

fn inverse_capacity(machine: Option<&Machine>, kind: KindId) -> f32 {
    match machine.map_or(0, |machine| machine.capacity.get(kind)) {
        0 => 0.0,
        capacity => (1.0 / capacity as f64) as f32,
    }
}

impl View {
    /// Makes the view keep the reciprocals of a kind's capacities, for scores that compute shares of the capacity. Does
    /// nothing if the cell does not have the kind.
    pub fn keep_inverse(&mut self, kind: KindId) {
        if kind.index() < self.kinds.count() {
            let View { plugin_data, rows, machine_index, kinds, .. } = self;
            let described =
                Described { rows: rows.len(), machines: &machine_index.machines, kinds };
            plugin_data.keep_inverse(kind, described);
        }
    }

    /// Makes the view keep a column of a kind's capacities, for exact scores. The column has only zeros if the cell
    /// does not have the kind.
    pub fn keep_capacity(&mut self, kind: KindId) {
        let View { plugin_data, rows, machine_index, kinds, .. } = self;
        let described = Described { rows: rows.len(), machines: &machine_index.machines, kinds };
        plugin_data.keep_capacity(kind, described);
    }

    /// The mean claimable amount of a kind, over the machines that have any of it; `None` if no machine has any, or
    /// unless [`View::keep_capacity`] was called.
    #[must_use]
    pub fn mean_capacity(&self, kind: KindId) -> Option<u64> {
        let all = self.plugin_data.capacities.get(kind.index())?.as_ref()?;
        let mean = all.sum.checked_div(u128::from(all.machines))?;
        Some(u64::try_from(mean).expect("a mean of 64-bit amounts has 64 bits"))
    }

    /// Makes the view keep a set of machines for the rest of the view's lifetime.
    pub fn keep_set(&mut self, set: &MachineSet) {
        self.plugin_data.keep_set(set, &mut self.machine_index);
    }

    /// A kept set; `None` unless [`View::keep_set`] was called for it.
    #[must_use]
    pub fn kept_set(&self, set: &MachineSet) -> Option<SetId> {
        self.plugin_data.set(set)
    }

    /// Whether a set contains no machine.
    #[must_use]
    pub fn is_empty_set(&self, set: SetId) -> bool {
        self.machine_index.sets.is_empty(set)
    }

    /// Makes the view keep each machine's value of a label for the rest of the view's lifetime.
    pub fn keep_level(&mut self, key: &Text) {
        self.plugin_data.keep_level(key, &mut self.machine_index);
    }

    /// Each machine's value of a label; `None` unless [`View::keep_level`] was called.
    #[must_use]
    pub fn level(&self, key: &str) -> Option<Level<'_>> {
        self.machine_index.rules.values(key).map(Level)
    }
}

/// The values of one label. See [`View::level`].
#[derive(Clone, Copy, Debug)]
pub struct Level<'a>(&'a Values);

impl Level<'_> {
    /// The value of the label on the machine in a row, as a small number. Equal values have equal numbers. `None` if
    /// the machine lacks the label.
    #[must_use]
    pub fn of(&self, row: usize) -> Option<u32> {
        self.0.of_slot(row)
    }
}

impl<'a> Block<'a> {
    /// The claimable amount of a kind on each machine, including overcommit; `None` unless [`View::keep_capacity`] was
    /// called.
    #[must_use]
    pub fn capacity(&self, kind: KindId) -> Option<&'a [i64; BLOCK]> {
        let all = self.view().plugin_data.capacities.get(kind.index())?.as_ref()?;
        all.column[self.first_row()..].first_chunk()
    }
}
