//! One durable replica under load, on any disk. Every acknowledged transaction raises the version by one, so lost and
//! repeated transactions are detected.

use omega_cellstate::Cell;
use omega_core::{
    Amounts, Claim, Command, Commit, Job, JobId, Kinds, Machine, MachineId, Outcome, SchedulerId,
    SequenceNumber, TaskGroup, TaskId, Transaction, TransactionId, Version,
};
use omega_store::directory::{Directory, EngineKind, Expected, Identity};
use omega_store::log::ReplicaId;
use omega_store::log::segment::SegmentOptions;
use omega_store::membership::Membership;
use omega_store::replica::{
    Reply, Request, RequestId, RetryReason, Settings, Started, bootstrap, start,
};
use omega_store::{CellId, Disk, Origin};
use std::path::Path;
use std::sync::Arc;

/// Number of commands before the first transaction; each of them raises the version by one.
pub const BEFORE: u64 = 3;

/// Number of tasks that are placed and released in turn.
const TASKS: u64 = 50;

/// Maximum length of the log in bytes, while no snapshot can be saved.
pub const LOG_BYTES_MAX: u64 = 64 << 10;

/// Size of the segments, which is small so that there are many.
pub const SEGMENTS: SegmentOptions = SegmentOptions { segment_bytes: 8 << 10, reused_max: 1 };

/// Settings with frequent snapshots.
#[must_use]
pub fn settings() -> Settings {
    let (snapshot_bytes, log_keep_bytes, log_bytes_max) = (4000, 1000, LOG_BYTES_MAX);
    Settings { snapshot_bytes, log_keep_bytes, log_bytes_max, ..Settings::default() }
}

/// Commands before the first transaction.
#[must_use]
pub fn setup() -> [Command; 3] {
    let group = TaskGroup::new(TASKS as u32, Amounts::new([1]));
    [
        Command::RegisterMachine(Machine::new("m", Amounts::new([1 << 20, 1 << 30]))),
        Command::SubmitJob(Job::batch("j", group)),
        Command::RegisterScheduler { name: "load".into() },
    ]
}

/// The transaction with this number: one with an even number places a task, and the next one releases it.
#[must_use]
pub fn transaction(cell: &Cell, number: u64) -> Transaction {
    let task = TaskId { job: JobId(first_job(cell)), index: (number / 2 % TASKS) as u32 };
    let machine: MachineId = cell.machines().next().expect("there is one").id;
    let claim = Claim::new(task, machine, SequenceNumber(0));
    let id = TransactionId { scheduler: SchedulerId(0), number };
    let mut txn = Transaction::new(id, Version(0), Vec::new());
    match number % 2 {
        0 => txn.claims.push(claim),
        _ => txn.releases.push(task),
    }
    txn
}

fn first_job(cell: &Cell) -> u64 {
    cell.jobs().next().expect("there is one").0.0
}

/// Creates the directory of a replica that is the only one of its cell.
///
/// # Errors
/// The reason, if the directory cannot be created.
pub fn create(disk: Arc<dyn Disk>, path: &Path, engine: EngineKind) -> Result<(), String> {
    let origin = Origin { cell: CellId(0xCE11), kinds: Kinds::standard() };
    let identity = Identity { origin, replica: ReplicaId(1), engine };
    let directory = Directory::create_with(disk, path, identity, SEGMENTS);
    let directory = directory.map_err(|error| error.to_string())?;
    let alone = Membership::initial([ReplicaId(1)]);
    bootstrap(&directory, &alone).map_err(|error| error.to_string())
}

/// Opens the directory and starts the replica.
///
/// # Errors
/// The reason, if the replica does not start.
pub fn open(disk: Arc<dyn Disk>, path: &Path) -> Result<Started, String> {
    let directory = Directory::open(disk, path, Expected::default());
    let directory = directory.map_err(|error| error.to_string())?.with_options(SEGMENTS);
    start(directory, settings()).map_err(|error| error.to_string())
}

