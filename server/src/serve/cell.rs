//! Creates, opens or joins the cell of a server.

use super::settings::{Replicated, Settings, Start, Storage};
use super::tls::dial;
use omega_cellstate::{Cell, HISTORY_BYTES, SharedCell};
use omega_core::{Command, Kinds, Policy};
use omega_service::{Certificates, Host, PeerListener, Peers, ReplicaIdentity, SlowCommit};
use omega_store::directory::{
    CreateDirectoryError, Directory, EngineKind, Expected, Identity, OpenDirectoryError,
    OpenLogError,
};
use omega_store::log::{CreateError, OpenError, ReadError, ReplicaId};
use omega_store::membership::Membership;
use omega_store::replica::{
    Network, Running, StartError, TornTail, Transport, bootstrap_with, start,
};
use omega_store::snapshot::{LoadError, SaveError};
use omega_store::{CellId, Origin, RealDisk};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Duration of a tick. With this duration and the default settings, an election takes from half a second to a second.
const TICK: Duration = Duration::from_millis(50);

/// Error of serving a cell, as one line for the user. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CellError {
    /// The folder has no replica yet. Choose `--bootstrap` or `--join`.
    #[error(
        "{}: this folder contains no replica yet: for a new cell, start all its replicas once \
         with --bootstrap; to join a running cell, or to replace a replica whose disk was lost, \
         start this replica with --join and an id that was never used", .0.display()
    )]
    NoReplica(PathBuf),
    /// The underlying error.
    #[error(transparent)]
    Create(#[from] CreateDirectoryError),
    /// The underlying error.
    #[error(transparent)]
    Open(#[from] OpenDirectoryError),
    /// The underlying error.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A peer's address is invalid. Correct it.
    #[error("{address:?} is not a valid address of a peer: {why}")]
    Address {
        /// The address.
        address: String,
        /// The error.
        why: tonic::transport::Error,
    },
}

impl CellError {
    /// Whether another process uses the folder, and may end.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            CellError::Create(CreateDirectoryError::Locked(_))
                | CellError::Open(OpenDirectoryError::Locked(_))
        )
    }
}

impl CellError {
    /// Whether the disk failed or is full, so that the server can be started again once the disk works.
    pub(crate) fn is_of_disk(&self) -> bool {
        match self {
            CellError::Create(CreateDirectoryError::Io { source, .. })
            | CellError::Create(CreateDirectoryError::Log(CreateError::Io { source, .. }))
            | CellError::Open(OpenDirectoryError::Io { source, .. })
            | CellError::Start(StartError::Log(OpenLogError::Log(OpenError::Io {
                source, ..
            })))
            | CellError::Start(StartError::Read(ReadError::Io { source, .. }))
            | CellError::Start(StartError::Snapshot(LoadError::Io { source, .. }))
            | CellError::Start(StartError::Save(SaveError::Io { source, .. })) => is_fault(source),
            CellError::Create(CreateDirectoryError::Log(CreateError::Full(_)))
            | CellError::Start(StartError::Write(_) | StartError::Save(SaveError::Full(_))) => true,
            _ => false,
        }
    }
}

/// Whether the disk caused an error. Otherwise, the path or its permissions are wrong.
fn is_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
    };
    !matches!(
        error.kind(),
        AlreadyExists | InvalidInput | IsADirectory | NotADirectory | NotFound | PermissionDenied
    )
}

/// A cell that can be served.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The service of the cell.
    pub(crate) host: Host,
    /// Identity of this replica.
    pub(crate) me: ReplicaIdentity,
    /// Receiver of messages from the replica's peers, and the address on which it listens.
    pub(crate) peers: Option<(PeerListener, String)>,
}

/// Opens the cell that the settings name. A replica presents the certificates to its peers.
///
/// # Errors
/// If its folder is damaged, in use, or has another cell; or if it has no replica, and the settings do not allow to
/// create one.
pub(crate) fn open(
    settings: &Settings,
    torn_tail: TornTail,
    (runtime, certificates): (&Handle, Option<Arc<Certificates>>),
) -> Result<Opened, CellError> {
    match &settings.storage {
        Storage::Memory => {
            let me = ReplicaIdentity { cell: CellId(rand_id()), replica: ReplicaId(1) };
            let mut cell = new_cell(&settings.kinds);
            cell.keep_history(HISTORY_BYTES);
            let cell = SharedCell::new(cell);
            Ok(Opened { host: Host::memory(cell), me, peers: None })
        }
        Storage::Alone(dir) => {
            let replica = ReplicaId(1);
            let directory = if is_replica(dir) {
                Directory::open(Arc::new(RealDisk), dir, Expected::default())?
            } else {
                make((dir, &settings.kinds), CellId(rand_id()), replica, Some(&[replica]))?
            };
            let me = whoami(&directory);
            let port = Network::default().port(me.replica);
            let running = run(directory, port, (settings.slow_commit, torn_tail))?;
            Ok(Opened { host: Host::replica(running), me, peers: None })
        }
        Storage::Replica(replicated) => {
            open_replicated(replicated, settings, torn_tail, (runtime, certificates))
        }
    }
}

