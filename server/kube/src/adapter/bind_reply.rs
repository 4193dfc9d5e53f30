//! Answers of the API server to bindings, and the step that follows each answer.
//!
//! | answer | step |
//! |---|---|
//! | 201 | none: the pod stays assumed until the watch shows it. After a minute, get the pod |
//! | 4xx, timeout, reset, 5xx | get the pod: it may be bound by this program or by another, gated, or gone |
//! | 429 | send again after `Retry-After` |
//!
//! If the pod is still unbound, its binding is sent again with the same node, because the first request may still
//! arrive. After [`FAILURES_MAX`] failures the pod is parked for at least a request's timeout. It keeps its room,
//! unless the API server refused each request. Then it is decided anew.

use super::effects::Action;
use super::{Adapter, Binding, Effect, PodName, State};
use omega_workload::kube::api::Pod;

/// Number of times that a binding fails before its decision is given up.
pub const FAILURES_MAX: u32 = 5;

/// The longest backoff of a pod that cannot be bound, in milliseconds.
const BACKOFF_MAX_MS: u64 = 300_000;

/// The answer to a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindReply {
    /// Status 201, with a `Status` that says so.
    Bound,
    /// Status 404 or 409.
    Conflict,
    /// Status 429. The request may be sent again after this many milliseconds.
    Throttled(u64),
    /// Another status from 400 to 499, with a `Status`. The request had no effect, and will have none.
    Refused,
    /// Another status. The binding may or may not exist.
    Failed,
    /// No answer of an API server, because of a timeout, a broken connection, or a proxy.
    Unknown,
}

/// The outcome of the GET of a pod.
#[derive(Debug)]
pub enum PodRead {
    /// Status 200, with the pod.
    Pod(Box<Pod>),
    /// Status 404.
    Gone,
    /// Another status, or no answer.
    Unknown,
}

impl Adapter {
    /// Handles the answer to a binding.
    pub fn handle_bind_reply(
        &mut self,
        binding: Binding,
        reply: BindReply,
        now_ms: u64,
    ) -> Option<Action> {
        let counter = match reply {
            BindReply::Bound => &mut self.counters.bound,
            BindReply::Conflict => &mut self.counters.conflicts,
            BindReply::Throttled(_) => &mut self.counters.throttled,
            BindReply::Refused | BindReply::Failed | BindReply::Unknown => {
                &mut self.counters.unknown
            }
        };
        *counter += 1;
        let is_present = self.is_present(&binding);
        let entry = self.pods.get_mut(&binding.pod).filter(|_| is_present)?;
        entry.unsettled |=
            matches!(reply, BindReply::Conflict | BindReply::Failed | BindReply::Unknown);
        match reply {
            BindReply::Bound => {
                entry.acknowledged_ms = Some(now_ms);
                None
            }
            BindReply::Throttled(ms) => Some(Action::Bind(binding, now_ms + ms)),
            BindReply::Conflict | BindReply::Refused | BindReply::Failed | BindReply::Unknown => {
                Some(Action::Get(binding, now_ms))
            }
        }
    }

    /// Records the message with which the API server refused a binding.
    pub fn binding_refused(&mut self, binding: &Binding, why: String) {
        if self.is_present(binding)
            && let Some(entry) = self.pods.get_mut(&binding.pod)
        {
            entry.refusal = Some(why);
        }
    }

    /// Handles the pod that was read because the outcome of its binding is unknown.
    pub fn handle_pod_read(
        &mut self,
        binding: Binding,
        read: PodRead,
        now_ms: u64,
    ) -> Option<Action> {
        match read {
            PodRead::Unknown => {
                self.is_present(&binding).then_some(Action::Get(binding, now_ms + 1000))
            }
            PodRead::Gone => {
                if self.is_present(&binding) {
                    self.forget(&binding.pod);
                }
                None
            }
            PodRead::Pod(pod) => self.handle_read_pod(binding, *pod, now_ms),
        }
    }

    fn handle_read_pod(&mut self, binding: Binding, pod: Pod, now_ms: u64) -> Option<Action> {
        let unbound = pod.spec.node_name.is_empty();
        let open = pod.spec.gates.is_empty() && pod.metadata.deleted.is_none();
        let known = self.pods.get(&binding.pod);
        if known.is_none_or(|entry| entry.pod.metadata.uid != binding.uid) {
            // The watch has already reported the end of this pod, so what was read is older.
            return None;
        }
        self.pod_changed(pod);
        if !unbound || !self.is_present(&binding) {
            return None;
        }
        let entry = self.pods.get_mut(&binding.pod)?;
        entry.failures += 1;
        let failures = entry.failures;
        if open && failures < FAILURES_MAX && self.nodes.contains_key(&binding.node) {
            return Some(Action::Bind(binding, now_ms + (50 << failures)));
        }
        self.give_up(&binding.pod, now_ms);
        None
    }

    /// Gives up a decision. The pod is parked. It keeps its room in the cell, unless the API server refused each
    /// request. The backoff grows each time.
    pub(super) fn give_up(&mut self, name: &PodName, now_ms: u64) {
        self.counters.given_up += 1;
        self.effects.push(Effect::GiveUp(name.clone()));
        let is_sent = self.stop_waiting(name).is_none();
        self.leave_node(name);
        let timeout_ms = self.settings.request_timeout_ms;
        let Some(entry) = self.pods.get_mut(name) else { return };
        let (is_settled, may_arrive) = (is_sent && !entry.unsettled, is_sent && entry.unsettled);
        entry.late_until_ms = if may_arrive { now_ms + timeout_ms } else { 0 };
        let backoff = (1000 << entry.parked.min(16)).min(BACKOFF_MAX_MS);
        entry.parked += 1;
        // Without the message, the pod's owner would not learn why the pod waits.
        if let Some(why) = entry.refusal.take().filter(|_| self.reports_reasons) {
            let why = format!("the API server refuses the binding: {why}");
            self.effects.push(Effect::Refuse(name.clone(), why));
        }
        let until_ms = now_ms + timeout_ms.max(backoff);
        entry.state = State::Parked { until_ms };
        if is_settled {
            self.replace(name, None);
        }
        self.settle(name);
    }

    /// Whether a binding belongs to the pod's current decision.
    fn is_present(&self, binding: &Binding) -> bool {
        let entry = self.pods.get(&binding.pod);
        entry.is_some_and(|entry| match &entry.state {
            State::Assumed { decision, .. } => *decision == binding.decision,
            State::Held(_) | State::Pending | State::Bound(_) | State::Parked { .. } => false,
        })
    }
}
