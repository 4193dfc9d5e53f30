//! Recording of a cell's events, and queries.

use super::{Event, EventKind, EventPosition, Events, EventsOf, History};
use crate::cell::Cell;
use crate::commit::{Scratch, Step};
use omega_core::{Item, JobId, Machine, MachineId, TaskId, Text, Transaction};
use std::collections::BTreeMap;

impl Cell {
    /// Drops the recorded events, and limits later ones to this many bytes. With 0, no events are kept.
    pub fn keep_history(&mut self, bytes: usize) {
        self.history = (bytes > 0).then(|| Box::new(History::new(bytes)));
    }

    /// Takes over the events of an earlier state of this cell. Events between the two states are missing.
    pub fn adopt_history(&mut self, earlier: &mut Cell) {
        self.history = earlier.history.take();
    }

    /// Events of a job and its tasks, the newest first.
    pub fn job_events(&self, job: JobId) -> impl Iterator<Item = &Event> {
        self.events(EventsOf::Job(job))
    }

    /// Events of a job or a machine, the newest first. A reader can stop after some, and continue with
    /// [`Cell::events_from`].
    #[must_use]
    pub fn events(&self, of: EventsOf) -> Events<'_> {
        Events::newest(self.history.as_deref(), of)
    }

    /// The events from a position on.
    #[must_use]
    pub fn events_from(&self, position: EventPosition) -> Events<'_> {
        Events::from(self.history.as_deref(), position)
    }

    /// Events of a machine and of the tasks on it, the newest first.
    pub fn machine_events(&self, machine: MachineId) -> impl Iterator<Item = &Event> {
        self.events(EventsOf::Machine(machine))
    }

    /// The former name of a job that the cell has deleted or forgotten; `None` if it is not known any more.
    #[must_use]
    pub fn departed_job(&self, job: JobId) -> Option<&Text> {
        self.history.as_ref()?.jobs.name(job)
    }

    /// The former name of a removed machine; `None` if it is not known any more.
    #[must_use]
    pub fn departed_machine(&self, machine: MachineId) -> Option<&Text> {
        self.history.as_ref()?.machines.name(machine)
    }

    /// Number of times that the task failed and became pending again.
    #[must_use]
    pub fn task_failures(&self, id: TaskId) -> u32 {
        self.jobs.task(id).map_or(0, |(_, task)| task.failures.into())
    }

    /// Records an event, if events are kept.
    pub(crate) fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(history) = &mut self.history {
            history.push(event(), self.now_ms);
        }
    }

    /// Records the changes of a commit.
    pub(crate) fn note_commit(&mut self, txn: &Transaction, scratch: &Scratch) {
        let Cell { history: Some(history), machines, now_ms, .. } = self else { return };
        let stayed =
            scratch.conflicts.iter().filter(|c| matches!(c.item, Item::Release(_))).count();
        // Releases are checked before evictions, so their steps come first.
        let released = txn.releases.len().saturating_sub(stayed);
        let scheduler = txn.id.scheduler;
        let successors =
            if txn.evictions.is_empty() { BTreeMap::new() } else { successors(scratch) };
        for (position, step) in scratch.steps.iter().enumerate() {
            let (task, kind) = match *step {
                Step::Placed { task, .. } => (task, EventKind::Placed { scheduler }),
                Step::Removed { task, .. } if position < released => {
                    (task, EventKind::Released { scheduler })
                }
                Step::Removed { task, slot, .. } => {
                    let by = successors.get(&slot).copied();
                    (task, EventKind::Evicted { scheduler, by })
                }
                Step::Resized { .. } => continue,
            };
            let machine = machines.id(step.slot() as usize);
            history.push(Event::of_task(task, kind).on(machine), *now_ms);
        }
    }

    /// Records the changes of a machine's description.
    pub(crate) fn note_update(&mut self, id: MachineId, old: &Machine, new: &Machine) {
        if self.history.is_none() {
            return;
        }
        let has = |machine: &Machine, key: &str| machine.taints.iter().any(|t| *t.key == *key);
        for taint in new.taints.iter().filter(|taint| !has(old, &taint.key)) {
            self.note(|| Event::of_machine(id, EventKind::Tainted(taint.key.clone())));
        }
        for taint in old.taints.iter().filter(|taint| !has(new, &taint.key)) {
            self.note(|| Event::of_machine(id, EventKind::Untainted(taint.key.clone())));
        }
        let rest = Machine { taints: old.taints.clone(), ..new.clone() };
        if rest != *old {
            self.note(|| Event::of_machine(id, EventKind::Updated));
        }
    }
}

