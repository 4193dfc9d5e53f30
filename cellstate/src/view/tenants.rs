//! The tenants: for schedulers that share fairly or have what was lent given back, and so that nobody places what
//! the cell would refuse for a quota.
//!
//! They come with deltas, once some tenant of the cell has a standing or a limit; before that a view knows of none.
//! What the cell told stays as it was told. Beside it stands, for each tenant with a limit, what that limit leaves: every
//! decision compares it on each level, so it is at hand and not worked out.
//!
//! Invariant: `left` of a tenant with a limit is its limit, without what the cell told that it uses, and without what the
//! claims of the view that are not in that take for it and all below it, less what is lifted or evicted. It moves where
//! the columns of free amounts do, and each sync counts the claims anew.

use super::{GroupRef, View};
use crate::delta::{Delta, TenantDelta, TenantTerms};
use crate::facts::Need;
use crate::map::FastMap;
use crate::policy::TenantTree;
use omega_core::limits::TENANT_DEPTH_MAX;
use omega_core::{Amounts, Job, JobId, KindId, Precedence, Text};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far from where it is expected a tenant is looked for before its name is.
const NEAR: usize = 8;

/// A tenant by its number in this view, which it keeps for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TenantRef(u32);

#[derive(Debug, Default)]
struct Known {
    /// What the cell told, if it told of it.
    told: Option<TenantDelta>,
    parent: Option<TenantRef>,
    /// Of each kind, what its limit leaves; empty without a limit, and only then. What is not there is 0.
    left: SmallVec<[i64; 4]>,
    /// Whether claims of the view are counted in `left`.
    touched: bool,
}

impl Known {
    /// Whether it has a limit, and uses less of some kind by this.
    fn is_freed_by(&self, now: &TenantDelta) -> bool {
        let Some((told, _)) = self.limit() else { return false };
        let used = |kind: usize| now.used.get(kind).copied().unwrap_or(0);
        told.used.iter().enumerate().any(|(kind, before)| used(kind) < *before)
    }

    fn limit(&self) -> Option<(&TenantDelta, &Amounts)> {
        let told = self.told.as_ref()?;
        Some((told, told.terms.limit.as_ref()?))
    }

    /// Works out what the limit leaves by what was told, without claims of the view.
    fn leave(&mut self) {
        self.touched = false;
        let Some(told) = &self.told else { return self.left.clear() };
        let Some(limit) = &told.terms.limit else { return self.left.clear() };
        let kinds = limit.as_slice().len().max(told.used.len()).max(1);
        self.left.clear();
        self.left.resize(kinds, 0);
        for (left, most) in self.left.iter_mut().zip(limit.as_slice()) {
            *left = i64::try_from(*most).unwrap_or(i64::MAX);
        }
        for (left, used) in self.left.iter_mut().zip(&told.used) {
            *left = left.saturating_sub(*used);
        }
    }

    /// Takes amounts of what is left, or with `sign` -1 gives them back.
    fn take(&mut self, request: &[i64], sign: i64) {
        if self.left.len() < request.len() {
            self.left.resize(request.len(), 0);
        }
        for (left, amount) in self.left.iter_mut().zip(request) {
            *left = left.saturating_sub(sign * amount);
        }
    }

    /// The first kind of which less is left than so many tasks claim.
    fn short(&self, need: &Need, tasks: i64) -> Option<usize> {
        let (left, request) = (self.left.as_slice(), need.request.as_slice());
        // As a rule it is of none, and the machine alone has to give.
        let fits = |(left, claimed): (&i64, &i64)| claimed.saturating_mul(tasks) <= (*left).max(0);
        let as_a_rule = need.cluster_request.is_none() && left.len() >= request.len();
        if as_a_rule && left.iter().zip(request).all(fits) {
            return None;
        }
        (0..request.len()).find(|kind| {
            let claimed = claimed(need, *kind);
            claimed > 0 && claimed.saturating_mul(tasks) > self.left_of(*kind)
        })
    }

