//! Ctrl-C during a run: the first ends the run and keeps its result, the second ends the process.

use crate::output::OutputError;
use omega_run::Stop;
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// The exit code of a process that was interrupted, as shells have it: 128 and the signal's number.
pub(crate) const INTERRUPTED: u8 = 130;

/// Installs the handlers of Ctrl-C. The returned request is set by the first one.
///
/// # Errors
/// If the system allows no handler.
pub(crate) fn listen() -> Result<Stop, OutputError> {
    let stop = Stop::default();
    // In this order: the second handler reads the flag that the first sets.
    let registered =
        flag::register_conditional_shutdown(SIGINT, i32::from(INTERRUPTED), stop.flag());
    registered.and_then(|_| flag::register(SIGINT, stop.flag())).map_err(OutputError::Signal)?;
    Ok(stop)
}
