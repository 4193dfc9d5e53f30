//! Groups of pods, for API servers that serve them.

use super::input::{Input, Into};
use crate::client::{Call, Client};
use crate::watch::progress::Progress;
use crate::watch::{self, Resource};
use omega_workload::kube::api::PodGroup;
use serde::Deserialize;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// Path of the API of groups. This API is alpha, and disabled by default.
pub(super) const GROUPS: &str = "/apis/scheduling.k8s.io/v1alpha2";

/// All groups.
const RESOURCE: Resource =
    Resource { path: "/apis/scheduling.k8s.io/v1alpha2/podgroups", fields: "" };

#[derive(Default, Deserialize)]
struct Resources {
    #[serde(default)]
    resources: Vec<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

/// Watches the groups, or reports that the server does not serve them.
pub(super) async fn keep(
    client: Client,
    settings: watch::Settings,
    queue: Sender<Input>,
    progress: Progress,
) {
    if are_served(&client).await {
        let sink = Into { queue, wrap: Input::Groups, progress };
        watch::keep::<PodGroup, _>(&client, RESOURCE, settings, sink).await;
    } else {
        let _ = queue.send(Input::GroupsAbsent).await;
    }
}

/// Whether the server serves groups. Asks the server until it answers.
async fn are_served(client: &Client) -> bool {
    loop {
        match client.call(&Call::get(GROUPS.to_owned())).await {
            Ok(response) if response.status == 404 => return false,
            Ok(response) if response.status == 200 => {
                let known: Resources = serde_json::from_slice(&response.body).unwrap_or_default();
                return known.resources.iter().any(|known| known.name == "podgroups");
            }
            Ok(response) => {
                tracing::warn!(
                    status = response.status,
                    path = GROUPS,
                    "the API groups cannot be listed"
                );
            }
            Err(why) if why.is_no_answer() => {}
            Err(why) => tracing::warn!(%why, path = GROUPS, "the API groups cannot be listed"),
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}
