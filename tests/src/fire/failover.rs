//! Measures how long a cell of three processes is unavailable after its leader fails.
//!
//! One scheduler of the client library commits one transaction after the other. The time is measured from the failure
//! to the first reply to a transaction that was in flight at the failure or sent after it. The scheduler is connected
//! to any replica; if that replica fails, the time includes the client's search for another one.

use super::calls::Replicas;
use super::cell::{Disks, Equipment, Processes};
use super::nemesis::leader;
use super::notes::Notes;
use super::place::{self, Place};
use super::proxy::Wire;
use omega_cellstate::CellHandle;
use omega_client::RemoteCell;
use omega_core::{Claim, SequenceNumber, TaskId, Transaction, TransactionId, Version};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A way in which a leader fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its process is killed.
    Kill,
    /// Its process is paused, and its connections stay open.
    Pause,
    /// The leader is partitioned from its peers.
    Cut,
    /// Its disk hangs: writes neither complete nor fail.
    Stall,
}

impl Loss {
    /// All failures.
    pub const ALL: [Loss; 4] = [Loss::Kill, Loss::Pause, Loss::Cut, Loss::Stall];

    /// Storage that the failure needs.
    fn disks(self) -> Disks {
        if self == Loss::Stall { Disks::Own } else { Disks::Shared }
    }
}

/// Pause between two failures. It lasts for several elections, so that all replicas have caught up.
const PEACE: Duration = Duration::from_secs(3);

/// Longest wait for a reply.
const PATIENCE: Duration = Duration::from_secs(120);

/// A reply that arrives this soon after the failure must have been in flight before it, because an election takes ten
/// times as long.
const GRACE: Duration = Duration::from_millis(50);

/// Duration of one outage.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    /// Time from the failure to the first reply.
    pub answer: Duration,
    /// Time from the failure until any replica reported another leader.
    pub elected: Duration,
}

/// Makes a leader fail a number of times, and returns the duration of each outage.
///
/// # Errors
/// If the cell does not start, or there is no reply for a long time.
pub fn measure(
    program: &Path,
    place: &Path,
    loss: Loss,
    count: usize,
) -> Result<Vec<Outage>, String> {
    let text = |error: std::io::Error| error.to_string();
    let with = Equipment { disks: loss.disks(), ..Equipment::default() };
    let mut cell = Processes::found_as(program, place, with).map_err(text)?;
    let runtime = Arc::new(Runtime::new().map_err(text)?);
    let replicas = Replicas::new(&runtime, cell.clients());
    let notes = Notes::default();
    let mut places = place::make(&notes, &replicas, 1)?;
    let own = places.pop().ok_or("there is no scheduler")?;
    let remote = RemoteCell::connect(&cell.address()).map_err(|error| error.to_string())?;
    let clock = Clock::default();
    std::thread::scope(|scope| {
        scope.spawn(|| clock.commit_on(&remote, &own));
        let outages = (0..count).map(|_| clock.lose(&mut cell, &replicas, &notes, loss)).collect();
        clock.ended.store(true, Ordering::Relaxed);
        outages
    })
}

/// Times of the scheduler's replies, in nanoseconds since the start of the measurement.
#[derive(Debug)]
struct Clock {
    began: Instant,
    /// Time after which the first reply is recorded.
    mark: AtomicU64,
    /// Time of that reply; 0 if there was none yet.
    answered: AtomicU64,
    ended: AtomicBool,
}

impl Default for Clock {
    fn default() -> Clock {
        let (mark, answered) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Clock { began: Instant::now(), mark, answered, ended: AtomicBool::new(false) }
    }
}

impl Clock {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Moves a task between machines until told to end.
    fn commit_on(&self, cell: &RemoteCell, place: &Place) {
        let task = TaskId { job: place.job, index: 0 };
        let mut number = place.next;
        while !self.ended.load(Ordering::Relaxed) {
            let id = TransactionId { scheduler: place.scheduler, number };
            let machine = place.machines[number as usize % place.machines.len()];
            let seen = SequenceNumber(0);
            let claim = Claim::new(task, machine, seen);
            let mut txn = Transaction::new(id, Version(0), vec![claim]);
            txn.releases.push(task);
            if cell.commit(&txn).is_err() {
                continue;
            }
            number += 1;
            let now = self.now();
            if now >= self.mark.load(Ordering::Relaxed) {
                // Only the first reply is recorded.
                let _ =
                    self.answered.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    fn lose(
        &self,
        cell: &mut Processes,
        replicas: &Replicas,
        notes: &Notes,
        loss: Loss,
    ) -> Result<Outage, String> {
        std::thread::sleep(PEACE);
        let lost = leader(replicas, notes)?;
        let from = self.now();
        match loss {
            Loss::Kill => cell.kill(lost),
            Loss::Pause => cell.pause(lost),
            Loss::Stall => cell.freeze(lost).map_err(|error| error.to_string())?,
            Loss::Cut => cell.ids().filter(|id| *id != lost).for_each(|id| {
                cell.wire(lost, id, Wire::Held);
                cell.wire(id, lost, Wire::Held);
            }),
        }
        // A reply that was in flight before the failure is not counted, because it does not come from the other
        // replicas.
        self.answered.store(0, Ordering::Relaxed);
        self.mark.store(self.now() + GRACE.as_nanos() as u64, Ordering::Relaxed);
        let elected = self.elected(replicas, lost, from)?;
        let answered = loop {
            match self.answered.load(Ordering::Relaxed) {
                0 if self.now() > from + PATIENCE.as_nanos() as u64 => {
                    return Err(format!("nobody answers after {loss:?}"));
                }
                0 => std::thread::sleep(Duration::from_millis(1)),
                answered => break answered,
            }
        };
        self.mark.store(u64::MAX, Ordering::Relaxed);
        cell.heal().map_err(|error| error.to_string())?;
        follows(replicas, lost)?;
        Ok(Outage { answer: Duration::from_nanos(answered - from), elected })
    }

    /// Time until one of the other replicas reported another leader.
    fn elected(&self, replicas: &Replicas, lost: usize, from: u64) -> Result<Duration, String> {
        let other = lost % replicas.count();
        while self.now() < from + PATIENCE.as_nanos() as u64 {
            let told = replicas.describe(other).ok().and_then(|told| told.members);
            if told.is_some_and(|told| told.leader != 0 && told.leader != lost as u64) {
                return Ok(Duration::from_nanos(self.now() - from));
            }
        }
        Err("nobody is elected".to_owned())
    }
}

/// Waits until the failed replica has caught up with the others.
fn follows(replicas: &Replicas, lost: usize) -> Result<(), String> {
    let began = Instant::now();
    while replicas.describe(lost - 1).map_or(true, |told| told.stale) {
        if began.elapsed() > PATIENCE {
            return Err(format!("replica {lost} does not follow again"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
