//! Clients of a cell under faults, each on a thread, and their records.
//!
//! Every transaction is recorded with the time of its first request, the outcome, and the time when the client learned
//! it. If the outcome is unknown, the client sends the transaction with its id again to another replica, and sometimes
//! to two at the same time. Sometimes the client gives up, and the checker has to determine the outcome.

use super::calls::Replicas;
use super::notes::{Look, Notes};
use super::place::Place;
use crate::cluster::checker::Fate;
use omega_cellstate::{CellHandle, HandleError};
use omega_client::RemoteCell;
use omega_core::{
    Claim, Command, ConflictCheck, Granularity, MachineId, Outcome, Rejection, SequenceNumber,
    TaskId, Transaction, TransactionId, Version,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::time::Duration;

/// Number of attempts after which a client gives up. Together they take longer than many elections.
const TRIES: usize = 200;

/// Pause before a retry.
const PAUSE: Duration = Duration::from_millis(20);

/// Longest pause after a reply, in milliseconds. A run of some seconds then has enough operations, but so few that they
/// can be checked in seconds.
const REST_MS: u64 = 10;

/// Maximum number of items of a transaction; it is large enough that many transactions conflict.
const ITEMS_MAX: usize = 6;

/// Connection of a test scheduler to its cell.
#[derive(Debug)]
pub enum Line {
    /// Single calls.
    Calls(Replicas),
    /// The client library, with several transactions in flight.
    Remote(RemoteCell),
}

/// A scheduler that places and releases tasks of its job on a few machines.
#[derive(Debug)]
pub struct Scheduler<'a> {
    pub(super) notes: &'a Notes,
    pub(super) line: Line,
    pub(super) place: Place,
    pub(super) chance: Pcg64,
    /// Whether each task is placed, according to the replies so far.
    pub(super) placed: Vec<bool>,
    pub(super) next: u64,
    /// The last known version.
    pub(super) version: Version,
}