/// For each machine, the first job with a task that this transaction placed there.
fn successors(scratch: &Scratch) -> BTreeMap<u32, JobId> {
    let mut successors = BTreeMap::new();
    for step in &scratch.steps {
        if let Step::Placed { task, slot, .. } = step {
            successors.entry(*slot).or_insert(task.job);
        }
    }
    successors
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Command, Job, Kinds, Outcome, TaskGroup};

    fn submit(cell: &mut Cell, name: &str, tasks: u32) -> JobId {
        let job = Job::batch(name, TaskGroup::new(tasks, Amounts::new([1])));
        match cell.apply(Command::SubmitJob(job)) {
            Ok(Outcome::Job(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    /// The number of kill events of a job.
    fn killed(cell: &Cell, job: JobId) -> usize {
        cell.job_events(job).filter(|event| event.kind == EventKind::Killed).count()
    }

    #[test]
    fn names_of_deleted_jobs_and_removed_machines_are_kept() {
        let mut cell = Cell::new(Kinds::standard());
        cell.keep_history(1 << 20);
        let machine = Machine::new("box", Amounts::new([8]));
        let Ok(Outcome::Machine(id)) = cell.apply(Command::RegisterMachine(machine)) else {
            panic!("a machine")
        };
        let job = submit(&mut cell, "web", 1);
        assert_eq!((cell.departed_job(job), cell.departed_machine(id)), (None, None));
        cell.apply(Command::DeleteJob { job }).unwrap();
        cell.apply(Command::RemoveMachine { id }).unwrap();
        assert_eq!(cell.departed_job(job).map(|name| &**name), Some("web"));
        assert_eq!(cell.departed_machine(id).map(|name| &**name), Some("box"));
    }

    #[test]
    fn events_that_are_read_in_parts_are_those_that_are_read_at_once() {
        let mut cell = Cell::new(Kinds::standard());
        cell.keep_history(1 << 20);
        let job = submit(&mut cell, "job", 50);
        let other = submit(&mut cell, "other", 50);
        for id in [other, job] {
            let group = cell.job(id).unwrap().groups[0].name.clone();
            cell.apply(Command::ResizeGroup { job: id, group, count: 10 }).unwrap();
        }
        let all: Vec<Event> = cell.job_events(job).cloned().collect();
        assert_eq!(all.len(), 42, "submitted, resized, and 40 tasks killed");
        let mut parts = Vec::new();
        let mut position = cell.events(EventsOf::Job(job)).position();
        loop {
            let mut events = cell.events_from(position);
            let before = parts.len();
            parts.extend(events.by_ref().take(7).cloned());
            position = events.position();
            if parts.len() == before {
                break;
            }
            cell.apply(Command::KillJob { job: other }).unwrap();
            submit(&mut cell, &format!("later{before}"), 1);
        }
        assert_eq!(parts, all, "events that are added meanwhile change nothing");
    }

    #[test]
    fn many_tasks_that_end_at_once_leave_the_events_of_others() {
        let mut cell = Cell::new(Kinds::standard());
        cell.keep_history(1 << 20);
        let other = submit(&mut cell, "other", 1);
        cell.apply(Command::KillJob { job: other }).unwrap();
        let job = submit(&mut cell, "large", 50_000);
        let group = cell.job(job).unwrap().groups[0].name.clone();
        cell.apply(Command::ResizeGroup { job, group, count: 1 }).unwrap();
        assert_eq!((killed(&cell, other), killed(&cell, job)), (1, super::super::TASKS_NOTED_MAX));
        assert!(cell.job_events(job).any(|event| matches!(event.kind, EventKind::Resized { .. })));
        assert_eq!(cell.job_events(other).count(), 3, "submitted, killed, ended");
    }
}
