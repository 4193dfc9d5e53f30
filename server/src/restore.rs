//! `omega restore`: creates a replica of a new cell from a backup.
//!
//! The new cell has a different id, and replicas reject messages for another cell. So replicas of the old cell that
//! return cannot communicate with the new cell. The id of a cell with several replicas is derived from its name and its
//! generation; this module checks that the new generation is higher. The name, and all certificates for it, stay valid.
//!
//! Nothing is written before the whole file has been checked. The folder gets its name only when it is complete, so an
//! interrupted restore leaves no replica behind.

use crate::output::{self, OutputError};
use crate::serve::{Peer, cell_of, rand_id};
use clap::Args;
use omega_store::backup::{BackupError, check, folder_of};
use omega_store::directory::{CreateDirectoryError, Directory, EngineKind, Identity};
use omega_store::log::ReplicaId;
use omega_store::membership::Membership;
use omega_store::replica::{StartError, restore};
use omega_store::{CellId, Origin, RealDisk};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of generations that a restore may skip.
const GENERATIONS_MAX: u32 = 1000;

/// Source and target of the restore.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  omega restore cell.backup --dir cell\n  \
    omega restore cell.backup --dir r1 --cell-name prod --cell-generation 1 \\\n    \
    --replica 1 --peers 1=a:7700,2=b:7700,3=c:7700")]
pub(crate) struct RestoreArgs {
    /// Backup file, or a snapshot file of a lost replica.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Folder of the new replica. It must be empty, or not exist yet.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Name of the new cell; required if it has several replicas. It may be the name of the old cell.
    #[arg(long, env = "OMEGA_CELL_NAME", value_name = "NAME")]
    cell_name: Option<String>,
    /// Number of restores of cells with this --cell-name, including this restore: 1 for the first one, 2 for the next,
    /// and so on. If no cell had this name before, 0 is enough. Used only with --peers. Give the same number to `omega
    /// serve`.
    #[arg(long, env = "OMEGA_CELL_GENERATION", value_name = "N", default_value_t = 0)]
    cell_generation: u32,
    /// Id of this replica; required with --peers.
    #[arg(long, value_name = "ID", requires = "peers", value_parser = clap::value_parser!(u64).range(1..))]
    replica: Option<u64>,
    /// Peer addresses of all replicas of the new cell, including this one, separated by commas. Restore each of them
    /// from the same backup [default: a cell with one replica].
    #[arg(long, value_name = "ID=ADDRESS", value_delimiter = ',', requires_all = ["replica", "cell_name"])]
    peers: Option<Vec<Peer>>,
}

/// Error of a restore, as one line for the user. The folder is unchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    /// The underlying error.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The folder is not empty. Choose another one.
    #[error("{}: this folder is not empty: choose a folder that is empty or does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// A folder of an interrupted restore is left. Remove it, unless another restore is in progress.
    #[error("{}: another restore is in progress, or an earlier one was interrupted: remove this \
         folder if no restore is running", .0.display())]
    Unfinished(PathBuf),
    /// The address of a replica is missing or given twice. Correct the list.
    #[error(
        "--peers: the address of replica {0} is missing, or a replica appears twice: give \
         each replica once, as ID=HOST:PORT"
    )]
    Peers(ReplicaId),
    /// The folder cannot be written. Name another one, or correct its permissions.
    #[error("{}: {why}", folder.display())]
    Folder { folder: PathBuf, why: io::Error },
    /// The underlying error.
    #[error(transparent)]
    Create(#[from] CreateDirectoryError),
    /// The underlying error.
    #[error(transparent)]
    Found(#[from] StartError),
    /// The underlying error.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Runs the command.
pub(crate) fn run(args: &RestoreArgs) -> Result<(), RestoreError> {
    let (replica, founders) = founders(args)?;
    let unfinished = check_folder(&args.dir)?;
    let content = check(&args.file)?;
    let cell = new_id(args, content.from)?;
    let parent = folder_of(&args.dir);
    let failed = |why| RestoreError::Folder { folder: args.dir.clone(), why };
    fs::create_dir_all(parent).map_err(failed)?;
    let origin = Origin { cell, kinds: content.cell.kinds().clone() };
    let identity = Identity { origin, replica, engine: EngineKind::of_servers() };
    let directory = Directory::create(Arc::new(RealDisk), &unfinished, identity)?;
    restore(&directory, &Membership::initial(founders), &content.cell)?;
    drop(directory);
    // The rename replaces an empty folder of this name.
    fs::rename(&unfinished, &args.dir).map_err(failed)?;
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(failed)?;
    let (dir, version) = (args.dir.display(), content.cell.version());
    let text = format!("{dir}: {replica} of the new cell {cell}, at version {version}\n");
    Ok(output::print(&text)?)
}

/// Id of the replica to create, and ids of all replicas that bootstrap the cell.
fn founders(args: &RestoreArgs) -> Result<(ReplicaId, Vec<ReplicaId>), RestoreError> {
    let replica = ReplicaId(args.replica.unwrap_or(1));
    let Some(peers) = &args.peers else { return Ok((replica, vec![replica])) };
    let ids: Vec<ReplicaId> = peers.iter().map(|peer| peer.id).collect();
    let once = |id: &ReplicaId| ids.iter().filter(|other| *other == id).count() == 1;
    match ids.iter().find(|id| !once(id)) {
        Some(twice) => Err(RestoreError::Peers(*twice)),
        None if !ids.contains(&replica) => Err(RestoreError::Peers(replica)),
        None => Ok((replica, ids)),
    }
}

/// Checks that the folder does not exist or is empty. Returns its temporary name.
fn check_folder(dir: &Path) -> Result<PathBuf, RestoreError> {
    match fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => return Err(RestoreError::NotEmpty(dir.to_owned())),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {}
        Err(why) => return Err(RestoreError::Folder { folder: dir.to_owned(), why }),
    }
    let mut unfinished = dir.components().as_path().as_os_str().to_owned();
    unfinished.push(".restoring");
    let unfinished = PathBuf::from(unfinished);
    if unfinished.exists() { Err(RestoreError::Unfinished(unfinished)) } else { Ok(unfinished) }
}

/// The id of the new cell, which differs from the ids of the old cell and of all cells before it.
fn new_id(args: &RestoreArgs, from: CellId) -> Result<CellId, BackupError> {
    let Some(name) = args.cell_name.as_ref().filter(|_| args.peers.is_some()) else {
        return Ok(CellId(rand_id()));
    };
    let generation = args.cell_generation;
    let mut old = generation..GENERATIONS_MAX.max(generation.saturating_add(1));
    match old.find(|old| cell_of(name, *old) == from) {
        Some(old) => Err(BackupError::SameCell(from, old.saturating_add(1))),
        None => Ok(cell_of(name, generation)),
    }
}
