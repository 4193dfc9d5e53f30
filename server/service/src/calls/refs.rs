//! Jobs and machines that requests refer to.

use crate::access::identity::Caller;
use omega_cellstate::Cell;
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::{JobId, MachineId, Rejection};

/// The job that a request names, if the caller may see it.
pub(crate) fn job(
    cell: &Cell,
    job: Option<proto::JobRef>,
    caller: &Caller,
) -> Result<JobId, ApiError> {
    let output = job.clone();
    let id = any_job(cell, job)?;
    if caller.may_see_job(cell, id) { Ok(id) } else { Err(unknown_job(output.as_ref())) }
}

/// The job that a request names, whether or not the caller may see it.
pub(crate) fn any_job(cell: &Cell, job: Option<proto::JobRef>) -> Result<JobId, ApiError> {
    use proto::job_ref::Job as Given;
    let missing = || {
        ApiError::new(
            ErrorCode::Malformed,
            "no job is given: give its name or its \
         id",
        )
    };
    let found = match job.as_ref().and_then(|job| job.job.as_ref()).ok_or_else(missing)? {
        Given::Id(id) => cell.job(JobId(*id)).map(|_| JobId(*id)),
        Given::Name(name) => cell.job_by_name(name),
    };
    found.ok_or_else(|| unknown_job(job.as_ref()))
}

fn unknown_job(job: Option<&proto::JobRef>) -> ApiError {
    use proto::job_ref::Job as Given;
    let what = match job.and_then(|job| job.job.as_ref()) {
        Some(Given::Name(name)) => format!("{name:?}"),
        _ => shown(job),
    };
    ApiError::new(
        ErrorCode::UnknownJob,
        format!(
            "there is no job {what}, or the job ended so long ago that the cell has forgotten \
             it"
        ),
    )
}

/// Name of a job in the audit log.
pub(crate) fn shown(job: Option<&proto::JobRef>) -> String {
    use proto::job_ref::Job as Given;
    match job.and_then(|job| job.job.as_ref()) {
        Some(Given::Id(id)) => JobId(*id).to_string(),
        Some(Given::Name(name)) => name.clone(),
        None => String::new(),
    }
}

/// The referenced machine.
pub(crate) fn machine(
    cell: &Cell,
    machine: Option<proto::MachineRef>,
) -> Result<MachineId, ApiError> {
    use proto::machine_ref::Machine as Given;
    let missing = || {
        ApiError::new(
            ErrorCode::Malformed,
            "no machine is given: give its name or \
         its id",
        )
    };
    match machine.and_then(|machine| machine.machine).ok_or_else(missing)? {
        Given::Id(id) => {
            let id = MachineId::from(id);
            let known = cell.machine(id).map(|_| id);
            known.ok_or_else(|| (&Rejection::UnknownMachine(id)).into())
        }
        Given::Name(name) => cell.machine_by_name(&name).ok_or_else(|| {
            ApiError::new(ErrorCode::UnknownMachine, format!("there is no machine {name:?}"))
        }),
    }
}
