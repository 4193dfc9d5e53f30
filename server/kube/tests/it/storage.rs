//! Storage objects of the double, and the work of the volume controllers on them.

use crate::double::{Double, VOLUMES, text};
use serde_json::{Value, json};

/// Creates an object under the name that it contains.
pub(crate) fn make(server: &mut Double, path: &str, object: &Value) {
    let answer = server.call("POST", path, object);
    assert_eq!(answer.status, 201, "{}", answer.body);
}

pub(crate) fn class(server: &mut Double, name: &str, mode: &str, provisioner: &str) {
    let object =
        json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
    make(server, "/apis/storage.k8s.io/v1/storageclasses", &object);
}

pub(crate) fn claim(server: &mut Double, name: &str, class: &str, mode: &str) {
    let object = json!({"metadata": {"name": name}, "spec": {"accessModes": [mode],
        "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}}});
    make(server, "/api/v1/namespaces/t/persistentvolumeclaims", &object);
}

/// A volume that one node reaches.
pub(crate) fn volume(server: &mut Double, name: &str, class: &str, node: &str) {
    let object = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"], "storageClassName": class,
        "csi": {"driver": "csi.example.com"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "host", "operator": "In", "values": [node]}]}]}}},
        "status": {"phase": "Available"}});
    make(server, VOLUMES, &object);
}

/// Binds a claim to a volume, as the controller of volumes does.
pub(crate) fn bind(server: &mut Double, claim: &str, volume: &str) {
    let of = json!({"spec": {"claimRef": {"namespace": "t", "name": claim}}, "status": {"phase": "Bound"}});
    server.call("PATCH", &format!("{VOLUMES}/{volume}"), &of);
    let path = format!("/api/v1/namespaces/t/persistentvolumeclaims/{claim}");
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": volume}});
    assert_eq!(server.call("PATCH", &path, &bound).status, 200);
}

/// Makes a volume for the node that the claim names, and binds it.
pub(crate) fn provision(server: &mut Double, claim: &str) {
    let path = format!("/api/v1/namespaces/t/persistentvolumeclaims/{claim}");
    let object = server.call("GET", &path, &Value::Null).body;
    let node = object["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str();
    let name = format!("pvc-{claim}");
    volume(server, &name, text(&object, "/spec/storageClassName"), node.expect("a node"));
    bind(server, claim, &name);
}

pub(crate) fn pod_spec(claims: &[&str]) -> Value {
    let volumes = claims
        .iter()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    json!({"schedulerName": "omega", "volumes": volumes.collect::<Vec<_>>(), "containers": [
        {"name": "c", "resources": {"requests": {"cpu": "1"}}}]})
}
