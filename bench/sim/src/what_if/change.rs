//! Changes of a what-if run: more or fewer machines, drained or removed machines, and more or fewer jobs.

use super::Now;
use crate::capacity::scale;
use crate::free_name::free_name;
use omega_core::{Machine, Text};
use omega_workload::RunTime;
use omega_workload::alike::Alike;
use std::collections::HashSet;

/// Changes of the cell. Empty by default.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// New number of machines, with the same proportions of kinds of machines.
    pub machines: Option<usize>,
    /// Additional machines.
    pub add: Vec<Alike>,
    /// Machines to drain. They accept no new tasks, and keep their running tasks.
    pub drain: Vec<String>,
    /// Machines to remove; their tasks become pending.
    pub remove: Vec<String>,
    /// Load as a multiple of the cell's jobs, in thousandths; `None` for no change.
    pub load: Option<u64>,
}

/// Error of an impossible change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// No machine has this name. Name an existing machine.
    #[error("the cell has no machine {0:?}")]
    NoMachine(String),
    /// The change would remove all machines. Keep at least one.
    #[error("the change would remove every machine: leave at least one")]
    NoneLeft,
}

impl Change {
    /// Returns the changed cell.
    ///
    /// # Errors
    /// If a named machine does not exist, or no machine would be left.
    pub fn made(&self, now: &Now) -> Result<Now, ChangeError> {
        let mut then = now.clone();
        let drained = self.positions(now, &self.drain)?;
        let removed = self.positions(now, &self.remove)?;
        then.start.draining.extend(drained);
        if !removed.is_empty() {
            then.remove(&removed);
        }
        if let Some(count) = self.machines {
            let (scaled, place) = scale::machines_moved(&then.workload, count);
            then.workload = scaled;
            then.follow(&place);
        }
        then.add(&self.add);
        if then.workload.machines.is_empty() {
            return Err(ChangeError::NoneLeft);
        }
        if let Some(thousandths) = self.load {
            then.workload = scale::load(&then.workload, thousandths);
        }
        then.begin_again();
        Ok(then)
    }

    fn positions(&self, now: &Now, names: &[String]) -> Result<Vec<u32>, ChangeError> {
        let machines = &now.workload.machines;
        let position = |name: &String| {
            let at = machines.iter().position(|machine| *machine.name == **name);
            at.map(|at| at as u32).ok_or_else(|| ChangeError::NoMachine(name.clone()))
        };
        names.iter().map(position).collect()
    }
}

impl Now {
    /// Adds machines, which are named `added-0`, `added-1`, ….
    fn add(&mut self, add: &[Alike]) {
        let machines = &mut self.workload.machines;
        let taken: HashSet<Text> = machines.iter().map(|machine| machine.name.clone()).collect();
        let added = add.iter().flat_map(Alike::machines).enumerate();
        machines.extend(added.map(|(i, machine)| {
            let name = free_name("added", &format!("-{i}"), |name| taken.contains(name));
            Machine { name, ..machine }
        }));
    }

    /// Removes machines; their tasks become pending.
    fn remove(&mut self, removed: &[u32]) {
        let (mut place, mut kept) = (Vec::new(), Vec::new());
        for (position, machine) in (0..).zip(self.workload.machines.drain(..)) {
            let stays = !removed.contains(&position);
            place.push(stays.then_some(kept.len() as u32));
            if stays {
                kept.push(machine);
            }
        }
        self.workload.machines = kept;
        for arrival in &mut self.workload.arrivals {
            scale::moved(&mut arrival.placed, &place);
        }
        self.follow(&place);
    }

    /// Resets the remaining run time of a task to its whole run time, because it lost its machine or is a copy.
    fn begin_again(&mut self) {
        for arrival in &mut self.workload.arrivals {
            let whole_ms = self.assumed.whole_ms(&arrival.job);
            let RunTime::Each(left) = &mut arrival.run else { continue };
            for (task, left) in (0..).zip(left) {
                if arrival.placed.binary_search_by_key(&task, |(placed, _)| *placed).is_err() {
                    *left = whole_ms;
                }
            }
        }
    }

    /// Updates the positions of draining machines. Jobs with a task that lost its machine now arrive as pending jobs.
    fn follow(&mut self, place: &[Option<u32>]) {
        let new = self.start.draining.iter().filter_map(|position| place[*position as usize]);
        self.start.draining = new.collect();
        for arrival in &mut self.workload.arrivals {
            if (arrival.placed.len() as u64) < arrival.job.task_count() {
                arrival.at_ms = super::WAITING_AT_MS;
            }
        }
        self.workload.arrivals.sort_by_key(|arrival| arrival.at_ms);
    }
}
