//! Request limits of tenants: the most that a tenant's jobs may request, whether or not they are placed.
//!
//! A quota bounds the claims of placed tasks, so a job beyond the quota stays queued. A request limit rejects such a
//! job when it is submitted: the user gets the error at once, and no tenant can fill the queue. (Borg's quota works
//! like this: "part of admission control, not scheduling", Verma et al., EuroSys 2015.)
//!
//! 1. A tenant's *requested* amount is the sum of the requests of all unfinished tasks of the tenant and of all tenants
//!    below it. It includes cluster resources.
//! 2. The submission of a job or the growth of a group is rejected if it would raise the requested amount of the job's
//!    tenant, or of a tenant above it, over that tenant's limit. Jobs that were accepted before the limit was set stay.
//! 3. Sums are kept only while some tenant has a request limit. They have 128 bits, because the total of many jobs may
//!    exceed 64 bits.

use crate::index::need::Need;
use crate::state::tenants::Tenants;
use omega_core::{Amounts, KindId, Kinds, Rejection, Text};

impl Tenants {
    /// Sets or removes a limit. The caller must recount the sums afterwards.
    pub fn set_admission(&mut self, name: &Text, limit: Option<Amounts>) {
        let id = self.intern(name) as usize;
        self.list[id].admits = limit;
        self.requested.limits = self.list.iter().filter(|tenant| tenant.admits.is_some()).count();
    }

    /// Adds `count` tasks to the sums of a tenant and of all tenants above it. A negative count removes tasks.
    #[inline]
    pub fn ask(&mut self, tenant: u32, need: &Need, count: i64) {
        let tasks = &mut self.list[tenant as usize].tasks;
        *tasks = tasks.strict_add_signed(count);
        if self.requested.limits > 0 {
            self.request_limited(tenant, &need.charged(&need.request), count);
        }
    }

    /// Extends the sums to all tenants; a new tenant starts at zero.
    pub fn make_sums(&mut self) {
        self.requested.sums.resize(self.list.len(), vec![0; self.kinds]);
    }

    fn request_limited(&mut self, tenant: u32, request: &[i64], count: i64) {
        let line: Vec<u32> = self.line(tenant).collect();
        self.make_sums();
        for id in line {
            for (sum, request) in self.requested.sums[id as usize].iter_mut().zip(request) {
                *sum = sum.strict_add_signed(i128::from(*request) * i128::from(count));
            }
        }
    }

    /// Checks whether a tenant may request more tasks. `tasks` has the request of one task and the number of tasks, for
    /// each group.
    pub fn admit<'a>(
        &self,
        kinds: &Kinds,
        tenant: u32,
        tasks: impl Iterator<Item = (&'a Amounts, u32)>,
    ) -> Result<(), Rejection> {
        self.admit_exchange(kinds, tenant, tasks, std::iter::empty())
    }

    /// Checks whether a tenant may request the tasks in `added` once those in `ended` no longer count.
    pub fn admit_exchange<'a>(
        &self,
        kinds: &Kinds,
        tenant: u32,
        added: impl Iterator<Item = (&'a Amounts, u32)>,
        ended: impl Iterator<Item = (&'a Amounts, u32)>,
    ) -> Result<(), Rejection> {
        if self.requested.limits == 0 {
            return Ok(());
        }
        let (mut more, fewer) = (self.sum(added), self.sum(ended));
        more.iter_mut().zip(fewer).for_each(|(more, fewer)| *more = more.saturating_sub(fewer));
        self.line(tenant).try_for_each(|id| self.admits(kinds, id, &more))
    }

    fn sum<'a>(&self, tasks: impl Iterator<Item = (&'a Amounts, u32)>) -> Vec<u128> {
        let mut sum = vec![0; self.kinds];
        for (request, count) in tasks {
            for (kind, amount) in request.iter() {
                sum[kind.index()] += u128::from(amount) * u128::from(count);
            }
        }
        sum
    }

    /// Checks whether one tenant's limit allows an additional amount.
    fn admits(&self, kinds: &Kinds, id: u32, more: &[u128]) -> Result<(), Rejection> {
        let tenant = &self.list[id as usize];
        let Some(limit) = &tenant.admits else { return Ok(()) };
        for (kind, more) in more.iter().enumerate().filter(|(_, more)| **more > 0) {
            let requested = self.requested(id).map_or(0, |sums| sums[kind]) + more;
            let kind = KindId(kind as u8);
            if requested > u128::from(limit.get(kind)) {
                let (tenant, limit) = (tenant.terms.name.clone(), limit.get(kind));
                let requested = requested.try_into().unwrap_or(u64::MAX);
                let name = kinds.get(kind).map_or("", |kind| kind.name.as_str());
                let [would, may] = [requested, limit].map(|amount| kinds.display(kind, amount));
                let detail = format!(
                    "would request {would} {name}: the request limit is \
                     {may}"
                )
                .into();
                return Err(Rejection::NotAdmitted { tenant, kind, requested, limit, detail });
            }
        }
        Ok(())
    }

    /// The amounts that a tenant and all tenants below it request. `None` if no tenant has a request limit; may be
    /// `None` for a tenant without requests.
    pub fn requested(&self, tenant: u32) -> Option<&[u128]> {
        self.requested.sums.get(tenant as usize).map(Vec::as_slice)
    }
}
