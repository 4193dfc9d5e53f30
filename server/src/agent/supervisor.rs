//! The program that supervises a task: `omega-supervisor` beside `omega`, or `omega` itself.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

/// First argument of the commands with which the agent starts the stages of a task.
pub(super) const STAGE: &str = "agent-exec";

/// File name of the small program, which can only supervise tasks.
const NAME: &str = "omega-supervisor";

/// The program that supervises tasks. An upgrade may replace the file of the small program, so the agent keeps the file
/// open, and starts the program by the file's descriptor.
#[derive(Debug)]
pub(super) struct Supervisor {
    small: Option<File>,
}

impl Supervisor {
    /// Finds the program. Uses `omega` itself if the small program is missing or of another build.
    pub(super) fn find() -> Supervisor {
        let own = std::env::current_exe().ok();
        let small = own.and_then(|own| File::open(own.with_file_name(NAME)).ok());
        let found = Supervisor { small };
        if found.small.is_some() && !found.is_of_this_build() {
            tracing::warn!(
                "{NAME} beside omega is of another build, so omega supervises its tasks itself: \
                 install both together"
            );
            return Supervisor { small: None };
        }
        found
    }

    /// Program and first arguments of the command that starts a supervisor.
    pub(super) fn command(&self) -> Vec<OsString> {
        match &self.small {
            Some(small) => vec![format!("/proc/self/fd/{}", small.as_raw_fd()).into()],
            None => vec!["/proc/self/exe".into(), STAGE.into()],
        }
    }

    fn is_of_this_build(&self) -> bool {
        let command = self.command();
        let Some(program) = command.first() else { return false };
        let run = Command::new(program).arg("--build").stdin(Stdio::null()).output();
        run.is_ok_and(|run| run.stdout == format!("{}\n", omega_agent::build()).as_bytes())
    }
}
