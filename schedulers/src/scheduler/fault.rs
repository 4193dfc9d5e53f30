//! Rejected claims by job, and the events that their jobs wait for.
//!
//! Most were rejected because of concurrent commits, and are retried after a backoff. A job over
//! its quota waits for an event.

use super::Decided;
use crate::events::Events;
use crate::queue::Verdict;
use crate::refusals::Refusers;
use omega_core::{JobId, Reason};
use smallvec::SmallVec;

/// A job with rejected claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) job: JobId,
    /// Whether all rejections were for its tenant's quota, and the effect on its gang.
    only_quota: bool,
    quota: bool,
}

impl Fault {
    /// Records a rejected claim; claims of one job are adjacent.
    pub(super) fn note(faults: &mut SmallVec<[Fault; 8]>, job: JobId, reason: Reason) {
        let quota = matches!(reason, Reason::QuotaExceeded(_));
        let only_quota = quota || reason == Reason::GangIncomplete;
        match faults.last_mut().filter(|fault| fault.job == job) {
            Some(fault) => {
                fault.only_quota &= only_quota;
                fault.quota |= quota;
            }
            None => faults.push(Fault { job, only_quota, quota }),
        }
    }

    /// A job over its quota is not retried after a delay: it waits until its tenant uses less.
    pub(super) fn verdict(self, part: &Decided) -> Verdict {
        match self.quota && self.only_quota {
            true => {
                let by = part.by.and(Refusers::waiting_for(Events::QUOTA_CHANGED));
                Verdict::Refused { by, news: part.news }
            }
            false => Verdict::Conflict,
        }
    }
}
