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

/// The page after some seconds of the browser's virtual time, and its errors.
fn dom(browser: &str, profile: &Path, url: &str) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=8000", "--dump-dom"])
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
    let check = |path: &str, parts: &[&str]| {
        let url = format!("http://127.0.0.1:{port}/{path}");
        let (page, complaints) = dom(browser, profile.path(), &url);
        assert_eq!(complaints, "", "{path}");
        for part in parts {
            assert!(page.contains(part), "{path}: {part} is not in\n{page}");
        }
        // Names are shown as text: none of them became an element.
        assert!(!page.contains("<script>alert") && !page.contains("<b>bold"), "{path}\n{page}");
    };
    let escaped = HOSTILE.replace('<', "&lt;").replace('>', "&gt;");
    check("", &["<dt>machines</dt><dd>41", "1 draining", "&lt;i&gt;nobody", ">wide</a>", &escaped]);
    check("#/machines", &[">a-1</a>", ">draining<", &escaped, "rack=&lt;b&gt;bold"]);
    check("#/machine/b-3", &["Machine b-3", "rack=b", "16.0 GiB"]);
    check("#/jobs", &[">wide</a>", &escaped]);
    check("#/job/wide", &["Why 2 tasks are pending", "what would help", "cpu 9"]);
    check("#/job/%3Cscript%3Ealert(1)%3C%2Fscript%3E", &[&escaped, "&lt;i&gt;nobody"]);
    check("#/job/gone", &["there is no job \"gone\""]);
}
