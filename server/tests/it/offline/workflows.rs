//! CI workflows, and manifests of examples: they must be YAML, and refer to files that exist.

use serde_json::Value;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in the workspace").into()
}

/// The workflows, by file.
fn workflows() -> Vec<(String, Value)> {
    let entries = std::fs::read_dir(root().join(".github/workflows")).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("it is text");
        let read = serde_saphyr::from_str(&text);
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, read.unwrap_or_else(|why| panic!("{}: {why}", path.display())))
    };
    paths.into_iter().map(read).collect()
}

/// Faults of a job, one per line.
fn faults(job: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if job["timeout-minutes"].as_u64().is_none_or(|minutes| minutes == 0 || minutes > 60) {
        faults.push("timeout-minutes: give 1 to 60, or a hanging job costs six hours".to_owned());
    }
    if job["runs-on"].as_str().is_none_or(|on| on.ends_with("latest")) {
        faults.push("runs-on: name a version, not latest".to_owned());
    }
    for step in job["steps"].as_array().map_or(&[][..], Vec::as_slice) {
        match (step["run"].as_str(), step["uses"].as_str()) {
            (Some(run), None) => faults.extend(missing_scripts(run)),
            (None, Some(uses)) if uses.starts_with("actions/") && uses.contains('@') => {}
            _ => faults.push(format!("{step}: a step has either run, or uses of actions/ with @")),
        }
    }
    faults
}

/// Scripts of `.ci` that a step runs but that do not exist, and scripts that bash cannot parse.
fn missing_scripts(run: &str) -> Vec<String> {
    let words = run.split_whitespace().filter(|word| word.starts_with(".ci/"));
    let missing = words.filter(|word| !root().join(word).exists());
    let mut faults: Vec<String> =
        missing.map(|word| format!("{word}: there is no such script")).collect();
    let read = std::process::Command::new("bash").args(["-n", "-c", run]).output();
    if !read.expect("bash runs").status.success() {
        faults.push(format!("{run:?}: bash cannot read it"));
    }
    faults
}

#[test]
fn workflows_have_bounds_and_name_scripts_that_are_there() {
    let all = workflows();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["checks.yml", "release.yml"]);
    for (name, workflow) in &all {
        let contents = &workflow["permissions"]["contents"];
        assert_eq!(contents, "read", "{name}: a job that writes says so itself");
        let jobs = workflow["jobs"].as_object().expect("jobs");
        for (job, content) in jobs {
            assert_eq!(faults(content), Vec::<String>::new(), "{name}: {job}");
        }
    }
}

#[test]
fn faults_of_workflows_are_found() {
    let job: Value = serde_saphyr::from_str(
        "runs-on: ubuntu-latest\nsteps:\n  - run: .ci/no-such\n  - run: if true\n  - uses: somebody/else@v1\n",
    )
    .expect("YAML");
    assert_eq!(faults(&job).len(), 5, "{:?}", faults(&job));
}
