//! Fault injection, one fault after the other: replicas are killed, paused and partitioned, and then restored.
//!
//! As long as a majority can communicate, clients must make progress. The injector waits for this, and fails after a
//! long time without progress. A loss of all replicas is repaired at once.

use super::calls::Replicas;
use super::cell::Processes;
use super::notes::Notes;
use super::proxy::Wire;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::io;
use std::time::{Duration, Instant};

/// Longest wait for progress. Progress takes seconds, except on a busy computer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of replies that are considered progress.
const ANSWERS: u64 = 20;

/// Duration of a fault in milliseconds; some faults are shorter than an election, others longer.
const LASTS_MS: std::ops::Range<u64> = 200..1500;

/// Maximum by which a clock is set forward or back, in seconds.
const JUMP_MAX_S: i64 = 2 * 3600;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The leader is killed.
    KillLeader,
    /// A follower is killed.
    KillFollower,
    /// All replicas are killed at once.
    KillAll,
    /// The leader and other replicas lose their power at the same time, leaving a majority.
    KillMinority,
    /// The leader's process is paused, and later resumed.
    PauseLeader,
    /// A follower's process is paused, and later resumed.
    PauseFollower,
    /// No message passes between the leader and its peers.
    CutLeader,
    /// No message passes from the leader to its peers.
    MuteLeader,
    /// No message passes from the peers to the leader.
    DeafenLeader,
    /// A follower is partitioned.
    CutFollower,
    /// The leader's connections break, including new ones.
    BreakLeader,
    /// Messages are delayed, by less than an election.
    Slow,
    /// Connections are held and released in turn.
    Flap,
    /// Not a fault: a rolling restart of all replicas, as for a new version.
    Roll,
    /// The leader's disk hangs.
    StallLeader,
    /// A follower's disk hangs.
    StallFollower,
    /// The leader's clock is set forward or back.
    JumpLeader,
    /// All clocks are set forward or back, each by another amount, and are not corrected.
    JumpAll,
}

impl Fault {
    /// Faults that can be injected on every computer. A run has each of them once, in random order.
    pub const ALL: [Fault; 12] = [
        Fault::KillLeader,
        Fault::KillFollower,
        Fault::KillAll,
        Fault::PauseLeader,
        Fault::PauseFollower,
        Fault::CutLeader,
        Fault::MuteLeader,
        Fault::DeafenLeader,
        Fault::CutFollower,
        Fault::BreakLeader,
        Fault::Slow,
        Fault::Flap,
    ];

    /// Faults for replicas with separate disks, and some other faults that may occur at the same time.
    pub const OF_DISKS: [Fault; 5] = [
        Fault::StallLeader,
        Fault::StallFollower,
        Fault::StallLeader,
        Fault::KillLeader,
        Fault::KillAll,
    ];

    /// Faults for cells of more than three replicas.
    pub const OF_MANY: [Fault; 6] = [
        Fault::KillMinority,
        Fault::KillLeader,
        Fault::KillMinority,
        Fault::CutLeader,
        Fault::KillMinority,
        Fault::KillAll,
    ];

    /// Faults for replicas with separate clocks, and some other faults that may occur at the same time.
    pub const OF_CLOCKS: [Fault; 8] = [
        Fault::JumpLeader,
        Fault::JumpAll,
        Fault::KillLeader,
        Fault::JumpLeader,
        Fault::PauseLeader,
        Fault::JumpAll,
        Fault::KillAll,
        Fault::JumpLeader,
    ];
}

/// The fault injector.
#[derive(Debug)]
pub struct Nemesis<'a> {
    /// The cell.
    pub cell: &'a mut Processes,
    /// Connections, by which the injector finds the leader.
    pub replicas: &'a Replicas,
    /// Records, by which the injector measures the clients' progress.
    pub notes: &'a Notes,
    /// Random generator for durations and choices.
    pub chance: Pcg64,
}

