//! The replicas of a run: created in their folders, started, monitored, and compared at the end.

use super::kept::{Answer, KeepError, Keeper, Kept, KeptCell};
use super::timed::{TimedCell, Took};
use crate::report::{DurableReport, ReplicaReport};
use omega_cellstate::Cell;
use omega_core::{Command, Kinds};
use omega_store::directory::{CreateDirectoryError, Directory, EngineKind, Identity};
use omega_store::log::{LogIndex, ReplicaId};
use omega_store::membership::Membership;
use omega_store::replica::{AskError, Network, ReplicatedCell, Running, Settings, found, start};
use omega_store::{CellId, Disk, Origin, RealDisk};
use rand::{Rng, RngExt};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Duration of a tick. With the default settings an election takes half a second to a second.
const TICK: Duration = Duration::from_millis(50);

/// Maximum wait at the end until all replicas have applied the same commands. A lagging follower
/// gets missing entries in milliseconds, and a snapshot in seconds.
const SAME: Duration = Duration::from_secs(60);

/// Appends by which the disk is measured, each of this many bytes.
const APPENDS: usize = 200;
const APPEND_BYTES: usize = 4 << 10;

/// Storage of a run's cell, other than in memory alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    /// The folder of the only replica, or of the folders of several; a temporary one if not given.
    pub dir: Option<PathBuf>,
    /// Number of replicas, all in this process; at least one.
    pub replicas: u32,
    /// Engine of their logs.
    pub engine: EngineKind,
}

/// Error of creating, running or comparing replicas. One line for the user.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// Name a folder that is empty or not there.
    #[error(
        "{}: holds the directory of a replica already; a run founds a cell of its own: name a folder \
         that is empty or not there", .0.display()
    )]
    Exists(PathBuf),
    /// Name a folder that is empty or not there.
    #[error("{}: is not empty; name a folder that is empty or not there", .0.display())]
    NotEmpty(PathBuf),
    /// Name another folder, or mend this one.
    #[error("{}: {source}; name another folder, or mend this one", path.display())]
    Io {
        /// Which folder.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
    /// See the error.
    #[error(transparent)]
    Create(#[from] CreateDirectoryError),
    /// See the error.
    #[error(transparent)]
    Start(#[from] omega_store::replica::StartError),
    /// No replica leads: see the error.
    #[error(transparent)]
    Ask(#[from] omega_store::replica::AskError),
    /// A replica has stopped, for the reason that it gives.
    #[error("replica {id} has stopped: {why}")]
    Stopped {
        /// Which one.
        id: ReplicaId,
        /// Its reason.
        why: String,
    },
    /// The replicas do not answer a command.
    #[error("the cell does not answer: {0}")]
    Silent(AskError),
    /// A replica does not catch up with the others.
    #[error("replica {id} has not applied what the others have: it is at entry {at} of {of}")]
    Behind {
        /// Which one.
        id: ReplicaId,
        /// Its applied index.
        at: LogIndex,
        /// Applied index of the other replica.
        of: LogIndex,
    },
    /// A defect of Omega.
    #[error("replica {id} has another state than r1 after entry {at}, please report it")]
    Differs {
        /// Which one.
        id: ReplicaId,
        /// After which entry.
        at: LogIndex,
    },
    /// The recount found the cell of a replica wrong: a defect of Omega.
    #[error("the cell of replica {id} is wrong after the run, please report it: {why}")]
    Audit {
        /// Which one.
        id: ReplicaId,
        /// The error.
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
    /// A temporary folder, removed at the end, if the user named no folder.
    _temporary: Option<tempfile::TempDir>,
}

impl Replicas {
    /// Creates a new cell and starts its replicas.
    fn found(durability: &Durability, kinds: &Kinds) -> Result<Replicas, ReplicaError> {
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
        let founders = Membership::founding(ids.iter().copied());
        let network = Network::default();
        let mut running = Vec::new();
        for (id, folder) in ids.into_iter().zip(&folders) {
            let engine = durability.engine;
            let identity = Identity { origin: origin.clone(), replica: id, engine };
            let directory = Directory::create(Arc::new(RealDisk), folder, identity)?;
            found(&directory, &founders)?;
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
            // Before the run begins, a leader is elected and known to all replicas.
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

    /// Waits until all have applied the same, and audits and compares their cells.
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

    /// The last entry that each has applied.
    fn positions(&self) -> Vec<LogIndex> {
        let position = |(_, replica): &(ReplicaId, Running)| replica.read(|state| state.position);
        self.running.iter().map(|one| position(one).index).collect()
    }

    /// Audits and compares the cells. Returns `false` if they changed meanwhile: there are no
    /// commands any more, but a new leader may be elected.
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

    /// Returns the cost of durability. The replicas still run.
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
    /// If the folder is not empty, or this program was built without the engine.
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
    match names.iter().any(is_replica) {
        true => Err(ReplicaError::Exists(folder.to_owned())),
        false if names.is_empty() => Ok(()),
        false => Err(ReplicaError::NotEmpty(folder.to_owned())),
    }
}

/// Chance that no other run has: cell ids must differ, whatever the seed of the run.
fn dice() -> impl Rng {
    use rand::SeedableRng;
    use std::hash::{BuildHasher, RandomState};
    let mut seed = [0; 16];
    for half in seed.chunks_mut(8) {
        // The standard library takes its hash keys from the system's random source.
        half.copy_from_slice(&RandomState::new().hash_one(std::process::id()).to_le_bytes());
    }
    rand_pcg::Pcg64Mcg::from_seed(seed)
}

/// Time for which the disk needs to sync four kibibytes, in microseconds: the median of some
/// appends to a preallocated file, like a log.
///
/// # Errors
/// Those of the disk.
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

/// Bytes of all files in a folder and its subfolders, without unreadable ones.
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

impl Keeper for Durability {
    fn found(&self, kinds: &Kinds) -> Result<Box<dyn Kept>, KeepError> {
        let replicas = Replicas::found(self, kinds).map_err(KeepError::new)?;
        Ok(Box::new(replicas))
    }
}

impl Kept for Replicas {
    fn cells(&self) -> Vec<Arc<dyn KeptCell>> {
        self.handles.iter().map(|cell| Arc::new(cell.clone()) as Arc<dyn KeptCell>).collect()
    }

    fn check(&self) -> Result<(), KeepError> {
        Replicas::check(self).map_err(KeepError::new)
    }

    fn check_states(&self) -> Result<(), KeepError> {
        Replicas::check_states(self).map_err(KeepError::new)
    }

    fn report(&self, claims: u64) -> DurableReport {
        Replicas::report(self, claims)
    }
}

impl KeptCell for TimedCell {
    fn look(&self, look: &mut dyn FnMut(&Cell)) {
        self.cell.read(look);
    }

    fn apply_all(&self, commands: Vec<Command>) -> Vec<Result<Answer, KeepError>> {
        let answers = self.cell.apply_all(commands);
        answers
            .into_iter()
            .map(|answer| match answer {
                Ok(outcome) => Ok(Ok(outcome)),
                Err(AskError::Rejected(rejection)) => Ok(Err(rejection)),
                Err(other) => Err(KeepError::new(ReplicaError::Silent(other))),
            })
            .collect()
    }
}
