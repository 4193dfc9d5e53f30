//! Task groups as a view has compiled them.
//!
//! A group with optional resources can be compiled a second time, as a group that requests them. A search then treats
//! it like any other group; the compiled group records that its claims take the optional resources.

use super::tenants::TenantRef;
use super::{Reach, View};
use crate::facts::{Need, Trackers};
use omega_core::{Job, JobId, Take};
use std::sync::Arc;

/// A compiled task group: see [`View::compile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupRef(pub(super) u32);

#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) id: JobId,
    pub(super) job: Arc<Job>,
    pub(super) index: usize,
    pub(super) need: Arc<Need>,
    /// The tenant, if a delta named it.
    pub(super) tenant: Option<TenantRef>,
    pub(super) reach: Reach,
    /// The resources that its claims take.
    pub(super) take: Take,
    /// The original job, where `job` requests the optional resources.
    of: Option<Arc<Job>>,
}

impl Compiled {
    fn is(&self, job: &Arc<Job>, index: usize, take: Take) -> bool {
        let of = self.of.as_ref().unwrap_or(&self.job);
        self.index == index && self.take == take && Arc::ptr_eq(of, job)
    }
}

impl View {
    /// Compiles a group of a job; repeated calls cost a lookup. It stays until [`View::forget_job`].
    pub fn compile(&mut self, id: JobId, job: &Arc<Job>, index: usize) -> GroupRef {
        if let Some(placements) = &mut self.placements {
            placements.compiled.remove(&id);
        }
        let known = self.known_group(id, (job, index), Take::Request);
        known.unwrap_or_else(|| self.add_group(id, (job.clone(), index), None))
    }

    /// Compiles a group as one that requests its optional resources, which its claims then take. `None` without
    /// optional resources.
    pub fn compile_with_optional(
        &mut self,
        id: JobId,
        job: &Arc<Job>,
        index: usize,
    ) -> Option<GroupRef> {
        job.groups[index].optional.as_ref()?;
        if let Some(known) = self.known_group(id, (job, index), Take::WithOptional) {
            return Some(known);
        }
        let mut with = Job::clone(job);
        with.groups[index] = job.groups[index].with_optional()?;
        Some(self.add_group(id, (Arc::new(with), index), Some(job.clone())))
    }

    fn known_group(
        &self,
        id: JobId,
        (job, index): (&Arc<Job>, usize),
        take: Take,
    ) -> Option<GroupRef> {
        let is_it = |group: &&GroupRef| {
            let compiled = self.groups[group.0 as usize].as_ref();
            compiled.is_some_and(|compiled| compiled.is(job, index, take))
        };
        self.by_job.get(&id)?.iter().find(is_it).copied()
    }

    fn add_group(
        &mut self,
        id: JobId,
        (job, index): (Arc<Job>, usize),
        of: Option<Arc<Job>>,
    ) -> GroupRef {
        let kinds = self.columns.kinds();
        let (need, _) = self.facts.compile_shared((id, &job), index, kinds, Trackers::Find);
        let take = if of.is_some() { Take::WithOptional } else { Take::Request };
        let tenant = self.tenants.find(&job.tenant);
        let compiled = Compiled { id, job, index, need, tenant, reach: Reach::Anywhere, take, of };
        let group = GroupRef(self.vacant.pop().unwrap_or_else(|| {
            self.groups.push(None);
            (self.groups.len() - 1) as u32
        }));
        self.groups[group.0 as usize] = Some(compiled);
        self.by_job.entry(id).or_default().push(group);
        group
    }

    /// Drops the compiled groups of a job. Its claims must be settled.
    pub fn forget_job(&mut self, id: JobId) {
        for group in self.by_job.remove(&id).into_iter().flatten() {
            if let Some(compiled) = self.groups[group.0 as usize].take() {
                self.facts.release(&compiled.need, Trackers::Find);
                self.vacant.push(group.0);
            }
        }
    }

    /// The needs of a compiled group.
    ///
    /// # Panics
    /// If the group was forgotten.
    #[must_use]
    pub fn need(&self, group: GroupRef) -> &Need {
        &self.compiled(group).need
    }

    /// The id of a compiled group's job.
    ///
    /// # Panics
    /// If the group was forgotten.
    #[must_use]
    pub fn job_id(&self, group: GroupRef) -> JobId {
        self.compiled(group).id
    }

    /// The job of a compiled group, and the group's position in it.
    ///
    /// # Panics
    /// If the group was forgotten.
    #[must_use]
    pub fn job(&self, group: GroupRef) -> (&Arc<Job>, usize) {
        let compiled = self.compiled(group);
        (&compiled.job, compiled.index)
    }

    pub(super) fn compiled(&self, group: GroupRef) -> &Compiled {
        self.groups[group.0 as usize].as_ref().expect("a group is used until its job is forgotten")
    }
}
