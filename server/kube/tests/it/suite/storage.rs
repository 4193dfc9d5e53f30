//! Pods with volume claims. The test does the work of the provisioner and of the controller of volumes. A cluster may
//! have that controller too.

use super::cluster::Cluster;
use crate::double::text;
use serde_json::{Value, json};

const VOLUMES: &str = "/api/v1/persistentvolumes";

/// Creates a storage class whose volumes are chosen together with the node. Returns its name.
async fn class(cluster: &Cluster, provisioner: &str) -> String {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": cluster.name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
    cluster.make("/apis/storage.k8s.io/v1/storageclasses", &class).await;
    cluster.name.clone()
}

/// Creates the claim `data`, and the pod `a` that uses it.
async fn claim(cluster: &Cluster, class: &str) -> (String, Value) {
    let claims = cluster.path("/api/v1/namespaces/{}/persistentvolumeclaims");
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = cluster.make(&claims, &claim).await;
    let mut pod = cluster.pod("a", 1);
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    cluster.make(&cluster.pods(), &pod).await;
    (claims, claim)
}

/// A volume of a class that one node reaches.
fn volume(cluster: &Cluster, class: &str, node: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]});
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": cluster.name},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": "Retain", "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}})
}

/// Binds the claim `data` to the volume of the test, as the controller of volumes does.
async fn bind(cluster: &Cluster, claims: &str) {
    let path = format!("{claims}/data");
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": cluster.name}});
    cluster.patch(&path, &bound).await;
    let phase = json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}});
    cluster.patch(&format!("{path}/status"), &phase).await;
    let phase = json!({"status": {"phase": "Bound"}});
    cluster.patch(&format!("{VOLUMES}/{}/status", cluster.name), &phase).await;
}

pub(super) async fn a_claim_names_the_node_for_which_its_volume_is_made(cluster: Cluster) {
    cluster.nodes(2).await;
    let class = class(&cluster, "omega-kube-test.example.com").await;
    let _program = cluster.start(&[]);
    let (claims, claim) = claim(&cluster, &class).await;
    let selected = "/metadata/annotations/volume.kubernetes.io~1selected-node";
    let is_selected = |claim: &Value| !text(claim, selected).is_empty();
    let chosen = cluster.until_one(&claims, "data", is_selected).await;
    let node = text(&chosen, selected);
    let pod = cluster.get(&format!("{}/a", cluster.pods())).await.expect("the pod");
    assert_eq!(text(&pod, "/spec/nodeName"), "", "the claim is not bound");
    let mut volume = volume(&cluster, &class, node);
    volume["spec"]["csi"] =
        json!({"driver": "omega-kube-test.example.com", "volumeHandle": cluster.name});
    volume["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": cluster.name, "name": "data", "uid": claim["metadata"]["uid"]});
    cluster.make(VOLUMES, &volume).await;
    bind(&cluster, &claims).await;
    assert_eq!(cluster.bound("a").await, node);
}

pub(super) async fn a_pod_goes_to_the_node_of_a_free_volume(cluster: Cluster) {
    cluster.nodes(3).await;
    let class = class(&cluster, "kubernetes.io/no-provisioner").await;
    let node = cluster.node_name(1);
    let mut volume = volume(&cluster, &class, &node);
    volume["spec"]["local"] = json!({"path": "/mnt/data"});
    cluster.make(VOLUMES, &volume).await;
    let free = json!({"status": {"phase": "Available"}});
    cluster.patch(&format!("{VOLUMES}/{}/status", cluster.name), &free).await;
    let _program = cluster.start(&[]);
    let (claims, claim) = claim(&cluster, &class).await;
    let is_taken =
        |volume: &Value| volume.pointer("/spec/claimRef/uid") == Some(&claim["metadata"]["uid"]);
    cluster.until_one(VOLUMES, &cluster.name, is_taken).await;
    bind(&cluster, &claims).await;
    assert_eq!(cluster.bound("a").await, node);
}
