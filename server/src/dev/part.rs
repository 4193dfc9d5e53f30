//! A process of the cell, with its output in a file.

use super::DevError;
use crate::{agent, scheduler, serve};
use clap::Args;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Interval at which processes are checked for their end.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time until a replica listens.
const START_MAX: Duration = Duration::from_secs(20);

/// Maximum number of bytes at the start of a replica's output in which to search for its report that it listens.
const HEAD_BYTES: u64 = 1 << 20;

/// Maximum number of bytes at the end of an output in which to search for its last line.
const TAIL_BYTES: u64 = 4096;

/// A process of the cell. Dropping this value ends the process.
pub(super) struct Part {
    name: String,
    child: Child,
    log: PathBuf,
    has_ended: bool,
}

impl Drop for Part {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Part {
    /// Starts a process with these arguments. Environment variables that set options of the commands are removed,
    /// because the user set them for other cells.
    pub(super) fn start(name: &str, root: &Path, arguments: &[String]) -> Result<Part, DevError> {
        let log = root.join(format!("{name}.log"));
        let folder = |why| DevError::Folder { path: log.clone(), why };
        let out = File::create(&log).map_err(folder)?;
        let err = out.try_clone().map_err(folder)?;
        let program = std::env::current_exe().map_err(DevError::Process)?;
        let mut command = Command::new(program);
        for variable in settings() {
            command.env_remove(variable);
        }
        let command = command.args(arguments).stdin(Stdio::null()).stdout(out).stderr(err);
        let child = command.spawn().map_err(DevError::Process)?;
        Ok(Part { name: name.to_owned(), child, log, has_ended: false })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Id of the process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process reports that it listens. A test connection is no proof, because it could reach another
    /// process.
    pub(super) fn wait_until_it_listens(&mut self, address: SocketAddr) -> Result<(), DevError> {
        let began = Instant::now();
        let report = format!(" listens on {address}\n");
        loop {
            let has_ended = self.child.try_wait().map_err(DevError::Process)?.is_some();
            if has_ended || began.elapsed() > START_MAX {
                let silent = || format!("it did not listen on {address}, and printed nothing");
                let why = self.last_line()?.unwrap_or_else(silent);
                return Err(DevError::Start { name: self.name.clone(), why });
            }
            if self.output(0, HEAD_BYTES)?.contains(&report) {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns a description of the end of the process once, at the first call after the end; otherwise `None`.
    pub(super) fn new_end(&mut self) -> Result<Option<String>, DevError> {
        if self.has_ended {
            return Ok(None);
        }
        let Some(status) = self.child.try_wait().map_err(DevError::Process)? else {
            return Ok(None);
        };
        self.has_ended = true;
        let why = self.last_line()?.map(|line| format!(": {line}")).unwrap_or_default();
        Ok(Some(format!("{} has ended ({status}){why}", self.name)))
    }

    /// The last line of the output, without the program's name before an error.
    fn last_line(&self) -> Result<Option<String>, DevError> {
        let length = std::fs::metadata(&self.log).map_err(|why| self.log_error(why))?.len();
        let output = self.output(length.saturating_sub(TAIL_BYTES), TAIL_BYTES)?;
        let line = output.lines().map(str::trim).rfind(|line| !line.is_empty());
        Ok(line.map(|line| line.strip_prefix("omega: ").unwrap_or(line).to_owned()))
    }

    /// The output from this offset, up to this number of bytes.
    fn output(&self, offset: u64, max: u64) -> Result<String, DevError> {
        let read = || {
            let mut file = File::open(&self.log)?;
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = Vec::new();
            file.take(max).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().map_err(|why| self.log_error(why))
    }

    fn log_error(&self, why: io::Error) -> DevError {
        DevError::Folder { path: self.log.clone(), why }
    }
}

/// Environment variables that set options of the started commands, except those for log events.
fn settings() -> Vec<OsString> {
    let commands = [
        serve::ServeArgs::augment_args(clap::Command::new("serve")),
        scheduler::SchedulerArgs::augment_args(clap::Command::new("scheduler")),
        agent::AgentArgs::augment_args(clap::Command::new("agent")),
    ];
    let variables = commands
        .iter()
        .flat_map(clap::Command::get_arguments)
        .filter_map(|argument| argument.get_env().map(ToOwned::to_owned));
    variables.filter(|name| !name.to_string_lossy().starts_with("OMEGA_LOG_")).collect()
}
