//! The explanation of one pending pod. It is computed from fresh lists of the cluster, and nothing is written.

use crate::adapter::{PodName, Settings, State, scheduler_of as scheduler_name};
use crate::client::Client;
use crate::profiles::KubeProfile;
use crate::run::first::First;
use crate::run::input::{Input, Into};
use crate::run::reasons::Explainer;
use crate::run::{NAMESPACES, NODES, PODS, watch_storage};
use crate::watch::progress::Progress;
use crate::watch::{self, Event, keep};
use omega_workload::kube::api::{Namespace, Node, Pod, PodGroup};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::channel;

/// Returns the reason why a pod is pending, in words.
///
/// # Errors
/// If the cluster cannot be listed, or there is no such pod.
pub async fn explain(client: &Client, namespace: &str, name: &str) -> Result<String, String> {
    let wanted = PodName { namespace: namespace.into(), name: name.into() };
    // The pod is explained with the profile of the scheduler that it names.
    let scheduler = scheduler_of(client, &wanted).await?;
    let profile = KubeProfile::new(scheduler.clone());
    let progress = Progress::default();
    let first = within(client.timeout() * 3, &progress, lists(client, &progress)).await?;
    let scheduler_names = BTreeSet::from([scheduler]);
    let settings = Settings {
        scheduler_names,
        request_timeout_ms: 10_000,
        preempts: false,
        repairs: false,
        binds: false,
    };
    let (mut adapter, later) = first.adapter(settings)?;
    for input in later {
        if let Input::Storage(kind, Event::Listed(all, _)) = input {
            adapter.storage_listed(kind, all);
        }
    }
    match groups(client).await? {
        Some(groups) => adapter.groups_listed(groups),
        None => adapter.groups_absent(),
    }
    match adapter.state(&wanted) {
        None => Ok(format!("{wanted} has ended")),
        Some(State::Bound(node)) => Ok(format!("{wanted} is bound to {node}")),
        Some(State::Held(why)) => Ok(format!("{wanted} is not scheduled: {why}")),
        Some(_) => {
            let job = adapter.job_of(&wanted).or_else(|| adapter.gang_of(&wanted));
            let mut explainer = Explainer::new(adapter.shared(), vec![profile]);
            let message = job.and_then(|job| explainer.message(job));
            let feasible =
                || format!("{wanted} fits on a node: its scheduler has not tried it yet");
            Ok(message.map_or_else(feasible, |message| format!("{wanted}: {message}")))
        }
    }
}

/// Waits for lists until a limit. The error of lists that take longer names a list that failed.
async fn within<T>(
    limit: Duration,
    progress: &Progress,
    lists: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    tokio::time::timeout(limit, lists).await.unwrap_or_else(|_| {
        let seconds = limit.as_secs();
        Err(match progress.failure() {
            Some((path, why)) => {
                format!("{path} cannot be listed within {seconds} seconds: {why}")
            }
            None => format!(
                "the lists of the API server take longer than {seconds} seconds: give a larger \
                 --request-timeout"
            ),
        })
    })
}

/// Lists the objects on which a decision depends. Fails if the API server refuses a list.
async fn lists(client: &Client, progress: &Progress) -> Result<First, String> {
    let (queue, mut inputs) = channel(64);
    let settings = watch::Settings::default();
    let (of, to) = (|| queue.clone(), || progress.clone());
    let pods = Into { queue: of(), wrap: Input::Pods, progress: to() };
    let nodes = Into { queue: of(), wrap: |event| Input::Nodes(Box::new(event)), progress: to() };
    let storage = watch_storage(client, settings, &queue, progress);
    let namespaces = Into { queue: of(), wrap: Input::Namespaces, progress: to() };
    let collect = async {
        let (mut first, mut stored) = (First::default(), BTreeSet::new());
        let mut refused = None;
        while let Some(input) = inputs.recv().await {
            if let Input::Refused(path, why) = input {
                refused = Some(format!("{path} cannot be listed: {why}"));
                break;
            }
            if let Input::Storage(kind, Event::Listed(..)) = &input {
                stored.insert(*kind);
            }
            first.take(input);
            if first.is_whole() && stored.len() == storage.len() {
                break;
            }
        }
        storage.into_iter().for_each(|watch| watch.abort());
        refused.map_or(Ok(first), Err)
    };
    tokio::select! {
        first = collect => first,
        () = async { tokio::join!(
            keep::<Arc<Pod>, _>(client, PODS, settings, pods),
            keep::<Node, _>(client, NODES, settings, nodes),
            keep::<Namespace, _>(client, NAMESPACES, settings, namespaces),
        ); } => Ok(First::default()),
    }
}

/// Lists the groups of pods; `None` if the server does not serve them.
async fn groups(client: &Client) -> Result<Option<Vec<PodGroup>>, String> {
    #[derive(serde::Deserialize)]
    struct List {
        items: Vec<PodGroup>,
    }
    let call = crate::client::Call::whole("/apis/scheduling.k8s.io/v1alpha2/podgroups");
    let answer = client.call(&call).await.map_err(|why| why.to_string())?;
    match answer.status {
        200 => {
            let list: List = serde_json::from_slice(&answer.body).map_err(|why| why.to_string())?;
            Ok(Some(list.items))
        }
        404 => Ok(None),
        _ => Err(format!("the groups of pods cannot be listed: {}", answer.message())),
    }
}

/// Returns the scheduler that a pod names.
async fn scheduler_of(client: &Client, pod: &PodName) -> Result<String, String> {
    let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
    let answer =
        client.call(&crate::client::Call::get(path)).await.map_err(|why| why.to_string())?;
    if answer.status != 200 {
        return Err(format!("pod {pod}: {}", answer.message()));
    }
    let pod: Pod = serde_json::from_slice(&answer.body).map_err(|why| why.to_string())?;
    Ok(scheduler_name(&pod).to_owned())
}
