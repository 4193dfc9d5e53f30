//! Why the jobs on the page wait. Each explanation reads the whole cell, so they are made beside the page, one
//! after the other, and are good for a while.

use super::super::job::by_name;
use super::super::{AskArgs, AskError, explain};
use super::shape::WaitingShape;
use crate::explainer::summary;
use omega_client::proto;
use std::collections::BTreeMap;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time for which an explanation is good for.
const FRESH: Duration = Duration::from_secs(15);

/// Jobs that are remembered: far more than fit on a page.
const KEPT_MAX: usize = 256;

type Known = BTreeMap<String, (Instant, Option<String>)>;

/// The explainer, and its last output.
#[derive(Debug)]
pub(super) struct Reasons {
    /// Held for a look-up.
    known: Arc<Mutex<Known>>,
    to: SyncSender<String>,
}

impl Reasons {
    /// Begins. It ends with this process.
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

    /// Writes down what is known of these jobs, and has the first one explained of which nothing is.
    pub(super) fn fill(&self, waiting: &mut [WaitingShape]) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_asked = false;
        for job in waiting {
            let told = known.get(&job.job);
            job.why = told.and_then(|(_, why)| why.clone());
            if !is_asked && told.is_none_or(|(since, _)| since.elapsed() > FRESH) {
                // It fails while another one is being explained; then this one's turn comes later.
                is_asked = self.to.try_send(job.job.clone()).is_ok();
            }
        }
    }
}

/// Why a job waits, in a line; nothing if nobody can say.
pub(super) fn why(ask: &AskArgs, job: &str) -> Option<String> {
    let told = || -> Result<String, AskError> {
        let request =
            proto::ExplainJobRequest { job: by_name(job), ..proto::ExplainJobRequest::default() };
        Ok(summary(&explain::explained(&ask.caller()?, &request)?))
    };
    told().ok()
}
