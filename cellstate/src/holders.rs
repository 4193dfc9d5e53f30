//! Who commits under a scheduler's name, so that one that was replaced cannot.
//!
//! A scheduler dies, or seems to: it may be stopped for a while, and wake after another process has taken
//! its name. Both would then count their transactions from the same number. So each time a name changes
//! hands, its numbers jump far ahead, and what is new and below the jump is refused:
//!
//! ```text
//!   numbers   0 ── first holder ── next ─ ─ ─ skipped ─ ─ ─ floor ── second holder ── next ──▶
//!             answered: the same answer again    new: fenced           new: judged
//! ```
//!
//! Invariant: `floor <= next`. So a number that is judged anew is never below the floor unless it is below
//! `next`, and the rule costs nothing where numbers go upwards.
//!
//! Whether a holder is silent is no matter of the cell, which reads no clock: whoever watches the holders
//! says so with [`omega_core::Command::EndHolder`].

use crate::answers::{Answer, Answers};
use crate::cell::{Cell, Registered};
use crate::texts;
use crate::validate;
use omega_core::limits::{LEASE_MS_MAX, LEASE_MS_MIN, NUMBERS_SKIPPED, SCHEDULERS_MAX};
use omega_core::{Hold, HolderId, Outcome, Rejection, SchedulerId, Text};

impl Cell {
    /// Gives a scheduler an id.
    pub(crate) fn register_scheduler(&mut self, name: Text) -> Result<Outcome, Rejection> {
        texts::name("scheduler", &name)?;
        let index = match self.scheduler_index(&name) {
            Some(index) => match self.schedulers[index].hold {
                Some(hold) => return Err(Rejection::NameHeld { name, holder: hold.holder }),
                None => index,
            },
            None => {
                self.one_scheduler_more()?;
                self.begin();
                self.add_scheduler(name)
            }
        };
        Ok(self.scheduler_outcome(index))
    }

    /// Gives a name to a process.
    pub(crate) fn hold_scheduler(&mut self, name: Text, hold: Hold) -> Result<Outcome, Rejection> {
        texts::name("scheduler", &name)?;
        if !(LEASE_MS_MIN..=LEASE_MS_MAX).contains(&hold.lease_ms) {
            return Err(Rejection::BadLease { given: hold.lease_ms });
        }
        let known = self.scheduler_index(&name);
        match known.and_then(|index| self.schedulers[index].hold.map(|hold| (index, hold.holder))) {
            Some((index, holder)) if holder == hold.holder => {
                return Ok(self.scheduler_outcome(index));
            }
            Some((_, holder)) => return Err(Rejection::NameHeld { name, holder }),
            None => {}
        }
        if known.is_none() {
            self.one_scheduler_more()?;
        }
        self.begin();
        let index = known.unwrap_or_else(|| self.add_scheduler(name));
        let scheduler = &mut self.schedulers[index];
        scheduler.hold = Some(hold);
        scheduler.answers.skip();
        Ok(self.scheduler_outcome(index))
    }

    /// Takes all its names from a process.
    pub(crate) fn end_holder(&mut self, holder: HolderId) -> Outcome {
        let is_held = |scheduler: &Registered| scheduler.hold.is_some_and(|h| h.holder == holder);
        if self.schedulers.iter().any(is_held) {
            self.begin();
            for scheduler in self.schedulers.iter_mut().filter(|scheduler| is_held(scheduler)) {
                scheduler.hold = None;
                scheduler.answers.skip();
            }
        }
        Outcome::Done(self.version)
    }

    fn scheduler_index(&self, name: &Text) -> Option<usize> {
        self.schedulers.iter().position(|scheduler| scheduler.name == *name)
    }

    fn one_scheduler_more(&self) -> Result<(), Rejection> {
        match self.schedulers.len() >= SCHEDULERS_MAX {
            true => Err(validate::too_many("schedulers", SCHEDULERS_MAX + 1, SCHEDULERS_MAX)),
            false => Ok(()),
        }
    }

    fn add_scheduler(&mut self, name: Text) -> usize {
        self.schedulers.push(Registered { name, hold: None, answers: Answers::default() });
        self.schedulers.len() - 1
    }

    fn scheduler_outcome(&self, index: usize) -> Outcome {
        let next_transaction = self.schedulers[index].answers.next;
        Outcome::Scheduler { id: SchedulerId(index as u32), next_transaction }
    }
}

impl Answers {
    /// Leaves all numbers behind that whoever used the name may have on its way.
    fn skip(&mut self) {
        self.next = self.next.saturating_add(NUMBERS_SKIPPED);
        self.floor = self.next;
    }
}

/// A scheduler that has registered, as [`Cell::schedulers`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerState<'a> {
    /// Its id.
    pub id: SchedulerId,
    /// Its name.
    pub name: &'a Text,
    /// Who holds the name, if a process does.
    pub hold: Option<Hold>,
    /// A number above all that were used for its transactions.
    pub next_transaction: u64,
}

/// Looking at schedulers.
impl Cell {
    /// Every scheduler that has registered, by id.
    pub fn schedulers(&self) -> impl Iterator<Item = SchedulerState<'_>> {
        (0..).map(SchedulerId).zip(&self.schedulers).map(|(id, scheduler)| SchedulerState {
            id,
            name: &scheduler.name,
            hold: scheduler.hold,
            next_transaction: scheduler.answers.next,
        })
    }

    /// What a scheduler's transactions were answered, as far as that is remembered, in no order of their own:
    /// at most [`omega_core::limits::ANSWERS_PER_SCHEDULER`].
    pub fn answers(&self, id: SchedulerId) -> impl Iterator<Item = &Answer> {
        self.schedulers.get(id.0 as usize).into_iter().flat_map(|one| one.answers.iter())
    }

    /// What one of a scheduler's transactions was answered, if that is remembered.
    #[must_use]
    pub fn answer(&self, id: SchedulerId, number: u64) -> Option<&Answer> {
        self.schedulers.get(id.0 as usize)?.answers.get(number)
    }

    /// Who holds a scheduler's name, if a process does.
    #[must_use]
    pub fn hold_of(&self, name: &str) -> Option<Hold> {
        self.schedulers.iter().find(|scheduler| *scheduler.name == *name)?.hold
    }
}
