//! Watchdog that cleans up after a killed test: its processes, hanging disks, and mounts.
//!
//! A test that runs too long is killed, and its values are not dropped. So a shell receives, through a pipe, the
//! cleanup commands that are needed at present. When the pipe is closed for any reason, the shell runs these commands
//! and ends.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// Environment variable that marks processes started by this process.
const STARTED_BY: &str = "OMEGA_STARTED_BY_TEST";

/// Marks a child process, so that it does not outlive this process.
pub fn mark(command: &mut Command) {
    static OF_THIS_PROCESS: OnceLock<Option<Watchdog>> = OnceLock::new();
    let own = std::process::id();
    OF_THIS_PROCESS.get_or_init(|| {
        // Without a shell there is no watchdog, but tests run nevertheless.
        let mut watchdog = Watchdog::start().ok()?;
        watchdog.tell(&format!(
            "for of in /proc/[0-9]*; do grep -qsz '^{STARTED_BY}={own}$' $of/environ && kill -9 ${{of#/proc/}}; done"
        ));
        Some(watchdog)
    });
    command.env(STARTED_BY, own.to_string());
}

/// The watchdog. See the module documentation.
#[derive(Debug)]
pub struct Watchdog {
    shell: Child,
    told: Option<ChildStdin>,
}

impl Watchdog {
    /// Shell script that keeps the last line of its input, and runs it when the input ends.
    pub const SCRIPT: &str = "while IFS= read -r line; do todo=$line; done; eval \"$todo\"";

    /// Starts the shell in its own session, so that signals to the test's processes, like Ctrl-C, do not end it.
    ///
    /// # Errors
    /// If the system has no shell.
    pub fn start() -> std::io::Result<Watchdog> {
        let mut shell = Command::new("setsid")
            .args(["sh", "-c", Watchdog::SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let told = shell.stdin.take();
        Ok(Watchdog { shell, told })
    }

    /// Replaces the shell commands, in one line, that clean up after this process.
    pub fn tell(&mut self, will: &str) {
        if let Some(told) = &mut self.told {
            // Writing fails if the shell was killed.
            let _ = writeln!(told, "{will}");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.tell(":");
        drop(self.told.take());
        let _ = self.shell.wait();
    }
}
