//! Reservations: machines that are kept free of some tasks for a time.
//!
//! The cell and each view have all reservations, and use one check. The check handles 64 machines at once: a filter
//! uses the whole word, and a commit the bit of its machine.
//!
//! The passing of time changes the effect of a reservation twice. The first change comes when a new task would no
//! longer end before the reservation begins. It needs no event, because each check compares with the cell's time. The
//! second change is the end of the reservation: the cell removes the reservation, and deltas report the removal.
//!
//! Most reservations begin long after the task to be checked has ended. So a second list is ordered by start time, and
//! a check stops at the first reservation that begins after the task's end.
//!
//! Invariants:
//! - Reservations ascend by unique name.
//! - `by_start` has each reservation's position in the list, ordered by start time.

mod in_cell;
mod view;

use super::{Applying, Columns, Context, Ledger, Mirror, Placement, Policy, Restoring, RowsAgain};
use crate::commands::validate;
use crate::index::machine_index::MachineIndex;
use crate::index::sets::{Lanes, SetId, SetKey};
use crate::snapshot::{SnapshotState, SnapshotStateError};
use omega_core::limits::RESERVATIONS_MAX;
use omega_core::{Job, Reason, Reservation, TaskGroup, Text};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// The policy of reservations. See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Reservations {
    all: Vec<(Reservation, SetId)>,
    by_start: Vec<usize>,
}

/// The lead time before a reservation starts or ends: from then on, the cell should receive `Expire` often. It is
/// several times the usual interval of `Expire`.
const SOON_MS: u64 = 30_000;

/// The time at which a task starts, and its expected run time if the job has an estimate.
#[derive(Clone, Copy, Debug)]
struct Stay {
    now_ms: u64,
    run_ms: Option<u64>,
}

impl Reservations {
    /// Whether there is any reservation.
    #[inline]
    fn is_any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Every reservation, by name.
    fn iter(&self) -> impl Iterator<Item = &Reservation> {
        self.all.iter().map(|(reservation, _)| reservation)
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.all.binary_search_by(|(known, _)| (*known.name).cmp(name))
    }

    fn get(&self, name: &str) -> Option<&Reservation> {
        self.place(name).ok().map(|at| &self.all[at].0)
    }

    /// Whether any reservation rejects this task on its reserved machines.
    fn binds<'a>(&self, stay: Stay, line: impl Fn() -> Line<'a>) -> bool {
        self.met(stay).any(|(reservation, _)| !reservation.admits(line().into_iter()))
    }

    /// The reservations, for any tenants, that overlap with the run of this task, ordered by start time.
    fn met(&self, stay: Stay) -> impl Iterator<Item = &(Reservation, SetId)> {
        let by_start = self.by_start.iter().map(|at| &self.all[*at]);
        let Stay { now_ms, run_ms } = stay;
        by_start
            .take_while(move |(reservation, _)| reservation.is_reached(now_ms, run_ms))
            .filter(move |(reservation, _)| reservation.binds(now_ms, run_ms))
    }

    /// Rebuilds the list that is ordered by start time.
    fn order(&mut self) {
        self.by_start = (0..self.all.len()).collect();
        self.by_start.sort_by_key(|at| self.all[*at].0.from_ms);
    }

    /// Adds a reservation with a new name.
    fn book(&mut self, reservation: Reservation, machine_index: &mut MachineIndex) {
        let Err(at) = self.place(&reservation.name) else { return };
        let key = SetKey::Match(vec![reservation.machines.clone()]);
        let machines = machine_index.sets.acquire(key, &machine_index.machines);
        self.all.insert(at, (reservation, machines));
        self.order();
    }

    fn cancel(&mut self, name: &str, machine_index: &mut MachineIndex) {
        let Ok(at) = self.place(name) else { return };
        let (_, machines) = self.all.remove(at);
        self.order();
        machine_index.sets.release(machines);
    }

    /// Replaces all reservations.
    fn book_all(&mut self, reservations: &[Reservation], machine_index: &mut MachineIndex) {
        for (_, machines) in std::mem::take(self).all {
            machine_index.sets.release(machines);
        }
        reservations.iter().for_each(|reservation| self.book(reservation.clone(), machine_index));
    }

    /// The machines among `lanes` on which a reservation rejects a task.
    fn reserved<'a>(
        &self,
        lanes: Lanes,
        stay: Stay,
        machine_index: &MachineIndex,
        line: impl Fn() -> Line<'a>,
    ) -> u64 {
        let mut reserved = 0;
        for (reservation, machines) in self.met(stay) {
            let more = machine_index.sets.word(*machines, lanes.block) & lanes.among & !reserved;
            if more != 0 && !reservation.admits(line().into_iter()) {
                reserved |= more;
            }
        }
        reserved
    }

    /// The reservation that rejects a task on the machine in a row. If there are several, the one that begins first.
    fn reserved_by<'a>(
        &self,
        row: usize,
        stay: Stay,
        machine_index: &MachineIndex,
        line: impl Fn() -> Line<'a>,
    ) -> Option<&Reservation> {
        let mut met = self.met(stay);
        let found = met.find(|(reservation, machines)| {
            machine_index.sets.contains(*machines, row) && !reservation.admits(line().into_iter())
        });
        found.map(|(reservation, _)| reservation)
    }
}

