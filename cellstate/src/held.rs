//! Allocations that differ from the request of the task's group.
//!
//! There are two cases: tasks that got their optional resources, and resized tasks. The allocation ends when the task
//! leaves its machine. When the task is placed again, its group's request applies. Nearly all jobs have no such task,
//! and then a lookup costs one test of an empty list.

use crate::facts::Need;
use crate::jobs::JobRecord;
use crate::machines::Part;
use crate::sparse::Sparse;
use omega_core::{Amounts, DeviceRequest, Take};
use smallvec::SmallVec;

/// An amount of every kind, in order.
pub(crate) type Values = SmallVec<[i64; 4]>;

/// Allocations that differ from the request, by task index.
///
/// Invariant: each listed task is placed, and its allocation differs from its group's request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Sparse<Values>);

impl Held {
    /// All entries, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Amounts)> {
        self.0.iter().map(|(index, values)| (index, amounts_of(values)))
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Values> {
        self.0.get(index)
    }

    /// Removes and returns the entry of a task.
    #[inline]
    pub(crate) fn take(&mut self, index: u32) -> Option<Values> {
        self.0.remove(index)
    }
}

impl JobRecord {
    /// The allocation of a placed task, with its demand profiles and cores.
    #[inline]
    pub(crate) fn part(&self, index: u32) -> Part<'_> {
        let task = &self.tasks[index as usize];
        let need = self.need(task);
        let held = self.held.get(index);
        let request = held.unwrap_or(&need.request);
        // A resized task has constant amounts all day.
        let demand_profiles = need.demand_profiles.as_deref().filter(|_| held.is_none());
        let cores = self.cores.get(index);
        Part {
            request,
            demand_profiles,
            devices: need.devices_of_placed(),
            chosen: task.devices,
            cores,
        }
    }

    /// Records the allocation of a task that is placed or is just being placed.
    pub(crate) fn hold(&mut self, index: u32, values: Values) {
        if values == self.need(&self.tasks[index as usize]).request {
            _ = self.held.0.remove(index)
        } else {
            self.held.0.insert(index, values)
        }
    }

    /// Whether the entries satisfy the invariants of [`Held`] and of the exclusive cores.
    pub(crate) fn held_is_right(&self) -> bool {
        let placed = |index: u32| {
            let task = self.tasks.get(index as usize);
            task.is_some_and(|task| task.state.machine().is_some())
        };
        if !self.cores.iter().all(|(index, _)| placed(index)) {
            return false;
        }
        self.held.0.iter().all(|(index, values)| {
            self.tasks.get(index as usize).is_some_and(|task| {
                task.state.machine().is_some() && *values != self.need(task).request
            })
        })
    }
}

impl Need {
    /// The amounts and the device request of a claim. `take` selects whether they include the optional resources.
    #[inline]
    pub(crate) fn taken(&self, take: Take) -> (&Values, Option<DeviceRequest>) {
        match (take, &self.optional) {
            (Take::WithOptional, Some(with)) => (&with.request, with.devices),
            _ => (&self.request, self.devices),
        }
    }

    /// The device request of a placed task that has devices: that of the group's request or of its optional resources.
    #[inline]
    pub(crate) fn devices_of_placed(&self) -> Option<DeviceRequest> {
        self.devices.or_else(|| self.optional.as_ref()?.devices)
    }
}

/// Converts amounts to one value per kind.
pub(crate) fn values_of(amounts: &Amounts, kinds: usize) -> Values {
    let mut values: Values = amounts.as_slice().iter().map(|amount| *amount as i64).collect();
    values.resize(kinds, 0);
    values
}

/// Converts values per kind to amounts.
pub(crate) fn amounts_of(values: &[i64]) -> Amounts {
    Amounts::new(values.iter().map(|value| *value as u64))
}
