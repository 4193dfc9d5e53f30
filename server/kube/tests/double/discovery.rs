//! Discovery requests, to the extent that `kubectl` and client libraries need them.

use super::Response;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The resources: path of group and version, plural, kind, and whether the objects are in namespaces.
const RESOURCES: [(&str, &str, &str, bool); 28] = [
    ("/api/v1", "pods", "Pod", true),
    ("/api/v1", "nodes", "Node", false),
    ("/api/v1", "namespaces", "Namespace", false),
    ("/api/v1", "serviceaccounts", "ServiceAccount", true),
    ("/api/v1", "services", "Service", true),
    ("/api/v1", "persistentvolumes", "PersistentVolume", false),
    ("/api/v1", "persistentvolumeclaims", "PersistentVolumeClaim", true),
    ("/apis/apps/v1", "deployments", "Deployment", true),
    ("/apis/coordination.k8s.io/v1", "leases", "Lease", true),
    ("/apis/events.k8s.io/v1", "events", "Event", true),
    ("/apis/flowcontrol.apiserver.k8s.io/v1", "flowschemas", "FlowSchema", false),
    (
        "/apis/flowcontrol.apiserver.k8s.io/v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        false,
    ),
    ("/apis/resource.k8s.io/v1", "deviceclasses", "DeviceClass", false),
    ("/apis/resource.k8s.io/v1", "resourceclaims", "ResourceClaim", true),
    ("/apis/resource.k8s.io/v1", "resourceslices", "ResourceSlice", false),
    ("/apis/policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", true),
    ("/apis/scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", false),
    ("/apis/scheduling.k8s.io/v1alpha2", "podgroups", "PodGroup", true),
    ("/apis/scheduling.k8s.io/v1alpha2", "workloads", "Workload", true),
    ("/apis/storage.k8s.io/v1", "storageclasses", "StorageClass", false),
    ("/apis/storage.k8s.io/v1", "csinodes", "CSINode", false),
    ("/apis/storage.k8s.io/v1", "csidrivers", "CSIDriver", false),
    ("/apis/storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", true),
    ("/apis/storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", false),
    ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", false),
    ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", false),
    ("/apis/rbac.authorization.k8s.io/v1", "roles", "Role", true),
    ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", true),
];

/// Returns the kind of a resource by its plural.
pub(super) fn kind(plural: &str) -> &'static str {
    RESOURCES.iter().find(|(_, name, ..)| *name == plural).map_or("Object", |(_, _, kind, _)| kind)
}

fn groups() -> Vec<Value> {
    let paths: BTreeSet<&str> =
        RESOURCES.iter().filter_map(|(path, ..)| path.strip_prefix("/apis/")).collect();
    let mut versions: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for path in paths {
        let (name, number) = path.split_once('/').unwrap_or_default();
        let version = json!({"groupVersion": path, "version": number});
        versions.entry(name).or_default().push(version);
    }
    let groups = versions.into_iter().map(
        |(name, versions)| json!({"name": name, "preferredVersion": versions[0], "versions": versions}),
    );
    groups.collect()
}

/// Answers a call about the server itself; `None` if the call is about objects.
pub(super) fn answer(method: &str, path: &str) -> Option<Response> {
    if method != "GET" {
        return None;
    }
    let body = match path {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups()}),
        "/version" => json!({"major": "1", "minor": "36", "gitVersion": "v1.36.2"}),
        "/readyz" | "/healthz" | "/livez" => json!("ok"),
        _ => {
            let here: Vec<Value> = RESOURCES
                .iter()
                .filter(|(group, ..)| *group == path)
                .map(|(_, plural, kind, namespaced)| {
                    let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
                    json!({"name": plural, "singularName": kind.to_lowercase(), "kind": kind,
                        "namespaced": namespaced, "verbs": verbs})
                })
                .collect();
            if here.is_empty() {
                return None;
            }
            let version = path.trim_start_matches("/apis/").trim_start_matches("/api/");
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
                "resources": here})
        }
    };
    Some(Response { status: 200, body })
}
