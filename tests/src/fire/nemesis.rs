//! Fault injection, one fault after the other: replicas are killed, paused and cut off, and healed again.
//!
//! While a majority can talk, clients must get on: that is waited for, and an error if it does not come
//! for long. Only a loss of all replicas is healed at once.

use super::ask::Replicas;
use super::cell::Processes;
use super::clients::Notes;
use super::proxy::Wire;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::io;
use std::time::{Duration, Instant};

/// Time for which progress is waited for. Seconds are enough; a machine that does much else needs more.
const PATIENCE: Duration = Duration::from_secs(120);

/// Answers that count as progress.
const ANSWERS: u64 = 20;

/// Duration of a fault, in milliseconds: shorter and longer than elections.
const LASTS_MS: std::ops::Range<u64> = 200..1500;

/// Seconds by which a clock is put forward or back, at most.
const JUMP_MAX_S: i64 = 2 * 3600;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The leader loses its power.
    KillLeader,
    /// A replica that follows loses its power.
    KillFollower,
    /// All lose their power at once.
    KillAll,
    /// The leader and others lose their power at once: as many as the others can do without.
    KillMinority,
    /// The leader's process is paused, and later resumed.
    PauseLeader,
    /// A replica that follows does.
    PauseFollower,
    /// No message passes between the leader and its peers.
    CutLeader,
    /// No message passes from the leader to its peers.
    MuteLeader,
    /// No message passes from the peers to the leader.
    DeafenLeader,
    /// A replica that follows is cut off.
    CutFollower,
    /// The leader's connections are ended, and new ones, too.
    BreakLeader,
    /// Messages are late, by less than an election.
    Slow,
    /// Connections are held and released in turn.
    Flap,
    /// No fault: every replica is ended and started again, one after the other, as for a new version.
    Roll,
    /// The leader's disk hangs.
    StallLeader,
    /// The disk of a replica that follows does.
    StallFollower,
    /// The leader's clock is put forward or back.
    JumpLeader,
    /// Every clock is, each by another amount, and stays so.
    JumpAll,
}

impl Fault {
    /// All that every machine can do and that goes wrong: each run has each once, in an order of its own.
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

    /// Those that replicas with disks of their own may meet, with some that they may meet at the same time.
    pub const OF_DISKS: [Fault; 5] = [
        Fault::StallLeader,
        Fault::StallFollower,
        Fault::StallLeader,
        Fault::KillLeader,
        Fault::KillAll,
    ];

    /// Those that more than three replicas may meet.
    pub const OF_MANY: [Fault; 6] = [
        Fault::KillMinority,
        Fault::KillLeader,
        Fault::KillMinority,
        Fault::CutLeader,
        Fault::KillMinority,
        Fault::KillAll,
    ];

    /// Those that replicas with clocks of their own may meet, with some that they may meet at the same time.
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

/// Does some things that go wrong.
#[derive(Debug)]
pub struct Nemesis<'a> {
    /// The cell.
    pub cell: &'a mut Processes,
    /// Source of the leader's identity.
    pub replicas: &'a Replicas,
    /// Source of the clients' progress.
    pub notes: &'a Notes,
    /// Time for which things last.
    pub chance: Pcg64,
}

impl Nemesis<'_> {
    /// Does one thing, and heals it.
    ///
    /// # Errors
    /// If clients do not get on although they should, or a replica has ended by itself.
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

    /// Lets clients get some hundred answers in peace.
    ///
    /// # Errors
    /// If they do not.
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

    /// Puts a clock forward or back.
    fn jump(&mut self, id: usize) -> io::Result<()> {
        let ahead_s = self.chance.random_range(-JUMP_MAX_S..=JUMP_MAX_S);
        self.cell.set_clock(id, ahead_s)
    }

    /// The leader and the replicas after it, as many as leave a majority.
    fn minority(&self, leader: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.replicas.count();
        (0..count.div_ceil(2) - 1).map(move |after| (leader - 1 + after) % count + 1)
    }

    /// Restarts the replicas as docs/upgrade.md has it: the leader last, after it has handed over, and each
    /// only once the one before it is back.
    fn roll(&mut self, last: usize) -> Result<(), String> {
        for id in self.cell.ids().filter(|id| *id != last).chain([last]) {
            self.hand_over(id)?;
            self.cell.stop(id).map_err(|error| error.to_string())?;
            self.progress(&format!("a cell without replica {id}"))?;
            self.cell.start(id).map_err(|error| error.to_string())?;
            self.wait_for(&format!("replica {id} does not come back"), |replicas| {
                // It answers what only one can know that has all that was committed.
                replicas.describe(id - 1).is_ok_and(|told| !told.stale)
            })?;
        }
        self.progress("a cell that was restarted")
    }

    /// Lets another one lead, if this one does.
    fn hand_over(&self, id: usize) -> Result<(), String> {
        let to = id % self.replicas.count() + 1;
        while leader(self.replicas, self.notes)? == id {
            // It may be no leader any more by then, or its successor too far behind: then it is asked again.
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

    /// Makes the wires from and to a replica so.
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

    /// Waits until clients were answered.
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

/// The leader now.
///
/// # Errors
/// If nobody knows for long, or the run is in trouble.
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
