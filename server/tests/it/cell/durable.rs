//! Durable cells of runs, in one directory or in three, and the output of `omega log` about them.

use crate::kit::outcome::Outcome;
use crate::kit::process::{CommandOutput, listing, omega, run_omega};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// Arguments for a synthetic cell that is placed within a moment.
const SMALL: [&str; 6] = ["run", "--synthetic", "100", "--hours", "1", "--quiet"];

/// Runs a small cell in a new folder, with additional arguments.
fn run(more: &[&str]) -> (TempDir, Outcome) {
    let dir = tempfile::tempdir().unwrap();
    let output = omega(dir.path()).args(SMALL).args(more).args(["--json", "result.json"]).output();
    let result = CommandOutput::from(output.unwrap());
    assert_eq!((result.code, &*result.stderr), (Some(0), ""), "{more:?}");
    let json = std::fs::read_to_string(dir.path().join("result.json")).unwrap();
    let outcome = Outcome { table: result.stdout, json: serde_json::from_str(&json).unwrap() };
    (dir, outcome)
}

/// Output of `omega` in a folder.
fn run_ok(dir: &Path, arguments: &[&str]) -> String {
    let output = run_omega(dir, arguments);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""), "{arguments:?}");
    output.stdout
}

/// The value of a line of `omega log replay`.
fn value<'a>(replay: &'a str, name: &str) -> &'a str {
    let line = replay.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in\n{replay}")).trim()
}

/// The last version of a replay.
fn version(replay: &str) -> u64 {
    let number = value(replay, "version").trim_start_matches('v');
    number.split(' ').next().unwrap().parse().unwrap()
}

/// Every file below a folder, with its bytes.
pub(crate) fn content(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for name in listing(dir) {
        let path = dir.join(&name);
        if path.is_dir() {
            all.extend(content(&path).into_iter().map(|(n, b)| (format!("{name}/{n}"), b)))
        } else {
            all.push((name, std::fs::read(path).unwrap()))
        }
    }
    all
}

#[test]
fn a_durable_run_places_what_a_run_in_memory_does_and_can_be_replayed() {
    let (_, in_memory) = run(&[]);
    let (dir, durable) = run(&["--dir", "cell"]);
    for field in ["machines", "jobs", "tasks"] {
        assert_eq!(durable.json[field], in_memory.json[field], "{field}");
    }
    assert!(in_memory.json["durable"].is_null());
    let replicas = durable.json["durable"]["replicas"].as_array().unwrap();
    assert_eq!((replicas.len(), &replicas[0]["leads"]), (1, &Value::from(true)));
    assert!(replicas[0]["syncs"].as_u64().unwrap() > 0);
    assert!(durable.table.contains("\nfdatasync "), "{}", durable.table);

    // A replica records the commit of an entry only together with later entries. For the last entries, this record is
    // missing, so `--all` is needed.
    let all = ["log", "replay", "cell", "--audit-every", "500", "--all"];
    let replay = run_ok(dir.path(), &all);
    assert_eq!(value(&replay, "machines"), "100");
    // The replay ends with as many running and pending tasks as the run.
    let last = durable.json["series"].as_array().unwrap().last().unwrap();
    assert_eq!(value(&replay, "tasks on machines"), last["running"].to_string());
    assert_eq!(value(&replay, "tasks pending"), durable.json["pending"].to_string());
}

#[test]
fn three_replicas_have_the_same_history() {
    compare_replicas("segment");
}

fn compare_replicas(engine: &str) {
    let (dir, outcome) = run(&["--replicas", "3", "--dir", "cell", "--engine", engine]);
    assert_eq!(outcome.json["durable"]["replicas"].as_array().unwrap().len(), 3);
    assert_eq!(listing(&dir.path().join("cell")), ["r1", "r2", "r3"]);
    // A follower may not know that the last entries are committed, so all replicas are compared at a version that all
    // of them have.
    let to = (1..=3)
        .map(|id| version(&run_ok(dir.path(), &["log", "replay", &format!("cell/r{id}"), "--all"])))
        .min()
        .unwrap()
        .to_string();
    let state = |id: u64| {
        let folder = format!("cell/r{id}");
        let replay = run_ok(dir.path(), &["log", "replay", &folder, "--all", "--to", &to]);
        (value(&replay, "state hash").to_owned(), value(&replay, "fingerprint").to_owned())
    };
    assert_eq!(state(1), state(2));
    assert_eq!(state(1), state(3));
}

