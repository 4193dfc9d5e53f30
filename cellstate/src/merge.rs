//! Merging of two deltas.
//!
//! A view applies each list of a delta in order. Later entries replace earlier ones, and entries about removed objects
//! are ignored. So two deltas are merged by appending each list of the later delta to the same list of the earlier
//! delta.

use crate::delta::Delta;
use crate::policy::{Columns, RowsAgain};

impl Delta {
    /// Appends a delta that starts where this one ends. Applying the result is equivalent to applying both.
    ///
    /// # Panics
    /// `later` is not full, and it has another lineage or does not start where this delta ends.
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
        self.quotas |= later.quotas;
        self.tenants.extend(later.tenants);
        self.machines.extend(later.machines);
        // A row in the later delta replaces the whole row of the earlier one. So the row's earlier demand profiles and
        // policy columns are removed, even if the later delta has none for the row.
        let again = RowsAgain::new(&later.slots);
        again.forget_in(&mut self.demand_profiles);
        self.policies.append(later.policies, &again);
        self.demand_profiles.extend(later.demand_profiles);
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
