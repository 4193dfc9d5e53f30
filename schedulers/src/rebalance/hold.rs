//! Room that is not free yet: of transient kinds a task has its part of both machines until its move is done.
//!
//! A view in which a task was moved shows its old room as free. In the wave of the move that is not so for
//! transient kinds: what is held here is taken off again. So all moves of a wave fit with every source still
//! held, and two tasks cannot go through each other's room at once. Which devices a task has is not reckoned
//! kind by kind, nor which cores: where any kind is transient, devices and cores that were left in a wave take no task
//! before the next.

use omega_cellstate::{Need, View};
use omega_core::KindId;

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Hold {
    transient: Vec<bool>,
    /// For each row every kind, in order.
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

    /// Whether some kind is transient.
    pub(super) fn any(&self) -> bool {
        !self.devices.is_empty()
    }

    /// Whether a task that has left a row still has its part of this kind there.
    pub(super) fn is_transient(&self, kind: usize) -> bool {
        self.transient[kind]
    }

    /// Whether a task fits in a row beside what is held there. That it fits in the view is known.
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

    /// Part of a kind that is held in a row.
    pub(super) fn held(&self, row: usize, kind: usize) -> i64 {
        if self.rows.is_empty() { 0 } else { self.amounts[row * self.transient.len() + kind] }
    }

    /// Holds the old room of a task that leaves a row: its highest point, if it varies over the day.
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

    /// Begins a wave: what was left is free.
    pub(super) fn next_wave(&mut self) {
        let kinds = self.transient.len();
        for row in self.rows.drain(..) {
            self.amounts[row * kinds..][..kinds].fill(0);
            self.devices[row] = false;
            self.cores[row] = false;
        }
    }
}
