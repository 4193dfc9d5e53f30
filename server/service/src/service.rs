//! Common parts of all services.

use crate::overload::limits::Deadlines;
use omega_client::{ApiError, ErrorCode};
use prost::Message;
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

/// Reply to a call.
pub(crate) type RpcResult<T> = Result<Response<T>, Status>;

/// Maximum and default number of items of a page.
pub(crate) const PAGE_MAX: usize = 1000;

/// Size at which a page is full: a quarter of the largest message. The last item may exceed this size by less than
/// another quarter, because the sizes of jobs and machines are bounded.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// Bytes and items that are left in a page. At least one item always fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    items: usize,
    bytes: usize,
}

impl Room {
    /// The space of an empty page for this many items; 0 means the maximum.
    pub(crate) fn of_page(requested: u32) -> Room {
        Room { items: page_size(requested), bytes: PAGE_BYTES }
    }

    /// The space of a reply that has no further pages, for any number of items.
    pub(crate) fn of_bytes() -> Room {
        Room { items: usize::MAX, bytes: PAGE_BYTES }
    }

    pub(crate) fn is_full(self) -> bool {
        self.items == 0 || self.bytes == 0
    }

    /// Subtracts the size of an item, and returns the item.
    pub(crate) fn take<M: Message>(&mut self, item: M) -> M {
        self.count(&item);
        item
    }

    pub(crate) fn count<M: Message>(&mut self, item: &M) {
        self.items = self.items.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(item.encoded_len());
    }
}

/// Arrival time of a call's first frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived(pub(crate) Instant);

/// Deadline of a call, counted from its first frame.
pub(crate) fn deadline<T>(request: &Request<T>) -> Instant {
    let requested = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
    let Deadlines { usual, max } = deadlines(request);
    let timeout = requested.and_then(timeout).unwrap_or(usual);
    let arrived = request.extensions().get().copied().unwrap_or(Arrived(Instant::now()));
    arrived.0 + timeout.min(max)
}

/// Time limits of calls, as set by the gate for this request.
pub(crate) fn deadlines<T>(request: &Request<T>) -> Deadlines {
    request.extensions().get().copied().unwrap_or_default()
}

/// Deadline of a stream, if the caller has set one.
pub(crate) fn stream_end<T>(request: &Request<T>) -> Option<Instant> {
    let requested = request.metadata().get("grpc-timeout").and_then(|value| value.to_str().ok());
    requested.and_then(timeout).and_then(|timeout| Instant::now().checked_add(timeout))
}

/// Whether a call's deadline had passed when it arrived.
pub(crate) fn is_late(headers: &http::HeaderMap) -> bool {
    let requested = headers.get("grpc-timeout").and_then(|value| value.to_str().ok());
    requested.and_then(timeout).is_some_and(|left| left.is_zero())
}

/// The timeout in a header, which has at most eight digits and a unit.
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

/// Number of items of a page, for the number that the caller asked for.
pub(crate) fn page_size(requested: u32) -> usize {
    match requested as usize {
        0 => PAGE_MAX,
        requested => requested.min(PAGE_MAX),
    }
}

/// Start of a page, as the number of items before it. The token of the first page is empty.
///
/// # Errors
/// If the token is not a page token.
pub(crate) fn page_start(token: &str) -> Result<u64, ApiError> {
    match token {
        "" => Ok(0),
        token => u64::from_str_radix(token, 16).map_err(|_| {
            let message = format!(
                "{token:?} is not a page token: give the one of the previous page, or \
                     none"
            );
            ApiError::new(ErrorCode::BadPageToken, message)
        }),
    }
}

/// The token of the page that begins at `start`.
pub(crate) fn page_token(start: u64) -> String {
    format!("{start:x}")
}