#[test]
fn replicas_without_a_folder_leave_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut command = omega(dir.path());
    let result = command.args(SMALL).args(["--replicas", "1"]).env("TMPDIR", temporary.path());
    assert_eq!(CommandOutput::from(result.output().unwrap()).code, Some(0));
    assert_eq!(listing(temporary.path()), [""; 0]);
}

#[test]
fn looking_changes_nothing_and_every_version_can_be_seen() {
    read_and_compare("segment");
}

#[cfg(feature = "rocksdb")]
#[test]
fn looking_changes_nothing_and_every_version_can_be_seen_on_rocksdb() {
    read_and_compare("rocksdb");
}

#[cfg(feature = "rocksdb")]
#[test]
fn three_replicas_on_rocksdb_have_the_same_history() {
    compare_replicas("rocksdb");
}

#[cfg(not(feature = "rocksdb"))]
#[test]
fn a_program_without_rocksdb_says_how_to_get_it() {
    let (dir, _) = run(&["--dir", "cell"]);
    let fault = |arguments: &[&str]| {
        let output = run_omega(dir.path(), arguments);
        assert_eq!((output.code, &*output.stdout), (Some(2), ""), "{arguments:?}");
        output.stderr
    };
    let missing = "omega: this program has no log engine rocksdb: build it with --features \
         rocksdb, or choose another engine\n";
    let other = ["--dir", "other", "--engine", "rocksdb"];
    assert_eq!(fault(&[&SMALL[..], &other].concat()), missing);
    assert!(!dir.path().join("other").exists());
    // The directory is changed as if another program had created it.
    let path = dir.path().join("cell/IDENTITY");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 4);
    bytes[36] = 2;
    let mut crc = flate2::Crc::new();
    crc.update(&bytes);
    bytes.extend(crc.sum().to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let text = "omega: cell: the log engine of this directory is RocksDB: use a program built with \
         --features rocksdb\n";
    assert_eq!(fault(&["log", "show", "cell"]), text);
}

