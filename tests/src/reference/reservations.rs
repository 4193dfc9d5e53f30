//! Reservations: a list, which is evaluated for each task and machine.

use super::fit::Member;
use super::{Reference, validate};
use omega_core::{Outcome, Rejection, Reservation, Text};

impl Reference {
    /// Adds a reservation of machines for tenants.
    pub(super) fn reserve(&mut self, asked: Reservation) -> Result<Outcome, Rejection> {
        validate::reservation(&asked)?;
        if asked.from_ms >= asked.until_ms || asked.until_ms <= self.now_ms {
            return Err(Rejection::BadReservation("".into()));
        }
        if self.reservations.contains(&asked) {
            return Ok(Outcome::Done(self.version));
        }
        if self.reservations.iter().any(|known| known.name == asked.name) {
            return Err(Rejection::NameTaken(asked.name));
        }
        if self.reservations.len() >= 256 {
            return Err(Rejection::TooMany { what: "".into(), given: 257, max: 256 });
        }
        self.reservations.push(asked);
        Ok(self.done())
    }

    /// Ends a reservation.
    pub(super) fn unreserve(&mut self, name: &Text) -> Result<Outcome, Rejection> {
        let before = self.reservations.len();
        self.reservations.retain(|known| known.name != *name);
        if self.reservations.len() < before {
            Ok(self.done())
        } else {
            Err(Rejection::UnknownReservation(name.clone()))
        }
    }

    /// Removes reservations that have ended. Returns whether there were any.
    pub(super) fn forget_reservations(&mut self) -> bool {
        let before = self.reservations.len();
        let now = self.now_ms;
        self.reservations.retain(|known| known.until_ms > now);
        self.reservations.len() < before
    }

    /// All reservations, by name.
    #[must_use]
    pub fn reservations(&self) -> Vec<&Reservation> {
        let mut all: Vec<&Reservation> = self.reservations.iter().collect();
        all.sort_by_key(|known| known.name.clone());
        all
    }

    /// Whether a reservation for other tenants overlaps the run time of these tasks.
    pub(super) fn is_reserved(&self, of: Member<'_>, row: usize) -> bool {
        let Some(host) = &self.rows[row].machine else { return false };
        let ours = self.line(&of.job.spec.tenant);
        let ends = match of.job.spec.runtime_estimate_ms {
            Some(run) => u128::from(self.now_ms) + u128::from(run),
            None => u128::MAX,
        };
        self.reservations.iter().any(|known| {
            let is_theirs = !ours.iter().any(|tenant| known.tenants.contains(tenant));
            let overlaps = u128::from(known.from_ms) < ends;
            is_theirs && overlaps && known.machines.matches(&host.spec)
        })
    }
}
