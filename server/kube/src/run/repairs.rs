//! The check before a pod on an overcommitted node is deleted: it must not have started.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    container_statuses: Option<Vec<Container>>,
    init_container_statuses: Option<Vec<Container>>,
    ephemeral_container_statuses: Option<Vec<Container>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    started: Option<bool>,
    restart_count: u32,
    state: State,
    last_state: State,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    running: Option<Value>,
    terminated: Option<Value>,
}

impl State {
    fn is_begun(&self) -> bool {
        self.running.is_some() || self.terminated.is_some()
    }
}

impl Container {
    fn is_begun(&self) -> bool {
        let is_begun = self.state.is_begun() || self.last_state.is_begun();
        is_begun || self.started == Some(true) || self.restart_count > 0
    }
}

/// Returns the resource version of a pod if the pod has this uid, is bound to this node, is not being deleted, and none
/// of its containers has begun. Returns `None` otherwise, and if the pod cannot be read.
pub(super) fn version_if_deletable(body: &Bytes, uid: &str, node: &str) -> Option<String> {
    let Pod { metadata, spec, status } = serde_json::from_slice(body).ok()?;
    let all = [
        status.container_statuses,
        status.init_container_statuses,
        status.ephemeral_container_statuses,
    ];
    let is_begun = all.iter().flatten().flatten().any(Container::is_begun);
    let is_deletable = metadata.uid == uid
        && metadata.deletion_timestamp.is_none()
        && !metadata.resource_version.is_empty()
        && spec.node_name == node
        && status.phase == "Pending"
        && !is_begun;
    is_deletable.then_some(metadata.resource_version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn version(change: impl FnOnce(&mut Value)) -> Option<String> {
        let mut pod = json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"},
            "spec": {"nodeName": "n"},
            "status": {"phase": "Pending", "containerStatuses": [
                {"name": "c", "started": false, "restartCount": 0, "lastState": {},
                    "state": {"waiting": {"reason": "ContainerCreating"}}}]}});
        change(&mut pod);
        version_if_deletable(&pod.to_string().into(), "u", "n")
    }

    #[test]
    fn only_a_pod_that_has_not_begun_may_be_deleted() {
        assert_eq!(version(|_| {}), Some("7".into()));
        assert_eq!(
            version(|pod| pod["status"]["containerStatuses"] = Value::Null),
            Some("7".into())
        );
        assert_eq!(version(|pod| pod["status"]["phase"] = "Running".into()), None);
        assert_eq!(version(|pod| pod["metadata"]["uid"] = "v".into()), None);
        assert_eq!(version(|pod| pod["spec"]["nodeName"] = "m".into()), None);
        assert_eq!(version(|pod| pod["metadata"]["deletionTimestamp"] = "now".into()), None);
        assert_eq!(version(|pod| pod["status"]["containerStatuses"] = "?".into()), None);
        let container = |part: &'static str, value: Value| {
            version(move |pod| pod["status"]["containerStatuses"][0][part] = value)
        };
        assert_eq!(container("started", true.into()), None);
        assert_eq!(container("restartCount", 1.into()), None);
        assert_eq!(container("state", json!({"running": {}})), None);
        assert_eq!(container("lastState", json!({"terminated": {"exitCode": 1}})), None);
        let init = json!([{"name": "i", "state": {"running": {}}}]);
        assert_eq!(version(move |pod| pod["status"]["initContainerStatuses"] = init), None);
    }
}
