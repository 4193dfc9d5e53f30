//! A report in a folder: HTML, Markdown, and a file for each plot.

use super::SimError;
use crate::page::Page;
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

/// Writes a file into a folder.
fn write(dir: &Path, name: &str, content: &[u8]) -> Result<(), SimError> {
    let file = dir.join(name);
    let done = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&file, content));
    done.map_err(|why| SimError::Write { file, why })
}
