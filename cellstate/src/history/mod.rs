//! Events of jobs, tasks and machines: a bounded record of the recent past, for people.
//!
//! ```text
//!   commands ──▶ state ── note ──▶ ordinary ring: placed, started, finished
//!                          └─────▶ notable ring:  all other events, which are rarer and matter for longer
//! ```
//!
//! The rings are not part of the state: no outcome depends on them, and they are neither hashed nor saved in snapshots.
//! Each replica derives its events from the commands that it applies, so two replicas have equal events as far back as
//! both their rings reach. If a cell keeps no events, each event costs one comparison.

mod event;
mod notes;
mod ring;

pub use event::{Event, EventKind};

use omega_core::{JobId, MachineId};
use ring::Ring;

/// Bytes of both rings of a served cell, enough for some 90,000 events.
pub const HISTORY_BYTES: usize = 16 << 20;

/// Maximum number of tasks whose end one command records. The job or the machine has an event in any case. The events
/// of a million tasks would push those of all other jobs out of the history.
pub const TASKS_NOTED_MAX: usize = 1024;

/// The two rings of events. See the module documentation.
#[derive(Clone, Debug)]
pub struct History {
    ordinary: Ring,
    notable: Ring,
    next: u64,
}

impl History {
    pub fn new(bytes: usize) -> History {
        History { ordinary: Ring::new(bytes / 2), notable: Ring::new(bytes / 2), next: 0 }
    }

    pub fn push(&mut self, event: Event, at_ms: u64) {
        let event = Event { number: self.next, at_ms, ..event };
        self.next += 1;
        let ring = if event.kind.is_ordinary() { &mut self.ordinary } else { &mut self.notable };
        ring.push(event);
    }

    /// Events of a job and its tasks, the newest first.
    pub fn of_job(&self, job: JobId) -> impl Iterator<Item = &Event> {
        newest_first(self.ordinary.of_job(job), self.notable.of_job(job))
    }

    /// Events of a machine and of the tasks on it, the newest first.
    pub fn of_machine(&self, machine: MachineId) -> impl Iterator<Item = &Event> {
        newest_first(self.ordinary.of_machine(machine), self.notable.of_machine(machine))
    }
}

/// Merges two descending lists of events.
fn newest_first<'h>(
    one: impl Iterator<Item = &'h Event>,
    other: impl Iterator<Item = &'h Event>,
) -> impl Iterator<Item = &'h Event> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || {
        let is_first = match (one.peek(), other.peek()) {
            (Some(first), Some(second)) => first.number > second.number,
            (first, _) => first.is_some(),
        };
        if is_first { one.next() } else { other.next() }
    })
}
