//! Who pays: what the tasks of each tenant claim together, and how much they may.

use crate::map::FastMap;
use omega_core::{Amounts, KindId, Reason, Text};

/// What a tenant has and may have.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) name: Text,
    pub(crate) used: Vec<i64>,
    pub(crate) limit: Option<Amounts>,
}

/// All tenants that ever had a job or a quota.
#[derive(Clone, Debug)]
pub(crate) struct Tenants {
    kinds: usize,
    list: Vec<Tenant>,
    by_name: FastMap<Text, u32>,
}

impl Tenants {
    pub(crate) fn new(kinds: usize) -> Tenants {
        Tenants { kinds, list: Vec::new(), by_name: FastMap::default() }
    }

    /// The number of a tenant, given when it is first named.
    pub(crate) fn intern(&mut self, name: &Text) -> u32 {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.list.len() as u32;
        self.list.push(Tenant { name: name.clone(), used: vec![0; self.kinds], limit: None });
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

    /// Sets or lifts a limit. What is claimed beyond it stays.
    pub(crate) fn set_limit(&mut self, name: &Text, limit: Option<Amounts>) {
        let id = self.intern(name);
        self.list[id as usize].limit = limit;
    }

    /// Whether the tenant has a limit.
    pub(crate) fn is_limited(&self, tenant: u32) -> bool {
        self.list[tenant as usize].limit.is_some()
    }

    /// Whether the tenant may claim this much more.
    pub(crate) fn judge(&self, tenant: u32, request: &[i64]) -> Result<(), Reason> {
        let tenant = &self.list[tenant as usize];
        let Some(limit) = &tenant.limit else { return Ok(()) };
        for (kind, (used, request)) in tenant.used.iter().zip(request).enumerate() {
            let kind = KindId(kind as u8);
            if *request > 0 && used + request > limit.get(kind) as i64 {
                return Err(Reason::QuotaExceeded(kind));
            }
        }
        Ok(())
    }

    /// Whether the sums stay within 64 bits with so much more.
    pub(crate) fn can_count(&self, tenant: u32, request: &[i64]) -> bool {
        let used = self.list[tenant as usize].used.iter();
        used.zip(request).all(|(used, request)| used.checked_add(*request).is_some())
    }

    /// Counts what a tenant claims, or with `sign` -1 what it gives back.
    pub(crate) fn count(&mut self, tenant: u32, request: &[i64], sign: i64) {
        for (used, request) in self.list[tenant as usize].used.iter_mut().zip(request) {
            *used += sign * request;
        }
    }
}
