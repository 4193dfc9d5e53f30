//! The commands that add and remove reservations.

use super::Reservations;
use crate::cell::{Cell, Change};
use crate::commands::bounds::too_many;
use crate::commands::validate;
use crate::policy::CellPolicy;
use crate::policy::set::Listed;
use omega_core::limits::RESERVATIONS_MAX;
use omega_core::{Outcome, Rejection, Reservation, Text};

impl CellPolicy for Reservations {}

impl Cell {
    /// Every reservation, by name.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.policies.reservations.iter()
    }

    pub(crate) fn reserve(&mut self, reservation: Reservation) -> Result<Outcome, Rejection> {
        validate::reservation(&reservation, self.now_ms)?;
        match self.policies.reservations.get(&reservation.name) {
            Some(known) if *known == reservation => return Ok(Outcome::Done(self.version)),
            Some(_) => return Err(Rejection::NameTaken(reservation.name)),
            None => {}
        }
        let count = self.policies.reservations.all.len() + 1;
        if count > RESERVATIONS_MAX {
            return Err(too_many("reservations", count, RESERVATIONS_MAX));
        }
        validate::all_reservations(self.policies.reservations.iter().chain([&reservation]))?;
        let version = self.begin();
        self.policies.reservations.book(reservation, &mut self.machine_index);
        self.log.push(Change::Policy(Reservations::BIT));
        Ok(Outcome::Done(version))
    }

    pub(crate) fn unreserve(&mut self, name: &Text) -> Result<Outcome, Rejection> {
        if self.policies.reservations.get(name).is_none() {
            return Err(Rejection::UnknownReservation(name.clone()));
        }
        let version = self.begin();
        self.policies.reservations.cancel(name, &mut self.machine_index);
        self.log.push(Change::Policy(Reservations::BIT));
        Ok(Outcome::Done(version))
    }
}
