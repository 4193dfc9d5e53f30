//! Documentation of profile files against the registry: the schema, the table of plugins, and the examples.
//!
//! `OMEGA_BLESS=1 cargo test -p omega-tests --test it profile_docs` writes the first two: review them before you
//! commit.

use crate::json_schema::allows;
use omega_core::Kinds;
use omega_schedulers::config::{Point, Presence, Profiles, Registry, schema};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file of the workspace.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Compares a file with its expected content, or writes it.
fn check_file(name: &str, wanted: &str) {
    if std::env::var("OMEGA_BLESS").is_ok() {
        std::fs::write(file(name), wanted).unwrap();
    }
    assert!(read(name) == wanted, "{name} is out of date: see the head of {}", file!());
}

#[test]
fn the_schema_in_the_docs_is_that_of_the_registry() {
    check_file("docs/profiles.schema.json", &format!("{:#}\n", schema(&Registry::built_in())));
}

/// Markers around the table of plugins in the docs.
const TABLE: [&str; 2] = ["<!-- plugins: made by a test -->\n\n", "<!-- end of plugins -->"];

#[test]
fn the_table_in_the_docs_is_that_of_the_registry() {
    let docs = read("docs/profiles.md");
    let (before, rest) = docs.split_once(TABLE[0]).expect("the table begins");
    let (_, after) = rest.split_once(TABLE[1]).expect("the table ends");
    check_file("docs/profiles.md", &[before, TABLE[0], &table(), "\n", TABLE[1], after].concat());
}

/// Every plugin of the library.
fn table() -> String {
    let mut text = "| name, alias | point | arguments | effect |\n|---|---|---|---|\n".to_owned();
    let schema = schema(&Registry::built_in());
    for plugin in Registry::built_in().plugins() {
        let names = std::iter::once(plugin.name()).chain(plugin.aliases());
        let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        let arguments = match plugin.presence() {
            Presence::Always => "always there".to_owned(),
            Presence::Optional => arguments(&schema, plugin.point(), plugin.name()),
        };
        let (names, point, effect) = (quoted.join(", "), plugin.point(), plugin.sentence());
        text += &format!("| {names} | {point} | {arguments} | {effect} |\n");
    }
    text
}

/// The arguments of a plugin with their defaults, from the schema.
fn arguments(schema: &Value, point: Point, name: &str) -> String {
    let entries = schema["definitions"][point.name()]["oneOf"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["properties"]["plugin"]["enum"][0] == name);
    let reference = entry.unwrap()["properties"]["args"]["$ref"].as_str().unwrap();
    let arguments = &schema["definitions"][reference.rsplit('/').next().unwrap()];
    let fields = arguments["properties"].as_object().into_iter().flatten();
    let described: Vec<String> = fields
        .map(|(name, field)| match field.get("default") {
            Some(Value::Null) => format!("`{name}` (optional)"),
            Some(default) => format!("`{name} = {}`", as_toml(default)),
            None => format!("`{name}` (required)"),
        })
        .collect();
    described.join(", ")
}

/// A value as one line of TOML.
fn as_toml(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(as_toml).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{name} = {}", as_toml(value));
            let fields: Vec<String> = fields.iter().map(field).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Checks that the parser, a cell with standard kinds, and the schema accept a file.
fn check_example(name: &str, text: &str) {
    let profiles = Profiles::parse(text, &Registry::built_in());
    let profiles = profiles.unwrap_or_else(|why| panic!("{name}:{why}"));
    profiles.check(&Kinds::standard()).unwrap_or_else(|why| panic!("{name}:{why}"));
    let schema = schema(&Registry::built_in());
    let json = serde_json::to_value(toml::from_str::<toml::Table>(text).unwrap()).unwrap();
    assert!(allows(&schema, &schema, &json), "{name}: the schema does not allow it");
}

#[test]
fn every_example_file_is_sound() {
    let mut found = 0;
    for entry in std::fs::read_dir(file("schedulers/examples")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if name.ends_with(".toml") {
            check_example(&name, &read(&format!("schedulers/examples/{name}")));
            found += 1;
        }
    }
    assert!(found > 0, "there is an example");
}

#[test]
fn every_example_of_the_docs_is_sound() {
    let docs = read("docs/profiles.md");
    let blocks: Vec<&str> = docs.split("```").skip(1).step_by(2).collect();
    let files = blocks.iter().filter_map(|block| block.strip_prefix("toml\n"));
    assert!(files.clone().count() >= 4, "each section has an example");
    for (number, text) in files.enumerate() {
        check_example(&format!("example {number} of docs/profiles.md"), text);
    }
}
