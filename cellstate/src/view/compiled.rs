//! Task groups as a view has compiled them.
//!
//! A group with optional resources can be compiled a second time, with these resources in its request. A search then
//! handles it like any other group. The compiled group records that its claims take the optional resources.

use crate::index::machine_index::{JobGroup, MachineIndex, Trackers};
use crate::index::need::Need;
use crate::state::map::FastMap;
use crate::view::tenants::{TenantIndex, TenantRef};
use crate::view::{LocalityLevel, View};
use omega_core::{Job, JobId, Take};
use smallvec::SmallVec;
use std::sync::Arc;

/// Reference to a compiled task group. See [`View::compile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupRef(u32);

#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) id: JobId,
    pub(super) job: Arc<Job>,
    pub(super) index: usize,
    pub(super) need: Arc<Need>,
    /// The group's tenant; `None` if no delta has contained the tenant.
    pub(super) tenant: Option<TenantRef>,
    pub(super) locality_level: LocalityLevel,
    /// Whether claims of the group take only the request, or also the optional resources.
    pub(super) take: Take,
    /// The original job, if `job` is a copy with the optional resources in its requests; otherwise `None`.
    of: Option<Arc<Job>>,
}

impl Compiled {
    fn is(&self, source: &Source<'_>) -> bool {
        let of = self.of.as_ref().unwrap_or(&self.job);
        self.index == source.index && self.take == source.take && Arc::ptr_eq(of, source.job)
    }

    /// Compiles the group again. Returns its former needs.
    fn compile(&mut self, machine_index: &mut MachineIndex, kinds: usize) -> Arc<Need> {
        let group = JobGroup { id: self.id, job: &self.job, index: self.index };
        let (need, _) = machine_index.compile(group, kinds, Trackers::Find);
        std::mem::replace(&mut self.need, Arc::new(need))
    }
}

/// A group of a job that is to be compiled.
struct Source<'a> {
    id: JobId,
    job: &'a Arc<Job>,
    index: usize,
    take: Take,
}

/// The compiled groups of a view.
///
/// Invariant: a reference is valid until the groups of its job are removed. Afterwards it may refer to another group.
#[derive(Debug)]
pub(super) struct Groups {
    list: Vec<Option<Compiled>>,
    /// Free positions in `list`.
    vacant: Vec<u32>,
    by_job: FastMap<JobId, SmallVec<[GroupRef; 2]>>,
    /// The value of `RuleIndex::generation` when the groups were last compiled. `None` if their machine sets were
    /// dropped.
    generation: Option<u64>,
}

impl Default for Groups {
    fn default() -> Groups {
        let by_job = FastMap::default();
        Groups { list: Vec::new(), vacant: Vec::new(), by_job, generation: Some(0) }
    }
}

impl Groups {
    /// The group of a reference.
    ///
    /// # Panics
    /// The group was removed.
    #[inline]
    pub(super) fn get(&self, group: GroupRef) -> &Compiled {
        let compiled = self.list[group.0 as usize].as_ref();
        compiled.expect("a group is used until its job is forgotten")
    }

    fn get_mut(&mut self, group: GroupRef) -> &mut Compiled {
        let compiled = self.list[group.0 as usize].as_mut();
        compiled.expect("a group is used until its job is forgotten")
    }

    /// Whether a group of a job is compiled.
    pub(super) fn has_job(&self, id: JobId) -> bool {
        self.by_job.contains_key(&id)
    }

    fn find(&self, source: &Source<'_>) -> Option<GroupRef> {
        let is_it = |group: &&GroupRef| {
            self.list[group.0 as usize].as_ref().is_some_and(|compiled| compiled.is(source))
        };
        self.by_job.get(&source.id)?.iter().find(is_it).copied()
    }

    fn add(&mut self, compiled: Compiled) -> GroupRef {
        let id = compiled.id;
        let group = GroupRef(self.vacant.pop().unwrap_or_else(|| {
            self.list.push(None);
            (self.list.len() - 1) as u32
        }));
        self.list[group.0 as usize] = Some(compiled);
        self.by_job.entry(id).or_default().push(group);
        group
    }

    /// Removes the groups of a job, and releases their machine sets.
    fn remove_job(&mut self, id: JobId, machine_index: &mut MachineIndex) {
        for group in self.by_job.remove(&id).into_iter().flatten() {
            if let Some(compiled) = self.list[group.0 as usize].take() {
                machine_index.release(&compiled.need, Trackers::Find);
                self.vacant.push(group.0);
            }
        }
    }

