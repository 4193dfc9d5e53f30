//! The engine's records of attempts, made from events of pods, decisions, and answers to bindings.

use super::attempts::InFlight;
use super::engine::{Engine, Mode};
use super::metrics::{Entry, Outcome};
use crate::adapter::{Binding, PodName, State, scheduler_of};
use crate::watch::Event;
use crate::workers::DecisionTime;
use omega_workload::kube::api::Pod;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Engine {
    /// Records an event about pods: when pods of ours were first seen without gates, and whether they are bound.
    pub(super) fn note_pods(&mut self, event: &Event<Arc<Pod>>) {
        match event {
            Event::Changed(pod) => self.note_pod(pod),
            Event::Deleted(pod) => self.attempts.forget(&pod.metadata.uid),
            Event::Listed(pods, _) => {
                let uids: HashSet<&str> =
                    pods.iter().map(|pod| pod.metadata.uid.as_str()).collect();
                self.attempts.keep(&uids);
                pods.iter().for_each(|pod| self.note_pod(pod));
            }
        }
    }

    fn note_pod(&mut self, pod: &Pod) {
        let node = &pod.spec.node_name;
        if !self.parts.settings.scheduler_names.contains(scheduler_of(pod)) {
            return;
        }
        if !node.is_empty() && self.parts.mode == Mode::DryRun {
            self.attempts.forget(&pod.metadata.uid);
        } else if !node.is_empty() {
            self.attempts.bound(pod, node, &self.parts.metrics);
        } else if pod.spec.gates.is_empty() {
            self.note_new(&pod.metadata.uid);
        }
    }

    /// Begins the record of a pod that has none.
    fn note_new(&mut self, uid: &str) {
        if !self.attempts.has(uid) {
            self.attempts.tried(uid);
            self.parts.metrics.entered(Entry::New);
        }
    }

    /// Records the pods of the first list.
    pub(super) fn note_first_pods(&mut self) {
        let Some(adapter) = &self.adapter else { return };
        let uids: Vec<String> = adapter.pending().map(|pod| pod.metadata.uid.clone()).collect();
        uids.iter().for_each(|uid| self.note_new(uid));
    }

    /// Records that an attempt found no node for a pod.
    pub(super) fn note_unplaced(&mut self, name: &PodName, time: Option<DecisionTime>) {
        let Some(pod) = self.adapter.as_ref().and_then(|adapter| adapter.pod(name)) else { return };
        let Some(time) = time else { return };
        self.attempts.unplaced(&pod.metadata.uid);
        self.parts.metrics.entered(Entry::Unschedulable);
        self.parts.metrics.decisions_seconds.observe(time.took.as_secs_f64());
        self.parts.metrics.attempted(scheduler_of(pod), Outcome::Unschedulable, time.took);
    }

    /// Records that a pod was placed by a decision, or in the room that was kept for it. In a dry run, the attempt ends
    /// here. Ignores a pod that is already recorded.
    pub(super) fn note_placed(&mut self, name: &PodName, time: Option<DecisionTime>) {
        let Some(adapter) = &self.adapter else { return };
        let (Some(pod), Some(State::Assumed { node, .. })) =
            (adapter.pod(name), adapter.state(name))
        else {
            return;
        };
        let (uid, node) = (&pod.metadata.uid, node.clone());
        if let Some(time) = time {
            self.parts.metrics.decisions_seconds.observe(time.took.as_secs_f64());
        }
        let time = time.unwrap_or(DecisionTime { began: Instant::now(), took: Duration::ZERO });
        if self.attempts.is_in_flight(uid) {
            return;
        }
        self.attempts.placed(uid, InFlight { began: time.began, node });
        if self.parts.mode == Mode::DryRun {
            self.parts.metrics.attempted(scheduler_of(pod), Outcome::Scheduled, time.took);
        }
    }

    /// Records that the API server acknowledged a binding.
    pub(super) fn note_bound(&mut self, binding: &Binding) {
        let pod = self.adapter.as_ref().and_then(|adapter| adapter.pod(&binding.pod));
        if let Some(pod) = pod.filter(|pod| pod.metadata.uid == binding.uid) {
            self.attempts.bound(pod, &binding.node, &self.parts.metrics);
        }
    }

    /// Records that a decision about a pod was given up.
    pub(super) fn note_given_up(&mut self, name: &PodName) {
        let Some(pod) = self.adapter.as_ref().and_then(|adapter| adapter.pod(name)) else { return };
        self.parts.metrics.entered(Entry::Backoff);
        if let Some(took) = self.attempts.ended(&pod.metadata.uid) {
            self.parts.metrics.attempted(scheduler_of(pod), Outcome::Error, took);
        }
    }
}
