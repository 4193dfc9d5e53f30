//! The state of the offer frontend, and one step.
//!
//! ```text
//!   commit accepted offers ─▶ sync ─▶ withdraw invalid offers ─▶ expire late offers ─▶ offer
//! ```
//!
//! A step commits before it syncs, so that the view includes the result of the commit when new offers are made.

use super::FRAMEWORKS_MAX;
use super::filter::Filters;
use super::messages::{
    Account, Counters, Event, Framework, FrameworkId, Happened, NotLaunched, Offer, OfferId,
    RegisterError, Settings, Withdrawn,
};
use super::open_offers::OpenOffers;
use crate::frontends::{Left, Reply, Session};
use crate::queue::Nanos;
use crate::queue::dominant::Share;
use omega_cellstate::{BLOCK, CellHandle, HandleError, View};
use omega_core::{Amounts, Job, JobId, KindId, TaskId, Transaction, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// State of a framework in the frontend.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) framework: Framework,
    pub(super) filters: Filters,
    pub(super) is_suppressed: bool,
    /// Number of the turn in which the framework last got offers.
    pub(super) served: u64,
    /// The row at which the next scan for this framework begins.
    pub(super) from: usize,
}

/// The offer frontend: offers the resources of a cell to frameworks. See [`crate::mesos`].
#[derive(Debug)]
pub struct Frontend {
    pub(super) session: Session,
    pub(super) settings: Settings,
    pub(super) members: BTreeMap<FrameworkId, Member>,
    next_member: u32,
    pub(super) open_offers: OpenOffers,
    pub(super) turns: u64,
    /// The framework that launched each task. An entry is removed when the cell has checked the task's claim.
    pub(super) accepted: BTreeMap<TaskId, FrameworkId>,
    /// Events that the next successful step returns.
    pub(super) events: Vec<Event>,
    pub(super) counters: Counters,
}

