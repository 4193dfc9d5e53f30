//! The state hash: one number for the whole state. Replicas that applied equal commands have equal hashes, and a
//! snapshot of their state has that hash, too.
//!
//! The hash covers everything that a later outcome can depend on, in the order of ids and names. Derived data (amounts,
//! sums, sets, counters, task lists of machines) is left out, because the audit checks it.

use crate::cell::Cell;
use crate::policy::Policies;
use crate::snapshot::SnapshotState;
use crate::state::job_record::GangWait;
use crate::state::job_record::JobVersion;
use crate::state::machines::MachineSnapshot;
use crate::state::reply_cache::CachedReply;
use omega_core::{Amounts, JobId, Kinds, Lease, NodeCores, Policy, TenantConfig, Text, Version};
use std::hash::{Hash, Hasher};
use xxhash_rust::xxh3::Xxh3;

impl Cell {
    /// The hash of the state. Computing it reads the whole state, so it is meant for tests, snapshots and alarms.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut hash = StateHasher::new();
        hash.head(&self.kinds, self.version, self.now_ms, &self.policy);
        for slot in 0..self.machines.row_count() {
            let machine = self.machine_index.machines[slot].clone();
            let row = MachineSnapshot::of(machine, self.machines.row(slot));
            hash.machine(&row, self.machines.load(slot).map(|report| &report.used));
        }
        self.machines.vacant().hash(&mut hash);
        self.jobs.next_id().hash(&mut hash);
        for (id, job) in self.jobs.iter() {
            (id, &job.spec, job.resized, &job.tasks).hash(&mut hash);
            hash.versions(&job.versions);
            if job.killed {
                hash.killed();
            }
            hash.gang_wait(job.gang_wait);
            job.overrides.iter().for_each(|(index, amounts)| hash.task_override(index, &amounts));
            job.cores.iter().for_each(|(index, cores)| hash.task_cores(index, &cores));
            job.ports.iter().for_each(|(index, ports)| hash.task_ports(index, ports));
        }
        hash.ended(self.ended.iter());
        self.tenants
            .iter()
            .for_each(|tenant| hash.tenant(&tenant.terms.name, tenant.terms.limit.as_ref()));
        for scheduler in &self.schedulers {
            hash.scheduler(
                &scheduler.name,
                scheduler.lease,
                scheduler.reply_cache.floor,
                scheduler.reply_cache.iter(),
            );
        }
        for tenant in self.tenants.iter() {
            hash.tenant_config(&tenant.terms.name, &tenant.terms.tenant_config);
            hash.admission(&tenant.terms.name, tenant.admits.as_ref());
        }
        hash.preemption(&self.policy, self.counted_evictions());
        self.policies.hash(&mut hash);
        hash.finish()
    }
}

impl SnapshotState {
    /// The state hash of the cell from which this snapshot was taken.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut hash = StateHasher::new();
        hash.head(&self.kinds, self.version, self.now_ms, &self.policy);
        let mut loads = self.loads.iter().peekable();
        for (slot, machine) in (0..).zip(&self.machines) {
            let load = loads.next_if(|(other, _)| *other == slot);
            hash.machine(machine, load.map(|(_, report)| &report.used));
        }
        self.vacant.hash(&mut hash);
        self.next_job.hash(&mut hash);
        for job in &self.jobs {
            (job.id, &job.spec, job.resized, &job.tasks).hash(&mut hash);
            hash.versions(&job.versions);
            if job.killed {
                hash.killed();
            }
            hash.gang_wait(job.gang_wait);
            for (index, amounts) in &job.overrides {
                hash.task_override(*index, amounts);
            }
            job.cores.iter().for_each(|(index, cores)| hash.task_cores(*index, cores));
            job.ports.iter().for_each(|(index, ports)| hash.task_ports(*index, ports));
        }
        hash.ended(&self.ended);
        self.tenants.iter().for_each(|tenant| hash.tenant(&tenant.name, tenant.limit.as_ref()));
        for scheduler in &self.schedulers {
            hash.scheduler(
                &scheduler.name,
                scheduler.lease,
                scheduler.floor,
                scheduler.reply_cache.iter(),
            );
        }
        for tenant in self.tenants.iter() {
            hash.tenant_config(&tenant.name, &tenant.tenant_config);
            hash.admission(&tenant.name, tenant.admits.as_ref());
        }
        hash.preemption(&self.policy, self.evicted.iter().copied());
        Policies::hash_snapshot(self, &mut hash);
        hash.finish()
    }
}

