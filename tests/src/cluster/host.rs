//! One host of a run: a disk, and a replica while the host has power.

use super::clock::Clock;
use super::plan::Micros;
use crate::disk::SimulatedDisk;
use crate::random::Dice;
use omega_core::Kinds;
use omega_store::directory::{Directory, EngineKind, Expected, Identity, OpenDirectoryError};
use omega_store::log::segment::SegmentOptions;
use omega_store::log::{LogIndex, ReplicaId};
use omega_store::membership::Membership;
use omega_store::node;
use omega_store::replica::{
    Settings, SnapshotJob, StartError, Started, TornTail, bootstrap, start,
};
use omega_store::{CellId, Origin};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Identity of the cell in all runs.
pub const CELL: CellId = CellId(0xCE11);

const FOLDER: &str = "/replica";

/// Reason why a replica does not start.
#[derive(Debug)]
pub enum Refused {
    /// Its directory cannot be opened.
    Directory(OpenDirectoryError),
    /// The replica refuses its disk, for example because acknowledged entries are missing.
    Start(StartError),
}

impl Refused {
    /// Whether the failure was caused by an injected fault.
    #[must_use]
    pub fn is_injected(&self) -> bool {
        let text = match self {
            Refused::Directory(error) => error.to_string(),
            Refused::Start(error) => error.to_string(),
        };
        text.contains("injected")
    }
}

impl From<OpenDirectoryError> for Refused {
    fn from(error: OpenDirectoryError) -> Refused {
        Refused::Directory(error)
    }
}

impl From<StartError> for Refused {
    fn from(error: StartError) -> Refused {
        Refused::Start(error)
    }
}

/// One host; see the head of the file.
#[derive(Debug)]
pub struct Host {
    /// Id of its replica.
    pub id: ReplicaId,
    /// Its disk.
    pub disk: SimulatedDisk,
    /// The running replica.
    pub running: Option<Started>,
    /// Number of times that the replica was started. Events of an earlier start are not applied to this one.
    pub life: u64,
    /// Time until which the replica is paused.
    pub paused_until: Micros,
    /// Whether the disk was damaged, so that the replica may fail to start.
    pub rotten: bool,
    /// Whether the damage of the disk is a single bit.
    pub bit_rot: bool,
    /// Whether disk failures were injected, so the replica may stop.
    pub failing: bool,
    /// The operator's decision about a torn end of the replica's log.
    pub torn_tail: TornTail,
    /// Whether the host was abandoned.
    pub gone: bool,
    /// Whether the host stays without power until the others have recovered.
    pub kept_down: bool,
    /// Whether an event is scheduled for the thread of the replica's log.
    pub log_scheduled: bool,
    /// Time at which the thread of the log becomes free.
    pub log_free_at: Micros,
    /// Pending work of the replica's snapshot thread.
    pub file_jobs: VecDeque<SnapshotJob>,
    /// Size of the segments of its log.
    pub segments: SegmentOptions,
    /// Index up to which the replica's applied entries were compared.
    pub checked: LogIndex,
    /// The clock of the host.
    pub clock: Clock,
}

impl Host {
    /// A host with an empty disk.
    #[must_use]
    pub fn new(id: ReplicaId, seed: u64, segment_bytes: u64) -> Host {
        Host {
            id,
            disk: SimulatedDisk::new(seed),
            running: None,
            life: 0,
            paused_until: 0,
            rotten: false,
            bit_rot: false,
            failing: false,
            torn_tail: TornTail::Refuse,
            gone: false,
            kept_down: false,
            log_scheduled: false,
            log_free_at: 0,
            file_jobs: VecDeque::new(),
            segments: SegmentOptions { segment_bytes, reused_max: 1 },
            checked: LogIndex(0),
            clock: Clock::default(),
        }
    }

    /// Creates the replica's directory. A founding replica gets the initial state, and others get none.
    pub fn bootstrap(&mut self, kinds: &Kinds, founders: Option<&Membership>) {
        let disk = Arc::new(self.disk.clone());
        let origin = Origin { cell: CELL, kinds: kinds.clone() };
        let identity = Identity { origin, replica: self.id, engine: EngineKind::Segment };
        let directory = Directory::create_with(disk, Path::new(FOLDER), identity, self.segments);
        let directory = directory.expect("an empty disk takes a folder");
        if let Some(founders) = founders {
            bootstrap(&directory, founders).expect("an empty disk takes a snapshot");
        }
    }

    /// Starts the replica.
    ///
    /// # Errors
    /// If the replica fails to start.
    pub fn start(&mut self, settings: Settings) -> Result<(), Refused> {
        self.life += 1;
        (self.log_scheduled, self.log_free_at) = (false, 0);
        self.file_jobs.clear();
        let disk = Arc::new(self.disk.clone());
        let expected = Expected { cell: Some(CELL), replica: Some(self.id), engine: None };
        let directory = Directory::open(disk, Path::new(FOLDER), expected)?;
        let directory = directory.with_options(self.segments);
        let node = node::Settings { seed: settings.node.seed ^ self.life, ..settings.node };
        let torn_tail = std::mem::take(&mut self.torn_tail);
        let settings = Settings { incarnation: self.life, node, torn_tail, ..settings };
        let started = start(directory, settings)?;
        self.checked = started.replica.applied().lock().position.index;
        self.running = Some(started);
        Ok(())
    }

    /// Cuts the power.
    pub fn crash(&mut self, dice: &mut Dice) {
        self.running = None;
        self.disk.crash(dice);
    }

    /// Whether the replica is running and may lack the end of its log after a power failure.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        let runs = self.running.as_ref();
        !self.rotten
            && runs.is_some_and(|running| running.replica.node().suspected_loss().is_some())
    }

    /// Whether the host has power and its replica is not paused.
    #[must_use]
    pub fn is_up(&self, now: Micros) -> bool {
        self.running.is_some() && self.paused_until <= now
    }
}
