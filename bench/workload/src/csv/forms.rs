//! Parsers of the fields of the tables; the parent module describes their forms.
//!
//! Each function parses one form. Its error is half a sentence that describes what is wrong with the text.

use crate::text::amount::{Amount, AmountError};
use crate::text::decimal::{Decimal, DecimalError, Rounding};
use omega_core::limits::{AMOUNT_MAX, LABELS_MAX, RULES_PER_GROUP_MAX};
use omega_core::text::check_name;
use omega_core::{
    Operator, Port, Protocol, Requirement, Spread, Taint, TaintEffect, TaskSelector, Text,
    Toleration, TolerationOperator, TopologyLevel, Unit, WhenUnsatisfiable,
};

/// Reads a name by the cell's rule.
pub(super) fn name(text: &str) -> Result<Text, String> {
    check_name(text).map(|()| text.into()).map_err(|flaw| flaw.to_string())
}

/// Parses bytes with an optional unit.
pub(crate) fn bytes(text: &str, rounding: Rounding) -> Result<u64, String> {
    let amount: Amount = text.parse().map_err(|error: AmountError| error.to_string())?;
    match amount.rounded(Unit::Bytes, rounding).map_err(|error| error.to_string())? {
        amount if amount <= AMOUNT_MAX => Ok(amount),
        _ => Err(format!("{text:?} is too large: at most 2^50 bytes are allowed")),
    }
}

/// Parses seconds, and returns milliseconds.
pub(super) fn seconds(text: &str) -> Result<u64, String> {
    if Decimal::parse(text) == Err(DecimalError::NotANumber) {
        return Err(format!("{text:?} must be a number of seconds, such as 90"));
    }
    scaled(text, text, 1000, Rounding::Nearest)
}

/// Computes `number` times `unit`; `text` is the user's text, for errors.
fn scaled(text: &str, number: &str, unit: u64, rounding: Rounding) -> Result<u64, String> {
    let decimal = Decimal::parse(number).map_err(|error| format!("{text:?} {error}"))?;
    match decimal.times(unit, rounding) {
        Some(amount) if amount <= AMOUNT_MAX => Ok(amount),
        _ => Err(format!("{text:?} is too large: at most 2^50 milliseconds are allowed")),
    }
}

/// Parses a list of items separated by semicolons, each by the function `read`.
pub(super) fn list<T>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let items: Vec<&str> = text.split(';').map(str::trim).collect();
    if items.len() > RULES_PER_GROUP_MAX {
        return Err(format!(
            "has {} items: at most {RULES_PER_GROUP_MAX} are allowed",
            items.len()
        ));
    }
    if items.contains(&"") {
        return Err(format!("{text:?} has an empty item"));
    }
    items.into_iter().map(read).collect()
}

/// Parses `KEY=VALUE;KEY=VALUE` with different keys.
pub(super) fn labels(text: &str) -> Result<Vec<(Text, Text)>, String> {
    const { assert!(RULES_PER_GROUP_MAX <= LABELS_MAX) };
    let labels = list(text, |item| match item.split_once('=') {
        Some((key, value)) => Ok((name(key.trim())?, label_value(item, value)?)),
        None => Err(format!("{item:?} is not a label: it must be KEY=VALUE")),
    })?;
    for (i, (key, _)) in labels.iter().enumerate() {
        if labels[..i].iter().any(|(earlier, _)| earlier == key) {
            return Err(format!("the label {key:?} is given twice"));
        }
    }
    Ok(labels)
}

/// Parses the value of a label in `item`. Characters that separate items in other tools are errors, because they mean
/// that the item was not written as one label.
fn label_value(item: &str, value: &str) -> Result<Text, String> {
    match value.chars().find(|c| ['=', ',', '|'].contains(c)) {
        None => Ok(value.trim().into()),
        Some(sign) => Err(format!(
            "{item:?} has {sign:?} in a label's value, which must not contain '=', ',' or '|': \
             separate items by ';', as in KEY=VALUE;KEY=VALUE"
        )),
    }
}

/// Parses the key of a requirement; `text` is the requirement. Characters of operators are errors, because they mean
/// that the requirement was not written in one of the forms.
fn required_key(text: &str, key: &str) -> Result<Text, String> {
    match key.chars().find(|c| ['=', '<', '>', '!', '|'].contains(c)) {
        None => name(key.trim()),
        Some(sign) => Err(format!(
            "{text:?} has {sign:?} in a key, which must not contain '=', '<', '>', '!' or '|': \
             separate requirements by ';'"
        )),
    }
}

/// Parses a value of a requirement; `text` is the requirement.
fn required_value(text: &str, value: &str) -> Result<Text, String> {
    match value.trim() {
        "" => {
            Err(format!("{text:?} has an empty value: write a value, `KEY exists` or `KEY absent`"))
        }
        value => match value.chars().find(|c| ['=', ',', '|'].contains(c)) {
            None => Ok(value.into()),
            Some(sign) => Err(format!(
                "{text:?} has {sign:?} in a value, which must not contain '=', ',' or '|': write \
                 KEY=VALUE, or KEY in A|B for several values, and separate requirements by ';'"
            )),
        },
    }
}