/// Number of bytes that are collected before they are hashed. Most writes add only one number, and hashing each number
/// alone would be slow.
const GATHERED: usize = 4096;

/// A hasher for the parts of a state.
struct StateHasher {
    hash: Xxh3,
    gathered: Vec<u8>,
}

impl Hasher for StateHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        if self.gathered.len() + bytes.len() > GATHERED {
            self.hash.update(&self.gathered);
            self.gathered.clear();
        }
        match bytes.len() {
            0..=GATHERED => self.gathered.extend_from_slice(bytes),
            _ => self.hash.update(bytes),
        }
    }

    fn finish(&self) -> u64 {
        let mut hash = self.hash.clone();
        hash.update(&self.gathered);
        hash.digest()
    }
}

impl StateHasher {
    fn new() -> StateHasher {
        StateHasher { hash: Xxh3::new(), gathered: Vec::with_capacity(GATHERED) }
    }

    fn head(&mut self, kinds: &Kinds, version: Version, now_ms: u64, policy: &Policy) {
        kinds.iter().for_each(|(_, kind)| kind.hash(self));
        (version, now_ms, policy.ttl_after_finished_ms, &policy.overcommit_max).hash(self);
    }

    /// Hashes a machine, and the measured use from its load report.
    ///
    /// The other fields of the report are not hashed: no outcome depends on them, and the hashes of logs and snapshots
    /// that are older than these fields stay valid. The reference model compares these fields.
    fn machine(&mut self, row: &MachineSnapshot, load: Option<&Amounts>) {
        (row.status, row.incarnation, row.sequence, &row.machine, load).hash(self);
    }

    /// Hashes a job's versions. Adds nothing if the job was never updated.
    fn versions(&mut self, versions: &[JobVersion]) {
        if !versions.is_empty() {
            ("versions", versions).hash(self);
        }
    }

    /// Hashes that a job was killed. Not called for other jobs.
    fn killed(&mut self) {
        "killed".hash(self);
    }

    /// Hashes the state of a waiting gang. Adds nothing if the job has none, so that cells without gangs keep their
    /// hashes.
    fn gang_wait(&mut self, wait: Option<GangWait>) {
        if let Some(wait) = wait {
            ("held", wait).hash(self);
        }
    }

    /// Hashes an allocation that differs from the request of the task's group.
    fn task_override(&mut self, index: u32, amounts: &Amounts) {
        ("holds", index, amounts).hash(self);
    }

    /// Hashes the exclusive cores of a task that has some.
    fn task_cores(&mut self, index: u32, cores: &NodeCores) {
        ("cores", index, cores).hash(self);
    }

    /// Hashes the ports that the cell chose for a task, if it chose any.
    fn task_ports(&mut self, index: u32, ports: &[u16]) {
        ("ports", index, ports).hash(self);
    }

    fn ended<'a>(&mut self, ended: impl IntoIterator<Item = &'a (JobId, Option<u64>)>) {
        let mut count = 0u64;
        ended.into_iter().for_each(|job| (count += 1, job.hash(self)).1);
        self.write_u64(count);
    }

    fn tenant(&mut self, name: &Text, limit: Option<&Amounts>) {
        (name, limit).hash(self);
    }

    fn admission(&mut self, name: &Text, limit: Option<&Amounts>) {
        if let Some(limit) = limit {
            ("admits", name, limit).hash(self);
        }
    }

    /// Hashes a tenant's configuration. Adds nothing if the tenant is not configured, so that cells without configured
    /// tenants keep their hashes.
    fn tenant_config(&mut self, name: &Text, tenant_config: &TenantConfig) {
        if *tenant_config != TenantConfig::default() {
            (name, tenant_config).hash(self);
        }
    }

    /// Hashes the bands, the eviction limit and the evictions within its span. Adds nothing if the cell has neither
    /// bands nor an eviction limit.
    fn preemption(&mut self, policy: &Policy, evicted: impl Iterator<Item = (u64, u32)>) {
        if !policy.bands.is_empty() {
            ("bands", &policy.bands).hash(self);
        }
        if let Some(cap) = policy.eviction_cap {
            ("cap", cap).hash(self);
            evicted.for_each(|one| one.hash(self));
        }
    }

    fn scheduler<'a>(
        &mut self,
        name: &Text,
        lease: Option<Lease>,
        floor: u64,
        reply_cache: impl Iterator<Item = &'a CachedReply>,
    ) {
        (name, lease, floor).hash(self);
        let mut count = 0u64;
        reply_cache.for_each(|reply| (count += 1, reply.hash(self)).1);
        self.write_u64(count);
    }
}
