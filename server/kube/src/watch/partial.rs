//! Partial reading of objects that cannot be parsed.
//!
//! A newer server may send a value that this program cannot parse. The object must not be dropped: a bound pod, for
//! example, uses resources in any case. So only the object's head is read, and [`Metadata::unreadable`] has the error.

use omega_workload::kube::api::{
    CsiDriverObject, CsiNode, CsiStorageCapacity, DisruptionBudget, Metadata, Namespace, Node,
    PersistentVolume, PersistentVolumeClaim, Pod, PodGroup, StorageClass, VolumeAttachment,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A type of object that is watched.
pub trait Object: DeserializeOwned + Send {
    /// JSON pointers of the fields that are still read if an object cannot be parsed.
    const KEPT: &'static [&'static str];

    /// Returns the metadata.
    fn metadata(&mut self) -> &mut Metadata;
}

impl Object for Arc<Pod> {
    const KEPT: &'static [&'static str] = Pod::KEPT;

    fn metadata(&mut self) -> &mut Metadata {
        &mut Arc::make_mut(self).metadata
    }
}

macro_rules! objects {
    ($($object:ty: $kept:expr,)*) => {$(
        impl Object for $object {
            const KEPT: &'static [&'static str] = $kept;

            fn metadata(&mut self) -> &mut Metadata {
                &mut self.metadata
            }
        }
    )*};
}

objects! {
    Pod: &["/spec/nodeName", "/spec/schedulerName", "/spec/priority", "/status/phase"],
    Node: &[],
    Namespace: &["/metadata/labels"],
    DisruptionBudget: &["/spec/selector"],
    PodGroup: &[],
    PersistentVolumeClaim: &[],
    PersistentVolume: &[],
    StorageClass: &[],
    CsiNode: &[],
    CsiDriverObject: &[],
    CsiStorageCapacity: &[],
    VolumeAttachment: &[],
}

/// Maximum length of an object's name.
const NAME_MAX: usize = 253;

/// The fields of the head of every object.
const HEAD: [&str; 5] = [
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/deletionTimestamp",
];

/// Reads an object. If the object cannot be parsed, reads only its head and the fields in `KEPT`. Returns `None` if not
/// even the head can be read.
pub fn read<T: Object>(text: &str) -> Option<T> {
    let why = match serde_json::from_str::<T>(text) {
        Ok(object) => return named(object),
        Err(why) => why.to_string(),
    };
    let kept = |more: &[&str]| {
        let mut part = Value::Object(serde_json::Map::new());
        for path in HEAD.iter().chain(more) {
            if let Some(value) = field(text, path) {
                set(&mut part, path, value);
            }
        }
        serde_json::from_value::<T>(part).ok()
    };
    let object = kept(T::KEPT).or_else(|| kept(&[])).and_then(named);
    let Some(mut object) = object else {
        let head: String = text.chars().take(200).collect();
        tracing::error!(%why, object = %head, "an object has fields that omega-kube does not \
             understand, and no name: it is left out");
        return None;
    };
    object.metadata().unreadable = Some(why);
    Some(object)
}

/// Returns the value at a JSON pointer; `None` if there is none, or if the value is nested too deeply. Other fields are
/// skipped without recursion, so their depth does not matter.
fn field(text: &str, path: &str) -> Option<Value> {
    let mut place = text;
    for field in path.trim_start_matches('/').split('/') {
        let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(place).ok()?;
        place = fields.get(field)?.get();
    }
    serde_json::from_str(place).ok()
}

/// Returns the object if its name and namespace are valid; otherwise `None`. Both become part of request paths.
fn named<T: Object>(mut object: T) -> Option<T> {
    let Metadata { name, namespace, .. } = object.metadata();
    if is_name(name) && (namespace.is_empty() || is_name(namespace)) {
        return Some(object);
    }
    let head = |text: &str| text.chars().take(NAME_MAX).collect::<String>();
    tracing::error!(name = ?head(name), namespace = ?head(namespace), "no object has such a name; it is left out");
    None
}

/// Whether a text may be the name of an object. Kubernetes allows lower-case letters, digits, `-` and `.`. Old types of
/// objects allow some more characters.
fn is_name(text: &str) -> bool {
    let may = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(may) && !text.starts_with('.')
}

/// Sets the value at a JSON pointer of at least two fields.
fn set(into: &mut Value, path: &str, value: Value) {
    let mut place = into;
    for field in path.trim_start_matches('/').split('/') {
        place = &mut place[field];
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_pod_that_is_not_understood_the_head_is_read() {
        let text = r#"{"metadata":{"name":"a","namespace":"t","uid":"u","resourceVersion":"7","labels":{"x":3}},
            "spec":{"nodeName":"n","containers":[{"ports":[{"hostPort":80,"protocol":"QUIC"}]}]},
            "status":{"phase":"Running"}}"#;
        let pod: Pod = read(text).expect("its head");
        assert!(pod.metadata.unreadable.is_some());
        assert_eq!((pod.metadata.name.as_str(), pod.metadata.uid.as_str()), ("a", "u"));
        assert_eq!((pod.spec.node_name.as_str(), pod.status.phase.as_str()), ("n", "Running"));
        assert!(read::<Pod>(r#"{"spec":{"priority":"high"}}"#).is_none(), "it has no name");
        let whole: Pod = read(r#"{"metadata":{"name":"a"}}"#).expect("a pod");
        assert_eq!(whole.metadata.unreadable, None);
    }

    #[test]
    fn of_a_pod_that_is_nested_too_deep_the_head_is_read() {
        let deep = |levels| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        for levels in [129, 100_000] {
            let text = format!(
                r#"{{"metadata":{{"name":"a","namespace":"t","labels":{{"x":{0}}}}},"spec":{{"nodeName":"n","x":{0}}}}}"#,
                deep(levels)
            );
            let pod: Pod = read(&text).expect("its head");
            assert!(pod.metadata.unreadable.is_some());
            assert_eq!((pod.metadata.name.as_str(), pod.spec.node_name.as_str()), ("a", "n"));
        }
        let text = format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"nodeName":{}}}}}"#, deep(200));
        let pod: Pod = read(&text).expect("its name");
        assert_eq!((pod.metadata.name.as_str(), pod.spec.node_name.as_str()), ("a", ""));
    }
}
