//! The plugins of a profile that are called before and after a placement decision.

use crate::disruption::DisruptionBudget;
use crate::points::{Admit, Order, Permit, PostBind, PostFilter, PreBind, Reserve};
use crate::profile::Profile;
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
}

impl Profile {
    /// The names of the `Reserve` plugins.
    pub(crate) fn reserves(&self) -> impl Iterator<Item = &'static str> {
        self.chain.reserve.iter().map(|plugin| plugin.name())
    }

    /// Returns `self` with one more admission plugin, called after the others.
    #[must_use]
    pub fn with_admit(mut self, plugin: impl Admit + 'static) -> Profile {
        self.chain.admit.push(Box::new(plugin));
        self
    }

    /// Returns `self` with this order of the queue instead of the present one.
    #[must_use]
    pub fn with_order(mut self, plugin: impl Order + 'static) -> Profile {
        self.chain.order = Some(Arc::new(plugin));
        self
    }

    /// Returns `self` with one more `PostFilter` plugin, called after the others.
    #[must_use]
    pub fn with_post_filter(mut self, plugin: impl PostFilter + 'static) -> Profile {
        self.chain.post_filter.push(Box::new(plugin));
        self
    }

    /// Returns `self` with this `PostFilter` plugin. It replaces the plugin with the same name; if there is none,
    /// it is called after the others.
    #[must_use]
    pub fn with_post_filter_replaced(self, plugin: impl PostFilter + 'static) -> Profile {
        let name = plugin.name();
        self.without_post_filter(name).with_post_filter(plugin)
    }

    /// Returns `self` without the `PostFilter` plugins that have this name.
    #[must_use]
    pub fn without_post_filter(mut self, name: &str) -> Profile {
        self.chain.post_filter.retain(|plugin| plugin.name() != name);
        self
    }

    /// Returns `self` with disruption budgets, which the profile's plugins respect when they evict.
    #[must_use]
    pub fn with_budgets(mut self, budgets: &[DisruptionBudget]) -> Profile {
        self.chain.post_filter.iter_mut().for_each(|plugin| plugin.protect(budgets));
        self
    }

    /// The names of the `PostFilter` plugins, which make room, in the order of their calls.
    pub fn post_filters(&self) -> impl Iterator<Item = &'static str> {
        self.chain.post_filter.iter().map(|plugin| plugin.name())
    }

    /// Returns `self` with one more `Reserve` plugin, called after the others.
    #[must_use]
    pub fn with_reserve(mut self, plugin: impl Reserve + 'static) -> Profile {
        self.chain.reserve.push(Box::new(plugin));
        self
    }

    /// Returns `self` with one more `Permit` plugin, called after the others.
    #[must_use]
    pub fn with_permit(mut self, plugin: impl Permit + 'static) -> Profile {
        self.chain.permit.push(Box::new(plugin));
        self
    }

    /// Returns `self` with one more `PreBind` plugin, after the others.
    #[must_use]
    pub fn with_pre_bind(mut self, plugin: impl PreBind + 'static) -> Profile {
        self.chain.pre_bind.push(Box::new(plugin));
        self
    }

    /// Returns `self` with one more `PostBind` plugin, after the others.
    #[must_use]
    pub fn with_post_bind(mut self, plugin: impl PostBind + 'static) -> Profile {
        self.chain.post_bind.push(Box::new(plugin));
        self
    }
}
