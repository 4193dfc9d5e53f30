//! Selectors by label, for machines and for tasks of other jobs.

use crate::machine::{Labels, Machine};
use crate::text::Text;
use serde::{Deserialize, Serialize};

/// Operator of a requirement on a label's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is absent.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label's value is an integer above the requirement's value.
    Gt,
    /// The label's value is an integer below the requirement's value.
    Lt,
}

/// A condition on the value of one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// The label's key.
    pub key: Text,
    /// Comparison of the label's value.
    pub operator: Operator,
    /// Values to compare with.
    pub values: Vec<Text>,
}

impl Requirement {
    /// A requirement that the label has this value.
    pub fn equals(key: impl Into<Text>, value: impl Into<Text>) -> Requirement {
        Requirement { key: key.into(), operator: Operator::In, values: vec![value.into()] }
    }

    /// Whether a label with this value meets the requirement. `None` means that the label is absent.
    #[must_use]
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let named = |value: &str| self.values.iter().any(|v| **v == *value);
        match (self.operator, value) {
            (Operator::In, Some(value)) => named(value),
            (Operator::NotIn, Some(value)) => !named(value),
            (Operator::Exists, Some(_)) => true,
            (Operator::NotIn | Operator::DoesNotExist, None) => true,
            (Operator::Gt, Some(value)) => self.compares(value, |a, b| a > b),
            (Operator::Lt, Some(value)) => self.compares(value, |a, b| a < b),
            (Operator::DoesNotExist, Some(_))
            | (Operator::In | Operator::Exists | Operator::Gt | Operator::Lt, None) => false,
        }
    }

    /// Compares values as integers. Returns false if one of them is not an integer, or if the requirement has several
    /// values.
    fn compares(&self, value: &str, test: fn(i64, i64) -> bool) -> bool {
        match (value.parse(), self.values.as_slice()) {
            (Ok(value), [bound]) => bound.parse().is_ok_and(|bound| test(value, bound)),
            _ => false,
        }
    }
}

/// Selector of labels that meet every requirement. Without requirements it selects all labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LabelSelector {
    /// The requirements.
    pub requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Whether these labels meet all requirements.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|r| r.accepts(labels.get(&r.key).map(|value| &**value)))
    }
}

/// Selector of machines whose labels and name meet every requirement.
///
/// Without requirements, the selector matches no machine, like an empty node selector term in Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MachineSelector {
    /// Requirements on the machine's labels.
    pub labels: Vec<Requirement>,
    /// Requirements on the machine's name. Their keys are ignored.
    pub names: Vec<Requirement>,
}

impl MachineSelector {
    /// Selector of the machines with this label.
    pub fn label(key: impl Into<Text>, value: impl Into<Text>) -> MachineSelector {
        MachineSelector { labels: vec![Requirement::equals(key, value)], names: Vec::new() }
    }

    /// Whether this machine meets every requirement.
    #[must_use]
    pub fn matches(&self, machine: &Machine) -> bool {
        if self.labels.is_empty() && self.names.is_empty() {
            return false;
        }
        let label = |r: &Requirement| r.accepts(machine.labels.get(&r.key).map(|value| &**value));
        self.labels.iter().all(label) && self.names.iter().all(|r| r.accepts(Some(&machine.name)))
    }
}

/// Tenants whose tasks a selector can match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tenants {
    /// The tenant of the job that has the rule.
    Own,
    /// All tenants.
    Any,
    /// These tenants.
    Named(Vec<Text>),
}

/// Selector of the tasks that a rule counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskSelector {
    /// The tasks of the group that has the rule.
    SameGroup,
    /// The tasks of the job that has the rule.
    SameJob,
    /// The tasks with matching labels, of any job.
    Labels {
        /// Tenants whose tasks are selected.
        tenants: Tenants,
        /// Requirements on the tasks' labels.
        labels: LabelSelector,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amounts::Amounts;

    #[test]
    fn operators_answer_for_present_and_absent_labels() {
        use Operator::*;
        let cases = [
            // Operator, values of the requirement, value of the label, and expected result.
            (In, vec!["a", "b"], Some("b"), true),
            (In, vec!["a"], None, false),
            (NotIn, vec!["a"], Some("b"), true),
            (NotIn, vec!["a"], Some("a"), false),
            (NotIn, vec!["a"], None, true),
            (Exists, vec![], Some(""), true),
            (Exists, vec![], None, false),
            (DoesNotExist, vec![], None, true),
            (DoesNotExist, vec![], Some("x"), false),
            (Gt, vec!["5"], Some("6"), true),
            (Gt, vec!["5"], Some("5"), false),
            (Gt, vec!["5"], Some("six"), false),
            (Gt, vec!["5", "6"], Some("9"), false),
            (Lt, vec!["5"], Some("-1"), true),
            (Lt, vec!["5"], None, false),
        ];
        for (operator, values, label, answer) in cases {
            let values = values.into_iter().map(Into::into).collect();
            let requirement = Requirement { key: "k".into(), operator, values };
            assert_eq!(requirement.accepts(label), answer, "{requirement:?} {label:?}");
        }
    }

    #[test]
    fn a_machine_selector_that_requires_nothing_matches_nothing() {
        let machine = Machine::new("a", Amounts::zero());
        assert!(!MachineSelector::default().matches(&machine));
        let by_name = MachineSelector { labels: vec![], names: vec![Requirement::equals("", "a")] };
        assert!(by_name.matches(&machine));
    }
}
