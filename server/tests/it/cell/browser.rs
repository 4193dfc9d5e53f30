//! The web page in a browser. If this computer has no browser, the tests are skipped with a message.

use crate::cell::web::{HOSTILE, shown, shown_at_work, three_shown};
use crate::kit::http::get;
use std::path::Path;
use std::process::{Command, Stdio};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Path of a browser; `None` (with a message) if there is none.
fn browser() -> Option<&'static str> {
    let works = |name: &&&str| {
        let mut command = Command::new(name);
        let response =
            command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        response.is_ok_and(|status| status.success())
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
        .args(["--enable-logging=stderr", "--dump-dom", "--allow-file-access-from-files"])
        .arg(format!("--virtual-time-budget={millis}"))
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let result = text(&output.stderr);
    let complaints: Vec<&str> = result.lines().filter(|line| line.contains("CONSOLE")).collect();
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
    check("#/job/%3Cscript%3Ealert(1)", &[&escaped, "&lt;i&gt;nobody"]);
    let command = "\"/bin/&lt;b&gt;bold&lt;/b&gt;\" --one \"two words\" \"line\\n\\u{202e}break\"";
    let restarts = "3 times on its machine, after 2 s or longer, then placed again 2 times";
    let image = "\"&lt;i&gt;image&lt;/i&gt;\"";
    check("#/job/%3Cscript%3Ealert(1)", &[command, restarts, image]);
    check("#/job/gone", &["there is no job \"gone\""]);
    check("#/jobs?state=bogus", &["<p class=\"bad\">no such state: bogus"]);
    check("#/machines?state=bogus", &["<p class=\"bad\">no such state: bogus"]);
    check("#/machines?state=draining&name=b", &[">b-3</a>", "<tbody><tr><th"]);
    check("#/jobs?tenant=other", &["<p class=\"quiet\">none"]);
    // A page that is opened by its address is loaded at once, not with the next update.
    for (path, part) in
        [("#/machines", ">a-1</a>"), ("#/jobs", ">wide</a>"), ("#/job/wide", "cpu 9")]
    {
        // The next update of these pages is after two or three seconds.
        check_after(1500, path, &[part]);
    }
}

#[test]
fn a_browser_shows_tenants_and_schedulers() {
    let Some(browser) = browser() else { return };
    let (_cell, port) = shown_at_work();
    let profile = tempfile::tempdir().unwrap();
    for (path, parts) in [
        ("#/tenants", [">default</a>", "&lt;i&gt;company", "1 of 2</span>", "cpu 100"]),
        (
            "#/schedulers",
            [">first</th>", "&lt;i&gt;second", "no room 2", "&lt;i&gt;second&lt;/i&gt;:0"],
        ),
    ] {
        let url = format!("http://127.0.0.1:{port}/{path}");
        let (page, complaints) = dom(browser, profile.path(), &url, 8000);
        assert_eq!(complaints, "", "{path}");
        for part in parts {
            assert!(page.contains(part), "{path}: {part} is not in\n{page}");
        }
        assert!(!page.contains("<i>company") && !page.contains("<i>second"), "{path}\n{page}");
    }
}

#[test]
fn the_page_of_a_follower_says_so() {
    let Some(browser) = browser() else { return };
    let (_three, all) = three_shown();
    let profile = tempfile::tempdir().unwrap();
    let notice = "This replica is a follower; its data may be behind (the leader is r";
    loop {
        let response = all.iter().map(|port| (port, get(*port, "/api/v1/cell").json()));
        let (leads, follow): (Vec<_>, Vec<_>) = response
            .filter(|(_, cell)| cell["leader"].is_u64())
            .partition(|(_, cell)| cell["leader"] == cell["replica"]);
        let [leader, follower] = [leads, follow].map(|some| some.first().map(|(port, _)| **port));
        let has_notice = |port: u16| {
            let url = format!("http://127.0.0.1:{port}/");
            dom(browser, profile.path(), &url, 3000).0.contains(notice)
        };
        // An election may have changed the leader between the requests.
        if follower.is_some_and(has_notice) && leader.is_some_and(|port| !has_notice(port)) {
            return;
        }
    }
}

