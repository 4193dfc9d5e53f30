//! The result of a run: the table, the JSON file and the page, and invariants of every result.

use crate::kit::process::{CommandOutput, omega};
use serde_json::Value;
use std::path::Path;

/// A finished run: its output and its result.
pub(crate) struct Outcome {
    pub(crate) table: String,
    pub(crate) json: Value,
}

/// Rounding error of a sum of fractions.
const ROUNDING: f64 = 1e-9;

/// Runs `omega` in a new folder, with a JSON file and a page, and checks the invariants of all runs. No machine may
/// have claims above `claimable` times its capacity in any kind.
pub(crate) fn run(arguments: &[&str], claimable: f64) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let files = ["--json", "result.json", "--report", "page.html"];
    let output = omega(dir.path()).args(arguments).args(files).output().expect("omega starts");
    let result = CommandOutput::from(output);
    assert_eq!((result.code, &*result.stderr), (Some(0), ""), "{arguments:?}");
    let text = std::fs::read_to_string(dir.path().join("result.json")).unwrap();
    let outcome = Outcome { table: result.stdout, json: serde_json::from_str(&text).unwrap() };
    outcome.check_sums();
    outcome.check_claims(claimable);
    outcome.check_table();
    check_page(&std::fs::read_to_string(dir.path().join("page.html")).unwrap());
    outcome
}

/// Runs `omega` in a separate folder that has these files, like [`run`].
pub(crate) fn run_in(dir: &Path, arguments: &[&str], claimable: f64) -> Outcome {
    let arguments: Vec<String> = arguments
        .iter()
        .map(|argument| match dir.join(argument) {
            file if file.exists() => file.to_string_lossy().into_owned(),
            _ => (*argument).to_owned(),
        })
        .collect();
    run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), claimable)
}

impl Outcome {
    /// A number of the result.
    pub(crate) fn number(&self, field: &str) -> u64 {
        self.json[field].as_u64().unwrap_or_else(|| panic!("{field} is a whole number"))
    }

    fn list(&self, field: &str) -> &[Value] {
        self.json[field].as_array().unwrap_or_else(|| panic!("{field} is a list"))
    }

    /// Checks that each task is counted once.
    fn check_sums(&self) {
        let number = |field| self.number(field);
        let placed = number("placements") + number("placed_at_start");
        assert_eq!(
            placed + number("pending"),
            number("tasks") + number("lost") + number("evictions")
        );

        let sum = |list: &str, field: &str| -> u64 {
            self.list(list).iter().map(|entry| entry[field].as_u64().unwrap()).sum()
        };
        assert_eq!(sum("unplaced", "tasks"), number("pending"));
        assert_eq!(sum("schedulers", "placements"), number("placements"));
        for entry in self.list("unplaced") {
            assert_ne!(entry["reason"].as_str().unwrap(), "", "{entry}");
            assert_ne!(entry["example"].as_str().unwrap(), "", "{entry}");
        }
        for scheduler in self.list("schedulers") {
            let count = |field: &str| scheduler[field].as_u64().unwrap();
            assert_eq!(count("claims"), count("placements") + count("conflicts"), "{scheduler}");
        }

        let last = self.list("series").last().expect("there is a sample of the end");
        let sampled = |field: &str| last[field].as_u64().unwrap();
        let running = placed - number("finished") - number("lost") - number("evictions");
        assert_eq!(sampled("running"), running);
        assert_eq!(sampled("pending"), number("pending"));
        assert_eq!(sampled("placements"), number("placements"));
        assert_eq!(sampled("conflicts"), sum("schedulers", "conflicts"));
    }

    /// Checks that no machine has claims above this multiple of its capacity.
    fn check_claims(&self, claimable: f64) {
        for resource in self.list("resources") {
            for field in ["used_at_end", "used_at_peak"] {
                let used = resource[field].as_f64().unwrap();
                assert!((0.0..=claimable + ROUNDING).contains(&used), "{field}: {resource}");
            }
        }
        let heat = self.list("heat");
        assert_eq!(heat.len() as u64, self.number("machines"));
        for machine in heat {
            for used in machine["used"].as_array().unwrap().iter().filter_map(Value::as_f64) {
                assert!((0.0..=claimable + ROUNDING).contains(&used), "{machine}");
            }
        }
    }

    fn check_table(&self) {
        let table = &self.table;
        let heading = table.lines().next().unwrap();
        assert!(heading.starts_with(self.json["name"].as_str().unwrap()), "{heading}");
        for line in ["placements  ", "placements/s  ", "time taken  ", "scheduler  ", "resource  "]
        {
            let found = table.lines().filter(|l| l.starts_with(line)).count();
            assert_eq!(found, 1, "lines that begin with {line:?} in\n{table}");
        }
        for scheduler in self.list("schedulers") {
            let name = scheduler["name"].as_str().unwrap();
            assert!(table.contains(&format!("\n{name} ")), "no line of {name} in\n{table}");
        }
        let waits = self.number("pending") > 0;
        assert_eq!(table.contains("\nnot placed: "), waits, "{table}");
        assert_eq!(table.contains("\nwait at the end "), waits, "{table}");
    }
}

/// Checks that the page loads no other file, so that it can be sent by mail.
fn check_page(page: &str) {
    assert!(page.starts_with("<!doctype html>"), "{}", &page[..page.len().min(100)]);
    assert!(page.trim_end().ends_with("</html>"), "the page is whole");
    for outside in ["http://", "https://", " src=", "url(", "@import", "fetch("] {
        assert!(!page.contains(outside), "the page holds {outside:?}");
    }
}
