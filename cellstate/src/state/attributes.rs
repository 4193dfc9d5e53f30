//! Attributes by which rules select tasks, and an index by attribute.
//!
//! Without an index, each new rule would be compared with every job, and each new job with every rule: with thousands
//! of both, as in a cluster whose services each have a rule of their own, this would take longer than all else.

use crate::state::map::FastMap;
use omega_core::{Labels, Operator, Port, Requirement, Text};
use std::collections::BTreeSet;

/// An attribute of a group's tasks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// A label's key and value.
    Label(Text, Text),
    /// The number of a port.
    Port(u16),
}

impl Attribute {
    /// The attributes of a group's tasks.
    pub fn of(labels: &Labels, ports: &[Port]) -> impl Iterator<Item = Attribute> {
        let label = |(key, value): (&Text, &Text)| Attribute::Label(key.clone(), value.clone());
        let port = |port: &Port| Attribute::Port(port.number);
        labels.iter().map(label).chain(ports.iter().map(port))
    }

    /// The attributes that a requirement allows: a task with at least one of them meets the requirement. `None` if the
    /// requirement does not list allowed values (operator `In`).
    pub fn any_of(requirement: &Requirement) -> Option<Vec<Attribute>> {
        let Requirement { key, operator: Operator::In, values } = requirement else { return None };
        Some(values.iter().map(|value| Attribute::Label(key.clone(), value.clone())).collect())
    }
}

/// Ids by attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct ByAttribute<T>(FastMap<Attribute, BTreeSet<T>>);

impl<T> Default for ByAttribute<T> {
    fn default() -> Self {
        ByAttribute(FastMap::default())
    }
}

impl<T: Copy + Ord> ByAttribute<T> {
    pub fn add(&mut self, attribute: Attribute, id: T) {
        self.0.entry(attribute).or_default().insert(id);
    }

    pub fn remove(&mut self, attribute: &Attribute, id: T) {
        if let Some(ids) = self.0.get_mut(attribute) {
            ids.remove(&id);
            if ids.is_empty() {
                self.0.remove(attribute);
            }
        }
    }

    /// The ids with an attribute, in ascending order.
    pub fn with(&self, attribute: &Attribute) -> impl Iterator<Item = T> + '_ {
        self.0.get(attribute).into_iter().flatten().copied()
    }

    /// Returns the set of attributes that have the fewest ids in total; `None` if `sets` is empty.
    pub fn rarest(&self, sets: Vec<Vec<Attribute>>) -> Option<Vec<Attribute>> {
        let count = |attribute: &Attribute| self.0.get(attribute).map_or(0, BTreeSet::len);
        sets.into_iter().min_by_key(|set| set.iter().map(count).sum::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Tracked, TrackerId};
    use omega_core::LabelSelector;

    fn selects(key: &str, values: &[&str]) -> Requirement {
        let values = values.iter().map(|value| Text::from(*value)).collect();
        Requirement { key: key.into(), operator: Operator::In, values }
    }

    #[test]
    fn the_rarest_of_the_required_attributes_is_found() {
        let mut index = ByAttribute::default();
        for id in 0..10 {
            let name = ["web", "db", "cache"][id as usize % 3];
            let labels = Labels::new([("app", name), ("team", "a")]);
            let ports: Vec<_> = (id == 7).then(|| Port::tcp(80)).into_iter().collect();
            Attribute::of(&labels, &ports)
                .for_each(|attribute| index.add(attribute, TrackerId(id)));
        }
        let found = |tracked: &Tracked| {
            let set = index.rarest(tracked.attributes())?;
            Some(set.iter().flat_map(|one| index.with(one)).map(|id| id.0).collect::<BTreeSet<_>>())
        };
        let labelled = |requirements: &[Requirement]| {
            Tracked::Labels(None, LabelSelector { requirements: requirements.to_vec() })
        };
        let [team, app] = [selects("team", &["a", "b"]), selects("app", &["db", "cache"])];
        assert_eq!(found(&labelled(&[team.clone(), app])), Some([1, 2, 4, 5, 7, 8].into()));
        assert_eq!(found(&labelled(&[selects("app", &["none"]), team])), Some([].into()));
        assert_eq!(found(&Tracked::Port(Port::tcp(80))), Some([7].into()));
        let absent = Requirement { operator: Operator::NotIn, ..selects("app", &["web"]) };
        assert_eq!(found(&labelled(&[absent])), None);
        index.remove(&Attribute::Port(80), TrackerId(7));
        assert_eq!(index.0.len(), 4);
    }
}
