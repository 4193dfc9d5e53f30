//! The cell's machines: their free amounts and their tasks.
//!
//! Amounts are stored row by row, all kinds of a machine side by side, because a commit changes one machine at a time.
//! (A view stores columns for scans; see `view/columns.rs`.)

use crate::fit::{MachineInfo, MachineStatus};
use crate::state::allocation_overrides::Values;
use crate::state::cores::{CoreCounts, CoresLeft};
use crate::state::demand_profiles::{DemandProfileSum, DemandProfileSums, DemandProfiles};
use crate::state::devices::Devices;
use crate::state::load::LoadReport;
use crate::state::map::FastMap;
use crate::state::task_places::TaskPlaces;
use omega_core::limits::TASKS_PER_MACHINE_MAX;
use omega_core::{
    DeviceRequest, DeviceSet, KindId, Kinds, Machine, MachineId, NodeCores, Overcommit, Policy,
    SequenceNumber, TaskId, Text,
};
use std::sync::Arc;

/// Least free amount of a machine. Below it, a sum of claims could exceed 64 bits.
pub const FREE_MIN: i64 = i64::MIN / 2;

/// One machine's row, without its amounts.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub sequence: SequenceNumber,
    pub tasks: Vec<TaskId>,
    pub incarnation: u32,
    /// Status without regard to the number of tasks: never [`MachineStatus::Full`].
    pub status: MachineStatus,
    /// Whether the change log says that the machine has the maximum number of tasks.
    logged_full: bool,
}

impl Row {
    /// The status for new tasks, which depends on the number of tasks.
    #[inline]
    pub fn status_for_tasks(&self) -> MachineStatus {
        if self.tasks.len() >= TASKS_PER_MACHINE_MAX && self.status == MachineStatus::Schedulable {
            MachineStatus::Full
        } else {
            self.status
        }
    }

    /// Whether the machine became full, or is no longer full, since the last call.
    pub fn take_full_change(&mut self) -> bool {
        let is_full = self.tasks.len() >= TASKS_PER_MACHINE_MAX;
        std::mem::replace(&mut self.logged_full, is_full) != is_full
    }
}

/// A row of the machine table in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSnapshot {
    /// Description of the machine; `None` if the row is empty.
    pub machine: Option<Arc<Machine>>,
    /// The row's sequence number.
    pub sequence: SequenceNumber,
    /// Number of earlier machines in this row.
    pub incarnation: u32,
    /// Status of the row.
    pub status: MachineStatus,
}

impl MachineSnapshot {
    pub(crate) fn of(machine: Option<Arc<Machine>>, row: &Row) -> MachineSnapshot {
        let Row { sequence, incarnation, status, .. } = *row;
        MachineSnapshot { machine, sequence, incarnation, status }
    }
}

/// All machines, by row.
#[derive(Clone, Debug)]
pub struct Machines {
    kinds: usize,
    rows: Vec<Row>,
    free: Vec<i64>,
    demand_profiles: DemandProfileSums,
    devices: FastMap<u32, Devices>,
    cores: FastMap<u32, CoresLeft>,
    core_counts: CoreCounts,
    loads: FastMap<u32, LoadReport>,
    /// Positions in the long lists of tasks.
    places: TaskPlaces,
    vacant: Vec<u32>,
    by_name: FastMap<Text, u32>,
}

/// The claimable amount of each kind of a machine under a policy.
pub fn claimable(machine: &Machine, kinds: &Kinds, policy: &Policy) -> Vec<i64> {
    let all = (0..kinds.count() as u8).map(KindId);
    all.map(|kind| claimable_of(machine, kinds, &policy.overcommit_max, kind)).collect()
}

/// The claimable amount of one kind: the machine's capacity. For a compressible kind, the capacity is multiplied by the
/// machine's overcommit or by the policy's bound on overcommit, whichever is lower.
pub fn claimable_of(
    machine: &Machine,
    kinds: &Kinds,
    overcommit_max: &Overcommit,
    kind: KindId,
) -> i64 {
    let percent = if kinds.get(kind).is_some_and(|kind| kind.compressible) {
        machine.overcommit.percent(kind).min(overcommit_max.percent(kind))
    } else {
        100
    };
    (machine.capacity.get(kind) * u64::from(percent) / 100) as i64
}

