//! Inputs that can be read only once: standard input and pipes.

use crate::support::{command, text};
use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

const MACHINES: &str = "name,cpu,memory,count\nm,4,8Gi,4\n";
const JOBS: &str =
    "name,count,cpu,memory,arrival_s,run_s\na,2,1,1Gi,0,60\nb,3,1,1Gi,50,60\nc,1,1,1Gi,100,5\n";

/// Runs the command in a folder with the tables, with this text at standard input.
fn fed(dir: &Path, words: &str, input: &str) -> Output {
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = command(&words);
    let command = command.current_dir(dir).stdin(Stdio::piped());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    // A command that rejects its arguments does not read its input.
    _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("the command ends")
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    for (name, content) in [("m.csv", MACHINES), ("j.csv", JOBS)] {
        std::fs::write(dir.path().join(name), content).expect("it is written");
    }
    dir
}

#[test]
fn a_pipe_gives_the_run_of_a_file() {
    let dir = folder();
    for more in ["", " --cells 2"] {
        let words = |jobs: &str| format!("run --machines m.csv --jobs {jobs} -o json{more}");
        let file = fed(dir.path(), &words("j.csv"), "");
        let pipe = fed(dir.path(), &words("/dev/stdin"), JOBS);
        assert_eq!((text(&file.stderr), text(&pipe.stderr)), (String::new(), String::new()));
        let hash = |said: &Output| {
            let value: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
            let one = if more.is_empty() { value } else { value[0].clone() };
            (one["state_hash"].clone(), one["schedulers"].clone())
        };
        assert_eq!(hash(&file), hash(&pipe), "{more}");
    }
    let synth = "trace synth --machines m.csv --jobs /dev/stdin --out out";
    let made = fed(dir.path(), synth, JOBS);
    assert_eq!((made.status.code(), text(&made.stderr)), (Some(0), String::new()));
}

#[test]
fn a_cluster_at_standard_input_is_simulated() {
    let dir = folder();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/cluster.json");
    let cluster = std::fs::read_to_string(&file).unwrap();
    let piped = fed(dir.path(), "run --cluster - -o json", &cluster);
    assert_eq!((piped.status.code(), text(&piped.stderr)), (Some(0), String::new()));
    let path = format!("run --cluster {} -o json", file.display());
    let named = fed(dir.path(), &path, "");
    let hash = |said: &Output| {
        let value: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        value["state_hash"].clone()
    };
    assert_eq!(hash(&piped), hash(&named));
}

#[test]
fn a_dash_that_is_not_standard_input_is_told() {
    let dir = folder();
    let expected = "omega-sim: -: cannot be read: No such file or directory (os error 2): give \
         /dev/stdin instead of -\n";
    for words in ["run --machines m.csv --jobs -", "swf -"] {
        let said = fed(dir.path(), words, JOBS);
        assert_eq!((said.status.code(), &*text(&said.stderr)), (Some(2), expected), "{words}");
    }
}
