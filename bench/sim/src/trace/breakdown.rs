//! Jobs counted by class, by tenant and by rules. The numbers of classes and tenants that are counted separately are
//! bounded, and so is the memory.

use super::info::{ClassInfo, RulesInfo, TenantInfo, TenantsInfo};
use omega_core::{Job, JobKind, KindId, TaskGroup, TaskRule, Text};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of tenants that are counted separately; later ones are counted together.
const TENANTS_MAX: usize = 4096;

/// Maximum number of pairs of kind and precedence that are counted separately; traces have about a dozen.
const CLASSES_MAX: usize = 256;

/// Numbers of jobs by kind and precedence.
#[derive(Default)]
pub(super) struct Classes(BTreeMap<(JobKind, i32), ClassInfo>);

impl Classes {
    /// Counts a job.
    pub(super) fn add(&mut self, job: &Job) {
        let key = (job.kind, job.precedence.0);
        let asked = job
            .groups
            .iter()
            .map(|group| u128::from(group.request.get(KindId::CPU)) * u128::from(group.count));
        // Keys beyond the bound are counted under a common key that no job has.
        let is_room = self.0.len() < CLASSES_MAX || self.0.contains_key(&key);
        let key = if is_room { key } else { (JobKind::Batch, i32::MIN) };
        let class = self.0.entry(key).or_insert(ClassInfo {
            kind: is_room.then_some(job.kind),
            precedence: key.1,
            jobs: 0,
            tasks: 0,
            asked: 0,
        });
        class.jobs += 1;
        class.tasks += job.task_count();
        class.asked += asked.sum::<u128>();
    }

    /// Returns the classes in ascending order.
    pub(super) fn finish(self) -> Vec<ClassInfo> {
        self.0.into_values().collect()
    }
}

/// Numbers of jobs by tenant.
#[derive(Default)]
pub(super) struct Tenants {
    separate: HashMap<Text, TenantInfo>,
    /// Number of jobs of the tenants that are counted together.
    other_jobs: u64,
}

impl Tenants {
    /// Counts a job.
    pub(super) fn add(&mut self, job: &Job) {
        let name = &job.tenant;
        if self.separate.len() >= TENANTS_MAX && !self.separate.contains_key(name) {
            self.other_jobs += 1;
            return;
        }
        let tenant = self.separate.entry(name.clone()).or_default();
        tenant.jobs += 1;
        tenant.tasks += job.task_count();
    }

    /// Returns a note for the reader if some tenants are counted together.
    pub(super) fn note(&self) -> Option<String> {
        (self.other_jobs > 0).then(|| {
            format!(
                "only the first {TENANTS_MAX} tenants are told apart; jobs of others: {}",
                self.other_jobs
            )
        })
    }

    /// Returns the number of tenants, and the largest ones.
    pub(super) fn finish(self) -> TenantsInfo {
        let count = self.separate.len() as u64;
        let named = self
            .separate
            .into_iter()
            .map(|(name, tenant)| TenantInfo { name: name.to_string(), ..tenant });
        let mut largest: Vec<TenantInfo> = named.collect();
        largest.sort_by(|a, b| b.tasks.cmp(&a.tasks).then_with(|| a.name.cmp(&b.name)));
        largest.truncate(5);
        TenantsInfo { count, largest }
    }
}

impl RulesInfo {
    /// Counts a job if it has rules.
    pub(super) fn add(&mut self, job: &Job) {
        let any =
            |has: &dyn Fn(&TaskGroup) -> bool| u64::from(job.groups.iter().any(|group| has(group)));
        self.gangs += u64::from(job.gang_min.is_some());
        self.machines += any(&|group| {
            let rules = &group.rules;
            rules.machine.is_some() || rules.affinity.required.is_some()
        });
        let is_about_tasks = |rule: &TaskRule| !matches!(rule, TaskRule::Prefer { .. });
        self.tasks += any(&|group| group.rules.tasks.iter().any(is_about_tasks));
        self.devices += any(&|group| group.devices.is_some());
    }
}
