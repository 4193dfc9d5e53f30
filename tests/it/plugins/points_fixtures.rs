//! Plugins for tests of the extension points around a decision: one with scripted answers, and one that checks the
//! calls.

use omega_core::TaskId;
use omega_schedulers::{
    Admit, Claimed, Events, Nanos, Permission, Permit, PostBind, PreBind, Profile, Queued, Refused,
    Reserve, Waiting,
};
use omega_tests::random::Dice;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

/// Answers of a [`Says`] at each point, in order. When no answers are left, the plugin accepts.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) admit: VecDeque<Refused>,
    pub(crate) reserve: VecDeque<Option<Refused>>,
    pub(crate) permit: VecDeque<Permission>,
    pub(crate) pre_bind: VecDeque<Option<Refused>>,
    /// If set, points without scripted answers answer at random.
    pub(crate) mood: Option<Dice>,
}

/// A plugin at all points with scripted answers. Clones share their script.
#[derive(Clone, Default)]
pub(crate) struct Says(Arc<Mutex<Lines>>);

impl Says {
    pub(crate) fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap()
    }

    fn by_chance(&self) -> Result<(), Refused> {
        let mut lines = self.lines();
        let no = lines.mood.as_mut().is_some_and(|dice| dice.chance(15));
        if no { Err(Refused(Events::TIME)) } else { Ok(()) }
    }

    fn answer(&self, line: Option<Option<Refused>>) -> Result<(), Refused> {
        match line {
            Some(Some(refusal)) => Err(refusal),
            Some(None) => Ok(()),
            None => self.by_chance(),
        }
    }
}

impl Admit for Says {
    fn name(&self) -> &'static str {
        "says"
    }

    fn admit(&mut self, _: Queued<'_>, _: &omega_cellstate::View) -> Result<(), Refused> {
        let line = self.lines().admit.pop_front();
        self.answer(line.map(Some))
    }
}

impl Reserve for Says {
    fn name(&self) -> &'static str {
        "says"
    }

    fn reserve(&mut self, _: &Claimed<'_>) -> Result<(), Refused> {
        let line = self.lines().reserve.pop_front();
        self.answer(line)
    }

    fn unreserve(&mut self, _: &Claimed<'_>) {}
}

impl Permit for Says {
    fn name(&self) -> &'static str {
        "says"
    }

    fn permit(&mut self, _: &Claimed<'_>, waiting: &Waiting) -> Permission {
        let mut lines = self.lines();
        if let Some(permission) = lines.permit.pop_front() {
            return permission;
        }
        let Some(dice) = &mut lines.mood else { return Permission::Allow };
        for waits in waiting.list() {
            match dice.below(4) {
                0 => drop(waiting.allow(waits.task, "says")),
                1 => drop(waiting.refuse(waits.task, "says")),
                _ => {}
            }
        }
        match dice.below(4) {
            0 => Permission::Refuse(Refused(Events::TIME)),
            1 => wait(dice.below(5_000_000) as Nanos),
            _ => Permission::Allow,
        }
    }
}

impl PreBind for Says {
    fn name(&self) -> &'static str {
        "says"
    }

    fn pre_bind(&mut self, _: &Claimed<'_>) -> Result<(), Refused> {
        let line = self.lines().pre_bind.pop_front();
        self.answer(line)
    }
}

/// Permission to wait for at most this time. If the wait times out, the job is retried after its backoff.
pub(crate) fn wait(at_most: Nanos) -> Permission {
    Permission::Wait { at_most, then: Refused(Events::TIME) }
}

/// Events that a [`Ledger`] has recorded.
#[derive(Default)]
pub(crate) struct Book {
    /// Reserved tasks that were neither unreserved nor bound.
    pub(crate) open: BTreeSet<TaskId>,
    pub(crate) reserved: usize,
    pub(crate) unreserved: usize,
    pub(crate) bound: usize,
}

/// A plugin that checks the calls: every claim is reserved once, and then unreserved or bound once. It must be the
/// first plugin that reserves. Clones share the record.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Book>>);

impl Ledger {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap()
    }
}

impl Reserve for Ledger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn reserve(&mut self, claimed: &Claimed<'_>) -> Result<(), Refused> {
        let mut book = self.book();
        assert!(book.open.insert(claimed.task), "{:?} is reserved twice", claimed.task);
        book.reserved += 1;
        Ok(())
    }

    fn unreserve(&mut self, claimed: &Claimed<'_>) {
        let mut book = self.book();
        assert!(book.open.remove(&claimed.task), "{:?} was not reserved", claimed.task);
        book.unreserved += 1;
    }
}

impl PostBind for Ledger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn post_bind(&mut self, claimed: &Claimed<'_>) {
        let mut book = self.book();
        assert!(book.open.remove(&claimed.task), "{:?} was not reserved", claimed.task);
        book.bound += 1;
    }
}

/// A profile that has these plugins at every point.
pub(crate) fn with_both(profile: Profile, ledger: &Ledger, says: &Says) -> Profile {
    profile
        .with_admit(says.clone())
        .with_reserve(ledger.clone())
        .with_reserve(says.clone())
        .with_permit(says.clone())
        .with_pre_bind(says.clone())
        .with_post_bind(ledger.clone())
}
