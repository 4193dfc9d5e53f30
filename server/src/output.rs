//! Outputs of a result: standard output, and the files given by the user.
//!
//! Files are tested before the run, so that an unwritable file is reported early. A file is not changed before there is
//! a result, or the first row of placements, so bad input never destroys an earlier result.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Error of writing a result, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The file cannot be written. Name another one, or make room on the disk.
    #[error("{}: cannot be written: {why}", file.display())]
    Write { file: PathBuf, why: io::Error },
    /// Two outputs, or an input and an output, are the same file. Name two files.
    #[error("{}: two outputs name this file: give each its own", file.display())]
    Twice { file: PathBuf },
    /// Standard output cannot be written. If it is a file, make room on its disk; or close standard output.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
    /// The operating system does not let the process handle signals. Start the process in an environment that allows
    /// this.
    #[error("the handler of Ctrl-C cannot be installed: {0}")]
    Signal(io::Error),
}

/// Whether the name of a file stands for standard output: `-`, as in most commands.
pub(crate) fn is_stdout(file: &Path) -> bool {
    file == "-"
}

/// Writes the data of a result to a file or to standard output. The text for people is printed too, unless the data go
/// to standard output.
pub(crate) fn show(people: &str, data: Option<(&Path, &str)>) -> Result<(), OutputError> {
    match data {
        Some((file, text)) if is_stdout(file) => print(text),
        Some((file, text)) => print(people).and_then(|()| write(file, text)),
        None => print(people),
    }
}

/// Checks that each file in `outputs` can be written, and is different from the other outputs and from all `inputs`.
/// Only one output may be standard output.
pub(crate) fn check(outputs: &[&Path], inputs: &[&Path]) -> Result<(), OutputError> {
    for (i, file) in outputs.iter().enumerate() {
        let (before, is_stdout) = (&outputs[..i], is_stdout(file));
        let is_taken = if is_stdout {
            before.contains(file)
        } else {
            before.iter().chain(inputs).any(|other| is_same(file, other))
        };
        if is_taken {
            return Err(OutputError::Twice { file: file.to_path_buf() });
        }
        if is_stdout {
            continue;
        }
        try_open(file).map_err(|why| OutputError::Write { file: file.to_path_buf(), why })?;
    }
    Ok(())
}

/// Writes a result to a file.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), OutputError> {
    fs::write(file, text).map_err(|why| OutputError::Write { file: file.to_owned(), why })
}

/// Prints a result. If the reader closes the output early, as `head` does, this is not an error.
pub(crate) fn print(text: &str) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => Err(OutputError::Stdout(why)),
        _ => Ok(()),
    }
}

/// Whether two paths lead to the same regular file.
fn is_same(a: &Path, b: &Path) -> bool {
    // Paths are compared and not inodes, because a file that does not exist yet has no inode.
    let whole = |file: &Path| fs::canonicalize(file).or_else(|_| std::path::absolute(file));
    let is_special = fs::metadata(a).is_ok_and(|found| !found.is_file());
    !is_special && matches!((whole(a), whole(b)), (Ok(a), Ok(b)) if a == b)
}

/// Checks that a file can be opened for writing, without changing it.
fn try_open(file: &Path) -> io::Result<()> {
    match fs::metadata(file) {
        // This is a pipe or a device. It is not opened, because opening it may block, and closing it signals the end to
        // its reader.
        Ok(found) if !found.is_file() && !found.is_dir() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(file).map(drop),
        Err(why) if why.kind() == ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).open(file)?;
            fs::remove_file(file)
        }
        Err(why) => Err(why),
    }
}
