//! The repository's own rules, as tests: file heads, sizes, words, dependencies between crates, and links between
//! pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Maximum number of lines of a file without its tests. A longer file probably has more than one subject.
const LINES_MAX: usize = 600;

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the package is in the workspace").to_owned()
}

/// Whether a folder has generated code or files of other programs.
fn is_foreign(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == "target" || name == "generated" || name.starts_with('.')
}

/// Every file below a folder whose name has one of these endings.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("an entry can be read").path();
        let name = path.to_string_lossy();
        if path.is_dir() && !is_foreign(&path) {
            found.extend(files(&path, endings));
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Every Rust file with its text.
pub(crate) fn sources() -> Vec<(String, String)> {
    let root = root();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source is text");
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        (name, text)
    };
    files(&root, &[".rs"]).into_iter().map(read).collect()
}

/// Names of the policies in the cell's list.
fn policies() -> Vec<String> {
    let list = root().join("cellstate/src/policy/list.rs");
    let text = std::fs::read_to_string(list).expect("the list of policies can be read");
    let (_, listed) = text.split_once("$with! {").expect("the list has a macro");
    let line = |line: &str| {
        let (_, policy) = line.trim().strip_suffix(',')?.split_once(": ")?;
        let policy = policy.split(' ').next()?.rsplit("::").next()?;
        Some(policy.to_owned())
    };
    listed.lines().filter_map(line).collect()
}

/// Code that handles all policies must not name any of them, so that adding a policy does not change that code.
#[test]
fn what_goes_over_all_policies_names_none() {
    let policies = policies();
    assert!(policies.len() > 5, "{policies:?}");
    let general =
        ["commit/", "fit.rs", "delta/build.rs", "delta/mod.rs", "delta/merge.rs", "hash.rs"];
    let general = general.map(|name| format!("cellstate/src/{name}"));
    let is_general = |name: &str| general.iter().any(|general| name.starts_with(general.as_str()));
    let mut named = Vec::new();
    for (name, text) in sources().into_iter().filter(|(name, _)| is_general(name)) {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let words: BTreeSet<&str> =
            code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect();
        let found = policies.iter().filter(|policy| words.contains(policy.as_str()));
        named.extend(found.map(|policy| format!("{name}: {policy}")));
    }
    assert_none("policies named where all are meant", named);
}

/// Fails with a list of violations, unless the list is empty.
pub(crate) fn assert_none(what: &str, wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{what}:\n  {}", wrong.join("\n  "));
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent = sources().into_iter().filter(|(_, text)| !text.starts_with("//! "));
    assert_none("files that do not begin with //!", silent.map(|(name, _)| name).collect());
}

#[test]
fn no_file_holds_two_ideas() {
    let lines = |text: &str| text.split("\n#[cfg(test)]").next().unwrap_or(text).lines().count();
    let long = sources().into_iter().filter(|(_, text)| lines(text) > LINES_MAX);
    let named = long.map(|(name, text)| format!("{name}: {} lines", lines(&text)));
    assert_none("files that are too long", named.collect());
}

#[test]
fn nothing_is_left_to_do_in_the_sources() {
    // The words are written in two halves, so that this file does not contain them.
    let words = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["HA", "CK"]].map(|half| half.concat());
    let folders = [["/ho", "me/"], ["/ro", "ot/"], ["/Use", "rs/"], ["/wo", "rk/"], ["C:", "\\\\"]];
    let folders = folders.map(|half| half.concat());
    let root = root();
    let mut wrong = Vec::new();
    for path in files(&root, &[".rs", ".toml", ".md", ".txt", ".yml", ".yaml", ".sh", ".proto"]) {
        let text = std::fs::read_to_string(&path).expect("it is text");
        for (number, line) in (1..).zip(text.lines()) {
            let mut all = words.iter().chain(&folders);
            if let Some(word) = all.find(|word| line.contains(word.as_str())) {
                wrong.push(format!("{}:{number}: {word}", path.display()));
            }
        }
    }
    assert_none("words that do not belong here", wrong);
}

/// The crates on which each crate may depend, without cycles. (A crate depends on itself for features that its tests
/// need.)
fn arrows() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("core", &[][..]),
        ("cell", &["core", "cellstate", "schedulers", "client", "store"]),
        ("cellstate", &["core"]),
        ("reassign", &[]),
        ("schedulers", &["core", "cellstate", "reassign", "schedulers"]),
        ("store", &["core", "cellstate"]),
        ("agent", &["core"]),
        ("runner", &["core", "client", "agent"]),
        ("client", &["core", "cellstate"]),
        ("service", &["core", "cellstate", "store", "client"]),
        ("workload", &["core", "cellstate", "schedulers"]),
        ("kube", &["core", "cellstate", "schedulers", "workload", "kube", "tests"]),
        ("run", &["core", "cellstate", "schedulers", "store", "workload", "run"]),
        ("sim", &["core", "cellstate", "schedulers", "store", "workload", "run"]),
        (
            "bench",
            &[
                "core",
                "cellstate",
                "schedulers",
                "store",
                "client",
                "service",
                "workload",
                "run",
                "sim",
            ],
        ),
        (
            "server",
            &[
                "core",
                "cellstate",
                "schedulers",
                "reassign",
                "store",
                "agent",
                "runner",
                "client",
                "service",
                "workload",
                "run",
                "server",
                "tests",
            ],
        ),
        (
            "tests",
            &[
                "core",
                "cell",
                "cellstate",
                "schedulers",
                "reassign",
                "store",
                "client",
                "service",
                "workload",
                "sim",
                "bench",
            ],
        ),
    ])
}

