//! Text forms of labels, taints, NUMA nodes and topology levels in flags and files.

use omega_core::limits::{CORES_PER_NODE_MAX, NUMA_NODES_MAX};
use omega_core::{NodeCores, Operator, Requirement, Taint, TaintEffect, TopologyLevel};

/// A label: `key=value`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !key.ends_with('!') => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!("{text:?} must be key=value")),
    }
}

/// A condition on a label: `key=value`, `key` (the label exists), or the negation of one of them, `key!=value` or `!key`.
/// A label that is absent meets a negation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) struct Condition {
    key: String,
    /// The value; `None` for any.
    value: Option<String>,
    is_negated: bool,
}

impl Condition {
    /// Whether the condition holds for the value of its key in some labels.
    pub(in crate::commands) fn holds<'a>(
        &self,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> bool {
        let mut labels = labels.into_iter();
        let is_value = |value: &str| self.value.as_ref().is_none_or(|one| one == value);
        labels.any(|(key, value)| key == self.key && is_value(value)) != self.is_negated
    }

    /// The condition as a requirement.
    pub(in crate::commands) fn requirement(&self) -> Requirement {
        let operator = match (&self.value, self.is_negated) {
            (Some(_), false) => Operator::In,
            (Some(_), true) => Operator::NotIn,
            (None, false) => Operator::Exists,
            (None, true) => Operator::DoesNotExist,
        };
        let values = self.value.iter().map(|value| value.as_str().into()).collect();
        Requirement { key: self.key.as_str().into(), operator, values }
    }
}

/// Reads a condition on a label.
pub(in crate::commands) fn condition(text: &str) -> Result<Condition, String> {
    let (key, value, is_negated) = match text.split_once('=') {
        Some((key, value)) => {
            let value = value.strip_prefix('=').unwrap_or(value);
            let (key, is_negated) = key.strip_suffix('!').map_or((key, false), |key| (key, true));
            (key, Some(value.to_owned()), is_negated)
        }
        None => {
            let (key, is_negated) = text.strip_prefix('!').map_or((text, false), |key| (key, true));
            (key, None, is_negated)
        }
    };
    if key.is_empty() || key.contains('!') {
        return Err(format!("{text:?} must be key=value, key!=value, key or !key"));
    }
    Ok(Condition { key: key.to_owned(), value, is_negated })
}

/// A taint: `key=value:NoSchedule`, or without a value `key:NoSchedule`.
pub(in crate::commands) fn taint(text: &str) -> Result<Taint, String> {
    let wrong = || {
        format!(
            "{text:?} must be key=value:EFFECT, such as \
         dedicated=team-a:NoSchedule"
        )
    };
    let (what, effect) = text.rsplit_once(':').ok_or_else(wrong)?;
    let (key, value) = what.split_once('=').unwrap_or((what, ""));
    if key.is_empty() {
        return Err(wrong());
    }
    let effect = match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        other => {
            let message = "is not an effect of a taint: the effects are NoSchedule, PreferNoSchedule \
                 and NoExecute";
            return Err(format!("{other:?} {message}"));
        }
    };
    Ok(Taint { key: key.into(), value: value.into(), effect })
}

/// Text of a taint.
pub(in crate::commands) fn taint_text(taint: &Taint) -> String {
    let effect = match taint.effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    };
    match &*taint.value {
        "" => format!("{}:{effect}", taint.key),
        value => format!("{}={value}:{effect}", taint.key),
    }
}

/// The number of cores of each NUMA node: `16,16`.
pub(crate) fn numa(text: &str) -> Result<NodeCores, String> {
    let count = |text: &str| text.trim().parse().ok().filter(|count| *count <= CORES_PER_NODE_MAX);
    let counts: Option<Vec<u16>> = text.split(',').map(count).collect();
    let nodes = counts.as_deref().and_then(NodeCores::new);
    nodes.ok_or_else(|| {
        format!(
            "{text:?} must be the number of cores of each NUMA node, such as 16,16: at most \
             {NUMA_NODES_MAX} nodes of at most {CORES_PER_NODE_MAX} cores"
        )
    })
}

/// A level of the topology: `machine`, or the key of a label.
pub(in crate::commands) fn level(text: &str) -> Result<TopologyLevel, String> {
    match text {
        "" => Err("a level must be `machine`, or the key of a label such as rack".to_owned()),
        "machine" => Ok(TopologyLevel::Machine),
        key => Ok(TopologyLevel::Label(key.into())),
    }
}

/// A level and a number: `rack:1`.
pub(in crate::commands) fn level_and_skew(text: &str) -> Result<(TopologyLevel, u32), String> {
    let wrong = || format!("{text:?} must be LABEL:SKEW, such as rack:1");
    let (key, skew) = text.rsplit_once(':').ok_or_else(wrong)?;
    let skew = skew.parse().ok().filter(|skew| *skew > 0).ok_or_else(wrong)?;
    Ok((level(key)?, skew))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_written_as_they_are_read() {
        for text in ["a=b:NoSchedule", "a:NoExecute", "a/b=c:d:PreferNoSchedule"] {
            assert_eq!(taint_text(&taint(text).unwrap()), text);
        }
        for text in ["a=b", "=b:NoSchedule", "a=b:noschedule", ""] {
            assert!(taint(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_condition_on_a_label_may_be_negated() {
        let holds = |text: &str, labels: &[(&str, &str)]| {
            condition(text).unwrap().holds(labels.iter().copied())
        };
        for (text, of_a, of_b, of_none) in [
            ("zone=a", true, false, false),
            ("zone!=a", false, true, true),
            ("zone==a", true, false, false),
            ("zone", true, true, false),
            ("!zone", false, false, true),
        ] {
            assert_eq!(holds(text, &[("zone", "a")]), of_a, "{text}");
            assert_eq!(holds(text, &[("zone", "b")]), of_b, "{text}");
            assert_eq!(holds(text, &[("rack", "a")]), of_none, "{text}");
        }
        for wrong in ["", "!", "!=a", "=a", "!a=b", "zone!"] {
            assert!(condition(wrong).is_err(), "{wrong}");
        }
        assert!(label("a!=b").is_err());
        let operator = |text| condition(text).unwrap().requirement().operator;
        assert_eq!(
            (operator("zone"), operator("!zone")),
            (Operator::Exists, Operator::DoesNotExist)
        );
    }

    #[test]
    fn levels_and_labels_say_what_they_expect() {
        assert_eq!(label("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(label("a").is_err() && label("=a").is_err());
        assert_eq!(level_and_skew("rack:2"), Ok((TopologyLevel::Label("rack".into()), 2)));
        assert_eq!(level_and_skew("machine:1"), Ok((TopologyLevel::Machine, 1)));
        assert!(level_and_skew("rack").is_err() && level_and_skew("rack:0").is_err());
        assert!(level_and_skew(":1").is_err());
    }
}
