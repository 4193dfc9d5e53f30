//! Settings of a server, from flags, the environment and a file, in this order of priority.
//!
//! Every key is one field here, and so one flag (`--peer-listen`), one variable (`OMEGA_PEER_LISTEN`) and one line of
//! the file (`peer-listen = "..."`).

use super::limits::{LimitsError, SourceLimits};
use super::tls::{self, Files};
use super::traces::{self, Collector, Fraction};
use crate::events::{LogArgs, LogFormat, LogLevel};
use clap::Args;
use omega_core::limits::TEXT_BYTES_MAX;
use omega_core::text::is_hidden;
use omega_core::{Kinds, KindsError, ResourceKind, Unit};
use omega_service::{Limits, MonitorSettings, SlowCommit, TraceSettings};
use omega_store::CellId;
use omega_store::log::ReplicaId;
use omega_store::membership::is_address;
use omega_workload::readable;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Default address for clients.
const LISTEN: &str = "127.0.0.1:7600";

/// Headings of options in the help.
const STORAGE: &str = "Storage";
const LISTENERS: &str = "Addresses";
const REPLICAS: &str = "Replicas";
const ACCESS: &str = "Certificates and access";
const MACHINES: &str = "Machines";
const EVENTS: &str = "Log events and traces";

/// The settings of one source. A missing setting is taken from the next source.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct SourceSettings {
    /// Folder of the replica. Without --replica, the folder is created with a new cell if it does not exist. Give
    /// either --dir or --memory.
    #[arg(long, help_heading = STORAGE, env = "OMEGA_DIR", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the cell only in memory, until the server ends.
    #[arg(long, help_heading = STORAGE, env = "OMEGA_MEMORY", num_args = 0..=1, default_missing_value = "true")]
    memory: Option<bool>,
    /// Address to listen on for clients [default: 127.0.0.1:7600].
    #[arg(long, help_heading = LISTENERS, env = "OMEGA_LISTEN", value_name = "HOST:PORT", value_parser = resolved)]
    #[serde(default, deserialize_with = "resolved_in_file")]
    listen: Option<SocketAddr>,
    /// Address at which agents and schedulers connect to this replica while it leads [default: that of --listen; if
    /// its host is 0.0.0.0 or ::, this replica's host in --peers with the port of --listen].
    #[arg(long, help_heading = LISTENERS, env = "OMEGA_ADVERTISE", value_name = "HOST:PORT", value_parser = address)]
    #[serde(default, deserialize_with = "address_in_file")]
    advertise: Option<String>,
    /// Address at which to serve the web page, /metrics, /healthz and /readyz, with HTTPS if there are certificates
    /// [default: they are not served].
    #[arg(long, help_heading = LISTENERS, env = "OMEGA_WEB_LISTEN", value_name = "HOST:PORT", value_parser = resolved)]
    #[serde(default, deserialize_with = "resolved_in_file")]
    web_listen: Option<SocketAddr>,
    /// Name of the cell; must be the same for all replicas of the cell. Required with --replica or --tls-cert.
    #[arg(long, help_heading = REPLICAS, env = "OMEGA_CELL_NAME", value_name = "NAME")]
    cell_name: Option<String>,
    /// Number of times the cell was restored from a backup; must be the same for all replicas of the cell [default: 0].
    #[arg(long, help_heading = REPLICAS, env = "OMEGA_CELL_GENERATION", value_name = "N")]
    cell_generation: Option<u32>,
    /// Id of this replica, such as 1; required if the cell has several replicas.
    #[arg(long, help_heading = REPLICAS, env = "OMEGA_REPLICA", value_name = "ID")]
    replica: Option<u64>,
    /// Peer addresses of all replicas that bootstrap the cell, including this one: 1=host:port,2=host:port,3=host:port.
    /// With --join, the address of this replica is enough. An address set by `omega member` takes precedence.
    #[arg(long, help_heading = REPLICAS, env = "OMEGA_PEERS", value_name = "ID=ADDRESS", value_delimiter = ',')]
    peers: Option<Vec<Peer>>,
    /// Address to listen on for peers [default: the address of this replica in --peers].
    #[arg(long, help_heading = LISTENERS, env = "OMEGA_PEER_LISTEN", value_name = "HOST:PORT", value_parser = resolved)]
    #[serde(default, deserialize_with = "resolved_in_file")]
    peer_listen: Option<SocketAddr>,
    /// Resource kinds of a new cell besides cpu, memory, disk and gpu, such as licence,cloud-disk=bytes. A kind without
    /// =bytes is counted in whole units. All replicas must have the same kinds, which cannot be changed later.
    #[arg(long, help_heading = STORAGE, env = "OMEGA_KINDS", value_name = "NAME[=bytes]", value_delimiter = ',')]
    kinds: Option<Vec<KindName>>,
    /// Bootstrap a new cell together with the peers; only for the first start of each replica.
    #[arg(long, help_heading = REPLICAS, env = "OMEGA_BOOTSTRAP", num_args = 0..=1, default_missing_value = "true", conflicts_with = "join")]
    bootstrap: Option<bool>,
    /// Join a running cell as a new replica with a new id (see `omega member add`).
    #[arg(long, help_heading = REPLICAS, env = "OMEGA_JOIN", num_args = 0..=1, default_missing_value = "true")]
    join: Option<bool>,
    /// File of the audit log, which records all changes, denied calls and started backups [default: no audit log].
    #[arg(long, help_heading = ACCESS, env = "OMEGA_AUDIT_LOG", value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// Certificate of this replica, for clients and peers, with its intermediate certificates. TLS also needs
    /// --tls-key, --client-ca and --cell-name [default: no TLS].
    #[arg(long, help_heading = ACCESS, env = "OMEGA_TLS_CERT", value_name = "FILE.pem")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate of --tls-cert; only its owner may have access to the file.
    #[arg(long, help_heading = ACCESS, env = "OMEGA_TLS_KEY", value_name = "FILE.key")]
    tls_key: Option<PathBuf>,
    /// Certificate of the authority that issued the clients' certificates.
    #[arg(long, help_heading = ACCESS, env = "OMEGA_CLIENT_CA", value_name = "FILE.pem")]
    client_ca: Option<PathBuf>,
    /// Certificate of the authority that issued the peers' certificates [default: that of --client-ca].
    #[arg(long, help_heading = ACCESS, env = "OMEGA_PEER_CA", value_name = "FILE.pem")]
    peer_ca: Option<PathBuf>,
    /// File with certificate revocation lists (CRLs) of the authorities of --client-ca and --peer-ca, read again when
    /// it changes [default: none].
    #[arg(long, help_heading = ACCESS, env = "OMEGA_REVOKED", value_name = "FILE.pem")]
    revoked: Option<PathBuf>,
    /// Allow connections from other machines without certificates: everyone who can connect is an operator.
    #[arg(long, help_heading = ACCESS, env = "OMEGA_INSECURE", num_args = 0..=1, default_missing_value = "true")]
    insecure: Option<bool>,
    /// Seconds without heartbeats after which an agent's machine counts as unreachable [default: 40].
    #[arg(long, help_heading = MACHINES, env = "OMEGA_MACHINE_TIMEOUT", value_name = "SECONDS")]
    machine_timeout: Option<NonZeroU32>,
    /// Maximum number of machines that are marked unreachable per second [default: 10].
    #[arg(long, help_heading = MACHINES, env = "OMEGA_EVICTION_RATE", value_name = "N")]
    eviction_rate: Option<NonZeroU32>,
    /// Log commits that take this number of milliseconds or longer, with the time of each stage [default: 500].
    #[arg(long, help_heading = EVENTS, env = "OMEGA_SLOW_COMMIT", value_name = "MS")]
    slow_commit: Option<u32>,
    /// Level of log events on standard error: off, error, warn, info, debug or trace. Modules may have their own
    /// levels: warn,omega_service=debug [default: the variable RUST_LOG, or warn if it is not set].
    #[arg(long, help_heading = EVENTS, env = "OMEGA_LOG_LEVEL", value_name = "LEVEL")]
    log_level: Option<LogLevel>,
    /// Format of log events [default: text].
    #[arg(long, help_heading = EVENTS, env = "OMEGA_LOG_FORMAT", value_name = "FORMAT", value_enum)]
    log_format: Option<LogFormat>,
    /// Address of an OpenTelemetry collector for traces of commits, such as http://127.0.0.1:4317 [default: the
    /// variable OTEL_EXPORTER_OTLP_ENDPOINT; no traces if it is not set].
    #[arg(long, help_heading = EVENTS, env = "OMEGA_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<Collector>,
    /// Fraction of the transactions to trace, from 0 to 1 [default: 0.01].
    #[arg(long, help_heading = EVENTS, env = "OMEGA_TRACE_FRACTION", value_name = "PART")]
    trace_fraction: Option<Fraction>,
    #[command(flatten, next_help_heading = "Limits on requests")]
    #[serde(default)]
    limits: SourceLimits,
}