    fn left_of(&self, kind: usize) -> i64 {
        self.left.get(kind).copied().unwrap_or(0)
    }
}

/// See the head of the file.
#[derive(Debug, Default)]
pub(super) struct KnownTenants {
    list: Vec<Known>,
    by_name: FastMap<Text, TenantRef>,
    /// How many tenants have a limit.
    limits: usize,
    /// Those in whose `left` claims of the view are counted.
    touched: Vec<TenantRef>,
    /// Whether a sync is under way, and claims are off the view.
    syncs: bool,
}

/// What a tenant lacks for a task to be placed: the cell would refuse it with
/// [`QuotaExceeded`](omega_core::Reason::QuotaExceeded).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaLack {
    /// Whose limit it is: the tenant's own, or that of one above it.
    pub tenant: Text,
    /// Of which kind there is too little.
    pub kind: KindId,
    /// How much more the task claims than is left, in the kind's unit.
    pub missing: u64,
}

impl KnownTenants {
    /// Leaves all claims aside until [`KnownTenants::apply`]: they are counted anew after it.
    pub(super) fn begin_sync(&mut self) {
        self.syncs = true;
    }

    /// Takes in what a delta tells. The answer is whether there are tenants that were not known before, and how many
    /// with a limit use less of some kind than before.
    pub(super) fn apply(&mut self, delta: &Delta) -> (bool, u64) {
        if delta.full {
            self.list.iter_mut().for_each(|known| *known = Known::default());
            self.limits = 0;
            self.touched.clear();
        }
        self.syncs = false;
        let before = self.list.len();
        let mut freed = 0;
        let mut next = 0;
        for tenant in &delta.tenants {
            let near = self.find_near(next, &tenant.terms);
            let at = near.unwrap_or_else(|| self.intern(&tenant.terms.name).0 as usize);
            next = at + 1;
            let known = &mut self.list[at];
            freed += u64::from(known.is_freed_by(tenant));
            match (near, &mut known.told) {
                // Nearly always it is only what they use that changed.
                (Some(_), Some(told)) => {
                    told.used.clone_from(&tenant.used);
                    known.leave();
                }
                _ => self.tell(TenantRef(at as u32), tenant),
            }
        }
        for of in self.touched.drain(..) {
            let known = &mut self.list[of.0 as usize];
            if known.touched {
                known.leave();
            }
        }
        (self.list.len() > before, freed)
    }

    /// The place of a tenant of which nothing changed but what it uses, if it is near where it is expected: both the
    /// cell and the view have tenants in the order in which they came, and a name is looked for where that does
    /// not help.
    fn find_near(&self, next: usize, terms: &Arc<TenantTerms>) -> Option<usize> {
        let same =
            |known: &Known| known.told.as_ref().is_some_and(|told| Arc::ptr_eq(&told.terms, terms));
        self.list.iter().skip(next).take(NEAR).position(same).map(|further| next + further)
    }

    fn tell(&mut self, of: TenantRef, tenant: &TenantDelta) {
        let parent = tenant.terms.tenant_config.parent.as_ref().map(|parent| self.intern(parent));
        let known = &mut self.list[of.0 as usize];
        self.limits -= usize::from(known.limit().is_some());
        known.parent = parent;
        known.told = Some(tenant.clone());
        self.limits += usize::from(known.limit().is_some());
        known.leave();
    }

    fn intern(&mut self, name: &Text) -> TenantRef {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let next = TenantRef(self.list.len() as u32);
        self.list.push(Known::default());
        self.by_name.insert(name.clone(), next);
        next
    }

    /// The number of a tenant that a delta named.
    pub(super) fn find(&self, name: &str) -> Option<TenantRef> {
        if self.by_name.is_empty() { None } else { self.by_name.get(name).copied() }
    }

