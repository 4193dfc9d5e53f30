//! Handling of answers from frameworks. An answer is checked completely before anything changes.
//!
//! When an offer is accepted, the resources that the launched tasks need are claimed on the view at once, and the
//! rest of the offer is available again. The next step commits the claims.

use super::frontend::{Frontend, Member};
use super::messages::{AcceptError, FrameworkId, Launch, Offer, OfferError, OfferId, Refuse};
use crate::frontends::Mark;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{KindId, MachineId};
use std::collections::{BTreeMap, BTreeSet};

/// Resources of one machine in the named offers, and the sum of the requests of the tasks to launch there.
#[derive(Debug, Default)]
struct Pool {
    offered: Vec<u64>,
    needed: Vec<u64>,
    has_devices: bool,
}

impl Frontend {
    /// Launches tasks with the resources of these offers. Several offers of one machine are added up.
    ///
    /// Resources that the tasks do not need are available again for offers, except offers that `refuse` filters. The
    /// next step reports the results. Without tasks, this call equals [`Frontend::decline`], except for the
    /// counters.
    ///
    /// # Errors
    /// If an offer or a task is invalid. Then nothing has changed, and the offers are still open.
    pub fn accept(
        &mut self,
        framework: FrameworkId,
        offers: &[OfferId],
        launches: &[Launch],
        refuse: Refuse,
    ) -> Result<(), AcceptError> {
        let checked = self.check_offers(framework, offers).map_err(AcceptError::from);
        let done = checked.and_then(|()| {
            self.check_launches(framework, offers, launches)?;
            self.claim(launches)
        });
        if let Err(error) = done {
            self.counters.errors += 1;
            return Err(error);
        }
        for launch in launches {
            self.session.task_index.note(launch.task, Mark::Claimed);
            self.accepted.insert(launch.task, framework);
        }
        self.counters.accepted += offers.len() as u64;
        self.use_up(framework, offers, refuse);
        Ok(())
    }

    /// Declines offers. `refuse` filters similar offers for a time.
    ///
    /// # Errors
    /// If an offer is not the framework's, or no longer open. Then nothing has changed.
    pub fn decline(
        &mut self,
        framework: FrameworkId,
        offers: &[OfferId],
        refuse: Refuse,
    ) -> Result<(), OfferError> {
        if let Err(error) = self.check_offers(framework, offers) {
            self.counters.errors += 1;
            return Err(error);
        }
        self.counters.declined += offers.len() as u64;
        self.use_up(framework, offers, refuse);
        Ok(())
    }

    /// Stops offers to a framework until [`Frontend::revive`]. Open offers stay open.
    ///
    /// # Errors
    /// If there is no such framework.
    pub fn suppress(&mut self, framework: FrameworkId) -> Result<(), OfferError> {
        self.member(framework)?.is_suppressed = true;
        Ok(())
    }

    /// Resumes offers to a framework, and clears its filters.
    ///
    /// # Errors
    /// If there is no such framework.
    pub fn revive(&mut self, framework: FrameworkId) -> Result<(), OfferError> {
        let member = self.member(framework)?;
        member.is_suppressed = false;
        member.filters.clear();
        Ok(())
    }

    fn member(&mut self, id: FrameworkId) -> Result<&mut Member, OfferError> {
        self.members.get_mut(&id).ok_or(OfferError::UnknownFramework(id))
    }

    fn check_offers(&self, framework: FrameworkId, offers: &[OfferId]) -> Result<(), OfferError> {
        if !self.members.contains_key(&framework) {
            return Err(OfferError::UnknownFramework(framework));
        }
        let mut seen = BTreeSet::new();
        for id in offers {
            let offer = self.open_offers.get(*id).ok_or(OfferError::NotOut(*id))?;
            if offer.framework != framework {
                return Err(OfferError::Foreign(*id));
            }
            if !seen.insert(*id) {
                return Err(OfferError::Twice(*id));
            }
        }
        Ok(())
    }

