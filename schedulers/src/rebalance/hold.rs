//! Room that is still occupied: a task has its amounts of *transient* kinds on both machines until its move is done.
//!
//! The view shows the old room of a moved task as free. But transient kinds become free only in the next wave, so the
//! amounts recorded here are subtracted. Then all moves of a wave fit while the old room of every moved task is still
//! occupied, and two tasks cannot move into each other's room in one wave.
//!
//! Devices and cores are not recorded one by one. If any kind is transient, no task gets devices or cores on a machine
//! where a moved task left some in the same wave.

use omega_cellstate::{Need, View};
use omega_core::KindId;

/// Room that tasks moved in this wave still occupy on their old machines.
#[derive(Debug)]
pub(super) struct Hold {
    transient: Vec<bool>,
    /// The occupied amounts of each kind, row by row.
    amounts: Vec<i64>,
    devices: Vec<bool>,
    cores: Vec<bool>,
    rows: Vec<usize>,
}

impl Hold {
    pub(super) fn new(transient: &[KindId], view: &View) -> Hold {
        let kinds = view.kinds().count();
        let mut is_transient = vec![false; kinds];
        for kind in transient.iter().filter(|kind| kind.index() < kinds) {
            is_transient[kind.index()] = true;
        }
        let rows = if is_transient.contains(&true) { view.rows() } else { 0 };
        Hold {
            transient: is_transient,
            amounts: vec![0; rows * kinds],
            devices: vec![false; rows],
            cores: vec![false; rows],
            rows: Vec::new(),
        }
    }

    /// Whether any kind is transient.
    pub(super) fn any(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Whether a kind is transient, so that a moved task still occupies its amount of this kind on its old machine.
    pub(super) fn is_transient(&self, kind: usize) -> bool {
        self.transient[kind]
    }

    /// Whether a task that fits in a row of the view still fits if the room that moved tasks still occupy there is
    /// subtracted.
    pub(super) fn fits(&self, view: &View, row: usize, need: &Need) -> bool {
        if self.rows.is_empty() {
            return true;
        }
        if need.devices.is_some() && self.devices[row] || need.cores.is_some() && self.cores[row] {
            return false;
        }
        let kinds = self.transient.len();
        let held = &self.amounts[row * kinds..][..kinds];
        let wanted = (0..).map(KindId).zip(need.request.iter().zip(held));
        let mut wanted = wanted.filter(|(_, (request, held))| **request > 0 && **held > 0);
        wanted.all(|(kind, (_, held))| view.free(row, kind) - held >= view.taken(row, need, kind))
    }

    /// Returns the amount of a kind in a row that moved tasks still occupy.
    pub(super) fn held(&self, row: usize, kind: usize) -> i64 {
        if self.rows.is_empty() { 0 } else { self.amounts[row * self.transient.len() + kind] }
    }

    /// Records the room of a task that leaves a row. For a request that varies over the day, this is the maximum.
    pub(super) fn leave(&mut self, row: usize, need: &Need) {
        if !self.any() {
            return;
        }
        let kinds = self.transient.len();
        for (kind, request) in need.request.iter().enumerate().filter(|(k, _)| self.transient[*k]) {
            self.amounts[row * kinds + kind] += request;
        }
        self.devices[row] |= need.devices.is_some();
        self.cores[row] |= need.cores.is_some();
        self.rows.push(row);
    }

    /// Begins a wave: all recorded room becomes free.
    pub(super) fn next_wave(&mut self) {
        let kinds = self.transient.len();
        for row in self.rows.drain(..) {
            self.amounts[row * kinds..][..kinds].fill(0);
            self.devices[row] = false;
            self.cores[row] = false;
        }
    }
}
