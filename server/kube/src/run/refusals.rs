//! Warnings about writes that the API server refuses, with the server's message, which names a missing right.
//!
//! A missing right affects every request of a kind, so at most one warning a minute is written for each kind of request.

use crate::client::Response;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time after a warning in which no other warning about the kind of request is written.
const REPEAT: Duration = Duration::from_secs(60);

/// The times of the last warnings, by kind of request. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals(Arc<Mutex<BTreeMap<&'static str, Instant>>>);

impl Refusals {
    /// Writes a warning that a request about an object was refused, unless one about such a request was written
    /// recently.
    pub(super) fn note(&self, request: &'static str, object: &str, response: &Response) {
        let now = Instant::now();
        if !self.is_due(request, now) {
            return;
        }
        let (status, why) = (response.status, response.message());
        tracing::warn!(status, object, %why, "the API server refuses {request}");
    }

    fn is_due(&self, request: &'static str, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: &Instant| now.saturating_duration_since(*at) < REPEAT;
        if last.get(request).is_some_and(is_recent) {
            return false;
        }
        last.insert(request, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_request_is_warned_of_once_a_minute() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        assert!(refusals.is_due("a nomination", now));
        assert!(refusals.is_due("a claim", now));
        assert!(!refusals.clone().is_due("a nomination", now + REPEAT / 2));
        assert!(refusals.is_due("a nomination", now + REPEAT));
        assert!(!refusals.is_due("a nomination", now + REPEAT));
    }
}
