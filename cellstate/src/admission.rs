//! Admission: how much the jobs of a tenant may ask for, whether or not it is placed.
//!
//! A quota bounds what tasks claim: a job beyond it is queued until others end. A limit on what is asked refuses
//! such a job when it is submitted, so that whoever sent it hears of it at once, and no tenant fills the queue.
//! (Borg's quota is of this kind: "part of admission control, not scheduling", Verma et al., EuroSys 2015.)
//!
//! 1. a tenant *asks for* what all tasks that have not ended request of machines and of the cell, its own
//!    and those of tenants below it;
//! 2. a job that would raise that above a limit of its tenant, or of one above it, is refused, as is a group
//!    that grows. What was asked for before a limit came stays;
//! 3. sums are kept only while somebody has a limit. They have 128 bits: a job may ask for more than 64 bits count.

use crate::cell::Cell;
use crate::facts::Need;
use crate::tenants::Tenants;
use crate::texts;
use crate::validate;
use omega_core::{Amounts, Job, KindId, Kinds, Outcome, Rejection, Text};

/// What is asked for, while somebody has a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// How many tenants have a limit.
    limits: usize,
    /// By tenant, what is asked for of each kind; empty without limits.
    sums: Vec<Vec<u128>>,
}

impl Tenants {
    /// Sets or lifts a limit; sums are not counted anew.
    pub(crate) fn set_admission(&mut self, name: &Text, limit: Option<Amounts>) {
        let id = self.intern(name) as usize;
        self.list[id].admits = limit;
        self.asked.limits = self.list.iter().filter(|tenant| tenant.admits.is_some()).count();
    }

    /// Counts what so many tasks of a tenant ask for, or below zero, what they ask for no more.
    #[inline]
    pub(crate) fn ask(&mut self, tenant: u32, need: &Need, count: i64) {
        let tasks = &mut self.list[tenant as usize].tasks;
        *tasks = tasks.strict_add_signed(count);
        if self.asked.limits > 0 {
            self.ask_limited(tenant, &need.charged(&need.request), count);
        }
    }

    /// Has a sum for each tenant: of one that is new, nothing was asked for yet.
    fn make_sums(&mut self) {
        self.asked.sums.resize(self.list.len(), vec![0; self.kinds]);
    }

    fn ask_limited(&mut self, tenant: u32, request: &[i64], count: i64) {
        let line: Vec<u32> = self.line(tenant).collect();
        self.make_sums();
        for id in line {
            for (sum, request) in self.asked.sums[id as usize].iter_mut().zip(request) {
                *sum = sum.strict_add_signed(i128::from(*request) * i128::from(count));
            }
        }
    }

    /// Whether a tenant may ask for so many tasks more, with what one of each requests.
    pub(crate) fn admit<'a>(
        &self,
        kinds: &Kinds,
        tenant: u32,
        tasks: impl Iterator<Item = (&'a Amounts, u32)>,
    ) -> Result<(), Rejection> {
        if self.asked.limits == 0 {
            return Ok(());
        }
        let mut more = vec![0; self.kinds];
        for (request, count) in tasks {
            for (kind, amount) in request.iter() {
                more[kind.index()] += u128::from(amount) * u128::from(count);
            }
        }
        self.line(tenant).try_for_each(|id| self.admits(kinds, id, &more))
    }

    /// Whether so much more is within the limit of one tenant.
    fn admits(&self, kinds: &Kinds, id: u32, more: &[u128]) -> Result<(), Rejection> {
        let tenant = &self.list[id as usize];
        let Some(limit) = &tenant.admits else { return Ok(()) };
        for (kind, more) in more.iter().enumerate().filter(|(_, more)| **more > 0) {
            let asked = self.asked(id).map_or(0, |sums| sums[kind]) + more;
            let kind = KindId(kind as u8);
            if asked > u128::from(limit.get(kind)) {
                let (tenant, limit) = (tenant.terms.name.clone(), limit.get(kind));
                let asked = asked.try_into().unwrap_or(u64::MAX);
                let name = kinds.get(kind).map_or("", |kind| kind.name.as_str());
                let [would, may] = [asked, limit].map(|amount| kinds.display(kind, amount));
                let told = format!("would ask for {would} {name}, they may ask for {may}").into();
                return Err(Rejection::NotAdmitted { tenant, kind, asked, limit, told });
            }
        }
        Ok(())
    }

    /// What the jobs of a tenant ask for, and of those below it; `None` is nothing, or that nobody has a limit.
    pub(crate) fn asked(&self, tenant: u32) -> Option<&[u128]> {
        self.asked.sums.get(tenant as usize).map(Vec::as_slice)
    }
}

impl Cell {
    /// Sets or lifts the limit on what a tenant's jobs may ask for.
    pub(crate) fn set_admission(
        &mut self,
        tenant: &Text,
        limit: Option<Amounts>,
    ) -> Result<Outcome, Rejection> {
        texts::name("tenant", tenant)?;
        if let Some(limit) = &limit {
            validate::quota(tenant, limit, &self.kinds)?;
        }
        let version = self.begin();
        let counted = self.tenants.asked.limits > 0;
        self.tenants.set_admission(tenant, limit);
        match counted && self.tenants.asked.limits > 0 {
            true => self.tenants.make_sums(),
            false => self.recount_asked(),
        }
        Ok(Outcome::Done(version))
    }

    /// Whether a job may be submitted.
    pub(crate) fn admit_job(&self, job: &Job) -> Result<(), Rejection> {
        let groups = job.groups.iter();
        let groups =
            groups.flat_map(|group| group.asks().map(move |amounts| (amounts, group.count)));
        match self.tenants.id(&job.tenant) {
            Some(tenant) => self.tenants.admit(&self.kinds, tenant, groups),
            None => Ok(()),
        }
    }

    /// How many tasks of a tenant's own jobs have not ended.
    #[must_use]
    pub fn tenant_tasks(&self, tenant: &str) -> u64 {
        self.tenants.get(tenant).map_or(0, |tenant| tenant.tasks)
    }

    /// Counts the tasks of each tenant that have not ended.
    pub(crate) fn count_tenant_tasks(&self) -> Vec<u64> {
        let mut counts = vec![0; self.tenants.list.len()];
        for (_, job) in self.jobs.iter() {
            counts[job.tenant as usize] += u64::from(job.alive);
        }
        counts
    }

    /// Counts anew, because limits or the tree of tenants changed.
    pub(crate) fn recount_asked(&mut self) {
        self.tenants.asked.sums = self.count_asked();
    }

    /// What the jobs of each tenant ask for; nothing while nobody has a limit.
    pub(crate) fn count_asked(&self) -> Vec<Vec<u128>> {
        if self.tenants.asked.limits == 0 {
            return Vec::new();
        }
        let mut sums = vec![vec![0; self.tenants.kinds]; self.tenants.list.len()];
        for (_, job) in self.jobs.iter() {
            let living = job.tasks.iter().filter(|task| !task.state.ended());
            for need in living.map(|task| job.need(task)) {
                let asked = need.charged(&need.request);
                for id in self.tenants.line(job.tenant) {
                    let counts = sums[id as usize].iter_mut().zip(asked.iter());
                    counts.for_each(|(sum, request)| *sum += u128::from(request.unsigned_abs()));
                }
            }
        }
        sums
    }
}