    /// A tenant and those above it, from it up.
    fn line(&self, of: Option<TenantRef>) -> impl Iterator<Item = &Known> {
        let known = |of: TenantRef| &self.list[of.0 as usize];
        let up = std::iter::successors(of.map(known), move |below| below.parent.map(known));
        up.take(TENANT_DEPTH_MAX)
    }

    /// Whether some tenant has a limit: if not, nothing is counted.
    #[inline]
    pub(super) fn limited(&self) -> bool {
        self.limits > 0
    }

    /// Counts what a task claims, of its machine and of the cell as a whole, or with `sign` -1 what it gives back.
    #[inline]
    pub(super) fn count(
        &mut self,
        of: Option<TenantRef>,
        (request, of_cell): (&[i64], Option<&Amounts>),
        sign: i64,
    ) {
        if self.limited() && !self.syncs {
            self.count_line(of, (request, of_cell), sign);
        }
    }

    fn count_line(
        &mut self,
        mut of: Option<TenantRef>,
        (request, of_cell): (&[i64], Option<&Amounts>),
        sign: i64,
    ) {
        let of_cell = of_cell.into_iter().flat_map(Amounts::as_slice);
        let of_cell: SmallVec<[i64; 8]> = of_cell.map(|amount| *amount as i64).collect();
        for _ in 0..TENANT_DEPTH_MAX {
            let Some(at) = of else { return };
            let known = &mut self.list[at.0 as usize];
            of = known.parent;
            if known.left.is_empty() {
                continue;
            }
            if !std::mem::replace(&mut known.touched, true) {
                self.touched.push(at);
            }
            known.take(request, sign);
            known.take(&of_cell, sign);
        }
    }

    /// The first limit for a tenant that leaves less than so many tasks claim, from the tenant up, with how many it
    /// leaves room for.
    fn first_short(&self, of: Option<TenantRef>, need: &Need, tasks: usize) -> Option<Short<'_>> {
        let of = of.filter(|_| self.limited());
        let tasks = i64::try_from(tasks).unwrap_or(i64::MAX);
        for known in self.line(of).filter(|known| !known.left.is_empty()) {
            if let Some(kind) = known.short(need, tasks) {
                let told = known.told.as_ref()?;
                let (left, claimed) = (known.left_of(kind), claimed(need, kind));
                return Some(Short { told, kind: KindId(kind as u8), left, claimed });
            }
        }
        None
    }
}

impl TenantTree for KnownTenants {
    fn line_of<'a>(&'a self, job: &'a Job) -> SmallVec<[&'a Text; 4]> {
        let told = self.line(self.find(&job.tenant)).filter_map(|known| known.told.as_ref());
        let above = told.map(|tenant| &tenant.terms.name).filter(|name| **name != job.tenant);
        std::iter::once(&job.tenant).chain(above).collect()
    }
}

/// A limit that leaves too little.
struct Short<'a> {
    told: &'a TenantDelta,
    kind: KindId,
    left: i64,
    /// What one task claims.
    claimed: i64,
}

/// What a task claims of a kind, of its machine and of the cell as a whole.
#[inline]
fn claimed(need: &Need, kind: usize) -> i64 {
    let of_cell = need.cluster_request.as_ref().map(|request| request.get(KindId(kind as u8)));
    need.request[kind] + of_cell.map_or(0, |amount| amount as i64)
}

impl View {
    /// Every tenant, by name; none as long as no tenant of the cell has a standing or a limit.
    pub fn tenants(&self) -> impl Iterator<Item = &TenantDelta> {
        let told = self.tenants.list.iter().filter_map(|known| known.told.as_ref());
        let mut told: Vec<&TenantDelta> = told.collect();
        told.sort_unstable_by_key(|tenant| &tenant.terms.name);
        told.into_iter()
    }

