//! Cluster resources in a view.

use super::ClusterResources;
use crate::view::{GroupRef, View};

impl View {
    /// The cluster resources and their claims, including this view's own.
    #[must_use]
    pub fn resources(&self) -> &ClusterResources {
        &self.mirrors().cluster_resources
    }

    /// The number of tasks of a group for which enough cluster resources are left.
    #[must_use]
    pub fn cell_room(&self, group: GroupRef) -> usize {
        let request = self.need(group).cluster_request.as_deref();
        let count = request.map_or(u64::MAX, |request| self.resources().room_for(request));
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}
