//! Who pays: what the tasks of each tenant claim together, how much they may, and what they get back.
//!
//! Tenants form a tree (see [`TenantConfig`]). What a tenant uses counts for it and for everyone above it, so
//! that a limit is one comparison on each level, from the tenant up:
//!
//! 1. `used` of a tenant is what its own tasks claim, and those of all tenants below it;
//! 2. parents form no ring, and at most [`TENANT_DEPTH_MAX`] tenants stand one below the other;
//! 3. a tenant that was changed in a version says so, so that views hear of it.

use crate::admission::Asked;
use crate::delta::TenantTerms;
use crate::map::FastMap;
use crate::policy::TenantTree;
use omega_core::limits::TENANT_DEPTH_MAX;
use omega_core::{Amounts, Job, KindId, Reason, Rejection, TenantConfig, Text, Version};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// What a tenant has and may have.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) terms: Arc<TenantTerms>,
    pub(crate) used: Vec<i64>,
    /// How many of its own tasks have not ended.
    pub(crate) tasks: u64,
    /// What its jobs may ask for, if that is limited; see `admission.rs`.
    pub(crate) admits: Option<Amounts>,
    parent: Option<u32>,
    /// The version that changes it made last, or the one after it.
    changed: Version,
}

/// Claims of a tenant that would have others make room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant {
    pub(crate) tenant: u32,
    /// A bit for each kind of which it claims something.
    pub(crate) kinds: u32,
}

/// A task that is to make room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Borrower<'a> {
    pub(crate) tenant: u32,
    /// What it claims of each kind.
    pub(crate) request: &'a [i64],
    /// Whether what its tenant uses has it in it.
    pub(crate) counted: bool,
}

/// All tenants that ever had a job, a quota or a standing.
#[derive(Clone, Debug)]
pub(crate) struct Tenants {
    pub(crate) kinds: usize,
    pub(crate) list: Vec<Tenant>,
    pub(crate) asked: Asked,
    by_name: FastMap<Text, u32>,
    /// The version that the next change belongs to.
    next: Version,
    /// Whether a standing or a limit was ever set: from then on views are told of all tenants. A cell without any
    /// does not pay for them.
    told: bool,
    /// Whether a standing was ever set.
    stands: bool,
}

impl Tenants {
    pub(crate) fn new(kinds: usize) -> Tenants {
        Tenants {
            kinds,
            list: Vec::new(),
            asked: Asked::default(),
            by_name: FastMap::default(),
            next: Version(1),
            told: false,
            stands: false,
        }
    }

    /// The number of a tenant, given when it is first named.
    pub(crate) fn intern(&mut self, name: &Text) -> u32 {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.list.len() as u32;
        self.list.push(Tenant {
            terms: Arc::new(TenantTerms { name: name.clone(), ..TenantTerms::default() }),
            used: vec![0; self.kinds],
            tasks: 0,
            admits: None,
            parent: None,
            changed: self.next,
        });
        self.by_name.insert(name.clone(), id);
        id
    }