    /// A tenant and those above it, from the top down; empty if the view does not know it.
    #[must_use]
    pub fn tenant_line(&self, name: &str) -> SmallVec<[&TenantDelta; 4]> {
        let line = self.tenants.line(self.tenants.find(name));
        let mut line: SmallVec<[&TenantDelta; 4]> = line.filter_map(|k| k.told.as_ref()).collect();
        line.reverse();
        line
    }

    /// Where the lines of two tenants part: the highest of each that is not in the other's. `None` if one
    /// line is part of the other. What may be reclaimed is decided there.
    #[must_use]
    pub fn parting(&self, one: &str, other: &str) -> Option<(&TenantDelta, &TenantDelta)> {
        let (one, other) = (self.tenant_line(one), self.tenant_line(other));
        one.into_iter().zip(other).find(|(one, other)| one.terms.name != other.terms.name)
    }

    /// Of so many tasks of a group, how many its tenant may still have placed, by its limit and those of the tenants
    /// above it. What this view claims counts.
    #[must_use]
    pub fn quota_room(&self, group: GroupRef, tasks: usize) -> usize {
        if !self.tenants.limited() {
            return tasks;
        }
        let compiled = self.compiled(group);
        let mut room = tasks;
        while room > 0 {
            let short = self.tenants.first_short(compiled.tenant, &compiled.need, room);
            let Some(short) = short else { break };
            room = usize::try_from(short.left / short.claimed).unwrap_or(0).min(room - 1);
        }
        room
    }

    /// The first limit that keeps a group's tenant from having one more task placed, from the tenant up.
    #[must_use]
    pub fn quota_lack(&self, group: GroupRef) -> Option<QuotaLack> {
        let compiled = self.compiled(group);
        let short = self.tenants.first_short(compiled.tenant, &compiled.need, 1)?;
        let missing = short.claimed.saturating_sub(short.left).unsigned_abs();
        Some(QuotaLack { tenant: short.told.terms.name.clone(), kind: short.kind, missing })
    }

    /// Whether a job with placed tasks counts for the limit of a tenant: it is that one's, or of one below it. The
    /// view must keep placements.
    #[must_use]
    pub fn is_below(&self, job: JobId, tenant: &str) -> bool {
        let Some(job) = self.placed_job(job) else { return false };
        let mut line = self.tenants.line(self.tenants.find(&job.tenant));
        line.any(|known| known.told.as_ref().is_some_and(|told| *told.terms.name == *tenant))
    }

    /// Whether tasks below a precedence run that count for the limit of a tenant. The view must keep placements.
    #[must_use]
    pub fn any_lower_below(&self, precedence: Precedence, tenant: &str) -> bool {
        let mut lower = self.placed_jobs().filter(|(_, job)| job.precedence < precedence);
        lower.any(|(id, _)| self.is_below(id, tenant))
    }

    /// What own claims take of each kind that the view's tenants do not show yet, by the tenant that pays. What their
    /// victims give back is taken off it.
    #[must_use]
    pub fn own_use(&self) -> BTreeMap<Text, Vec<i64>> {
        let mut own = BTreeMap::new();
        let mut count = |tenant: &Text, amounts: &mut dyn Iterator<Item = i64>| {
            let kinds = || vec![0; self.kinds.count()];
            let sums: &mut Vec<i64> = own.entry(tenant.clone()).or_insert_with(kinds);
            sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        };
        for (job, request) in self.own_requests() {
            count(&job.tenant, &mut request.iter().copied());
        }
        for victim in self.evicted() {
            let (Some(job), Some(held)) = (self.job_of(victim.id), self.held_by(victim)) else {
                continue;
            };
            count(&job.tenant, &mut held.as_slice().iter().map(|amount| -(*amount as i64)));
        }
        own
    }

    /// Finds anew which tenant pays for each compiled group.
    pub(super) fn find_tenants(&mut self) {
        for group in self.groups.iter_mut().flatten() {
            group.tenant = self.tenants.find(&group.job.tenant);
        }
    }
}