/// The replica in a single thread, which a test steps.
#[derive(Debug)]
pub struct Lone {
    /// The started replica.
    pub started: Started,
    /// Number of the next transaction.
    pub next: u64,
}

impl Lone {
    /// Starts the replica, and determines the number of its next transaction.
    ///
    /// # Errors
    /// The reason why the replica does not start, or the error in its state.
    pub fn open(disk: Arc<dyn Disk>, path: &Path) -> Result<Lone, String> {
        let mut lone = Lone { started: open(disk, path)?, next: 0 };
        lone.drive();
        if lone.version() < BEFORE {
            for command in setup() {
                lone.request(Request::Command(command));
                lone.stopped().map_or(Ok(()), Err)?;
            }
        }
        lone.next = lone.count()?;
        Ok(lone)
    }

    /// Number of accepted transactions. The state is audited.
    ///
    /// # Errors
    /// The error in the state.
    pub fn count(&mut self) -> Result<u64, String> {
        let register = Command::RegisterScheduler { name: "load".into() };
        let answer = self.request(Request::Command(register));
        let Some(Reply::Outcome(Ok(Outcome::Scheduler { next_transaction, .. }))) = answer else {
            return Err(self.stopped().unwrap_or_else(|| format!("no count: {answer:?}")));
        };
        let state = self.started.replica.applied().lock();
        state.cell.audit().map_err(|error| error.to_string())?;
        let version = state.cell.version().0;
        if version == BEFORE + next_transaction {
            Ok(next_transaction)
        } else {
            Err(format!("version {version} after {next_transaction} transactions"))
        }
    }

    /// Reason why the replica has stopped; `None` if it has not.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        self.started.replica.stopped().map(ToString::to_string)
    }

    /// The version of the replica's cell.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.started.replica.applied().lock().cell.version().0
    }

    /// Submits the next transaction. Returns whether it was acknowledged.
    ///
    /// # Panics
    /// If the transaction was rejected, which must not happen.
    pub fn work(&mut self) -> bool {
        let txn = transaction(&self.started.replica.applied().lock().cell, self.next);
        match self.request(Request::Retry(Command::Commit(txn))) {
            Some(Reply::Outcome(Ok(Outcome::Commit(Commit { conflicts, .. })))) => {
                assert!(conflicts.is_empty(), "transaction {}: {conflicts:?}", self.next);
                self.next += 1;
                true
            }
            Some(Reply::Retry(
                RetryReason::Full
                | RetryReason::Busy
                | RetryReason::Stopped
                | RetryReason::NoSnapshot,
            )) => false,
            None => false,
            Some(Reply::Unknown) => false,
            other => panic!("transaction {}: {other:?}", self.next),
        }
    }

    fn request(&mut self, request: Request) -> Option<Reply> {
        let id = self.started.replica.request(request);
        self.drive_for(Some(id))
    }

    /// Carries out all pending effects.
    pub fn drive(&mut self) {
        self.drive_for(None);
    }

    fn drive_for(&mut self, id: Option<RequestId>) -> Option<Reply> {
        let Started { replica, log, files, .. } = &mut self.started;
        let mut answered = None;
        loop {
            let output = replica.proceed();
            let mut answers = output.replies.into_iter();
            answered =
                answered.or(answers.find(|(of, _)| Some(*of) == id).map(|(_, answer)| answer));
            let mut idle = output.writes.is_empty() && output.files.is_empty();
            output.writes.into_iter().for_each(|write| log.push(write));
            output.compact.into_iter().for_each(|base| log.push_compaction(base));
            match log.work() {
                Ok(number) => {
                    replica.log_full(log.is_full());
                    idle &= number.is_none();
                    number.into_iter().for_each(|number| replica.persisted(number));
                }
                Err(error) => replica.log_failed(error),
            }
            for job in output.files {
                let done = files.work(job);
                replica.file_done(done);
            }
            if replica.stopped().is_some() {
                return answered.or(replica.proceed().replies.pop().map(|(_, answer)| answer));
            }
            if idle {
                return answered;
            }
        }
    }
}