/// The crates of the workspace among the dependencies in a manifest, including those for tests and builds.
fn used_crates(manifest: &str) -> BTreeSet<String> {
    let mut in_dependencies = false;
    let mut used = BTreeSet::new();
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            in_dependencies = section.contains("dependencies");
        }
        let name = line.trim_start_matches("[dependencies.").strip_prefix("omega-");
        let end = |c: char| !c.is_ascii_alphanumeric() && c != '-';
        if let Some(name) = name.filter(|_| in_dependencies) {
            used.insert(name.split(end).next().unwrap_or_default().to_owned());
        }
    }
    used
}

#[test]
fn no_arrow_between_crates_is_turned_round() {
    let arrows = arrows();
    let mut wrong = Vec::new();
    for manifest in files(&root(), &["Cargo.toml"]) {
        let folder = manifest.parent().and_then(Path::file_name).unwrap_or_default();
        let text = std::fs::read_to_string(&manifest).expect("a manifest is text");
        if text.contains("[workspace]") {
            continue;
        }
        let name = folder.to_string_lossy();
        match arrows.get(&*name) {
            None => {
                wrong.push(format!("{name} is in no table: add it to ARCHITECTURE.md and here"))
            }
            Some(allowed) => {
                let used = used_crates(&text);
                let bad = used.into_iter().filter(|used| !allowed.contains(&&**used));
                wrong.extend(bad.map(|used| format!("{name} may not use {used}")));
            }
        }
    }
    assert_none("arrows", wrong);
}

#[test]
fn the_arrows_are_read_from_every_sort_of_dependency() {
    let manifest = "[package]\nname = \"omega-x\"\n[dependencies]\nomega-core.workspace = true\n\
                    [dev-dependencies]\nomega-store = { path = \"..\" }\n";
    let used: Vec<String> = used_crates(manifest).into_iter().collect();
    assert_eq!(used, ["core", "store"]);
}

/// Targets of a Markdown text's links to files, as written.
fn linked(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|to| !to.contains("://") && !to.starts_with('#'));
    files.filter_map(|to| to.split(['#', ' ']).next())
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let broken = files(&root(), &[".md"]).into_iter().flat_map(|page| {
        let text = std::fs::read_to_string(&page).expect("a page is text");
        let folder = page.parent().expect("a page is in a folder");
        let gone = linked(&text).filter(|to| !folder.join(to).exists());
        gone.map(|to| format!("{}: {to}", page.display())).collect::<Vec<_>>()
    });
    assert_none("links to files that are not there", broken.collect());
}

/// Maximum number of words of a folder's README, so that readers read it before the files.
const README_WORDS_MAX: usize = 120;

/// Number of source files from which a folder needs a README.
const README_FILES_MIN: usize = 4;

/// The README of the crate for embedders, which is its page in the registry.
const README_OF_THE_CRATE: &str = "core/cell/README.md";

/// Files and folders that a README names, as written: `name.rs`, `name/`, `folder/name.rs`.
fn named(readme: &str) -> impl Iterator<Item = &str> {
    let code = readme.split('`').skip(1).step_by(2);
    code.filter(|name| !name.contains(' ') && (name.ends_with(".rs") || name.ends_with('/')))
}

/// Folders with Rust files, each with the number of these files. Folders of examples are described by their crate, and
/// folders of tests by the lists in their `mod.rs`.
fn folders() -> BTreeMap<PathBuf, usize> {
    let mut folders = BTreeMap::new();
    for file in files(&root(), &[".rs"]) {
        let folder = file.parent().expect("a file is in a folder").to_owned();
        let is_of_tests = folder.parent().is_some_and(|above| above.ends_with("tests/it"));
        if !folder.ends_with("examples") && !is_of_tests {
            *folders.entry(folder).or_default() += 1;
        }
    }
    folders
}

/// Maximum number of Rust files in a folder.
const FOLDER_FILES_MAX: usize = 25;

#[test]
fn folders_have_few_files() {
    let large = folders().into_iter().filter(|(_, count)| *count > FOLDER_FILES_MAX);
    let named = large.map(|(folder, count)| format!("{}: {count} files", folder.display()));
    assert_none("folders with too many files: group them by idea", named.collect());
}

#[test]
fn a_module_with_submodules_is_a_folder_with_mod_rs() {
    let folders = folders();
    let beside = |name: &String| folders.contains_key(&root().join(name).with_extension(""));
    let wrong = sources().into_iter().map(|(name, _)| name).filter(beside);
    assert_none("modules beside their folders: move them to mod.rs", wrong.collect());
}

