//! The program that supervises a task: `omega-supervisor` beside `omega`, or `omega` itself.

use super::STAGE;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

/// Name of the small program.
const NAME: &str = "omega-supervisor";

/// The program that supervises tasks. An upgrade may replace it on the disk, so it is kept open, and started by its
/// descriptor.
#[derive(Debug)]
pub(super) struct Supervisor {
    small: Option<File>,
}

impl Supervisor {
    /// Finds the program. A small program of another build is not used.
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
