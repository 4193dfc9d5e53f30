//! A queued job, as an entry of a list that is sorted by an [`Order`] plugin.

use crate::framework::points::{Order, Queued};
use omega_core::{Job, JobId, Text};
use std::cmp::Ordering;
use std::sync::Arc;

/// A job with its position in the order.
#[derive(Debug)]
pub(crate) struct Place {
    order: Arc<dyn Order>,
    pub(crate) id: JobId,
    job: Arc<Job>,
}

impl Place {
    pub(crate) fn new(order: &Arc<dyn Order>, job: &Arc<Job>, id: JobId) -> Place {
        Place { order: order.clone(), id, job: job.clone() }
    }

    pub(crate) fn tenant(&self) -> &Text {
        &self.job.tenant
    }

    fn queued(&self) -> Queued<'_> {
        Queued { id: self.id, job: &self.job }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> Ordering {
        self.order.compare(self.queued(), other.queued()).then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Place {}