#[test]
fn each_folder_with_several_files_has_a_readme() {
    let large = folders().into_iter().filter(|(_, count)| *count >= README_FILES_MIN);
    let silent = large.filter(|(folder, _)| !folder.join("README.md").exists());
    let named = silent.map(|(folder, count)| format!("{}: {count} files", folder.display()));
    assert_none("folders without a README", named.collect());
}

#[test]
fn readmes_of_folders_are_short() {
    let readmes = folders().into_keys().map(|folder| folder.join("README.md"));
    let long = readmes.filter(|path| !path.ends_with(README_OF_THE_CRATE)).filter_map(|path| {
        let words = std::fs::read_to_string(&path).ok()?.split_whitespace().count();
        (words > README_WORDS_MAX).then(|| format!("{}: {words} words", path.display()))
    });
    assert_none("READMEs that are too long", long.collect());
}

#[test]
fn readmes_name_files_that_exist() {
    let root = root();
    let readmes: Vec<PathBuf> = folders()
        .into_keys()
        .map(|folder| folder.join("README.md"))
        .filter(|readme| readme.exists())
        .collect();
    assert!(readmes.len() > 60, "folders have READMEs: {readmes:?}");
    let gone = readmes.iter().flat_map(|readme| {
        let text = std::fs::read_to_string(readme).expect("a README is text");
        let folder = readme.parent().expect("a README is in a folder");
        // A file in parentheses after a folder is in that folder; a path may begin at the root.
        let inside = std::fs::read_dir(folder)
            .expect("the folder is read")
            .map(|entry| entry.expect("an entry is read").path())
            .filter(|path| path.is_dir());
        let places: Vec<PathBuf> = inside.chain([folder.to_owned(), root.clone()]).collect();
        let exists = |name: &str| places.iter().any(|place| place.join(name).exists());
        named(&text)
            .filter(|name| !exists(name))
            .map(|name| format!("{}: {name}", readme.display()))
            .collect::<Vec<_>>()
    });
    assert_none("files of READMEs that do not exist", gone.collect());
}

#[test]
fn every_page_is_in_the_index_of_pages() {
    let folder = root().join("docs");
    let index = std::fs::read_to_string(folder.join("README.md")).expect("there is an index");
    let known: BTreeSet<PathBuf> = linked(&index).map(|to| folder.join(to)).collect();
    let pages = files(&folder, &[".md"]).into_iter();
    let missing = pages.filter(|page| !page.ends_with("README.md") && !known.contains(page));
    let names = missing.map(|page| page.display().to_string());
    assert_none("pages that docs/README.md does not link", names.collect());
}

/// `replaced_words.txt` has one word per line, followed by its replacement in parentheses.
#[test]
fn no_replaced_word_comes_back() {
    let list = include_str!("replaced_words.txt");
    let pair = |line: &'static str| line.strip_suffix(')')?.split_once(" (");
    let pairs: Vec<_> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| pair(line).expect(line))
        .collect();
    let root = root();
    let mut wrong = Vec::new();
    let endings = [".rs", ".toml", ".md", ".txt", ".proto", ".js", ".py", ".html", ".json"];
    for path in files(&root, &endings) {
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().into_owned();
        if name.ends_with("replaced_words.txt") || name == "CHANGELOG.md" {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("it is text");
        for (number, line) in (1..).zip(text.lines()) {
            let old = pairs.iter().filter(|(old, _)| line.contains(old));
            wrong.extend(old.map(|(old, new)| format!("{name}:{number}: {old}: say {new}")));
        }
    }
    assert_none("words that were replaced", wrong);
}

/// Words that must not open a comment, because it should begin with a noun phrase or a verb.
const RIDDLES: [&str; 8] = ["What", "Who", "Whom", "Whose", "Whoever", "How", "That", "The same"];

/// The documentation text of a source line; `None` if it has none.
fn documentation(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let text = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"))?;
    Some(text.trim_start())
}

/// Whether a comment's first line opens with a word of [`RIDDLES`].
fn opens_with_riddle(text: &str) -> bool {
    let after = |word: &&str| text.strip_prefix(*word);
    RIDDLES.iter().filter_map(after).any(|rest| !rest.starts_with(char::is_alphanumeric))
}

#[test]
fn comments_open_with_a_noun_phrase_or_a_verb() {
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        let mut before = None;
        for (number, line) in (1..).zip(text.lines()) {
            let now = documentation(line);
            if before.is_none() && now.is_some_and(opens_with_riddle) {
                wrong.push(format!("{name}:{number}: {}", line.trim()));
            }
            before = now;
        }
    }
    assert_none("comments that open with What, Who, How, That or The same", wrong);
}

#[test]
fn riddles_are_whole_words() {
    for riddle in ["How long it runs.", "The same, sorted.", "Whose it is.", "That.", "What"] {
        assert!(opens_with_riddle(riddle), "{riddle}");
    }
    for plain in ["However large.", "The sameness.", "Returns what is left.", "Thatched."] {
        assert!(!opens_with_riddle(plain), "{plain}");
    }
    assert_eq!(documentation("    /// A line."), Some("A line."));
    assert_eq!(documentation("//!"), Some(""));
    assert_eq!(documentation("// no documentation"), None);
}
