//! Reference model of a log: a naive log, random operations for it and for a log engine, and their comparison.
//!
//! The naive log records every batch, and whether it was synced. After a crash, the naive log computes the contents
//! that the guarantees of [`omega_store::log`] allow: those of any prefix of the batches that contains all synced ones.

use crate::random::Dice;
use omega_store::log::{
    Batch, Bounds, Entry, EntryKind, HardState, LogEngine, LogIndex, Position, ReplicaId, Term,
    WriteError,
};

/// An operation on a log.
#[derive(Clone, Debug)]
pub enum Step {
    /// Appends a batch of entries.
    Append(Batch),
    /// Sets a new base.
    Compact(Position),
    /// Restarts the log at a position, which is synced at once.
    Restart(Position, HardState),
    /// Syncs all operations before this one.
    Sync,
}

/// Contents of a log, in a simple form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogContent {
    /// Position of the entry before the first one.
    pub base: Position,
    /// The entries.
    pub entries: Vec<Entry>,
    /// The last hard state.
    pub hard_state: HardState,
}

impl LogContent {
    /// Position of the last entry, or the base if there is none.
    #[must_use]
    pub fn last(&self) -> Position {
        self.entries.last().map_or(self.base, |entry| entry.position)
    }

    /// Applies an operation.
    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Sync => {}
            Step::Append(batch) => {
                if let Some(first) = batch.entries.first() {
                    self.entries.retain(|entry| entry.position.index < first.position.index);
                }
                self.entries.extend(batch.entries.iter().cloned());
                self.hard_state = batch.hard_state.unwrap_or(self.hard_state);
            }
            Step::Compact(base) => {
                self.entries.retain(|entry| entry.position.index > base.index);
                self.base = *base;
            }
            Step::Restart(base, hard_state) => {
                *self = LogContent { base: *base, entries: Vec::new(), hard_state: *hard_state };
            }
        }
    }

    /// Reads the contents of a log.
    ///
    /// # Panics
    /// If the log cannot be read, or reading it in pieces gives a different result.
    pub fn of(log: &mut dyn LogEngine) -> LogContent {
        let Bounds { base, last } = log.bounds();
        let mut entries = Vec::new();
        log.read(base.index.next(), usize::MAX, &mut entries).expect("a sound log can be read");
        let content = LogContent { base, entries, hard_state: log.hard_state() };
        assert_eq!(content.last(), last, "the last entry");
        content
    }
}

/// Generator of random operations that are valid for a log's content.
#[derive(Debug)]
pub struct Worker {
    dice: Dice,
    /// Maximum size of entries in bytes.
    bytes_max: usize,
    /// Number that makes all entries different.
    counter: u64,
}

impl Worker {
    /// Creates the generator; equal seeds give equal operations.
    #[must_use]
    pub fn new(seed: u64, bytes_max: usize) -> Worker {
        Worker { dice: Dice::new(seed), bytes_max, counter: 0 }
    }

    /// The next operation.
    pub fn next(&mut self, content: &LogContent) -> Step {
        let last = content.last();
        match self.dice.below(100) {
            0..25 => Step::Sync,
            25..33 if !content.entries.is_empty() => {
                let entry = self.dice.below(content.entries.len());
                Step::Compact(content.entries[entry].position)
            }
            33..36 => {
                let index = LogIndex(content.base.index.0 + 1 + self.dice.below(200) as u64);
                let term = Term(last.term.0 + self.dice.below(3) as u64);
                let base = Position { index, term };
                Step::Restart(base, self.hard_state(term, index))
            }
            _ => self.batch(content),
        }
    }

    /// Returns a next operation that is a batch.
    pub fn batch(&mut self, content: &LogContent) -> Step {
        let last = content.last();
        // A new leader may replace entries that are not committed.
        let kept = if self.dice.chance(15) {
            content.entries.len() - self.dice.below(content.entries.len().min(8) + 1)
        } else {
            content.entries.len()
        };
        let before = kept.checked_sub(1).map_or(content.base, |at| content.entries[at].position);
        let changed = kept < content.entries.len() || self.dice.chance(10);
        let mut term = Term(last.term.0.max(1) + u64::from(changed));
        let count = match self.dice.below(10) {
            0 => 0,
            1 => 30 + self.dice.below(60),
            _ => 1 + self.dice.below(5),
        };
        let mut entries = Vec::new();
        for index in (before.index.0 + 1..).take(count) {
            term = Term(term.0 + u64::from(self.dice.chance(3)));
            entries.push(self.entry(Position { index: LogIndex(index), term }));
        }
        let hard_state = (entries.is_empty() || self.dice.chance(30))
            .then(|| self.hard_state(term, LogIndex(before.index.0)));
        Step::Append(Batch { entries, hard_state })
    }