/// Parses `KEY=VALUE:EFFECT` or `KEY:EFFECT`.
pub(super) fn taint(text: &str) -> Result<Taint, String> {
    let error = || {
        format!(
            "{text:?} is not a taint: it must be KEY:EFFECT or KEY=VALUE:EFFECT, \
         with the effect NoSchedule, PreferNoSchedule or NoExecute"
        )
    };
    let (mark, word) = text.rsplit_once(':').ok_or_else(error)?;
    let (key, value) = mark.split_once('=').unwrap_or((mark, ""));
    Ok(Taint { key: name(key)?, value: value.into(), effect: effect(word).ok_or_else(error)? })
}

/// Parses `KEY`, `KEY=VALUE`, either of them with `:EFFECT`, or `*`.
pub(super) fn toleration(text: &str) -> Result<Toleration, String> {
    let operator = TolerationOperator::Exists;
    if text == "*" {
        return Ok(Toleration { key: None, operator, value: "".into(), effect: None });
    }
    let (mark, effect) = match text.rsplit_once(':') {
        None => (text, None),
        Some((mark, word)) => match effect(word) {
            Some(effect) => (mark, Some(effect)),
            None => {
                return Err(format!(
                    "{text:?} is not a toleration: its effect must be \
                 NoSchedule, PreferNoSchedule or NoExecute, as in KEY=VALUE:NoSchedule"
                ));
            }
        },
    };
    let (key, value, operator) = match mark.split_once('=') {
        Some((key, value)) => (key, value, TolerationOperator::Equal),
        None => (mark, "", operator),
    };
    Ok(Toleration { key: Some(name(key)?), operator, value: value.into(), effect })
}

fn effect(word: &str) -> Option<TaintEffect> {
    match word {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}

/// Parses one condition on a machine's labels.
pub(super) fn requirement(text: &str) -> Result<Requirement, String> {
    const FORMS: [(&str, Operator); 8] = [
        (" notin ", Operator::NotIn),
        (" in ", Operator::In),
        ("!=", Operator::NotIn),
        (">=", Operator::Gt),
        ("<=", Operator::Lt),
        ("=", Operator::In),
        (">", Operator::Gt),
        ("<", Operator::Lt),
    ];
    let no_requirement = || {
        format!(
            "{text:?} is not a requirement: it must be such as KEY=VALUE, \
         KEY in A|B, KEY>NUMBER or KEY exists"
        )
    };
    for (word, operator) in [(" exists", Operator::Exists), (" absent", Operator::DoesNotExist)] {
        if let Some(key) = text.strip_suffix(word) {
            return Ok(Requirement { key: required_key(text, key)?, operator, values: Vec::new() });
        }
    }
    let (sign, operator) =
        *FORMS.iter().find(|(sign, _)| text.contains(sign)).ok_or_else(no_requirement)?;
    let (key, rest) = text.split_once(sign).ok_or_else(no_requirement)?;
    let number = || {
        let no_number = || format!("{text:?} must compare with a whole number, such as KEY>5");
        required_value(text, rest)?.parse::<i64>().map_err(|_| no_number())
    };
    let bound = |number: Option<i64>| match number {
        Some(number) => Ok(vec![number.to_string().into()]),
        None => Err(format!("{text:?} holds for all whole numbers: write `KEY exists`")),
    };
    let values: Vec<Text> = match sign {
        " in " | " notin " => {
            rest.split('|').map(|value| required_value(text, value)).collect::<Result<_, _>>()?
        }
        ">" | "<" => vec![number()?.to_string().into()],
        ">=" => bound(number()?.checked_sub(1))?,
        "<=" => bound(number()?.checked_add(1))?,
        _ => vec![required_value(text, rest)?],
    };
    Ok(Requirement { key: required_key(text, key)?, operator, values })
}

/// Parses `machine`, or the key of a label.
pub(super) fn level(text: &str) -> Result<TopologyLevel, String> {
    match text {
        "machine" => Ok(TopologyLevel::Machine),
        key => Ok(TopologyLevel::Label(name(key)?)),
    }
}

/// Parses `LEVEL:SKEW` or `LEVEL:SKEW:soft`, for a spread of the job's tasks.
pub(super) fn spread(text: &str) -> Result<Spread, String> {
    let error = || {
        format!(
            "{text:?} is not a spread: it must be LEVEL:SKEW, with a skew of at \
         least 1"
        )
    };
    let (rest, when) = match text.strip_suffix(":soft") {
        Some(rest) => (rest, WhenUnsatisfiable::ScheduleAnyway),
        None => (text, WhenUnsatisfiable::DoNotSchedule),
    };
    let (place, skew) = rest.rsplit_once(':').ok_or_else(error)?;
    let skew_max = skew.parse().ok().filter(|skew| *skew > 0).ok_or_else(error)?;
    Ok(Spread { when, ..Spread::new(TaskSelector::SameJob, level(place)?, skew_max) })
}

/// Parses `8080`, `8080/tcp`, `8080/udp` or `8080/sctp`.
pub(super) fn port(text: &str) -> Result<Port, String> {
    let error = || format!("{text:?} is not a port: it must be such as 8080 or 9090/udp");
    let (number, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        _ => return Err(error()),
    };
    let number = number.parse().ok().filter(|number| *number > 0).ok_or_else(error)?;
    Ok(Port { address: None, protocol, number })
}
