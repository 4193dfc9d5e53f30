//! Tenants in a view. A scheduler reads them for fair sharing, to reclaim guarantees, and to check quotas before it
//! searches for a machine.
//!
//! Deltas contain tenants once some tenant of the cell has a configuration or a limit; until then a view has no
//! tenants. The values of deltas are stored unchanged. In addition, the view stores the remainder of each tenant's
//! limit: every decision compares the request with the remainder of the job's tenant and of each tenant above it.
//!
//! Invariant: `left` of a tenant with a limit is the limit, minus the use in the last delta, minus the view's claims
//! that this use does not include, plus the amounts of lifted or evicted tasks. Claims and tasks of all tenants below
//! it count, too. `left` changes together with the columns of free amounts, and each sync counts the claims again.

use crate::delta::Delta;
use crate::index::need::Need;
use crate::policy::TenantTree;
use crate::state::map::FastMap;
use crate::state::tenants::{TenantDelta, TenantTerms};
use omega_core::limits::TENANT_DEPTH_MAX;
use omega_core::{Amounts, Job, KindId, Text};
use smallvec::SmallVec;
use std::sync::Arc;

/// Number of positions that are searched for a tenant, from the expected one on, before its name is looked up.
const NEAR: usize = 8;

/// The number of a tenant in this view, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TenantRef(u32);

#[derive(Debug, Default)]
struct TenantEntry {
    /// Values of the last delta that contained the tenant; `None` if no delta has.
    latest: Option<TenantDelta>,
    parent: Option<TenantRef>,
    /// Remainder of the limit by kind. Kinds beyond the end have 0. Empty if and only if there is no limit.
    left: SmallVec<[i64; 4]>,
    /// Whether claims of the view are counted in `left`.
    touched: bool,
}

impl TenantEntry {
    /// Whether the tenant has a limit, and uses less of some kind in `now` than before.
    fn is_freed_by(&self, now: &TenantDelta) -> bool {
        let Some((latest, _)) = self.limit() else { return false };
        let used = |kind: usize| now.used.get(kind).copied().unwrap_or(0);
        latest.used.iter().enumerate().any(|(kind, before)| used(kind) < *before)
    }

    fn limit(&self) -> Option<(&TenantDelta, &Amounts)> {
        let latest = self.latest.as_ref()?;
        Some((latest, latest.terms.limit.as_ref()?))
    }

    /// Computes the remainder of the limit from the delta's values, without claims of the view.
    fn leave(&mut self) {
        self.touched = false;
        let Some(latest) = &self.latest else { return self.left.clear() };
        let Some(limit) = &latest.terms.limit else { return self.left.clear() };
        let kinds = limit.as_slice().len().max(latest.used.len()).max(1);
        self.left.clear();
        self.left.resize(kinds, 0);
        for (left, most) in self.left.iter_mut().zip(limit.as_slice()) {
            *left = i64::try_from(*most).unwrap_or(i64::MAX);
        }
        for (left, used) in self.left.iter_mut().zip(&latest.used) {
            *left = left.saturating_sub(*used);
        }
    }

    /// Subtracts amounts from the remainder if `sign` is 1, or adds them if it is -1.
    fn take(&mut self, request: &[i64], sign: i64) {
        if self.left.len() < request.len() {
            self.left.resize(request.len(), 0);
        }
        for (left, amount) in self.left.iter_mut().zip(request) {
            *left = left.saturating_sub(sign * amount);
        }
    }

    /// The first kind of which this many tasks claim more than is left.
    fn shortage(&self, need: &Need, tasks: i64) -> Option<usize> {
        let (left, request) = (self.left.as_slice(), need.request.as_slice());
        // A fast test for the usual case: enough of every kind is left.
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

/// The amounts of a task that count against the limits of its tenant and of all tenants above.
#[derive(Clone, Copy)]
pub(super) struct TenantClaim<'a> {
    /// Amounts on the task's machine, by kind.
    pub(super) request: &'a [i64],
    /// Amounts of cluster resources.
    pub(super) of_cell: Option<&'a Amounts>,
}

/// The tenants of a view. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct TenantIndex {
    list: Vec<TenantEntry>,
    by_name: FastMap<Text, TenantRef>,
    /// The number of tenants with a limit.
    limits: usize,
    /// Tenants whose `left` includes claims of the view.
    touched: Vec<TenantRef>,
    /// Whether a sync is in progress. Claims are not counted during a sync.
    syncs: bool,
}

