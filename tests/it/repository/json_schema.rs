//! A validator for the part of JSON Schema that Omega's schemas use.
//!
//! It panics at an unknown keyword, because a rule that is not validated would otherwise seem to be tested.

use serde_json::Value;

/// Keywords that do not affect validation.
const SILENT: [&str; 6] = ["$schema", "title", "description", "default", "definitions", "format"];

/// Whether a schema allows a value. `root` is the document that contains the schema.
pub(crate) fn allows(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return schema != &Value::Bool(false) };
    keywords.iter().all(|(keyword, asked)| keyword_allows((root, schema), (keyword, asked), value))
}

fn keyword_allows(
    (root, schema): (&Value, &Value),
    (keyword, asked): (&str, &Value),
    value: &Value,
) -> bool {
    let all = |asked: &Value| asked.as_array().expect("a list of schemas").clone();
    let number = || asked.as_i64().expect("a whole number");
    let length = |of: Option<usize>| of.map(|length| length as i64);
    match keyword {
        "$ref" => {
            let name = asked.as_str().and_then(|at| at.strip_prefix("#/definitions/"));
            allows(root, &root["definitions"][name.expect("a definition")], value)
        }
        "allOf" => all(asked).iter().all(|one| allows(root, one, value)),
        "anyOf" => all(asked).iter().any(|one| allows(root, one, value)),
        "oneOf" => all(asked).iter().filter(|one| allows(root, one, value)).count() == 1,
        "not" => !allows(root, asked, value),
        "const" => asked == value,
        "enum" => all(asked).contains(value),
        "type" => asked.as_array().map_or_else(
            || is_of_type(asked, value),
            |types| types.iter().any(|one| is_of_type(one, value)),
        ),
        "minimum" => value.as_i64().is_none_or(|given| given >= number()),
        "maximum" => value.as_i64().is_none_or(|given| given <= number()),
        "minLength" => length(value.as_str().map(str::len)).is_none_or(|given| given >= number()),
        "minItems" => length(value.as_array().map(Vec::len)).is_none_or(|n| n >= number()),
        "maxItems" => length(value.as_array().map(Vec::len)).is_none_or(|n| n <= number()),
        "items" => value.as_array().into_iter().flatten().all(|item| allows(root, asked, item)),
        "required" => value.as_object().is_none_or(|fields| {
            all(asked).iter().all(|name| fields.contains_key(name.as_str().expect("a name")))
        }),
        "properties" => {
            value.as_object().into_iter().flatten().all(|(name, inner)| {
                asked.get(name).is_none_or(|schema| allows(root, schema, inner))
            })
        }
        "additionalProperties" => {
            let known = |name: &str| schema["properties"].get(name).is_some();
            value
                .as_object()
                .into_iter()
                .flatten()
                .all(|(name, inner)| known(name) || allows(root, asked, inner))
        }
        "minProperties" => {
            length(value.as_object().map(serde_json::Map::len)).is_none_or(|n| n >= number())
        }
        silent if SILENT.contains(&silent) => true,
        unknown => panic!("the keyword {unknown:?} here"),
    }
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "null" => value.is_null(),
        unknown => panic!("the type {unknown:?} here"),
    }
}
