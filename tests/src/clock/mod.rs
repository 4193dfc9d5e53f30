//! Clocks of real processes, which a test sets wrong and makes jump. No root rights are needed.
//!
//! A library between the process and the system (`wrong_clock.c`, compiled by the test) shifts the time of day by an
//! amount that the test can change at any time, as an operator or a time server does. Monotonic time is not changed.

use crate::disk::interposed::compile;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const NANOS: i64 = 1_000_000_000;

/// A clock for processes; see the head of the file.
#[derive(Debug)]
pub struct WrongClock {
    ahead: File,
    path: PathBuf,
    library: PathBuf,
}

impl WrongClock {
    /// Creates a clock that is right at first, with its library in the new folder `state`.
    ///
    /// # Errors
    /// If the folder cannot be created, or the C compiler (`cc`) fails.
    pub fn new(state: &Path) -> io::Result<WrongClock> {
        std::fs::create_dir_all(state)?;
        let library = compile(include_str!("wrong_clock.c"), state, "wrong_clock")?;
        let path = state.join("ahead");
        let clock = WrongClock { ahead: File::create(&path)?, path, library };
        clock.set(0)?;
        Ok(clock)
    }

    /// Makes a process use this clock; to be called before the process is started.
    pub fn give_to(&self, process: &mut Command) {
        process.env("LD_PRELOAD", &self.library).env("OMEGA_WRONG_CLOCK", &self.path);
    }

    /// Sets the clock to this many seconds ahead of the computer's clock, or behind it if the number is negative.
    ///
    /// # Errors
    /// If the clock's state cannot be written.
    pub fn set(&self, ahead_s: i64) -> io::Result<()> {
        self.ahead.write_all_at(&(ahead_s * NANOS).to_ne_bytes(), 0)
    }
}
