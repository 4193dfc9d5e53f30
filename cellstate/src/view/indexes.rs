//! Indexes of placed tasks. A view keeps an index only if something reads it.

use crate::delta::Delta;
use crate::view::departures::Departures;
use crate::view::job_places::Places;
use crate::view::placements::Placements;
use omega_core::{JobId, MachineId, TaskId};

/// The indexes of placed tasks. A change for an index that is not kept has no effect.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    placements: Option<Box<Placements>>,
    job_places: Option<Box<Places>>,
    departures: Option<Box<Departures>>,
}

impl Indexes {
    /// Applies a delta of a cell with this number of kinds.
    pub(super) fn apply(&mut self, delta: &Delta, kinds: usize) {
        if let Some(placements) = &mut self.placements {
            placements.apply(delta, kinds);
        }
        if let Some(places) = &mut self.job_places {
            places.apply(delta);
        }
        if let Some(departures) = &mut self.departures {
            departures.apply(delta);
        }
    }

    pub(super) fn keep_placements(&mut self) {
        self.placements = Some(Box::default());
    }

    #[inline]
    pub(super) fn placements(&self) -> Option<&Placements> {
        self.placements.as_deref()
    }

    pub(super) fn placements_mut(&mut self) -> Option<&mut Placements> {
        self.placements.as_deref_mut()
    }

    /// Keeps the compiled groups of a job, even if they were compiled only to lift tasks.
    #[inline]
    pub(super) fn keep_compiled(&mut self, job: JobId) {
        if let Some(placements) = &mut self.placements {
            placements.keep_compiled(job);
        }
    }

    /// Starts to keep the places of each job's tasks. Returns `false` if they were kept already.
    pub(super) fn keep_job_places(&mut self) -> bool {
        let is_new = self.job_places.is_none();
        self.job_places.get_or_insert_default();
        is_new
    }

    #[inline]
    pub(super) fn job_places(&self) -> Option<&Places> {
        self.job_places.as_deref()
    }

    /// Adds a task of a job to a row if `sign` is -1, removes it if it is 1. The sign is that of the change in free
    /// amounts.
    #[inline]
    pub(super) fn count_of_job(&mut self, job: JobId, row: usize, sign: i64) {
        if let Some(places) = &mut self.job_places {
            places.add(job, row as u32, -sign as i32);
        }
    }

    /// Records that a claim was accepted. Its task is counted already.
    pub(super) fn placed(&mut self, task: TaskId, machine: MachineId) {
        if let Some(places) = &mut self.job_places {
            places.placed(task, machine);
        }
    }

    /// Records that an eviction was accepted. The evicted task is no longer counted.
    pub(super) fn evicted(&mut self, task: TaskId) {
        if let Some(places) = &mut self.job_places {
            places.evicted(task);
        }
    }

    pub(super) fn keep_departures(&mut self) {
        self.departures = Some(Box::default());
    }

    #[inline]
    pub(super) fn departures(&self) -> Option<&Departures> {
        self.departures.as_deref()
    }

    #[inline]
    pub(super) fn departures_mut(&mut self) -> Option<&mut Departures> {
        self.departures.as_deref_mut()
    }
}
