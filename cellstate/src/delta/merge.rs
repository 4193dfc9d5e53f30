//! Merging of two deltas.
//!
//! A view applies each list of a delta in order. Later entries replace earlier ones, and entries about removed objects
//! are ignored. So two deltas are merged by appending each list of the later delta to the same list of the earlier
//! delta.

use crate::delta::{Delta, JobDelta};
use crate::policy::{Columns, RowsAgain};
use crate::state::map::FastMap;
use omega_core::{JobId, JobKind};
use std::ops::Range;

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
        self.append_cell(&later);
        self.append_tasks(&later, 0..later.tasks.len() as u32);
        self.to = later.to;
        self.now_ms = later.now_ms;
        self.rows = later.rows;
        self.overcommit_max = later.overcommit_max;
        self.bands = later.bands;
        self.evictions_left = later.evictions_left;
        self.jobs.extend(later.jobs);
        self.drop_overtaken_ends();
    }

    /// Removes the end of each job that an update started again later, because views handle all ends last. The later
    /// entry of such a job comes with all its tasks. Only services are updated.
    pub(crate) fn drop_overtaken_ends(&mut self) {
        let is_service =
            |change: &JobDelta| change.job.as_ref().is_some_and(|job| job.kind == JobKind::Service);
        let jobs = self.jobs.iter().enumerate().filter(|(_, change)| is_service(change));
        let latest: FastMap<JobId, usize> = jobs.map(|(at, change)| (change.id, at)).collect();
        if latest.is_empty() {
            return;
        }
        let mut positions = 0..;
        self.jobs.retain(|change| {
            let at = positions.next();
            change.job.is_some() || latest.get(&change.id).copied() < at
        });
    }

    /// Appends all lists of a later delta except jobs and tasks.
    pub(crate) fn append_cell(&mut self, later: &Delta) {
        self.quotas |= later.quotas;
        self.tenants.extend_from_slice(&later.tenants);
        self.machines.extend_from_slice(&later.machines);
        // A row in the later delta replaces the whole row of the earlier one. So the row's earlier demand profiles and
        // policy columns are removed, even if the later delta has none for the row.
        let again = RowsAgain::new(&later.slots);
        again.forget_in(&mut self.demand_profiles);
        // A changed machine may have lost its devices, cores or load report. Otherwise, the later delta lists them
        // again, because it also lists the machine's row.
        let changed: Vec<u32> = later.machines.iter().map(|machine| machine.slot).collect();
        debug_assert!(later.full || changed.iter().all(|slot| again.has(*slot)));
        let changed = RowsAgain::new(&changed);
        changed.forget_in(&mut self.devices);
        changed.forget_in(&mut self.cores);
        changed.forget_in(&mut self.loads);
        self.policies.append(&later.policies, &again);
        self.demand_profiles.extend_from_slice(&later.demand_profiles);
        self.slots.extend_from_slice(&later.slots);
        self.sequences.extend_from_slice(&later.sequences);
        self.free.extend_from_slice(&later.free);
        self.devices.extend_from_slice(&later.devices);
        self.cores.extend_from_slice(&later.cores);
        self.loads.extend_from_slice(&later.loads);
        self.trackers.extend_from_slice(&later.trackers);
        self.counts.extend_from_slice(&later.counts);
    }

    /// Appends the tasks of a later delta in a range of positions, with their allocations.
    pub(crate) fn append_tasks(&mut self, later: &Delta, range: Range<u32>) {
        let (from, to) = (range.start, self.tasks.len() as u32);
        let allocations = within(&later.allocations, &range).iter();
        self.allocations.extend(allocations.map(|(at, amounts)| (at - from + to, amounts.clone())));
        let cores = within(&later.task_cores, &range).iter();
        self.task_cores.extend(cores.map(|(at, cores)| (at - from + to, *cores)));
        self.tasks.extend_from_slice(&later.tasks[from as usize..range.end as usize]);
    }
}

/// The entries of an ascending list whose positions are in a range.
fn within<'a, T>(list: &'a [(u32, T)], range: &Range<u32>) -> &'a [(u32, T)] {
    let before = |end: u32| list.partition_point(|(at, _)| *at < end);
    &list[before(range.start)..before(range.end)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;
    use crate::delta::Interest;
    use omega_core::{
        Amounts, Command, Job, KindId, Kinds, Machine, MachineId, NodeCores, Outcome, TaskGroup,
    };
    use std::sync::Arc;

    #[test]
    fn a_job_that_was_started_again_has_not_ended() {
        let job = |kind| {
            Some(Arc::new(Job { kind, ..Job::batch("job", TaskGroup::new(1, Amounts::zero())) }))
        };
        let change = |id, job| JobDelta { id: JobId(id), job };
        let (batch, service) = (job(JobKind::Batch), job(JobKind::Service));
        let mut delta =
            Delta { jobs: vec![change(0, batch.clone()), change(0, None)], ..Delta::default() };
        delta.jobs.extend([change(1, None), change(2, service.clone()), change(2, None)]);
        delta.jobs.extend([change(1, service.clone()), change(3, None)]);
        delta.drop_overtaken_ends();
        let expected = [(0, true), (0, false), (2, true), (2, false), (1, true), (3, false)];
        let found = delta.jobs.iter().map(|change| (change.id.0, change.job.is_some()));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn only_a_machine_that_left_loses_its_devices_cores_and_load() {
        let mut cell = Cell::new(Kinds::standard());
        let apply = |cell: &mut Cell, command| cell.apply(command).unwrap();
        apply(&mut cell, Command::RegisterMachine(Machine::new("other", Amounts::new([1]))));
        let before = cell.version();
        let add = |name: &str| {
            let gpus = KindId(3);
            let machine = Machine::new(name, Amounts::new([4000])).with_devices(gpus, 2);
            Command::RegisterMachine(Machine { numa: NodeCores::NONE.with(0, 4), ..machine })
        };
        let ids: Vec<MachineId> = ["leaves", "is drained"]
            .map(|name| match apply(&mut cell, add(name)) {
                Outcome::Machine(id) => id,
                other => panic!("{other:?}"),
            })
            .into();
        for id in &ids {
            apply(&mut cell, Command::ReportLoad { id: *id, load: Amounts::new([1]) });
        }
        let mut merged = Delta { lineage: cell.lineage, ..Delta::default() };
        cell.delta_since(before, &Interest::Machines, &mut merged);
        let rows = |delta: &Delta| {
            let devices: Vec<u32> = delta.devices.iter().map(|(slot, _)| *slot).collect();
            let cores: Vec<u32> = delta.cores.iter().map(|(slot, _)| *slot).collect();
            let loads: Vec<u32> = delta.loads.iter().map(|(slot, _)| *slot).collect();
            [devices, cores, loads].map(|mut slots| {
                slots.sort_unstable();
                slots.dedup();
                slots
            })
        };
        assert_eq!(rows(&merged), [vec![1, 2], vec![1, 2], vec![1, 2]]);
        apply(&mut cell, Command::RemoveMachine { id: ids[0] });
        apply(&mut cell, Command::DrainMachine { id: ids[1], draining: true });
        let mut later = Delta { lineage: cell.lineage, ..Delta::default() };
        cell.delta_since(merged.to, &Interest::Machines, &mut later);
        merged.append(later);
        assert_eq!(rows(&merged), [[2], [2], [2]]);
    }
}