impl Nemesis<'_> {
    /// Injects one fault, and repairs it.
    ///
    /// # Errors
    /// If clients make no progress although they should, or a replica has ended by itself.
    pub fn strike(&mut self, fault: Fault) -> Result<(), String> {
        let leader = leader(self.replicas, self.notes)?;
        let follower = leader % self.replicas.count() + 1;
        if fault == Fault::Roll {
            return self.roll(leader);
        }
        self.begin(fault, leader, follower)?;
        let lasts = Duration::from_millis(self.chance.random_range(LASTS_MS));
        match fault {
            Fault::Flap => self.flap(lasts),
            _ => std::thread::sleep(lasts),
        }
        if fault != Fault::KillAll {
            self.progress(&format!("{fault:?}"))?;
        }
        self.cell.heal().map_err(|error| format!("after {fault:?}: {error}"))?;
        self.progress(&format!("healed {fault:?}"))
    }

    /// Waits until clients got some hundred replies, without faults.
    ///
    /// # Errors
    /// If there are no replies for a long time.
    pub fn rest(&self) -> Result<(), String> {
        (0..10).try_for_each(|_| self.progress("no fault"))
    }

    fn begin(&mut self, fault: Fault, leader: usize, follower: usize) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        match fault {
            Fault::KillLeader => self.cell.kill(leader),
            Fault::KillFollower => self.cell.kill(follower),
            Fault::KillAll => self.cell.ids().for_each(|id| self.cell.kill(id)),
            Fault::KillMinority => self.minority(leader).for_each(|id| self.cell.kill(id)),
            Fault::PauseLeader => self.cell.pause(leader),
            Fault::PauseFollower => self.cell.pause(follower),
            Fault::CutLeader => self.around(leader, (Wire::Held, Wire::Held)),
            Fault::MuteLeader => self.around(leader, (Wire::Held, Wire::Whole)),
            Fault::DeafenLeader => self.around(leader, (Wire::Whole, Wire::Held)),
            Fault::CutFollower => self.around(follower, (Wire::Held, Wire::Held)),
            Fault::BreakLeader => self.around(leader, (Wire::Broken, Wire::Broken)),
            Fault::Slow => {
                let late = Wire::Slow(Duration::from_millis(self.chance.random_range(5..60)));
                self.cell.ids().for_each(|id| self.around(id, (late, late)));
            }
            Fault::Flap | Fault::Roll => {}
            Fault::StallLeader => self.cell.freeze(leader).map_err(text)?,
            Fault::StallFollower => self.cell.freeze(follower).map_err(text)?,
            Fault::JumpLeader => self.jump(leader).map_err(text)?,
            Fault::JumpAll => {
                self.cell.ids().try_for_each(|id| self.jump(id)).map_err(text)?;
            }
        }
        Ok(())
    }

    /// Sets a clock forward or back.
    fn jump(&mut self, id: usize) -> io::Result<()> {
        let ahead_s = self.chance.random_range(-JUMP_MAX_S..=JUMP_MAX_S);
        self.cell.set_clock(id, ahead_s)
    }

    /// The leader and the replicas after it, so many that a majority is left.
    fn minority(&self, leader: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.replicas.count();
        (0..count.div_ceil(2) - 1).map(move |after| (leader - 1 + after) % count + 1)
    }

    /// Restarts the replicas as described in docs/upgrade.md: each only when the one before is back, and the leader
    /// last, after it has transferred the leadership.
    fn roll(&mut self, last: usize) -> Result<(), String> {
        for id in self.cell.ids().filter(|id| *id != last).chain([last]) {
            self.hand_over(id)?;
            self.cell.stop(id).map_err(|error| error.to_string())?;
            self.progress(&format!("a cell without replica {id}"))?;
            self.cell.start(id).map_err(|error| error.to_string())?;
            self.wait_for(&format!("replica {id} does not come back"), |replicas| {
                // A replica can send a reply that is not stale only after it has applied all committed entries.
                replicas.describe(id - 1).is_ok_and(|told| !told.stale)
            })?;
        }
        self.progress("a cell that was restarted")
    }

    /// Transfers the leadership, if this replica is the leader.
    fn hand_over(&self, id: usize) -> Result<(), String> {
        let to = id % self.replicas.count() + 1;
        while leader(self.replicas, self.notes)? == id {
            // The replica may no longer be the leader, or its successor may lag too much; then the transfer is
            // requested again.
            drop(self.replicas.hand_over(id - 1, to));
            self.progress("a leader that hands over")?;
        }
        Ok(())
    }

    fn wait_for(&self, else_: &str, is_so: impl Fn(&Replicas) -> bool) -> Result<(), String> {
        let began = Instant::now();
        while !is_so(self.replicas) {
            if let Some(trouble) = self.notes.first_trouble() {
                return Err(trouble);
            }
            if began.elapsed() > PATIENCE {
                return Err(else_.to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sets the state of all connections from a replica and to it.
    fn around(&self, id: usize, (from, to): (Wire, Wire)) {
        for other in self.cell.ids().filter(|other| *other != id) {
            self.cell.wire(id, other, from);
            self.cell.wire(other, id, to);
        }
    }

    fn flap(&mut self, lasts: Duration) {
        let began = Instant::now();
        while began.elapsed() < lasts {
            let id = self.chance.random_range(1..=self.replicas.count());
            let wires = match self.chance.random_range(0..3) {
                0 => (Wire::Held, Wire::Whole),
                1 => (Wire::Whole, Wire::Held),
                _ => (Wire::Broken, Wire::Broken),
            };
            self.around(id, wires);
            std::thread::sleep(Duration::from_millis(self.chance.random_range(10..200)));
            self.around(id, (Wire::Whole, Wire::Whole));
        }
    }

    /// Waits until clients got further replies.
    fn progress(&self, under: &str) -> Result<(), String> {
        let (began, before) = (Instant::now(), self.notes.answered());
        while self.notes.answered() < before + ANSWERS {
            if let Some(trouble) = self.notes.first_trouble() {
                return Err(trouble);
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("nobody gets on under {under}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// Returns the present leader.
///
/// # Errors
/// If no replica reports a leader for a long time, or the run has failed.
pub fn leader(replicas: &Replicas, notes: &Notes) -> Result<usize, String> {
    let began = Instant::now();
    for at in 0.. {
        if let Ok(told) = replicas.describe(at)
            && !told.stale
            && let Some(members) = told.members
            && members.leader != 0
        {
            return Ok(members.leader as usize);
        }
        if let Some(trouble) = notes.first_trouble() {
            return Err(trouble);
        }
        if began.elapsed() > PATIENCE {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err("nobody knows who leads".to_owned())
}