/// A page that updates a table, and writes down which parts changed.
const UPDATES: &str = r#"
import { bar, el, link, table } from "./dom.js";
import { patch } from "./patch.js";
const place = el("div");
const told = el("pre");
document.body.append(place, told);
const seen = new MutationObserver(() => {});
seen.observe(place, { subtree: true, childList: true, attributes: true, characterData: true });
const row = (name, number, share = 10) => ({ name, number, share });
let title = "number";
const update = (...rows) => patch(place, table(null, [
  { name: "name", head: true, of: (row) => link("job", row.name) },
  { name: title, of: (row) => row.number },
  { name: "", of: (row) => bar(row.share) },
  { name: "", of: () => el("details", {}, el("summary", {}, "why"), "text") },
], rows));
const say = (what, value) => told.append(`${what}: ${value}\n`);
const changes = () => seen.takeRecords().map((one) => `${one.type} ${one.target.nodeName}`).join(", ") || "nothing";
const names = () => [...place.querySelectorAll("a")].map((one) => one.textContent).join(" ");
update(row("a", 1), row("b", 2), row("c", 3));
const first = (selector) => place.querySelector(selector);
const [head, body, links] = [first("thead"), first("tbody"), [...place.querySelectorAll("a")]];
const scroll = first(".scroll");
links[1].focus();
first("tbody tr:nth-child(2) details").open = true;
seen.takeRecords();
update(row("a", 1), row("b", 2), row("c", 3));
say("equal", changes());
update(row("a", 1), row("b", 20), row("c", 3));
say("one cell", changes());
update(row("a", 1), row("b", 20), row("c", 3, 30));
say("one bar", `${changes()}, ${first("tr:nth-child(3) i").style.width}`);
update(row("new", 0), row("a", 1), row("b", 20), row("c", 3, 30));
say("one more", changes());
update(row("a", 1), row("b", 20), row("c", 3, 30));
say("one less", changes());
update(row("b", 20), row("c", 3, 30), row("a", 1));
say("moved", `${changes()}, ${names()}`);
update(row("c", 3, 30), row("a", 1), row("b", 20));
update(row("b", 20), row("b", 21), row("a", 1), row("c", 3, 30));
say("twice", names());
title = "count";
update(row("b", 20), row("a", 1), row("c", 3, 30));
say("heads", [...place.querySelectorAll("thead th")].map((one) => one.textContent || "-").join(" "));
const kept = links.every((one) => one.isConnected) && first("thead") === head && first("tbody") === body && first(".scroll") === scroll;
say("kept", `${kept}, focus ${document.activeElement === links[1]}, open ${links[1].closest("tr").querySelector("details").open}`);
update();
say("empty", first("p").textContent);
"#;

const UPDATED: &str = "\
equal: nothing
one cell: characterData #text
one bar: attributes SPAN, attributes I, 30%
one more: childList TBODY
one less: childList TBODY
moved: childList TBODY, childList TBODY, b c a
twice: b b a c
heads: name count - -
kept: true, focus true, open true
empty: none
";

#[test]
fn an_update_changes_only_what_is_different() {
    let Some(browser) = browser() else { return };
    let (profile, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("service/src/web/assets");
    for name in ["dom.js", "patch.js"] {
        std::fs::copy(assets.join(name), folder.path().join(name)).unwrap();
    }
    // Styles are forbidden like those of the page's Content-Security-Policy.
    let page = "<!doctype html><meta http-equiv=\"Content-Security-Policy\" content=\"default-src \
        'none'; script-src file:\"><body><script type=\"module\" src=\"updates.js\"></script>";
    std::fs::write(folder.path().join("index.html"), page).unwrap();
    std::fs::write(folder.path().join("updates.js"), UPDATES).unwrap();
    let url = format!("file://{}/index.html", folder.path().display());
    let (page, complaints) = dom(browser, profile.path(), &url, 1000);
    assert_eq!(complaints, "");
    let response = page.split("<pre>").nth(1).and_then(|rest| rest.split("</pre>").next());
    assert_eq!(response, Some(UPDATED), "{page}");
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
