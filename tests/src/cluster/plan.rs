//! Fault plan of a run, with the rates of faults. It is drawn from the seed, so that some runs have many faults of one
//! kind, and others a few of each kind.

use crate::random::Dice;

/// Time in microseconds since the start of the run.
pub type Micros = u64;

/// The plan of one run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of founding replicas.
    pub replicas: usize,
    /// Number of clients.
    pub clients: usize,
    /// Duration of the time with faults.
    pub faulty_for: Micros,
    /// Share of messages that are lost, in thousandths.
    pub loss: usize,
    /// Share of messages that are duplicated, in thousandths.
    pub double: usize,
    /// Share of messages of which another copy arrives seconds later, in thousandths.
    pub late: usize,
    /// Maximum delay of a message.
    pub delay_max: Micros,
    /// Maximum duration of a write.
    pub disk_max: Micros,
    /// Maximum pause of a client between calls.
    pub think_max: Micros,
    /// Maximum number of a leader's unacknowledged entries. If it is small, several requests share
    /// an entry.
    pub entries_in_flight: usize,
    /// Number of ticks after which the answer to a waiting client is that the outcome is unknown.
    pub reply_ticks: u64,
    /// Percentage of reads among calls.
    pub reads: usize,
    /// Size of a log segment in bytes.
    pub segment_bytes: u64,
    /// Percentage of the damage that affects records of the log.
    pub rot_in_log: usize,
    /// Percentage of calls after which a client switches to another replica.
    pub wander: usize,
    /// Bytes of log entries after which a snapshot is taken.
    pub snapshot_bytes: u64,
    /// Bytes of log entries that are kept after a snapshot was taken.
    pub log_keep_bytes: u64,
    /// Mean time between faults.
    pub fault_every: Micros,
    /// Weight of each kind of fault.
    pub weights: [(Fault, usize); 10],
    /// Maximum pause of a replica.
    pub pause_max: Micros,
    /// Clock settings of the replicas.
    pub clocks: Clocks,
    /// Whether only a majority of the replicas gets power at first when the faults end.
    pub majority_first: bool,
}

/// Deviation of the replicas' clocks from the right time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// All clocks show the right time.
    Right,
    /// Each clock has its own rate, from half to twice the right one, and jumps by up to an hour. The value is the mean
    /// time between jumps.
    Wrong(Micros),
}

/// A fault, or an event that may reveal one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A replica loses power.
    Crash,
    /// A replica loses power during a write.
    CrashInWrite,
    /// All replicas lose power.
    CrashAll,
    /// Some replicas cannot reach the others, in both directions or in one.
    Partition,
    /// All partitions end.
    Heal,
    /// A write or sync fails.
    DiskError,
    /// A disk is full for a while.
    DiskFull,
    /// A replica is paused for a while.
    Pause,
    /// Data on the disk of a stopped replica rots.
    Rot,
    /// The membership changes: a replica is added or removed, or the leadership is transferred.
    Change,
}

impl Plan {
    /// Draws the plan of a seed.
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
            reply_ticks: *dice.pick(&[20, 60]),
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

    /// Draws further settings: wrong clocks, longer pauses, a majority that returns alone, and minutes of faults with
    /// few requests. They come from a separate generator, so that the runs of injected bugs do not change.
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

    /// Sets the weight of a kind of fault.
    pub fn set_weight(&mut self, fault: Fault, weight: usize) {
        let found = self.weights.iter_mut().find(|(kind, _)| *kind == fault);
        found.into_iter().for_each(|(_, known)| *known = weight);
    }

    /// Draws the next fault; `None` if no fault has a weight.
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
