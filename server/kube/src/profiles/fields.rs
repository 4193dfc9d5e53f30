//! Typed reading of a file's fields. Each error names the field and the rule.

use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// A mapping in the file, with its place, such as `profiles[0].plugins`.
pub(super) struct Fields<'a> {
    at: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Reads a mapping at a place; the empty place is the whole file.
    pub(super) fn new(at: String, value: &'a Value) -> Result<Fields<'a>, String> {
        let place = if at.is_empty() { "the file" } else { &at };
        let map = value.as_object().ok_or_else(|| format!("{place}: must be a mapping of fields"));
        map.map(|map| Fields { at, map })
    }

    /// Returns the place of a field.
    pub(super) fn place(&self, field: &str) -> String {
        if self.at.is_empty() { field.to_owned() } else { format!("{}.{field}", self.at) }
    }

    /// Returns an error about a field with this rule.
    pub(super) fn fault(&self, field: &str, rule: &str) -> String {
        let place = self.place(field);
        match self.map.get(field) {
            None => format!("{place}: is missing: it {rule}"),
            Some(value) => format!("{place}: {value} {rule}"),
        }
    }

    /// Checks that the mapping has no other fields than these.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), String> {
        match self.map.keys().find(|field| !known.contains(&field.as_str())) {
            None => Ok(()),
            Some(field) => Err(format!(
                "{}: is not supported by omega-kube, which reads only {} here: remove the field",
                self.place(field),
                known.join(", ")
            )),
        }
    }

    /// Returns the value of a field.
    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field)
    }

    /// Returns a mapping.
    pub(super) fn object(&self, field: &str) -> Result<Option<Fields<'a>>, String> {
        self.get(field).map(|value| Fields::new(self.place(field), value)).transpose()
    }

    /// Returns the mappings of a list; none if the field is missing.
    pub(super) fn list(&self, field: &str) -> Result<Vec<Fields<'a>>, String> {
        let Some(value) = self.get(field) else { return Ok(Vec::new()) };
        let place = self.place(field);
        let items = value.as_array().ok_or_else(|| format!("{place}: must be a list"))?;
        let items = items.iter().enumerate();
        items.map(|(index, item)| Fields::new(format!("{place}[{index}]"), item)).collect()
    }

    /// Whether a list is missing or empty.
    pub(super) fn is_empty_list(&self, field: &str) -> bool {
        self.get(field).is_none_or(|value| value.as_array().is_some_and(Vec::is_empty))
    }

    /// Returns a text.
    pub(super) fn text(&self, field: &str) -> Result<Option<&'a str>, String> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let text = value.as_str().ok_or_else(|| self.fault(field, "must be a text"));
        text.map(Some)
    }

    /// Returns a text that must not be empty.
    pub(super) fn name(&self, field: &str) -> Result<&'a str, String> {
        let text = self.text(field)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| self.fault(field, "must be a name"))
    }

    /// Returns a boolean.
    pub(super) fn flag(&self, field: &str) -> Result<Option<bool>, String> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let flag = value.as_bool().ok_or_else(|| self.fault(field, "must be true or false"));
        flag.map(Some)
    }

    /// Returns a whole number in a range.
    pub(super) fn number(
        &self,
        field: &str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, String> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.filter(|number| range.contains(number));
        let (first, last) = (range.start(), range.end());
        let rule = format!("must be a whole number from {first} to {last}");
        number.map(Some).ok_or_else(|| self.fault(field, &rule))
    }

    /// Checks that a field is missing or has the only value that is supported.
    pub(super) fn fixed(&self, field: &str, wanted: &Value, remedy: &str) -> Result<(), String> {
        match self.get(field) {
            Some(value) if value != wanted => {
                Err(format!("{}: {value} must be {wanted}: {remedy}", self.place(field)))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that no name appears twice in a list. `of` names the field with the name.
pub(super) fn no_repetition(items: &[Fields<'_>], of: &str) -> Result<(), String> {
    for (index, item) in items.iter().enumerate() {
        let name = item.get(of);
        if name.is_some() && items[..index].iter().any(|known| known.get(of) == name) {
            return Err(item.fault(of, "appears twice: give each name once"));
        }
    }
    Ok(())
}

/// Reads a file with one YAML document. A separator after which no document follows is ignored, and so are fields
/// without a value, as in Kubernetes.
pub(super) fn document(text: &str) -> Result<Value, String> {
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let text = match text.trim_end().rsplit_once("\n---") {
        Some((before, after)) if after.lines().all(is_blank) && !before.lines().all(is_blank) => {
            before
        }
        _ => text,
    };
    let mut value = serde_saphyr::from_str(text).map_err(|why| {
        // Only the first line of the message is used, because the other lines quote the file. The message's remedies
        // are cut off, because they name functions and options of the library.
        let why = why.to_string();
        let line = why.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let line = line.split("; use from_").next().unwrap_or(line);
        let line = line.split(", set Duplicate").next().unwrap_or(line);
        let remedy = match line {
            line if line.contains("multiple YAML documents") => {
                ": keep only the KubeSchedulerConfiguration in this file"
            }
            line if line.contains("duplicate mapping key") => ": keep one of the two",
            _ => "",
        };
        format!("is not valid YAML: {line}{remedy}")
    })?;
    remove_nulls(&mut value);
    Ok(value)
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}
