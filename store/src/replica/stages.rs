//! The stages of a commit, with the time that a leader's entries spend in each.
//!
//! ```text
//!   sent ───queue──▶ gathered ─pre-check─▶ proposed ─────replicate─────▶ committed ──apply──▶ answered
//!                                            └──log──▶ durable on this disk
//! ```
//!
//! No decision of a replica depends on these times. They are measured only if the replica runs on threads, not in a
//! simulation. The times of an entry count for all its commands. The time in the queue is the time of the entry's
//! oldest command.

use super::{Durations, Histogram, Replica};
use crate::log::{LogIndex, Position};
use omega_core::{Command, TransactionId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A stage of a commit. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The request waits for the replica.
    Queue,
    /// The leader pre-checks requests and encodes them into an entry.
    PreCheck,
    /// The entry is written and synced by this replica, whether it is the leader or not.
    Log,
    /// The entry is proposed, and no majority has it yet.
    Replicate,
    /// The entry is applied to the cell.
    Apply,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 5] =
        [Stage::Queue, Stage::PreCheck, Stage::Log, Stage::Replicate, Stage::Apply];

    /// Name of the stage.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::Queue => "queue",
            Stage::PreCheck => "pre_check",
            Stage::Log => "log",
            Stage::Replicate => "replicate",
            Stage::Apply => "apply",
        }
    }
}

/// Times at which the entry of a followed transaction passed each stage, on a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Index of the entry.
    pub entry: LogIndex,
    /// Number of commands in the entry.
    pub commands: usize,
    /// Time at which the leader took up the waiting requests.
    pub gathered: Instant,
    /// Time at which the entry was proposed.
    pub proposed: Instant,
    /// Time at which the entry was synced to the leader's disk; `None` if a majority of other replicas had it before.
    pub logged: Option<Instant>,
    /// Time at which a majority had the entry.
    pub committed: Instant,
    /// Time at which this replica applied the entry.
    pub applied: Instant,
}

/// Maximum number of transactions that are followed at once. They are a sample, which more transactions would not
/// improve.
const FOLLOWED_MAX: usize = 1024;

/// Durations of a replica's entries in each stage since its start, and the times of followed transactions.
#[derive(Debug, Default)]
pub struct Stages {
    durations: [Durations; Stage::ALL.len()],
    /// Number of followed transactions. If it is 0, the lock need not be taken. It orders no other memory accesses.
    following: AtomicUsize,
    /// The followed transactions. Locked only for single look-ups.
    followed: Mutex<BTreeMap<TransactionId, Option<Followed>>>,
}

impl Stages {
    /// Follows a transaction until its times are read. The call has no effect if too many transactions are followed.
    pub fn follow(&self, id: TransactionId) {
        let mut followed = self.followed.lock();
        if followed.len() < FOLLOWED_MAX {
            followed.insert(id, None);
        }
        self.following.store(followed.len(), Ordering::Relaxed);
    }

    /// Stops following a transaction. Returns the times of its entry if this replica was the leader.
    #[must_use]
    pub fn followed(&self, id: TransactionId) -> Option<Followed> {
        let mut followed = self.followed.lock();
        let found = followed.remove(&id).flatten();
        self.following.store(followed.len(), Ordering::Relaxed);
        found
    }

    fn is_following(&self) -> bool {
        self.following.load(Ordering::Relaxed) > 0
    }

    /// Adds a duration of a stage.
    pub fn note(&self, stage: Stage, took: Duration) {
        self.durations[stage as usize].note(took);
    }

    /// The durations of a stage so far.
    #[must_use]
    pub fn histogram(&self, stage: Stage) -> Histogram {
        self.durations[stage as usize].histogram()
    }
}

/// Measures the entries that a leader proposes, if enabled.
#[derive(Debug, Default)]
pub(super) struct Watch(Option<Watched>);

#[derive(Debug)]
struct Watched {
    stages: Arc<Stages>,
    /// Total duration of all stages at which an entry is logged as a warning.
    slow: Duration,
    /// Time at which the oldest waiting request arrived.
    waiting: Option<Instant>,
    /// Time at which the pre-check began, and the time that the oldest request had waited before it.
    gathering: Option<(Instant, Duration)>,
    proposed: VecDeque<Proposed>,
    /// The entry that is being applied.
    applying: Option<(Proposed, Instant)>,
}

