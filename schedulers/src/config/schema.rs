//! The JSON schema of profile files, for editors.
//!
//! The schema is generated from the parser's types and the registry, so it agrees with the parser. The parser alone
//! checks the rules that a schema cannot express: duplicate names, a base's plugins, a cell's resource kinds.

use super::file::FileTable;
use super::registry::{Plugin, Point, Presence, Registry};
use crate::framework::plugin::WEIGHT_SUM_MAX;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Returns the JSON schema of files that name plugins of a registry: draft 7, which editors support.
#[must_use]
pub fn schema(registry: &Registry) -> Value {
    let mut generator = SchemaSettings::draft07().into_generator();
    let plugins: Vec<(Point, Value)> =
        Point::ALL.map(|point| (point, any_of(registry, point, &mut generator))).into();
    let mut schema = generator.into_root_schema_for::<FileTable>().to_value();
    let definitions = schema.get_mut("definitions").and_then(Value::as_object_mut);
    let definitions = definitions.expect("the tables of a file are definitions");
    for (point, any) in plugins {
        // Each list of plugins gets its own schema, because each extension point has its own plugins and arguments.
        let items = json!({ "$ref": format!("#/definitions/{point}") });
        definitions["profile"]["properties"][point.name()]["items"] = items;
        definitions.insert(point.name().to_owned(), any);
    }
    // The field is marked as required here and not with serde, whose error message would use internal terms.
    schema["required"] = json!(["profile"]);
    schema
}

/// Returns the schema of an entry in the list of an extension point: any one of its optional plugins.
fn any_of(registry: &Registry, point: Point, generator: &mut SchemaGenerator) -> Value {
    let optional = registry.at(point).filter(|plugin| plugin.presence() == Presence::Optional);
    let entries: Vec<Value> = optional.map(|plugin| entry(plugin, generator)).collect();
    if entries.is_empty() {
        json!({ "not": {}, "description": format!("There is no {point} plugin.") })
    } else {
        json!({ "oneOf": entries })
    }
}

fn entry(plugin: &Plugin, generator: &mut SchemaGenerator) -> Value {
    let names: Vec<&str> = plugin.names().collect();
    let mut properties = Map::new();
    properties.insert("plugin".to_owned(), json!({ "enum": names }));
    if plugin.point() == Point::Score {
        let weight = json!({
            "description": "Weight of the score in the sum of all scores.",
            "type": "integer", "minimum": 1, "maximum": WEIGHT_SUM_MAX, "default": 1,
        });
        properties.insert("weight".to_owned(), weight);
    }
    properties.insert("args".to_owned(), plugin.arguments(generator).to_value());
    json!({
        "description": plugin.sentence(),
        "type": "object",
        "properties": properties,
        "required": ["plugin"],
        "additionalProperties": false,
    })
}
