//! The reservations that there are, and which machines they keep from which tasks.
//!
//! The master has one calendar and every view its own, in the [`Facts`] that both judge by. Whether a task is
//! kept off is said for 64 machines at once: the judge asks for one of them, filters for a block.
//!
//! What a reservation says changes with time alone in two moments: as it comes so near that a task would run
//! into it, and when it is over. The first is seen by whoever asks, because all know the cell's time; at the
//! second the cell forgets it, of which views hear.
//!
//! Most reservations begin long after the task in hand has ended. So those that there are have a second order, by when they
//! begin, and nobody looks beyond the first that comes too late.
//!
//! Invariants:
//! - Reservations are by name, ascending, no two of one name.
//! - `by_start` has the place of each once, ascending by when it begins.

use crate::cell::{Cell, Change};
use crate::facts::Facts;
use crate::jobs::JobRecord;
use crate::sets::{SetId, SetKey};
use crate::tenants::Tenants;
use crate::validate;
use omega_core::limits::RESERVATIONS_MAX;
use omega_core::{MachineId, Outcome, Rejection, Reservation, Text};

/// See the head of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendar {
    all: Vec<(Reservation, SetId)>,
    by_start: Vec<usize>,
}

/// How long before a reservation begins or ends the cell should hear the time often: some of the usual periods.
const SOON_MS: u64 = 30_000;

/// When a task would come, and for how long if anyone knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    pub(crate) now_ms: u64,
    pub(crate) run_ms: Option<u64>,
}

impl Calendar {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Every reservation, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Reservation> {
        self.all.iter().map(|(reservation, _)| reservation)
    }

    /// Whether a reservation begins or ends soon.
    pub(crate) fn is_near_an_edge(&self, now_ms: u64) -> bool {
        let soon = now_ms..=now_ms.saturating_add(SOON_MS);
        self.iter().any(|one| soon.contains(&one.from_ms) || soon.contains(&one.until_ms))
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.all.binary_search_by(|(known, _)| (*known.name).cmp(name))
    }

    fn get(&self, name: &str) -> Option<&Reservation> {
        self.place(name).ok().map(|at| &self.all[at].0)
    }

    /// Whether a reservation keeps such a task off some machine, if it matches any.
    pub(crate) fn binds<'a, L: Iterator<Item = &'a Text>>(
        &self,
        stay: Stay,
        line: impl Fn() -> L,
    ) -> bool {
        self.met(stay).any(|(reservation, _)| !reservation.admits(line()))
    }

    /// Those that a task would meet, whomever they are for.
    fn met(&self, stay: Stay) -> impl Iterator<Item = &(Reservation, SetId)> {
        let by_start = self.by_start.iter().map(|at| &self.all[*at]);
        let Stay { now_ms, run_ms } = stay;
        by_start
            .take_while(move |(reservation, _)| reservation.is_reached(now_ms, run_ms))
            .filter(move |(reservation, _)| reservation.binds(now_ms, run_ms))
    }

    /// Brings the second order up to date.
    fn order(&mut self) {
        self.by_start = (0..self.all.len()).collect();
        self.by_start.sort_by_key(|at| self.all[*at].0.from_ms);
    }
}

impl Facts {
    /// Adds a reservation that is not there.
    pub(crate) fn book(&mut self, reservation: Reservation) {
        let Err(at) = self.calendar.place(&reservation.name) else { return };
        let key = SetKey::Match(vec![reservation.machines.clone()]);
        let machines = self.sets.acquire(key, &self.machines);
        self.calendar.all.insert(at, (reservation, machines));
        self.calendar.order();
    }

    fn cancel(&mut self, name: &str) -> Option<Reservation> {
        let at = self.calendar.place(name).ok()?;
        let (reservation, machines) = self.calendar.all.remove(at);
        self.calendar.order();
        self.sets.release(machines);
        Some(reservation)
    }

    /// Makes these the reservations that there are.
    pub(crate) fn book_all(&mut self, reservations: &[Reservation]) {
        for (_, machines) in std::mem::take(&mut self.calendar).all {
            self.sets.release(machines);
        }
        reservations.iter().for_each(|reservation| self.book(reservation.clone()));
    }

    /// Of the machines `64 * word ..` in `among`, those that are kept from a task.
    pub(crate) fn reserved<'a, L: Iterator<Item = &'a Text>>(
        &self,
        (word, among): (usize, u64),
        stay: Stay,
        line: impl Fn() -> L,
    ) -> u64 {
        let mut reserved = 0;
        for (reservation, machines) in self.calendar.met(stay) {
            let more = self.sets.word(*machines, word) & among & !reserved;
            if more != 0 && !reservation.admits(line()) {
                reserved |= more;
            }
        }
        reserved
    }

    /// The reservation that keeps the machine in a row from a task, of several the one that begins first.
    pub(crate) fn reserved_by<'a, L: Iterator<Item = &'a Text>>(
        &self,
        row: usize,
        stay: Stay,
        line: impl Fn() -> L,
    ) -> Option<&Reservation> {
        let mut met = self.calendar.met(stay);
        let found = met.find(|(reservation, machines)| {
            self.sets.contains(*machines, row) && !reservation.admits(line())
        });
        found.map(|(reservation, _)| reservation)
    }

    /// Whether the master keeps a machine from a task of a job.
    #[inline]
    pub(crate) fn is_reserved(
        &self,
        machine: MachineId,
        (job, tenants): (&JobRecord, &Tenants),
        now_ms: u64,
    ) -> bool {
        if self.calendar.is_empty() {
            return false;
        }
        let spot = (machine.row() / 64, 1 << (machine.row() % 64));
        let stay = Stay { now_ms, run_ms: job.spec.runtime_estimate_ms };
        self.reserved(spot, stay, || tenants.line_names(job.tenant)) != 0
    }
}

impl Cell {
    /// Every reservation, by name.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.facts.calendar.iter()
    }

    pub(crate) fn reserve(&mut self, reservation: Reservation) -> Result<Outcome, Rejection> {
        validate::reservation(&reservation, self.now_ms)?;
        match self.facts.calendar.get(&reservation.name) {
            Some(known) if *known == reservation => return Ok(Outcome::Done(self.version)),
            Some(_) => return Err(Rejection::NameTaken(reservation.name)),
            None => {}
        }
        let count = self.facts.calendar.all.len() + 1;
        if count > RESERVATIONS_MAX {
            return Err(validate::too_many("reservations", count, RESERVATIONS_MAX));
        }
        validate::all_reservations(self.facts.calendar.iter().chain([&reservation]))?;
        let version = self.begin();
        self.facts.book(reservation);
        self.log.push(Change::Reservations);
        Ok(Outcome::Done(version))
    }

    pub(crate) fn unreserve(&mut self, name: &Text) -> Result<Outcome, Rejection> {
        if self.facts.calendar.get(name).is_none() {
            return Err(Rejection::UnknownReservation(name.clone()));
        }
        let version = self.begin();
        self.facts.cancel(name);
        self.log.push(Change::Reservations);
        Ok(Outcome::Done(version))
    }

    /// The reservations that are over.
    pub(crate) fn past_reservations(&self) -> Vec<Text> {
        let over = |reservation: &&Reservation| reservation.until_ms <= self.now_ms;
        self.reservations().filter(over).map(|reservation| reservation.name.clone()).collect()
    }

    /// Forgets those, in the version that is open.
    pub(crate) fn forget_reservations(&mut self, past: &[Text]) {
        for name in past {
            self.facts.cancel(name);
        }
        if !past.is_empty() {
            self.log.push(Change::Reservations);
        }
    }
}
