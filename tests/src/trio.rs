//! Three replicas of a cell under load, in one thread and round by round, on any disks.
//!
//! ```text
//!   a round:  the client sends ─▶ each replica works, writes and saves ─▶ messages arrive
//! ```
//!
//! Unlike in [`crate::cluster`], the timing is fixed, so runs differ only in the actions of their caller. A replica
//! that panics or stops loses its power and is started again. Every transaction raises the version by one, so lost and
//! repeated transactions are detected.

use crate::disk::SimulatedDisk;
use crate::durable::{BEFORE, LOG_BYTES_MAX, SEGMENTS, setup, transaction};
use crate::random::Dice;
use omega_core::{Command, Kinds, Outcome};
use omega_store::directory::{Directory, EngineKind, Expected, Identity};
use omega_store::log::ReplicaId;
use omega_store::membership::Membership;
use omega_store::node;
use omega_store::replica::{
    PeerMessage, Reply, Request, RequestId, Settings, StartError, Started, bootstrap, start,
};
use omega_store::{CellId, Origin};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Directory of each replica on its disk.
pub const FOLDER: &str = "/replica";

/// Number of rounds between two ticks.
const TICK: u64 = 2;

/// Number of rounds for which the client waits for a reply.
const PATIENCE: u64 = 60;

/// Number of rounds without faults after which a command is applied, and all replicas agree; these are enough for many
/// elections.
const AGREE: u64 = 2_000;

/// Three replicas in one process. See the module documentation.
pub struct Trio {
    /// Disk of each replica.
    pub disks: [SimulatedDisk; 3],
    /// Running replicas.
    pub up: [Started; 3],
    /// The replica that is partitioned from the others, if there is one.
    pub cut: Option<usize>,
    /// Called with the number of the replica that works next, and with `None` in between.
    pub at_work: fn(Option<usize>),
    /// Number of times a replica was started again.
    pub restarts: u64,
    /// Number of the next transaction; all transactions before it were acknowledged.
    pub next: u64,
    dice: Dice,
    messages: Vec<(usize, usize, PeerMessage)>,
    waiting: Option<Waiting>,
    round: u64,
    starts: u64,
}

/// The request whose reply the client waits for.
#[derive(Clone, Copy)]
struct Waiting {
    at: usize,
    id: RequestId,
    since: u64,
}

impl Trio {
    /// Creates three replicas with an elected leader, a machine and a job.
    ///
    /// # Panics
    /// If the replicas do not elect a leader, or reject the commands.
    #[must_use]
    pub fn new() -> Trio {
        let disks = [1, 2, 3].map(SimulatedDisk::new);
        let founders = Membership::initial([1, 2, 3].map(ReplicaId));
        for (disk, id) in disks.iter().zip(1..) {
            let origin = Origin { cell: CellId(0xCE11), kinds: Kinds::standard() };
            let identity = Identity { origin, replica: ReplicaId(id), engine: EngineKind::Segment };
            let disk = Arc::new(disk.clone());
            let directory = Directory::create_with(disk, Path::new(FOLDER), identity, SEGMENTS);
            bootstrap(&directory.expect("the disk is empty"), &founders).expect("it has room");
        }
        let up = [0, 1, 2].map(|at| restart(&disks[at], at as u64).expect("it was founded"));
        let mut trio = Trio {
            disks,
            up,
            cut: None,
            at_work: |_| {},
            restarts: 0,
            next: 0,
            dice: Dice::new(1),
            messages: Vec::new(),
            waiting: None,
            round: 0,
            starts: 3,
        };
        for command in setup() {
            trio.prepare(&command);
        }
        trio
    }

    /// Applies a command, without faults.
    fn prepare(&mut self, command: &Command) {
        let end = self.round + AGREE;
        while self.leader().is_none() {
            assert!(self.round < end, "no leader is elected");
            self.work(None);
        }
        let leader = self.leader().expect("one was elected");
        let before = self.states()[leader].1;
        let id = self.up[leader].replica.request(Request::Command(command.clone()));
        self.waiting = Some(Waiting { at: leader, id, since: self.round });
        while self.waiting.is_some() {
            assert!(self.round < end, "no reply to {command:?}");
            self.work(None);
        }
        assert_eq!(self.states()[leader].1, before + 1, "not applied: {command:?}");
    }

