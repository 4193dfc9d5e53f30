//! The dependencies, compared with `deny.toml`: their sources, their licenses, and the accepted advisories.
//!
//! Reads `Cargo.lock` and the offline output of `cargo metadata`. New advisories need their database: `cargo deny check
//! advisories`.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only source of foreign code, as `Cargo.lock` writes it.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

fn toml_file(name: &str) -> toml::Table {
    read(name).parse().unwrap()
}

/// Texts of a list in TOML.
fn texts(list: &toml::Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Parser of a license expression, evaluated from left to right with SPDX's precedence: `WITH`, `AND`, `OR`.
struct Expression<'a> {
    words: std::iter::Peekable<std::vec::IntoIter<String>>,
    allowed: &'a BTreeSet<String>,
}

impl Expression<'_> {
    /// Whether the allowed licenses satisfy an expression; `/` is an old way to write `OR`.
    fn holds(text: &str, allowed: &BTreeSet<String>) -> bool {
        let spaced = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let words: Vec<String> = spaced.split_whitespace().map(str::to_owned).collect();
        let mut expression = Expression { words: words.into_iter().peekable(), allowed };
        let holds = expression.any();
        assert_eq!(expression.words.next(), None, "unreadable license expression {text:?}");
        holds
    }

    fn skip(&mut self, word: &str) -> bool {
        self.words.next_if(|next| next == word).is_some()
    }

    fn any(&mut self) -> bool {
        let mut holds = self.all();
        while self.skip("OR") {
            holds |= self.all();
        }
        holds
    }

    fn all(&mut self) -> bool {
        let mut holds = self.one();
        while self.skip("AND") {
            holds &= self.one();
        }
        holds
    }

    fn one(&mut self) -> bool {
        if self.skip("(") {
            let holds = self.any();
            assert!(self.skip(")"), "a parenthesis of a license expression is not closed");
            return holds;
        }
        let mut name = self.words.next().expect("a license expression ends with a name");
        if self.skip("WITH") {
            name = format!("{name} WITH {}", self.words.next().expect("WITH names an exception"));
        }
        self.allowed.contains(&name)
    }
}

/// Violations of the rules about licenses, among packages as `cargo metadata` writes them.
fn license_violations(packages: &[Value], licenses: &toml::Value) -> Vec<String> {
    let allowed = texts(&licenses["allow"]);
    let mut exceptions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for exception in licenses["exceptions"].as_array().unwrap() {
        let name = exception["crate"].as_str().unwrap().to_owned();
        exceptions.insert(name, texts(&exception["allow"]));
    }
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let Some(license) = package["license"].as_str() else {
            wrong.push(format!("{name}: names no license; read it, and add an exception"));
            continue;
        };
        let exception = exceptions.remove(name);
        let plain = Expression::holds(license, &allowed);
        let more = exception.clone().unwrap_or_default();
        if !plain && !Expression::holds(license, &allowed.union(&more).cloned().collect()) {
            wrong.push(format!("{name}: license {license:?} is not allowed in deny.toml"));
        }
        if plain && exception.is_some() {
            wrong.push(format!("{name}: license {license:?} needs no exception; remove it"));
        }
    }
    wrong.extend(exceptions.into_keys().map(|name| format!("{name}: excepted, but not used")));
    wrong
}

/// Violations of the rules about sources, among packages as `Cargo.lock` lists them.
fn source_violations(lock: &toml::Table) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in lock["package"].as_array().unwrap() {
        let text = |key| package.get(key).and_then(toml::Value::as_str);
        let name = text("name").unwrap();
        match text("source") {
            None if name.starts_with("omega-") => {}
            Some(REGISTRY) if text("checksum").is_some_and(|sum| sum.len() == 64) => {}
            source => wrong.push(format!("{name}: source {source:?}; only {REGISTRY} is allowed")),
        }
    }
    wrong
}

