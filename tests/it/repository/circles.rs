//! Circles of imports between the files of a crate.
//!
//! Files that import each other can only be understood together. So imports between files should go in one direction,
//! and code that two files share should be in a third file. A circle is a group of files each of which imports from all
//! others, directly or through files of the group. A module and the modules below it are one idea in several files, so
//! imports between them do not count. Tests and their fixtures do not count either.

use crate::repository::tidy::{assert_none, sources};
use std::collections::{BTreeMap, BTreeSet};

/// The path of a module in its crate.
type Module = Vec<String>;

/// The definitions and imports of a file.
#[derive(Default)]
struct File {
    defined: BTreeSet<String>,
    /// The paths in `use` declarations.
    imports: Vec<Vec<String>>,
    /// All paths, except those in public `use` declarations, which only re-export names.
    used: Vec<Vec<String>>,
}

/// Whether a file contains tests or code that only tests use, according to its path.
fn is_test(name: &str) -> bool {
    let is = |part: &str| {
        matches!(part, "test" | "tests" | "random" | "reference" | "testing" | "fixtures")
    };
    name.split('/').any(|part| is(part.strip_suffix(".rs").unwrap_or(part)))
}

/// The module of a file in `src`.
fn module(file: &str) -> Module {
    let mut parts: Module = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

/// The code of a file without comments, tests, and imports of tests.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut of_tests = false;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        if of_tests && line.starts_with("mod ") && line.ends_with('{') {
            break;
        }
        if !of_tests {
            code += line;
            code.push('\n');
        }
        of_tests = line.trim() == "#[cfg(test)]";
    }
    code
}

/// The paths in a tree of a `use` declaration.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default();
        return vec![name.to_owned()];
    };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in inner.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().expect("there is a part").push(c);
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(|part| expand(part)).map(|part| format!("{prefix}{part}")).collect()
}

fn segments(path: &str) -> Vec<String> {
    path.split("::").map(|part| part.trim().to_owned()).collect()
}

/// The name that a line at the start of the file defines.
fn definition(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let (kind, rest) = line.split_once(' ')?;
    let rest = match (kind, rest.strip_prefix("fn ")) {
        ("const" | "async", Some(name)) => name,
        ("fn" | "struct" | "enum" | "trait" | "type" | "const" | "static", _) => rest,
        ("macro_rules!", _) => rest,
        _ => return None,
    };
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

/// The paths in code that begin with one of these words.
fn paths(code: &str, starts: &BTreeSet<String>) -> Vec<Vec<String>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c| !is_word(c)).filter(|word| word.contains("::"));
    let words = words.map(|word| segments(word.trim_matches(':')));
    words.filter(|path| path.len() > 1 && starts.contains(&path[0])).collect()
}

impl File {
    /// Reads a file whose module has these children.
    fn read(text: &str, children: &BTreeSet<String>) -> File {
        let code = code(text);
        let mut file = File::default();
        file.defined.extend(code.lines().filter_map(definition).map(str::to_owned));
        let mut rest = String::new();
        let mut lines = code.lines();
        while let Some(line) = lines.next() {
            let start = line.trim_start();
            let after = match start.strip_prefix("pub") {
                Some(more) if more.starts_with('(') => more.split_once(") ").map(|(_, more)| more),
                Some(more) => more.strip_prefix(' '),
                None => Some(start),
            };
            let Some(tree) = after.and_then(|after| after.strip_prefix("use ")) else {
                rest += line;
                rest.push('\n');
                continue;
            };
            let mut tree = tree.to_owned();
            while !tree.contains(';') {
                let Some(more) = lines.next() else { break };
                tree += more;
            }
            let tree = tree.split(';').next().unwrap_or_default();
            for path in expand(tree) {
                file.imports.push(segments(&path));
                if !start.starts_with("pub") {
                    file.used.push(segments(&path));
                }
            }
        }
        let mut starts = children.clone();
        starts.extend(["crate", "super", "self"].map(str::to_owned));
        file.used.extend(paths(&rest, &starts));
        file
    }
}

