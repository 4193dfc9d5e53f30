//! Sweeps in shards. Processes in any order, some of them killed and repeated, give equal bytes; a merge rejects
//! missing and duplicate points.

use crate::support::{command, omega_sim, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const FILE: &str = "[input]\nsynthetic = 40\nhours = 1\n\n[sweep]\narch = [\"mono-multi\", \"omega\"]\n\
    t_job_service = [0.1, 10]\nseed = [1, 2]\n";

/// A sweep of 8 points, and the folder that has its file and its results.
struct Sweep {
    dir: tempfile::TempDir,
}

impl Sweep {
    fn new() -> Sweep {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("file.toml"), FILE).expect("written");
        Sweep { dir }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_string_lossy().into_owned()
    }

    /// Runs the sweep with additional arguments. Returns the output without the folder's name, and whether the run
    /// succeeded.
    fn run(&self, out: &str, arguments: &[&str]) -> (String, bool) {
        let (file, out) = (self.path("file.toml"), self.path(out));
        let all = [&["sweep", &file, "--out", &out], arguments].concat();
        let output = omega_sim(&all);
        let said = text(&output.stdout) + &text(&output.stderr);
        (said.replace(&self.path(""), ""), output.status.success())
    }

    fn shard(&self, out: &str, shard: &str) {
        let (said, succeeded) = self.run(out, &["--shard", shard]);
        assert!(succeeded, "{shard}: {said}");
    }

    /// Contents of the files in a folder by name, without those of points.
    fn results(&self, out: &str) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        collect(&self.dir.path().join(out), &mut found);
        found
    }
}

fn collect(dir: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path: PathBuf = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            collect(&path, found);
        } else if !name.starts_with("point-") {
            found.insert(name, std::fs::read(&path).expect("it is read"));
        }
    }
}

#[test]
fn shards_in_any_order_make_the_bytes_of_one_run() {
    let sweep = Sweep::new();
    assert!(sweep.run("whole", &[]).1);
    for shard in [2, 0, 1] {
        sweep.shard(&format!("part-{shard}"), &format!("{shard}/3"));
    }
    let parts = ["part-1", "part-0", "part-2"].map(|part| sweep.path(part));
    let merge = [&["--merge"][..], &parts.each_ref().map(String::as_str)].concat();
    let (said, succeeded) = sweep.run("merged", &merge);
    assert_eq!((said.as_str(), succeeded), ("merged/results.csv: 8 points of 3 folders\n", true));
    assert!(sweep.results("merged") == sweep.results("whole"));
}

#[test]
fn a_shard_that_is_killed_is_repeated_in_a_folder_that_all_share() {
    let sweep = Sweep::new();
    assert!(sweep.run("whole", &[]).1);
    let (file, out) = (sweep.path("file.toml"), sweep.path("shared"));
    let shards = ["0/2", "1/2"];
    let begun = shards.map(|shard| {
        let mut begun = command(&["sweep", &file, "--out", &out, "--shard", shard]);
        begun.stdout(Stdio::null()).spawn().expect("it starts")
    });
    // Both processes run at the same time. The first is killed at a random point; the second is not.
    let [mut killed, mut other] = begun;
    killed.kill().expect("it is ours");
    killed.wait().expect("it is ours");
    assert!(other.wait().expect("it is ours").success());
    sweep.shard("shared", shards[0]);
    let (said, succeeded) = sweep.run("shared", &["--merge", &out]);
    assert!(succeeded, "{said}");
    let mut shared = sweep.results("shared");
    shared.retain(|name, _| !name.ends_with(".part"));
    assert!(shared == sweep.results("whole"));
}

