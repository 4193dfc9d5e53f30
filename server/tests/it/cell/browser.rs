//! The web page in a browser. If this computer has no browser, the tests are skipped with a message.

use crate::cell::web::{HOSTILE, shown};
use std::path::Path;
use std::process::{Command, Stdio};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Path of a browser; `None` (with a message) if there is none.
fn browser() -> Option<&'static str> {
    let works = |name: &&&str| {
        let mut command = Command::new(name);
        let told = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        told.is_ok_and(|status| status.success())
    };
    let found = BROWSERS.iter().find(works).copied();
    if found.is_none() {
        println!("skipped: no browser found ({})", BROWSERS.join(", "));
    }
    found
}

/// The page after some milliseconds of the browser's virtual time, which passes only while the page waits for nothing
/// else, and its errors.
fn dom(browser: &str, profile: &Path, url: &str, millis: u32) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--virtual-time-budget={millis}"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stderr);
    let complaints: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    (text(&output.stdout), complaints.join("\n"))
}

#[test]
fn a_browser_shows_the_cell() {
    let Some(browser) = browser() else { return };
    let (_cell, port) = shown();
    let profile = tempfile::tempdir().unwrap();
    let check_after = |millis: u32, path: &str, parts: &[&str]| {
        let url = format!("http://127.0.0.1:{port}/{path}");
        let (page, complaints) = dom(browser, profile.path(), &url, millis);
        assert_eq!(complaints, "", "{path}");
        for part in parts {
            assert!(page.contains(part), "{path}: {part} is not in\n{page}");
        }
        // Names are shown as text: none of them became an element.
        assert!(!page.contains("<script>alert") && !page.contains("<b>bold"), "{path}\n{page}");
    };
    let check = |path: &str, parts: &[&str]| check_after(8000, path, parts);
    let escaped = HOSTILE.replace('<', "&lt;").replace('>', "&gt;");
    check("", &["<dt>machines</dt><dd>41", "1 draining", "&lt;i&gt;nobody", ">wide</a>", &escaped]);
    check("#/machines", &[">a-1</a>", "class=\"warn\">draining<", &escaped, "rack=&lt;b&gt;bold"]);
    check("#/machine/b-3", &["Machine b-3", "rack=b", "16.0 GiB"]);
    check("#/jobs", &[">wide</a>", &escaped]);
    check("#/job/wide", &["Why 2 tasks are pending", "what would help", "cpu 9"]);
    check("#/job/%3Cscript%3Ealert(1)%3C%2Fscript%3E", &[&escaped, "&lt;i&gt;nobody"]);
    check("#/job/gone", &["there is no job \"gone\""]);
    // A page that is opened by its address is loaded at once, not with the next update.
    for (path, part) in
        [("#/machines", ">a-1</a>"), ("#/jobs", ">wide</a>"), ("#/job/wide", "cpu 9")]
    {
        check_after(500, path, &[part]);
    }
}

/// A missing import is an error only once the call is reached.
#[test]
fn scripts_import_the_functions_that_they_call() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("service/src/web/assets");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let scripts: Vec<(String, String)> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "js"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap()))
        .collect();
    let words = |text: &str| -> Vec<String> {
        let parts = text.split(|c: char| !c.is_ascii_alphanumeric());
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let exported: Vec<String> = scripts
        .iter()
        .flat_map(|(_, text)| text.lines().filter(|line| line.starts_with("export ")))
        .filter_map(|line| words(line.split_once("function ")?.1).into_iter().next())
        .collect();
    assert!(exported.iter().any(|name| name == "ask") && exported.len() > 15, "{exported:?}");
    for (path, text) in &scripts {
        let imports = text.lines().filter(|line| line.starts_with("import"));
        let imported: Vec<String> = imports.flat_map(words).collect();
        for name in &exported {
            let is_own = text.contains(&format!("function {name}("));
            let is_called = text.match_indices(&format!("{name}(")).any(|(at, _)| {
                let before = text[..at].chars().next_back();
                before.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '.')
            });
            assert!(
                !is_called || is_own || imported.contains(name),
                "{path} calls {name}, but does not import it"
            );
        }
    }
}
