//! The structure of the code, as tests: types that own their fields, and functions whose parameters have names.

use crate::repository::tidy::{assert_none, sources};

/// The types that contain whole subsystems, with their files and the maximum number of fields of each. A new field
/// should be in one of the type's parts; if it fits in none, it should be in a new part.
const WHOLES: [(&str, &str, usize); 4] = [
    ("cellstate/src/cell.rs", "Cell", 17),
    ("cellstate/src/view/mod.rs", "View", 15),
    ("schedulers/src/scheduler/mod.rs", "Scheduler", 12),
    ("bench/run/src/driver/feeder/mod.rs", "Feeder", 15),
];

/// The parts of these types, whose fields no other file may use.
const PARTS: [(&str, &str); 20] = [
    ("cellstate/src/view/compiled.rs", "Groups"),
    ("cellstate/src/view/cores.rs", "Cores"),
    ("cellstate/src/view/images.rs", "Images"),
    ("cellstate/src/view/indexes.rs", "Indexes"),
    ("cellstate/src/view/plugin_data.rs", "PluginData"),
    ("cellstate/src/view/loads.rs", "Loads"),
    ("cellstate/src/view/own/claim_list.rs", "OwnClaims"),
    ("cellstate/src/view/own/eviction_list.rs", "OwnEvictions"),
    ("cellstate/src/view/placements.rs", "Placements"),
    ("cellstate/src/view/rows.rs", "Rows"),
    ("cellstate/src/view/session.rs", "Session"),
    ("cellstate/src/view/tenants.rs", "TenantIndex"),
    ("schedulers/src/scheduler/round_state.rs", "RoundState"),
    ("schedulers/src/scheduler/decided.rs", "Decisions"),
    ("schedulers/src/scheduler/finder.rs", "Finder"),
    ("schedulers/src/scheduler/binding_cycle.rs", "Permits"),
    ("schedulers/src/scheduler/recovery.rs", "SetAside"),
    ("bench/run/src/driver/agenda.rs", "Agenda"),
    ("bench/run/src/driver/watch.rs", "Watch"),
    ("bench/run/src/driver/worker_factory.rs", "WorkerFactory"),
];

/// The lines of the fields of a struct.
fn fields<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let head = text.find(&format!("struct {name} {{")).or(text.find(&format!("struct {name}<")));
    let body = head.and_then(|at| text[at..].split_once("{\n"));
    let body = body.and_then(|(_, rest)| rest.split_once("\n}"));
    let (body, _) = body.unwrap_or_else(|| panic!("there is no struct {name} with fields"));
    let is_field = |line: &&str| line.contains(": ") && !line.trim_start().starts_with("//");
    body.lines().filter(is_field).map(str::trim).collect()
}

fn source(file: &str) -> String {
    let found = sources().into_iter().find(|(name, _)| name == file);
    found.unwrap_or_else(|| panic!("there is no file {file}")).1
}

#[test]
fn large_types_consist_of_few_parts() {
    let count = |(file, name, most): (&str, &str, usize)| {
        let count = fields(&source(file), name).len();
        (count > most).then(|| format!("{file}: {name} has {count} fields, of at most {most}"))
    };
    assert_none("types that should be several", WHOLES.into_iter().filter_map(count).collect());
}

/// Maximum number of functions and fields of exported types that `cellstate` uses across files. The others of a type
/// are private to its file, or are part of the crate's interface.
const INTERNAL_MAX: usize = 155;

#[test]
fn exported_types_share_few_internals() {
    let sources = sources();
    let own = sources.iter().filter(|(name, _)| name.starts_with("cellstate/src/"));
    let count: usize = own.map(|(_, text)| text.matches("pub(crate)").count()).sum();
    assert!(count <= INTERNAL_MAX, "cellstate has {count} `pub(crate)`, of at most {INTERNAL_MAX}");
}

#[test]
fn parts_keep_their_fields_private() {
    let shown = PARTS.into_iter().flat_map(|(file, name)| {
        let text = source(file);
        let public = fields(&text, name).into_iter().filter(|line| line.starts_with("pub"));
        public.map(|line| format!("{file}: {name}: {line}")).collect::<Vec<_>>()
    });
    assert_none("fields that other files can touch", shown.collect());
}

/// Splits a text at its commas outside of all brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from, mut before) = (Vec::new(), 0usize, 0, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if matches!(before, '-' | '=') => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    parts.push(&text[from..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// The text in the next parentheses, and the text before them.
fn parenthesised(text: &str) -> Option<(&str, &str)> {
    let open = text.find('(')?;
    let mut depth = 0usize;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..open], &text[open + 1..at]));
        }
    }
    None
}

/// The number of values in the type of a parameter, if it is a tuple or a reference to one.
fn values(parameter: &str) -> Option<usize> {
    let colon = if parameter.starts_with('(') {
        // The parameter is a pattern that destructures a tuple.
        parameter.find("): ").map(|at| at + 1)
    } else {
        parameter.find(": ")
    };
    let of = parameter[colon? + 2..].trim_start_matches('&');
    let of = of.strip_prefix("mut ").unwrap_or(of);
    let (before, inner) = parenthesised(of)?;
    before.is_empty().then(|| split(inner).len())
}

/// The functions of a source with a tuple of more than two values as a parameter.
fn with_large_tuples(text: &str) -> Vec<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code: String = text.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect();
    let mut found = Vec::new();
    for rest in code.split("fn ").skip(1) {
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        // Bounds of generic parameters may have parentheses, too.
        let after = &rest[name.len()..];
        let after = match after.strip_prefix('<') {
            Some(generics) => generics.split_once(">(").map_or("", |(_, rest)| rest),
            None => after.strip_prefix('(').unwrap_or_default(),
        };
        if name.is_empty() || after.is_empty() {
            continue;
        }
        let whole = format!("({after}");
        let Some((_, parameters)) = parenthesised(&whole) else { continue };
        if split(parameters).into_iter().filter_map(values).any(|count| count > 2) {
            found.push(name);
        }
    }
    found
}

#[test]
fn parameters_have_names() {
    let is_test = |name: &str| {
        name.starts_with("tests/")
            || name.contains("/tests/")
            || ["tests.rs", "histories.rs", "random.rs", "reference.rs"]
                .iter()
                .any(|end| name.ends_with(end))
    };
    let mut wrong = Vec::new();
    for (name, text) in sources().into_iter().filter(|(name, _)| !is_test(name)) {
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(&text);
        let found = with_large_tuples(code).into_iter();
        wrong.extend(found.map(|function| format!("{name}: {function}: use a struct")));
    }
    assert_none("tuples that hide parameters", wrong);
}

#[test]
fn tuples_are_found_in_each_sort_of_parameter() {
    for code in [
        "fn a((x, y, z): (u8, &[u8], Vec<(u8, u8)>)) {}",
        "fn a(\n    &self,\n    of: (u8, u8, u8),\n) -> u8 {}",
        "fn a<F: Fn(u8) -> u8>(f: F, of: &mut (u8, u8, u8)) {}",
    ] {
        assert_eq!(with_large_tuples(code), ["a"], "{code}");
    }
    for code in [
        "fn a((x, y): (u8, u8), f: impl Fn(u8, u8, u8) -> u8) {}",
        "// fn a(of: (u8, u8, u8)) {}\nfn b(f: &dyn Fn((u8, u8, u8)), of: Vec<(u8, u8, u8)>) {}",
        "fn a() -> (u8, u8, u8) {}",
    ] {
        assert_eq!(with_large_tuples(code), [""; 0], "{code}");
    }
}
