//! Documentation of profile files, compared with the registry: the schema, the table of plugins, and the examples.
//!
//! `OMEGA_BLESS=1 cargo test -p omega-tests --test it profile_docs` writes the schema and the table: review them before
//! you commit.

use crate::repository::json_schema::allows;
use omega_core::Kinds;
use omega_schedulers::config::{Point, Presence, Profiles, Registry, schema};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Path of a file of the workspace.
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

/// Documentation of every plugin of the library: a list of the cell's own filters, and tables of the other filters, the
/// scores, and the plugins of other extension points.
fn table() -> String {
    let mut tables =
        [("Filters", String::new()), ("Scores", String::new()), ("Others", String::new())];
    let mut always = Vec::new();
    let schema = schema(&Registry::built_in());
    for plugin in Registry::built_in().plugins() {
        let names = std::iter::once(plugin.name()).chain(plugin.aliases());
        let quoted: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        let names = quoted.join(", ");
        if plugin.presence() == Presence::Always {
            let aliases = quoted[1..].iter().map(|alias| format!(" (alias {alias})"));
            always.push(quoted[0].clone() + &aliases.collect::<String>());
            continue;
        }
        let arguments = arguments(&schema, plugin.point(), plugin.name());
        let effect = plugin.sentence();
        let (at, names) = match plugin.point().name() {
            "filter" => (0, names),
            "score" => (1, names),
            other => (2, format!("{names} ({other})")),
        };
        tables[at].1 += &format!("| {names} | {arguments} | {effect} |\n");
    }
    let always = always.join(", ");
    let head = "| name, alias | arguments (default) | effect |\n|---|---|---|\n";
    let tables = tables.map(|(title, rows)| format!("{title}:\n\n{head}{rows}")).join("\n");
    format!(
        "The cell's own filters are in every profile, and have no arguments: {always}.\n\n{tables}"
    )
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
            Some(Value::Array(items)) => format!("`{name}` ({})", listed(items)),
            Some(default) => format!("`{name}` ({})", plain(default)),
            None => format!("`{name}` (required)"),
        })
        .collect();
    described.join(", ")
}

/// Formats the items of a list by name.
fn listed(items: &[Value]) -> String {
    let names: Vec<String> =
        items.iter().map(|item| plain(item.get("name").unwrap_or(item))).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Formats a value without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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
