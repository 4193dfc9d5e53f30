//! Clients of a run that are no schedulers: frameworks that are offered resources, and applications that ask for
//! containers.
//!
//! ```text
//!   jobs for `offers` ─▶ a framework for each tenant    ◀─ offers ─ front ─▶ cell
//!   jobs for `asks`   ─▶ an application for each job     ── asks ─▶ front ─▶ cell
//! ```
//!
//! Each front has a thread, which lets its clients speak and steps it. What it commits is measured and told to the
//! feeder as what a scheduler commits: the cell does not tell them apart, and neither does a report.

mod asks;
mod offers;

use super::cell::RunCell;
use super::feeder::Feeder;
use super::meter::{IdleState, Meter};
use super::{CLIENTS, RunError};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use omega_cellstate::{CellHandle, Delta, HandleError, Interest};
use omega_core::{Commit, Job, SchedulerId, Text, Transaction, Version};
use omega_schedulers::{Clock, Nanos, Observer};
use omega_workload::Arrival;
use parking_lot::Mutex;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

/// Time for which a front with nothing to do sleeps.
const IDLE: Duration = Duration::from_millis(1);

/// Clients of one kind, with their front.
trait Client: Send {
    /// Lets them speak, and steps the front once.
    ///
    /// # Errors
    /// If the cell does not answer.
    fn step(&mut self, cell: &Watched<'_>, now: Nanos) -> Result<Round, HandleError>;
}

/// Result of a round.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// Observations of the cell.
    version: Version,
    /// Tasks that wait.
    waiting: usize,
    /// Rounds without a placement after which none comes, as long as the cell does not change.
    patience: u32,
}

/// The cell of a front: its commits are measured and told.
struct Watched<'a> {
    cell: &'a RunCell,
    meter: Mutex<Meter>,
}

impl CellHandle for Watched<'_> {
    fn register(&self, name: Text) -> Result<(SchedulerId, u64), HandleError> {
        self.cell.register(name)
    }

    fn sync(
        &self,
        since: Version,
        interest: &Interest,
        delta: &mut Delta,
    ) -> Result<(), HandleError> {
        self.cell.sync(since, interest, delta)
    }

    fn commit(&self, txn: &Transaction) -> Result<Commit, HandleError> {
        let commit = self.cell.commit(txn)?;
        self.meter.lock().committed(txn, &commit);
        Ok(commit)
    }
}

/// A front that is to work in a run.
pub(super) struct Fronted {
    name: &'static str,
    client: Box<dyn Client>,
    meter: Meter,
}

/// A front that has worked.
pub(super) struct Served {
    pub(super) name: &'static str,
    pub(super) meter: Meter,
    error: Option<HandleError>,
}

/// The fronts for which a workload has jobs, in the order of [`CLIENTS`], each with its jobs.
pub(super) fn jobs(arrivals: &[Arrival]) -> Vec<(&'static str, Vec<Job>)> {
    let of = |name: &'static str| {
        let jobs = arrivals.iter().map(|arrival| &arrival.job);
        (name, jobs.filter(|job| *job.scheduler == *name).cloned().collect::<Vec<Job>>())
    };
    CLIENTS.into_iter().map(of).filter(|(_, jobs)| !jobs.is_empty()).collect()
}

impl Feeder {
    /// The fronts that the workload needs, registered.
    pub(super) fn fronts(&mut self, cells: &[RunCell]) -> Result<Vec<Fronted>, RunError> {
        let clients = std::mem::take(&mut self.clients);
        let mut fronts = Vec::new();
        for (index, (name, jobs)) in clients.into_iter().enumerate() {
            let cell = &cells[index % cells.len()];
            let client: Result<Box<dyn Client>, HandleError> = match name {
                "offers" => offers::Offers::new(cell, name, &jobs).map(|one| Box::new(one) as _),
                _ => asks::Asks::new(cell, name, jobs).map(|one| Box::new(one) as _),
            };
            let client = client.map_err(|why| RunError::Scheduler { name: name.into(), why })?;
            fronts.push((name, client));
        }
        let first = self.idle.len() - fronts.len();
        let meters = (first..).map(|worker| self.meter(worker));
        let fronts = fronts.into_iter().zip(meters);
        Ok(fronts.map(|((name, client), meter)| Fronted { name, client, meter }).collect())
    }
}

/// Fronts on threads.
pub(super) struct Fronts<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, Served>>,
    stop: Vec<Sender<()>>,
}

impl<'scope> Fronts<'scope> {
    /// Starts a thread for each, at one of the cells by turns.
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
            all.threads.push(scope.spawn(move || serve(front, cell, clock, &stopped)));
        }
        all
    }

    /// Number of those that have not ended yet.
    pub(super) fn running(&self) -> usize {
        self.threads.iter().filter(|thread| !thread.is_finished()).count()
    }

    /// Ends them after their present round.
    ///
    /// # Errors
    /// If one ended early, because the cell stopped answering for good.
    pub(super) fn stop(self) -> Result<Vec<Served>, RunError> {
        drop(self.stop);
        let mut served = Vec::new();
        for thread in self.threads {
            let one = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            if let Some(why) = one.error {
                return Err(RunError::Scheduler { name: one.name.into(), why });
            }
            served.push(one);
        }
        Ok(served)
    }
}

fn serve(front: Fronted, cell: &RunCell, clock: &dyn Clock, stopped: &Receiver<()>) -> Served {
    let Fronted { name, mut client, meter } = front;
    let cell = Watched { cell, meter: Mutex::new(meter) };
    let (mut unschedulable, mut seen, mut error) = (0, Version(0), None);
    loop {
        let before = cell.meter.lock().placements;
        cell.meter.lock().deciding();
        let nap = match client.step(&cell, clock.now()) {
            Ok(round) => {
                let mut meter = cell.meter.lock();
                let placed = meter.placements - before;
                meter.stepped(placed);
                let still = placed == 0 && seen == round.version;
                unschedulable = if still { unschedulable + 1 } else { 0 };
                seen = round.version;
                let idle = round.waiting == 0 || unschedulable >= round.patience;
                if idle {
                    let (version, unplaceable) = (round.version, round.waiting);
                    meter.tell(IdleState { version, unplaceable, settled: true });
                }
                idle
            }
            Err(HandleError::Unavailable | HandleError::Full | HandleError::Unknown) => true,
            Err(why) => {
                error = Some(why);
                break;
            }
        };
        let nap = if nap { IDLE } else { Duration::ZERO };
        if stopped.recv_timeout(nap) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    Served { name, meter: cell.meter.into_inner(), error }
}
