//! Reasons of the pending jobs on the page. Each explanation reads the whole cell, so explanations are computed one at
//! a time in the background, and cached.

use super::shape::WaitingShape;
use crate::commands::jobs::explain;
use crate::commands::jobs::named_job::by_name;
use crate::commands::{CommandArgs, CommandError};
use crate::explainer::summary;
use omega_client::proto;
use std::collections::BTreeMap;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time after which an explanation is outdated.
const FRESH: Duration = Duration::from_secs(15);

/// Maximum number of cached reasons: far more than fit on a page.
const CACHE_MAX: usize = 256;

type Cache = BTreeMap<String, (Instant, Option<String>)>;

/// The background thread that explains jobs, and the reasons that it found.
#[derive(Debug)]
pub(super) struct Reasons {
    /// Locked to fill in known reasons or to store a reason, but not while a job is explained.
    cache: Arc<Mutex<Cache>>,
    to: SyncSender<String>,
}

impl Reasons {
    /// Starts the thread, which ends with the process.
    pub(super) fn start(common: CommandArgs) -> Reasons {
        let (to, jobs) = mpsc::sync_channel::<String>(1);
        let cache: Arc<Mutex<Cache>> = Arc::default();
        let shared = cache.clone();
        std::thread::spawn(move || {
            for job in jobs {
                let why = why(&common, &job);
                let mut cache = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if cache.len() >= CACHE_MAX {
                    cache.clear();
                }
                cache.insert(job, (Instant::now(), why));
            }
        });
        Reasons { cache, to }
    }

    /// Fills in reasons that are known, and starts the explanation of the first job without a reason.
    pub(super) fn fill(&self, waiting: &mut [WaitingShape]) {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_requested = false;
        for job in waiting {
            let entry = cache.get(&job.job);
            job.why = entry.and_then(|(_, why)| why.clone());
            if !is_requested && entry.is_none_or(|(since, _)| since.elapsed() > FRESH) {
                // If another job is being explained, this fails, and the job is explained later.
                is_requested = self.to.try_send(job.job.clone()).is_ok();
            }
        }
    }
}

/// Reason for which a job is pending, in one line; `None` if unknown.
pub(super) fn why(common: &CommandArgs, job: &str) -> Option<String> {
    let explained = || -> Result<String, CommandError> {
        let request =
            proto::ExplainJobRequest { job: by_name(job), ..proto::ExplainJobRequest::default() };
        Ok(summary(&explain::explained(&common.caller()?, &request)?))
    };
    explained().ok()
}
