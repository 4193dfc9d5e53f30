//! Outputs of a result: standard output and the files given by the user.
//!
//! A file is tested before the run, so that a result that cannot be written is reported early, but
//! it is not touched before there is a result: bad input destroys no earlier one.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Error of writing a result: one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// Remedy: name another file, or make room.
    #[error("{}: cannot write: {why}", file.display())]
    Write { file: PathBuf, why: io::Error },
    /// Remedy: name two different files.
    #[error("{}: is named twice, and would be overwritten", file.display())]
    Twice { file: PathBuf },
    /// Remedy: make room, or close the output instead.
    #[error("standard output: cannot write: {0}")]
    Stdout(io::Error),
    /// Remedy: start the command where signals can be handled.
    #[error("cannot listen for Ctrl-C: {0}")]
    Signal(io::Error),
}

/// Whether a file's name means standard output: `-`, as in most commands.
pub(crate) fn is_stdout(file: &Path) -> bool {
    file == "-"
}

/// Writes a result as data to a file or to standard output. The text for people is printed as well,
/// except if the data go to standard output.
pub(crate) fn show(people: &str, data: Option<(&Path, &str)>) -> Result<(), OutputError> {
    match data {
        Some((file, text)) if is_stdout(file) => print(text),
        Some((file, text)) => print(people).and_then(|()| write(file, text)),
        None => print(people),
    }
}

/// Checks that each of `outputs` can be written, and is neither another one nor one of `inputs`.
pub(crate) fn check(outputs: &[&Path], inputs: &[&Path]) -> Result<(), OutputError> {
    for (i, file) in outputs.iter().enumerate() {
        if is_stdout(file) {
            continue;
        }
        let mut others = outputs[..i].iter().chain(inputs);
        if others.any(|other| is_same(file, other)) {
            return Err(OutputError::Twice { file: file.to_path_buf() });
        }
        try_open(file).map_err(|why| OutputError::Write { file: file.to_path_buf(), why })?;
    }
    Ok(())
}

/// Writes a result to a file.
pub(crate) fn write(file: &Path, text: &str) -> Result<(), OutputError> {
    fs::write(file, text).map_err(|why| OutputError::Write { file: file.to_owned(), why })
}

/// Prints a result. A reader that has seen enough, such as `head`, is no error.
pub(crate) fn print(text: &str) -> Result<(), OutputError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => Err(OutputError::Stdout(why)),
        _ => Ok(()),
    }
}

/// Whether two paths lead to one regular file.
fn is_same(a: &Path, b: &Path) -> bool {
    // Compares paths, not inodes: a file that does not exist yet has none.
    let whole = |file: &Path| fs::canonicalize(file).or_else(|_| std::path::absolute(file));
    let is_special = fs::metadata(a).is_ok_and(|found| !found.is_file());
    !is_special && matches!((whole(a), whole(b)), (Ok(a), Ok(b)) if a == b)
}

/// Checks that a file can be opened for writing, without a change to it.
fn try_open(file: &Path) -> io::Result<()> {
    match fs::metadata(file) {
        // A pipe or a device: opening it may block, and closing it signals the end to its reader.
        Ok(found) if !found.is_file() && !found.is_dir() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(file).map(drop),
        Err(why) if why.kind() == ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).open(file)?;
            fs::remove_file(file)
        }
        Err(why) => Err(why),
    }
}
