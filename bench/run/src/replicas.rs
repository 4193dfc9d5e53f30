//! The replicas of a run: created in their folders, started, monitored, and compared at the end.

use crate::backend::{Answer, BackendError, DurableBackend, DurableCell, DurableRun};
use crate::report::{DurableReport, ReplicaReport};
use crate::timed::{TimedCell, Took};
use omega_cellstate::Cell;
use omega_core::{Command, Kinds};
use omega_store::directory::{CreateDirectoryError, Directory, EngineKind, Identity};
use omega_store::log::{LogIndex, ReplicaId};
use omega_store::membership::Membership;
use omega_store::replica::{
    Network, ReplicatedCell, RequestError, Running, Settings, bootstrap, start,
};
use omega_store::{CellId, Disk, Origin, RealDisk};
use rand::{Rng, RngExt};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Duration of a tick. With the default settings an election takes half a second to a second.
const TICK: Duration = Duration::from_millis(50);

/// Maximum wait at the end until all replicas have applied the same commands. A follower that lags gets missing entries
/// in milliseconds, and a snapshot in seconds.
const SAME: Duration = Duration::from_secs(60);

/// Number of appends by which the disk is measured. The next constant is the size of an append in bytes.
const APPENDS: usize = 200;
const APPEND_BYTES: usize = 4 << 10;

/// Storage of a run's cell on disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    /// Folder of the replica's directory, or of the directories of several replicas; `None` for a temporary folder.
    pub dir: Option<PathBuf>,
    /// Number of replicas, which are all in this process; at least one.
    pub replicas: u32,
    /// Storage engine of the replicas' logs.
    pub engine: EngineKind,
}

/// Error of creating, running or comparing replicas. The message is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The folder already has the directory of a replica. Name a folder that is empty or does not exist.
    #[error(
        "{}: this folder already contains a replica, and a run creates a new cell: name a folder \
         that is empty or does not exist", .0.display()
    )]
    Exists(PathBuf),
    /// The folder is not empty. Name a folder that is empty or does not exist.
    #[error("{}: this folder is not empty: name a folder that is empty or does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// A file operation failed. Name another folder, or correct the cause of the error.
    #[error("{}: {source}: name another folder, or repair this one", path.display())]
    Io {
        /// Path of the folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
    /// The directory of a replica could not be created. The underlying error has the remedy.
    #[error(transparent)]
    Create(#[from] CreateDirectoryError),
    /// A replica could not be started. The underlying error has the remedy.
    #[error(transparent)]
    Start(#[from] omega_store::replica::StartError),
    /// No replica leads. The underlying error has the reason.
    #[error(transparent)]
    Ask(#[from] omega_store::replica::RequestError),
    /// A replica has stopped. The message has the reason.
    #[error("replica {id} has stopped: {why}")]
    Stopped {
        /// Id of the replica.
        id: ReplicaId,
        /// The reason.
        why: String,
    },
    /// The replicas do not answer a command. The underlying error has the reason.
    #[error("the cell does not answer: {0}")]
    Silent(RequestError),
    /// A replica did not catch up with the others. Repeat the run on a less busy computer.
    #[error(
        "replica {id} did not catch up within a minute after the run: it has applied its log up \
         to entry {at}, and another replica up to entry {of}: repeat the run on a less busy \
         computer, and report this if it happens again"
    )]
    Behind {
        /// Id of the replica.
        id: ReplicaId,
        /// Last log index that the replica has applied.
        at: LogIndex,
        /// Last log index that another replica has applied.
        of: LogIndex,
    },
    /// The cell of a replica differs from that of the first replica, which is a defect of Omega. Report it.
    #[error(
        "after entry {at}, the state of replica {id} differs from that of r1: this is a bug \
         in Omega, please report it"
    )]
    Differs {
        /// Id of the replica.
        id: ReplicaId,
        /// Log index of the last applied entry.
        at: LogIndex,
    },
    /// The audit found an error in a replica's cell, which is a defect of Omega. Report it.
    #[error(
        "the audit of replica {id} after the run failed: this is a bug in Omega, please \
         report it: {why}"
    )]
    Audit {
        /// Id of the replica.
        id: ReplicaId,
        /// The error that the audit found.
        why: omega_cellstate::AuditError,
    },
}

/// The replicas of a run.
#[derive(Debug)]
struct Replicas {
    running: Vec<(ReplicaId, Running)>,
    handles: Vec<TimedCell>,
    folders: Vec<PathBuf>,
    took: Took,
    fdatasync_us: f64,
    /// A temporary folder, which is removed at the end; `None` if the user named a folder.
    _temporary: Option<tempfile::TempDir>,
}