/// Initial state of a new replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Start {
    /// An empty cell, the same at each replica that bootstraps it.
    Bootstrap,
    /// Join: the leader sends the state.
    Join,
}

/// A replica, and its address for peers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Peer {
    /// Id of the replica.
    pub(crate) id: ReplicaId,
    /// `host:port`.
    pub(crate) address: String,
}

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        let wrong = || format!("{text:?} must be ID=HOST:PORT, such as 1=db1.example.org:7700");
        let (id, address) = text.split_once('=').ok_or_else(wrong)?;
        let id = id.parse().ok().filter(|id| *id > 0).ok_or_else(wrong)?;
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        Ok(Peer { id: ReplicaId(id), address: address.to_owned() })
    }
}

impl TryFrom<String> for Peer {
    type Error = String;

    fn try_from(text: String) -> Result<Peer, String> {
        text.parse()
    }
}

/// A resource kind of a served cell, in addition to the standard kinds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct KindName(ResourceKind);

/// Resolves `host:port` for a listener. If a name has several addresses, an IPv4 address is preferred.
fn resolved(text: &str) -> Result<SocketAddr, String> {
    let all: Vec<SocketAddr> = match text.to_socket_addrs() {
        Ok(all) => all.collect(),
        Err(why) => {
            return Err(format!(
                "{text:?} must be an address such as localhost:7600: \
             {why}"
            ));
        }
    };
    let first = all.iter().find(|address| address.is_ipv4()).or(all.first());
    first.copied().ok_or_else(|| format!("{text:?}: this host name has no address"))
}

