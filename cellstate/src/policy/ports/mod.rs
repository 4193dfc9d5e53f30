//! Ports that the cell chooses for tasks (see [`TaskGroup::any_ports`](omega_core::TaskGroup::any_ports)).
//!
//! The cell chooses port numbers when it places a task. Schedulers only check that enough ports of the machine's range
//! are free. Ports that tasks request are not free. Conversely, a task that requests a port is not placed on a machine
//! where the cell gave this port to another task. Conflicts among requested ports depend on protocols and addresses,
//! and are checked in `rules/`; this module compares only numbers.
//!
//! The search for free ports begins at a position that depends on the task, so that the ports of an ended task are
//! rarely given to another task at once. The positions of a job's tasks are apart by the number of their ports, so a
//! search does not pass the ports of the tasks before.
//!
//! The cell begins to count ports with the first job for which it chooses ports. Until then, this policy costs nothing,
//! neither in the cell nor in deltas and views.
//!
//! Invariant: if ports are counted, the ports in a row are those of the placed tasks on its machine. Rows without ports
//! have no entry.

mod in_cell;
mod need;
mod port_set;
mod row;
mod task_ports;
mod view;

pub use need::PortNeed;
pub use task_ports::TaskPorts;

use super::{Applying, Columns, Context, Ledger, Mirror, Placement, Policy, Restoring, RowsAgain};
use crate::audit_error::AuditError;
use crate::index::machine_index::MachineIndex;
use crate::index::need::Need;
use crate::snapshot::SnapshotStateError;
use crate::state::map::FastMap;
use need::has_ports;
use omega_core::{Job, MachineId, PortRange, Reason, TaskGroup, TaskId};
use row::RowPorts;

/// The distance between the positions of the first tasks of two successive jobs. It is prime, so that many jobs begin
/// at different positions.
const JOB_STRIDE: u64 = 127;

/// The ports of tasks by row. See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    /// Whether ports are counted. True once a job has asked for ports that the cell chooses.
    counted: bool,
    rows: FastMap<u32, RowPorts>,
}

static NO_PORTS: RowPorts = RowPorts::EMPTY;

impl Ports {
    fn on(&self, row: usize) -> &RowPorts {
        self.rows.get(&(row as u32)).unwrap_or(&NO_PORTS)
    }

    /// Checks whether a task gets its ports on the machine in a row.
    fn check_need(
        &self,
        row: usize,
        need: &PortNeed,
        machine_index: &MachineIndex,
    ) -> Result<(), Reason> {
        let here = self.on(row);
        if here.takes_fixed_of(need) {
            return Err(Reason::PortTaken);
        }
        let has_room =
            need.any == 0 || here.free(range_of(machine_index, row), need) >= need.any as i64;
        if has_room { Ok(()) } else { Err(Reason::NoPorts) }
    }

    /// Whether the port range of a row's machine has enough free ports for the cell to choose.
    pub fn has_room(&self, row: usize, need: &Need, machine_index: &MachineIndex) -> bool {
        let Some(need) = &need.ports else { return true };
        need.any == 0 || self.on(row).free(range_of(machine_index, row), need) >= need.any as i64
    }

    /// Writes the ports in a row, if there are any.
    fn write_taken(&self, slot: u32, columns: &mut PortColumns) {
        if let Some(RowPorts { fixed, chosen, .. }) = self.rows.get(&slot) {
            let taken = TakenPorts { fixed: fixed.clone(), chosen: chosen.iter().collect() };
            columns.taken.push((slot, taken));
        }
    }

    /// Chooses the ports of a task that is placed on the machine in a row.
    pub fn choose(
        &self,
        task: TaskId,
        row: usize,
        need: &Need,
        machine_index: &MachineIndex,
    ) -> Vec<u16> {
        let Some(need) = &need.ports else { return Vec::new() };
        let before = u64::from(task.index) * need.any as u64;
        let position = task.job.0.wrapping_mul(JOB_STRIDE).wrapping_add(before);
        self.on(row).choose(range_of(machine_index, row), need, position)
    }

    /// Whether a task of a snapshot can have these ports: as many as it needs, each one only once, and none that
    /// another task on the machine has.
    pub fn can_have(&self, row: usize, need: &Need, ports: &[u16]) -> bool {
        let here = self.on(row);
        let is_new = |(at, port): (usize, &u16)| {
            *port > 0 && !here.chosen.contains(*port) && !ports[..at].contains(port)
        };
        ports.len() == need.any_ports() && ports.iter().enumerate().all(is_new)
    }
}

/// The range of the machine in a row.
fn range_of(machine_index: &MachineIndex, row: usize) -> PortRange {
    let machine = machine_index.machines.get(row).and_then(Option::as_ref);
    machine.map_or(PortRange::NONE, |machine| machine.ports)
}

