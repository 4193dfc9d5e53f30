//! Events and conditions: words for users about pods, sent beside the bindings and never instead of them.
//!
//! They are bounded: a status PATCH is the dearest call of the API server. A pod's condition is written again only
//! if its message has changed, a few a second, and Events that find the queue full are dropped and counted.

use super::fence::Fence;
use super::input::Input;
use super::metrics::Metrics;
use super::reasons::Explainer;
use crate::adapter::{PodName, Remark, Shared, scheduler_of};
use crate::client::{Call, Client, time};
use crate::profiles::KubeProfile;
use http::Method;
use omega_core::JobId;
use omega_workload::kube::api::Pod;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Notices that wait.
const QUEUE_MAX: usize = 20_000;

/// Notices under way at once.
const IN_FLIGHT: usize = 8;

/// The time for which an unchanged message is not sent as an Event again.
const REPEAT: Duration = Duration::from_secs(300);

/// The kinds of notices that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Whether Events are.
    pub events: Choice,
    /// Conditions a second.
    pub conditions_per_second: u32,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// A notice about a pod.
#[derive(Clone, Debug)]
pub struct Notice {
    name: PodName,
    uid: String,
    version: String,
    scheduler: String,
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
            kind,
        }
    }

    /// Returns the notice of a pod that was bound to a node.
    #[must_use]
    pub fn scheduled(pod: &Pod, node: &str) -> Notice {
        Notice::of(pod, Kind::Scheduled(node.to_owned()))
    }

    /// Returns the notice of a pod that finds no node.
    #[must_use]
    pub fn unschedulable(pod: &Pod, message: String) -> Notice {
        Notice::of(pod, Kind::Unschedulable(message))
    }

    /// Returns the notice of a remark about a pod.
    #[must_use]
    pub fn remark(pod: &Pod, remark: Remark) -> Notice {
        Notice::of(pod, Kind::Remark(remark))
    }

    /// Returns the Event, in the form in which kube-scheduler writes it.
    fn event(&self, instance: &str, number: u64) -> Value {
        let Notice { name, uid, version, scheduler, kind } = self;
        let [action, reason, severity] = kind.words();
        let note = match kind {
            Kind::Scheduled(node) => format!("Successfully assigned {name} to {node}"),
            Kind::Unschedulable(message) => message.clone(),
            Kind::Remark(remark) => words(remark),
        };
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // The number keeps the names of one moment apart.
        let unique = format!("{}.{:x}", name.name, nanos.as_nanos() + u128::from(number));
        json!({"apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": unique, "namespace": name.namespace},
            "eventTime": time::micros(SystemTime::now()), "reportingController": scheduler,
            "reportingInstance": instance, "action": action, "reason": reason, "type": severity,
            "note": note, "regarding": {"apiVersion": "v1", "kind": "Pod", "name": name.name,
                "namespace": name.namespace, "uid": uid, "resourceVersion": version}})
    }

    /// Returns the PATCH of the condition.
    fn condition(&self, message: &str) -> Call {
        let path =
            format!("/api/v1/namespaces/{}/pods/{}/status", self.name.namespace, self.name.name);
        let body = json!({"metadata": {"uid": self.uid}, "status": {"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message, "lastProbeTime": null,
            "lastTransitionTime": time::seconds(SystemTime::now())}]}});
        Call::json(Method::PATCH, path, &body)
    }
}

impl Kind {
    /// Returns action, reason and type of the Event.
    fn words(&self) -> [&'static str; 3] {
        match self {
            Kind::Scheduled(_) => ["Binding", "Scheduled", "Normal"],
            Kind::Unschedulable(_) => ["Scheduling", "FailedScheduling", "Warning"],
            Kind::Remark(Remark::Unreadable { .. }) => ["Mirroring", "PodNotUnderstood", "Warning"],
            Kind::Remark(Remark::Overcommitted { .. }) => {
                ["Mirroring", "NodeOvercommitted", "Warning"]
            }
            Kind::Remark(Remark::Preempted { .. }) => ["Preempting", "Preempted", "Normal"],
        }
    }
}

/// Returns the text of a remark.
fn words(remark: &Remark) -> String {
    match remark {
        Remark::Unreadable { node, why } => {
            format!(
                "This version of omega-kube does not understand the pod, so {node} takes no further pods: {why}"
            )
        }
        Remark::Overcommitted { node, resources } => {
            format!(
                "Another scheduler bound the pod to {node}, whose pods now request more than it has: {resources}"
            )
        }
        Remark::Preempted { by_uid, node } => format!("Preempted by pod {by_uid} on node {node}"),
    }
}

/// The way of notices to the API server. Clones share it.
#[derive(Clone)]
pub struct Notices {
    queue: Sender<Notice>,
    metrics: Arc<Metrics>,
    asks: std::sync::mpsc::SyncSender<Ask>,
}

