//! The plugins of a profile that are called before and after a placement decision.

use crate::framework::points::{Admit, Order, Permit, PostBind, PostFilter, PreBind, Reserve};
use std::sync::Arc;

/// Plugins by extension point, in the order of their calls.
#[derive(Default)]
pub(crate) struct Chain {
    pub(crate) admit: Vec<Box<dyn Admit>>,
    pub(crate) order: Option<Arc<dyn Order>>,
    pub(crate) post_filter: Vec<Box<dyn PostFilter>>,
    pub(crate) reserve: Vec<Box<dyn Reserve>>,
    pub(crate) permit: Vec<Box<dyn Permit>>,
    pub(crate) pre_bind: Vec<Box<dyn PreBind>>,
    pub(crate) post_bind: Vec<Box<dyn PostBind>>,
}

impl Chain {
    /// Whether any plugin is called between the decision and the commit.
    #[inline]
    pub(crate) fn guards(&self) -> bool {
        !(self.reserve.is_empty() && self.permit.is_empty() && self.pre_bind.is_empty())
    }

    /// Whether any plugin is called after a claim is accepted or rejected.
    #[inline]
    pub(crate) fn follows(&self) -> bool {
        !(self.reserve.is_empty() && self.post_bind.is_empty())
    }

    /// The names of all plugins, each with the name of its extension point.
    pub(crate) fn names(&self) -> Vec<(&'static str, &'static str)> {
        let mut names = Vec::new();
        let mut add = |point, name| names.push((point, name));
        self.admit.iter().for_each(|plugin| add("admit", plugin.name()));
        self.order.iter().for_each(|plugin| add("order", plugin.name()));
        self.post_filter.iter().for_each(|plugin| add("post_filter", plugin.name()));
        self.reserve.iter().for_each(|plugin| add("reserve", plugin.name()));
        self.permit.iter().for_each(|plugin| add("permit", plugin.name()));
        self.pre_bind.iter().for_each(|plugin| add("pre_bind", plugin.name()));
        self.post_bind.iter().for_each(|plugin| add("post_bind", plugin.name()));
        names
    }

    /// The names of the `Reserve` plugins.
    pub(crate) fn reserves(&self) -> impl Iterator<Item = &'static str> {
        self.reserve.iter().map(|plugin| plugin.name())
    }
}
