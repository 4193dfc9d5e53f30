//! Events and conditions: text for users about pods. A binding never waits for these notices.
//!
//! The rate of notices is limited, because a status PATCH is the most expensive call of the API server. A pod's
//! condition is written again only if its message has changed. At most a few conditions are written per second. Events
//! that do not fit into the queue are dropped and counted.

use super::fence::Fence;
use super::input::Input;
use super::metrics::Metrics;
use super::reasons::Explainer;
use super::refusals::Refusals;
use crate::adapter::{PodName, Remark, Shared, scheduler_of};
use crate::client::{Call, Client, time};
use crate::profiles::KubeProfile;
use http::Method;
use omega_core::JobId;
use omega_workload::kube::api::Pod;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Maximum number of queued notices.
const QUEUE_MAX: usize = 20_000;

/// Maximum number of notices in flight.
const IN_FLIGHT: usize = 8;

/// Time for which an Event with an unchanged message is not repeated.
const REPEAT: Duration = Duration::from_secs(300);

/// Maximum length in bytes of the note of an Event. The API server rejects longer notes.
const NOTE_MAX: usize = 1024;

/// The kinds of notices that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Whether Events are written.
    pub events: Choice,
    /// Maximum number of conditions written per second.
    pub conditions_per_second: u32,
}

/// Whether a function is switched on. YAML 1.1 reads `on` and `off` as booleans, so charts may write `true` or `false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// The function is switched on.
    #[value(alias = "true")]
    On,
    /// The function is switched off.
    #[value(alias = "false")]
    Off,
}

/// A notice about a pod.
#[derive(Clone, Debug)]
pub struct Notice {
    name: PodName,
    uid: String,
    version: String,
    scheduler: String,
    /// Time since which the pod's condition says that it is not scheduled; empty if it does not say so.
    since: Box<str>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Scheduled(String),
    Unschedulable(String),
    Remark(Remark),
}

impl Notice {
    fn of(pod: &Pod, kind: Kind) -> Notice {
        Notice {
            name: PodName::of(pod),
            uid: pod.metadata.uid.clone(),
            version: pod.metadata.version.clone(),
            scheduler: scheduler_of(pod).to_owned(),
            since: pod.status.conditions.unscheduled_since.clone(),
            kind,
        }
    }

    /// Returns the notice of a pod that was bound to a node.
    #[must_use]
    pub fn scheduled(pod: &Pod, node: &str) -> Notice {
        Notice::of(pod, Kind::Scheduled(node.to_owned()))
    }

    /// Returns the notice of a pod that fits on no node.
    #[must_use]
    pub fn unschedulable(pod: &Pod, message: String) -> Notice {
        Notice::of(pod, Kind::Unschedulable(message))
    }

    /// Returns the notice with a remark about a pod.
    #[must_use]
    pub fn remark(pod: &Pod, remark: Remark) -> Notice {
        Notice::of(pod, Kind::Remark(remark))
    }

