//! A queued job, as an entry of a list that is sorted by an [`Order`] plugin.

use crate::framework::points::{Order, Queued};
use omega_core::{Job, JobId, Text};
use std::cmp::Ordering;
use std::collections::BTreeSet;
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

/// Removes a job from a list, even if the plugin's order of the queued jobs has changed since the job was added. Returns
/// whether the job was there.
pub(crate) fn remove_place(places: &mut BTreeSet<Place>, place: &Place) -> bool {
    // Mostly, the job is removed because it has the next turn.
    if places.first().is_some_and(|first| first.id == place.id) {
        return places.pop_first().is_some();
    }
    if places.remove(place) {
        return true;
    }
    let before = places.len();
    places.retain(|other| other.id != place.id);
    places.len() < before
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
