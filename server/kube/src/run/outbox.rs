//! The outbox: requests on their way to the API server. The number of requests in flight is bounded.

use super::fence::Fence;
use super::groups::GROUPS;
use super::input::Input;
use super::metrics::Metrics;
use super::refusals::Refusals;
use super::repairs;
use crate::adapter::Binding;
use crate::adapter::bind_reply::{BindReply, PodRead};
use crate::adapter::effects::{
    Action, ClaimChoice, Done, Eviction, GroupCondition, Nominee, Repair,
};
use crate::client::{Call, CallError, Client, Response, time};
use crate::watch::partial::read;
use http::Method;
use omega_workload::kube::storage::{BOUND_BY_CONTROLLER, SELECTED_NODE};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

/// Wait in seconds after a 429 without `Retry-After`.
const RETRY_AFTER: u64 = 1;

/// The outbox. Clones share the limit of requests in flight.
#[derive(Clone)]
pub struct Outbox {
    client: Client,
    places: Arc<Semaphore>,
    in_flight: u32,
    back: Sender<Input>,
    fence: Fence,
    metrics: Arc<Metrics>,
    refusals: Refusals,
    runtime: Handle,
}

impl Outbox {
    /// Creates an outbox on the current runtime. Answers go to `back`.
    #[must_use]
    pub fn new(
        client: Client,
        in_flight: u32,
        back: Sender<Input>,
        fence: Fence,
        metrics: Arc<Metrics>,
    ) -> Outbox {
        let places = Arc::new(Semaphore::new(in_flight as usize));
        let (refusals, runtime) = (Refusals::default(), Handle::current());
        Outbox { client, places, in_flight, back, fence, metrics, refusals, runtime }
    }

    /// Carries out an action after `delay_ms`.
    pub fn act(&self, action: Action, delay_ms: u64) {
        let outbox = self.clone();
        self.runtime.spawn(async move {
            if delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
            let Ok(place) = outbox.places.acquire().await else { return };
            // If the fence is closed, another process may be the leader, and this process is about to end.
            if !outbox.fence.is_open() {
                return;
            }
            let input = match action {
                Action::Bind(binding, _) => {
                    let (answer, refusal) = outbox.bind(&binding).await;
                    Input::BindReplied(binding, answer, refusal)
                }
                Action::Get(binding, _) => {
                    let found = outbox.get(&binding).await;
                    Input::PodRead(binding, found)
                }
                Action::Nominate(nominee, _) => {
                    let done = outbox.nominate(&nominee).await;
                    Input::Nominated(nominee, done)
                }
                Action::Claim(choice, _) => {
                    let done = outbox.choose(&choice).await;
                    Input::Chosen(choice, done)
                }
                Action::Group(condition, _) => {
                    let done = outbox.show_group(&condition).await;
                    Input::GroupShown(condition, done)
                }
                Action::Evict(eviction, _) => {
                    let done = outbox.evict(&eviction).await;
                    Input::Evicted(eviction, done)
                }
                Action::Repair(repair, _) => {
                    let done = outbox.repair(&repair).await;
                    Input::Repaired(repair, done)
                }
            };
            drop(place);
            // The send fails if the engine has stopped. The answer is then not needed.
            let _ = outbox.back.send(input).await;
        });
    }

    /// Waits until no request is in flight, at most for the timeout of a request. Prevents further requests. Returns
    /// whether none is in flight any more: an action of two requests may take longer.
    #[must_use]
    pub async fn close(&self) -> bool {
        self.close_within(self.client.timeout()).await
    }

    async fn close_within(&self, limit: Duration) -> bool {
        let all = self.places.acquire_many(self.in_flight);
        let is_idle = tokio::time::timeout(limit, all).await.is_ok();
        self.places.close();
        is_idle
    }

