//! Clients of the frontends in a run: frameworks that get offers, and applications that request
//! containers.
//!
//! ```text
//!   jobs for `offers` ─▶ a framework for each tenant    ◀─ offers ─ front ─▶ cell
//!   jobs for `asks`   ─▶ an application for each job     ── asks ─▶ front ─▶ cell
//! ```
//!
//! Each frontend has a thread, which runs its clients and steps the frontend. Its commits are measured and reported to
//! the feeder like those of a scheduler; neither the cell nor the report distinguishes frontends from schedulers.

mod asks;
mod client;
mod offers;

use crate::cell::RunCell;
use crate::driver::message::IdleState;
use crate::meter::Meter;
use crate::{CLIENTS, RunError};
use client::{Client, Round};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use omega_cellstate::{CellHandle, CommitHook, HandleError};
use omega_core::{Job, Transaction, Version};
use omega_schedulers::{Clock, Nanos, Observer};
use omega_workload::Arrival;
use parking_lot::Mutex;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

/// Pause of a frontend without work.
const IDLE: Duration = Duration::from_millis(1);

/// A frontend that is not started yet.
pub(super) struct Fronted {
    name: &'static str,
    client: Box<dyn Client>,
    meter: Meter,
}

/// A frontend that has ended, with its results.
pub(super) struct Served {
    pub(super) name: &'static str,
    pub(super) meter: Meter,
}

/// The frontends for which a workload has jobs, in the order of [`CLIENTS`], each with its jobs.
pub(super) fn jobs(arrivals: &[Arrival]) -> Vec<(&'static str, Vec<Job>)> {
    let of = |name: &'static str| {
        let jobs = arrivals.iter().map(|arrival| &arrival.job);
        (name, jobs.filter(|job| *job.scheduler == *name).cloned().collect::<Vec<Job>>())
    };
    CLIENTS.into_iter().map(of).filter(|(_, jobs)| !jobs.is_empty()).collect()
}

/// Registers the frontends for these jobs. Cell handles are assigned round-robin. `meter` takes the index of a frontend
/// and returns its meter.
pub(super) fn register(
    jobs: Vec<(&'static str, Vec<Job>)>,
    cells: &[RunCell],
    meter: impl Fn(usize) -> Meter,
) -> Result<Vec<Fronted>, RunError> {
    let mut fronts = Vec::new();
    for (index, (name, jobs)) in jobs.into_iter().enumerate() {
        let cell = &cells[index % cells.len()];
        let client: Result<Box<dyn Client>, HandleError> = match name {
            "offers" => offers::Offers::new(cell, name, &jobs).map(|one| Box::new(one) as _),
            _ => asks::Asks::new(cell, name, jobs).map(|one| Box::new(one) as _),
        };
        let client = client.map_err(|why| RunError::Scheduler { name: name.into(), why })?;
        fronts.push(Fronted { name, client, meter: meter(index) });
    }
    Ok(fronts)
}

/// Frontends on threads.
pub(super) struct Fronts<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Front<'scope>>>,
    stop: Vec<Sender<()>>,
}

impl<'scope> Fronts<'scope> {
    /// Starts a thread for each frontend. Cell handles are assigned round-robin.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        clock: &'env dyn Clock,
        cells: &'env [RunCell],
        fronts: Vec<Fronted>,
    ) -> Fronts<'scope> {
        let mut all = Fronts { threads: Vec::new(), stop: Vec::new() };
        for (front, cell) in fronts.into_iter().zip(cells.iter().cycle()) {
            let (stop, stopped) = bounded(0);
            all.stop.push(stop);
            let front = Front::new(front, cell);
            all.threads.push(scope.spawn(move || serve(front, clock, &stopped)));
        }
        all
    }

    /// Number of frontends that have not ended.
    pub(super) fn running(&self) -> usize {
        self.threads.iter().filter(|thread| !thread.is_finished()).count()
    }

    /// Stops the frontends after their current round.
    ///
    /// # Errors
    /// If a frontend ended early, because the cell no longer answers.
    pub(super) fn stop(self) -> Result<Vec<Served>, RunError> {
        drop(self.stop);
        let join = |thread: ScopedJoinHandle<'_, Front<'_>>| {
            let front = thread.join();
            front.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).stop()
        };
        self.threads.into_iter().map(join).collect()
    }
}

