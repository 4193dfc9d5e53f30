//! `omega serve`: a cell that other processes reach over the network.

mod cell;
mod connections;
mod limits;
#[cfg(test)]
mod mutated_settings_tests;
mod settings;
mod tls;
mod traces;

pub(crate) use cell::rand_id;
pub(crate) use settings::{Peer, cell_of};

use crate::explainer::ByScheduler;
use crate::open_files;
use crate::output::{self, OutputError};
use crate::signals::Signals;
use cell::{CellError, Opened};
use clap::Args;
use connections::{ListenerLimits, TooFewFiles};
use omega_service::{
    AuditLog, Explainer, Extras, ListenerConfig, ReplicaIdentity, TlsError, Traces, Web,
    serve_clients, serve_peers, serve_web,
};
use omega_store::replica::{Remedy, TornTail};
use settings::{Settings, SettingsError, SourceSettings, Storage};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tls::{SecurityByListener, TlsSettingsError};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Run a replica of a cell, and serve schedulers, agents and users over the network.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  omega serve --dir cell\n  \
    omega serve --dir r1 --cell-name prod --replica 1 --bootstrap \\\n    \
    --peers 1=a:7700,2=b:7700,3=c:7700")]
pub(crate) struct ServeArgs {
    /// Read settings from this file, whose keys are the names of the options without `--`. Options and variables of the
    /// environment take precedence.
    #[arg(long, env = "OMEGA_SERVE_CONFIG", value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Check the settings and the certificates, print the settings, and exit.
    #[arg(long)]
    check_config: bool,
    /// Start once without the damaged end of the log. Acknowledged entries in the damaged end are lost if no other
    /// replica has them.
    #[arg(long)]
    accept_torn_log: bool,
    #[command(flatten)]
    given: SourceSettings,
}

/// Error of starting or running a server, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The underlying error.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The underlying error.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The underlying error.
    #[error(transparent)]
    Files(#[from] TooFewFiles),
    /// The underlying error.
    #[error(transparent)]
    Cell(#[from] CellError),
    /// The address cannot be listened on. Choose another one, or end the process that uses it.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// Address of the listener.
        address: String,
        /// Underlying error.
        why: io::Error,
    },
    /// The audit log cannot be written. Name another file, or make room on the disk.
    #[error("{}: the audit log cannot be written: {why}", file.display())]
    Audit {
        /// Path of the file.
        file: PathBuf,
        /// Underlying error.
        why: io::Error,
    },
    /// The collector's address is invalid. Correct it.
    #[error("{address:?} is not a valid address of a collector: {why}")]
    Collector {
        /// The address.
        address: String,
        /// The error.
        why: tonic::transport::Error,
    },
    /// The underlying error.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The replica has stopped by itself. Apply the `remedy`.
    #[error("the replica has stopped: {why}")]
    Stopped {
        /// The reason.
        why: String,
        /// Remedy for the reason.
        remedy: Remedy,
    },
    /// The operating system refused a thread, a signal handler or another resource.
    #[error("the operating system refused a thread or another resource: {0}")]
    System(io::Error),
}

impl ServeError {
    /// Whether the server may start later without a correction, because an address or a folder is in use or not there
    /// yet.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            ServeError::Listen { .. } => true,
            ServeError::Cell(error) => error.may_pass(),
            _ => false,
        }
    }

    /// Whether a disk failed, so that the server can be started again once the disk works.
    pub(crate) fn is_of_disk(&self) -> bool {
        match self {
            ServeError::Stopped { remedy, .. } => *remedy == Remedy::StartAgain,
            ServeError::Cell(error) => error.is_of_disk(),
            _ => false,
        }
    }

    /// Whether the server ended because it would have been open to everyone.
    pub(crate) fn is_exposed(&self) -> bool {
        use SettingsError::Tls;
        matches!(self, ServeError::Settings(Tls(TlsSettingsError::Exposed { .. })))
    }
}

/// Serves until a signal arrives.
pub(crate) fn serve(args: ServeArgs) -> Result<(), ServeError> {
    let settings = args.given.resolve(args.config.as_deref())?;
    let runtime = Runtime::new().map_err(ServeError::System)?;
    if args.check_config {
        drop(tls::listeners(settings.tls.as_ref(), runtime.handle())?);
        settings.audit_log.as_deref().map(check_audit).transpose()?;
        return Ok(output::print(&format!("{}\n", describe(&settings)))?);
    }
    settings.log.show();
    open_files::raise();
    let limits = ListenerLimits::new(&settings, open_files::limit())?;
    let listeners = tls::listeners(settings.tls.as_ref(), runtime.handle())?;
    let audit = settings.audit_log.as_deref().map(open_audit).transpose()?;
    let torn_tail = if args.accept_torn_log { TornTail::Accept } else { TornTail::Refuse };
    let opened = cell::open(&settings, torn_tail, (runtime.handle(), listeners.of_peers()))?;
    let served = runtime.block_on(run(&settings, limits, (listeners, audit), opened));
    runtime.shutdown_background();
    served
}

