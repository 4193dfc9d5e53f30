//! Watchdog for leftovers of a killed test: processes, disks that hang, mounts.
//!
//! A test whose time is up is killed by whoever runs it, and then nothing of it is dropped. So a shell holds
//! the other end of a pipe, and knows at all times what would be left: when the pipe is closed, for whatever
//! reason, it clears that away and ends.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// Environment variable that marks processes started by this one.
const STARTED_BY: &str = "OMEGA_STARTED_BY_TEST";

/// Marks a child process, so that it does not outlive this one.
pub fn mark(command: &mut Command) {
    static OF_THIS_PROCESS: OnceLock<Option<Watchdog>> = OnceLock::new();
    let own = std::process::id();
    OF_THIS_PROCESS.get_or_init(|| {
        // Where there is no shell there is no watchdog, and no test is worse for it.
        let mut watchdog = Watchdog::start().ok()?;
        watchdog.tell(&format!(
            "for of in /proc/[0-9]*; do grep -qsz '^{STARTED_BY}={own}$' $of/environ && kill -9 ${{of#/proc/}}; done"
        ));
        Some(watchdog)
    });
    command.env(STARTED_BY, own.to_string());
}

/// The watchdog; see the head of the file.
#[derive(Debug)]
pub struct Watchdog {
    shell: Child,
    told: Option<ChildStdin>,
}

impl Watchdog {
    /// Script that keeps the last line of its input, and runs it when the input ends.
    pub const SCRIPT: &str = "while IFS= read -r line; do todo=$line; done; eval \"$todo\"";

    /// Begins to watch, in a session of its own: what ends the test's processes, like Ctrl-C, does not end it.
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

    /// Replaces the shell commands, on one line, that clean up after this process.
    pub fn tell(&mut self, will: &str) {
        if let Some(told) = &mut self.told {
            // It fails if somebody has killed the shell.
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
