//! What placed tasks hold of their machines, where that is not what their group requests.
//!
//! A task that took what it wants holds more, and one that was resized holds what it was resized to. It does so as
//! long as it has its machine: a task without one needs its group's request again. For nearly all jobs nothing is
//! noted here, and whoever asks what a task holds pays for one look at an empty list.

use crate::facts::Need;
use crate::jobs::JobRecord;
use crate::machines::Part;
use crate::sparse::Sparse;
use omega_core::{Amounts, DeviceRequest, Take};
use smallvec::SmallVec;

/// An amount of every kind, in order.
pub(crate) type Values = SmallVec<[i64; 4]>;

/// By the number of the task, what it holds.
///
/// Invariant: each of these tasks has a machine, and holds something else than its group's request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held(Sparse<Values>);

impl Held {
    /// Each of them, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Amounts)> {
        self.0.iter().map(|(index, values)| (index, amounts_of(values)))
    }

    /// How many tasks there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Values> {
        self.0.get(index)
    }

    /// Forgets what a task holds. The answer is what was noted.
    #[inline]
    pub(crate) fn take(&mut self, index: u32) -> Option<Values> {
        self.0.remove(index)
    }
}

impl JobRecord {
    /// What a placed task has of its machine.
    #[inline]
    pub(crate) fn part(&self, index: u32) -> Part<'_> {
        let task = &self.tasks[index as usize];
        let need = self.need(task);
        let held = self.held.get(index);
        let request = held.unwrap_or(&need.request);
        // What a task holds otherwise it holds all day.
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

    /// Notes what a task holds, which has a machine or is about to get it.
    pub(crate) fn hold(&mut self, index: u32, values: Values) {
        match values == self.need(&self.tasks[index as usize]).request {
            true => _ = self.held.0.remove(index),
            false => self.held.0.insert(index, values),
        }
    }

    /// Whether what is noted keeps to the invariants of [`Held`] and of the cores that tasks have to themselves.
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
    /// What a claim takes of each kind, and the devices.
    #[inline]
    pub(crate) fn taken(&self, take: Take) -> (&Values, Option<DeviceRequest>) {
        match (take, &self.optional) {
            (Take::WithOptional, Some(with)) => (&with.request, with.devices),
            _ => (&self.request, self.devices),
        }
    }

    /// The request for devices of a task that has some: nobody has any that asked for none.
    #[inline]
    pub(crate) fn devices_of_placed(&self) -> Option<DeviceRequest> {
        self.devices.or_else(|| self.optional.as_ref()?.devices)
    }
}

/// These amounts as one of every kind.
pub(crate) fn values_of(amounts: &Amounts, kinds: usize) -> Values {
    let mut values: Values = amounts.as_slice().iter().map(|amount| *amount as i64).collect();
    values.resize(kinds, 0);
    values
}

/// The same back.
pub(crate) fn amounts_of(values: &[i64]) -> Amounts {
    Amounts::new(values.iter().map(|value| *value as u64))
}