fn read_and_compare(engine: &str) {
    let (dir, _) = run(&["--dir", "cell", "--engine", engine]);
    let cell = dir.path().join("cell");
    let before = content(&cell);
    let last = version(&run_ok(dir.path(), &["log", "replay", "cell"]));
    let shown = run_ok(dir.path(), &["log", "show", "cell", "--json", "--verbose"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["engine"], engine);
    let entries = shown["entries"].as_array().unwrap();
    let commands: u64 = entries.iter().map(|entry| entry["commands"].as_u64().unwrap()).sum();
    assert!(commands >= last, "each version has a command");
    let versions: Vec<u64> = entries.iter().filter_map(|entry| entry["version"].as_u64()).collect();
    assert!(versions.is_sorted() && versions.last() == Some(&last), "{versions:?}");
    let lines = run_ok(dir.path(), &["log", "show", "cell", "--from", "3", "--to", "4"]);
    assert_eq!(lines.lines().filter(|line| line.contains("commands   ")).count(), 3, "{lines}");

    for to in [0, 1, last / 2, last] {
        let to_text = to.to_string();
        let replay = run_ok(dir.path(), &["log", "replay", "cell", "--to", &to_text]);
        assert_eq!(version(&replay), to);
        let table = run_ok(dir.path(), &["log", "at", "cell", &to_text, "--json", "at.json"]);
        assert!(table.starts_with(&format!("version {to}: ")), "{table}");
        let json = std::fs::read_to_string(dir.path().join("at.json")).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        let pending = json["jobs"].as_array().unwrap().iter();
        let pending: u64 = pending.map(|job| job["pending"].as_u64().unwrap()).sum();
        assert_eq!(value(&replay, "tasks pending"), pending.to_string());
    }
    // The last versions are mostly not known to be committed.
    let newest = version(&run_ok(dir.path(), &["log", "replay", "cell", "--all"]));
    let table = run_ok(dir.path(), &["log", "at", "cell", &newest.to_string(), "--all"]);
    assert!(newest >= last && table.starts_with(&format!("version {newest}: ")), "{table}");
    assert!(content(&cell) == before, "the directory was changed");
}

/// Start and end of the last record in a log file: a record begins at a multiple of eight with its
/// length.
fn last_record(bytes: &[u8]) -> (usize, usize) {
    const FIRST: usize = 4096;
    const HEAD: usize = 24;
    let length = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let end = |at: usize| (at + HEAD + length(at)).next_multiple_of(8);
    let mut at = FIRST;
    while length(end(at)) > 0 {
        at = end(at);
    }
    (at, end(at))
}

#[test]
fn a_torn_tail_is_told_and_stays_where_it_is() {
    let (dir, _) = run(&["--dir", "cell"]);
    let whole = run_ok(dir.path(), &["log", "replay", "cell", "--all"]);
    let shown =
        |arguments: &[&str]| run_ok(dir.path(), &[&["log", "show", "cell"], arguments].concat());
    assert!(!shown(&[]).contains("torn"));
    let last = |json: &str| serde_json::from_str::<Value>(json).unwrap()["last"].as_u64().unwrap();
    let last_before = last(&shown(&["--json"]));

    // The file is changed as by a power failure during the write of the last record: it has the beginning of the
    // record, but not the marker after it, which would confirm that the record is durable.
    let log = dir.path().join("cell/log");
    let name = listing(&log).into_iter().next().unwrap();
    let mut bytes = std::fs::read(log.join(&name)).unwrap();
    let (from, to) = last_record(&bytes);
    bytes[from + (to - from) / 2..to + 64].fill(0);
    std::fs::write(log.join(&name), &bytes).unwrap();
    let before = content(&dir.path().join("cell"));

    let line = format!("torn: cell/log/{name} at byte {from}: a write was cut short; ");
    assert!(shown(&[]).contains(&line), "{}", shown(&[]));
    let json = shown(&["--json"]);
    let torn: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(torn["torn"], Value::from(format!("cell/log/{name} at byte {from}")));
    let cut = run_ok(dir.path(), &["log", "replay", "cell", "--all"]);
    assert!(last(&json) <= last_before && version(&cut) <= version(&whole));
    let to = version(&cut).to_string();
    let at = run_ok(dir.path(), &["log", "at", "cell", &to, "--all"]);
    assert!(at.starts_with(&format!("version {to}: ")), "{at}");
    assert!(content(&dir.path().join("cell")) == before, "the directory was changed");
}

#[test]
fn a_job_that_waited_is_explained_at_its_version() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("m.csv"), "name,cpu,memory\nm,4,8Gi\n").unwrap();
    let jobs = "name,count,cpu,memory\nfits,1,1,1Gi\nhuge,3,99,1Gi\n";
    std::fs::write(dir.path().join("j.csv"), jobs).unwrap();
    let tables = ["run", "--machines", "m.csv", "--jobs", "j.csv", "--dir", "cell"];
    run_ok(dir.path(), &tables);
    let last = version(&run_ok(dir.path(), &["log", "replay", "cell"])).to_string();
    let output = run_ok(dir.path(), &["log", "at", "cell", &last, "--explain", "huge"]);
    assert!(output.contains("huge: 3 of 3 tasks wait"), "{output}");
    assert!(output.contains("95 cpu short") || output.contains("96 cpu short"), "{output}");
    let output = run_ok(dir.path(), &["log", "at", "cell", &last, "--explain", "fits"]);
    assert!(!output.contains("nearest misses"), "{output}");
}

#[test]
fn what_cannot_be_looked_at_is_told_in_one_line() {
    let (dir, _) = run(&["--dir", "cell"]);
    let lock = std::fs::File::open(dir.path().join("cell/LOCK")).unwrap();
    lock.lock().unwrap();
    let fault = |arguments: &[&str]| {
        let output = run_omega(dir.path(), arguments);
        assert_eq!((output.code, &*output.stdout), (Some(2), ""), "{arguments:?}");
        output.stderr
    };
    let in_use = "omega: cell is in use by another process: stop that process first\n";
    for reader in
        [&["log", "show", "cell"][..], &["log", "replay", "cell"], &["accounting", "cell"]]
    {
        let output = run_omega(dir.path(), reader);
        assert_eq!((output.code, &*output.stderr), (Some(1), in_use), "{reader:?}");
    }
    drop(lock);
    let exists = "omega: cell: this folder already contains a replica, and a run creates a new \
         cell: name a folder that is empty or does not exist\n";
    assert_eq!(fault(&[&SMALL[..], &["--dir", "cell"]].concat()), exists);
    for late in
        [&["log", "at", "cell", "99999999"][..], &["log", "at", "cell", "99999999", "--all"]]
    {
        let late = fault(late);
        assert!(late.starts_with("omega: version v99999999 does not exist yet: "), "{late}");
    }
    let no_job = fault(&["log", "at", "cell", "3", "--explain", "none"]);
    assert!(no_job.starts_with("omega: there is no job \"none\" at version 3: "), "{no_job}");
}
