//! Termination signals, for every command that runs until it is stopped.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receiver of SIGTERM and SIGINT. As soon as this value exists, these signals no longer end the process.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens for the signals. Needs a tokio runtime.
    ///
    /// # Errors
    /// If the operating system rejects the signal handlers.
    pub(crate) fn listen() -> io::Result<Signals> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals { terminate, interrupt })
    }

    /// Waits for a signal.
    pub(crate) async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