#[test]
fn a_merge_refuses_gaps_doubles_and_other_sweeps() {
    let sweep = Sweep::new();
    sweep.shard("a", "0/2");
    let [a, b, none] = ["a", "b", "none"].map(|name| sweep.path(name));
    let refused = |folders: &[&str], says: &str| {
        let (said, succeeded) = sweep.run("merged", &[&["--merge"][..], folders].concat());
        assert!(!succeeded && said.contains(says), "{said}");
    };
    refused(&[&a], "4 of 8 points are missing: 1, 3, 5, 7; run their shards again");
    sweep.shard("b", "1/2");
    refused(&[&a, &b, &a], "point 0 is in both a and a");
    refused(&[&a, &b, &none], "none: is not the folder of a sweep");
    std::fs::write(sweep.dir.path().join("b/sweep.toml"), "[sweep]\n").expect("written");
    refused(&[&a, &b], "b/sweep.toml: this folder has results of another sweep");
    let (said, succeeded) = sweep.run("c", &["--shard", "2/2"]);
    assert!(!succeeded && said.contains("the last one of 2 is 1/2"), "{said}");
}

#[test]
fn a_merge_refuses_results_of_several_versions() {
    let sweep = Sweep::new();
    sweep.shard("a", "0/2");
    sweep.shard("b", "1/2");
    let point = sweep.dir.path().join("b/point-00003.json");
    let kept = std::fs::read_to_string(&point).expect("it is there");
    let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(kept.contains(&version), "{kept}");
    std::fs::write(&point, kept.replace(&version, "\"version\": \"0.0.9\"")).expect("written");
    let (said, succeeded) = sweep.run("m", &["--merge", &sweep.path("a"), &sweep.path("b")]);
    assert!(!succeeded && said.contains("point 3 by omega-sim 0.0.9"), "{said}");
}

/// A file of the examples.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

#[test]
fn the_slurm_example_runs_the_shards_of_its_array() {
    let sweep = Sweep::new();
    let (file, out) = (sweep.path("file.toml"), sweep.path("out"));
    let programs = Path::new(env!("CARGO_BIN_EXE_omega-sim")).parent().expect("a folder");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    for task in ["1", "0"] {
        let mut script = std::process::Command::new("bash");
        script.arg(example("sweep.sbatch")).args([&file, &out]).env("PATH", &path);
        script.env("SLURM_ARRAY_TASK_ID", task).env("SLURM_ARRAY_TASK_COUNT", "2");
        let output = script.output().expect("bash runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let merge = format!("omega-sim sweep {file} --out {out} --merge {out}\n");
        assert!(text(&output.stdout).ends_with(&merge), "{}", text(&output.stdout));
    }
    let (said, succeeded) = sweep.run("out", &["--merge", &out]);
    assert!(succeeded, "{said}");
}

#[test]
fn the_kubernetes_example_has_a_sweep_and_the_arguments_of_a_shard() {
    let manifest = std::fs::read_to_string(example("sweep-job.yaml")).expect("it is there");
    let after = |head: &str| manifest.split(head).nth(1).expect("it is in the manifest");
    let lines = after("file.toml: |\n").lines().take_while(|line| *line != "---");
    let content: Vec<&str> = lines.map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    let sweep = Sweep::new();
    // The test uses a small cell, because a sweep with the example's cell takes a minute.
    let content = content.join("\n").replace("synthetic = 2000", "synthetic = 40");
    std::fs::write(sweep.dir.path().join("file.toml"), content).expect("written");
    let arguments = after("args: ").lines().next().expect("a line");
    let arguments: Vec<String> = serde_json::from_str(arguments).expect("a list of texts");
    let [file, out] = ["file.toml", "out"].map(|name| sweep.path(name));
    let filled = arguments.iter().map(|argument| match argument.as_str() {
        "/sweep/file.toml" => file.clone(),
        "/results/sweep" => out.clone(),
        other => other.replace("$(JOB_COMPLETION_INDEX)", "5"),
    });
    let filled: Vec<String> = filled.collect();
    let output = omega_sim(&filled.iter().map(String::as_str).collect::<Vec<_>>());
    let said = text(&output.stdout);
    assert!(said.ends_with("out: shard 5/64: 1 point, of which already there: 0\n"), "{said}");
}
