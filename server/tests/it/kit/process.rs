//! Starts `omega` in a separate folder, and collects its output.

use flate2::Compression;
use flate2::write::GzEncoder;
use omega_tests::fire::watchdog;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The command, which will run in `dir` with empty standard input.
pub(crate) fn omega(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omega"));
    command.current_dir(dir).stdin(Stdio::null());
    watchdog::mark(&mut command);
    command
}

/// Output and exit code of a process.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> CommandOutput {
        let text = |bytes| String::from_utf8(bytes).expect("omega prints UTF-8");
        CommandOutput {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// Runs `omega` with these arguments until it ends.
pub(crate) fn run_omega(dir: &Path, arguments: &[&str]) -> CommandOutput {
    omega(dir).args(arguments).output().expect("omega starts").into()
}

/// A folder with these files; those named `.gz` are compressed.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let file = dir.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        let bytes = if name.ends_with(".gz") { gzip(content) } else { content.as_bytes().into() };
        std::fs::write(file, bytes).unwrap();
    }
    dir
}

pub(crate) fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Names of all files and folders in a folder, ascending.
pub(crate) fn listing(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A file of the workspace.
pub(crate) fn workspace_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}
