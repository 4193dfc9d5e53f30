//! The rows of a view: each machine's status, sequence number, and free amounts, devices and cores.
//!
//! [`Rows::count`] subtracts and adds back allocations, so that all columns of a machine change together. The view's
//! own claims are subtracted. Before [`Rows::apply`] replaces the values by those of the cell, the view adds its claims
//! back.

use crate::delta::{Delta, MachineDelta};
use crate::fit::{Grant, MachineStatus};
use crate::index::need::Need;
use crate::state::demand_profiles::DemandProfileSum;
use crate::state::devices::Devices;
use crate::state::machines::Part;
use crate::state::map::FastMap;
use crate::view::columns::{BLOCK, Columns};
use crate::view::cores::Cores;
use crate::view::day_columns::DayColumns;
use omega_core::{DeviceSet, MachineId, SequenceNumber};

/// The rows. See the module documentation.
///
/// Invariant: every column, including those in `columns`, has an entry for each row.
#[derive(Debug)]
pub(super) struct Rows {
    columns: Columns,
    sequences: Vec<SequenceNumber>,
    incarnations: Vec<u32>,
    /// One bit for each machine that accepts tasks.
    schedulable: Vec<u64>,
    draining: Vec<u64>,
    full: Vec<u64>,
    devices: FastMap<u32, Devices>,
    cores: Cores,
    day: DayColumns,
}

impl Rows {
    /// An empty list of rows, for machines with this number of kinds.
    pub(super) fn new(kinds: usize) -> Rows {
        Rows {
            columns: Columns::new(kinds),
            sequences: Vec::new(),
            incarnations: Vec::new(),
            schedulable: Vec::new(),
            draining: Vec::new(),
            full: Vec::new(),
            devices: FastMap::default(),
            cores: Cores::default(),
            day: DayColumns::new(),
        }
    }

    /// Removes all rows. The stamps of blocks continue above the present stamps.
    pub(super) fn reset(&mut self, kinds: usize) {
        *self = Rows { columns: self.columns.anew(kinds), ..Rows::new(kinds) };
    }

    /// Grows the columns to `rows` rows. Returns whether there were fewer rows before.
    pub(super) fn grow(&mut self, rows: usize) -> bool {
        if rows <= self.sequences.len() {
            return false;
        }
        self.columns.grow(rows);
        self.sequences.resize(rows, SequenceNumber(0));
        self.incarnations.resize(rows, 0);
        self.schedulable.resize(rows.div_ceil(BLOCK), 0);
        self.draining.resize(rows.div_ceil(BLOCK), 0);
        self.full.resize(rows.div_ceil(BLOCK), 0);
        self.cores.grow(rows);
        true
    }

    // --- Reading ---------------------------------------------------------------------------------