    /// The number of a tenant that was named before.
    pub(crate) fn id(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Tenant> {
        self.by_name.get(name).map(|id| &self.list[*id as usize])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tenant> {
        self.list.iter()
    }

    /// Notes that a version begins; what changes after it belongs to the next.
    #[inline]
    pub(crate) fn begin(&mut self, version: Version) {
        self.next = version.next();
    }

    /// The names of a tenant and of those above it, from the tenant up.
    pub(crate) fn line_names(&self, tenant: u32) -> impl Iterator<Item = &Text> {
        self.line(tenant).map(|id| &self.list[id as usize].terms.name)
    }

    /// Those of which views are told that changed since a version, if they are told of any.
    pub(crate) fn changed_since(&self, since: Version) -> impl Iterator<Item = &Tenant> {
        let list: &[Tenant] = if self.told { &self.list } else { &[] };
        list.iter().filter(move |tenant| tenant.changed > since)
    }

    /// All of them if one has a standing or a limit, else none.
    pub(crate) fn all_if_told(&self) -> &[Tenant] {
        let bound = |tenant: &Tenant| tenant.terms.limit.is_some() || tenant.has_tenant_config();
        if self.told && self.list.iter().any(bound) { &self.list } else { &[] }
    }

    /// Has views hear of all tenants from now on.
    fn tell(&mut self) {
        if !std::mem::replace(&mut self.told, true) {
            self.list.iter_mut().for_each(|tenant| tenant.changed = self.next);
        }
    }

    /// Whether somebody may have a guarantee.
    #[inline]
    pub(crate) fn may_guarantee(&self) -> bool {
        self.stands
    }

    /// A tenant and all above it, from it up.
    pub(crate) fn line(&self, tenant: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(tenant), |id| self.list[*id as usize].parent)
    }

    /// Sets or lifts a limit. What is claimed beyond it stays.
    pub(crate) fn set_limit(&mut self, name: &Text, limit: Option<Amounts>) {
        let id = self.intern(name) as usize;
        if limit.is_some() {
            self.tell();
        }
        Arc::make_mut(&mut self.list[id].terms).limit = limit;
        self.list[id].changed = self.next;
    }

    /// Says how a tenant stands. Nothing is changed if it is refused.
    ///
    /// # Errors
    /// If the tree would have a ring or be too deep, or a sum would exceed 64 bits.
    pub(crate) fn set_tenant(
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
        self.stands = true;
        self.tell();
        Ok(())
    }

    /// Whether what a tenant uses can be counted for another parent.
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
            Err(bad(format!("what {name:?} uses is too much to be counted")))
        }
    }

    /// Whether a tenant may stand below another.
    fn check_parent(&self, name: &Text, parent: Option<&Text>) -> Result<(), Rejection> {
        let Some(parent) = parent else { return Ok(()) };
        let known = self.id(name);
        let above: Vec<u32> =
            self.id(parent).map_or(Vec::new(), |parent| self.line(parent).collect());
        if name == parent || known.is_some_and(|id| above.contains(&id)) {
            return Err(bad(format!(
                "{parent:?} cannot be above {name:?}, it is below it or the same"
            )));
        }
        let height = known.map_or(1, |id| self.height(id));
        if above.len().max(1) + height > TENANT_DEPTH_MAX {
            let what = format!(
                "below {parent:?} there would be more than {TENANT_DEPTH_MAX} tenants one below the other"
            );
            return Err(bad(what));
        }
        Ok(())
    }

    /// How many tenants stand one below the other, from this one down.
    fn height(&self, tenant: u32) -> usize {
        let below = (0..self.list.len() as u32).filter_map(|other| {
            self.line(other).position(|above| above == tenant).map(|steps| steps + 1)
        });
        below.max().unwrap_or(1)
    }

    /// Whether a limit holds for the tenant, its own or one above it.
    pub(crate) fn is_limited(&self, tenant: u32) -> bool {
        self.line(tenant).any(|id| self.list[id as usize].terms.limit.is_some())
    }

    /// Whether the sums stay within 64 bits with so much more.
    pub(crate) fn can_count(&self, tenant: u32, request: &[i64]) -> bool {
        let fits = |id: u32| {
            let used = self.list[id as usize].used.iter();
            used.zip(request).all(|(used, request)| used.checked_add(*request).is_some())
        };
        self.line(tenant).all(fits)
    }

    /// Counts what a tenant claims, or with `sign` -1 what it gives back.
    pub(crate) fn count(&mut self, tenant: u32, request: &[i64], sign: i64) {
        let mut at = Some(tenant);
        while let Some(id) = at {
            let tenant = &mut self.list[id as usize];
            for (used, request) in tenant.used.iter_mut().zip(request) {
                *used += sign * request;
            }
            tenant.changed = self.next;
            at = tenant.parent;
        }
    }

    /// Whether claims that are counted may have a task make room: because the claimant's branch is within
    /// its guarantee, and the victim's is beyond its own with that task. Both are looked at where their
    /// lines part.
    pub(crate) fn may_reclaim(&self, claimant: Claimant, victim: &Borrower<'_>) -> bool {
        let Some((ours, theirs)) = self.branches(claimant.tenant, victim.tenant) else {
            return false;
        };
        let (ours, theirs) = (&self.list[ours as usize], &self.list[theirs as usize]);
        let asked = |kind: &usize| claimant.kinds >> kind & 1 == 1;
        let guaranteed = |tenant: &Tenant, kind: usize| {
            tenant.terms.tenant_config.guaranteed.get(KindId(kind as u8)) as i64
        };
        let mut kinds = (0..self.kinds).filter(asked);
        let within = kinds.clone().all(|kind| ours.used[kind] <= guaranteed(ours, kind));
        let borrowed = |kind: usize| {
            let request = victim.request[kind];
            let with_it = theirs.used[kind] + if victim.counted { 0 } else { request };
            request > 0 && with_it > guaranteed(theirs, kind)
        };
        within && kinds.any(borrowed)
    }

    /// The highest tenants of two lines that the other line does not have; `None` if one line is part of
    /// the other.
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
    /// Whether anything was said of how it stands.
    pub(crate) fn has_tenant_config(&self) -> bool {
        self.terms.tenant_config != TenantConfig::default()
    }

    fn judge(&self, request: &[i64]) -> Result<(), Reason> {
        let Some(limit) = &self.terms.limit else { return Ok(()) };
        for (kind, (used, request)) in self.used.iter().zip(request).enumerate() {
            let kind = KindId(kind as u8);
            if *request > 0 && used + request > limit.get(kind) as i64 {
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
        self.line(tenant).try_for_each(|id| self.list[id as usize].judge(more))
    }
}

fn bad(what: String) -> Rejection {
    Rejection::BadTenant(what.into())
}