/// A request to the explainer.
enum Ask {
    Mirror(Shared, Vec<KubeProfile>),
    Explain(PodName, JobId),
    Say(PodName, String),
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
    /// Starts the writer on the runtime that the caller is on, and the explainer in a thread of its own; explanations
    /// go to the queue.
    ///
    /// # Errors
    /// If the system refuses the thread.
    pub fn start(parts: Parts, back: Sender<Input>) -> std::io::Result<Notices> {
        let (queue, notices) = channel(QUEUE_MAX);
        // The explainer forgets what does not fit: workers ask again with the next attempt.
        let (asks, asked) = std::sync::mpsc::sync_channel(1000);
        let metrics = Arc::clone(&parts.metrics);
        let per_second = parts.written.conditions_per_second;
        let explain = move || explain(&asked, &back, per_second);
        std::thread::Builder::new().name("explainer".into()).spawn(explain)?;
        tokio::spawn(write(parts, notices));
        Ok(Notices { queue, metrics, asks })
    }

    /// Gives the explainer its cell and volumes.
    pub fn mirror(&self, shared: &Shared, profiles: &[KubeProfile]) {
        let _ = self.asks.try_send(Ask::Mirror(shared.clone(), profiles.to_vec()));
    }

    /// Asks for the reason that a pod finds no node.
    pub fn ask(&self, pod: PodName, job: JobId) {
        let _ = self.asks.try_send(Ask::Explain(pod, job));
    }

    /// Has a pod's reason pass at the rate of explanations. Returns whether there was room for it.
    pub fn say(&self, pod: PodName, why: String) -> bool {
        self.asks.try_send(Ask::Say(pod, why)).is_ok()
    }

    /// Takes a notice, unless too many wait.
    pub fn tell(&self, notice: Notice) {
        if self.queue.try_send(notice).is_err() {
            self.metrics.notices.get_or_create(&[("outcome", "dropped")]).inc();
        }
    }
}

/// Explains pods, a few a second, until the engine ends.
fn explain(asked: &std::sync::mpsc::Receiver<Ask>, back: &Sender<Input>, per_second: u32) {
    let mut explainer = None;
    let mut recent: HashMap<PodName, Instant> = HashMap::new();
    while let Ok(ask) = asked.recv() {
        match ask {
            Ask::Mirror(shared, profiles) => explainer = Some(Explainer::new(shared, profiles)),
            Ask::Say(pod, why) => {
                if per_second == 0 {
                    continue;
                }
                if back.blocking_send(Input::Explained(pod, why)).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_secs(1) / per_second);
            }
            Ask::Explain(pod, job) => {
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

/// Writes notices until none can come any more.
async fn write(parts: Parts, mut notices: Receiver<Notice>) {
    let parts = Arc::new(parts);
    let places = Arc::new(tokio::sync::Semaphore::new(IN_FLIGHT));
    let mut last: HashMap<String, (String, Instant)> = HashMap::new();
    let mut number = 0;
    while let Some(notice) = notices.recv().await {
        let mut condition = None;
        if let Kind::Unschedulable(message) = &notice.kind {
            let known = last.get(&notice.uid);
            let same = known.is_some_and(|(known, _)| known == message);
            if same && known.is_some_and(|(_, at)| at.elapsed() < REPEAT) {
                continue;
            }
            condition = (!same).then(|| notice.condition(message));
            last.insert(notice.uid.clone(), (message.clone(), Instant::now()));
        } else if matches!(notice.kind, Kind::Scheduled(_)) {
            last.remove(&notice.uid);
        }
        if last.len() > QUEUE_MAX {
            last.retain(|_, (_, at)| at.elapsed() < REPEAT);
        }
        number += 1;
        let event = (parts.written.events == Choice::On).then(|| {
            let path =
                format!("/apis/events.k8s.io/v1/namespaces/{}/events", notice.name.namespace);
            Call::json(Method::POST, path, &notice.event(&parts.instance, number))
        });
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let parts = Arc::clone(&parts);
        tokio::spawn(async move {
            for call in condition.into_iter().chain(event) {
                send(&parts, &call).await;
            }
            drop(place);
        });
    }
}

/// Sends a notice, once: a user loses nothing that the next attempt would not say again.
async fn send(parts: &Parts, call: &Call) {
    if !parts.fence.is_open() {
        return;
    }
    let outcome = match parts.client.call(call).await {
        Ok(response) if response.status < 300 => "sent",
        // The pod is gone.
        Ok(response) if matches!(response.status, 404 | 409 | 422) => "obsolete",
        Ok(response) => {
            tracing::warn!(status = response.status, path = %call.path, "a notice was refused");
            if let Some(seconds) = response.retry_after {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            "refused"
        }
        Err(why) => {
            tracing::warn!(%why, path = %call.path, "a notice was not sent");
            "failed"
        }
    };
    parts.metrics.notices.get_or_create(&[("outcome", outcome)]).inc();
}
