//! Outputs that cannot be written: a reader that closes early, as `head` does, and files of results.

use crate::support::{command, text};
use std::path::Path;
use std::process::Stdio;

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nm1,64000,262144,4,T4\n";
const TASKS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,500\n";
const SWEEP: &str = "end = 0.1\n[input]\nsynthetic = 20\nhours = 1\n[sweep]\nseed = [1, 2]\n";

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let log = "1 0 0 30 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n";
    let files = [("log.swf", log), ("n.csv", NODES), ("t.csv", TASKS), ("sweep.toml", SWEEP)];
    for (name, content) in files {
        std::fs::write(dir.path().join(name), content).expect("written");
    }
    dir
}

/// Runs the command in a folder. The reader of standard output has closed it, and that of standard error if `closed`
/// has both. Returns the exit code, and standard error if it is open.
fn unread(dir: &Path, words: &str, closed: &[&str]) -> (Option<i32>, String) {
    let words: Vec<&str> = words.split(' ').collect();
    let mut command = command(&words);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    if closed.contains(&"stderr") {
        command.stderr(writer.try_clone().expect("a descriptor"));
    } else {
        command.stderr(Stdio::piped());
    }
    let child = command.current_dir(dir).stdout(writer).spawn().expect("the command starts");
    drop(command);
    let said = child.wait_with_output().expect("the command ends");
    (said.status.code(), text(&said.stderr))
}

#[test]
fn a_reader_that_closes_early_is_no_error() {
    let dir = folder();
    let cases = [
        ("run --synthetic 20 --hours 1", 0),
        ("run --synthetic 20 --hours 1 -o json", 0),
        ("run --synthetic 20 --hours 1 --cells 2", 0),
        ("trace info --synthetic 20 --hours 1", 0),
        ("sweep sweep.toml --out swept", 0),
        ("capacity --synthetic 20 --hours 1 --find load --load-most 1 --placed 1% --out report", 0),
        ("capacity --synthetic 20 --hours 1 --find load --load-most 1 --used 0%", 1),
        ("--help", 0),
    ];
    for (words, code) in cases {
        assert_eq!(unread(dir.path(), words, &["stdout"]), (Some(code), String::new()), "{words}");
    }
    for written in ["swept/results.csv", "report/report.html"] {
        assert!(dir.path().join(written).exists(), "{written}");
    }
    // These commands also write to standard error.
    let fgd = "fgd --tasks t.csv --machines n.csv --seeds 1 --policy best-fit";
    let cases = [("swf log.swf".to_owned(), 0), (fgd.to_owned(), 0), (format!("{fgd} --check"), 1)];
    for (words, code) in cases {
        let said = unread(dir.path(), &words, &["stdout", "stderr"]);
        assert_eq!(said.0, Some(code), "{words}");
    }
    let (code, said) = unread(dir.path(), "swf log.swf", &["stdout"]);
    assert_eq!((code, said.contains("panicked")), (Some(0), false), "{said}");
}

#[test]
fn results_that_cannot_be_written_are_told_before_the_runs() {
    let cases = [
        ("out/results.csv", "out/results.csv: cannot be written: is a directory\n", "sweep"),
        (
            "out/results.parquet.part",
            "out/results.parquet: cannot be written: is a directory\n",
            "sweep",
        ),
        (
            "out/point-00000.json",
            "out/point-00000.json: cannot be written: is a directory\n",
            "sweep",
        ),
        ("out/report.md", "out/report.md: cannot be written: is a directory\n", "sweep"),
        ("out/plots/plot.svg", "out/plots/plot.svg: cannot be written: is a directory\n", "sweep"),
        ("out/report.html", "out/report.html: cannot be written: is a directory\n", "capacity"),
        ("out/report.html", "out/report.html: cannot be written: is a directory\n", "paper"),
    ];
    for (taken, expected, verb) in cases {
        let dir = folder();
        std::fs::create_dir_all(dir.path().join(taken)).expect("a folder");
        let rest = match verb {
            "sweep" => "sweep.toml",
            "capacity" => "--synthetic 20 --hours 1 --placed 1%",
            _ => "fig5",
        };
        let words = format!("{verb} {rest} --out out");
        let words: Vec<&str> = words.split(' ').collect();
        let said = command(&words).current_dir(dir.path()).output().expect("the command starts");
        let complained = text(&said.stderr);
        assert_eq!(said.status.code(), Some(2), "{taken}");
        assert_eq!(complained, format!("omega-sim: {expected}"), "{taken}");
        assert_eq!(text(&said.stdout), "", "{taken}: nothing has run");
        let points = std::fs::read_dir(dir.path().join("out")).expect("a folder");
        let is_point = |name: String| name.starts_with("point-") && !taken.ends_with(&name);
        let names = points.map(|entry| entry.expect("an entry").file_name());
        assert!(!names.into_iter().any(|name| is_point(name.to_string_lossy().into())), "{taken}");
    }
}
