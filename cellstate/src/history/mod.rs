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

mod departed;
mod event;
mod events;
mod notes;
mod ring;

pub use event::{Event, EventKind, EventsOf};
pub use events::{EventPosition, Events};

use departed::Departed;
use omega_core::{JobId, MachineId, Text};
use ring::Ring;

/// Bytes of both rings of a served cell, enough for some 90,000 events.
pub const HISTORY_BYTES: usize = 16 << 20;

/// Maximum number of tasks whose end one command records. The job or the machine has an event in any case. The events
/// of a million tasks would push those of all other jobs out of the history.
pub const TASKS_NOTED_MAX: usize = 1024;

/// Bytes of the rings for each name of a departed job and machine that is kept: a name for some three events.
const DEPARTED_BYTES: usize = 512;

/// The two rings of events. See the module documentation.
#[derive(Clone, Debug)]
pub struct History {
    ordinary: Ring,
    notable: Ring,
    next: u64,
    /// Names of deleted and forgotten jobs.
    jobs: Departed<JobId>,
    /// Names of removed machines.
    machines: Departed<MachineId>,
}

impl History {
    pub fn new(bytes: usize) -> History {
        let names = bytes / DEPARTED_BYTES;
        History {
            ordinary: Ring::new(bytes / 2),
            notable: Ring::new(bytes / 2),
            next: 0,
            jobs: Departed::new(names),
            machines: Departed::new(names),
        }
    }

    /// Records the name of a job that is removed from the state.
    pub fn job_departs(&mut self, job: JobId, name: Text) {
        self.jobs.add(job, name);
    }

    /// Records the name of a machine that is removed.
    pub fn machine_departs(&mut self, machine: MachineId, name: Text) {
        self.machines.add(machine, name);
    }

    pub fn push(&mut self, event: Event, at_ms: u64) {
        let event = Event { number: self.next, at_ms, ..event };
        self.next += 1;
        let ring = if event.kind.is_ordinary() { &mut self.ordinary } else { &mut self.notable };
        ring.push(event);
    }
}
