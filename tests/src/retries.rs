//! Requests to a replicated cell that are repeated until they are carried out.
//!
//! On a busy computer, a replica's thread may stand still for longer than an election takes. Then another leader is
//! elected, and the outcome of a request is unknown.

use omega_cellstate::Cell;
use omega_core::{Command, Job, JobId, Version};
use omega_store::replica::{ReplicatedCell, RequestError};

/// Waits until the replica of a handle has everything that was acknowledged, and returns its version. An election may
/// take longer than the handle's timeout.
///
/// # Panics
/// If the replica was removed or has stopped.
pub fn catch_up(cell: &ReplicatedCell) -> Version {
    loop {
        match cell.catch_up_with_all() {
            Ok(version) => return version,
            Err(RequestError::Unavailable(again)) => assert!(!again.is_final(), "{again}"),
            Err(_) => {}
        }
    }
}

/// Applies a command that must not be applied twice. `is_done` tells from a state whether it was applied.
///
/// # Panics
/// If the command is rejected.
pub fn apply_until_done(cell: &ReplicatedCell, command: &Command, is_done: impl Fn(&Cell) -> bool) {
    let mut in_doubt = false;
    while let Err(error) = cell.apply(command.clone()) {
        // The first copy of the command may arrive after the second one was sent, which is then rejected.
        assert!(in_doubt || !matches!(error, RequestError::Rejected(_)), "{error}");
        in_doubt |= error == RequestError::Unknown;
        catch_up(cell);
        if cell.read(&is_done) {
            return;
        }
    }
}

/// Submits a job and returns its id.
///
/// # Panics
/// If the job is rejected.
pub fn submit(cell: &ReplicatedCell, job: Job) -> JobId {
    let name = job.name.clone();
    apply_until_done(cell, &Command::SubmitJob(job), |cell| cell.job_by_name(&name).is_some());
    catch_up(cell);
    cell.read(|cell| cell.job_by_name(&name)).expect("the job was acknowledged")
}
