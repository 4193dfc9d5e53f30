//! Errors and values for callers, made from the replies of a replica.

use omega_client::{ApiError, ErrorCode};
use omega_core::{Outcome, Version};
use omega_store::replica::RetryReason;
use std::time::Duration;

/// Pause before a request without a reply is sent again: about a tenth of the time that an election takes.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Error for the caller of a request that was not executed.
#[must_use]
pub(crate) fn unavailable(again: RetryReason) -> ApiError {
    let code = match again {
        RetryReason::Leaderless | RetryReason::LeaderlessAndFull | RetryReason::Overwritten => {
            ErrorCode::NoLeader
        }
        RetryReason::Busy => ErrorCode::Busy,
        RetryReason::Full => ErrorCode::DiskFull,
        RetryReason::Stopped | RetryReason::Removed => ErrorCode::Stopped,
        _ => ErrorCode::Busy,
    };
    let error = ApiError::new(code, format!("nothing was done: {again}"));
    match code {
        ErrorCode::Stopped => error,
        ErrorCode::DiskFull => error.retry_after(Duration::from_secs(1)),
        _ => error.retry_after(PAUSE),
    }
}

/// Error for the caller of a read that waits for room on the disk of the replica that was asked. Another replica may
/// serve the call.
pub(crate) fn disk_full() -> ApiError {
    let message = "nothing was done: the disk of this replica is full, and the replica is behind: call another \
         replica, and make room on the disk";
    ApiError::new(ErrorCode::DiskFull, message).retry_after(PAUSE)
}

/// Error for the caller of a request whose outcome is unknown.
#[must_use]
pub(crate) fn unknown() -> ApiError {
    let message = "it is unknown whether the request was carried out: send it again, which does not \
         carry it out twice";
    ApiError::new(ErrorCode::OutcomeUnknown, message)
}

/// The version in a result.
pub(crate) fn done(outcome: Outcome) -> Result<Version, ApiError> {
    match outcome {
        Outcome::Done(version) => Ok(version),
        _ => Err(unknown()),
    }
}
