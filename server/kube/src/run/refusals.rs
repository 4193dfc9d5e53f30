//! Warnings about requests that the API server refuses, with the server's message, which names the missing right or
//! another reason.
//!
//! A missing right affects many requests, so the same message about a kind of request is written at most once a minute.
//! The number of different messages is limited, too, because a message can name its object.

use crate::client::{CallError, Response};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time after a warning in which the same warning is not written again.
const REPEAT: Duration = Duration::from_secs(60);

/// Maximum number of warnings about one kind of request within that time: enough for several reasons, and few enough to
/// be read.
const MESSAGES_MAX: usize = 10;

/// Maximum number of characters of a message. Messages of the API server are shorter than 500.
const MESSAGE_CHARS_MAX: usize = 1000;

/// The recent warnings, by kind of request. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals(Arc<Mutex<BTreeMap<&'static str, Recent>>>);

/// The recent warnings about one kind of request.
#[derive(Debug, Default)]
struct Recent {
    /// The time of each message.
    messages: BTreeMap<String, Instant>,
    /// Number of warnings that were not written since the last one that was.
    hidden: u64,
}

impl Refusals {
    /// Writes a warning that a request about an object was refused, unless it was written recently.
    pub(super) fn warn(&self, request: &'static str, object: &str, response: &Response) {
        let (status, why) = (response.status, cut(&response.message()));
        if let Some(hidden) = self.due(request, &why, Instant::now()) {
            tracing::warn!(status, object, %why, hidden, "the API server refuses {request}");
        }
    }

    /// Writes a warning that a request about an object got no answer, unless it was written recently.
    pub(super) fn warn_lost(&self, request: &'static str, object: &str, error: &CallError) {
        let why = cut(&error.to_string());
        if let Some(hidden) = self.due(request, &why, Instant::now()) {
            tracing::warn!(object, %why, hidden, "the API server did not answer {request}");
        }
    }

    /// Records a warning. Returns the number of hidden warnings before it; `None` if this one is to be hidden, too.
    fn due(&self, request: &'static str, message: &str, now: Instant) -> Option<u64> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Recent { messages, hidden } = kinds.entry(request).or_default();
        messages.retain(|_, at| now.saturating_duration_since(*at) < REPEAT);
        if messages.contains_key(message) || messages.len() >= MESSAGES_MAX {
            *hidden += 1;
            return None;
        }
        messages.insert(message.to_owned(), now);
        Some(std::mem::take(hidden))
    }
}

fn cut(message: &str) -> String {
    message.chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_about_a_kind_of_request_is_written_once_a_minute() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        assert_eq!(refusals.due("a nomination", "no right", now), Some(0));
        assert_eq!(refusals.due("a claim", "no right", now), Some(0));
        assert_eq!(refusals.due("a nomination", "a webhook denies it", now), Some(0));
        assert_eq!(refusals.clone().due("a nomination", "no right", now + REPEAT / 2), None);
        assert_eq!(refusals.due("a nomination", "no right", now + REPEAT), Some(1));
        assert_eq!(refusals.due("a nomination", "no right", now + REPEAT), None);
    }

    #[test]
    fn the_number_of_different_messages_is_limited() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let due = |count: usize, now: Instant| {
            let messages = (0..count).map(|pod| format!("pod {pod} is forbidden"));
            messages.filter_map(|why| refusals.due("a binding", &why, now)).collect::<Vec<_>>()
        };
        assert_eq!(due(1000, now).len(), MESSAGES_MAX);
        assert_eq!(due(1000, now + REPEAT / 2).len(), 0);
        let later = due(1000, now + REPEAT);
        assert_eq!((later.len(), later[0]), (MESSAGES_MAX, 1990), "the hidden ones are counted");
        assert_eq!(cut(&"x".repeat(1 << 20)).len(), MESSAGE_CHARS_MAX);
    }
}
