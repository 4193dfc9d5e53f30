//! The documentation as a book: `.ci/book` makes its sources, every page is a chapter, and every link has a target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the package is in the workspace").to_owned()
}

/// Targets of the links in a Markdown text, each with its anchor if it has one.
fn links(text: &str) -> Vec<(&str, Option<&str>)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|to| !to.contains("://") && !to.contains(' '));
    local.map(|to| to.split_once('#').map_or((to, None), |(to, part)| (to, Some(part)))).collect()
}

/// The anchor that mdBook and code hosts derive from a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Anchors of the headings in a Markdown text, outside of its code blocks.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#').strip_prefix(' ');
        if let Some(heading) = heading.filter(|_| line.starts_with('#') && !in_code) {
            found.insert(anchor(heading));
        }
    }
    found
}

/// Sources of the book, which `.ci/book` writes into a temporary folder.
fn sources() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let out = folder.path().join("book");
    let mut script = Command::new(root().join(".ci/book"));
    let made = script.arg("--sources").env("OMEGA_BOOK", &out).status().expect("bash runs");
    assert!(made.success(), ".ci/book --sources: {made}");
    folder
}

#[test]
fn every_page_is_a_chapter_of_the_book() {
    let folder = sources();
    let book = folder.path().join("book/src");
    let summary = std::fs::read_to_string(book.join("SUMMARY.md")).expect("there is a summary");
    let chapters: BTreeSet<&str> = links(&summary).into_iter().map(|(to, _)| to).collect();
    let pages = std::fs::read_dir(root().join("docs")).expect("there are pages");
    let names = pages.map(|page| page.expect("a page").file_name().into_string().expect("UTF-8"));
    let missing: Vec<String> = names
        .filter(|name| name.ends_with(".md") && !chapters.contains(&*format!("docs/{name}")))
        .collect();
    assert!(missing.is_empty(), "no chapters of the book: {missing:?}");
    let gone = chapters.iter().filter(|chapter| !book.join(chapter).is_file());
    assert_eq!(gone.collect::<Vec<_>>(), Vec::<&&str>::new(), "chapters without a page");
}

#[test]
fn every_link_to_a_section_has_its_heading() {
    let folder = sources();
    let book = folder.path().join("book/src");
    let summary = std::fs::read_to_string(book.join("SUMMARY.md")).expect("there is a summary");
    let mut wrong = Vec::new();
    for (chapter, _) in links(&summary) {
        let page = book.join(chapter);
        let text = std::fs::read_to_string(&page).expect("a chapter is text");
        for (to, part) in links(&text) {
            let Some(part) = part else { continue };
            let target = page.parent().expect("a page is in a folder").join(to);
            let target = if to.is_empty() { page.clone() } else { target };
            let there = std::fs::read_to_string(&target).unwrap_or_default();
            if !anchors(&there).contains(part) {
                wrong.push(format!("{chapter}: {to}#{part}"));
            }
        }
    }
    assert!(wrong.is_empty(), "links to headings that are not there:\n  {}", wrong.join("\n  "));
}

#[test]
fn anchors_are_those_of_headings() {
    let text = "# Add a replica\n```sh\n# no heading\n```\n## `omega txn`: by hand\n#no heading\n";
    let expected = ["add-a-replica", "omega-txn-by-hand"].map(str::to_owned);
    assert_eq!(anchors(text), BTreeSet::from(expected));
    assert_eq!(
        links("[a](b.md#c), [d](#e), [f](https://g.org/#h)"),
        [("b.md", Some("c")), ("", Some("e"))]
    );
}
