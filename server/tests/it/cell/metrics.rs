//! Metrics of a served cell and of a scheduler. docs/metrics.md must list exactly these metrics, and the dashboard must
//! use no others.

use crate::kit::cell::{Process, ports, serve};
use crate::kit::http::{get, send_request};
use crate::kit::process::{folder, omega, run_omega, workspace_file};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

/// A sample: its name, its labels, its value.
type Sample = (String, BTreeMap<String, String>, f64);

/// The samples with one name.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    samples: Vec<Sample>,
}

impl Family {
    /// Name of a metric in a query; names of counters have a suffix.
    fn shown(&self, name: &str) -> String {
        if self.kind == "counter" { format!("{name}_total") } else { name.to_owned() }
    }
}

/// Parses the text by the rules of the format, and panics at a violation.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let lines = text.strip_suffix("# EOF\n").expect("it ends with # EOF").lines();
    for line in lines {
        match line.strip_prefix("# ").map(|rest| rest.splitn(3, ' ').collect::<Vec<_>>()) {
            Some(words) => {
                let [what, name, output] = words[..] else { panic!("{line}") };
                if what == "HELP" {
                    assert!(!families.contains_key(name), "{name} comes twice");
                    current = name.to_owned();
                }
                assert_eq!(current, name, "{line}");
                let family = families.entry(current.clone()).or_default();
                match what {
                    "HELP" => family.help = output.to_owned(),
                    "TYPE" => family.kind = output.to_owned(),
                    "UNIT" => assert!(name.ends_with(&format!("_{output}")), "{line}"),
                    _ => panic!("{line}"),
                }
            }
            None => {
                let sample = sample(line);
                let family = families.get_mut(&current).expect("a sample belongs to a family");
                let ending = sample.0.strip_prefix(&*current).expect("samples come together");
                match &*family.kind {
                    "counter" => assert_eq!(ending, "_total", "{line}"),
                    "gauge" => assert_eq!(ending, "", "{line}"),
                    "histogram" => {
                        assert!(["_bucket", "_sum", "_count"].contains(&ending), "{line}")
                    }
                    kind => panic!("{kind}: {line}"),
                }
                family.samples.push(sample);
            }
        }
    }
    families.iter().for_each(|(name, family)| check(name, family));
    families
}