    /// Sends a binding. Also returns the server's message if the server refuses the binding.
    async fn bind(&self, binding: &Binding) -> (BindReply, Option<String>) {
        let Binding { pod, uid, node, .. } = binding;
        let path = format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name);
        let body = json!({"apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": uid},
            "target": {"kind": "Node", "name": node}});
        let sent = Instant::now();
        let response = self.client.call(&Call::json(Method::POST, path, &body)).await;
        self.metrics.bindings_seconds.observe(sent.elapsed().as_secs_f64());
        let answer = bind_reply_of(&response);
        let mut refusal = None;
        if let (BindReply::Refused | BindReply::Failed | BindReply::Unknown, Ok(response)) =
            (answer, &response)
        {
            self.refusals.warn("a binding", &pod.to_string(), response);
            refusal = Some(response.message());
        }
        if answer != BindReply::Bound {
            let error = response.err();
            tracing::debug!(%pod, %node, ?answer, ?error, "the binding was not acknowledged");
        }
        (answer, refusal)
    }

    async fn get(&self, binding: &Binding) -> PodRead {
        let pod = &binding.pod;
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        match self.client.call(&Call::get(path)).await {
            Ok(response) if response.status == 404 && response.is_object() => PodRead::Gone,
            Ok(response) if response.status == 200 => {
                let text = std::str::from_utf8(&response.body).unwrap_or_default();
                read(text).map_or(PodRead::Unknown, |pod| PodRead::Pod(Box::new(pod)))
            }
            Ok(response) => {
                self.done("reading a pod", &pod.to_string(), Ok(response));
                PodRead::Unknown
            }
            Err(_) => PodRead::Unknown,
        }
    }

    /// Classifies an answer to a request about an object. If the server refuses the request, writes a warning.
    fn done(
        &self,
        request: &'static str,
        object: &str,
        answer: Result<Response, CallError>,
    ) -> Done {
        let done = done_of(&answer);
        if let (Done::Refused, Ok(response)) = (done, &answer) {
            self.refusals.warn(request, object, response);
        }
        done
    }
}