    /// Compiles all groups again if trackers were added or removed since the last call. Returns whether it did.
    pub(super) fn match_rules(&mut self, machine_index: &mut MachineIndex, kinds: usize) -> bool {
        let generation = Some(machine_index.rules.generation());
        if self.generation == generation {
            return false;
        }
        self.generation = generation;
        for group in self.list.iter_mut().flatten() {
            let former = group.compile(machine_index, kinds);
            machine_index.release(&former, Trackers::Find);
        }
        true
    }

    /// Compiles all groups again, after all machines and the machine sets were dropped.
    pub(super) fn reset(&mut self, machine_index: &mut MachineIndex, kinds: usize) {
        self.generation = None;
        for group in self.list.iter_mut().flatten() {
            group.compile(machine_index, kinds);
        }
    }

    /// Looks up the tenant of each group again.
    pub(super) fn find_tenants(&mut self, tenants: &TenantIndex) {
        for group in self.list.iter_mut().flatten() {
            group.tenant = tenants.find(&group.job.tenant);
        }
    }
}

impl View {
    /// Compiles a group of a job. Repeated calls cost a lookup. The group is kept until [`View::forget_job`] is called.
    ///
    /// # Panics
    /// The job has no group with this index.
    pub fn compile(&mut self, id: JobId, job: &Arc<Job>, index: usize) -> GroupRef {
        self.indexes.keep_compiled(id);
        let source = Source { id, job, index, take: Take::Request };
        self.groups.find(&source).unwrap_or_else(|| self.add_group(&source, job.clone()))
    }

    /// Compiles a group with its optional resources in the request, so that its claims take them. `None` if the group
    /// has no optional resources.
    pub fn compile_with_optional(
        &mut self,
        id: JobId,
        job: &Arc<Job>,
        index: usize,
    ) -> Option<GroupRef> {
        job.groups[index].optional.as_ref()?;
        let source = Source { id, job, index, take: Take::WithOptional };
        if let Some(known) = self.groups.find(&source) {
            return Some(known);
        }
        let mut with = Job::clone(job);
        with.groups[index] = job.groups[index].with_optional()?.into();
        Some(self.add_group(&source, Arc::new(with)))
    }

    /// Compiles and adds a group. In `job`, the group requests everything that its claims will take.
    fn add_group(&mut self, source: &Source<'_>, job: Arc<Job>) -> GroupRef {
        let Source { id, index, take, .. } = *source;
        let kinds = self.rows.columns().kinds();
        let group = JobGroup { id, job: &job, index };
        let (need, _) = self.machine_index.compile_shared(group, kinds, Trackers::Find);
        let tenant = self.tenants.find(&job.tenant);
        let of = (take == Take::WithOptional).then(|| source.job.clone());
        let locality_level = LocalityLevel::Anywhere;
        self.groups.add(Compiled { id, job, index, need, tenant, locality_level, take, of })
    }

    /// Drops the compiled groups of a job. All claims for these groups must have a result.
    pub fn forget_job(&mut self, id: JobId) {
        self.groups.remove_job(id, &mut self.machine_index);
    }

    /// The needs of a compiled group.
    ///
    /// # Panics
    /// The group was dropped.
    #[must_use]
    pub fn need(&self, group: GroupRef) -> &Need {
        &self.groups.get(group).need
    }

    /// The id of a compiled group's job.
    ///
    /// # Panics
    /// The group was dropped.
    #[must_use]
    pub fn job_id(&self, group: GroupRef) -> JobId {
        self.groups.get(group).id
    }

    /// The job of a compiled group, and the group's position in it.
    ///
    /// # Panics
    /// The group was dropped.
    #[must_use]
    pub fn job(&self, group: GroupRef) -> (&Arc<Job>, usize) {
        let compiled = self.groups.get(group);
        (&compiled.job, compiled.index)
    }

    /// The machines that a compiled group may use at present.
    ///
    /// # Panics
    /// The group was dropped.
    #[must_use]
    pub fn locality_level(&self, group: GroupRef) -> &LocalityLevel {
        &self.groups.get(group).locality_level
    }

    /// Sets the machines that a compiled group may use at present.
    ///
    /// # Panics
    /// The group was dropped.
    pub fn set_locality_level(&mut self, group: GroupRef, locality_level: LocalityLevel) {
        self.groups.get_mut(group).locality_level = locality_level;
    }
}
