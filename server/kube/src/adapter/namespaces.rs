//! Labels of namespaces, to which `namespaceSelector` refers.

use super::{Adapter, PodName};
use omega_workload::kube::api::Namespace;

impl Adapter {
    /// Handles a namespace that is new or has changed.
    pub fn namespace_changed(&mut self, namespace: &Namespace) {
        if self.converter.namespace_changed(namespace) {
            self.select_again();
        }
    }

    /// Handles the deletion of a namespace.
    pub fn namespace_deleted(&mut self, name: &str) {
        if self.converter.namespace_deleted(name) {
            self.select_again();
        }
    }

    /// Handles a list of all namespaces.
    pub fn namespaces_listed(&mut self, all: &[Namespace]) {
        if self.converter.namespaces_listed(all) {
            self.select_again();
        }
    }

    /// Updates the jobs of pods whose rules depend on labels of namespaces. If the binding of a pod is in flight, its
    /// job is updated later, when the watch reports the pod as bound.
    fn select_again(&mut self) {
        let pods: Vec<PodName> = self.selecting.iter().cloned().collect();
        pods.iter().for_each(|pod| self.settle(pod));
    }
}
