//! The tree of tenants: their use, limits and guarantees.
//!
//! A tenant's use counts for itself and for every tenant above it (see [`TenantConfig`]). So a claim is checked by one
//! comparison for its tenant, and one for each tenant above.
//!
//! 1. A tenant's `used` is the sum of the claims of its own tasks and of the tasks of all tenants below it.
//! 2. The tree has no cycle and at most [`TENANT_DEPTH_MAX`] levels.
//! 3. A tenant records the version of its last change, so that deltas include it.

use crate::commands::bounds::at_most;
use crate::policy::TenantTree;
use crate::state::allocation_overrides::Values;
use crate::state::map::FastMap;
use omega_core::limits::{TENANT_DEPTH_MAX, TENANTS_MAX};
use omega_core::{Amounts, Job, KindId, Reason, Rejection, TenantConfig, Text, Version};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// An operator's settings for a tenant. Deltas share them by reference, because they rarely change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TenantTerms {
    /// Name of the tenant.
    pub name: Text,
    /// Configuration of the tenant.
    pub tenant_config: TenantConfig,
    /// Limit of the tenant: the most that its tasks and those of all tenants below it may claim.
    pub limit: Option<Amounts>,
}

/// A tenant and the amounts that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantDelta {
    /// Name and settings of the tenant.
    pub terms: Arc<TenantTerms>,
    /// Amounts that the tasks of the tenant and of all tenants below it claim, by kind.
    pub used: SmallVec<[i64; 4]>,
}

/// The requested amounts of all tenants, kept while some tenant has a request limit.
#[derive(Clone, Debug, Default)]
pub struct Requested {
    /// The number of tenants with a request limit.
    pub limits: usize,
    /// Requested amounts, by tenant and kind; empty while no tenant has a limit.
    pub sums: Vec<Vec<u128>>,
}

/// The state of a tenant. The fields that each claim changes share one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Tenant {
    pub used: Values,
    /// The version of the tenant's last change. It may be one version too high, and then deltas repeat the tenant.
    changed: Version,
    parent: Option<u32>,
    pub terms: Arc<TenantTerms>,
    /// Number of unfinished tasks of the tenant's own jobs.
    pub tasks: u64,
    /// Number of bytes of the tenant's own jobs and their tasks, including ended ones.
    pub bytes: u64,
    /// Request limit of the tenant, if any; see `admission.rs`.
    pub admits: Option<Amounts>,
}

/// A tenant whose claims need evictions.
#[derive(Clone, Copy, Debug)]
pub struct Claimant {
    pub tenant: u32,
    /// One bit for each kind that the tenant claims.
    pub kinds: u32,
}

/// A task to be evicted.
#[derive(Clone, Copy, Debug)]
pub struct Borrower<'a> {
    pub tenant: u32,
    /// Allocation of the task, by kind.
    pub request: &'a [i64],
    /// Whether the use of the task's tenant still includes the task.
    pub counted: bool,
}

/// All tenants that were ever named. The field that changes with each version comes first, for the reason given at
/// [`crate::Cell`].
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Tenants {
    /// The version that changes of tenants get now.
    next: Version,
    pub kinds: usize,
    pub list: Vec<Tenant>,
    pub requested: Requested,
    by_name: FastMap<Text, u32>,
    /// Whether any tenant was ever configured or limited. Until then, deltas leave tenants out, so that a cell without
    /// such tenants does not pay for them.
    in_deltas: bool,
    /// Whether any tenant was ever configured.
    configured: bool,
}

impl Tenants {
    pub fn new(kinds: usize) -> Tenants {
        Tenants {
            kinds,
            list: Vec::new(),
            requested: Requested::default(),
            by_name: FastMap::default(),
            next: Version(1),
            in_deltas: false,
            configured: false,
        }
    }

