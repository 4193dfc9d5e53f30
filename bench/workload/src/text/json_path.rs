//! Paths of the fields of a JSON text, for errors.

use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Returns the path of the field at which serde stopped with an error, such as `groups[0].count`; it is empty for the
/// whole text.
pub(crate) fn json_path(text: &str, error: &serde_json::Error) -> String {
    let mut path = String::new();
    if !error.is_data() {
        return path;
    }
    if let Ok(value) = serde_json::from_str::<&RawValue>(text) {
        descend(value, text, offset(text, error), &mut path);
    }
    if let Some(name) = unknown_field(&error.to_string()) {
        push(&mut path, name);
    }
    path
}

/// Byte offset at which the parser stopped: at the end of a value, or at the start of a list or object.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column()
}

/// Name of the field in an error about an unknown field.
fn unknown_field(error: &str) -> Option<&str> {
    error.strip_prefix("unknown field `")?.split('`').next()
}

fn push(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Adds the path of the innermost value whose text contains the offset, or begins or ends there.
fn descend(value: &RawValue, text: &str, offset: usize, path: &mut String) {
    let contains = |inner: &RawValue| {
        let start = inner.get().as_ptr() as usize - text.as_ptr() as usize;
        (start..=start + inner.get().len()).contains(&offset)
    };
    if let Ok(fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get()) {
        if let Some((name, inner)) = fields.iter().find(|(_, inner)| contains(inner)) {
            push(path, name);
            descend(inner, text, offset, path);
        }
    } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(value.get())
        && let Some((index, inner)) = items.iter().enumerate().find(|(_, inner)| contains(inner))
    {
        path.push_str(&format!("[{index}]"));
        descend(inner, text, offset, path);
    }
}

#[cfg(test)]
mod tests {
    use super::json_path;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(rename = "item")]
        _item: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        #[serde(rename = "sizes")]
        _sizes: Vec<u8>,
    }

    fn path(text: &str) -> String {
        json_path(text, &serde_json::from_str::<File>(text).unwrap_err())
    }

    #[test]
    fn errors_have_the_path_of_their_field() {
        assert_eq!(path(r#"{"item": [{"sizes": []}, {"sizes": [1, -2]}]}"#), "item[1].sizes[1]");
        assert_eq!(path("{\"item\": [\n{\"sizes\": 7}\n]}"), "item[0].sizes");
        assert_eq!(path(r#"{"item": [{"sizes": {}}]}"#), "item[0].sizes");
        assert_eq!(path(r#"{"item": [{"size": 7}]}"#), "item[0].size");
        assert_eq!(path(r#"{"item": [{"sizes": []}, {}]}"#), "item[1]", "a field is missing");
        assert_eq!(path(r#"{"other": 1}"#), "other");
        assert_eq!(path("{}"), "", "a field of the whole text is missing");
        assert_eq!(path("{\"item\": ["), "", "this is not JSON");
    }
}