/// Requests about volumes and groups.
impl Outbox {
    async fn show_group(&self, condition: &GroupCondition) -> Done {
        let GroupCondition { namespace, name, uid, unschedulable } = condition;
        let (status, reason, message) = match unschedulable {
            None => ("True", "Scheduled", ""),
            Some(why) => ("False", "Unschedulable", why.as_str()),
        };
        let path = format!("{GROUPS}/namespaces/{namespace}/podgroups/{name}/status");
        let body = json!({"metadata": {"uid": uid}, "status": {"conditions": [{
            "type": "PodGroupScheduled", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": time::seconds(SystemTime::now())}]}});
        let answer = self.client.call(&Call::json(Method::PATCH, path, &body)).await;
        self.done("the condition of a pod group", &format!("{namespace}/{name}"), answer)
    }

    /// Writes a choice. If a volume was chosen, writes the claim into the volume. Otherwise writes the node, for which
    /// a volume is to be created, into the claim.
    async fn choose(&self, choice: &ClaimChoice) -> Done {
        let ClaimChoice { binding, namespace, claim, uid, version, volume } = choice;
        let (request, call) = match volume {
            None => {
                let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}");
                let body = json!({"metadata": {"uid": uid, "resourceVersion": version,
                    "annotations": {SELECTED_NODE: binding.node}}});
                ("the node of a volume claim", Call::json(Method::PATCH, path, &body))
            }
            Some((volume, of_volume)) => {
                let body = json!({"metadata": {"resourceVersion": of_volume,
                    "annotations": {BOUND_BY_CONTROLLER: "yes"}},
                    "spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                        "namespace": namespace, "name": claim, "uid": uid, "resourceVersion": version}}});
                let path = format!("/api/v1/persistentvolumes/{volume}");
                ("the claim of a volume", Call::json(Method::PATCH, path, &body))
            }
        };
        let answer = self.client.call(&call).await;
        self.done(request, &format!("{namespace}/{claim}"), answer)
    }
}

/// Requests that delete pods or nominate nodes.
impl Outbox {
    async fn nominate(&self, nominee: &Nominee) -> Done {
        let Nominee { pod, uid, node } = nominee;
        let path = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
        let body = json!({"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}});
        let answer = self.client.call(&Call::json(Method::PATCH, path, &body)).await;
        self.done("a nomination", &pod.to_string(), answer)
    }

    /// Writes the reason for the deletion into a condition of the victim, and then deletes the victim.
    async fn evict(&self, eviction: &Eviction) -> Done {
        let Eviction { pod, uid, scheduler, .. } = eviction;
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let message = format!("{scheduler}: preempting to accommodate a higher priority pod");
        let body = json!({"metadata": {"uid": uid}, "status": {"conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": message, "lastTransitionTime": time::seconds(SystemTime::now())}]}});
        let shown =
            self.client.call(&Call::json(Method::PATCH, format!("{path}/status"), &body)).await;
        match self.done("the condition of a victim", &pod.to_string(), shown) {
            Done::Done => {}
            other => return other,
        }
        if !self.fence.is_open() {
            return Done::Unknown;
        }
        let body =
            json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}});
        let deleted = self.client.call(&Call::json(Method::DELETE, path, &body)).await;
        self.done("the deletion of a victim", &pod.to_string(), deleted)
    }

    /// Deletes a pod that has not started, as far as the API server knows. The pod is read first, because the watch may
    /// lag behind. The resource version of the read pod is a precondition of the deletion, so the kubelet has not
    /// reported a start since. But a kubelet starts containers before it reports them, so the deletion may still hit a
    /// pod that has just started. Its containers are then ended as at any other deletion.
    async fn repair(&self, repair: &Repair) -> Done {
        let Repair { pod, uid, node, .. } = repair;
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let found = match self.client.call(&Call::get(path.clone())).await {
            Ok(found) if found.status == 200 => found,
            other => return self.done("reading a pod", &pod.to_string(), other),
        };
        let Some(version) = repairs::version_if_deletable(&found.body, uid, node) else {
            return Done::Gone;
        };
        if !self.fence.is_open() {
            return Done::Unknown;
        }
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1",
            "preconditions": {"uid": uid, "resourceVersion": version}});
        let deleted = self.client.call(&Call::json(Method::DELETE, path, &body)).await;
        if deleted.as_ref().is_ok_and(|response| response.status == 409) {
            // The pod has changed since it was read. A later attempt reads it again.
            return Done::Unknown;
        }
        self.done("the deletion of a pod on an overcommitted node", &pod.to_string(), deleted)
    }
}

/// Classifies an answer to a request that is no binding.
fn done_of(answer: &Result<Response, CallError>) -> Done {
    let Ok(response) = answer else { return Done::Unknown };
    match response.status {
        200..=299 if response.is_object() => Done::Done,
        // 409 and 422 mean that the uid differs: another pod has this name now.
        404 | 409 | 422 => Done::Gone,
        429 => Done::Throttled(response.retry_after.unwrap_or(RETRY_AFTER) * 1000),
        400..=499 => Done::Refused,
        _ => Done::Unknown,
    }
}

/// Classifies an answer to a binding.
fn bind_reply_of(answer: &Result<Response, CallError>) -> BindReply {
    let Ok(response) = answer else { return BindReply::Unknown };
    match response.status {
        201 | 200 if response.is_success() => BindReply::Bound,
        200..=299 => BindReply::Unknown,
        404 | 409 => BindReply::Conflict,
        429 => BindReply::Throttled(response.retry_after.unwrap_or(RETRY_AFTER) * 1000),
        400..=499 if response.is_object() => BindReply::Refused,
        _ => BindReply::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::PodName;
    use crate::client::config::Config;
    use std::net::TcpListener;

    #[test]
    fn only_answers_of_an_api_server_settle_a_request() {
        let answer = |status, body: &'static str| {
            Ok(Response { status, retry_after: None, body: body.as_bytes().into() })
        };
        let done = r#"{"kind":"Status","metadata":{},"status":"Success","code":201}"#;
        let failed = r#"{"kind":"Status","metadata":{},"status":"Failure","message":"no"}"#;
        let pod = r#"{"kind":"Pod","metadata":{"name":"a"},"status":{}}"#;
        let page = "<html>Sign in</html>";
        for (code, body, reply, outcome) in [
            (201, done, BindReply::Bound, Done::Done),
            (200, done, BindReply::Bound, Done::Done),
            (201, failed, BindReply::Unknown, Done::Done),
            (200, pod, BindReply::Unknown, Done::Done),
            (200, page, BindReply::Unknown, Done::Unknown),
            (204, "", BindReply::Unknown, Done::Unknown),
            (200, r#"{"error":"?"}"#, BindReply::Unknown, Done::Unknown),
            (307, "", BindReply::Failed, Done::Unknown),
            (403, failed, BindReply::Refused, Done::Refused),
            (403, page, BindReply::Failed, Done::Refused),
            (409, failed, BindReply::Conflict, Done::Gone),
            (500, failed, BindReply::Failed, Done::Unknown),
        ] {
            let answer = answer(code, body);
            assert_eq!(bind_reply_of(&answer), reply, "{code} {body}");
            assert_eq!(done_of(&answer), outcome, "{code} {body}");
        }
        let message = |code, body| answer(code, body).expect("an answer").message();
        assert_eq!((message(307, " "), message(403, failed)), ("HTTP 307".into(), "no".into()));
    }

    #[test]
    fn an_outbox_with_a_request_in_flight_is_not_idle() {
        // The server accepts connections, and never answers.
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = Client::new(Config::plain(&url), Duration::from_secs(300)).unwrap();
            let (back, _answers) = tokio::sync::mpsc::channel(1);
            let outbox =
                || Outbox::new(client.clone(), 2, back.clone(), Fence::open(), Arc::default());
            assert!(outbox().close().await);
            let busy = outbox();
            let pod = PodName { namespace: "t".into(), name: "a".into() };
            let binding = Binding { decision: 1, pod, uid: "u".into(), node: "n".into() };
            busy.act(Action::Bind(binding, 0), 0);
            tokio::task::yield_now().await;
            assert!(!busy.close_within(Duration::ZERO).await);
        });
    }
}