    /// Checks that the tasks are pending tasks of the framework's tenant, and that they fit in the offers.
    fn check_launches(
        &self,
        framework: FrameworkId,
        offers: &[OfferId],
        launches: &[Launch],
    ) -> Result<(), AcceptError> {
        if self.session.view.open_claims() + launches.len() > TRANSACTION_ITEMS_MAX {
            return Err(AcceptError::TooMany { tasks: launches.len() });
        }
        let mut pools = pools(offers.iter().filter_map(|id| self.open_offers.get(*id)));
        let mut seen = BTreeSet::new();
        for launch in launches {
            let Launch { task, machine } = launch;
            let pool = self.pool_for(framework, launch, &mut pools)?;
            if !seen.insert(*task) {
                return Err(AcceptError::TaskTwice(*task));
            }
            let over = pool.needed.iter().zip(&pool.offered).position(|(needed, has)| needed > has);
            if let Some(kind) = over {
                let (needed, offered) = (pool.needed[kind], pool.offered[kind]);
                let kind = KindId(kind as u8);
                return Err(AcceptError::TooMuch { machine: *machine, kind, needed, offered });
            }
        }
        Ok(())
    }

    /// Adds the request of a task to the pool of its machine, and returns the pool.
    fn pool_for<'p>(
        &self,
        framework: FrameworkId,
        launch: &Launch,
        pools: &'p mut BTreeMap<MachineId, Pool>,
    ) -> Result<&'p Pool, AcceptError> {
        let Launch { task, machine } = *launch;
        let tenant = self.members.get(&framework).map(|member| &member.framework.tenant);
        let entry =
            self.session.task_index.job(task.job).filter(|entry| Some(&entry.job.tenant) == tenant);
        let known = entry.and_then(|entry| Some((entry, entry.task(task.index)?)));
        let Some((entry, (group, mark))) = known else {
            return Err(AcceptError::UnknownTask(task));
        };
        let Some(group) = entry.job.groups.get(group).filter(|_| mark == Mark::Waiting) else {
            return Err(AcceptError::NotWaiting(task));
        };
        let Some(pool) = pools.get_mut(&machine) else {
            return Err(AcceptError::NotOffered { task, machine });
        };
        if group.devices.is_some() && !pool.has_devices {
            return Err(AcceptError::NoDevices { task, machine });
        }
        for (kind, amount) in group.request.iter() {
            let at = kind.index();
            let size = pool.needed.len().max(at + 1);
            pool.needed.resize(size, 0);
            pool.offered.resize(size.max(pool.offered.len()), 0);
            pool.needed[at] = pool.needed[at].saturating_add(amount);
        }
        Ok(pool)
    }

    /// Claims machines for all tasks on the view. If one claim fails, none is made.
    fn claim(&mut self, launches: &[Launch]) -> Result<(), AcceptError> {
        let (view, task_index) = (&mut self.session.view, &self.session.task_index);
        for (done, Launch { task, machine }) in launches.iter().enumerate() {
            let known =
                task_index.job(task.job).and_then(|entry| Some((entry, entry.task(task.index)?)));
            let Some((entry, (group, _))) = known else {
                view.drop_claims(done);
                return Err(AcceptError::UnknownTask(*task));
            };
            let group = view.compile(task.job, &entry.job, group);
            if let Err(reason) = view.claim(*task, *machine, group) {
                view.drop_claims(done);
                return Err(AcceptError::Rejected { task: *task, reason });
            }
        }
        Ok(())
    }

    /// Removes answered offers, and sets the filters that the framework requested.
    fn use_up(&mut self, framework: FrameworkId, offers: &[OfferId], refuse: Refuse) {
        for id in offers {
            let offer = self.open_offers.remove(*id);
            let (Some(offer), Some(member)) = (offer, self.members.get_mut(&framework)) else {
                continue;
            };
            match refuse {
                Refuse::Nothing => {}
                Refuse::Machine { until } => member.filters.set(offer.machine, until, None),
                Refuse::Amounts { until } => {
                    member.filters.set(offer.machine, until, Some(offer.amounts))
                }
            }
        }
    }
}

/// Returns the sums of the offered resources, by machine.
fn pools<'a>(offers: impl Iterator<Item = &'a Offer>) -> BTreeMap<MachineId, Pool> {
    let mut pools: BTreeMap<MachineId, Pool> = BTreeMap::new();
    for offer in offers {
        let pool = pools.entry(offer.machine).or_default();
        let amounts = offer.amounts.as_slice();
        pool.offered.resize(pool.offered.len().max(amounts.len()), 0);
        pool.offered.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        pool.has_devices |= offer.devices.is_some();
    }
    pools
}