/// A limit that prevents a task from being placed. The cell would reject the task's claim with
/// [`QuotaExceeded`](omega_core::Reason::QuotaExceeded).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaLack {
    /// Tenant that has the limit: the job's own tenant, or one above it.
    pub tenant: Text,
    /// The kind of which the limit leaves too little.
    pub kind: KindId,
    /// Missing amount, in the unit of the kind.
    pub missing: u64,
}

impl TenantIndex {
    /// Stops counting claims until [`TenantIndex::apply`] is called, which computes the remainders without claims.
    /// After that, the view counts its claims again.
    pub(super) fn begin_sync(&mut self) {
        self.syncs = true;
    }

    /// Applies a delta. Returns two values: whether there are new tenants, and how many tenants with a limit use less
    /// of some kind than before.
    pub(super) fn apply(&mut self, delta: &Delta) -> (bool, u64) {
        if delta.full {
            self.list.iter_mut().for_each(|entry| *entry = TenantEntry::default());
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
            let entry = &mut self.list[at];
            freed += u64::from(entry.is_freed_by(tenant));
            match (near, &mut entry.latest) {
                // In nearly all cases only the use has changed.
                (Some(_), Some(latest)) => {
                    latest.used.clone_from(&tenant.used);
                    entry.leave();
                }
                _ => self.update(TenantRef(at as u32), tenant),
            }
        }
        for of in self.touched.drain(..) {
            let entry = &mut self.list[of.0 as usize];
            if entry.touched {
                entry.leave();
            }
        }
        (self.list.len() > before, freed)
    }

    /// The position of a tenant with unchanged settings, searched from the expected position on. `None` if the tenant
    /// is not near that position; the caller then looks up the name. Usually the tenant is near, because the cell and
    /// the view keep tenants in one order.
    fn find_near(&self, next: usize, terms: &Arc<TenantTerms>) -> Option<usize> {
        let same = |entry: &TenantEntry| {
            entry.latest.as_ref().is_some_and(|latest| Arc::ptr_eq(&latest.terms, terms))
        };
        self.list.iter().skip(next).take(NEAR).position(same).map(|further| next + further)
    }

    fn update(&mut self, of: TenantRef, tenant: &TenantDelta) {
        let parent = tenant.terms.tenant_config.parent.as_ref().map(|parent| self.intern(parent));
        let entry = &mut self.list[of.0 as usize];
        self.limits -= usize::from(entry.limit().is_some());
        entry.parent = parent;
        entry.latest = Some(tenant.clone());
        self.limits += usize::from(entry.limit().is_some());
        entry.leave();
    }

    fn intern(&mut self, name: &Text) -> TenantRef {
        if let Some(entry) = self.by_name.get(name) {
            return *entry;
        }
        let next = TenantRef(self.list.len() as u32);
        self.list.push(TenantEntry::default());
        self.by_name.insert(name.clone(), next);
        next
    }

    /// The number of a tenant; `None` if no delta has contained it.
    pub(super) fn find(&self, name: &str) -> Option<TenantRef> {
        if self.by_name.is_empty() { None } else { self.by_name.get(name).copied() }
    }

    /// A tenant and all tenants above it, from the bottom up.
    fn line(&self, of: Option<TenantRef>) -> impl Iterator<Item = &TenantEntry> {
        let entry = |of: TenantRef| &self.list[of.0 as usize];
        let up = std::iter::successors(of.map(entry), move |below| below.parent.map(entry));
        up.take(TENANT_DEPTH_MAX)
    }

    /// Whether some tenant has a limit. If not, nothing is counted.
    #[inline]
    pub(super) fn limited(&self) -> bool {
        self.limits > 0
    }

    /// If `sign` is 1, subtracts a task's claim (on its machine and on cluster resources) from the remainders of its
    /// tenant and of each tenant above; if it is -1, adds the claim back.
    #[inline]
    pub(super) fn count(&mut self, of: Option<TenantRef>, claim: TenantClaim<'_>, sign: i64) {
        if self.limited() && !self.syncs {
            self.count_line(of, claim, sign);
        }
    }