impl Machines {
    pub fn new(kinds: usize) -> Machines {
        Machines {
            kinds,
            rows: Vec::new(),
            free: Vec::new(),
            demand_profiles: DemandProfileSums::default(),
            devices: FastMap::default(),
            cores: FastMap::default(),
            core_counts: CoreCounts::default(),
            loads: FastMap::default(),
            places: TaskPlaces::default(),
            vacant: Vec::new(),
            by_name: FastMap::default(),
        }
    }

    /// The number of rows, including those without a machine.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The rows without a machine. The next new machine gets the last of these rows.
    pub fn vacant(&self) -> &[u32] {
        &self.vacant
    }

    /// The row of a machine; `None` if the machine does not exist.
    pub fn get(&self, id: MachineId) -> Option<&Row> {
        let row = self.rows.get(id.row())?;
        (row.status != MachineStatus::Absent && row.incarnation == id.incarnation).then_some(row)
    }

    /// A row by its number; empty rows have the status `Absent`.
    pub fn row(&self, slot: usize) -> &Row {
        &self.rows[slot]
    }

    /// Loads the rows that a commit will check and change into the processor's cache. In a large cell each row is a
    /// cache miss. In this loop the misses overlap. In the checks they would not, because there is too much code
    /// between two claims.
    pub fn load_rows(&self, machines: impl Iterator<Item = MachineId>) {
        let mut loaded = 0;
        for machine in machines {
            let Some(row) = self.rows.get(machine.row()) else { continue };
            let free = self.free.get(machine.row() * self.kinds).copied().unwrap_or_default();
            loaded ^= free as u64 ^ row.tasks.last().map_or(row.sequence.0, |task| task.job.0);
        }
        std::hint::black_box(loaded);
    }

    pub fn row_mut(&mut self, slot: usize) -> &mut Row {
        &mut self.rows[slot]
    }

    /// Notes which restored machines have the maximum number of tasks.
    pub fn note_full_rows(&mut self) {
        self.rows.iter_mut().for_each(|row| _ = row.take_full_change());
    }

    /// The id of the machine in a row.
    pub fn id(&self, slot: usize) -> MachineId {
        MachineId { slot: slot as u32, incarnation: self.rows[slot].incarnation }
    }

    /// The machine with this name.
    pub fn by_name(&self, name: &str) -> Option<MachineId> {
        self.by_name.get(name).map(|slot| self.id(*slot as usize))
    }

    /// The free amounts of a row, by kind.
    pub fn free(&self, slot: usize) -> &[i64] {
        &self.free[slot * self.kinds..][..self.kinds]
    }

    /// The sum of the demand profiles of a row's tasks, if any.
    pub fn demand_profiles(&self, slot: usize) -> Option<&Arc<DemandProfileSum>> {
        self.demand_profiles.get(slot)
    }

    pub fn devices(&self, slot: usize) -> Option<&Devices> {
        self.devices.get(&(slot as u32))
    }

    /// Whether any machine has devices.
    pub fn has_devices(&self) -> bool {
        !self.devices.is_empty()
    }

    /// The free exclusive cores of a row; `None` if its machine has no exclusive cores.
    pub fn cores(&self, slot: usize) -> Option<&CoresLeft> {
        if self.cores.is_empty() { None } else { self.cores.get(&(slot as u32)) }
    }

    /// Whether any machine has exclusive cores.
    pub fn has_cores(&self) -> bool {
        !self.cores.is_empty()
    }

    /// Number of resource kinds.
    pub fn kinds(&self) -> usize {
        self.kinds
    }

    /// Whether any machine has devices, exclusive cores, demand profiles or a reported load.
    pub fn has_parts(&self) -> bool {
        self.has_devices() || self.has_cores() || self.has_loads() || self.has_demand_profiles()
    }

    /// Whether the tasks of any machine have demand profiles.
    pub fn has_demand_profiles(&self) -> bool {
        !self.demand_profiles.is_empty()
    }

    /// Whether any machine has reported a load.
    pub fn has_loads(&self) -> bool {
        !self.loads.is_empty()
    }

    pub fn load(&self, slot: usize) -> Option<&LoadReport> {
        self.loads.get(&(slot as u32))
    }