    /// Returns the Event of this notice, in kube-scheduler's form.
    fn event(&self, instance: &str, number: u64) -> Value {
        let Notice { name, uid, version, scheduler, kind, .. } = self;
        let [action, reason, severity] = kind.words();
        let note = match kind {
            Kind::Scheduled(node) => format!("Successfully assigned {name} to {node}"),
            Kind::Unschedulable(message) => message.clone(),
            Kind::Remark(remark) => words(remark),
        };
        let note = cut(note);
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // Because of the number, the names of two Events differ even if their times are equal.
        let unique = format!("{}.{:x}", name.name, nanos.as_nanos() + u128::from(number));
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": unique, "namespace": name.namespace},
            "eventTime": time::micros(SystemTime::now()), "reportingController": scheduler,
            "reportingInstance": instance, "action": action, "reason": reason, "type": severity,
            "note": note, "regarding": {"apiVersion": "v1", "kind": "Pod", "name": name.name,
                "namespace": name.namespace, "uid": uid, "resourceVersion": version}})
    }

    /// Returns the PATCH that writes the condition of this notice.
    fn condition(&self, message: &str) -> Call {
        let path =
            format!("/api/v1/namespaces/{}/pods/{}/status", self.name.namespace, self.name.name);
        // The time is that of the last change of the status, not of the message.
        let since = if self.since.is_empty() {
            time::seconds(SystemTime::now())
        } else {
            self.since.to_string()
        };
        let body = json!({"metadata": {"uid": self.uid}, "status": {"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message, "lastProbeTime": null, "lastTransitionTime": since}]}});
        Call::json(Method::PATCH, path, &body)
    }
}

impl Kind {
    /// Returns the action, the reason and the type of the Event, in this order.
    fn words(&self) -> [&'static str; 3] {
        match self {
            Kind::Scheduled(_) => ["Binding", "Scheduled", "Normal"],
            Kind::Unschedulable(_) => ["Scheduling", "FailedScheduling", "Warning"],
            Kind::Remark(Remark::Unreadable { .. }) => ["Mirroring", "PodNotUnderstood", "Warning"],
            Kind::Remark(Remark::Overcommitted { .. }) => {
                ["Mirroring", "NodeOvercommitted", "Warning"]
            }
            Kind::Remark(Remark::Preempted { .. }) => ["Preempting", "Preempted", "Normal"],
            Kind::Remark(Remark::Repaired { .. }) => ["Deleting", "OvercommitRepaired", "Warning"],
        }
    }
}

/// Shortens the note of an Event to the length that the API server accepts.
fn cut(mut note: String) -> String {
    const END: &str = "...";
    if note.len() > NOTE_MAX {
        note.truncate(note.floor_char_boundary(NOTE_MAX - END.len()));
        note.push_str(END);
    }
    note
}

/// Returns the text of a remark.
fn words(remark: &Remark) -> String {
    match remark {
        Remark::Unreadable { node, why } => {
            format!(
                "This version of omega-kube does not understand the pod, so {node} accepts no \
                 further pods: {why}"
            )
        }
        Remark::Overcommitted { node, resources } => {
            format!(
                "Another scheduler bound the pod to {node}, whose pods now request more than it has: {resources}"
            )
        }
        Remark::Preempted { by_uid, node } => format!("Preempted by pod {by_uid} on node {node}"),
        Remark::Repaired { node, resources } => {
            format!(
                "The pod was deleted because another scheduler has overcommitted {node}: {resources}. The pod had not \
                 reported a start"
            )
        }
    }
}

/// The queue of notices to the API server. Clones share it.
#[derive(Clone)]
pub struct Notices {
    queue: Sender<Notice>,
    metrics: Arc<Metrics>,
    requests: std::sync::mpsc::SyncSender<ExplainerRequest>,
}

/// A request to the explainer.
enum ExplainerRequest {
    Mirror(Shared, Vec<KubeProfile>),
    Explain(PodName, JobId),
    Send(PodName, String),
}

/// The parts that the writer of notices needs.
pub struct Parts {
    /// The client.
    pub client: Client,
    /// The fence.
    pub fence: Fence,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The name of this process in Events.
    pub instance: String,
    /// The kinds of notices that are written.
    pub written: Written,
}

impl Notices {
    /// Starts the writer of notices on the current runtime, and the explainer in its own thread. The explainer sends
    /// its explanations to `back`.
    ///
    /// # Errors
    /// If the system cannot start the thread.
    pub fn start(parts: Parts, back: Sender<Input>) -> std::io::Result<Notices> {
        let (queue, notices) = channel(QUEUE_MAX);
        // Requests that do not fit into the queue are dropped. A worker causes a new request with its next attempt.
        let (requests, requested) = std::sync::mpsc::sync_channel(1000);
        let metrics = Arc::clone(&parts.metrics);
        let per_second = parts.written.conditions_per_second;
        let explain = move || explain(&requested, &back, per_second);
        std::thread::Builder::new().name("explainer".into()).spawn(explain)?;
        tokio::spawn(write(parts, notices));
        Ok(Notices { queue, metrics, requests })
    }

    /// Passes the cell and the volumes to the explainer.
    pub fn mirror(&self, shared: &Shared, profiles: &[KubeProfile]) {
        let _ = self.requests.try_send(ExplainerRequest::Mirror(shared.clone(), profiles.to_vec()));
    }

    /// Requests an explanation why a pod fits on no node.
    pub fn request_explanation(&self, pod: PodName, job: JobId) {
        let _ = self.requests.try_send(ExplainerRequest::Explain(pod, job));
    }

    /// Sends an already known reason through the explainer, so that the rate limit applies to it. Returns `false` if
    /// the explainer's queue is full.
    pub fn send_reason(&self, pod: PodName, why: String) -> bool {
        self.requests.try_send(ExplainerRequest::Send(pod, why)).is_ok()
    }

    /// Queues a notice; drops it if the queue is full.
    pub fn queue(&self, notice: Notice) {
        if self.queue.try_send(notice).is_err() {
            self.metrics.notices.get_or_create(&[("outcome", "dropped")]).inc();
        }
    }
}

/// Explains pods, at most `per_second` a second, until the engine ends.
fn explain(
    requested: &std::sync::mpsc::Receiver<ExplainerRequest>,
    back: &Sender<Input>,
    per_second: u32,
) {
    let mut explainer = None;
    let mut recent: HashMap<PodName, Instant> = HashMap::new();
    while let Ok(request) = requested.recv() {
        match request {
            ExplainerRequest::Mirror(shared, profiles) => {
                explainer = Some(Explainer::new(shared, profiles))
            }
            ExplainerRequest::Send(pod, why) => {
                if per_second == 0 {
                    continue;
                }
                if back.blocking_send(Input::Explained(pod, why)).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_secs(1) / per_second);
            }
            ExplainerRequest::Explain(pod, job) => {
                if per_second == 0 {
                    continue;
                }
                recent.retain(|_, at| at.elapsed() < Duration::from_secs(10));
                if recent.contains_key(&pod) {
                    continue;
                }
                let message = explainer.as_mut().and_then(|explainer| explainer.message(job));
                if let Some(message) = message {
                    recent.insert(pod.clone(), Instant::now());
                    if back.blocking_send(Input::Explained(pod, message)).is_err() {
                        return;
                    }
                    std::thread::sleep(Duration::from_secs(1) / per_second);
                }
            }
        }
    }
}

/// Writes notices until all senders are gone.
async fn write(parts: Parts, mut notices: Receiver<Notice>) {
    let (parts, refusals) = (Arc::new(parts), Refusals::default());
    let places = Arc::new(tokio::sync::Semaphore::new(IN_FLIGHT));
    let written = Arc::new(Mutex::new(LastMessages::default()));
    let mut number = 0;
    while let Some(notice) = notices.recv().await {
        let messages = || written.lock().unwrap_or_else(PoisonError::into_inner);
        let mut condition = None;
        if let Kind::Unschedulable(message) = &notice.kind {
            match messages().add(&notice, message, Instant::now()) {
                MessageChange::Nothing => continue,
                MessageChange::Repeated => {}
                MessageChange::Changed => condition = Some(notice.condition(message)),
            }
        } else if matches!(notice.kind, Kind::Scheduled(_)) {
            messages().remove(&notice.uid);
        }
        number += 1;
        let event = (parts.written.events == Choice::On).then(|| {
            let path =
                format!("/apis/events.k8s.io/v1/namespaces/{}/events", notice.name.namespace);
            Call::json(Method::POST, path, &notice.event(&parts.instance, number))
        });
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (parts, written, refusals) =
            (Arc::clone(&parts), Arc::clone(&written), refusals.clone());
        tokio::spawn(async move {
            let messages = || written.lock().unwrap_or_else(PoisonError::into_inner);
            if let (Some(call), Kind::Unschedulable(message)) = (condition, &notice.kind)
                && !send(&parts, "a condition of a pod", &notice.name, &call, &refusals).await
            {
                messages().condition_lost(&notice.uid, message);
            }
            if let Some(call) = event
                && !send(&parts, "an Event", &notice.name, &call, &refusals).await
            {
                messages().event_lost(&notice.uid);
            }
            drop(place);
        });
    }
}

/// The last message of each pod that fits on no node, by the pod's uid, and the time of its Event; `None` if the Event
/// is lost.
#[derive(Debug, Default)]
struct LastMessages(HashMap<String, (String, Option<Instant>)>);

/// The difference of a message from the last one.
#[derive(Debug, PartialEq, Eq)]
enum MessageChange {
    /// The message was written not long ago.
    Nothing,
    /// Only the Event is due: it was written long ago, or is lost.
    Repeated,
    /// The pod had another message, or has no condition any more.
    Changed,
}

impl LastMessages {
    /// Records a message that is about to be written, unless there is nothing new.
    fn add(&mut self, notice: &Notice, message: &str, now: Instant) -> MessageChange {
        let is_recent =
            |at: &Option<Instant>| at.is_some_and(|at| now.saturating_duration_since(at) < REPEAT);
        let change = match self.0.get(&notice.uid) {
            Some((known, at)) if known == message && is_recent(at) => {
                return MessageChange::Nothing;
            }
            // By now, the watch would have reported the condition.
            Some((known, Some(_))) if known == message && notice.since.is_empty() => {
                MessageChange::Changed
            }
            Some((known, _)) if known == message => MessageChange::Repeated,
            _ => MessageChange::Changed,
        };
        self.0.insert(notice.uid.clone(), (message.to_owned(), Some(now)));
        if self.0.len() > QUEUE_MAX {
            self.0.retain(|_, (_, at)| is_recent(at));
        }
        change
    }

    /// Removes the message of a pod that was placed.
    fn remove(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// Records that the condition with a message was not written, so that it is written with the next notice.
    fn condition_lost(&mut self, uid: &str, message: &str) {
        if self.0.get(uid).is_some_and(|(known, _)| known == message) {
            self.0.remove(uid);
        }
    }

    /// Records that an Event was not written, so that it is written with the next notice.
    fn event_lost(&mut self, uid: &str) {
        if let Some((_, at)) = self.0.get_mut(uid) {
            *at = None;
        }
    }
}

/// Sends a notice once, without a retry. Returns `false` if it is lost. The next attempt to place the pod then causes
/// another notice. A notice that is forbidden or invalid is not lost, because another one would be refused, too.
async fn send(
    parts: &Parts,
    request: &'static str,
    pod: &PodName,
    call: &Call,
    refusals: &Refusals,
) -> bool {
    if !parts.fence.is_open() {
        return false;
    }
    let mut is_lost = false;
    let outcome = match parts.client.call(call).await {
        Ok(response) if response.status < 300 => "sent",
        // The pod is gone. A condition with another uid is invalid, and an Event is never.
        Ok(response) if matches!(response.status, 404 | 409) => "obsolete",
        Ok(response) if response.status == 422 && call.method == Method::PATCH => "obsolete",
        Ok(response) => {
            is_lost = !matches!(response.status, 403 | 422);
            refusals.warn(request, &pod.to_string(), &response);
            if let Some(seconds) = response.retry_after {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            "refused"
        }
        Err(why) => {
            is_lost = true;
            refusals.warn_lost(request, &pod.to_string(), &why);
            "failed"
        }
    };
    parts.metrics.notices.get_or_create(&[("outcome", outcome)]).inc();
    !is_lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_stays_while_its_status_stays() {
        let written = |conditions: Value| {
            let pod = json!({"metadata": {"name": "a", "namespace": "t"},
                "status": {"conditions": conditions}});
            let pod: Pod = serde_json::from_value(pod).expect("a pod");
            let call = Notice::unschedulable(&pod, "no cpu".into()).condition("no cpu");
            let body: Value = serde_json::from_slice(&call.body).expect("JSON");
            body["status"]["conditions"][0]["lastTransitionTime"].clone()
        };
        let condition = |status: &str| {
            json!([{"type": "PodScheduled", "status": status,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        };
        assert_eq!(written(condition("False")), "2026-01-01T00:00:00Z");
        assert_ne!(written(condition("True")), "2026-01-01T00:00:00Z");
        assert_ne!(written(json!([])), "");
    }

    /// The notice of a pod with this uid, whose condition says since this time that it is not scheduled.
    fn notice(uid: &str, since: &str) -> Notice {
        let mut pod = Pod::default();
        pod.metadata.uid = uid.into();
        pod.status.conditions.unscheduled_since = since.into();
        Notice::unschedulable(&pod, String::new())
    }

    #[test]
    fn a_message_is_written_again_if_its_notice_was_lost() {
        let (mut messages, now) = (LastMessages::default(), Instant::now());
        let (u, v) = (notice("u", ""), notice("v", ""));
        let add = |messages: &mut LastMessages, of, message| messages.add(of, message, now);
        assert_eq!(add(&mut messages, &u, "no cpu"), MessageChange::Changed);
        assert_eq!(add(&mut messages, &u, "no cpu"), MessageChange::Nothing);
        messages.condition_lost("u", "no cpu");
        assert_eq!(add(&mut messages, &u, "no cpu"), MessageChange::Changed);
        messages.event_lost("u");
        assert_eq!(add(&mut messages, &u, "no cpu"), MessageChange::Repeated);
        assert_eq!(add(&mut messages, &u, "no memory"), MessageChange::Changed);
        messages.condition_lost("u", "no cpu");
        let again = add(&mut messages, &u, "no memory");
        assert_eq!(again, MessageChange::Nothing, "that is an older message");
        messages.remove("u");
        assert_eq!(add(&mut messages, &u, "no memory"), MessageChange::Changed);
        assert_eq!(add(&mut messages, &v, "no memory"), MessageChange::Changed);
    }

    #[test]
    fn a_condition_that_somebody_removed_is_written_again() {
        let (mut messages, now) = (LastMessages::default(), Instant::now());
        let (shown, removed) = (notice("u", "2026-01-01T00:00:00Z"), notice("u", ""));
        assert_eq!(messages.add(&removed, "no cpu", now), MessageChange::Changed);
        assert_eq!(messages.add(&removed, "no cpu", now), MessageChange::Nothing);
        assert_eq!(messages.add(&shown, "no cpu", now + REPEAT), MessageChange::Repeated);
        assert_eq!(messages.add(&removed, "no cpu", now + REPEAT * 2), MessageChange::Changed);
    }

    #[test]
    fn the_note_of_an_event_has_at_most_the_length_that_the_server_accepts() {
        let note = |message: &str| {
            let event = Notice::unschedulable(&Pod::default(), message.into()).event("i", 0);
            event["note"].as_str().expect("text").to_owned()
        };
        let longest = "x".repeat(NOTE_MAX);
        assert_eq!(note(&longest), longest);
        for long in [format!("{longest}x"), format!("x{}", "é".repeat(NOTE_MAX))] {
            let note = note(&long);
            assert!(note.len() <= NOTE_MAX && note.len() >= NOTE_MAX - 1, "{}", note.len());
            assert!(long.starts_with(note.strip_suffix("...").expect("dots")));
        }
    }
}