impl Replicas {
    /// Creates a new cell and starts its replicas.
    fn bootstrap(durability: &Durability, kinds: &Kinds) -> Result<Replicas, ReplicaError> {
        let (root, temporary) = match &durability.dir {
            Some(dir) => (dir.clone(), None),
            None => {
                let made = tempfile::Builder::new().prefix("omega-").tempdir();
                let path = std::env::temp_dir();
                let made = made.map_err(|source| ReplicaError::Io { path, source })?;
                (made.path().to_owned(), Some(made))
            }
        };
        check_folder(&root)?;
        std::fs::create_dir_all(&root)
            .map_err(|source| ReplicaError::Io { path: root.clone(), source })?;
        let fdatasync_us = fdatasync_us(&root)
            .map_err(|source| ReplicaError::Io { path: root.clone(), source })?;
        let ids: Vec<ReplicaId> = (1..=u64::from(durability.replicas)).map(ReplicaId).collect();
        let folder = |id: &ReplicaId| match durability.replicas {
            1 => root.clone(),
            _ => root.join(id.to_string()),
        };
        let folders: Vec<PathBuf> = ids.iter().map(folder).collect();
        let mut dice = dice();
        let origin = Origin { cell: CellId(dice.random()), kinds: kinds.clone() };
        let founders = Membership::initial(ids.iter().copied());
        let network = Network::default();
        let mut running = Vec::new();
        for (id, folder) in ids.into_iter().zip(&folders) {
            let engine = durability.engine;
            let identity = Identity { origin: origin.clone(), replica: id, engine };
            let directory = Directory::create(Arc::new(RealDisk), folder, identity)?;
            bootstrap(&directory, &founders)?;
            let mut settings = Settings { incarnation: dice.random(), ..Settings::default() };
            settings.node.seed = dice.random();
            let replica = Running::start(start(directory, settings)?, network.port(id), TICK);
            network.connect(id, &replica);
            running.push((id, replica));
        }
        let took = Took::default();
        let cells: Vec<ReplicatedCell> =
            running.iter().map(|(_, replica)| ReplicatedCell::new(replica)).collect();
        for cell in &cells {
            // Before the run begins, a leader must be elected, and all replicas must know it.
            cell.catch_up_with_all()?;
        }
        let handle = |cell| TimedCell { cell, took: took.clone() };
        let handles = cells.into_iter().map(handle).collect();
        Ok(Replicas { running, handles, folders, took, fdatasync_us, _temporary: temporary })
    }

    /// Checks that all replicas are running.
    fn check(&self) -> Result<(), ReplicaError> {
        for (id, replica) in &self.running {
            if let Some(why) = replica.status().stopped {
                return Err(ReplicaError::Stopped { id: *id, why });
            }
        }
        Ok(())
    }

