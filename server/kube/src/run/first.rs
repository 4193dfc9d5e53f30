//! The first lists, from which the cell gets its resource kinds.
//!
//! The last list may arrive late. Until then only the newest form of each object is kept. So the memory is bounded by
//! the size of the lists, however often objects change.

use super::input::Input;
use crate::adapter::storage::{Stored, StoredKind};
use crate::adapter::{Adapter, Settings};
use crate::watch::Event;
use crate::watch::partial::Object;
use omega_workload::kube::api::{DisruptionBudget, Namespace, Node, Pod, PodGroup};
use omega_workload::kube::live::Converter;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first lists that have arrived, with the changes since.
#[derive(Default)]
pub struct First {
    nodes: Newest<Node>,
    pods: Newest<Arc<Pod>>,
    namespaces: Newest<Namespace>,
    budgets: Newest<DisruptionBudget>,
    groups: Newest<PodGroup>,
    /// Whether the server does not serve groups of pods.
    groups_absent: bool,
    storage: BTreeMap<StoredKind, Newest<Stored>>,
}

/// Namespace and name of an object.
type Key = (String, String);

/// An object that is stored under its namespace and name.
trait Keyed {
    fn key(&mut self) -> Key;
}

impl<T: Object> Keyed for T {
    fn key(&mut self) -> Key {
        let metadata = self.metadata();
        (metadata.namespace.clone(), metadata.name.clone())
    }
}

impl Keyed for Stored {
    fn key(&mut self) -> Key {
        let metadata = Stored::metadata(self);
        (metadata.namespace.clone(), metadata.name.clone())
    }
}

/// The newest forms of the objects of one list.
struct Newest<T> {
    objects: BTreeMap<Key, T>,
    /// Version of the list; `None` before the list has arrived.
    listed: Option<String>,
}

impl<T> Default for Newest<T> {
    fn default() -> Newest<T> {
        Newest { objects: BTreeMap::new(), listed: None }
    }
}

impl<T: Keyed> Newest<T> {
    fn take(&mut self, event: Event<T>) {
        match event {
            Event::Listed(all, at) => {
                self.objects = all.into_iter().map(|mut object| (object.key(), object)).collect();
                self.listed = Some(at);
            }
            Event::Changed(mut object) => drop(self.objects.insert(object.key(), object)),
            Event::Deleted(mut object) => drop(self.objects.remove(&object.key())),
        }
    }

    fn into_list(self) -> (Vec<T>, String) {
        (self.objects.into_values().collect(), self.listed.unwrap_or_default())
    }

    /// Returns the list as an event, if it has arrived.
    fn into_event(self) -> Option<Event<T>> {
        let is_listed = self.listed.is_some();
        let (all, at) = self.into_list();
        is_listed.then_some(Event::Listed(all, at))
    }
}

impl First {
    /// Handles a list or an event of a watch.
    pub fn take(&mut self, input: Input) {
        match input {
            Input::Nodes(event) => self.nodes.take(*event),
            Input::Pods(event) => self.pods.take(event),
            Input::Namespaces(event) => self.namespaces.take(event),
            Input::Budgets(event) => self.budgets.take(event),
            Input::Groups(event) => self.groups.take(event),
            Input::GroupsAbsent => self.groups_absent = true,
            Input::Storage(kind, event) => self.storage.entry(kind).or_default().take(event),
            // Before the first decision there are no answers to handle.
            _ => {}
        }
    }

    /// Whether all lists that an adapter needs have arrived.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let Self { nodes, pods, namespaces, .. } = self;
        nodes.listed.is_some() && pods.listed.is_some() && namespaces.listed.is_some()
    }

    /// Returns two values: an adapter that is made from the lists it needs, and the other lists that have arrived.
    ///
    /// # Errors
    /// If two resources of the cluster have the same name, which the API server prevents.
    pub fn adapter(self, settings: Settings) -> Result<(Adapter, Vec<Input>), String> {
        let ((nodes, _), (namespaces, _)) = (self.nodes.into_list(), self.namespaces.into_list());
        let (pods, at) = self.pods.into_list();
        let converter = Converter::new(&nodes, pods.iter().map(|pod| &**pod), &namespaces)
            .map_err(|why| why.of(std::path::Path::new("the cluster")).to_string())?;
        let mut adapter = Adapter::new(converter, settings);
        adapter.nodes_listed(&nodes);
        adapter.pods_listed(pods, &at);
        let mut others: Vec<Input> = Vec::new();
        others.extend(self.budgets.into_event().map(Input::Budgets));
        others.extend(self.groups.into_event().map(Input::Groups));
        others.extend(self.groups_absent.then_some(Input::GroupsAbsent));
        let storage = self.storage.into_iter();
        others
            .extend(storage.filter_map(|(kind, of)| Some(Input::Storage(kind, of.into_event()?))));
        Ok((adapter, others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{PodName, State};
    use std::collections::BTreeSet;

    fn pod(name: &str, version: u32, milli: u32) -> Arc<Pod> {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"t","resourceVersion":"{version}"}},"spec":
                {{"schedulerName":"omega","containers":[{{"resources":{{"requests":{{"cpu":"{milli}m"}}}}}}]}}}}"#
        );
        crate::watch::partial::read(&text).expect("a pod")
    }

    fn name(name: &str) -> PodName {
        PodName { namespace: "t".into(), name: name.into() }
    }

    #[test]
    fn objects_that_change_before_the_last_list_are_kept_once_in_their_newest_form() {
        let mut first = First::default();
        first.take(Input::Pods(Event::Listed(vec![pod("a", 1, 1), pod("gone", 2, 1)], "2".into())));
        first.take(Input::Budgets(Event::Listed(Vec::new(), "2".into())));
        first.take(Input::Storage(StoredKind::Claim, Event::Listed(Vec::new(), "2".into())));
        for version in 3..10_000 {
            first.take(Input::Pods(Event::Changed(pod("a", version, version))));
        }
        first.take(Input::Pods(Event::Changed(pod("new", 10_000, 1))));
        first.take(Input::Pods(Event::Deleted(pod("gone", 10_001, 1))));
        first.take(Input::Nodes(Box::new(Event::Listed(Vec::new(), "1".into()))));
        assert!(!first.is_whole());
        assert_eq!(first.pods.objects.len(), 2, "one form of each pod");
        first.take(Input::Namespaces(Event::Listed(Vec::new(), "1".into())));
        assert!(first.is_whole());
        let scheduler_names = BTreeSet::from(["omega".to_owned()]);
        let settings = Settings {
            scheduler_names,
            request_timeout_ms: 1,
            preempts: false,
            repairs: false,
            binds: true,
        };
        let (adapter, others) = first.adapter(settings).expect("an adapter");
        assert_eq!(adapter.pod(&name("a")).expect("a pod").metadata.version, "9999");
        assert_eq!(adapter.state(&name("new")), Some(&State::Pending));
        assert_eq!(adapter.state(&name("gone")), None);
        let listed = |input: &Input| {
            matches!(
                input,
                Input::Budgets(Event::Listed(..)) | Input::Storage(_, Event::Listed(..))
            )
        };
        assert_eq!(others.iter().filter(|input| listed(input)).count(), 2);
    }
}
