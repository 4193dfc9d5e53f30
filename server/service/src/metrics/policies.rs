//! What Prometheus is told of the rules that hold for the whole cell: gangs that hold places, evictions,
//! moves, reservations, what tasks hold beside their groups' requests.
//!
//! Every replica does every command, so each tells the same, but for what it did before it was restarted.

use crate::exposition::{Figure, Pen};
use omega_cellstate::{Cell, EvictionCounts, GangCounts, HeldCounts};
use std::fmt;

/// What is told.
#[derive(Debug)]
pub(super) struct PolicyFigures {
    holding: usize,
    gangs: GangCounts,
    evictions: EvictionCounts,
    evictions_left: Option<u32>,
    moves: u64,
    reservations: usize,
    held: HeldCounts,
}

impl PolicyFigures {
    /// Those of a cell.
    pub(super) fn of(cell: &Cell) -> PolicyFigures {
        PolicyFigures {
            holding: cell.holding().len(),
            gangs: cell.gang_counts(),
            evictions: cell.eviction_counts(),
            evictions_left: cell.evictions_left(),
            moves: cell.moves(),
            reservations: cell.reservations().count(),
            held: cell.held_counts(),
        }
    }

    pub(super) fn write(&self, pen: &mut Pen<'_>) -> fmt::Result {
        let help = "Gangs whose tasks hold their places until more of them have one";
        pen.gauge(Figure::new("gangs_holding", help), self.holding as f64)?;
        let GangCounts { begun, completed, timed_out } = self.gangs;
        let holds = [
            ([("result", "begun")], begun as f64),
            ([("result", "completed")], completed as f64),
            ([("result", "timed_out")], timed_out as f64),
        ];
        let help = "Gangs that began to hold places, got all that they needed, or gave up in time";
        pen.counters(Figure::new("gang_holds", help), holds)?;
        let causes = [
            ([("cause", "precedence")], self.evictions.by_precedence as f64),
            ([("cause", "guarantee")], self.evictions.by_guarantee as f64),
        ];
        let help = "Evictions that the cell took, by what allowed them";
        pen.counters(Figure::new("cell_evictions", help), causes)?;
        let help = "Evictions that the cell still takes before its time has moved; -1: any number";
        let left = self.evictions_left.map_or(-1.0, f64::from);
        pen.gauge(Figure::new("evictions_left", help), left)?;
        let help =
            "Tasks that a transaction took off one machine and placed again, as omega improve does";
        pen.counter(Figure::new("moves", help), self.moves as f64)?;
        let help = "Reservations of machines that are not over";
        pen.gauge(Figure::new("reservations", help), self.reservations as f64)?;
        let HeldCounts { resized, resizes_refused, wants_met, wants_missed } = self.held;
        let resizes = [
            ([("result", "taken")], resized as f64),
            ([("result", "refused")], resizes_refused as f64),
        ];
        let help = "Tasks that were to get more or less of their machines while they run";
        pen.counters(Figure::new("task_resizes", help), resizes)?;
        let wants = [
            ([("result", "met")], wants_met as f64),
            ([("result", "missed")], wants_missed as f64),
        ];
        let help =
            "Tasks that want more than they request, when they were placed with it or without";
        pen.counters(Figure::new("task_wants", help), wants)
    }
}