async fn run(
    settings: &Settings,
    limits: ListenerLimits,
    (listeners, audit): (SecurityByListener, Option<Arc<AuditLog>>),
    opened: Opened,
) -> Result<(), ServeError> {
    let Opened { host, me, peers } = opened;
    let clients = listen(&settings.listen.to_string()).await?;
    let address = clients.local_addr().map_err(ServeError::System)?;
    let traces = start_traces(settings, &me)?;
    let (end, ended) = watch::channel(false);
    let until = |mut ended: watch::Receiver<bool>| async move {
        // An error means that the sender, and with it the server, is gone.
        let _ = ended.wait_for(|ended| *ended).await;
    };
    let mut tasks = Vec::new();
    let listener_config = |listener, limits| ListenerConfig {
        listener,
        security: listeners.clients.clone(),
        audit: audit.clone(),
        limits,
    };
    let over = until(ended.clone());
    let explainer = Some(Arc::new(ByScheduler) as Arc<dyn Explainer>);
    let extras = Extras {
        monitor: settings.monitor,
        explainer: explainer.clone(),
        slow_commit: settings.slow_commit,
        traces: traces.clone(),
    };
    tasks.push(tokio::spawn(serve_clients(
        listener_config(clients, limits.clients),
        host.clone(),
        me,
        extras,
        over,
    )));
    if let Some(address) = settings.web {
        let listener = listen(&address.to_string()).await?;
        let web = Web { host: host.clone(), me, explainer };
        let listener_config = listener_config(listener, limits.web);
        tasks.push(tokio::spawn(serve_web(listener_config, web, until(ended.clone()))));
    }
    if let Some((peers, at)) = peers {
        peers.listens_to_clients(advertised(settings, address));
        let listener = listen(&at).await?;
        let listener_config = ListenerConfig {
            listener,
            security: listeners.peers.clone(),
            audit: audit.clone(),
            limits: limits.peers,
        };
        tasks.push(tokio::spawn(serve_peers(listener_config, peers, until(ended))));
    }
    let mut signals = Signals::listen().map_err(ServeError::System)?;
    output::print(&format!("{} of cell {} listens on {address}\n", me.replica, me.cell))?;
    let stopped = tokio::select! {
        () = signals.end() => None,
        stopped = host.until_stopped() => Some(stopped),
    };
    end.send_replace(true);
    for task in tasks {
        // Connections that are still open after two seconds are closed.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(2), task).await;
    }
    if let Some(traces) = traces {
        // The export of the last spans may take a moment.
        let _ = tokio::task::spawn_blocking(move || traces.end()).await;
    }
    stopped.map_or(Ok(()), |(why, remedy)| Err(ServeError::Stopped { why, remedy }))
}

/// Starts to export traces to the collector, if one is set.
fn start_traces(settings: &Settings, me: &ReplicaIdentity) -> Result<Option<Traces>, ServeError> {
    let Some(of) = &settings.traces else { return Ok(None) };
    let process = format!("{} of cell {}", me.replica, me.cell);
    let address = of.endpoint.clone();
    let started = Traces::start(of, process);
    started.map(Some).map_err(|why| ServeError::Collector { address, why })
}

/// The address of this replica for clients: `--advertise`, or else `address`, on which the replica listens. If
/// `address` covers all addresses of the host, the host is taken from the replica's address for peers, and the port
/// from `address`.
fn advertised(settings: &Settings, address: SocketAddr) -> String {
    let of_peers = match &settings.storage {
        Storage::Replica(of) if address.ip().is_unspecified() => of.address.rsplit_once(':'),
        _ => None,
    };
    let by_peers = of_peers.map(|(host, _)| format!("{host}:{}", address.port()));
    settings.advertise.clone().or(by_peers).unwrap_or_else(|| address.to_string())
}

fn open_audit(file: &Path) -> Result<Arc<AuditLog>, ServeError> {
    let opened = AuditLog::open(file);
    opened.map(Arc::new).map_err(|why| ServeError::Audit { file: file.to_owned(), why })
}

/// Checks whether the folder of an audit log exists.
fn check_audit(file: &Path) -> Result<(), ServeError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let is_folder = folder.is_none_or(Path::is_dir);
    let why = || io::Error::from(io::ErrorKind::NotFound);
    is_folder.then_some(()).ok_or_else(|| ServeError::Audit { file: file.to_owned(), why: why() })
}

async fn listen(address: &str) -> Result<TcpListener, ServeError> {
    let listening = TcpListener::bind(address).await;
    listening.map_err(|why| ServeError::Listen { address: address.to_owned(), why })
}

fn describe(settings: &Settings) -> String {
    let storage_text = match &settings.storage {
        Storage::Memory => "in memory only: it is lost when the server ends".to_owned(),
        Storage::Alone(dir) => format!("in {}, by one replica", dir.display()),
        Storage::Replica(of) => {
            let peers: Vec<String> =
                of.peers.iter().map(|peer| format!("{}={}", peer.id.0, peer.address)).collect();
            let (replica, dir) = (of.replica, of.dir.display());
            format!("in {dir}, by {replica} of {}, cell {}", peers.join(","), of.cell)
        }
    };
    let mut lines = vec![("clients", settings.listen.to_string())];
    lines.extend(settings.web.map(|web| ("web", web.to_string())));
    lines.push(("cell", storage_text));
    let tls = if settings.tls.is_some() { "mutual: callers need certificates" } else { "none" };
    lines.push(("tls", tls.to_owned()));
    lines.extend(settings.audit_log.as_ref().map(|file| ("audit", file.display().to_string())));
    lines.push(("limits", limits::describe(&settings.limits)));
    let lines: Vec<String> =
        lines.iter().map(|(name, value)| format!("{name:10}{value}")).collect();
    lines.join("\n")
}
