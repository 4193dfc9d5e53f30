//! Conversion of selectors of labels, nodes and namespaces.

use super::api::{
    Expression, LabelSelector as Labels, Namespace, NodeSelector, NodeSelectorTerm, Operator as Op,
    PodAffinityTerm,
};
use super::map::Map;
use super::notes::Remarks;
use omega_core::{LabelSelector, MachineSelector, Operator, Requirement, Tenants};
use std::collections::BTreeMap;

/// The label that the API server gives every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Converts an expression to a requirement.
fn requirement(expression: &Expression) -> Requirement {
    Requirement {
        key: expression.key.as_str().into(),
        operator: match expression.operator {
            Op::In => Operator::In,
            Op::NotIn => Operator::NotIn,
            Op::Exists => Operator::Exists,
            Op::DoesNotExist => Operator::DoesNotExist,
            Op::Gt => Operator::Gt,
            Op::Lt => Operator::Lt,
        },
        values: expression.values.iter().map(|value| value.as_str().into()).collect(),
    }
}

/// Returns requirements that match objects with all of these labels and values.
fn equal(labels: &Map<String>) -> impl Iterator<Item = Requirement> {
    labels.iter().map(|(key, value)| Requirement::equals(key.as_str(), value.as_str()))
}

/// Converts a label selector; an empty selector matches everything.
pub(super) fn labels(selector: &Labels) -> LabelSelector {
    let expressions = selector.expressions.iter().map(requirement);
    LabelSelector { requirements: equal(&selector.labels).chain(expressions).collect() }
}

/// Converts an optional label selector; `None` matches nothing.
pub fn labels_or_nothing(selector: Option<&Labels>) -> LabelSelector {
    match selector {
        Some(selector) => labels(selector),
        None => LabelSelector {
            requirements: vec![Requirement {
                key: "".into(),
                operator: Operator::In,
                values: Vec::new(),
            }],
        },
    }
}

/// Restricts a selector by the labels of one pod (`own`): for each of these keys, a selected pod must have the same
/// value (`In`), or must not have it (`NotIn`). Keys that are missing in `own` are ignored.
///
/// When a pod is created, the API server writes this restriction into the selector, and rejects selectors that had the
/// key before. The labels of the pod may have changed since, so a restriction that is there is kept.
pub(super) fn narrow(
    selector: &mut LabelSelector,
    keys: &[String],
    operator: Operator,
    own: &Map<String>,
) {
    for key in keys {
        let Some(value) = own.get(key) else { continue };
        let mut known = selector.requirements.iter();
        if known.any(|known| *known.key == **key && known.operator == operator) {
            continue;
        }
        let requirement = Requirement::equals(key.as_str(), value.as_str());
        selector.requirements.push(Requirement { operator, ..requirement });
    }
}

/// The machines that a term matches; `metadata.name` is the only supported field.
pub(super) fn machines(term: &NodeSelectorTerm) -> MachineSelector {
    MachineSelector {
        labels: term.expressions.iter().map(requirement).collect(),
        names: term.fields.iter().map(requirement).collect(),
    }
}

/// Returns the machines that match both a plain node selector and one of the required terms. The selector is added to
/// each term. `None` means no requirement.
pub(super) fn required_machines(
    plain: &Map<String>,
    required: Option<&NodeSelector>,
) -> Option<Vec<MachineSelector>> {
    let Some(required) = required else {
        let all = MachineSelector { labels: equal(plain).collect(), names: Vec::new() };
        return (!plain.is_empty()).then(|| vec![all]);
    };
    // A term without requirements matches nothing. It is removed, because it would match once the plain selector is
    // added.
    let terms = required.terms.iter().map(machines).filter(|term| *term != Default::default());
    let both = |mut term: MachineSelector| {
        term.labels.extend(equal(plain));
        term
    };
    Some(terms.map(both).collect())
}

/// The labels of a namespace, including the label with its name.
fn with_name(name: &str, labels: &Map<String>) -> omega_core::Labels {
    let own = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    own.chain([(NAMESPACE_NAME, name)]).collect()
}

/// The known namespaces with their labels.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    labels: BTreeMap<String, omega_core::Labels>,
    /// Whether the file has namespace objects. Then the labels of all namespaces are known.
    described: bool,
}

impl Namespaces {
    /// Creates the namespaces that a file describes or that its pods name.
    pub(super) fn new<'a>(
        objects: &'a [Namespace],
        others: impl IntoIterator<Item = &'a str>,
    ) -> Namespaces {
        let mut labels = BTreeMap::new();
        for name in others {
            labels.entry(name.to_owned()).or_insert_with(|| with_name(name, &Map::default()));
        }
        for object in objects {
            let name = &object.metadata.name;
            labels.insert(name.clone(), with_name(name, &object.metadata.labels));
        }
        Namespaces { labels, described: !objects.is_empty() }
    }

    /// Adds a namespace, or changes its labels. Returns whether anything changed.
    pub(super) fn set(&mut self, object: &Namespace) -> bool {
        self.described = true;
        let name = &object.metadata.name;
        let new = with_name(name, &object.metadata.labels);
        self.labels.insert(name.clone(), new.clone()).as_ref() != Some(&new)
    }

    /// Removes a namespace. Returns whether the namespace was there.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        self.labels.remove(name).is_some()
    }

    /// The names of all namespaces.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.labels.keys()
    }

    /// Tenants whose pods a term considers.
    pub(super) fn tenants(&self, term: &PodAffinityTerm, remarks: &mut Remarks) -> Tenants {
        let selector = match &term.namespace_selector {
            None if term.namespaces.is_empty() => return Tenants::Own,
            None => None,
            Some(selector) => match labels(selector) {
                all if all.requirements.is_empty() => return Tenants::Any,
                some => Some(some),
            },
        };
        let by_name = |selector: &LabelSelector| {
            selector.requirements.iter().all(|r| &*r.key == NAMESPACE_NAME)
        };
        let mut names: Vec<_> = term.namespaces.iter().map(|name| name.as_str().into()).collect();
        if let Some(selector) = selector {
            if !self.described && !by_name(&selector) {
                remarks.insert(
                    "a namespaceSelector is ignored, because the file has no Namespaces: get it \
                     with `kubectl get nodes,pods,namespaces -A -o json`",
                );
            }
            let selected = self.labels.iter().filter(|(_, labels)| selector.matches(labels));
            names.extend(selected.map(|(name, _)| name.as_str().into()));
        }
        names.sort();
        names.dedup();
        Tenants::Named(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restriction_that_the_server_has_written_is_kept_although_the_label_has_changed() {
        let of = |value: &str| -> Map<String> {
            serde_json::from_value(serde_json::json!({"version": value})).expect("labels")
        };
        for operator in [Operator::In, Operator::NotIn] {
            let mut selector = LabelSelector::default();
            let keys = ["version".to_owned(), "missing".to_owned()];
            narrow(&mut selector, &keys, operator, &of("1"));
            let created = selector.clone();
            assert_eq!(created.requirements.len(), 1);
            narrow(&mut selector, &keys, operator, &of("2"));
            assert_eq!(selector, created);
        }
    }
}
