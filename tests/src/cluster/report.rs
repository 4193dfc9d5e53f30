//! Report of a run, or of its failure.

use super::plan::Micros;
use std::collections::BTreeMap;

/// Report of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Events.
    pub events: u64,
    /// Entries that were agreed on.
    pub entries: u64,
    /// Commands that clients asked for.
    pub asked: usize,
    /// Faults of each kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// The time in which faults went on. What follows, until all agree, does not count.
    pub simulated: Micros,
    /// The longest that replicas took to agree once the faults were over and all had power.
    pub recovery_max: Micros,
    /// The seed of that longest recovery.
    pub slowest: u64,
    /// The longest that a majority alone took to answer all clients.
    pub majority_max: Micros,
    /// A hash of all that happened: two runs of a seed have the same.
    pub digest: u64,
}

impl Report {
    /// Adds what another run was like.
    pub fn add(&mut self, other: &Report) {
        self.events += other.events;
        self.entries += other.entries;
        self.asked += other.asked;
        self.simulated += other.simulated;
        self.digest ^= other.digest;
        if other.recovery_max > self.recovery_max {
            (self.recovery_max, self.slowest) = (other.recovery_max, other.slowest);
        }
        self.majority_max = self.majority_max.max(other.majority_max);
        for (fault, count) in &other.faults {
            *self.faults.entry(fault).or_default() += count;
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Report { events, entries, asked, simulated, digest, .. } = self;
        let seconds = |time: Micros| time as f64 / 1e6;
        let hours = *simulated as f64 / 3.6e9;
        write!(f, "{hours:.3} hours, {events} events, {entries} entries, {asked} commands")?;
        let (all, majority) = (seconds(self.recovery_max), seconds(self.majority_max));
        write!(f, ", recovered in {all:.2} s at most (seed {})", self.slowest)?;
        write!(f, ", a majority alone in {majority:.2} s")?;
        for (fault, count) in &self.faults {
            write!(f, ", {fault}: {count}")?;
        }
        write!(f, ", digest {digest:016x}")
    }
}

/// A run that went wrong.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Of which seed.
    pub seed: u64,
    /// When.
    pub at: Micros,
    /// Mistake.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "seed {} after {} us: {}\nrepeat it: cargo run -p omega-tests --bin chaos -- --seed {}",
            self.seed, self.at, self.what, self.seed
        )
    }
}