/// A proposed entry, with its times so far.
#[derive(Clone, Copy, Debug)]
struct Proposed {
    position: Position,
    commands: usize,
    queue: Duration,
    pre_check: Duration,
    at: Instant,
    /// Time at which the entry was synced to this disk, if that was measured.
    logged: Option<Instant>,
}

impl Replica {
    /// Enables the measurement.
    pub(super) fn watch(&mut self, stages: Arc<Stages>) {
        self.watch = Watch::new(stages, self.settings.slow);
    }
}

impl Watch {
    fn new(stages: Arc<Stages>, slow: Duration) -> Watch {
        let (waiting, gathering, applying) = (None, None, None);
        let proposed = VecDeque::new();
        Watch(Some(Watched { stages, slow, waiting, gathering, proposed, applying }))
    }

    /// Records that a request waits, with the number of requests that now wait. If no other waits, earlier ones were
    /// handled without an entry, or were dropped, so their time does not count.
    pub(super) fn queued(&mut self, waiting: usize) {
        let Some(watched) = &mut self.0 else { return };
        if waiting <= 1 || watched.waiting.is_none() {
            watched.waiting = Some(Instant::now());
        }
    }

    /// Begins the pre-check of requests.
    pub(super) fn gathering(&mut self) {
        if let Some(watched) = &mut self.0 {
            let now = Instant::now();
            let waited = watched.waiting.take().map(|since| now.duration_since(since));
            watched.gathering = Some((now, waited.unwrap_or_default()));
        }
    }

    /// Ends the pre-check. `more` is set if other requests still wait.
    pub(super) fn gathered(&mut self, more: bool) {
        if let Some(watched) = &mut self.0 {
            watched.waiting = more.then(Instant::now);
        }
    }

    /// Records that an entry was proposed.
    pub(super) fn proposed(&mut self, position: Position, commands: usize) {
        let Some(watched) = &mut self.0 else { return };
        let at = Instant::now();
        let (began, queue) = watched.gathering.take().unwrap_or((at, Duration::ZERO));
        let pre_check = at.duration_since(began);
        watched.stages.note(Stage::Queue, queue);
        watched.stages.note(Stage::PreCheck, pre_check);
        watched.proposed.push_back(Proposed {
            position,
            commands,
            queue,
            pre_check,
            at,
            logged: None,
        });
    }

    /// Records that all entries up to this one are durable on this disk.
    pub(super) fn safe(&mut self, index: LogIndex) {
        let Some(watched) = self.0.as_mut().filter(|watched| watched.stages.is_following()) else {
            return;
        };
        let is_new = |one: &&mut Proposed| one.position.index <= index && one.logged.is_none();
        let now = Instant::now();
        watched.proposed.iter_mut().filter(is_new).for_each(|one| one.logged = Some(now));
    }

    /// The followed transactions among these commands.
    pub(super) fn followed<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
    ) -> Vec<TransactionId> {
        let Some(watched) = self.0.as_ref().filter(|watched| watched.stages.is_following()) else {
            return Vec::new();
        };
        let followed = watched.stages.followed.lock();
        let id = |command: &Command| match command {
            Command::Commit(txn) => Some(txn.id).filter(|id| followed.contains_key(id)),
            _ => None,
        };
        commands.filter_map(id).collect()
    }

    /// Records that an entry was committed and is about to be applied. Entries of other leaders are not measured.
    pub(super) fn committed(&mut self, position: Position) {
        let Some(Watched { stages, proposed, applying, .. }) = &mut self.0 else { return };
        let is_due = |one: &mut Proposed| one.position.index <= position.index;
        while let Some(first) = proposed.pop_front_if(is_due) {
            if first.position == position {
                let now = Instant::now();
                stages.note(Stage::Replicate, now.duration_since(first.at));
                *applying = Some((first, now));
            }
        }
    }

    /// Records that the entry was applied. `ids` are the followed transactions in it.
    pub(super) fn applied(&mut self, ids: Vec<TransactionId>) {
        let Some(Watched { stages, slow, applying, .. }) = &mut self.0 else { return };
        let Some((entry, since)) = applying.take() else { return };
        let apply = since.elapsed();
        stages.note(Stage::Apply, apply);
        if !ids.is_empty() {
            let times = entry.times((since, since + apply));
            let mut followed = stages.followed.lock();
            for id in ids {
                // The caller may have stopped following the transaction.
                followed.entry(id).and_modify(|found| *found = Some(times));
            }
        }
        entry.log((since.duration_since(entry.at), apply), *slow);
    }
}

