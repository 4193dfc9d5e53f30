//! A report in a folder: HTML, Markdown, and a file for each plot.

use super::SimError;
use crate::page::Page;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Writes all files, and creates the folder if needed. Returns the path of the page.
pub(super) fn write_report(dir: &Path, page: &Page) -> Result<PathBuf, SimError> {
    write(dir, "report.html", page.html().as_bytes())?;
    write(dir, "report.md", page.markdown("plots").as_bytes())?;
    let plots = dir.join("plots");
    for (name, plot) in page.sections.iter().flat_map(|section| &section.plots) {
        write(&plots, &format!("{name}.svg"), plot.svg().as_bytes())?;
        write(&plots, &format!("{name}.png"), &plot.png())?;
    }
    Ok(dir.join("report.html"))
}

/// Creates a folder for a report, and checks that all files can be written, because simulations before the report may
/// take hours.
pub(super) fn prepare_report(dir: &Path) -> Result<(), SimError> {
    for name in ["report.html", "report.md"] {
        check_writable(dir, name)?;
    }
    let plots = dir.join("plots");
    if plots.exists() { check_writable(&plots, "plot.svg") } else { Ok(()) }
}

/// Creates a folder, and checks that this file in it can be written.
fn check_writable(dir: &Path, name: &str) -> Result<(), SimError> {
    let file = dir.join(name);
    let done = std::fs::create_dir_all(dir).and_then(|()| try_write(&file));
    done.map_err(|why| SimError::Write { file, why })
}

/// Checks that a file can be written, without changing it.
pub(super) fn try_write(file: &Path) -> io::Result<()> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(found) if found.is_file() => OpenOptions::new().append(true).open(file).map(drop),
        // A pipe or a device is not opened, because that may block, or signal the end to its reader.
        Ok(_) => Ok(()),
        Err(why) if why.kind() == ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).open(file)?;
            std::fs::remove_file(file)
        }
        Err(why) => Err(why),
    }
}

/// Writes a file into a folder.
fn write(dir: &Path, name: &str, content: &[u8]) -> Result<(), SimError> {
    let file = dir.join(name);
    let done = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&file, content));
    done.map_err(|why| SimError::Write { file, why })
}
