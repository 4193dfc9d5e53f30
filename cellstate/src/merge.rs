//! Two deltas as one.
//!
//! A view applies each list of a delta in order, what comes later counts, and what a list says of
//! something that an earlier list took away is ignored. So a later delta is put behind an earlier one,
//! list by list.

use crate::delta::Delta;
use std::collections::BTreeSet;

impl Delta {
    /// Puts a delta that starts where this one ends behind it. A view that applies the result is where
    /// it would be after both.
    ///
    /// # Panics
    /// If the other one neither is full nor starts where this one ends.
    pub fn append(&mut self, later: Delta) {
        if later.full {
            *self = later;
            return;
        }
        assert_eq!(later.from, self.to, "a delta goes on where the one before it ended");
        assert_eq!(later.lineage, self.lineage, "a delta goes on with the same numbers");
        self.to = later.to;
        self.now_ms = later.now_ms;
        self.rows = later.rows;
        self.overcommit_max = later.overcommit_max;
        self.bands = later.bands;
        self.evictions_left = later.evictions_left;
        self.resources = later.resources;
        self.quotas |= later.quotas;
        self.refilled |= later.refilled;
        self.reservations = later.reservations.or(self.reservations.take());
        self.tenants.extend(later.tenants);
        self.machines.extend(later.machines);
        let sums = self.demand_profiles.len() + self.batch.len() + self.tenant_counts.len();
        if sums > 0 {
            // What the later one says of a row is all there is, even if it says nothing of these.
            let again: BTreeSet<u32> = later.slots.iter().copied().collect();
            self.demand_profiles.retain(|(slot, _)| !again.contains(slot));
            let all = later.peaks.is_some();
            self.batch.retain(|(slot, _)| !all && !again.contains(slot));
            self.tenant_counts.retain(|(slot, _)| !again.contains(slot));
        }
        self.demand_profiles.extend(later.demand_profiles);
        self.batch.extend(later.batch);
        self.tenant_counts.extend(later.tenant_counts);
        self.peaks = later.peaks.or(self.peaks.take());
        self.slots.extend(later.slots);
        self.sequences.extend(later.sequences);
        self.free.extend(later.free);
        self.devices.extend(later.devices);
        self.cores.extend(later.cores);
        self.loads.extend(later.loads);
        self.trackers.extend(later.trackers);
        self.counts.extend(later.counts);
        self.jobs.extend(later.jobs);
        let before = self.tasks.len() as u32;
        self.held.extend(later.held.into_iter().map(|(at, amounts)| (before + at, amounts)));
        let cores = later.task_cores.into_iter();
        self.task_cores.extend(cores.map(|(at, cores)| (before + at, cores)));
        self.tasks.extend(later.tasks);
    }
}
