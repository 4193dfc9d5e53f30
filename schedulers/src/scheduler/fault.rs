//! Rejected claims by job, and the events for which their jobs wait.
//!
//! Most claims are rejected because of concurrent commits, and retried after a backoff. A job over its quota waits for
//! an event instead.

use super::Decided;
use crate::framework::events::Events;
use crate::placing::refusals::RejectingPlugins;
use crate::queue::{Basis, Verdict};
use omega_core::{JobId, Reason};
use smallvec::SmallVec;

/// Whether a rejection depends on the machine. If so, the cell might accept the claim on another machine.
pub(super) fn depends_on_machine(reason: Reason) -> bool {
    use Reason::{CellExhausted, GangIncomplete, QuotaExceeded};
    !matches!(reason, QuotaExceeded(_) | CellExhausted(_) | GangIncomplete)
}

/// A job with rejected claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) job: JobId,
    /// Whether the only reasons for rejections were the quota of the job's tenant and the incomplete gang.
    only_quota: bool,
    quota: bool,
}

impl Fault {
    /// Records a rejected claim. Claims of one job must be recorded one after the other.
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

    /// Result of the job's turn. A job over its quota is not retried after a delay, but waits until its tenant uses
    /// less.
    pub(super) fn verdict(self, part: &Decided) -> Verdict {
        if self.quota && self.only_quota {
            let by = part.by.and(RejectingPlugins::waiting_for(Events::QUOTA_CHANGED));
            Verdict::Refused { by, news: part.news, basis: Basis::Job }
        } else {
            Verdict::Conflict
        }
    }
}