/// The rows of the table of accepted advisories: advisory, crate, version, date.
fn accepted() -> BTreeMap<String, [String; 3]> {
    let page = read("docs/security.md");
    let rows = page.lines().filter(|line| line.starts_with("| RUSTSEC-"));
    let cells = rows.map(|row| row.split('|').map(|cell| cell.trim().replace('`', "")));
    cells
        .map(|cells| {
            let cells: Vec<String> = cells.collect();
            let [_, id, name, version, date, ..] = cells.as_slice() else { panic!("{cells:?}") };
            (id.clone(), [name, version, date].map(Clone::clone))
        })
        .collect()
}

#[test]
fn licenses_are_allowed() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--offline"]);
    let output = cargo.current_dir(root()).output().unwrap();
    if !output.status.success() {
        // Crates for other platforms may not have been downloaded; their licenses are then not checked here.
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(why.contains("--offline"), "{why}");
        eprintln!("skipped: `cargo fetch --locked` has not run");
        return;
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "{} packages", packages.len());
    let wrong = license_violations(packages, &toml_file("deny.toml")["licenses"]);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn foreign_code_comes_from_the_registry_with_a_checksum() {
    let wrong = source_violations(&toml_file("Cargo.lock"));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn accepted_advisories_are_those_of_the_page_and_of_the_lock_file() {
    let deny = toml_file("deny.toml");
    let mut ignored = BTreeMap::new();
    for advisory in deny["advisories"]["ignore"].as_array().unwrap() {
        let text = |key: &str| advisory[key].as_str().unwrap().to_owned();
        ignored.insert(text("id"), text("reason"));
    }
    let accepted = accepted();
    assert_eq!(accepted.keys().collect::<Vec<_>>(), ignored.keys().collect::<Vec<_>>());
    let lock = toml_file("Cargo.lock");
    let locked: BTreeSet<(&str, &str)> = lock["package"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["name"].as_str().unwrap(), package["version"].as_str().unwrap()))
        .collect();
    for (id, [name, version, date]) in &accepted {
        assert!(
            locked.contains(&(name, version)),
            "{id}: {name} {version} is not in Cargo.lock: review it again, or remove the row"
        );
        assert!(ignored[id].starts_with(&format!("{name}: ")), "{id} names another crate");
        assert!(date.len() == 10 && date.split('-').count() == 3, "{id}: date {date:?}");
    }
}

#[test]
fn violations_are_found() {
    let allowed = BTreeSet::from(["MIT", "Apache-2.0"].map(str::to_owned));
    for (text, holds) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/Apache-2.0", true),
        ("MIT AND GPL-3.0", false),
        ("GPL-3.0 AND MIT OR Apache-2.0", true),
        ("GPL-3.0 AND (MIT OR Apache-2.0)", false),
        ("Apache-2.0 WITH LLVM-exception", false),
    ] {
        assert_eq!(Expression::holds(text, &allowed), holds, "{text}");
    }
    let licenses: toml::Table = "allow = ['MIT']
        exceptions = [{ crate = 'c', allow = ['ISC'] }, { crate = 'd', allow = ['ISC'] }]"
        .parse()
        .unwrap();
    let packages: Vec<Value> = serde_json::from_str(
        r#"[{"name": "a", "license": "MIT"}, {"name": "b", "license": "ISC"}, {"name": "c", "license": "ISC"},
            {"name": "e", "license": null}]"#,
    )
    .unwrap();
    let wrong = license_violations(&packages, &toml::Value::Table(licenses));
    let names: Vec<&str> = wrong.iter().map(|one| one.split(':').next().unwrap()).collect();
    assert_eq!(names, ["b", "e", "d"], "{wrong:?}");
    let lock: toml::Table = format!(
        "package = [{{ name = 'omega-core' }}, {{ name = 'a', source = 'git+https://example.org/a' }},
        {{ name = 'b' }}, {{ name = 'c', source = '{REGISTRY}' }},
        {{ name = 'd', source = '{REGISTRY}', checksum = '{}' }}]",
        "0".repeat(64)
    )
    .replace('\n', " ")
    .parse()
    .unwrap();
    assert_eq!(source_violations(&lock).len(), 3);
}