impl Ledger for Ports {
    fn is_checking(&self, _: &MachineIndex) -> bool {
        self.counted
    }

    fn is_counting(&self) -> bool {
        self.counted
    }

    fn check(&self, at: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason> {
        let Some(need) = &at.need.ports else { return Ok(()) };
        self.check_need(at.row, need, context.machine_index)
    }

    fn count(&mut self, at: &Placement<'_>, sign: i64) {
        let Some(need) = &at.need.ports else { return };
        let row = at.row as u32;
        let here = self.rows.entry(row).or_default();
        here.add(need, at.ports, sign);
        if here.is_empty() {
            self.rows.remove(&row);
        }
    }
}

impl Policy for Ports {
    type Columns = PortColumns;
    type Mirror = Ports;
    type Note = ();
    const WRITES_ROWS: bool = true;

    fn concerns(_: &Job, group: &TaskGroup) -> bool {
        has_ports(group)
    }

    fn write_row(&self, slot: u32, columns: &mut PortColumns) {
        self.write_taken(slot, columns);
    }

    /// Writes the ports in all rows. Does nothing if the delta has them already.
    fn write_change(&self, columns: &mut PortColumns, rows: usize) {
        if columns.counted {
            return;
        }
        columns.counted = true;
        columns.taken.clear();
        (0..rows as u32).for_each(|slot| self.write_taken(slot, columns));
    }

    fn write_whole(&self, columns: &mut PortColumns) {
        columns.counted = self.counted;
    }

    fn restore(&mut self, restoring: Restoring<'_>) -> Result<(), SnapshotStateError> {
        self.counted = restoring.snapshot.jobs.iter().any(|job| has_any_ports(&job.spec));
        Ok(())
    }

    fn audit(&self, recount: &Ports) -> Result<(), AuditError> {
        let rows = self.rows.keys().chain(recount.rows.keys()).copied();
        let wrong = rows.filter(|row| self.rows.get(row) != recount.rows.get(row)).min();
        wrong.map_or(Ok(()), |slot| Err(AuditError::Ports(MachineId { slot, incarnation: 0 })))
    }

    fn uncounted(&self) -> Ports {
        Ports { counted: self.counted, ..Ports::default() }
    }
}

/// Whether the cell chooses ports for some tasks of a job.
fn has_any_ports(job: &Job) -> bool {
    job.groups.iter().any(|group| !group.any_ports.is_empty())
}

impl Mirror<PortColumns> for Ports {
    fn reset(&mut self) {
        *self = Ports::default();
    }

    fn apply(&mut self, PortColumns { counted, taken }: &PortColumns, applying: Applying<'_>) {
        let Applying { slots, change_counts, stale, .. } = applying;
        self.counted |= counted;
        if !self.counted {
            return;
        }
        *stale |= counted;
        let had: Vec<(u32, RowPorts)> = if *counted {
            self.rows.drain().collect()
        } else {
            let changed = slots.iter();
            changed.filter_map(|slot| Some((*slot, self.rows.remove(slot)?))).collect()
        };
        for (slot, TakenPorts { fixed, chosen }) in taken {
            self.rows.insert(*slot, RowPorts::of(fixed, chosen));
        }
        // Rows with fewer ports count as freed: a task that requested only ports frees no amounts, but makes room for
        // another task with ports.
        let fewer = had.iter().filter(|(slot, had)| self.on(*slot as usize).count() < had.count());
        change_counts.freed += fewer.count() as u64;
    }
}

/// The columns of this policy in a delta.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortColumns {
    /// Whether the cell has begun to count ports. Set in a full delta if the cell counts ports. Set in another delta if
    /// the cell has begun since; all rows then count as changed.
    pub counted: bool,
    /// Ports in changed rows, by row. In a changed row that is not listed, no task has a port. Empty while the cell
    /// does not count ports.
    pub taken: Vec<(u32, TakenPorts)>,
}

/// The ports of the tasks on a machine. Both lists ascend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenPorts {
    /// Numbers of requested ports. A number occurs once for each port that has it.
    pub fixed: Vec<u16>,
    /// Numbers that the cell chose.
    pub chosen: Vec<u16>,
}

impl Columns for PortColumns {
    fn clear(&mut self) {
        self.counted = false;
        self.taken.clear();
    }

    fn append(&mut self, later: &PortColumns, again: &RowsAgain<'_>) {
        if later.counted {
            self.counted = true;
            self.taken.clear();
        } else {
            again.forget_in(&mut self.taken);
        }
        self.taken.extend_from_slice(&later.taken);
    }
}
