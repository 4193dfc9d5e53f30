//! Times at which each watched list was last known to be up to date.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time without progress after which a mirror may be out of date. The API server sends a bookmark about once a minute,
/// even if nothing changes.
pub const STALE: Duration = Duration::from_secs(150);

/// The last progress of each list, by its path. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Lists>>);

#[derive(Debug, Default)]
struct Lists {
    times: BTreeMap<&'static str, Instant>,
    /// Failures of lists that had no progress since.
    failures: BTreeMap<&'static str, String>,
}

impl Progress {
    /// Records that a list is up to date at this time.
    pub fn note(&self, path: &'static str, now: Instant) {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.times.insert(path, now);
        lists.failures.remove(path);
    }

    /// Records the failure of a list or watch.
    pub fn fail(&self, path: &'static str, why: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failures.insert(path, why);
    }

    /// Returns a list that had no progress since its last failure, and the failure.
    #[must_use]
    pub fn failure(&self) -> Option<(&'static str, String)> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.failures.first_key_value().map(|(path, why)| (*path, why.clone()))
    }

    /// Returns the paths of the lists that had no progress for longer than [`STALE`]. A list that was never read is
    /// not among them.
    #[must_use]
    pub fn stale(&self, now: Instant) -> Vec<&'static str> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let old = lists.times.iter().filter(|(_, at)| now.saturating_duration_since(**at) > STALE);
        old.map(|(path, _)| *path).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_progress_is_stale_until_it_has_progress_again() {
        let (progress, now) = (Progress::default(), Instant::now());
        progress.note("/pods", now);
        progress.note("/nodes", now + STALE);
        assert!(progress.stale(now + STALE).is_empty());
        let later = now + STALE + Duration::from_secs(1);
        assert_eq!(progress.clone().stale(later), ["/pods"]);
        progress.fail("/pods", "500".into());
        assert_eq!(progress.failure(), Some(("/pods", "500".into())));
        progress.note("/pods", later);
        assert_eq!(progress.failure(), None);
        assert!(progress.stale(later).is_empty());
    }
}