impl Frontend {
    /// Registers a frontend at a cell.
    ///
    /// # Errors
    /// If the cell cannot be reached or rejects the name.
    pub fn new(
        cell: &(impl CellHandle + ?Sized),
        settings: Settings,
    ) -> Result<Frontend, HandleError> {
        Ok(Frontend {
            session: Session::new(cell, settings.name.clone())?,
            settings,
            members: BTreeMap::new(),
            next_member: 0,
            open_offers: OpenOffers::default(),
            turns: 0,
            accepted: BTreeMap::new(),
            events: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// Registers a framework, which gets offers from the next step on.
    ///
    /// # Errors
    /// If the framework's name is taken, or if the maximum number of frameworks is registered.
    pub fn register(&mut self, framework: Framework) -> Result<FrameworkId, RegisterError> {
        if self.members.values().any(|member| member.framework.name == framework.name) {
            return Err(RegisterError::NameTaken(framework.name));
        }
        if self.members.len() >= FRAMEWORKS_MAX {
            return Err(RegisterError::TooMany);
        }
        let id = FrameworkId(self.next_member);
        self.next_member += 1;
        let filters = Filters::default();
        let member = Member { framework, filters, is_suppressed: false, served: 0, from: 0 };
        self.members.insert(id, member);
        Ok(id)
    }

    /// Deregisters a framework. Its offers become available again, and its tasks continue. Returns whether the
    /// framework was registered.
    pub fn deregister(&mut self, id: FrameworkId) -> bool {
        let offers: Vec<OfferId> = self.open_offers.of(id).collect();
        offers.into_iter().for_each(|offer| drop(self.open_offers.remove(offer)));
        self.events.retain(|event| event.framework != id);
        self.members.remove(&id).is_some()
    }

    /// Runs one round, and returns the events for frameworks, in order.
    ///
    /// `now` is the time in nanoseconds since any fixed time, and must not decrease from call to call.
    ///
    /// # Errors
    /// If the cell cannot be reached. The frontend and its offers are unchanged. Call `step` again later: the next
    /// successful step also returns the events of the failed step.
    pub fn step(
        &mut self,
        cell: &(impl CellHandle + ?Sized),
        now: Nanos,
    ) -> Result<Vec<Event>, HandleError> {
        if let Some((txn, reply)) = self.session.ask_again(cell)? {
            self.settle(&txn, reply)?;
        }
        if let Some((txn, reply)) = self.session.submit(cell, Vec::new())? {
            self.settle(&txn, reply)?;
        }
        self.session.sync(cell)?;
        self.report_lost();
        self.withdraw();
        self.take_back_late(now);
        self.make_offers(now);
        self.counters.rounds += 1;
        Ok(std::mem::take(&mut self.events))
    }

    /// Reports the results of a transaction to the frameworks that launched its tasks.
    fn settle(&mut self, txn: &Transaction, reply: Reply) -> Result<(), HandleError> {
        for (index, claim) in txn.claims.iter().enumerate() {
            let (task, machine) = (claim.task, claim.machine);
            let why = match &reply {
                Reply::Checked(commit) => commit.conflict_of_claim(index).map(NotLaunched::Refused),
                Reply::Dropped(error) => Some(NotLaunched::Unsent(error.clone())),
            };
            let happened = match why {
                None => {
                    self.counters.launched += 1;
                    Happened::Launched { task, machine }
                }
                Some(why) => {
                    self.counters.conflicts += u64::from(matches!(why, NotLaunched::Refused(_)));
                    Happened::NotLaunched { task, machine, why }
                }
            };
            // The framework may have been deregistered since it launched the task.
            if let Some(framework) = self.accepted.remove(&task)
                && self.members.contains_key(&framework)
            {
                self.events.push(Event { framework, happened });
            }
        }
        match reply {
            Reply::Checked(_) => Ok(()),
            Reply::Dropped(error) => Err(error),
        }
    }

    /// Reports tasks that lost their machines to all frameworks of their tenant.
    fn report_lost(&mut self) {
        for Left { task, machine, state, tenant } in self.session.task_index.take_left() {
            let of_tenant = |member: &(&FrameworkId, &Member)| member.1.framework.tenant == tenant;
            for (framework, _) in self.members.iter().filter(of_tenant) {
                let happened = Happened::Left { task, machine, state };
                self.events.push(Event { framework: *framework, happened });
            }
        }
    }

    /// Withdraws offers that became invalid by the last sync. Only machines that the sync changed are examined.
    fn withdraw(&mut self) {
        let delta = self.session.view.delta();
        let slots: BTreeSet<u32> = if delta.full {
            self.open_offers.slots()
        } else {
            let machines = delta.machines.iter().map(|machine| machine.slot);
            let devices = delta.devices.iter().map(|(slot, _)| *slot);
            delta.slots.iter().copied().chain(machines).chain(devices).collect()
        };
        for slot in slots {
            while let Some((id, why)) = self.broken(slot) {
                self.take_back(id, why);
            }
        }
    }

    /// Returns the next offer of a machine to withdraw, and the reason; `None` if all offers of the machine are valid.
    /// If resources are short, the newest offer is the next to withdraw.
    fn broken(&self, slot: u32) -> Option<(OfferId, Withdrawn)> {
        let on = self.open_offers.on(slot)?;
        let newest = *on.offers.last()?;
        let offer = self.open_offers.get(newest)?;
        let (view, row) = (&self.session.view, slot as usize);
        if row >= view.rows() || view.machine_id(row) != offer.machine || !takes_tasks(view, row) {
            return Some((newest, Withdrawn::Gone));
        }
        if view.machine(row) != Some(&offer.description) {
            return Some((newest, Withdrawn::Changed));
        }
        if let Some(holder) = on.devices
            && self
                .open_offers
                .get(holder)
                .is_some_and(|offer| offer.devices.as_ref() != view.devices(row))
        {
            return Some((holder, Withdrawn::Taken));
        }
        let exceeds = |(kind, held): (KindId, &i64)| *held > view.free(row, kind).max(0);
        let is_short = (0..).map(KindId).zip(&on.held).any(exceeds);
        is_short.then_some((newest, Withdrawn::Taken))
    }

    fn take_back(&mut self, id: OfferId, why: Withdrawn) {
        let Some(offer) = self.open_offers.remove(id) else { return };
        match why {
            Withdrawn::Late => self.counters.late += 1,
            Withdrawn::Taken | Withdrawn::Gone | Withdrawn::Changed => self.counters.withdrawn += 1,
        }
        let happened = Happened::Withdrawn(id, why);
        self.events.push(Event { framework: offer.framework, happened });
    }

    /// Expires offers that were not answered in time. For a while, a filter then excludes the machine from offers to
    /// this framework, so that other frameworks get it.
    fn take_back_late(&mut self, now: Nanos) {
        while let Some(id) = self.open_offers.late_by(now) {
            let offer = self.open_offers.get(id).map(|offer| (offer.framework, offer.machine));
            if let (Some((framework, machine)), Some(within)) = (offer, self.settings.answer_within)
                && let Some(member) = self.members.get_mut(&framework)
            {
                member.filters.set(machine, now.saturating_add(within), None);
            }
            self.take_back(id, Withdrawn::Late);
        }
    }

    // --- Queries ---------------------------------------------------------------------------------

    /// The open offers of a framework, the oldest first.
    pub fn offers_of(&self, framework: FrameworkId) -> impl Iterator<Item = &Offer> {
        self.open_offers.of(framework).filter_map(|id| self.open_offers.get(id))
    }

    /// All open offers, the oldest first.
    pub fn offers(&self) -> impl Iterator<Item = &Offer> {
        self.open_offers.iter()
    }

    /// The jobs whose tasks a framework may place: those of its tenant, ascending by id.
    pub fn jobs_of(&self, framework: FrameworkId) -> impl Iterator<Item = (JobId, &Arc<Job>)> {
        let tenant = self.members.get(&framework).map(|member| &member.framework.tenant);
        let jobs = self.session.task_index.jobs().map(|(id, entry)| (id, &entry.job));
        jobs.filter(move |(_, job)| Some(&job.tenant) == tenant)
    }

    /// The pending tasks of a job's group, the oldest first.
    pub fn waiting(&self, job: JobId, group: usize) -> impl Iterator<Item = TaskId> + '_ {
        let entry = self.session.task_index.job(job).into_iter();
        entry.flat_map(move |entry| entry.waiting(group)).map(move |index| TaskId { job, index })
    }

    /// Weighted dominant share of a framework. It counts the resources that the framework's tenant uses, and the open
    /// offers to all frameworks of this tenant.
    #[must_use]
    pub fn share(&self, framework: FrameworkId) -> Option<Share> {
        self.members.get(&framework).map(|member| self.share_of(&member.framework))
    }

    pub(super) fn share_of(&self, framework: &Framework) -> Share {
        let used = self.session.task_index.used_by(&framework.tenant);
        let offered = self.open_offers.offered_to(&framework.tenant);
        self.session.totals.share(used.into_iter().chain(offered), framework.weight)
    }

    /// Divides the free resources into offered resources, available resources, and resources held back. Scans every
    /// machine.
    #[must_use]
    pub fn account(&self) -> Account {
        let view = &self.session.view;
        let mut account = Account::default();
        for row in (0..view.rows()).filter(|row| view.machine(*row).is_some()) {
            let on = self.open_offers.on(row as u32);
            for (kind, _) in view.kinds().iter() {
                let free = view.free(row, kind).max(0);
                let held = on.and_then(|on| on.held.get(kind.index()).copied()).unwrap_or(0);
                let rest = if takes_tasks(view, row) {
                    &mut account.available
                } else {
                    &mut account.held_back
                };
                add(rest, kind, free - held);
                add(&mut account.free, kind, free);
                add(&mut account.offered, kind, held);
            }
        }
        account
    }

    /// The version of the cell that the frontend's view shows.
    #[must_use]
    pub fn version(&self) -> Version {
        self.session.view.version()
    }

    /// Counters since the frontend began.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

fn add(to: &mut Amounts, kind: KindId, amount: i64) {
    to.set(kind, to.get(kind) + amount.max(0) as u64);
}

/// Whether the machine in a row accepts tasks.
pub(super) fn takes_tasks(view: &View, row: usize) -> bool {
    view.block(row / BLOCK).schedulable() >> (row % BLOCK) & 1 == 1
}
