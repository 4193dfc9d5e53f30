//! Attempts to schedule pods, as kube-scheduler measures them: from the beginning of a decision to the answer to the binding.

use super::metrics::{Metrics, Outcome};
use crate::adapter::scheduler_of;
use omega_workload::kube::api::Pod;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// The pods of our schedulers that are not bound, by uid.
#[derive(Debug, Default)]
pub(super) struct Attempts(HashMap<String, Tried>);

#[derive(Debug)]
pub(super) struct Tried {
    /// The time at which the pod was first seen without gates.
    since: Instant,
    /// Number of attempts that have ended, or whose binding is in flight.
    attempts: u32,
    /// Whether the last attempt found no node.
    failed: bool,
    /// The attempt whose binding is in flight.
    in_flight: Option<InFlight>,
}

/// An attempt whose binding is in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) began: Instant,
    pub(super) node: String,
}

impl Attempts {
    /// Whether the last attempt to place a pod found no node.
    pub(super) fn has_failed(&self, uid: &str) -> bool {
        self.0.get(uid).is_some_and(|tried| tried.failed)
    }

    /// Forgets a pod.
    pub(super) fn forget(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// Forgets all other pods.
    pub(super) fn keep(&mut self, uids: &HashSet<&str>) {
        self.0.retain(|uid, _| uids.contains(uid.as_str()));
    }

    /// Whether a pod has a record.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }

    /// The record of a pod, which begins now if there is none.
    pub(super) fn tried(&mut self, uid: &str) -> &mut Tried {
        let new = || Tried { since: Instant::now(), attempts: 0, failed: false, in_flight: None };
        self.0.entry(uid.to_owned()).or_insert_with(new)
    }

    /// Records that an attempt found no node.
    pub(super) fn unplaced(&mut self, uid: &str) {
        let tried = self.tried(uid);
        (tried.attempts, tried.failed) = (tried.attempts + 1, true);
    }

    /// Records that an attempt found a node.
    pub(super) fn placed(&mut self, uid: &str, in_flight: InFlight) {
        let tried = self.tried(uid);
        (tried.attempts, tried.failed) = (tried.attempts + 1, false);
        tried.in_flight = Some(in_flight);
    }

    /// Whether the binding of a pod is in flight.
    pub(super) fn is_in_flight(&self, uid: &str) -> bool {
        self.0.get(uid).is_some_and(|tried| tried.in_flight.is_some())
    }

    /// Ends the attempt whose binding is in flight. Returns its duration, if there is such an attempt.
    pub(super) fn ended(&mut self, uid: &str) -> Option<Duration> {
        Some(self.0.get_mut(uid)?.in_flight.take()?.began.elapsed())
    }

    /// Records that a pod is bound to a node, and forgets the pod. Another node means that another scheduler bound it.
    pub(super) fn bound(&mut self, pod: &Pod, node: &str, metrics: &Metrics) {
        let tried = self.0.remove(&pod.metadata.uid);
        let Some(Tried { since, attempts, in_flight: Some(in_flight), .. }) = tried else { return };
        let (profile, took) = (scheduler_of(pod), in_flight.began.elapsed());
        if in_flight.node == node {
            metrics.attempted(profile, Outcome::Scheduled, took);
            metrics.bound(attempts, since.elapsed());
        } else {
            metrics.attempted(profile, Outcome::Error, took);
        }
    }
}
