//! Report of a run, or of its failure.

use super::plan::Micros;
use std::collections::BTreeMap;

/// Report of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of events.
    pub events: u64,
    /// Number of agreed entries.
    pub entries: u64,
    /// Number of clients' commands.
    pub asked: usize,
    /// Number of faults of each kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Duration of the faults, without the time until all replicas agree.
    pub simulated: Micros,
    /// Longest time until the replicas agreed, measured from the end of all faults, when all had power.
    pub recovery_max: Micros,
    /// The seed with the longest recovery.
    pub slowest: u64,
    /// Longest time from the end of the faults until a majority, without the other replicas, had answered enough calls
    /// of clients.
    pub majority_max: Micros,
    /// A hash of all events, which is equal for two runs of a seed.
    pub digest: u64,
}

impl Report {
    /// Adds the figures of another run.
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

/// The failure of a run.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Seed of the run.
    pub seed: u64,
    /// Time of the violation.
    pub at: Micros,
    /// Description of the violation.
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
