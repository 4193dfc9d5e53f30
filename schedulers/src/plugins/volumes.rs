//! Plugins for volumes. (Kubernetes' VolumeBinding, VolumeZone, NodeVolumeLimits and VolumeRestrictions.)
//!
//! Each filter checks one aspect of the process's [`Volumes`]. The reserve plugin checks all aspects again under one
//! lock. So if two schedulers choose the same volume, only one scheduler gets the volume. A profile has either all
//! filters for volumes and the reserve plugin, or none of these plugins.
//!
//! Tasks without volumes cost nothing. Each task with volumes has its own search, because one task's choice limits the
//! next. Preemption does not help these tasks, because the view does not record which tasks use a volume.

use crate::framework::events::Events;
use crate::framework::plugin::{Filter, Reads, Tasks};
use crate::framework::points::{Claimed, PostBind, PreBind, Refused, Reserve};
use crate::framework::profile::Profile;
use crate::framework::waiting::Waiting;
use crate::scheduler::Settings;
use crate::volumes::{Aspect, Volumes};
use omega_cellstate::{Block, Share, View};
use omega_core::{Job, JobId, TaskId, Text};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Filter for one aspect of volumes: the tasks' volumes do not exclude the machine in this aspect.
#[derive(Clone, Debug)]
pub struct VolumeFilter {
    aspect: Aspect,
    volumes: Volumes,
}

impl VolumeFilter {
    /// Creates the filter for one aspect of these volumes.
    #[must_use]
    pub fn new(aspect: Aspect, volumes: &Volumes) -> VolumeFilter {
        VolumeFilter { aspect, volumes: volumes.clone() }
    }
}

impl Filter for VolumeFilter {
    fn name(&self) -> &'static str {
        match self.aspect {
            Aspect::Binding => "volume_binding",
            Aspect::Zone => "volume_zone",
            Aspect::Limits => "volume_limits",
            Aspect::Restrictions => "volume_restrictions",
        }
    }

    /// The result also depends on other tasks' use of volumes, which the machine's data does not show.
    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::OTHER_MACHINES
    }

    /// The end of a task causes an event about the volumes that it used.
    fn wakes_on(&self) -> Events {
        let labels = match self.aspect {
            Aspect::Binding | Aspect::Zone => Events::MACHINE_CHANGED,
            Aspect::Limits | Aspect::Restrictions => Events::NONE,
        };
        labels | Events::MACHINE_ADDED | Events::VOLUMES_CHANGED
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        !tasks.group.volumes.is_empty()
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let machine = |lane| block.machine(lane).map(|machine| &**machine);
        self.volumes.allows(&tasks.group.volumes, self.aspect, among, machine)
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn why(&self, tasks: &Tasks<'_>, row: usize) -> Option<String> {
        let machine = tasks.view.machine(row)?;
        let obstacle = self.volumes.obstacle_of(&tasks.group.volumes, self.aspect, machine)?;
        Some(obstacle.to_string())
    }
}

/// Reserves, binds and releases the volumes of tasks, and records which tasks use them.
#[derive(Clone, Debug)]
pub struct VolumeBinding {
    volumes: Volumes,
    /// Scheduler name and share by which the scheduler's own jobs are recognised.
    takes: Option<(Text, Share)>,
    /// The scheduler's own jobs that use volumes.
    jobs: BTreeMap<JobId, Arc<Job>>,
    /// Tasks with volumes that this scheduler has reported to [`Volumes`].
    reported: BTreeSet<TaskId>,
}

impl VolumeBinding {
    /// Creates the plugin for these volumes.
    #[must_use]
    pub fn new(volumes: &Volumes) -> VolumeBinding {
        let (jobs, reported) = (BTreeMap::new(), BTreeSet::new());
        VolumeBinding { volumes: volumes.clone(), takes: None, jobs, reported }
    }

    /// Whether this scheduler is responsible for reporting a job's tasks.
    fn reports(&self, id: JobId, job: &Job) -> bool {
        let own = self
            .takes
            .as_ref()
            .is_none_or(|(takes, share)| job.scheduler == *takes && share.includes(id));
        own && job.groups.iter().any(|group| !group.volumes.is_empty())
    }

    fn left(&mut self, task: TaskId) {
        self.volumes.left(task);
        self.reported.remove(&task);
    }

