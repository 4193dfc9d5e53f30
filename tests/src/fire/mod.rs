//! Cells of real processes under faults, with a check of every answer that clients got.
//!
//! ```text
//!   schedulers, readers, an operator ── sockets ──▶ three `omega serve`  ◀── nemesis: kill -9, SIGSTOP
//!        │                                            │  relay │             hold, break, slow wires
//!        ▼ requests, times, replies                   ▼  logs  └── one for each direction
//!      notes ───────────────────────────────────▶ verdict: the cell, its reference model, the checker
//! ```
//!
//! `cluster` simulates replicas in one thread, determined by a seed. This module runs the shipped program with real
//! sockets, clocks and disks, so a run cannot be repeated exactly. The checks are those of `cluster`.
//!
//! In reading order: this file, [`cell`], [`disk`], [`watchdog`], [`proxy`], [`nemesis`], [`notes`], [`clients`],
//! [`verdict`]. The binary `fire` measures the same processes with [`failover`], [`overload`], [`programs`] and
//! [`standing`].

pub mod calls;
pub mod cell;
pub mod clients;
pub mod disk;
pub mod failover;
pub mod nemesis;
pub mod notes;
pub mod overload;
pub mod place;
pub mod programs;
pub mod proxy;
pub mod standing;
pub mod verdict;
pub mod watchdog;

use crate::cluster::checker::{Fate, History};
use crate::cluster::truth::Done;
use calls::Replicas;
use cell::{Equipment, Processes};
use clients::{Line, Scheduler};
use nemesis::{Fault, Nemesis};
use notes::{Look, Notes};
use omega_client::RemoteCell;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Number of schedulers that make single calls; the next constant is the number of schedulers that use a
/// [`RemoteCell`].
const CALLERS: usize = 3;
const REMOTES: usize = 3;

/// Number of clients that only read.
const READERS: usize = 2;

/// Time within which replicas must agree at the end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Path of the program `omega`.
    pub program: PathBuf,
    /// Folder in which the run creates the folders of its replicas.
    pub place: PathBuf,
    /// Seed of clients and faults.
    pub seed: u64,
    /// Faults, in an order that is drawn from the seed. If there are none, the run lasts until clients got some hundred
    /// replies.
    pub faults: Vec<Fault>,
    /// The replicas. Faults of disks and clocks require separate disks and clocks.
    pub equipment: Equipment,
}

/// A recorded run.
#[derive(Debug)]
pub struct Recorded {
    /// Requests of clients, and their replies.
    pub history: History,
    /// Tasks that clients saw on machines.
    pub looks: Vec<Look>,
    /// The committed log.
    pub done: Vec<Done>,
}

impl Recorded {
    /// Checks the run.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self) -> Result<(), String> {
        verdict::check(&self.history, &self.looks, &self.done)
    }
}

/// Prints the numbers of operations and of checks.
impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |is: fn(&Fate) -> bool| {
            self.history.calls.iter().filter(|asked| is(&asked.fate)).count()
        };
        let unknown = count(|fate| *fate == Fate::Unknown);
        let not_done = count(|fate| *fate == Fate::NotDone);
        write!(
            f,
            "{} commands asked for, {unknown} with unknown outcome, {not_done} not done; {} reads, {} of \
             them with tasks; {} commands agreed on",
            self.history.calls.len(),
            self.history.reads.len(),
            self.looks.len(),
            self.done.len(),
        )
    }
}

/// Runs a plan, and returns the records of clients and replicas. The replicas are only compared with each other; the
/// records are not checked.
///
/// # Errors
/// The error, with the path of the replicas' folders, which are kept.
pub fn record(plan: &Plan) -> Result<Recorded, String> {
    let cell = Processes::found_as(&plan.program, &plan.place, plan.equipment);
    let mut cell = cell.map_err(|error| error.to_string())?;
    let notes = Notes::default();
    let recorded = burn(plan, &mut cell, &notes).and_then(|()| {
        cell.ids().for_each(|id| cell.kill(id));
        let done = verdict::agreed(&cell)?.done;
        let (history, looks) = notes.take();
        let history = verdict::with_servers_own(history, &done);
        Ok(Recorded { history, looks, done })
    });
    recorded.map_err(|error| format!("{error}; see {}", cell.keep().display()))
}