fn open_replicated(
    of: &Replicated,
    settings: &Settings,
    torn_tail: TornTail,
    (runtime, certificates): (&Handle, Option<Arc<Certificates>>),
) -> Result<Opened, CellError> {
    let founders: Vec<ReplicaId> = of.peers.iter().map(|peer| peer.id).collect();
    let new = (of.dir.as_path(), &settings.kinds);
    let directory = match (is_replica(&of.dir), of.start) {
        (true, _) => {
            let expected =
                Expected { cell: Some(of.cell), replica: Some(of.replica), ..Expected::default() };
            Directory::open(Arc::new(RealDisk), &of.dir, expected)?
        }
        (false, Some(Start::Bootstrap)) => make(new, of.cell, of.replica, Some(&founders))?,
        (false, Some(Start::Join)) => make(new, of.cell, of.replica, None)?,
        (false, None) => return Err(CellError::NoReplica(of.dir.clone())),
    };
    let me = whoami(&directory);
    let dialer = Box::new(move |address: &str| dial(address, certificates.clone()));
    let mut given = BTreeMap::new();
    for peer in of.peers.iter().filter(|peer| peer.id != me.replica) {
        _ = dialer(&peer.address)
            .map_err(|why| CellError::Address { address: peer.address.clone(), why })?;
        given.insert(peer.id, peer.address.clone());
    }
    let peers = Peers::new(me, of.address.clone(), given, dialer, runtime.clone());
    let transport = Arc::new(peers.clone());
    let running = run(directory, transport, (settings.slow_commit, torn_tail))?;
    let host = Host::replica(running.clone()).with_peers(peers.clone());
    let listener = PeerListener::new(running, peers, host.peer_contacts().clone());
    Ok(Opened { host, me, peers: Some((listener, of.listen.clone())) })
}

fn is_replica(dir: &Path) -> bool {
    dir.join("IDENTITY").exists()
}

fn whoami(directory: &Directory) -> ReplicaIdentity {
    let identity = directory.identity();
    ReplicaIdentity { cell: identity.origin.cell, replica: identity.replica }
}

/// The initial cell, which is equal on all replicas. It keeps ended jobs for an hour.
fn new_cell(kinds: &Kinds) -> Cell {
    let mut cell = Cell::new(kinds.clone());
    let policy = Policy { ttl_after_finished_ms: 3_600_000, ..Policy::default() };
    cell.apply(Command::SetPolicy(policy)).expect("it is a policy");
    cell
}

/// Creates the folder of a new replica. If `founders` are given, the folder gets the initial state of the cell.
fn make(
    (dir, kinds): (&Path, &Kinds),
    cell: CellId,
    replica: ReplicaId,
    founders: Option<&[ReplicaId]>,
) -> Result<Directory, CellError> {
    let origin = Origin { cell, kinds: kinds.clone() };
    let identity = Identity { origin, replica, engine: EngineKind::of_servers() };
    let directory = Directory::create(Arc::new(RealDisk), dir, identity)?;
    if let Some(founders) = founders {
        bootstrap_with(
            &directory,
            &Membership::initial(founders.iter().copied()),
            &new_cell(kinds),
        )?;
    }
    Ok(directory)
}

fn run(
    directory: Directory,
    transport: Arc<dyn Transport>,
    (SlowCommit(slow), torn_tail): (SlowCommit, TornTail),
) -> Result<Arc<Running>, CellError> {
    let mut settings = omega_store::replica::Settings {
        incarnation: rand_id() as u64,
        slow,
        torn_tail,
        history_bytes: HISTORY_BYTES,
        ..omega_store::replica::Settings::default()
    };
    settings.node.seed = rand_id() as u64;
    Ok(Arc::new(Running::start(start(directory, settings)?, transport, TICK)))
}

/// A random number.
pub(crate) fn rand_id() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    // `RandomState` gets random keys from the operating system, so its hashes are random numbers.
    let half = |salt: u32| u128::from(RandomState::new().hash_one((std::process::id(), salt)));
    half(0) << 64 | half(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_disk_differ_from_wrong_paths() {
        let open = |source: io::Error| {
            CellError::from(OpenDirectoryError::Io { path: "cell".into(), source }).is_of_disk()
        };
        // The system's number of an error of a device.
        assert!(open(io::Error::from_raw_os_error(5)));
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::ReadOnlyFilesystem] {
            assert!(open(kind.into()), "{kind}");
        }
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::NotADirectory] {
            assert!(!open(kind.into()), "{kind}");
        }
        assert!(CellError::from(StartError::Save(SaveError::Full("cell".into()))).is_of_disk());
        assert!(!CellError::NoReplica("cell".into()).is_of_disk());
    }
}