    fn entry(&mut self, position: Position) -> Entry {
        let length = match self.dice.below(8) {
            0 => 0,
            1 => self.dice.below(self.bytes_max + 1),
            _ => self.dice.below(self.bytes_max / 10 + 1),
        };
        self.counter += 1;
        let mut data = vec![self.counter as u8; length];
        data.iter_mut().zip(self.counter.to_le_bytes()).for_each(|(to, from)| *to = from);
        let kind = if self.dice.chance(5) { EntryKind::Membership } else { EntryKind::Commands };
        Entry { position, kind, data: data.into() }
    }

    fn hard_state(&mut self, term: Term, commit: LogIndex) -> HardState {
        let vote = self.dice.chance(60).then(|| ReplicaId(1 + self.dice.below(3) as u64));
        HardState { term, vote, commit }
    }
}

/// Performs an operation on an engine.
///
/// # Errors
/// Those of the engine.
pub fn perform(log: &mut dyn LogEngine, step: &Step) -> Result<(), WriteError> {
    match step {
        Step::Append(batch) => log.append(batch),
        Step::Compact(base) => log.compact(*base),
        Step::Restart(base, hard_state) => log.restart(*base, *hard_state),
        Step::Sync => log.sync(),
    }
}

/// A naive log, with the operations since its last sync.
#[derive(Clone, Debug, Default)]
pub struct NaiveLog {
    /// Current contents.
    pub now: LogContent,
    /// Contents at the last sync; the next field has the operations since.
    safe: LogContent,
    since: Vec<Step>,
}

impl NaiveLog {
    /// Records an operation that an engine has performed.
    pub fn done(&mut self, step: Step) {
        self.now.apply(&step);
        if matches!(step, Step::Sync | Step::Restart(..)) {
            self.safe = self.now.clone();
            self.since.clear();
        } else {
            self.since.push(step);
        }
    }

    /// Records an operation that an engine may have performed, without a confirmation that it is durable.
    pub fn perhaps(&mut self, step: Step) {
        self.now.apply(&step);
        self.since.push(step);
    }

    /// Continues with the contents that were found on reopening.
    ///
    /// # Errors
    /// The allowed contents and the found contents, if the found contents are not allowed.
    pub fn reopened(&mut self, found: LogContent) -> Result<(), String> {
        let mut allowed = self.safe.clone();
        let mut seen = vec![allowed.clone()];
        for step in &self.since {
            allowed.apply(step);
            seen.push(allowed.clone());
        }
        if !seen.contains(&found) {
            let describe = |content: &LogContent| {
                format!("{:?} to {:?}, {:?}", content.base, content.last(), content.hard_state)
            };
            let seen: Vec<String> = seen.iter().map(describe).collect();
            return Err(format!("found {}\nallowed {}", describe(&found), seen.join("\n        ")));
        }
        *self = NaiveLog { now: found.clone(), safe: found, since: Vec::new() };
        Ok(())
    }
}

/// Compares everything that an engine returns with the naive log.
///
/// # Errors
/// The first difference.
pub fn compare(
    log: &mut dyn LogEngine,
    content: &LogContent,
    dice: &mut Dice,
) -> Result<(), String> {
    let bounds = Bounds { base: content.base, last: content.last() };
    same("bounds", &log.bounds(), &bounds)?;
    same("hard state", &log.hard_state(), &content.hard_state)?;
    let base = content.base.index.0;
    let from = base as usize + dice.below(content.entries.len() + 3);
    let bytes_max = dice.below(2000);
    let mut read = Vec::new();
    log.read(LogIndex(from as u64), bytes_max, &mut read).map_err(|error| error.to_string())?;
    let mut wanted = Vec::new();
    let mut bytes = 0;
    if let Some(from) = (from as u64).checked_sub(base + 1) {
        for entry in content.entries.iter().skip(from as usize) {
            bytes += entry.data.len();
            if !wanted.is_empty() && bytes > bytes_max {
                break;
            }
            wanted.push(entry.clone());
        }
    }
    same("entries", &read, &wanted)?;
    let term = log.term(LogIndex(from as u64)).map_err(|error| error.to_string())?;
    let wanted = wanted.first().map(|entry| entry.position.term);
    let of_base = (from as u64 == base).then_some(content.base.term);
    same("term", &term, &wanted.or(of_base))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, wanted: &T) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}\n  found:  {found:?}\n  wanted: {wanted:?}"))
}
