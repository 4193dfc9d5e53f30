//! `omega completions` and `omega man`: made of the same definitions as the help.

use crate::Omega;
use crate::output::{self, OutputError};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// The shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// The shell.
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Prints what a shell completes.
pub(crate) fn completions(args: &CompletionArgs) -> Result<(), OutputError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Omega::command(), "omega", &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// Prints the manual page, with every command and its options.
pub(crate) fn page() -> Result<(), OutputError> {
    let mut omega = Omega::command();
    omega.build();
    let mut text = Vec::new();
    render(&omega, &mut text).map_err(OutputError::Stdout)?;
    output::print(&String::from_utf8_lossy(&text))
}

/// A command, and those below it, one after the other: a page for each would be forty files.
fn render(command: &clap::Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    page.render(text)?;
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        render(below, text)?;
    }
    Ok(())
}
