//! The agent of this machine: prepares the process driver, and lets a runner carry out the cell's directives.

use super::args::AgentArgs;
use super::error::AgentError;
use super::offer;
use super::supervisor::Supervisor;
use super::unmanaged;
use crate::open_files;
use crate::signals::Signals;
use omega_agent::cgroup::CgroupRoot;
use omega_agent::machine::{self, Found};
use omega_agent::{Limits, ProcessDriver, ProcessSettings};
use omega_client::Address;
use omega_client::agent::{AGENT, AgentSettings};
use omega_core::Labels;
use omega_runner::{Runner, RunnerSettings};
use rustix::fs::{FlockOperation, OFlags};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// Time that a supervisor has to end its task, after the grace period if there is one.
const PATIENCE: Duration = Duration::from_secs(10);

/// Name of the file that an agent locks in its folder.
pub(super) const LOCK: &str = "agent.lock";

/// State of an agent before it attaches to the cell.
pub(super) struct Ready {
    address: Address,
    driver: ProcessDriver,
    found: Found,
    /// Id of this agent, which the folder keeps.
    id: String,
    settings: RunnerSettings,
    /// Program of the supervisors, kept open while the agent runs.
    _program: Supervisor,
    /// Lock of the folder, kept while the agent runs.
    _lock: File,
    /// Lock of the control group, kept while the agent runs.
    _group_lock: Option<File>,
}

/// Locks the folder, prepares control groups, and finds the resources of this machine.
pub(super) fn prepare(args: &AgentArgs) -> Result<Ready, AgentError> {
    let address = args.cell.address()?;
    let refused = |why| AgentError::Folder { folder: args.dir.clone(), why };
    // The users of tasks pass through the folder, and do not list it.
    DirBuilder::new().recursive(true).mode(0o711).create(&args.dir).map_err(refused)?;
    let dir = args.dir.canonicalize().map_err(refused)?;
    let lock = create_private(&dir.join(LOCK)).map_err(refused)?;
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(AgentError::FolderInUse(dir));
    }
    let cgroups = match &args.cgroup {
        _ if args.no_limits => None,
        Some(group) => Some(CgroupRoot::at(group)?),
        None => Some(CgroupRoot::of_this_process()?),
    };
    let id = read_id(&dir).map_err(refused)?;
    let _group_lock = cgroups.as_ref().map(CgroupRoot::lock).transpose()?;
    // Each task takes files of the agent. If the limit cannot be raised, tasks for which the agent cannot open a file
    // are polled. The previous limit applies to the tasks; 0 means no limit.
    let open_files = open_files::raise().unwrap_or_default();
    let program = Supervisor::find();
    let supervisor = program.command();
    let folder = dir.join("tasks");
    let settings = ProcessSettings { folder, supervisor, cgroups, patience: PATIENCE };
    let driver = ProcessDriver::new(settings)?;
    unmanaged::warn(&dir);
    let found = machine::find(&dir);
    let limits =
        Limits { log_bytes: args.log_bytes, pids: args.pids, open_files, ..Limits::default() };
    let settings = RunnerSettings {
        agent: AgentSettings { heartbeat: Duration::from_secs(args.heartbeat) },
        limits,
        cores: found.nodes.clone(),
    };
    Ok(Ready { address, driver, found, id, settings, _program: program, _lock: lock, _group_lock })
}

/// Opens a file of the agent. A program that runs as the agent's user may have put a link or a named pipe in its place.
fn open_own(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits() as i32).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other(format!("{} is no regular file: remove it", path.display())))
}

/// Creates or empties a file that other users cannot open: whoever opens a lock file can lock it.
fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let file = open_own(options, path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Reads the beginning of a file, which is longer than an id.
fn read_private(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_own(OpenOptions::new().read(true), path)?.take(64).read_to_string(&mut text)?;
    Ok(text)
}

/// Reads the id of the agent of a folder, or creates one. Two agents with different folders have different ids, so the
/// cell can tell a restarted agent from another with the same name.
fn read_id(dir: &Path) -> io::Result<String> {
    let path = dir.join("agent.id");
    let is_id =
        |text: &String| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match read_private(&path) {
        Ok(id) if is_id(&id) => return Ok(id),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // The file is missing, or was not written completely.
        _ => {}
    }
    // `RandomState` gets random keys from the operating system, so its hashes are random numbers.
    let id = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
    let new = dir.join("agent.id.new");
    let mut file = create_private(&new)?;
    file.write_all(id.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(dir)?.sync_all()?;
    Ok(id)
}

/// Runs the agent until a signal ends it. The tasks continue without it.
pub(super) async fn run(args: &AgentArgs, ready: Ready) -> Result<(), AgentError> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        () = signals.end() => Ok(()),
        ended = work(args, ready) => ended,
    }
}

async fn work(args: &AgentArgs, ready: Ready) -> Result<(), AgentError> {
    let Ready { address, driver, found, id, settings, _program, _lock, _group_lock } = ready;
    let mut runner = Runner::connect(&address, Box::new(driver), settings).await?;
    let mut machine = offer::machine(args, &found, runner.kinds());
    let labels = machine.labels.iter().map(|(key, value)| (&**key, &**value));
    machine.labels = Labels::new(labels.chain([(AGENT, &*id)]));
    let name = machine.name.to_string();
    let id = runner.register(machine).await?;
    // If standard output is closed, this is not an error.
    let _ = writeln!(io::stdout(), "agent offers machine {name}");
    Ok(runner.run(id).await?)
}