    /// Checks that the cell may have these tenants, of which some may be new.
    pub fn check_count<'a>(
        &self,
        names: impl IntoIterator<Item = &'a Text>,
    ) -> Result<(), Rejection> {
        let mut new: SmallVec<[&Text; 2]> = SmallVec::new();
        for name in names {
            if self.id(name).is_none() && !new.contains(&name) {
                new.push(name);
            }
        }
        match new.len() {
            0 => Ok(()),
            new => at_most("tenants", self.list.len() + new, TENANTS_MAX),
        }
    }

    /// The number of a tenant. A tenant that was never named gets a new number. The caller has checked the number of
    /// tenants with [`Tenants::check_count`].
    pub fn intern(&mut self, name: &Text) -> u32 {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.list.len() as u32;
        self.list.push(Tenant {
            terms: Arc::new(TenantTerms { name: name.clone(), ..TenantTerms::default() }),
            used: smallvec![0; self.kinds],
            tasks: 0,
            bytes: 0,
            admits: None,
            parent: None,
            changed: self.next,
        });
        self.by_name.insert(name.clone(), id);
        id
    }

    /// The name of a tenant.
    pub fn name(&self, tenant: u32) -> &Text {
        &self.list[tenant as usize].terms.name
    }

    /// The number of a tenant, if it was ever named.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub fn get(&self, name: &str) -> Option<&Tenant> {
        self.by_name.get(name).map(|id| &self.list[*id as usize])
    }

    pub fn iter(&self) -> impl Iterator<Item = &Tenant> {
        self.list.iter()
    }

    /// Records that a version has started. Later changes get the version after it, until the next call.
    #[inline]
    pub fn begin(&mut self, version: Version) {
        self.next = version.next();
    }

    /// The names of a tenant and of all tenants above it, from the bottom up.
    pub fn line_names(&self, tenant: u32) -> impl Iterator<Item = &Text> {
        self.line(tenant).map(|id| &self.list[id as usize].terms.name)
    }

    /// The tenants that changed since a version, if deltas include tenants.
    pub fn changed_since(&self, since: Version) -> impl Iterator<Item = &Tenant> {
        let list: &[Tenant] = if self.in_deltas { &self.list } else { &[] };
        list.iter().filter(move |tenant| tenant.changed > since)
    }

    /// All tenants. Empty if deltas do not include tenants, or if no tenant is configured or limited at present.
    pub fn all_in_deltas(&self) -> &[Tenant] {
        let bound = |tenant: &Tenant| tenant.terms.limit.is_some() || tenant.has_tenant_config();
        if self.in_deltas && self.list.iter().any(bound) { &self.list } else { &[] }
    }

    /// Makes all later deltas include tenants.
    fn include_in_deltas(&mut self) {
        if !std::mem::replace(&mut self.in_deltas, true) {
            self.list.iter_mut().for_each(|tenant| tenant.changed = self.next);
        }
    }

    /// Whether any tenant may have a guarantee.
    #[inline]
    pub fn may_guarantee(&self) -> bool {
        self.configured
    }

    /// A tenant and all tenants above it, from the bottom up.
    pub fn line(&self, tenant: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(tenant), |id| self.list[*id as usize].parent)
    }

    /// Sets or removes a limit. Existing claims stay even if they exceed it.
    pub fn set_limit(&mut self, name: &Text, limit: Option<Amounts>) {
        let id = self.intern(name) as usize;
        if limit.is_some() {
            self.include_in_deltas();
        }
        Arc::make_mut(&mut self.list[id].terms).limit = limit;
        self.list[id].changed = self.next;
    }

    /// Configures a tenant. If there is an error, nothing changes.
    ///
    /// # Errors
    /// The tree would have a cycle or be too deep, or a sum would exceed 64 bits.
    pub fn set_tenant(
        &mut self,
        name: &Text,
        tenant_config: TenantConfig,
    ) -> Result<(), Rejection> {
        self.check_parent(name, tenant_config.parent.as_ref())?;
        if let Some(id) = self.id(name) {
            self.check_sums(id, tenant_config.parent.as_ref())?;
        }
        let id = self.intern(name);
        let used = self.list[id as usize].used.clone();
        let parent = tenant_config.parent.as_ref().map(|parent| self.intern(parent));
        if let Some(before) = self.list[id as usize].parent {
            self.count(before, &used, -1);
        }
        if let Some(parent) = parent {
            self.count(parent, &used, 1);
        }
        let tenant = &mut self.list[id as usize];
        Arc::make_mut(&mut tenant.terms).tenant_config = tenant_config;
        (tenant.parent, tenant.changed) = (parent, self.next);
        self.configured = true;
        self.include_in_deltas();
        Ok(())
    }

    /// Checks that the sums stay within 64 bits if a tenant moves below another parent.
    fn check_sums(&mut self, id: u32, parent: Option<&Text>) -> Result<(), Rejection> {
        let Some(parent) = parent.and_then(|parent| self.id(parent)) else { return Ok(()) };
        let used = self.list[id as usize].used.clone();
        let before = self.list[id as usize].parent;
        before.into_iter().for_each(|before| self.count(before, &used, -1));
        let fits = self.can_count(parent, &used);
        before.into_iter().for_each(|before| self.count(before, &used, 1));
        let name = &self.list[id as usize].terms.name;
        if fits {
            Ok(())
        } else {
            Err(bad(format!(
                "the usage of tenant {name:?} and that of its new parent together exceed 64 bits: \
                 choose another parent"
            )))
        }
    }

    /// Checks that moving a tenant below this parent causes neither a cycle nor too many levels.
    fn check_parent(&self, name: &Text, parent: Option<&Text>) -> Result<(), Rejection> {
        let Some(parent) = parent else { return Ok(()) };
        let known = self.id(name);
        let above: Vec<u32> =
            self.id(parent).map_or(Vec::new(), |parent| self.line(parent).collect());
        if name == parent || known.is_some_and(|id| above.contains(&id)) {
            return Err(bad(format!(
                "{parent:?} cannot be the parent of {name:?}: it is the same tenant or below it"
            )));
        }
        let height = known.map_or(1, |id| self.height(id));
        if above.len().max(1) + height > TENANT_DEPTH_MAX {
            let what = format!(
                "{parent:?} cannot be the parent: the tree of tenants would have more than \
                 {TENANT_DEPTH_MAX} levels"
            );
            return Err(bad(what));
        }
        Ok(())
    }

    /// The number of levels of the tree from this tenant down.
    fn height(&self, tenant: u32) -> usize {
        let below = (0..self.list.len() as u32).filter_map(|other| {
            self.line(other).position(|above| above == tenant).map(|steps| steps + 1)
        });
        below.max().unwrap_or(1)
    }

    /// Whether the tenant or one above it has a limit.
    pub fn is_limited(&self, tenant: u32) -> bool {
        self.line(tenant).any(|id| self.list[id as usize].terms.limit.is_some())
    }

    /// Whether the sums stay within 64 bits with this claim.
    pub fn can_count(&self, tenant: u32, request: &[i64]) -> bool {
        let fits = |id: u32| {
            let used = self.list[id as usize].used.iter();
            used.zip(request).all(|(used, request)| used.checked_add(*request).is_some())
        };
        self.line(tenant).all(fits)
    }

    /// Adds a claim of a tenant if `sign` is 1, or subtracts it if it is -1.
    ///
    /// A sum beyond 64 bits wraps. Only tasks on more than 8,000 of the largest possible machines reach such a sum. It is
    /// right again after some of them have ended.
    pub fn count(&mut self, tenant: u32, request: &[i64], sign: i64) {
        let mut at = Some(tenant);
        while let Some(id) = at {
            let tenant = &mut self.list[id as usize];
            for (used, request) in tenant.used.iter_mut().zip(request) {
                *used = used.wrapping_add(sign * request);
            }
            tenant.changed = self.next;
            at = tenant.parent;
        }
    }

    /// Whether `claimant` may evict a task of another tenant to get back its guarantee. The claimant's own claims must
    /// already be counted.
    ///
    /// The branches of both tenants below their nearest common ancestor are compared. The claimant's branch must be
    /// within its guarantee. The victim's branch, with the task counted, must exceed its own guarantee.
    pub fn may_reclaim(&self, claimant: Claimant, victim: &Borrower<'_>) -> bool {
        let Some((ours, theirs)) = self.branches(claimant.tenant, victim.tenant) else {
            return false;
        };
        let (ours, theirs) = (&self.list[ours as usize], &self.list[theirs as usize]);
        let requested = |kind: &usize| claimant.kinds >> kind & 1 == 1;
        let guaranteed = |tenant: &Tenant, kind: usize| {
            tenant.terms.tenant_config.guaranteed.get(KindId(kind as u8)) as i64
        };
        let mut kinds = (0..self.kinds).filter(requested);
        let within = kinds.clone().all(|kind| ours.used[kind] <= guaranteed(ours, kind));
        let borrowed = |kind: usize| {
            let request = victim.request[kind];
            let with_it =
                theirs.used[kind].saturating_add(if victim.counted { 0 } else { request });
            request > 0 && with_it > guaranteed(theirs, kind)
        };
        within && kinds.any(borrowed)
    }

    /// The branches of two tenants below their nearest common ancestor; `None` if one tenant is above the other.
    fn branches(&self, one: u32, other: u32) -> Option<(u32, u32)> {
        let mut down: Vec<u32> = self.line(one).collect();
        let mut down_other: Vec<u32> = self.line(other).collect();
        down.reverse();
        down_other.reverse();
        let mut pairs = down.into_iter().zip(down_other);
        pairs.find(|(one, other)| one != other)
    }
}

impl Tenant {
    /// Whether the tenant's configuration differs from the default.
    pub fn has_tenant_config(&self) -> bool {
        self.terms.tenant_config != TenantConfig::default()
    }

    fn check_limit(&self, request: &[i64]) -> Result<(), Reason> {
        let Some(limit) = &self.terms.limit else { return Ok(()) };
        for (kind, (used, request)) in self.used.iter().zip(request).enumerate() {
            let kind = KindId(kind as u8);
            if *request > 0 && used.saturating_add(*request) > limit.get(kind) as i64 {
                return Err(Reason::QuotaExceeded(kind));
            }
        }
        Ok(())
    }
}

impl TenantTree for Tenants {
    fn line_of<'a>(&'a self, job: &'a Job) -> SmallVec<[&'a Text; 4]> {
        match self.id(&job.tenant) {
            Some(tenant) => self.line_names(tenant).collect(),
            None => smallvec![&job.tenant],
        }
    }

    fn check_limits(&self, tenant: u32, more: &[i64]) -> Result<(), Reason> {
        self.line(tenant).try_for_each(|id| self.list[id as usize].check_limit(more))
    }
}

fn bad(what: String) -> Rejection {
    Rejection::BadTenant(what.into())
}