fn resolved_in_file<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    resolved(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

/// Checks an address to which other processes will connect.
fn address(text: &str) -> Result<String, String> {
    if is_address(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} must be an address such as cell.example.org:7600"))
    }
}

fn address_in_file<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    address(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

impl FromStr for KindName {
    type Err = String;

    fn from_str(text: &str) -> Result<KindName, String> {
        let (name, unit) = match text.split_once('=') {
            None => (text, Unit::Count),
            Some((name, "bytes")) => (name, Unit::Bytes),
            Some(_) => {
                return Err(format!(
                    "{text:?} must be NAME or NAME=bytes, such as licence \
                 or cloud-disk=bytes"
                ));
            }
        };
        let is_name = (1..=TEXT_BYTES_MAX).contains(&name.len());
        if !is_name || name.chars().any(|c| is_hidden(c) || c.is_whitespace()) {
            return Err(format!(
                "{name:?} must be a name of 1 to {TEXT_BYTES_MAX} bytes without \
                 spaces"
            ));
        }
        Ok(KindName(ResourceKind { name: name.to_owned(), unit, compressible: false }))
    }
}

impl TryFrom<String> for KindName {
    type Error = String;

    fn try_from(text: String) -> Result<KindName, String> {
        text.parse()
    }
}

/// The resource kinds of a new cell: the standard kinds, and the given kinds.
fn kinds_with(more: Option<Vec<KindName>>) -> Result<Kinds, KindsError> {
    let more = more.into_iter().flatten().map(|KindName(kind)| kind);
    let standard = Kinds::standard();
    Kinds::new(standard.iter().map(|(_, kind)| kind.clone()).chain(more).collect())
}

/// Settings of a server, complete and checked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Address for clients.
    pub(crate) listen: SocketAddr,
    /// Address for clients of this replica, if it differs from `listen`.
    pub(crate) advertise: Option<String>,
    /// Address for the web page, metrics and probes, if any.
    pub(crate) web: Option<SocketAddr>,
    /// Storage of the cell.
    pub(crate) storage: Storage,
    /// Resource kinds of the cell, if the cell is new.
    pub(crate) kinds: Kinds,
    /// Certificates of the server, if any. If the server has certificates, its callers need certificates, too.
    pub(crate) tls: Option<Files>,
    /// File of the audit log, if any.
    pub(crate) audit_log: Option<PathBuf>,
    /// Settings for unreachable machines.
    pub(crate) monitor: MonitorSettings,
    /// Duration from which a commit is slow.
    pub(crate) slow_commit: SlowCommit,
    /// Level and format of events.
    pub(crate) log: LogArgs,
    /// Limits of requests.
    pub(crate) limits: Limits,
    /// Collector of traces of commits, if any.
    pub(crate) traces: Option<TraceSettings>,
}