    fn count_line(
        &mut self,
        mut of: Option<TenantRef>,
        TenantClaim { request, of_cell }: TenantClaim<'_>,
        sign: i64,
    ) {
        let of_cell = of_cell.into_iter().flat_map(Amounts::as_slice);
        let of_cell: SmallVec<[i64; 8]> = of_cell.map(|amount| *amount as i64).collect();
        for _ in 0..TENANT_DEPTH_MAX {
            let Some(at) = of else { return };
            let entry = &mut self.list[at.0 as usize];
            of = entry.parent;
            if entry.left.is_empty() {
                continue;
            }
            if !std::mem::replace(&mut entry.touched, true) {
                self.touched.push(at);
            }
            entry.take(request, sign);
            entry.take(&of_cell, sign);
        }
    }

    /// Every tenant that a delta has contained, in no particular order.
    pub(super) fn all(&self) -> impl Iterator<Item = &TenantDelta> {
        self.list.iter().filter_map(|entry| entry.latest.as_ref())
    }

    /// A tenant and all tenants above it, from the bottom up, as far as deltas have contained them.
    pub(super) fn line_of_name(&self, name: &str) -> impl Iterator<Item = &TenantDelta> {
        self.line(self.find(name)).filter_map(|entry| entry.latest.as_ref())
    }

    /// Returns how many tasks, at most `tasks`, fit into the limits of a tenant and of all tenants above it.
    pub(super) fn room(&self, of: Option<TenantRef>, need: &Need, tasks: usize) -> usize {
        let mut room = tasks;
        while room > 0 {
            let Some(shortage) = self.first_short(of, need, room) else { break };
            room = usize::try_from(shortage.left / shortage.claimed).unwrap_or(0).min(room - 1);
        }
        room
    }

    /// The first limit, from the tenant up, that leaves too little for one more task.
    pub(super) fn lack(&self, of: Option<TenantRef>, need: &Need) -> Option<QuotaLack> {
        let shortage = self.first_short(of, need, 1)?;
        let missing = shortage.claimed.saturating_sub(shortage.left).unsigned_abs();
        Some(QuotaLack { tenant: shortage.latest.terms.name.clone(), kind: shortage.kind, missing })
    }

    /// The first limit, from the tenant up, that leaves too little for this many tasks. `None` if every limit leaves
    /// enough.
    fn first_short(
        &self,
        of: Option<TenantRef>,
        need: &Need,
        tasks: usize,
    ) -> Option<Shortage<'_>> {
        let of = of.filter(|_| self.limited());
        let tasks = i64::try_from(tasks).unwrap_or(i64::MAX);
        for entry in self.line(of).filter(|entry| !entry.left.is_empty()) {
            if let Some(kind) = entry.shortage(need, tasks) {
                let latest = entry.latest.as_ref()?;
                let (left, claimed) = (entry.left_of(kind), claimed(need, kind));
                return Some(Shortage { latest, kind: KindId(kind as u8), left, claimed });
            }
        }
        None
    }
}

impl TenantTree for TenantIndex {
    fn line_of<'a>(&'a self, job: &'a Job) -> SmallVec<[&'a Text; 4]> {
        let latest = self.line(self.find(&job.tenant)).filter_map(|entry| entry.latest.as_ref());
        let above = latest.map(|tenant| &tenant.terms.name).filter(|name| **name != job.tenant);
        std::iter::once(&job.tenant).chain(above).collect()
    }
}

/// A limit that leaves too little.
struct Shortage<'a> {
    latest: &'a TenantDelta,
    kind: KindId,
    left: i64,
    /// Amount that one task claims.
    claimed: i64,
}

/// The amount of a kind that a task claims, from its machine and from cluster resources together.
#[inline]
fn claimed(need: &Need, kind: usize) -> i64 {
    let of_cell = need.cluster_request.as_ref().map(|request| request.get(KindId(kind as u8)));
    need.request[kind] + of_cell.map_or(0, |amount| amount as i64)
}
