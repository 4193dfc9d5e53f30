//! Reasons of the pending jobs on the page. Each explanation reads the whole cell, so explanations are computed one at
//! a time in the background, and cached.

use super::shape::WaitingShape;
use crate::ask::jobs::explain;
use crate::ask::jobs::named_job::by_name;
use crate::ask::{AskArgs, AskError};
use crate::explainer::summary;
use omega_client::proto;
use std::collections::BTreeMap;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time after which an explanation is outdated.
const FRESH: Duration = Duration::from_secs(15);

/// Maximum number of cached reasons: far more than fit on a page.
const KEPT_MAX: usize = 256;

type Known = BTreeMap<String, (Instant, Option<String>)>;

/// The background thread that explains jobs, and the reasons that it found.
#[derive(Debug)]
pub(super) struct Reasons {
    /// Locked to fill in known reasons or to store a reason, but not while a job is explained.
    known: Arc<Mutex<Known>>,
    to: SyncSender<String>,
}

impl Reasons {
    /// Starts the thread, which ends with the process.
    pub(super) fn start(ask: AskArgs) -> Reasons {
        let (to, jobs) = mpsc::sync_channel::<String>(1);
        let known: Arc<Mutex<Known>> = Arc::default();
        let told = known.clone();
        std::thread::spawn(move || {
            for job in jobs {
                let why = why(&ask, &job);
                let mut known = told.lock().unwrap_or_else(PoisonError::into_inner);
                if known.len() >= KEPT_MAX {
                    known.clear();
                }
                known.insert(job, (Instant::now(), why));
            }
        });
        Reasons { known, to }
    }

    /// Fills in reasons that are known, and starts the explanation of the first job without a reason.
    pub(super) fn fill(&self, waiting: &mut [WaitingShape]) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_asked = false;
        for job in waiting {
            let told = known.get(&job.job);
            job.why = told.and_then(|(_, why)| why.clone());
            if !is_asked && told.is_none_or(|(since, _)| since.elapsed() > FRESH) {
                // If another job is being explained, this fails, and the job is explained later.
                is_asked = self.to.try_send(job.job.clone()).is_ok();
            }
        }
    }
}

/// Reason for which a job is pending, in one line; `None` if unknown.
pub(super) fn why(ask: &AskArgs, job: &str) -> Option<String> {
    let told = || -> Result<String, AskError> {
        let request =
            proto::ExplainJobRequest { job: by_name(job), ..proto::ExplainJobRequest::default() };
        Ok(summary(&explain::explained(&ask.caller()?, &request)?))
    };
    told().ok()
}