    pub fn set_load(&mut self, slot: usize, load: LoadReport) {
        self.loads.insert(slot as u32, load);
    }

    /// The state of a machine for the placement check. The function is inlined, because a returned struct would be
    /// written and read in parts of different sizes, which stalls processors.
    #[inline]
    pub fn machine_info(&self, id: MachineId, row: &Row) -> MachineInfo<'_> {
        MachineInfo {
            id,
            status: row.status_for_tasks(),
            free: self.free(id.row()),
            demand_profiles: self.demand_profiles.get(id.row()).map(|sum| &**sum),
            devices: if self.devices.is_empty() { None } else { self.devices(id.row()) },
            cores: self.cores(id.row()),
        }
    }

    /// Every load report, in no particular order.
    pub fn loads(&self) -> impl Iterator<Item = (u32, LoadReport)> + '_ {
        self.loads.iter().map(|(slot, load)| (*slot, load.clone()))
    }

    /// Adds a row of a snapshot, with its claimable amounts.
    pub fn put(&mut self, snapshot: &MachineSnapshot, claimable: &[i64]) {
        let slot = self.rows.len() as u32;
        let MachineSnapshot { sequence, incarnation, status, .. } = *snapshot;
        self.rows.push(Row { sequence, incarnation, status, ..Row::default() });
        self.free.extend_from_slice(claimable);
        self.free.resize(self.rows.len() * self.kinds, 0);
        let Some(machine) = &snapshot.machine else { return };
        self.put_pieces(slot, machine);
        self.by_name.insert(machine.name.clone(), slot);
    }

    /// Records the devices and cores of a machine, all free.
    fn put_pieces(&mut self, slot: u32, machine: &Machine) {
        if machine.devices > 0 {
            self.devices.insert(slot, Devices::new(machine.devices));
        }
        self.set_cores(slot as usize, &machine.numa);
    }

    /// Sets the order in which vacant rows are used.
    pub fn set_vacant(&mut self, vacant: Vec<u32>) {
        self.vacant = vacant;
    }

    /// Assigns a row to a new machine.
    pub fn insert(&mut self, machine: &Machine, claimable: &[i64]) -> MachineId {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(Row::default());
            self.free.resize(self.rows.len() * self.kinds, 0);
            (self.rows.len() - 1) as u32
        });
        let row = &mut self.rows[slot as usize];
        row.status = MachineStatus::Schedulable;
        row.sequence = row.sequence.next();
        self.free[slot as usize * self.kinds..][..self.kinds].copy_from_slice(claimable);
        self.put_pieces(slot, machine);
        self.by_name.insert(machine.name.clone(), slot);
        self.id(slot as usize)
    }

    /// Changes a row's free amounts when its machine's claimable amounts change from `old` to `new`.
    pub fn adjust(&mut self, slot: usize, old: &[i64], new: &[i64]) {
        let free = &mut self.free[slot * self.kinds..][..self.kinds];
        for (free, (old, new)) in free.iter_mut().zip(old.iter().zip(new)) {
            *free += new - old;
        }
    }

    /// Replaces the devices of a machine whose number of devices changed.
    pub fn set_devices(&mut self, slot: usize, devices: Option<Devices>) {
        match devices {
            Some(devices) => self.devices.insert(slot as u32, devices),
            None => self.devices.remove(&(slot as u32)),
        };
    }

    /// Replaces the exclusive cores of a machine on which no task has exclusive cores.
    pub fn set_cores(&mut self, slot: usize, numa: &NodeCores) {
        let before = if numa.is_empty() {
            self.cores.remove(&(slot as u32))
        } else {
            self.cores.insert(slot as u32, CoresLeft::all(numa))
        };
        let before = before.map_or(0, |left| left.total());
        self.core_counts.all += u64::from(numa.total());
        self.core_counts.all -= u64::from(before.unsigned_abs());
    }

    /// Counts all and allocated exclusive cores.
    pub fn core_counts(&self) -> CoreCounts {
        self.core_counts
    }

    /// Empties a row that has no tasks left.
    pub fn remove(&mut self, slot: usize, name: &str) {
        let row = &mut self.rows[slot];
        debug_assert!(row.tasks.is_empty(), "the tasks of a removed machine were released");
        row.status = MachineStatus::Absent;
        row.logged_full = false;
        row.incarnation += 1;
        row.sequence = row.sequence.next();
        self.free[slot * self.kinds..][..self.kinds].fill(0);
        self.devices.remove(&(slot as u32));
        self.set_cores(slot, &NodeCores::NONE);
        self.loads.remove(&(slot as u32));
        self.by_name.remove(name);
        self.vacant.push(slot as u32);
    }

    /// Adds amounts to a row's free amounts if `sign` is 1, or subtracts them if it is -1.
    fn add(&mut self, slot: usize, amounts: &[i64], sign: i64) {
        let free = &mut self.free[slot * self.kinds..][..self.kinds];
        for (free, amount) in free.iter_mut().zip(amounts) {
            *free += sign * amount;
        }
    }

    /// Gives a task its allocation on a machine.
    pub fn take(&mut self, slot: usize, task: TaskId, part: Part<'_>) {
        self.count(slot, part, -1);
        if part.has_pieces() {
            self.take_pieces(slot, part);
        }
        self.places.push(slot, &mut self.rows[slot].tasks, task);
    }

    #[inline(never)]
    fn take_pieces(&mut self, slot: usize, part: Part<'_>) {
        if let Some(request) = part.devices
            && let Some(devices) = self.devices.get_mut(&(slot as u32))
        {
            devices.take(request, part.chosen);
        }
        if let Some(cores) = part.cores
            && let Some(left) = self.cores.get_mut(&(slot as u32))
        {
            left.take(cores);
            self.core_counts.taken += u64::from(cores.total());
        }
    }

    #[inline(never)]
    fn give_back_pieces(&mut self, slot: usize, part: Part<'_>) {
        if let Some(request) = part.devices
            && let Some(devices) = self.devices.get_mut(&(slot as u32))
        {
            devices.give_back(request, part.chosen);
        }
        if let Some(cores) = part.cores
            && let Some(left) = self.cores.get_mut(&(slot as u32))
        {
            left.give_back(cores);
            self.core_counts.taken -= u64::from(cores.total());
        }
    }

    /// Subtracts an allocation from a row's free amounts if `sign` is -1, or adds it back if it is 1.
    #[inline]
    pub fn count(&mut self, slot: usize, part: Part<'_>, sign: i64) {
        match part.demand_profiles {
            None => self.add(slot, part.request, sign),
            Some(demand_profiles) => {
                let amounts =
                    self.demand_profiles.shift(slot, part.request, demand_profiles, -sign);
                self.add(slot, &amounts, sign);
            }
        }
    }

    /// The amounts that would become free if a task with this allocation left the machine.
    pub fn freed_by(&mut self, slot: usize, part: Part<'_>) -> Values {
        let Some(demand_profiles) = part.demand_profiles else { return part.request.into() };
        let freed = self.demand_profiles.shift(slot, part.request, demand_profiles, -1);
        self.demand_profiles.shift(slot, part.request, demand_profiles, 1);
        freed
    }

    /// Frees a task's allocation.
    pub fn give_back(&mut self, slot: usize, task: TaskId, part: Part<'_>) {
        self.count(slot, part, 1);
        if part.has_pieces() {
            self.give_back_pieces(slot, part);
        }
        let was_listed = self.places.remove(slot, &mut self.rows[slot].tasks, task);
        assert!(was_listed, "a placed task is listed on its machine");
    }
}

/// A task's allocation on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub request: &'a [i64],
    pub demand_profiles: Option<&'a DemandProfiles>,
    pub devices: Option<DeviceRequest>,
    pub chosen: DeviceSet,
    pub cores: Option<&'a NodeCores>,
}

impl<'a> Part<'a> {
    /// An allocation of amounts, without devices, cores or demand profiles.
    #[inline]
    pub fn of_amounts(request: &'a [i64]) -> Part<'a> {
        let chosen = DeviceSet::default();
        Part { request, demand_profiles: None, devices: None, chosen, cores: None }
    }

    /// Whether a task has devices or exclusive cores.
    #[inline]
    fn has_pieces(&self) -> bool {
        self.devices.is_some() || self.cores.is_some()
    }
}