/// A tenant and all tenants above it.
type Line<'a> = SmallVec<[&'a Text; 4]>;

impl Ledger for Reservations {
    #[inline]
    fn is_checking(&self, _: &MachineIndex) -> bool {
        self.is_any()
    }

    fn is_counting(&self) -> bool {
        false
    }

    fn admit(&self, at: &Placement<'_>, context: &Context<'_>) -> Result<(), Reason> {
        let lanes = Lanes { block: at.row / 64, among: 1 << (at.row % 64) };
        let stay = Stay { now_ms: context.now_ms, run_ms: at.job.runtime_estimate_ms };
        let line = || context.tenants.line_of(at.job);
        let is_free = self.reserved(lanes, stay, context.machine_index, line) == 0;
        if is_free { Ok(()) } else { Err(Reason::Reserved) }
    }
}

impl Policy for Reservations {
    type Columns = ReservationColumns;
    type Mirror = Reservations;
    type Note = ();

    fn concerns(_: &Job, _: &TaskGroup) -> bool {
        true
    }

    fn write_change(&self, columns: &mut ReservationColumns, _: usize) {
        columns.all = Some(self.iter().cloned().collect());
    }

    fn write_whole(&self, columns: &mut ReservationColumns) {
        if self.is_any() {
            columns.all = Some(self.iter().cloned().collect());
        }
    }

    fn is_near_an_edge(&self, now_ms: u64) -> bool {
        let soon = now_ms..=now_ms.saturating_add(SOON_MS);
        self.iter().any(|one| soon.contains(&one.from_ms) || soon.contains(&one.until_ms))
    }

    fn depends_on_time(&self) -> bool {
        self.is_any()
    }

    fn changes_between(&self, _: u64, now_ms: u64) -> bool {
        self.iter().any(|reservation| reservation.until_ms <= now_ms)
    }

    /// Removes the reservations that have ended.
    fn pass_time(&mut self, machine_index: &mut MachineIndex, now_ms: u64) {
        let over = |reservation: &&Reservation| reservation.until_ms <= now_ms;
        let past: Vec<Text> = self.iter().filter(over).map(|one| one.name.clone()).collect();
        past.iter().for_each(|name| self.cancel(name, machine_index));
    }

    fn capture(&self, snapshot: &mut SnapshotState) {
        snapshot.reservations = self.iter().cloned().collect();
    }

    fn restore(&mut self, restoring: Restoring<'_>) -> Result<(), SnapshotStateError> {
        let Restoring { snapshot, machine_index, .. } = restoring;
        let list = &snapshot.reservations;
        SnapshotStateError::check_count(
            "reservations",
            list.len() as u64,
            RESERVATIONS_MAX as u64,
        )?;
        if let Some(pair) = list.windows(2).find(|pair| pair[0].name >= pair[1].name) {
            return Err(SnapshotStateError::Reservation(pair[1].name.clone()));
        }
        for reservation in list {
            validate::reservation(reservation, snapshot.now_ms)?;
            self.book(reservation.clone(), machine_index);
        }
        Ok(())
    }

    fn hash(&self, into: &mut impl Hasher) {
        self.iter().for_each(|reservation| ("reserved", reservation).hash(into));
    }

    fn hash_snapshot(snapshot: &SnapshotState, into: &mut impl Hasher) {
        snapshot.reservations.iter().for_each(|reservation| ("reserved", reservation).hash(into));
    }
}

impl Mirror<ReservationColumns> for Reservations {
    fn reset(&mut self) {
        *self = Reservations::default();
    }

    fn apply(&mut self, columns: &ReservationColumns, applying: Applying<'_>) {
        if let Some(reservations) = &columns.all {
            self.book_all(reservations, applying.machine_index);
            *applying.stale = true;
        }
    }
}

/// The columns of reservations in a delta.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservationColumns {
    /// All reservations, ordered by name, if one was added or removed; in a full delta, if there are any.
    pub all: Option<Vec<Reservation>>,
}

impl Columns for ReservationColumns {
    fn clear(&mut self) {
        self.all = None;
    }

    fn append(&mut self, later: &ReservationColumns, _: &RowsAgain<'_>) {
        if later.all.is_some() {
            self.all.clone_from(&later.all);
        }
    }
}
