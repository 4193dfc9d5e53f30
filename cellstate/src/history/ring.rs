//! A ring of events, with linked lists of the events of each job and of each machine.
//!
//! Each event has the positions of the previous event of its job and of the previous event of its machine. Two maps
//! have the position of the latest event of each job and of each machine. A list ends at a position below the oldest
//! entry, because the event there was dropped.

use super::event::{Event, EventsOf};
use crate::state::map::FastMap;
use omega_core::{JobId, MachineId};
use std::collections::VecDeque;

/// An event, with its links to earlier ones.
#[derive(Clone, Debug)]
struct Entry {
    event: Event,
    /// Position of the previous event of this job plus one; 0 if there is none.
    before_of_job: u64,
    before_of_machine: u64,
}

/// Upper bound of an event's bytes without its heap data: one entry in the ring, and one in each map. Map entries count
/// twice, because a map has spare room.
const ENTRY_BYTES: usize =
    size_of::<Entry>() + 2 * (size_of::<(JobId, u64)>() + size_of::<(MachineId, u64)>());

/// A ring of events. See the module documentation. Positions are numbered over all events ever added.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    /// Position of the oldest entry.
    first: u64,
    last_of_job: FastMap<JobId, u64>,
    last_of_machine: FastMap<MachineId, u64>,
    bytes: usize,
    bytes_max: usize,
}

impl Ring {
    pub(super) fn new(bytes_max: usize) -> Ring {
        Ring {
            entries: VecDeque::new(),
            first: 0,
            last_of_job: FastMap::default(),
            last_of_machine: FastMap::default(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(super) fn push(&mut self, event: Event) {
        self.bytes += ENTRY_BYTES + event.heap_bytes();
        while self.bytes > self.bytes_max && self.drop_oldest() {}
        let position = self.first + self.entries.len() as u64 + 1;
        let job = event.job.and_then(|job| self.last_of_job.insert(job, position));
        let machine = event.machine.and_then(|id| self.last_of_machine.insert(id, position));
        let (before_of_job, before_of_machine) =
            (job.unwrap_or_default(), machine.unwrap_or_default());
        self.entries.push_back(Entry { event, before_of_job, before_of_machine });
    }

    /// Drops the oldest event. Returns whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let Some(Entry { event, .. }) = self.entries.pop_front() else { return false };
        self.first += 1;
        self.bytes -= ENTRY_BYTES + event.heap_bytes();
        if let Some(job) = event.job
            && self.last_of_job.get(&job) == Some(&self.first)
        {
            self.last_of_job.remove(&job);
        }
        if let Some(machine) = event.machine
            && self.last_of_machine.get(&machine) == Some(&self.first)
        {
            self.last_of_machine.remove(&machine);
        }
        true
    }

    /// The entry at `position - 1`; `None` for 0 and for a dropped entry.
    fn entry(&self, position: u64) -> Option<&Entry> {
        let index = position.checked_sub(self.first + 1)?;
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// Position of the latest event of a job or a machine, plus one; 0 if there is none.
    pub(super) fn last_of(&self, of: EventsOf) -> u64 {
        let last = match of {
            EventsOf::Job(job) => self.last_of_job.get(&job),
            EventsOf::Machine(machine) => self.last_of_machine.get(&machine),
        };
        last.copied().unwrap_or_default()
    }

    /// The event before a position that [`Ring::last_of`] or this function returned, and the position before that
    /// event; `None` if the event was dropped.
    pub(super) fn event_of(&self, of: EventsOf, position: u64) -> Option<(&Event, u64)> {
        let Entry { event, before_of_job, before_of_machine } = self.entry(position)?;
        match of {
            EventsOf::Job(job) => (event.job == Some(job)).then_some((event, *before_of_job)),
            EventsOf::Machine(machine) => {
                (event.machine == Some(machine)).then_some((event, *before_of_machine))
            }
        }
    }

    /// Events of a job, the newest first.
    #[cfg(test)]
    pub(super) fn of_job(&self, job: JobId) -> impl Iterator<Item = &Event> {
        let last = self.last_of_job.get(&job).and_then(|last| self.entry(*last));
        let chain = std::iter::successors(last, |entry| self.entry(entry.before_of_job));
        chain.map(|entry| &entry.event)
    }

    /// Events of a machine, the newest first.
    #[cfg(test)]
    pub(super) fn of_machine(&self, machine: MachineId) -> impl Iterator<Item = &Event> {
        let last = self.last_of_machine.get(&machine).and_then(|last| self.entry(*last));
        let chain = std::iter::successors(last, |entry| self.entry(entry.before_of_machine));
        chain.map(|entry| &entry.event)
    }

    #[cfg(test)]
    fn is_sound(&self) -> bool {
        let last = |position: &u64| self.entry(*position).is_some();
        self.bytes <= self.bytes_max
            && self.last_of_job.len() <= self.entries.len()
            && self.last_of_job.values().all(last)
            && self.last_of_machine.values().all(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::EventKind;
    use omega_core::TaskId;

    /// Compares the lists of a ring with a search of all events that the ring still has, while old events are dropped.
    #[test]
    fn lists_are_what_a_search_finds() {
        let mut ring = Ring::new(20 * ENTRY_BYTES);
        let mut all: Vec<Event> = Vec::new();
        for number in 0..500_u64 {
            let (job, machine) =
                (JobId(number * 7 % 5), MachineId::first((number * 11 % 3) as u32));
            let task = TaskId { job, index: number as u32 };
            let event = match number % 4 {
                0 => Event::of_job(job, EventKind::Killed),
                1 => Event::of_machine(machine, EventKind::Drained),
                _ => Event::of_task(task, EventKind::Started).on(machine),
            };
            all.push(Event { number, ..event.clone() });
            ring.push(Event { number, ..event });
            assert!(ring.is_sound());
            let kept = &all[all.len().saturating_sub(20)..];
            for job in (0..6).map(JobId) {
                let of_job = kept.iter().rev().filter(|event| event.job == Some(job));
                assert!(ring.of_job(job).eq(of_job), "{job} after {number}");
            }
            for machine in (0..4).map(MachineId::first) {
                let there = kept.iter().rev().filter(|event| event.machine == Some(machine));
                assert!(ring.of_machine(machine).eq(there), "{machine} after {number}");
            }
        }
    }

    #[test]
    fn an_event_that_does_not_fit_drops_all_others_and_stays() {
        let mut ring = Ring::new(1);
        ring.push(Event::of_job(JobId(1), EventKind::Killed));
        ring.push(Event::of_job(JobId(2), EventKind::Killed));
        assert_eq!((ring.of_job(JobId(1)).count(), ring.of_job(JobId(2)).count()), (0, 1));
    }
}