    /// Waits until all replicas have applied the same entries, then audits and compares their cells.
    fn check_states(&self) -> Result<(), ReplicaError> {
        let began = Instant::now();
        loop {
            self.check()?;
            let at = self.positions();
            let of = at.iter().copied().max().unwrap_or_default();
            match at.iter().position(|at| *at < of) {
                None if self.compare()? => return Ok(()),
                Some(i) if began.elapsed() > SAME => {
                    return Err(ReplicaError::Behind { id: self.running[i].0, at: at[i], of });
                }
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// The last log index that each replica has applied.
    fn positions(&self) -> Vec<LogIndex> {
        let position = |(_, replica): &(ReplicaId, Running)| replica.read(|state| state.position);
        self.running.iter().map(|one| position(one).index).collect()
    }

    /// Audits and compares the cells. Returns `false` if they changed in the meantime: there are no commands any more,
    /// but the election of a new leader adds an entry.
    fn compare(&self) -> Result<bool, ReplicaError> {
        let mut first = None;
        for (id, replica) in &self.running {
            let (at, hash, audit) = replica
                .read(|state| (state.position.index, state.cell.state_hash(), state.cell.audit()));
            audit.map_err(|why| ReplicaError::Audit { id: *id, why })?;
            let (first_at, first_hash) = *first.get_or_insert((at, hash));
            if first_at != at {
                return Ok(false);
            }
            if first_hash != hash {
                return Err(ReplicaError::Differs { id: *id, at });
            }
        }
        Ok(true)
    }

    /// Returns the cost of durability. The replicas are still running.
    fn report(&self, claims: u64) -> DurableReport {
        let replica = |((id, replica), folder): (&(ReplicaId, Running), &PathBuf)| {
            let status = replica.status();
            ReplicaReport {
                name: id.to_string(),
                leads: status.leadership.is_leader,
                log_bytes: status.log_bytes,
                log_bytes_per_claim: status.log_bytes as f64 / claims.max(1) as f64,
                syncs: status.log_syncs,
                snapshots: status.snapshots,
                directory_bytes: size(folder),
            }
        };
        DurableReport {
            commit_us_p50: self.took.percentile_us(50.0),
            commit_us_p99: self.took.percentile_us(99.0),
            fdatasync_us: self.fdatasync_us,
            replicas: self.running.iter().zip(&self.folders).map(replica).collect(),
        }
    }
}

impl Durability {
    /// Checks whether a cell can be created with these settings, and changes nothing.
    ///
    /// # Errors
    /// If the folder is not empty, or the program was built without the engine.
    pub fn check(&self) -> Result<(), ReplicaError> {
        if !self.engine.is_built_in() {
            return Err(CreateDirectoryError::EngineMissing(self.engine).into());
        }
        self.dir.as_deref().map_or(Ok(()), check_folder)
    }
}

fn check_folder(folder: &Path) -> Result<(), ReplicaError> {
    let mut names: Vec<String> = match std::fs::read_dir(folder) {
        Ok(entries) => entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(ReplicaError::Io { path: folder.to_owned(), source }),
    };
    names.sort_unstable();
    let is_replica =
        |name: &String| name == "IDENTITY" || folder.join(name).join("IDENTITY").exists();
    if names.iter().any(is_replica) {
        Err(ReplicaError::Exists(folder.to_owned()))
    } else if names.is_empty() {
        Ok(())
    } else {
        Err(ReplicaError::NotEmpty(folder.to_owned()))
    }
}

/// A random generator that differs between runs, because cell ids must differ whatever the seed of the run.
fn dice() -> impl Rng {
    use rand::SeedableRng;
    use std::hash::{BuildHasher, RandomState};
    let mut seed = [0; 16];
    for half in seed.chunks_mut(8) {
        // The standard library takes the keys of its hash tables from the system's random source, so this hash is
        // random.
        half.copy_from_slice(&RandomState::new().hash_one(std::process::id()).to_le_bytes());
    }
    rand_pcg::Pcg64Mcg::from_seed(seed)
}

/// Time that the disk needs to sync four kibibytes, in microseconds: the median of some
/// appends to a preallocated file, like those of a log.
///
/// # Errors
/// If the disk cannot be written.
pub fn fdatasync_us(folder: &Path) -> io::Result<f64> {
    let path = folder.join("fdatasync.tmp");
    let mut file = RealDisk.create(&path)?;
    file.allocate((APPENDS * APPEND_BYTES) as u64)?;
    file.sync()?;
    let mut took = Vec::with_capacity(APPENDS);
    for i in 0..APPENDS {
        let began = Instant::now();
        file.write_at((i * APPEND_BYTES) as u64, &[1; APPEND_BYTES])?;
        file.sync()?;
        took.push(began.elapsed());
    }
    drop(file);
    RealDisk.remove(&path)?;
    took.sort_unstable();
    Ok(took[APPENDS / 2].as_secs_f64() * 1e6)
}

/// Total bytes of the files in a folder and its subfolders. Unreadable files are not counted.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => size(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

impl DurableBackend for Durability {
    fn found(&self, kinds: &Kinds) -> Result<Box<dyn DurableRun>, BackendError> {
        let replicas = Replicas::bootstrap(self, kinds).map_err(BackendError::new)?;
        Ok(Box::new(replicas))
    }
}

impl DurableRun for Replicas {
    fn cells(&self) -> Vec<Arc<dyn DurableCell>> {
        self.handles.iter().map(|cell| Arc::new(cell.clone()) as Arc<dyn DurableCell>).collect()
    }

    fn check(&self) -> Result<(), BackendError> {
        Replicas::check(self).map_err(BackendError::new)
    }

    fn check_states(&self) -> Result<(), BackendError> {
        Replicas::check_states(self).map_err(BackendError::new)
    }

    fn report(&self, claims: u64) -> DurableReport {
        Replicas::report(self, claims)
    }
}

impl DurableCell for TimedCell {
    fn look(&self, look: &mut dyn FnMut(&Cell)) {
        self.cell.read(look);
    }

    fn apply_all(&self, commands: Vec<Command>) -> Vec<Result<Answer, BackendError>> {
        let answers = self.cell.apply_all(commands);
        answers
            .into_iter()
            .map(|answer| match answer {
                Ok(outcome) => Ok(Ok(outcome)),
                Err(RequestError::Rejected(rejection)) => Ok(Err(rejection)),
                Err(other) => Err(BackendError::new(ReplicaError::Silent(other))),
            })
            .collect()
    }
}