impl<'a> Scheduler<'a> {
    /// Creates a scheduler that is registered and has its own job.
    #[must_use]
    pub fn new(notes: &'a Notes, line: Line, place: Place, seed: u64) -> Scheduler<'a> {
        let chance = Pcg64::seed_from_u64(seed);
        let placed = vec![false; place.tasks as usize];
        let next = place.next;
        Scheduler { notes, line, place, chance, placed, next, version: Version(0) }
    }

    /// Works until it is told to end.
    pub fn run(mut self) {
        while !self.notes.has_ended() {
            if let Err(trouble) = self.step() {
                self.notes.trouble(trouble);
            }
            let rest = self.chance.random_range(0..=REST_MS);
            std::thread::sleep(Duration::from_millis(rest));
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let count = match self.line {
            Line::Calls(_) => 1,
            Line::Remote(_) => self.chance.random_range(1..=4),
        };
        let txns: Vec<Transaction> = (0..count).map(|_| self.decide()).collect();
        let invoked = self.notes.now();
        let fates = match &self.line {
            Line::Calls(_) => vec![self.call(&txns[0])?],
            Line::Remote(cell) => send(cell, &txns, self.notes)?,
        };
        for (txn, fate) in txns.into_iter().zip(fates) {
            self.learn(&txn, &fate);
            self.notes.add_call(Command::Commit(txn), invoked, fate);
        }
        Ok(())
    }

    /// Returns a transaction that is valid in most cases.
    fn decide(&mut self) -> Transaction {
        let id = TransactionId { scheduler: self.place.scheduler, number: self.next };
        self.next += 1;
        let mut txn = Transaction::new(id, self.version, Vec::new());
        if self.chance.random_range(0..5) == 0 {
            txn.granularity = Granularity::AllOrNothing;
        }
        if self.chance.random_range(0..10) == 0 {
            txn.check = ConflictCheck::SequenceNumber;
        }
        for _ in 0..self.chance.random_range(1..=ITEMS_MAX) {
            let index = self.chance.random_range(0..self.place.tasks);
            let task = TaskId { job: self.place.job, index };
            let placed = self.placed[index as usize];
            // A move is a release and a claim in one transaction. A few transactions are invalid on purpose.
            let (release, claim) = match self.chance.random_range(0..20) {
                0 => (!placed, placed),
                1..=4 => (placed, true),
                _ => (placed, !placed),
            };
            if release {
                txn.releases.push(task);
            }
            if claim {
                let machine = self.chance.random_range(0..self.place.machines.len());
                let seen = SequenceNumber(self.chance.random_range(0..1000));
                let machine = self.place.machines[machine];
                txn.claims.push(Claim::new(task, machine, seen));
            }
        }
        txn
    }

    /// Sends a transaction until there is a reply, or gives up.
    fn call(&mut self, txn: &Transaction) -> Result<Fate, String> {
        let Line::Calls(replicas) = &self.line else { return Ok(Fate::NotDone) };
        let first = self.chance.random_range(0..replicas.count());
        let gives_up = self.chance.random_range(0..10) == 0;
        let mut known = Fate::NotDone;
        for at in first..first + TRIES {
            let twice = self.chance.random_range(0..10) == 0;
            let in_doubt = known == Fate::Unknown;
            let fate = if twice {
                replicas.commit_twice(at, txn)?
            } else {
                replicas.commit(at, txn, in_doubt)?
            };
            match fate {
                Fate::Answered(answer) => return Ok(Fate::Answered(answer)),
                Fate::Unknown => known = Fate::Unknown,
                // If an earlier attempt may have been executed, the outcome stays unknown, although this attempt was
                // not executed.
                Fate::NotDone => {}
            }
            if gives_up || self.notes.has_ended() {
                return Ok(known);
            }
            std::thread::sleep(PAUSE);
        }
        Ok(known)
    }

    fn learn(&mut self, txn: &Transaction, fate: &Fate) {
        let Fate::Answered(Ok(Outcome::Commit(commit))) = fate else { return };
        self.version = self.version.max(commit.version);
        use omega_core::transaction::Item;
        for (i, task) in (0..).zip(&txn.releases) {
            if commit.conflict_of(Item::Release(i)).is_none() {
                self.placed[task.index as usize] = false;
            }
        }
        for (i, claim) in txn.claims.iter().enumerate() {
            match commit.conflict_of_claim(i) {
                None | Some(omega_core::Reason::TaskPlaced) => {
                    self.placed[claim.task.index as usize] = true;
                }
                Some(_) => {}
            }
        }
    }
}

/// Commits through a remote cell, with retries that have the ids of the first attempts.
fn send(cell: &RemoteCell, txns: &[Transaction], notes: &Notes) -> Result<Vec<Fate>, String> {
    let mut fates = vec![Fate::NotDone; txns.len()];
    let mut open: Vec<usize> = (0..txns.len()).collect();
    for _ in 0..TRIES {
        let asked: Vec<&Transaction> = open.iter().map(|i| &txns[*i]).collect();
        for (i, told) in std::mem::take(&mut open).into_iter().zip(cell.commit_all(&asked)) {
            match told {
                Ok(commit) => fates[i] = Fate::Answered(Ok(Outcome::Commit(commit))),
                Err(HandleError::Refused(error)) => {
                    fates[i] = Fate::Answered(Err(Rejection::Transaction(error)));
                }
                Err(HandleError::Unknown) => {
                    fates[i] = Fate::Unknown;
                    open.push(i);
                }
                Err(HandleError::Unavailable | HandleError::Full) => open.push(i),
                Err(error) => return Err(format!("{:?} was answered: {error}", txns[i].id)),
            }
        }
        if open.is_empty() || notes.has_ended() {
            break;
        }
    }
    Ok(fates)
}

/// Reads from random replicas, until it is told to end.
pub fn look_around(notes: &Notes, replicas: &Replicas, machines: &[MachineId], seed: u64) {
    let mut chance = Pcg64::seed_from_u64(seed);
    while !notes.has_ended() {
        let at = chance.random_range(0..replicas.count());
        let invoked = notes.now();
        if chance.random_range(0..2) == 0 {
            // A reply without a leader is marked as stale, and is not recorded as a read.
            if let Ok(told) = replicas.describe(at)
                && !told.stale
            {
                notes.read(invoked, Version(told.version));
            }
        } else {
            let machine = machines[chance.random_range(0..machines.len())];
            if let Ok(seen) = replicas.tasks(at, machine) {
                notes.looked(invoked, Look { machine, seen });
            }
        }
        std::thread::sleep(Duration::from_millis(chance.random_range(0..=2 * REST_MS)));
    }
}

/// Drains and resumes a machine repeatedly, until it is told to end.
pub fn drain_and_resume(notes: &Notes, replicas: &Replicas, machine: MachineId, seed: u64) {
    let mut chance = Pcg64::seed_from_u64(seed);
    let mut draining = false;
    while !notes.has_ended() {
        draining = !draining;
        let at = chance.random_range(0..replicas.count());
        let invoked = notes.now();
        let fate = match replicas.drain(at, machine, !draining) {
            Ok(version) => Fate::Answered(Ok(Outcome::Done(version))),
            Err(_) => Fate::Unknown,
        };
        notes.add_call(Command::DrainMachine { id: machine, draining }, invoked, fate);
        std::thread::sleep(Duration::from_millis(chance.random_range(0..=40 * REST_MS)));
    }
}