/// Runs a plan, and checks it.
///
/// # Errors
/// The first error.
pub fn run(plan: &Plan) -> Result<Recorded, String> {
    let wrong = |error: String| format!("seed {}: {error}", plan.seed);
    let recorded = record(plan).map_err(wrong)?;
    recorded.check().map_err(wrong)?;
    Ok(recorded)
}

/// Runs the clients, and injects all faults.
fn burn(plan: &Plan, cell: &mut Processes, notes: &Notes) -> Result<(), String> {
    let runtime = Arc::new(Runtime::new().map_err(|error| error.to_string())?);
    let replicas = Replicas::new(&runtime, cell.clients());
    let places = place::make(notes, &replicas, CALLERS + REMOTES)?;
    let (first, machines) = (places[0].machines[0], places[0].machines.clone());
    let (addresses, remote) = (cell.clients().to_vec(), cell.address());
    // Each client has separate connections.
    let own = || Replicas::new(&runtime, &addresses);
    let mut lines: Vec<Line> = (0..CALLERS).map(|_| Line::Calls(own())).collect();
    for _ in 0..REMOTES {
        lines.push(Line::Remote(RemoteCell::connect(&remote).map_err(|error| error.to_string())?));
    }
    let struck = std::thread::scope(|scope| {
        for ((place, line), i) in places.into_iter().zip(lines).zip(0..) {
            let seed = plan.seed * 1000 + i;
            scope.spawn(move || work(Scheduler::new(notes, line, place, seed), notes));
        }
        for i in 0..READERS {
            let (own, machines, seed) =
                (own(), machines.clone(), plan.seed * 1000 + 100 + i as u64);
            scope.spawn(move || clients::look_around(notes, &own, &machines, seed));
        }
        let (own, seed) = (own(), plan.seed);
        scope.spawn(move || clients::drain_and_resume(notes, &own, first, seed));
        let struck = strike_all(plan, cell, &replicas, notes);
        notes.end();
        struck
    });
    struck?;
    notes.first_trouble().map_or(Ok(()), Err)?;
    settle(&replicas, notes, &machines)
}

/// Runs a scheduler. If it panics, the run ends.
fn work(scheduler: Scheduler<'_>, notes: &Notes) {
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scheduler.run()));
    if ran.is_err() {
        notes.trouble("a client has panicked".to_owned());
    }
}

fn strike_all(
    plan: &Plan,
    cell: &mut Processes,
    replicas: &Replicas,
    notes: &Notes,
) -> Result<(), String> {
    let mut chance = Pcg64::seed_from_u64(plan.seed);
    let mut faults = plan.faults.clone();
    faults.shuffle(&mut chance);
    let mut nemesis = Nemesis { cell, replicas, notes, chance };
    for fault in faults {
        nemesis.strike(fault)?;
    }
    nemesis.rest()
}

/// Waits until all replicas have the same state, and reads every machine at each replica.
fn settle(
    replicas: &Replicas,
    notes: &Notes,
    machines: &[omega_core::MachineId],
) -> Result<(), String> {
    let began = Instant::now();
    for at in 0..replicas.count() {
        while replicas.describe(at).map_or(true, |told| told.stale) {
            if began.elapsed() > PATIENCE {
                return Err(format!("replica {} does not come back", at + 1));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        for machine in machines {
            let (invoked, seen) = loop {
                let invoked = notes.now();
                match replicas.tasks(at, *machine) {
                    Ok(seen) => break (invoked, seen),
                    // A replica whose disk hung may still lag, and so may all on a busy computer.
                    Err(error) if began.elapsed() > PATIENCE => return Err(format!("{error:?}")),
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                }
            };
            notes.looked(invoked, Look { machine: *machine, seen });
        }
    }
    Ok(())
}
