//! Fault plan of a run, with rates: drawn anew for each seed, so that some runs meet one kind
//! of fault all the time and others meet all of them now and then.

use crate::random::Dice;

/// A moment, in microseconds since the run began.
pub type Micros = u64;

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Replicas that found the cell.
    pub replicas: usize,
    /// Clients.
    pub clients: usize,
    /// Time for which faults happen.
    pub faulty_for: Micros,
    /// Messages lost, in thousandths.
    pub loss: usize,
    /// Messages that come twice.
    pub double: usize,
    /// Messages of which another copy comes seconds later.
    pub late: usize,
    /// The longest that a message takes.
    pub delay_max: Micros,
    /// The longest that a write takes.
    pub disk_max: Micros,
    /// Time for which a client thinks, at most.
    pub think_max: Micros,
    /// Entries that a leader has on the way: with few of them requests share entries.
    pub entries_in_flight: usize,
    /// Ticks after which whoever waits is told that nobody knows.
    pub answer_ticks: u64,
    /// Number, of a hundred questions, are reads.
    pub reads: usize,
    /// Duration of the segments of logs.
    pub segment_bytes: u64,
    /// Part of the damage, of a hundred times, that is in records of the log.
    pub rot_in_log: usize,
    /// Number of times, of a hundred times, a client goes to another replica than the last time.
    pub wander: usize,
    /// Bytes after which a snapshot is taken.
    pub snapshot_bytes: u64,
    /// Bytes of entries that are kept beside it.
    pub log_keep_bytes: u64,
    /// Mean time between faults.
    pub fault_every: Micros,
    /// Weight of each kind of fault.
    pub weights: [(Fault, usize); 10],
    /// The longest that a replica stands still.
    pub pause_max: Micros,
    /// Clock settings of the replicas.
    pub clocks: Clocks,
    /// Whether, of the replicas, only a majority comes back at first.
    pub majority_first: bool,
}

/// Speeds of the replicas' clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// As ours does.
    Right,
    /// Each at a rate of its own, from half to twice ours; and each is put forward or back by up to an hour now and then,
    /// on average so often.
    Wrong(Micros),
}

/// A fault, or something that may show one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power of one replica goes.
    Crash,
    /// It goes in the middle of a write.
    CrashInWrite,
    /// The power of all replicas goes.
    CrashAll,
    /// Some replicas cannot reach the others, in both directions or in one.
    Partition,
    /// All reach all again.
    Heal,
    /// A write or sync fails.
    DiskError,
    /// A disk is full, for a while.
    DiskFull,
    /// A replica stands still for a while.
    Pause,
    /// Something on a disk rots, with the power of its replica gone.
    Rot,
    /// The replicas change: one more, one less, another leader.
    Change,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn draw(dice: &mut Dice) -> Plan {
        let some = |dice: &mut Dice, weight| if dice.chance(40) { 0 } else { weight };
        let mut weights = [
            (Fault::Crash, 10),
            (Fault::CrashInWrite, 10),
            (Fault::CrashAll, 3),
            (Fault::Partition, 10),
            (Fault::Heal, 10),
            (Fault::DiskError, 4),
            (Fault::DiskFull, 4),
            (Fault::Pause, 6),
            (Fault::Rot, 3),
            (Fault::Change, 6),
        ];
        for (fault, weight) in &mut weights {
            if *fault != Fault::Heal {
                *weight = some(dice, *weight);
            }
        }
        Plan {
            replicas: *dice.pick(&[1, 3, 3, 3, 3, 5]),
            clients: 1 + dice.below(6),
            faulty_for: *dice.pick(&[4_000_000, 8_000_000, 12_000_000]),
            loss: *dice.pick(&[0, 0, 10, 50, 200]),
            double: *dice.pick(&[0, 0, 10, 200]),
            late: *dice.pick(&[0, 0, 20, 100]),
            delay_max: *dice.pick(&[500, 5_000, 5_000, 60_000, 200_000]),
            disk_max: *dice.pick(&[200, 2_000, 20_000, 200_000]),
            think_max: *dice.pick(&[5_000, 20_000, 100_000]),
            entries_in_flight: *dice.pick(&[1, 2, 4]),
            answer_ticks: *dice.pick(&[20, 60]),
            reads: *dice.pick(&[10, 10, 50]),
            segment_bytes: *dice.pick(&[8 << 10, 16 << 10]),
            rot_in_log: *dice.pick(&[0, 50]),
            wander: *dice.pick(&[0, 5, 50]),
            snapshot_bytes: *dice.pick(&[2_000, 10_000, 10_000, 1 << 20]),
            log_keep_bytes: *dice.pick(&[0, 1_000, 5_000]),
            fault_every: *dice.pick(&[50_000, 300_000, 300_000, 1_000_000]),
            weights,
            pause_max: 2_000_000,
            clocks: Clocks::Right,
            majority_first: false,
        }
    }

    /// Adds what is drawn apart, so that the runs of injected bugs stay as they are: clocks that are wrong, longer
    /// pauses, a majority that comes back alone, and minutes of faults with requests now and then.
    pub fn extend(&mut self, dice: &mut Dice) {
        self.pause_max = *dice.pick(&[2_000_000, 2_000_000, 10_000_000]);
        self.clocks =
            *dice.pick(&[Clocks::Right, Clocks::Wrong(300_000), Clocks::Wrong(3_000_000)]);
        self.majority_first = dice.chance(50);
        if dice.chance(33) {
            self.faulty_for = 60_000_000;
            self.think_max = *dice.pick(&[200_000, 1_000_000, 1_000_000]);
            self.fault_every = *dice.pick(&[500_000, 1_000_000, 2_000_000]);
        }
    }

    /// Weight of a kind of fault.
    pub fn set_weight(&mut self, fault: Fault, weight: usize) {
        let found = self.weights.iter_mut().find(|(kind, _)| *kind == fault);
        found.into_iter().for_each(|(_, known)| *known = weight);
    }

    /// The next fault.
    pub fn fault(&self, dice: &mut Dice) -> Option<Fault> {
        let total: usize = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = dice.below(total.max(1));
        for (fault, weight) in self.weights {
            if at < weight {
                return Some(fault);
            }
            at -= weight;
        }
        None
    }
}