fn sample(line: &str) -> Sample {
    let (head, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = match head.split_once('{') {
        None => (head, ""),
        Some((name, labels)) => (name, labels.strip_suffix('}').expect("labels end")),
    };
    let labels = labels.split(',').filter(|label| !label.is_empty()).map(|label| {
        let (key, value) = label.split_once('=').unwrap();
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        (key.to_owned(), value.expect("values are quoted").to_owned())
    });
    (name.to_owned(), labels.collect(), value.parse().unwrap())
}

/// Checks that each line occurs once, that there is a help text, and that the values of buckets never decrease and end
/// with the count.
fn check(name: &str, Family { kind, help, samples }: &Family) {
    assert!(!help.is_empty() && !kind.is_empty(), "{name}");
    let lines: BTreeSet<String> =
        samples.iter().map(|(name, labels, _)| format!("{name}{labels:?}")).collect();
    assert_eq!(lines.len(), samples.len(), "{name} has a line twice");
    let counts = samples.iter().filter(|(sample, ..)| sample.ends_with("_count"));
    for (_, labels, count) in counts.filter(|_| kind == "histogram") {
        let mut last = 0.0;
        let is_own =
            |of: &BTreeMap<String, String>| labels.iter().all(|(k, v)| of.get(k) == Some(v));
        for (_, of, value) in samples.iter().filter(|(_, of, _)| of.contains_key("le")) {
            if is_own(of) {
                assert!(*value >= last, "{name}: {of:?}");
                last = *value;
            }
        }
        assert_eq!(last, *count, "{name}: {labels:?}");
    }
}

/// A cell on a disk, and a scheduler with two workers.
struct World {
    cell: String,
    web: u16,
    scheduler: u16,
    _processes: [Process; 2],
    /// Dropped last, after the processes that use the folder.
    dir: TempDir,
}

impl World {
    fn start() -> World {
        let dir = folder(&[("machines.toml", MACHINES)]);
        let all = ports(3);
        let cell = format!("127.0.0.1:{}", all[0]);
        let server = serve(
            dir.path(),
            &[
                "--dir=cell".to_owned(),
                format!("--listen={cell}"),
                format!("--web-listen=127.0.0.1:{}", all[1]),
            ],
        );
        let mut command = omega(dir.path());
        command.args(["scheduler", "--workers=2", "--cell", &cell]);
        command.arg(format!("--metrics-listen=127.0.0.1:{}", all[2]));
        let scheduler = command.stdout(Stdio::null()).spawn().expect("omega starts");
        World {
            dir,
            cell,
            web: all[1],
            scheduler: all[2],
            _processes: [server, Process(scheduler)],
        }
    }

    fn ok(&self, line: &str) {
        let mut command = omega(self.dir.path());
        let result = command.args(line.split_whitespace()).env("OMEGA_CELL", &self.cell).output();
        let result = result.unwrap();
        assert!(result.status.success(), "{line}: {}", String::from_utf8_lossy(&result.stderr));
    }

    /// Submits jobs that are placed, and a job that is never placed.
    fn work(&self) {
        self.ok("machine add -f machines.toml");
        for index in 0..80 {
            self.ok(&format!("job submit job-{index} --count 2 --cpu 1"));
        }
        self.ok("job submit wide --cpu 99");
        let placed = |families: &BTreeMap<String, Family>| {
            let of = families.get("omega_worker_placements");
            of.map_or(0.0, |family| family.samples.iter().map(|(_, _, value)| value).sum::<f64>())
        };
        loop {
            let families = self.scheduler_metrics();
            let is_done = placed(&families) >= 160.0 && decided_jobs(&families) >= 81.0;
            if is_done && sum(&families, "omega_plugin_seconds") > 0.0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    fn scheduler_metrics(&self) -> BTreeMap<String, Family> {
        parse(&get(self.scheduler, "/metrics").body)
    }
}

fn sum(families: &BTreeMap<String, Family>, name: &str) -> f64 {
    families[name].samples.iter().map(|(_, _, value)| value).sum()
}

/// Number of jobs on which a decision was made, read from the histogram of their waits.
fn decided_jobs(families: &BTreeMap<String, Family>) -> f64 {
    let waits = families.get("omega_worker_job_wait_seconds");
    let samples = waits.iter().flat_map(|family| &family.samples);
    samples.filter(|one| one.0.ends_with("_count")).map(|one| one.2).sum()
}

const MACHINES: &str = r#"
[[machine]]
name = "m-{n}"
count = 20
capacity = { cpu = 16, memory = "64GiB" }
"#;

/// All names in these texts in the form that queries use, with their types.
fn names(texts: &[&BTreeMap<String, Family>]) -> BTreeMap<String, String> {
    let all = texts.iter().flat_map(|families| families.iter());
    all.map(|(name, family)| (family.shown(name), family.kind.clone())).collect()
}

/// Every word of a text that has the prefix of our metrics.
fn metric_names(text: &str) -> BTreeSet<String> {
    let is_of_a_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c| !is_of_a_name(c)).filter(|word| word.starts_with("omega_"));
    words.map(str::to_owned).collect()
}

fn is_exported(names: &BTreeMap<String, String>, word: &str) -> bool {
    let parts = ["_bucket", "_sum", "_count"];
    let of_histogram = parts.iter().find_map(|part| word.strip_suffix(part));
    names.contains_key(word)
        || of_histogram.is_some_and(|name| names.get(name).is_some_and(|kind| kind == "histogram"))
}

fn read(name: &str) -> String {
    let file = workspace_file(name);
    std::fs::read_to_string(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()))
}

#[test]
fn what_is_told_is_what_the_documentation_and_the_dashboard_name() {
    let world = World::start();
    world.work();
    let cell = parse(&get(world.web, "/metrics").body);
    let scheduler = world.scheduler_metrics();
    assert_eq!(sum(&scheduler, "omega_scheduler_workers"), 2.0);
    let decided = sum(&scheduler, "omega_worker_decisions");
    assert!(decided >= 80.0, "{decided}");
    assert_eq!(decided_jobs(&scheduler), 81.0);
    let useful = |one: &&Sample| one.1.get("outcome").is_some_and(|outcome| outcome == "useful");
    let busy = &scheduler["omega_worker_busy_seconds"].samples;
    assert!(busy.iter().filter(useful).all(|(_, _, seconds)| *seconds > 0.0), "{busy:?}");
    let response = names(&[&cell, &scheduler]);

    let mut written = BTreeMap::new();
    for line in read("docs/metrics.md").lines().filter(|line| line.starts_with("| `omega_")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{line}");
        let name = cells[1].trim_matches('`').split('{').next().unwrap_or_default();
        let double = written.insert(name.to_owned(), cells[2].to_owned());
        assert_eq!(double, None, "{line}");
    }
    assert_eq!(written, response, "docs/metrics.md against what is told");
    for file in ["docs/metrics.md", "server/packaging/grafana.json", "server/packaging/alerts.yaml"]
    {
        let text = read(file);
        for word in metric_names(&text) {
            assert!(is_exported(&response, &word), "{file} names {word}, which nobody tells");
        }
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("server/packaging/grafana.json")).unwrap();
    assert_eq!(dashboard["templating"]["list"][0]["type"], "datasource");
    let panels = dashboard["panels"].as_array().unwrap();
    let rows = panels.iter().filter(|panel| panel["type"] == "row").map(|row| &row["title"]);
    let rows: Vec<&str> = rows.map(|title| title.as_str().unwrap()).collect();
    assert_eq!(rows, ["Cell", "Commits", "Schedulers", "Agents", "Replicas", "Network"]);
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let opened = query.matches('(').count();
            assert_eq!(opened, query.matches(')').count(), "{query}");
            assert!(!metric_names(query).is_empty(), "{query}");
        }
    }
}

#[test]
fn figures_of_a_scheduler_are_of_this_machine_alone() {
    let dir = folder(&[]);
    let refused = |dir: &Path, arguments: &[&str], code: i32| {
        let output = run_omega(dir, arguments);
        assert_eq!(output.code, Some(code), "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        output.stderr
    };
    let open = ["scheduler", "--metrics-listen=0.0.0.0:0"];
    assert!(refused(dir.path(), &open, 78).contains("is open to other machines"));
    let world = World::start();
    let taken = format!("--metrics-listen=127.0.0.1:{}", world.web);
    assert!(refused(dir.path(), &["scheduler", &taken], 1).contains("cannot listen on"));
    // The scheduler listens before it places tasks.
    while std::net::TcpStream::connect(("127.0.0.1", world.scheduler)).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(get(world.scheduler, "/healthz").status, 200);
    for path in ["/metrics", "/healthz"] {
        assert_eq!(send_request(world.scheduler, "GET", "evil.example", path).status, 403);
    }
    assert_eq!(get(world.scheduler, "/").status, 404);
}
