//! Words for reasons, obstacles and remedies, with the labels that the job names.
//!
//! The schedulers' texts are the same for all jobs. The words here also contain the job's labels, so that a user can
//! see a misspelt label.

use omega_cellstate::View;
use omega_core::{
    MachineSelector, Operator, Reason, Requirement, TaskGroup, TaskRule, TopologyLevel,
    WhenUnsatisfiable,
};
use omega_schedulers::explain::{Obstacle, Remedy, describe, describe_obstacle, describe_remedy};

/// Maximum number of characters of a list of labels. A job may have very many.
const LABELS_MAX: usize = 160;

/// The words for one group.
#[derive(Debug)]
pub(super) struct Named<'a> {
    view: &'a View,
    /// The required labels; empty if there are none.
    required: String,
    /// Labels of the group's rules that at least one machine lacks; empty if there are none.
    lacking: String,
}

impl<'a> Named<'a> {
    pub(super) fn new(group: &TaskGroup, view: &'a View) -> Named<'a> {
        let selectors = group.rules.affinity.required.iter().flatten();
        let required: Vec<String> = selectors.map(selector).collect();
        let has = |row: usize, key: &str| {
            view.machine(row).is_none_or(|machine| machine.labels.get(key).is_some())
        };
        let mut lacking: Vec<&str> = group.rules.tasks.iter().flat_map(labels).collect();
        lacking.retain(|key| !(0..view.rows()).all(|row| has(row, key)));
        lacking.sort_unstable();
        lacking.dedup();
        Named { view, required: short(&required.join(" or ")), lacking: short(&lacking.join(", ")) }
    }

    /// The words for a reason.
    pub(super) fn reason(&self, reason: Reason) -> String {
        let text = describe(reason, self.view.kinds());
        let labels = match reason {
            Reason::AffinityUnmet => &self.required,
            Reason::NoDomain => &self.lacking,
            _ => return text,
        };
        if labels.is_empty() { text } else { format!("{text}: {labels}") }
    }

    /// The words for an obstacle.
    pub(super) fn obstacle(&self, obstacle: &Obstacle) -> String {
        match obstacle {
            Obstacle::Affinity => self.reason(Reason::AffinityUnmet),
            Obstacle::Rule(reason) => self.reason(*reason),
            _ => describe_obstacle(obstacle, self.view.kinds()),
        }
    }

    /// The words for a remedy.
    pub(super) fn remedy(&self, remedy: &Remedy) -> String {
        let text = describe_remedy(remedy, self.view);
        let Remedy::Lift { obstacle, .. } = remedy else { return text };
        let Some((change, effect)) = text.rsplit_once(": ") else { return text };
        match obstacle {
            Obstacle::Affinity if !self.required.is_empty() => {
                format!("{change} ({}): {effect}", self.required)
            }
            Obstacle::Rule(Reason::NoDomain) if !self.lacking.is_empty() => {
                format!("with the label {} on the machines: {effect}", self.lacking)
            }
            _ => text,
        }
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(LABELS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The requirements of a selector, such as `zone=z0, no gpu`.
fn selector(selector: &MachineSelector) -> String {
    let names = selector.names.iter().map(|name| requirement("machine", name));
    let labels = selector.labels.iter().map(|label| requirement(&label.key, label));
    labels.chain(names).collect::<Vec<_>>().join(", ")
}

fn requirement(key: &str, Requirement { operator, values, .. }: &Requirement) -> String {
    let list = values.iter().map(|value| &**value).collect::<Vec<&str>>().join(", ");
    match operator {
        Operator::In if values.len() == 1 => format!("{key}={list}"),
        Operator::In => format!("{key} in ({list})"),
        Operator::NotIn => format!("{key} not in ({list})"),
        Operator::Exists => key.to_owned(),
        Operator::DoesNotExist => format!("no {key}"),
        Operator::Gt => format!("{key} > {list}"),
        Operator::Lt => format!("{key} < {list}"),
    }
}

/// Labels that a rule needs on a machine. The rule may reject a machine that lacks one of them.
fn labels(rule: &TaskRule) -> Vec<&str> {
    let levels: Vec<&TopologyLevel> = match rule {
        TaskRule::Spread(spread) if spread.when == WhenUnsatisfiable::DoNotSchedule => {
            vec![&spread.level]
        }
        TaskRule::Affinity(near) => near.iter().map(|near| &near.level).collect(),
        TaskRule::RuntimeAffinity(near) => vec![&near.level],
        TaskRule::MaxPerDomain { level, .. } | TaskRule::MaxShare { level, .. } => vec![level],
        _ => Vec::new(),
    };
    let mut keys = Vec::new();
    for level in levels {
        if let TopologyLevel::Label(key) = level {
            keys.push(&**key);
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_told_as_users_write_them() {
        let of = |operator, values: &[&str]| Requirement {
            key: "zone".into(),
            operator,
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        let labels = vec![
            of(Operator::In, &["z0"]),
            of(Operator::In, &["z0", "z1"]),
            of(Operator::NotIn, &["z2"]),
            of(Operator::Exists, &[]),
            of(Operator::DoesNotExist, &[]),
            of(Operator::Gt, &["1"]),
            of(Operator::Lt, &["9"]),
        ];
        let names = vec![of(Operator::In, &["m1"])];
        let told = selector(&MachineSelector { labels, names });
        let expected = "zone=z0, zone in (z0, z1), zone not in (z2), zone, no zone, zone > 1, zone < 9, machine=m1";
        assert_eq!(told, expected);
        assert_eq!(short(&"x".repeat(200)).len(), LABELS_MAX + 3);
    }
}