    /// The leader, once it has applied all committed entries.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let leads = |at: &usize| self.up[*at].replica.node().leads_with_all();
        (0..3).filter(|at| self.cut != Some(*at)).find(leads)
    }

    /// Runs one round. If the client waits for no reply, it submits the next transaction.
    pub fn round(&mut self) {
        let late = self.waiting.filter(|waiting| self.round > waiting.since + PATIENCE);
        if self.waiting.is_none() || late.is_some() {
            self.waiting = None;
            if let Some(leader) = self.leader() {
                let txn = transaction(&self.up[leader].replica.applied().lock().cell, self.next);
                self.work(Some((leader, Request::Retry(Command::Commit(txn)))));
                return;
            }
        }
        self.work(None);
    }

    fn work(&mut self, ask: Option<(usize, Request)>) {
        self.round += 1;
        if let Some((at, ask)) = ask {
            let mut id = None;
            self.with(at, |started| id = Some(started.replica.request(ask)));
            self.waiting = id.map(|id| Waiting { at, id, since: self.round });
        }
        for at in 0..3 {
            let mut out = Out::default();
            let ticks = self.round.is_multiple_of(TICK);
            self.with(at, |started| {
                if ticks {
                    started.replica.tick();
                }
                drive(started, &mut out);
            });
            let sent = out.messages.into_iter();
            self.messages.extend(sent.map(|(to, message)| (at, to.0 as usize - 1, message)));
            out.replies.into_iter().for_each(|(id, answer)| self.answered((at, id), &answer));
        }
        for (from, to, message) in std::mem::take(&mut self.messages) {
            if self.cut.is_none_or(|cut| cut != from && cut != to) {
                let from = ReplicaId(from as u64 + 1);
                self.with(to, |started| started.replica.receive(from, message));
            }
        }
    }

    /// Runs a function on a replica. If the replica panics or stops, it loses its power and restarts.
    fn with(&mut self, at: usize, work: impl FnOnce(&mut Started)) {
        (self.at_work)(Some(at));
        let replica = &mut self.up[at];
        let panicked = catch_unwind(AssertUnwindSafe(|| work(replica))).is_err();
        (self.at_work)(None);
        if panicked || self.up[at].replica.stopped().is_some() {
            self.restart(at);
        }
    }

    /// Cuts the power of a replica and restores it.
    ///
    /// # Panics
    /// If the replica does not start from its disk.
    pub fn restart(&mut self, at: usize) {
        self.restarts += 1;
        self.starts += 1;
        self.disks[at].crash(&mut self.dice);
        self.up[at] = restart(&self.disks[at], self.starts << 8 | at as u64)
            .unwrap_or_else(|error| panic!("replica {at} refuses to start: {error}"));
    }

    fn answered(&mut self, from: (usize, RequestId), answer: &Reply) {
        if self.waiting.take_if(|waiting| (waiting.at, waiting.id) == from).is_none() {
            return;
        }
        if let Reply::Outcome(Ok(Outcome::Commit(commit))) = answer {
            assert!(commit.conflicts.is_empty(), "transaction {}: {commit:?}", self.next);
            self.next += 1;
        }
    }

    /// Runs the replicas until all have applied the same entries, audits and compares them, and counts the
    /// transactions.
    ///
    /// # Panics
    /// If the replicas do not agree, or an acknowledged transaction was lost or applied twice.
    pub fn agree(&mut self) {
        self.cut = None;
        let (mut last, mut still) = (self.states(), 0);
        let end = self.round + AGREE;
        // In a round without changes, messages may still be in flight.
        while still < PATIENCE {
            assert!(self.round < end, "they do not come to agree: {last:?}");
            self.work(None);
            let now = self.states();
            let same = now == last && now.iter().all(|one| one.0 == now[0].0);
            still = if same { still + 1 } else { 0 };
            last = now;
            self.waiting = None;
        }
        let hashes = [0, 1, 2].map(|at| {
            let state = self.up[at].replica.applied().lock();
            state.cell.audit().expect("the cell is sound");
            state.cell.state_hash()
        });
        assert_eq!(hashes, [hashes[0]; 3], "at {last:?}");
        // One transaction may have been in flight; no transaction is lost or repeated.
        let versions = [0, 1].map(|more| BEFORE + self.next + more);
        assert!(versions.contains(&last[0].1), "{last:?} after {}", self.next);
    }

    /// The last entry and the version of each replica.
    fn states(&self) -> [(u64, u64); 3] {
        [0, 1, 2].map(|at| {
            let state = self.up[at].replica.applied().lock();
            (state.position.index.0, state.cell.version().0)
        })
    }
}

impl Default for Trio {
    fn default() -> Trio {
        Trio::new()
    }
}

fn restart(disk: &SimulatedDisk, incarnation: u64) -> Result<Started, StartError> {
    let directory = Directory::open(Arc::new(disk.clone()), Path::new(FOLDER), Expected::default());
    let directory = directory.expect("its identity is safe").with_options(SEGMENTS);
    let node = node::Settings { seed: incarnation, ..node::Settings::default() };
    let settings = Settings {
        node,
        incarnation,
        // Snapshots are so frequent that a partitioned replica soon needs one.
        snapshot_bytes: 1500,
        log_keep_bytes: 500,
        log_bytes_max: LOG_BYTES_MAX,
        ..Settings::default()
    };
    start(directory, settings)
}

#[derive(Default)]
struct Out {
    messages: Vec<(ReplicaId, PeerMessage)>,
    replies: Vec<(RequestId, Reply)>,
}

/// Carries out a replica's effects.
fn drive(started: &mut Started, out: &mut Out) {
    let Started { replica, log, files, .. } = started;
    let output = replica.proceed();
    out.messages.extend(output.messages);
    out.replies.extend(output.replies);
    output.writes.into_iter().for_each(|write| log.push(write));
    output.compact.into_iter().for_each(|base| log.push_compaction(base));
    match log.work() {
        Ok(number) => {
            replica.log_full(log.is_full());
            number.into_iter().for_each(|number| replica.persisted(number));
        }
        Err(error) => replica.log_failed(error),
    }
    for job in output.files {
        let done = files.work(job);
        replica.file_done(done);
    }
}
