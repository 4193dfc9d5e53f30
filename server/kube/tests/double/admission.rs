//! Admission: objects that are rejected, and fields that the server adds to new objects.

use super::{
    CLAIMS, Double, GROUPS, NAMESPACES, NODES, PODS, Response, Target, VOLUMES, failure, text,
};
use serde_json::{Value, json};

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const ACCOUNTS: &str = "/api/v1/serviceaccounts";

/// Plugins of a cluster that most tests do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plugin {
    /// Namespaces stay until they are finalized.
    NamespaceLifecycle,
    /// Groups of pods stay until their finalizers are removed.
    PodGroupProtection,
    /// Pods must not give their priority as a number.
    Priority,
    /// Pods are rejected in a namespace without the service account `default`.
    ServiceAccount,
    /// Claims and volumes stay until their finalizers are removed.
    StorageObjectInUseProtection,
    /// New nodes have the taint of a node that is not ready.
    TaintNodesByCondition,
}

/// The plugins of a cluster.
pub(crate) const OF_A_CLUSTER: [Plugin; 6] = [
    Plugin::NamespaceLifecycle,
    Plugin::PodGroupProtection,
    Plugin::Priority,
    Plugin::ServiceAccount,
    Plugin::StorageObjectInUseProtection,
    Plugin::TaintNodesByCondition,
];

impl Double {
    fn has(&self, plugin: Plugin) -> bool {
        self.plugins.contains(&plugin)
    }

    /// Rejects objects that validation or admission would reject.
    pub(super) fn rejection(&self, target: &Target, object: &Value) -> Option<Response> {
        let name = text(object, "/metadata/name");
        if target.resource.ends_with("/events") && text(object, "/reportingController").is_empty() {
            let message = format!(
                "Event \"{name}\" is invalid: [reportingController: Required value, reportingController: Invalid \
                 value: \"\": name part must be non-empty"
            );
            return Some(failure(422, Some("Invalid"), message));
        }
        let why =
            if target.resource == PODS { self.objection(target, object)? } else { return None };
        let message = format!("pods \"{name}\" is forbidden: {why}");
        Some(failure(403, Some("Forbidden"), message))
    }

    /// Returns the reason for which a pod is rejected, if there is one.
    fn objection(&self, target: &Target, pod: &Value) -> Option<String> {
        let (class, namespace) = (text(pod, "/spec/priorityClassName"), &target.namespace);
        if !class.is_empty() && !class.starts_with("system-") && self.class(class).is_none() {
            return Some(format!("no PriorityClass with name {class} was found"));
        }
        let computed = self.class(class).map_or(json!(0), |class| class["value"].clone());
        let given = pod.pointer("/spec/priority");
        if let Some(given) = given.filter(|given| **given != computed && self.has(Plugin::Priority))
        {
            return Some(format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission \
                 controller computed {computed} from the given PriorityClass name"
            ));
        }
        let mut accounts = self.all(ACCOUNTS);
        let is_default = |account: &Value| {
            text(account, "/metadata/namespace") == *namespace
                && text(account, "/metadata/name") == "default"
        };
        if self.has(Plugin::ServiceAccount) && !accounts.any(|account| is_default(account)) {
            return Some(format!(
                "error looking up service account {namespace}/default: serviceaccount \"default\" not found"
            ));
        }
        None
    }

    fn class(&self, name: &str) -> Option<&Value> {
        self.all(CLASSES).find(|class| text(class, "/metadata/name") == name).map(|class| &**class)
    }

    /// Adds the fields that the server adds to a new object.
    pub(super) fn complete(&self, target: &Target, object: &mut Value) {
        match target.resource.as_str() {
            PODS => self.complete_pod(object),
            NODES if self.has(Plugin::TaintNodesByCondition) => {
                let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
                match object.pointer_mut("/spec/taints").and_then(Value::as_array_mut) {
                    Some(taints) => taints.push(taint),
                    None => object["spec"]["taints"] = json!([taint]),
                }
            }
            CLAIMS | VOLUMES => self.complete_storage(target, object),
            GROUPS if self.has(Plugin::PodGroupProtection) => {
                let finalizer = "scheduling.k8s.io/podgroup-protection";
                object["metadata"]["finalizers"] = json!([finalizer]);
            }
            NAMESPACES if self.has(Plugin::NamespaceLifecycle) => {
                object["spec"]["finalizers"] = json!(["kubernetes"]);
            }
            _ => {}
        }
    }

    fn complete_storage(&self, target: &Target, object: &mut Value) {
        if object.pointer("/status/phase").is_none() {
            object["status"]["phase"] = "Pending".into();
        }
        if self.has(Plugin::StorageObjectInUseProtection) {
            let kind = if target.resource == CLAIMS { "pvc" } else { "pv" };
            object["metadata"]["finalizers"] = json!([format!("kubernetes.io/{kind}-protection")]);
        }
    }

    fn complete_pod(&self, pod: &mut Value) {
        if pod.pointer("/status/phase").is_none() {
            pod["status"]["phase"] = "Pending".into();
        }
        if text(pod, "/spec/schedulerName").is_empty() {
            pod["spec"]["schedulerName"] = "default-scheduler".into();
        }
        if let Some(class) = self.class(text(pod, "/spec/priorityClassName"))
            && class["value"].is_number()
            && pod.pointer("/spec/priority").is_none()
        {
            pod["spec"]["priority"] = class["value"].clone();
            let policy = class.get("preemptionPolicy").cloned();
            pod["spec"]["preemptionPolicy"] =
                policy.unwrap_or_else(|| "PreemptLowerPriority".into());
        }
        self.copy_topology(pod);
    }
}