    /// The number of rows, including those without a machine.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.sequences.len()
    }

    /// The free amounts.
    #[inline]
    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// The id of the machine in a row.
    #[inline]
    pub(super) fn machine_id(&self, row: usize) -> MachineId {
        MachineId { slot: row as u32, incarnation: self.incarnations[row] }
    }

    /// Whether a machine still occupies its row.
    #[inline]
    pub(super) fn has(&self, machine: MachineId) -> bool {
        self.incarnations.get(machine.row()) == Some(&machine.incarnation)
    }

    pub(super) fn sequence(&self, row: usize) -> SequenceNumber {
        self.sequences[row]
    }

    /// The machines of a block that accept tasks.
    #[inline]
    pub(super) fn schedulable(&self, block: usize) -> u64 {
        self.schedulable[block]
    }

    /// The status of the machine in a row.
    pub(super) fn status(&self, row: usize) -> MachineStatus {
        let bit = |words: &[u64]| words[row / BLOCK] >> (row % BLOCK) & 1 == 1;
        let of_word = [
            (&self.schedulable, MachineStatus::Schedulable),
            (&self.draining, MachineStatus::Draining),
            (&self.full, MachineStatus::Full),
        ];
        let found = of_word.into_iter().find(|(words, _)| bit(words));
        found.map_or(MachineStatus::Absent, |(_, status)| status)
    }

    /// Whether some machine has devices.
    pub(super) fn any_devices(&self) -> bool {
        !self.devices.is_empty()
    }

    /// The free part of each device in a row, if its machine has devices.
    #[inline]
    pub(super) fn devices(&self, row: usize) -> Option<&Devices> {
        if self.devices.is_empty() { None } else { self.devices.get(&(row as u32)) }
    }

    /// The exclusive cores.
    pub(super) fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Whether any placed task has a demand profile.
    pub(super) fn any_demand_profiles(&self) -> bool {
        !self.day.is_empty()
    }

    /// The demand profiles.
    pub(super) fn day(&self) -> &DayColumns {
        &self.day
    }

    /// The sum of the demand profiles of the tasks in a row; `None` if no task has one.
    #[inline]
    pub(super) fn demand_profiles(&self, row: usize) -> Option<&DemandProfileSum> {
        self.day.get(row).map(|sum| &**sum)
    }

    /// The devices and cores that the cell would choose now for a task in a row. If too few devices are free, the
    /// result has no devices; likewise for cores.
    pub(super) fn choose(&self, row: usize, need: &Need) -> Grant {
        let devices = need.devices.and_then(|request| {
            self.devices(row).and_then(|devices| devices.choose(request, DeviceSet::default()))
        });
        let cores = need.cores.and_then(|request| self.cores.of(row)?.choose(request));
        Grant { devices: devices.unwrap_or_default(), cores: cores.unwrap_or_default() }
    }

    // --- Changing --------------------------------------------------------------------------------

    /// Subtracts an allocation from a row if `sign` is -1, or adds it back if it is 1.
    #[inline]
    pub(super) fn count(&mut self, row: usize, part: Part<'_>, sign: i64) {
        match part.demand_profiles {
            None => self.columns.add(row, part.request, sign),
            Some(profiles) => {
                let amounts = self.day.shift(row, part.request, profiles, -sign);
                self.columns.add(row, &amounts, sign);
            }
        }
        if let Some(request) = part.devices
            && let Some(devices) = self.devices.get_mut(&(row as u32))
        {
            if sign < 0 {
                devices.take(request, part.chosen);
            } else {
                devices.give_back(request, part.chosen);
            }
        }
        if let Some(cores) = part.cores {
            self.cores.change(row, |left| {
                if sign < 0 {
                    left.take(cores);
                } else {
                    left.give_back(cores);
                }
            });
        }
    }

    /// Records a change of a row that may change decisions although it changes no amount.
    pub(super) fn touch(&mut self, row: usize) {
        self.columns.touch(row);
    }

    /// Makes the columns keep a stamp for each row.
    pub(super) fn keep_row_stamps(&mut self) {
        self.columns.keep_row_stamps();
    }

    /// Computes the exact bounds of a block, after a scan that found nothing.
    pub(super) fn tighten_block(&mut self, block: usize) {
        self.columns.tighten_block(block);
    }

    /// Lowers the common bounds of 64 blocks to the maximum of their own bounds.
    pub(super) fn tighten_group(&mut self, group: usize) {
        self.columns.tighten_group(group);
    }

    /// Sets the machine of a row. Returns whether the row had another machine before.
    pub(super) fn set_machine(&mut self, delta: &MachineDelta) -> bool {
        let row = delta.slot as usize;
        let before = std::mem::replace(&mut self.incarnations[row], delta.incarnation);
        let bit = 1 << (row % BLOCK);
        let set = |words: &mut Vec<u64>, status: MachineStatus| {
            if delta.status == status {
                words[row / BLOCK] |= bit;
            } else {
                words[row / BLOCK] &= !bit;
            }
        };
        set(&mut self.schedulable, MachineStatus::Schedulable);
        set(&mut self.draining, MachineStatus::Draining);
        set(&mut self.full, MachineStatus::Full);
        let machine = delta.machine.as_deref();
        if machine.is_none_or(|machine| machine.devices == 0) {
            self.devices.remove(&delta.slot);
        }
        if machine.is_some_and(|machine| !machine.numa.is_empty()) {
            self.cores.begin(self.sequences.len());
        } else {
            self.cores.remove(row);
        }
        self.columns.touch(row);
        before != delta.incarnation
    }

    /// Applies the free amounts, devices and cores of a delta. Returns the number of increases: a machine counts once
    /// if more of its amounts is free, once if more of its devices is free, and so on.
    pub(super) fn apply(&mut self, delta: &Delta) -> u64 {
        let kinds = self.columns.kinds();
        let mut freed = self.apply_demand_profiles(delta);
        // The last copy of a row comes first, and older copies, which have lower sequence numbers, are skipped.
        for (i, slot) in delta.slots.iter().enumerate().rev() {
            let row = *slot as usize;
            if delta.sequences[i] < self.sequences[row] {
                continue;
            }
            self.sequences[row] = delta.sequences[i];
            freed += u64::from(self.columns.set(row, &delta.free[i * kinds..][..kinds]));
        }
        for (slot, devices) in &delta.devices {
            let before = self.devices.insert(*slot, *devices);
            let more =
                |before: Devices| devices.left().iter().zip(before.left()).any(|(a, b)| a > b);
            freed += u64::from(before.is_none_or(more));
        }
        for (slot, cores) in &delta.cores {
            freed += u64::from(self.cores.set(*slot as usize, *cores));
        }
        freed
    }

    /// Applies the sums of demand profiles in a delta. A changed row without a sum has no demand profiles any more.
    /// Returns the number of machines with a lower sum than before.
    fn apply_demand_profiles(&mut self, delta: &Delta) -> u64 {
        if self.day.is_empty() && delta.demand_profiles.is_empty() {
            return 0;
        }
        let mut before = Vec::new();
        for slot in &delta.slots {
            before.extend(self.day.remove(*slot).map(|sum| (*slot, sum)));
        }
        for (slot, sum) in &delta.demand_profiles {
            self.day.set(*slot, sum.clone());
        }
        let none = DemandProfileSum::default();
        let is_lower = |slot: u32, before: &DemandProfileSum| {
            let now = self.day.get(slot as usize).map_or(&none, |sum| &**sum);
            now.is_lower_somewhere(before)
        };
        before.iter().filter(|(slot, before)| is_lower(*slot, before)).count() as u64
    }
}