/// Result of a frontend's round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// The frontend placed a task, or may place one in the next round.
    Work,
    /// The frontend placed no task, and will place none before the cell changes.
    Nothing,
    /// The cell did not answer, or rejects the frontend; see [`Front::is_running`].
    NoAnswer,
}

impl Did {
    /// Whether the frontend may sleep.
    pub(super) fn is_idle(self) -> bool {
        self != Did::Work
    }
}

/// A running frontend.
pub(super) struct Front<'a> {
    name: &'static str,
    client: Box<dyn Client>,
    cell: &'a RunCell,
    meter: Meter,
    /// Number of rounds without a placement since the cell changed.
    unschedulable: u32,
    seen: Version,
    error: Option<HandleError>,
}

impl<'a> Front<'a> {
    /// Starts a frontend at a cell.
    pub(super) fn new(front: Fronted, cell: &'a RunCell) -> Front<'a> {
        let Fronted { name, client, meter } = front;
        Front { name, client, cell, meter, unschedulable: 0, seen: Version(0), error: None }
    }

    /// Runs the clients, and steps the frontend once.
    pub(super) fn round(&mut self, now: Nanos) -> Did {
        let before = self.meter.placements;
        self.meter.deciding();
        match self.step(now) {
            Ok(round) => self.note(round, before),
            Err(HandleError::Unavailable | HandleError::Full | HandleError::Unknown) => {
                Did::NoAnswer
            }
            Err(why) => {
                self.error = Some(why);
                Did::NoAnswer
            }
        }
    }

    /// Steps the clients and the frontend. The meter measures and reports the commits.
    fn step(&mut self, now: Nanos) -> Result<Round, HandleError> {
        let meter = Mutex::new(&mut self.meter);
        let measured = CommitHook::new(self.cell, |cell: &RunCell, txns: &[&Transaction]| {
            let answers = cell.commit_all(txns);
            for (txn, answer) in txns.iter().zip(&answers) {
                if let Ok(commit) = answer {
                    meter.lock().committed(txn, commit);
                }
            }
            answers
        });
        self.client.step(&measured, now)
    }

    fn note(&mut self, round: Round, before: u64) -> Did {
        let meter = &mut self.meter;
        let placed = meter.placements - before;
        meter.stepped(placed);
        let still = placed == 0 && self.seen == round.version;
        self.unschedulable = if still { self.unschedulable + 1 } else { 0 };
        self.seen = round.version;
        if round.waiting > 0 && self.unschedulable < round.patience {
            return Did::Work;
        }
        let (version, unplaceable) = (round.version, round.waiting);
        let (has_tried_all, owes_retry, settled) = (true, false, true);
        meter.tell(IdleState { version, unplaceable, has_tried_all, owes_retry, settled });
        Did::Nothing
    }

    /// Whether the frontend still runs; `false` if it ended early.
    pub(super) fn is_running(&self) -> bool {
        self.error.is_none()
    }

    /// Ends the frontend.
    ///
    /// # Errors
    /// If the frontend ended early, because the cell rejects it.
    pub(super) fn stop(self) -> Result<Served, RunError> {
        let Front { name, mut meter, error, .. } = self;
        match error {
            Some(why) => Err(RunError::Scheduler { name: name.into(), why }),
            None => {
                meter.flush();
                Ok(Served { name, meter })
            }
        }
    }
}

/// The thread of a frontend.
fn serve<'a>(mut front: Front<'a>, clock: &dyn Clock, stopped: &Receiver<()>) -> Front<'a> {
    while front.is_running() {
        let did = front.round(clock.now());
        let nap = if did.is_idle() { IDLE } else { Duration::ZERO };
        if stopped.recv_timeout(nap) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    front
}