impl Proposed {
    fn times(&self, (committed, applied): (Instant, Instant)) -> Followed {
        Followed {
            entry: self.position.index,
            commands: self.commands,
            gathered: self.at - self.pre_check,
            proposed: self.at,
            logged: self.logged,
            committed,
            applied,
        }
    }

    /// Logs the times, as a warning if the entry was slow, and otherwise at debug level.
    fn log(&self, (replicate, apply): (Duration, Duration), slow: Duration) {
        let all = self.queue + self.pre_check + replicate + apply;
        let us = |took: Duration| took.as_micros() as u64;
        macro_rules! log {
            ($level:ident, $what:literal) => {
                tracing::$level!(
                    entry = self.position.index.0,
                    commands = self.commands,
                    all_us = us(all),
                    queue_us = us(self.queue),
                    pre_check_us = us(self.pre_check),
                    replicate_us = us(replicate),
                    apply_us = us(apply),
                    $what
                )
            };
        }
        if all < slow { log!(debug, "entry") } else { log!(warn, "slow entry") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{LogIndex, Term};

    fn total(stages: &Stages, stage: Stage) -> u64 {
        stages.histogram(stage).counts.iter().map(|(_, count)| count).sum()
    }

    #[test]
    fn a_transaction_that_is_followed_is_told_of_once() {
        let stages = Arc::new(Stages::default());
        let mut watch = Watch::new(stages.clone(), Duration::MAX);
        let id = |number| TransactionId { scheduler: omega_core::SchedulerId(0), number };
        let commit = |number| {
            let txn = omega_core::Transaction::new(id(number), omega_core::Version(0), Vec::new());
            Command::Commit(txn)
        };
        let commands = [commit(1), Command::Expire { now_ms: 1 }, commit(2)];
        assert_eq!(watch.followed(commands.iter()), []);
        stages.follow(id(2));
        stages.follow(id(3));
        watch.gathering();
        let position = Position { index: LogIndex(5), term: Term(2) };
        watch.proposed(position, 3);
        watch.safe(LogIndex(4));
        assert_eq!(watch.0.as_ref().unwrap().proposed[0].logged, None);
        watch.safe(LogIndex(5));
        let followed = watch.followed(commands.iter());
        assert_eq!(followed, [id(2)]);
        watch.committed(position);
        watch.applied(followed);
        let times = stages.followed(id(2)).unwrap();
        assert_eq!((times.entry, times.commands), (LogIndex(5), 3));
        let moments =
            [times.gathered, times.proposed, times.logged.unwrap(), times.committed, times.applied];
        assert!(moments.is_sorted(), "{times:?}");
        assert_eq!((stages.followed(id(2)), stages.followed(id(3))), (None, None));
        assert!(!stages.is_following());
        (0..2000).for_each(|number| stages.follow(id(number)));
        assert_eq!(stages.followed.lock().len(), FOLLOWED_MAX);
    }

    #[test]
    fn requests_that_need_no_entry_are_not_measured() {
        let mut watch = Watch::new(Arc::default(), Duration::MAX);
        let mut queued = |waiting| {
            let before = Instant::now();
            while Instant::now() == before {}
            watch.queued(waiting);
            watch.0.as_ref().and_then(|watched| watched.waiting).expect("a request waits")
        };
        // A transfer is handled at once. Then a transaction waits, and then another one.
        let (transfer, first, second) = (queued(1), queued(1), queued(2));
        assert!(transfer < first);
        assert_eq!(first, second, "the oldest counts");
    }

    #[test]
    fn only_what_was_proposed_here_is_watched() {
        let stages = Arc::new(Stages::default());
        let mut watch = Watch::new(stages.clone(), Duration::MAX);
        let at = |index, term| Position { index: LogIndex(index), term: Term(term) };
        watch.queued(1);
        for index in [5, 6] {
            watch.gathering();
            watch.gathered(index == 5);
            watch.proposed(at(index, 2), 1);
        }
        // The second entry was replaced by an entry of another leader.
        for (position, own) in [(at(4, 1), 0), (at(5, 2), 1), (at(6, 3), 1), (at(7, 3), 1)] {
            watch.committed(position);
            watch.applied(Vec::new());
            assert_eq!(total(&stages, Stage::Apply), own, "{position:?}");
            assert_eq!(total(&stages, Stage::Replicate), own, "{position:?}");
        }
        assert_eq!(total(&stages, Stage::Queue), 2);
        assert!(watch.0.expect("it is enabled").proposed.is_empty());
    }
}
