//! Command lines of all programs. Bad input ends the program with one line on standard error and exit code 2. A noun
//! without its verb, such as `omega job`, prints its verbs and ends with the same code.

use clap::Parser;
use clap::error::ErrorKind;
use std::io::Write;
use std::process::ExitCode;

/// The exit code for bad input, which clap also uses for bad arguments.
pub const BAD_INPUT: u8 = 2;

/// Parses the arguments of a program. Requests for help and version are answered, and end the program.
///
/// # Errors
/// If the arguments are invalid. The error was then printed; the value is the exit code.
pub fn parse<T: Parser>(program: &str) -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        if !error.use_stderr() {
            error.exit();
        }
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            // If standard error cannot be written, only the exit code reports the error.
            drop(error.print());
            return ExitCode::from(BAD_INPUT);
        }
        fail(program, &argument_error(program, &error), BAD_INPUT)
    })
}

/// Prints the reason for a failure in one line, even if names in it contain line breaks. Returns the exit code.
pub fn fail(program: &str, why: &str, code: u8) -> ExitCode {
    let line = omega_core::text::shown(why);
    // If standard error cannot be written, only the exit code reports the error.
    drop(writeln!(std::io::stderr(), "{program}: {line}"));
    ExitCode::from(code)
}

/// The error of the arguments in one line, without clap's usage text, which is in the help.
#[must_use]
pub fn argument_error(program: &str, error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let parts =
        lines.take_while(|line| !is_usage(line)).map(|line| match line.strip_prefix("tip:") {
            Some(tip) => format!("({})", tip.trim()),
            None => line.strip_prefix("error: ").unwrap_or(line).to_owned(),
        });
    let parts: Vec<String> = parts.collect();
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage:"));
    let command = usage.map_or_else(|| program.to_owned(), command_of);
    format!("{}; see {command} --help", parts.join(" "))
}

/// The command of a usage line, without its arguments: `omega job submit` of `omega job submit [OPTIONS] [NAME]`.
fn command_of(usage: &str) -> String {
    let is_name = |word: &&str| word.starts_with(|first: char| first.is_ascii_lowercase());
    usage.split_whitespace().take_while(is_name).collect::<Vec<_>>().join(" ")
}

fn is_usage(line: &str) -> bool {
    line.starts_with("Usage:") || line.starts_with("For more information")
}
