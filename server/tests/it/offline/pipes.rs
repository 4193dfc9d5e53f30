//! Input files that are named pipes or devices, which would block for ever, and pipes that the shell opens.

use crate::kit::callers::Open;
use crate::kit::process::{CommandOutput, folder, omega, run_omega};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const TABLES: [(&str, &str); 3] = [
    ("m.csv", "name,cpu,memory\nm1,4,8Gi\nm2,8,16Gi\n"),
    ("j.csv", "name,count,cpu,memory\nweb,2,1,1Gi\n"),
    ("part.toml", "name = \"web\"\n[[group]]\ncount = 1\npayload_file = \"fifo\"\n"),
];

/// A folder with a named pipe `fifo`, which has no writer.
fn with_fifo() -> tempfile::TempDir {
    let dir = folder(&TABLES);
    let made = Command::new("mkfifo").args(["-m", "600"]).arg(dir.path().join("fifo")).status();
    assert!(made.unwrap().success());
    dir
}

/// Command lines that read the file `FILE`.
const READERS: [&str; 19] = [
    "run --machines FILE --jobs j.csv",
    "run --machines m.csv --jobs FILE",
    "run --machines m.csv --jobs j.csv --placements FILE",
    "run --cluster FILE",
    "run --trace swf --data FILE --on 4,cpu=4",
    "run --synthetic 10 --hours 1 --profile FILE",
    "rebalance --roadef FILE FILE",
    "serve --memory --config FILE",
    "serve --memory --tls-cert FILE --tls-key FILE --client-ca FILE --cell-name c",
    "serve --memory --audit-log FILE",
    "scheduler --name s --cell 127.0.0.1:1 --profile FILE",
    "machine add -f FILE --cell 127.0.0.1:1",
    "job submit -f FILE --cell 127.0.0.1:1",
    "job apply -f FILE --cell 127.0.0.1:1",
    "job explain web --profile FILE --cell 127.0.0.1:1",
    "job list --cell 127.0.0.1:1 --tls-ca FILE",
    "audit verify FILE",
    "backup --verify FILE",
    "restore --dir new FILE",
];

#[test]
fn named_pipes_and_devices_are_refused_at_once() {
    let dir = with_fifo();
    for file in ["fifo", "/dev/zero"] {
        for line in READERS {
            let line = line.replace("FILE", file);
            let output = run_omega(dir.path(), &line.split_whitespace().collect::<Vec<_>>());
            assert!(output.code.is_some_and(|code| code != 0), "{line}: {output:?}");
            let names = output.stderr.contains(file) || output.stderr.contains("--tls-ca");
            assert!(
                names && output.stderr.contains("not a regular file"),
                "{line}: {}",
                output.stderr
            );
            assert_eq!(output.stderr.lines().count(), 1, "{line}: {}", output.stderr);
        }
    }
}

/// Runs a command line of bash, with a text as standard input.
fn bash(dir: &Path, line: &str, input: &str) -> CommandOutput {
    let program = omega(dir).get_program().to_owned();
    let mut command = Command::new("bash");
    command.arg("-c").arg(line).env("OMEGA", program).current_dir(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    CommandOutput::from(child.wait_with_output().unwrap())
}

#[test]
fn pipes_that_the_shell_opens_are_read() {
    let open = Open::start();
    open.described();
    let dir = with_fifo();
    let cell = format!("--cell 127.0.0.1:{}", open.port);
    let job = "name = \"NAME\"\n[[group]]\ncount = 1\n";
    let lines = [
        "\"$OMEGA\" run --machines <(cat m.csv) --jobs /dev/stdin <j.csv".to_owned(),
        "\"$OMEGA\" run --machines <(sleep 0.01; gzip -c m.csv) --jobs <(cat j.csv)".to_owned(),
        format!("\"$OMEGA\" job apply {cell} -f <(sed s/NAME/a/)"),
        format!("sed s/NAME/b/ | \"$OMEGA\" job apply {cell} -f -"),
        format!("sed s/NAME/c/ | \"$OMEGA\" job apply {cell} -f /dev/stdin"),
        format!("sed s/NAME/d/ | \"$OMEGA\" job submit {cell} -f /dev/fd/0"),
    ];
    for line in lines {
        let output = bash(dir.path(), &line, job);
        assert_eq!(output.code, Some(0), "{line}: {}", output.stderr);
    }
    // A payload is read when the cell has answered.
    let output = bash(dir.path(), &format!("\"$OMEGA\" job submit {cell} -f part.toml"), "");
    assert!(output.stderr.contains("fifo: it is a named pipe, not a regular file"), "{output:?}");
    // Reading of a pipe stops at the maximum size.
    let output =
        bash(dir.path(), &format!("yes '# line' | \"$OMEGA\" job apply {cell} -f /dev/stdin"), "");
    assert!(output.stderr.contains("/dev/stdin: is larger than"), "{}", output.stderr);
}
