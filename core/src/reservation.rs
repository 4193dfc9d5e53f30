//! Reservations of machines for some tenants and a time window.
//!
//! Reservations are meant for maintenance, demonstrations or large nightly runs. Until the window begins, other tasks
//! run on the machines. (Slurm: advance reservations.)

use crate::selector::MachineSelector;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// A reservation: machines that only tasks of some tenants may use during a time window.
///
/// Before `from_ms`, a task of another tenant is placed on these machines only if it is expected to end before
/// `from_ms` (see [`Job::runtime_estimate_ms`](crate::Job::runtime_estimate_ms)). From `from_ms` to `until_ms`, no task
/// of another tenant is placed on them. Running tasks stay. If several reservations overlap, all of them apply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reservation {
    /// Name of the reservation, unique among the present reservations of the cell.
    pub name: Text,
    /// Selector of the machines, including machines that are added later.
    pub machines: MachineSelector,
    /// Tenants that may use the machines, with all tenants below them.
    pub tenants: Vec<Text>,
    /// Start of the window, in milliseconds of [`Command::Expire`](crate::Command::Expire).
    pub from_ms: u64,
    /// End of the window. At this time, the cell removes the reservation.
    pub until_ms: u64,
}

impl Reservation {
    /// Whether the reservation excludes a task of another tenant that is placed now. The task is expected to run for
    /// `run_ms`; `None` means that the run time is unknown.
    #[must_use]
    pub fn binds(&self, now_ms: u64, run_ms: Option<u64>) -> bool {
        now_ms < self.until_ms && self.is_reached(now_ms, run_ms)
    }

    /// Whether a task that is placed now and runs for `run_ms` would still run when the window begins. If so, this is
    /// also true for all reservations that begin earlier.
    #[must_use]
    pub fn is_reached(&self, now_ms: u64, run_ms: Option<u64>) -> bool {
        let ends_ms = run_ms.and_then(|run| now_ms.checked_add(run));
        ends_ms.is_none_or(|ends| ends > self.from_ms)
    }

    /// Whether the reservation allows a task on its machines at any time. `line` has the task's tenant and all tenants
    /// above it.
    #[must_use]
    pub fn admits<'a>(&self, mut line: impl Iterator<Item = &'a Text>) -> bool {
        line.any(|tenant| self.tenants.contains(tenant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_kept_off_that_would_still_run_when_the_reservation_begins() {
        let reservation = Reservation {
            name: "demo".into(),
            machines: MachineSelector::label("rack", "a"),
            tenants: vec!["show".into()],
            from_ms: 100,
            until_ms: 200,
        };
        let cases = [
            // Present time, expected run time, and whether the task is excluded.
            (40, Some(60), false),
            (41, Some(60), true),
            (0, None, true),
            (100, Some(0), false),
            (101, Some(0), true),
            (199, Some(1), true),
            (200, None, false),
            (40, Some(u64::MAX), true),
        ];
        for (now, run, binds) in cases {
            assert_eq!(reservation.binds(now, run), binds, "{now} {run:?}");
        }
        assert!(reservation.admits([&"east".into(), &"show".into()].into_iter()));
        assert!(!reservation.admits([&"east".into()].into_iter()));
    }
}
