//! `omega man`, generated from the definitions of the help texts.

use crate::Omega;
use crate::output::{self, OutputError};
use clap::{Args, CommandFactory};
use std::io;
use std::path::{Path, PathBuf};

/// Manual on standard output, or as files.
#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// Write one manual page for each command, such as omega-job-submit.1, to this folder, which is created if missing
    /// [default: print the manual of all commands].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Writes the manual: one text with all commands and their options, or a page for each command.
pub(crate) fn manual(args: &ManualArgs) -> Result<(), OutputError> {
    let mut omega = Omega::command();
    omega.build();
    match &args.dir {
        Some(dir) => {
            let written = std::fs::create_dir_all(dir).and_then(|()| pages(&omega, "", dir));
            written.map_err(|why| OutputError::Write { file: dir.clone(), why })
        }
        None => {
            let mut text = Vec::new();
            render(&omega, &mut text).map_err(OutputError::Stdout)?;
            output::print(&String::from_utf8_lossy(&text))
        }
    }
}

/// Writes the page of a command, and the pages of its subcommands.
fn pages(command: &clap::Command, above: &str, dir: &Path) -> io::Result<()> {
    let name = match above {
        "" => command.get_name().to_owned(),
        above => format!("{above}-{}", command.get_name()),
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name.to_uppercase()).render(&mut text)?;
    std::fs::write(dir.join(format!("{name}.1")), text)?;
    below(command).try_for_each(|below| pages(below, &name, dir))
}

/// The subcommands of a command, without `help`.
fn below(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|below| below.get_name() != "help")
}

/// Writes a command and its subcommands, one after the other.
fn render(command: &clap::Command, text: &mut Vec<u8>) -> io::Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    page.render(text)?;
    below(command).try_for_each(|below| render(below, text))
}