/// The module that defines the item of a path, if the path is one of the crate. Imports are followed, to some depth.
fn resolve(
    files: &BTreeMap<Module, File>,
    from: &Module,
    path: &[String],
    depth: usize,
) -> Option<Module> {
    let mut at = from.clone();
    let mut rest = path;
    let first = rest.first()?;
    if first == "crate" {
        at.clear();
        rest = &rest[1..];
    } else if first == "self" || first == "super" {
        while let Some((word, more)) = rest.split_first() {
            match word.as_str() {
                "self" => {}
                "super" => drop(at.pop()),
                _ => break,
            }
            rest = more;
        }
    } else if !files.contains_key(&[at.as_slice(), std::slice::from_ref(first)].concat()) {
        return None;
    }
    while let Some((word, more)) = rest.split_first() {
        let below = [at.as_slice(), std::slice::from_ref(word)].concat();
        if !files.contains_key(&below) {
            break;
        }
        (at, rest) = (below, more);
    }
    let (file, name) = (files.get(&at)?, rest.first()?);
    if name != "*" && !file.defined.contains(name) && depth < 5 {
        let imports = file.imports.iter().filter(|path| path.last() == Some(name));
        let mut found = imports.filter_map(|path| resolve(files, &at, path, depth + 1));
        return Some(found.find(|module| *module != at).unwrap_or(at));
    }
    Some(at)
}

/// The files from which a file imports.
fn edges(files: &BTreeMap<Module, File>) -> BTreeMap<&Module, BTreeSet<Module>> {
    let of = |module: &Module, file: &File| -> BTreeSet<Module> {
        let used = file.used.iter().filter_map(|path| resolve(files, module, path, 0));
        let is_one_idea = |to: &Module| to.starts_with(module) || module.starts_with(to);
        used.filter(|to| !is_one_idea(to)).collect()
    };
    files.iter().map(|(module, file)| (module, of(module, file))).collect()
}

/// The circles among the files of a crate, by the names of the files below `src`.
fn circles(texts: &[(&str, &str)]) -> Vec<BTreeSet<Module>> {
    let modules: BTreeSet<Module> = texts.iter().map(|(name, _)| module(name)).collect();
    let children = |of: &Module| -> BTreeSet<String> {
        let below = modules.iter().filter(|one| one.len() == of.len() + 1 && one.starts_with(of));
        below.filter_map(|one| one.last().cloned()).collect()
    };
    let read = |(name, text): &(&str, &str)| {
        let module = module(name);
        let file = File::read(text, &children(&module));
        (module, file)
    };
    let files: BTreeMap<Module, File> = texts.iter().map(read).collect();
    let edges = edges(&files);
    let reached = |from: &Module| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = open.pop() {
            for to in edges.get(&module).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        files.keys().map(|module| (module, reached(module))).collect();
    let circle = |of: &Module| -> BTreeSet<Module> {
        let back = |to: &&Module| reached.get(*to).is_some_and(|from| from.contains(of));
        reached[of].iter().filter(back).cloned().collect()
    };
    let all: BTreeSet<BTreeSet<Module>> = files.keys().map(circle).collect();
    all.into_iter().filter(|circle| circle.len() > 1).collect()
}

#[test]
fn crates_have_no_circles() {
    let sources = sources();
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (name, text) in &sources {
        let Some((folder, file)) = name.split_once("/src/") else { continue };
        if !is_test(file) && !file.starts_with("bin/") {
            crates.entry(folder).or_default().push((file, text));
        }
    }
    let mut wrong = Vec::new();
    for (folder, texts) in crates {
        let found = circles(&texts);
        let list = |circle: &BTreeSet<Module>| {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            format!("{folder}: {}", names.join(", "))
        };
        wrong.extend(found.iter().map(list));
    }
    assert_none("circles of imports: move what two files share to a third", wrong);
}

#[test]
fn circles_are_found_through_paths_and_public_imports() {
    let above = ("lib.rs", "mod a;\nmod b;\npub use b::Two;\n");
    let one = ("a.rs", "use crate::Two;\npub struct One;\n");
    for two in [
        "use super::a::One;\npub struct Two(One);\n",
        "pub struct Two(crate::a::One);\n",
        "use crate::{\n    a::{One},\n};\npub(crate) struct Two;\n",
    ] {
        assert_eq!(circles(&[above, one, ("b.rs", two)]).len(), 1, "{two}");
    }
    for two in [
        "// use super::a::One;\npub struct Two;\n",
        "pub struct Two;\n#[cfg(test)]\nmod tests {\n    use crate::a::One;\n}\n",
        "#[cfg(test)]\nuse crate::a::One;\npub struct Two;\n",
        "use other::a::One;\npub struct Two;\n",
    ] {
        assert_eq!(circles(&[above, one, ("b.rs", two)]).len(), 0, "{two}");
    }
    let child = ("a/child.rs", "use super::One;\npub struct Child;\n");
    let parent = ("a/mod.rs", "mod child;\nuse child::Child;\npub struct One;\n");
    assert_eq!(circles(&[("lib.rs", "mod a;\n"), parent, child]).len(), 0, "parent and child");
}
