//! One computer of the run: a disk that outlives what runs on it, and a replica while there is power.

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
use omega_store::replica::{FileJob, Settings, StartError, Started, TornTail, found, start};
use omega_store::{CellId, Origin};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// Identity of the cell in all runs.
pub const CELL: CellId = CellId(0xCE11);

const FOLDER: &str = "/replica";

/// Why a replica does not start.
#[derive(Debug)]
pub enum Refused {
    /// Its directory cannot be opened.
    Directory(OpenDirectoryError),
    /// Contents of it is not all that was promised.
    Start(StartError),
}

impl Refused {
    /// Whether the disk was told to fail so.
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

/// One computer. See the head of the file.
#[derive(Debug)]
pub struct Host {
    /// Which replica it is for.
    pub id: ReplicaId,
    /// Its disk.
    pub disk: SimulatedDisk,
    /// The running replica.
    pub running: Option<Started>,
    /// Counts its starts, so that what was meant for an earlier one is not taken for this one's.
    pub life: u64,
    /// Stands still until then.
    pub paused_until: Micros,
    /// Whether its disk was damaged, so that it may refuse to start.
    pub rotten: bool,
    /// Whether one bit of it was, and nothing else.
    pub bit_rot: bool,
    /// Whether its disk was told to fail, so that its replica may stop.
    pub failing: bool,
    /// Decision of the operator on a torn end of its log.
    pub torn_tail: TornTail,
    /// Whether it was abandoned.
    pub gone: bool,
    /// Whether it stays without power until the others have recovered.
    pub kept_down: bool,
    /// Whether its log's thread has something to do.
    pub log_scheduled: bool,
    /// When its log's thread has done what it does.
    pub log_free_at: Micros,
    /// Open work of its snapshot thread.
    pub file_jobs: VecDeque<FileJob>,
    /// Size of the segments of its log.
    pub segments: SegmentOptions,
    /// Up to where its entries were compared.
    pub checked: LogIndex,
    /// Its clock.
    pub clock: Clock,
}

impl Host {
    /// A computer with an empty disk.
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
            torn_tail: TornTail::Doubt,
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

    /// Makes its folder; a founding replica gets the first state, another one nothing.
    pub fn found(&mut self, kinds: &Kinds, founders: Option<&Membership>) {
        let disk = Arc::new(self.disk.clone());
        let origin = Origin { cell: CELL, kinds: kinds.clone() };
        let identity = Identity { origin, replica: self.id, engine: EngineKind::Segment };
        let directory = Directory::create_with(disk, Path::new(FOLDER), identity, self.segments);
        let directory = directory.expect("an empty disk takes a folder");
        if let Some(founders) = founders {
            found(&directory, founders).expect("an empty disk takes a snapshot");
        }
    }

    /// Starts the replica.
    ///
    /// # Errors
    /// If it refuses.
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

    /// The power goes.
    pub fn crash(&mut self, dice: &mut Dice) {
        self.running = None;
        self.disk.crash(dice);
    }

    /// Whether it runs, and may lack the end of its log because a loss of power tore it.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        let runs = self.running.as_ref();
        !self.rotten && runs.is_some_and(|running| running.replica.node().doubt().is_some())
    }

    /// Whether it has power and does not stand still.
    #[must_use]
    pub fn is_up(&self, now: Micros) -> bool {
        self.running.is_some() && self.paused_until <= now
    }
}
