//! What all services have in common.

use crate::limits::Deadlines;
use omega_client::{ApiError, ErrorCode};
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

/// What a call is answered with.
pub(crate) type Answered<T> = Result<Response<T>, Status>;

/// The most items of a page, and how many there are if the caller does not say.
pub(crate) const PAGE_MAX: usize = 1000;

/// When a call must have been answered.
pub(crate) fn deadline<T>(request: &Request<T>) -> Instant {
    let asked = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
    let Deadlines { usual, max } = deadlines(request);
    let timeout = asked.and_then(timeout).unwrap_or(usual);
    Instant::now() + timeout.min(max)
}

/// How long calls may take, as the gate has it.
pub(crate) fn deadlines<T>(request: &Request<T>) -> Deadlines {
    request.extensions().get().copied().unwrap_or_default()
}

/// When a stream must have ended, if the caller said so.
pub(crate) fn stream_end<T>(request: &Request<T>) -> Option<Instant> {
    let asked = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
    asked.and_then(timeout).and_then(|timeout| Instant::now().checked_add(timeout))
}

/// Whether a call had no time left when it came.
pub(crate) fn is_late(headers: &http::HeaderMap) -> bool {
    let asked = headers.get("grpc-timeout").and_then(|value| value.to_str().ok());
    asked.and_then(timeout).is_some_and(|left| left.is_zero())
}

/// The timeout of a header: at most eight digits and a unit.
fn timeout(header: &str) -> Option<Duration> {
    let unit = header.chars().last()?;
    let digits = header.strip_suffix(unit)?;
    if digits.len() > 8 {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(count * 3600),
        'M' => Duration::from_secs(count * 60),
        'S' => Duration::from_secs(count),
        'm' => Duration::from_millis(count),
        'u' => Duration::from_micros(count),
        'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

/// How many items a page has.
pub(crate) fn page_size(asked: u32) -> usize {
    match asked as usize {
        0 => PAGE_MAX,
        asked => asked.min(PAGE_MAX),
    }
}

/// Where a page begins: after so much of what is listed. The token of the first page is empty.
///
/// # Errors
/// If no page has ended with such a token.
pub(crate) fn page_start(token: &str) -> Result<u64, ApiError> {
    match token {
        "" => Ok(0),
        token => u64::from_str_radix(token, 16).map_err(|_| {
            let say =
                format!("{token:?} is no page token: take the one of the page before, or none");
            ApiError::new(ErrorCode::BadPageToken, say)
        }),
    }
}

/// The token of the page that begins there.
pub(crate) fn page_token(start: u64) -> String {
    format!("{start:x}")
}
