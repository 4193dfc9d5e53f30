//! Reservations of machines for some tenants and a time window.
//!
//! For maintenance, demonstrations or large nightly runs; until the start, the machines run other
//! work. (Slurm's advance reservations.)

use crate::selector::MachineSelector;
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// A reservation: machines that only tasks of these tenants may use, from a time until a time.
///
/// Before `from_ms` a task of another tenant is placed there only if it is expected to end by then
/// (see [`Job::runtime_estimate_ms`](crate::Job::runtime_estimate_ms)); from then until `until_ms`
/// none is. Running tasks stay. Overlapping reservations all apply.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reservation {
    /// Its name, unique among the cell's reservations until it ends or is removed.
    pub name: Text,
    /// Selector of the machines, including ones that match later.
    pub machines: MachineSelector,
    /// Tenants that may place tasks there, with all tenants below them.
    pub tenants: Vec<Text>,
    /// Start, in milliseconds of [`Command::Expire`](crate::Command::Expire).
    pub from_ms: u64,
    /// End, after which the reservation is removed.
    pub until_ms: u64,
}

impl Reservation {
    /// Whether it excludes a task of another tenant that is placed now and runs for the given time,
    /// if known.
    #[must_use]
    pub fn binds(&self, now_ms: u64, run_ms: Option<u64>) -> bool {
        now_ms < self.until_ms && self.is_reached(now_ms, run_ms)
    }

    /// Whether such a task would still run when it begins. A task that overlaps one reservation
    /// also overlaps all that begin earlier.
    #[must_use]
    pub fn is_reached(&self, now_ms: u64, run_ms: Option<u64>) -> bool {
        let ends_ms = run_ms.and_then(|run| now_ms.checked_add(run));
        ends_ms.is_none_or(|ends| ends > self.from_ms)
    }

    /// Whether a task may be placed on its machines at any time: `line` is the task's tenant and all above it.
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
            // now, expected run, whether it is kept off
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
