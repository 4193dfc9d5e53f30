//! Ctrl-C during a run: the first ends the run and keeps its result, and the second ends the process.

use crate::output::OutputError;
use omega_run::Stop;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// The exit code of an interrupted process: 128 plus the number of the signal, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;

/// Installs the handlers of Ctrl-C. The first Ctrl-C sets the returned request.
///
/// # Errors
/// If the operating system allows no handler.
pub(crate) fn listen() -> Result<Stop, OutputError> {
    let stop = Stop::default();
    // The order matters: at the first Ctrl-C, the handler that ends the process must read the flag before the other
    // handler sets it.
    let registered =
        flag::register_conditional_shutdown(SIGINT, i32::from(INTERRUPTED), stop.flag());
    registered.and_then(|_| flag::register(SIGINT, stop.flag())).map_err(OutputError::Signal)?;
    Ok(stop)
}
