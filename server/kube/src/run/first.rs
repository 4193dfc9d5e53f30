//! The first lists, from which the cell gets its resource kinds. Events that arrive before the last of the lists wait.

use super::input::Input;
use crate::adapter::{Adapter, Settings};
use crate::watch::Event;
use omega_workload::kube::api::{Namespace, Node, Pod};
use omega_workload::kube::live::Converter;
use std::sync::Arc;

/// The first lists that have arrived.
#[derive(Default)]
pub struct First {
    nodes: Option<Vec<Node>>,
    pods: Option<(Vec<Arc<Pod>>, String)>,
    namespaces: Option<Vec<Namespace>>,
    /// Events that arrived after the list of their own kind, but before the other lists.
    later: Vec<Input>,
}

impl First {
    /// Handles a list or an event of a watch.
    pub fn take(&mut self, input: Input) {
        match input {
            Input::Nodes(event) => match *event {
                Event::Listed(nodes, _) if self.nodes.is_none() => self.nodes = Some(nodes),
                event => self.later.push(Input::Nodes(Box::new(event))),
            },
            Input::Pods(Event::Listed(pods, at)) if self.pods.is_none() => {
                self.pods = Some((pods, at));
            }
            Input::Namespaces(Event::Listed(all, _)) if self.namespaces.is_none() => {
                self.namespaces = Some(all);
            }
            input => self.later.push(input),
        }
    }

    /// Whether all lists have arrived.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.nodes.is_some() && self.pods.is_some() && self.namespaces.is_some()
    }

    /// Returns an adapter made from the lists, and the events that arrived after them.
    ///
    /// # Errors
    /// If the cluster has more resources than a cell can have kinds.
    pub fn adapter(self, settings: Settings) -> Result<(Adapter, Vec<Input>), String> {
        let (nodes, namespaces) =
            (self.nodes.unwrap_or_default(), self.namespaces.unwrap_or_default());
        let (pods, at) = self.pods.unwrap_or_default();
        let converter = Converter::new(&nodes, pods.iter().map(|pod| &**pod), &namespaces)
            .map_err(|why| why.of(std::path::Path::new("the cluster")).to_string())?;
        let mut adapter = Adapter::new(converter, settings);
        adapter.nodes_listed(&nodes);
        adapter.pods_listed(pods, &at);
        Ok((adapter, self.later))
    }
}
