//! The start of bound pods, by which preemption compares pods of equal priority: as in kube-scheduler, the pod that
//! started earlier is more important. A pod that has not started keeps its place.
//!
//! On a machine, the cell orders tasks of equal precedence by job number. A pod whose labels or requests change gets a
//! new job, and so does a pod whose node is created again. Then the pods of its node that started later get new jobs,
//! too, so that the order of the numbers stays the order of the starts.

use super::{Adapter, PodName, State};
use omega_core::JobId;
use omega_workload::kube::api::Pod;

/// Returns the digits of a pod's start as a number, which is larger for a later start: Kubernetes writes all times in
/// one format. `None` if the pod has not started.
pub(super) fn started(pod: &Pod) -> Option<u64> {
    let digits: String = pod.status.started.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

impl Adapter {
    /// Records the start of a bound pod, if it is new. Makes the order of the job numbers on the pod's node the order
    /// of the starts.
    pub(super) fn order_by_start(&mut self, name: &PodName) {
        let Some(entry) = self.pods.get_mut(name) else { return };
        let (State::Bound(node), Some(job)) = (&entry.state, entry.job) else { return };
        // A pod that is being deleted often gets a new job, and its importance no longer matters.
        let is_leaving = entry.pod.metadata.deleted.is_some();
        let Some(start) = started(&entry.pod).filter(|_| entry.ordered != Some(job)) else {
            return;
        };
        entry.ordered = Some(job);
        self.starts.set(job, start);
        let Some(machine) = self.nodes.get(node).copied().filter(|_| !is_leaving) else { return };
        let priority = entry.pod.spec.priority();
        let on_node = self.on_node.get(node).into_iter().flatten();
        let peers = on_node.filter_map(|name| {
            let peer = self.pods.get(name)?;
            let counts =
                peer.pod.spec.priority() == priority && peer.pod.metadata.deleted.is_none();
            Some((started(&peer.pod).filter(|_| counts)?, peer.job?, name.clone()))
        });
        let mut peers: Vec<(u64, JobId, PodName)> = peers.collect();
        peers.sort_unstable();
        let mut last = None;
        for (start, job, name) in peers {
            if last.is_none_or(|last| last < job) {
                last = Some(job);
                continue;
            }
            let Some(spec) = self.placed_job(&name) else { continue };
            let (spec, _) = self.within_limits(spec);
            self.replace(&name, Some((spec, Some(machine))));
            let Some(entry) = self.pods.get_mut(&name) else { continue };
            entry.ordered = entry.job;
            if let Some(job) = entry.job {
                self.starts.set(job, start);
                last = Some(job);
            }
        }
    }
}