    fn end_job(&mut self, job: JobId) {
        self.jobs.remove(&job);
        let first = TaskId { job, index: 0 };
        let last = TaskId { job, index: u32::MAX };
        let tasks: Vec<TaskId> = self.reported.range(first..=last).copied().collect();
        tasks.into_iter().for_each(|task| self.left(task));
    }
}

impl Reserve for VolumeBinding {
    fn name(&self) -> &'static str {
        "volume_binding"
    }

    fn start(&mut self, of: &Settings, waiting: &Waiting) {
        self.takes = Some((of.takes.clone(), of.share));
        self.volumes.add_listener(waiting);
    }

    fn synced(&mut self, view: &View) {
        let delta = view.delta();
        if delta.full {
            // A full delta does not list ended jobs.
            let ended: Vec<JobId> = self.reported.iter().map(|task| task.job).collect();
            let there: BTreeSet<JobId> = delta.jobs.iter().map(|change| change.id).collect();
            ended.into_iter().filter(|job| !there.contains(job)).for_each(|job| self.end_job(job));
            self.jobs.clear();
        }
        for change in &delta.jobs {
            match &change.job {
                Some(job) if self.reports(change.id, job) => {
                    self.jobs.insert(change.id, job.clone());
                }
                Some(_) => {}
                None => self.end_job(change.id),
            }
        }
        for task in &delta.tasks {
            let Some(job) = self.jobs.get(&task.id.job) else { continue };
            let claims = &job.groups[usize::from(task.group)].volumes;
            if claims.is_empty() {
                continue;
            }
            let machine = task.state.machine().filter(|id| view.machine_id(id.row()) == *id);
            match machine.and_then(|id| view.machine(id.row())) {
                Some(machine) => {
                    self.volumes.runs(task.id, claims, &machine.name);
                    self.reported.insert(task.id);
                }
                None => self.left(task.id),
            }
        }
    }

    /// Reserves the volumes of a claim. If a volume cannot be reserved, the job is retried after its backoff, and the
    /// filters of the next search take the obstacle into account.
    fn reserve(&mut self, claimed: &Claimed<'_>) -> Result<(), Refused> {
        let claims = &claimed.group.volumes;
        if claims.is_empty() {
            return Ok(());
        }
        let Some(machine) = claimed.view.machine(claimed.machine.row()) else {
            return Err(Refused(Events::TIME));
        };
        self.reported.insert(claimed.task);
        let reserved = self.volumes.reserve(claimed.task, claims, machine);
        reserved.map_err(|_| Refused(Events::TIME))
    }

    fn unreserve(&mut self, claimed: &Claimed<'_>) {
        if !claimed.group.volumes.is_empty() {
            self.volumes.unreserve(claimed.task);
        }
    }
}

impl PreBind for VolumeBinding {
    fn name(&self) -> &'static str {
        "volume_binding"
    }

    fn pre_bind(&mut self, claimed: &Claimed<'_>) -> Result<(), Refused> {
        if !claimed.group.volumes.is_empty() {
            self.volumes.bind(claimed.task);
        }
        Ok(())
    }
}

impl PostBind for VolumeBinding {
    fn name(&self) -> &'static str {
        "volume_binding"
    }

    fn post_bind(&mut self, claimed: &Claimed<'_>) {
        let claims = &claimed.group.volumes;
        if !claims.is_empty()
            && let Some(machine) = claimed.view.machine(claimed.machine.row())
        {
            self.volumes.runs(claimed.task, claims, &machine.name);
        }
    }
}

impl Profile {
    /// Returns `self` with the filters for these volumes and the plugin that reserves volumes. All filters are needed:
    /// the reservation checks all aspects, so without the filter for an aspect, a machine that fails this aspect would
    /// be chosen again and again.
    #[must_use]
    pub fn with_volumes(self, volumes: &Volumes) -> Profile {
        let filters = Aspect::ALL.map(|aspect| VolumeFilter::new(aspect, volumes));
        let profile = filters.into_iter().fold(self, Profile::with_filter_replaced);
        if profile.chain.reserves().any(|known| known == "volume_binding") {
            return profile;
        }
        let binding = VolumeBinding::new(volumes);
        profile.with_reserve(binding.clone()).with_pre_bind(binding.clone()).with_post_bind(binding)
    }
}