/// Storage of a cell.
#[derive(Clone, Debug)]
pub(crate) enum Storage {
    /// Only in memory.
    Memory,
    /// Only in this folder.
    Alone(PathBuf),
    /// In the folders of several replicas.
    Replica(Replicated),
}

/// One replica of several.
#[derive(Clone, Debug)]
pub(crate) struct Replicated {
    /// Folder of the replica.
    pub(crate) dir: PathBuf,
    /// Id of the cell.
    pub(crate) cell: CellId,
    /// Id of the replica.
    pub(crate) replica: ReplicaId,
    /// All replicas whose addresses are known.
    pub(crate) peers: Vec<Peer>,
    /// Address to listen on for peers.
    pub(crate) listen: String,
    /// Address to which peers connect.
    pub(crate) address: String,
    /// Action if the folder does not exist.
    pub(crate) start: Option<Start>,
}

/// Error in the settings, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The file of settings cannot be read or is invalid. Name another file, or correct this one.
    #[error("{}: {why}", file.display())]
    File {
        /// Path of the file.
        file: PathBuf,
        /// Error in the file, with the line.
        why: String,
    },
    /// Both a cell in memory and a folder or replicas are given. Choose one.
    #[error(
        "a cell in memory has no folder and no replicas: leave out --memory, or leave out --dir, \
         --replica and --peers"
    )]
    MemoryAndMore,
    /// No storage for the cell is given. Give a folder, or choose a cell in memory.
    #[error(
        "--dir is missing: give --dir DIR to keep the cell in a folder, or --memory to keep it in \
         memory until the process ends"
    )]
    NoPlace,
    /// A setting of a cell with several replicas is missing. Add it.
    #[error(
        "{0} is missing: in a cell of several replicas, each needs --dir, --cell-name, --replica \
         and --peers"
    )]
    Incomplete(&'static str),
    /// Both `--bootstrap` and `--join` are given. Leave out one of them.
    #[error(
        "--bootstrap creates a new cell, and --join joins a running one: leave out one of \
         them"
    )]
    BootstrapOrJoin,
    /// The list of peers lacks this replica. Add it.
    #[error("--peers: the address of replica {0} is missing: add it as ID=HOST:PORT")]
    NotAmongPeers(ReplicaId),
    /// The list of peers names a replica or an address twice. Name each replica once, with a unique address.
    #[error("--peers: {0} appears twice: give each replica once, with its own address")]
    Twice(String),
    /// Clients and peers have the same port. Use two ports.
    #[error("clients and peers cannot share the address {0}: give --listen another port")]
    SamePort(String),
    /// A resource kind is invalid. Correct `--kinds`.
    #[error("--kinds: {0}")]
    Kinds(#[from] KindsError),
    /// The underlying error.
    #[error(transparent)]
    Tls(#[from] tls::TlsSettingsError),
    /// A variable for traces is invalid. Correct it.
    #[error("{0}")]
    Traces(String),
    /// The underlying error.
    #[error(transparent)]
    Limits(#[from] LimitsError),
}

impl SourceSettings {
    /// Settings of a file.
    fn read(file: &Path) -> Result<SourceSettings, SettingsError> {
        let wrong = |why: String| SettingsError::File { file: file.to_owned(), why };
        let text = readable::read_text(file).map_err(|why| wrong(why.to_string()))?;
        let read = omega_workload::file::toml(text.trim_start_matches('\u{feff}'));
        read.map_err(|fault| wrong(fault.to_string()))
    }

    /// Fills missing values from another source of settings.
    fn or(self, other: SourceSettings) -> SourceSettings {
        SourceSettings {
            dir: self.dir.or(other.dir),
            memory: self.memory.or(other.memory),
            listen: self.listen.or(other.listen),
            advertise: self.advertise.or(other.advertise),
            web_listen: self.web_listen.or(other.web_listen),
            cell_name: self.cell_name.or(other.cell_name),
            cell_generation: self.cell_generation.or(other.cell_generation),
            replica: self.replica.or(other.replica),
            peers: self.peers.or(other.peers),
            peer_listen: self.peer_listen.or(other.peer_listen),
            kinds: self.kinds.or(other.kinds),
            bootstrap: self.bootstrap.or(other.bootstrap),
            join: self.join.or(other.join),
            audit_log: self.audit_log.or(other.audit_log),
            tls_cert: self.tls_cert.or(other.tls_cert),
            tls_key: self.tls_key.or(other.tls_key),
            client_ca: self.client_ca.or(other.client_ca),
            peer_ca: self.peer_ca.or(other.peer_ca),
            revoked: self.revoked.or(other.revoked),
            insecure: self.insecure.or(other.insecure),
            machine_timeout: self.machine_timeout.or(other.machine_timeout),
            eviction_rate: self.eviction_rate.or(other.eviction_rate),
            slow_commit: self.slow_commit.or(other.slow_commit),
            log_level: self.log_level.or(other.log_level),
            log_format: self.log_format.or(other.log_format),
            otlp_endpoint: self.otlp_endpoint.or(other.otlp_endpoint),
            trace_fraction: self.trace_fraction.or(other.trace_fraction),
            limits: self.limits.or(other.limits),
        }
    }

    /// Resolves all settings.
    ///
    /// # Errors
    /// If settings contradict each other, or one is missing.
    pub(crate) fn resolve(self, file: Option<&Path>) -> Result<Settings, SettingsError> {
        let given = match file {
            Some(file) => self.or(SourceSettings::read(file)?),
            None => self,
        };
        let listen = given.listen.unwrap_or_else(|| LISTEN.parse().expect("it is an address"));
        let tls_options = given.tls_options();
        let files = tls_options.files(given.cell_name.as_deref())?;
        let audit_log = given.audit_log.clone();
        let monitor = given.monitor();
        let limits = given.limits.resolve()?;
        let kinds = kinds_with(given.kinds.clone())?;
        let traces = traces::settings(given.otlp_endpoint.clone(), given.trace_fraction);
        let traces = traces.map_err(SettingsError::Traces)?;
        let web = given.web_listen;
        let advertise = given.advertise.clone();
        let slow = given.slow_commit.map(|ms| SlowCommit(Duration::from_millis(ms.into())));
        let slow_commit = slow.unwrap_or_default();
        let log = LogArgs { log_level: given.log_level.clone(), log_format: given.log_format };
        let is_one_of_several = given.peers.is_some() || given.replica.is_some();
        let storage = match (given.memory == Some(true), given.dir.clone()) {
            (true, None) if !is_one_of_several => Storage::Memory,
            (true, _) => return Err(SettingsError::MemoryAndMore),
            (false, Some(dir)) if !is_one_of_several => Storage::Alone(dir),
            (false, None) if !is_one_of_several => return Err(SettingsError::NoPlace),
            (false, _) => Storage::Replica(given.replicated(listen)?),
        };
        tls_options.check("--listen", &listen.to_string())?;
        if let Some(web) = web {
            tls_options.check("--web-listen", &web.to_string())?;
        }
        if let Storage::Replica(of) = &storage {
            tls_options.check("--peer-listen", &of.listen)?;
        }
        let tls = files;
        Ok(Settings {
            listen,
            advertise,
            web,
            storage,
            kinds,
            tls,
            audit_log,
            monitor,
            limits,
            slow_commit,
            log,
            traces,
        })
    }

    fn tls_options(&self) -> tls::TlsOptions {
        tls::TlsOptions {
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            client_ca: self.client_ca.clone(),
            peer_ca: self.peer_ca.clone(),
            revoked: self.revoked.clone(),
            insecure: self.insecure == Some(true),
        }
    }

    fn monitor(&self) -> MonitorSettings {
        let default = MonitorSettings::default();
        let seconds = |seconds: NonZeroU32| Duration::from_secs(seconds.get().into());
        MonitorSettings {
            timeout: self.machine_timeout.map_or(default.timeout, seconds),
            eviction_rate: self.eviction_rate.map_or(default.eviction_rate, NonZeroU32::get),
        }
    }

    fn replicated(self, clients: SocketAddr) -> Result<Replicated, SettingsError> {
        let dir = self.dir.ok_or(SettingsError::Incomplete("--dir"))?;
        let name = self.cell_name.ok_or(SettingsError::Incomplete("--cell-name"))?;
        let replica = ReplicaId(self.replica.ok_or(SettingsError::Incomplete("--replica"))?);
        let peers = self.peers.ok_or(SettingsError::Incomplete("--peers"))?;
        for (i, peer) in peers.iter().enumerate() {
            if peers[..i].iter().any(|other| other.id == peer.id) {
                return Err(SettingsError::Twice(peer.id.to_string()));
            }
            if peers[..i].iter().any(|other| other.address == peer.address) {
                return Err(SettingsError::Twice(peer.address.clone()));
            }
        }
        let own = peers.iter().find(|peer| peer.id == replica);
        let own = own.ok_or(SettingsError::NotAmongPeers(replica))?;
        let listen =
            self.peer_listen.map_or_else(|| own.address.clone(), |address| address.to_string());
        if listen == clients.to_string() {
            return Err(SettingsError::SamePort(listen));
        }
        let cell = cell_of(&name, self.cell_generation.unwrap_or(0));
        let start = match (self.bootstrap, self.join) {
            (Some(true), Some(true)) => return Err(SettingsError::BootstrapOrJoin),
            (Some(true), _) => Some(Start::Bootstrap),
            (_, Some(true)) => Some(Start::Join),
            _ => None,
        };
        let address = own.address.clone();
        Ok(Replicated { dir, cell, replica, listen, address, start, peers })
    }
}

/// Id of a cell with this name. It is derived from the name so that the cell's replicas, which cannot communicate yet,
/// choose the same id. A restored cell has a higher generation and another id, so that no replica of the former cell
/// can join it.
pub(crate) fn cell_of(name: &str, generation: u32) -> CellId {
    let mut bytes = name.as_bytes().to_vec();
    if generation > 0 {
        // A name contains no zero byte, so the id differs from the ids of all names.
        bytes.push(0);
        bytes.extend(generation.to_le_bytes());
    }
    CellId(xxhash_rust::xxh3::xxh3_128(&bytes))
}
