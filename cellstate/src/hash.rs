//! One number for the whole state: replicas that applied the same commands have the same.
//!
//! Everything that a future answer can depend on goes in, in the order of ids and names. What is
//! derived from it (sets, counters, lists by machine) stays out: the audit compares those.

use crate::cell::Cell;
use std::hash::{Hash, Hasher};
use xxhash_rust::xxh3::Xxh3;

impl Cell {
    /// The hash of the state. It walks everything: for tests, snapshots and alarms.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut hash = Xxh3::new();
        self.kinds.iter().for_each(|(_, kind)| kind.hash(&mut hash));
        hash.write_u64(self.version.0);
        hash.write_u64(self.now_ms);
        hash.write_u64(self.policy.keep_ended_ms);
        self.policy.overcommit_max.hash(&mut hash);
        self.hash_machines(&mut hash);
        self.hash_jobs(&mut hash);
        for tenant in self.tenants.iter() {
            (&tenant.name, &tenant.limit, &tenant.used).hash(&mut hash);
        }
        for scheduler in &self.schedulers {
            (&scheduler.name, &scheduler.answers).hash(&mut hash);
        }
        hash.finish()
    }

    fn hash_machines(&self, hash: &mut Xxh3) {
        for slot in 0..self.machines.row_count() {
            let row = self.machines.row(slot);
            (row.status, row.incarnation, row.sequence).hash(hash);
            self.facts.machines[slot].hash(hash);
            self.machines.load(slot).hash(hash);
        }
        self.machines.vacant().hash(hash);
    }

    fn hash_jobs(&self, hash: &mut Xxh3) {
        hash.write_u64(self.jobs.next_id().0);
        for (id, job) in self.jobs.iter() {
            (id, &job.spec, job.resized).hash(hash);
            job.tasks.hash(hash);
        }
        self.ended.hash(hash);
    }
}
