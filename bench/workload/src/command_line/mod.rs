//! Command lines of all programs. Bad input ends the program with one line on standard error and exit code 2. A command
//! that lacks its verb, such as `omega job`, prints its verbs and ends with the same code.

mod hints;
mod place;

use clap::error::ErrorKind;
use clap::{Command, Parser};
use place::Place;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// The exit code for bad input, which clap also uses for bad arguments.
pub const BAD_INPUT: u8 = 2;

/// Parses the arguments of a program. Requests for help and version are answered, and end the program.
///
/// # Errors
/// If the arguments are invalid. The error was then printed; the value is the exit code.
pub fn parse<T: Parser>(program: &str) -> Result<T, ExitCode> {
    let mut command = in_width(T::command());
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = parsed.and_then(|mut found| T::from_arg_matches_mut(&mut found));
    parsed.map_err(|error| {
        let mut error = error.format(&mut command);
        if !error.use_stderr() {
            error.exit();
        }
        if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            // If standard error cannot be written, only the exit code reports the error.
            drop(error.print());
            return ExitCode::from(BAD_INPUT);
        }
        let words: Vec<String> = std::env::args().skip(1).collect();
        fail(program, &error_in_line(&T::command(), &words, &mut error), BAD_INPUT)
    })
}

/// Maximum width of help texts, in columns.
const WIDTH_MAX: usize = 100;

/// Wraps help texts at the width of the terminal. Without a terminal, the width is fixed, so that tests, pages and
/// files always have the same text.
fn in_width(command: Command) -> Command {
    if std::io::stdout().is_terminal() {
        command.max_term_width(WIDTH_MAX)
    } else {
        command.term_width(WIDTH_MAX)
    }
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
    let (sentence, tips) = parts(&text);
    format!("{sentence}{tips}; see {} --help", usage(&text).unwrap_or_else(|| program.to_owned()))
}

/// Formats the error of a command line in one line. The line refers to the help of the command, and may have a hint for
/// a common mistake.
fn error_in_line(root: &Command, words: &[String], error: &mut clap::Error) -> String {
    let place = Place::of(root, words);
    hints::hide(error, place.command);
    let text = error.to_string();
    let (mut sentence, tips) = parts(&text);
    for (said, plain) in NUMBERS {
        if let Some(before) = sentence.strip_suffix(said) {
            sentence = format!("{before}{plain}");
        }
    }
    let tips = hints::hint(error, &place).map_or(tips, |hint| format!(" ({hint})"));
    format!("{sentence}{tips}; see {} --help", usage(&text).unwrap_or(place.path))
}

/// Replacements for the error messages of Rust's number parsers.
const NUMBERS: [(&str, &str); 5] = [
    ("invalid digit found in string", "must be a whole number"),
    ("cannot parse integer from empty string", "must be a whole number"),
    ("number too large to fit in target type", "is too large"),
    ("invalid float literal", "must be a number"),
    ("cannot parse float from empty string", "must be a number"),
];

/// The sentence of an error, and clap's tips in parentheses.
fn parts(text: &str) -> (String, String) {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (mut sentence, mut tips) = (Vec::new(), String::new());
    for line in lines.take_while(|line| !is_usage(line)) {
        match line.strip_prefix("tip:") {
            Some(tip) => tips += &format!(" ({})", tip.trim()),
            None => sentence.push(line.strip_prefix("error: ").unwrap_or(line)),
        }
    }
    (sentence.join(" "), tips)
}

/// Returns the command of the usage line in an error's text; `None` if the text has no usage line.
fn usage(text: &str) -> Option<String> {
    text.lines().find_map(|line| line.trim().strip_prefix("Usage:")).map(command_of)
}

/// The command of a usage line, without its arguments: `omega job submit` of `omega job submit [OPTIONS] [NAME]`.
fn command_of(usage: &str) -> String {
    let is_name = |word: &&str| word.starts_with(|first: char| first.is_ascii_lowercase());
    usage.split_whitespace().take_while(is_name).collect::<Vec<_>>().join(" ")
}

fn is_usage(line: &str) -> bool {
    line.starts_with("Usage:") || line.starts_with("For more information")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction, value_parser};

    /// A program with the forms of commands that `omega` has.
    fn program() -> Command {
        let file = || Arg::new("file").long("file").short('f');
        let job = Command::new("job")
            .subcommand(
                Command::new("list").arg(Arg::new("all").long("all").action(ArgAction::SetTrue)),
            )
            .subcommand(
                Command::new("get").visible_alias("status").arg(Arg::new("name").required(true)),
            )
            .subcommand(Command::new("apply").arg(file()))
            .subcommand(
                Command::new("resize")
                    .arg(Arg::new("name").value_name("NAME").required(true))
                    .arg(Arg::new("count").value_name("COUNT").value_parser(value_parser!(u32)))
                    .arg(Arg::new("context").long("context")),
            );
        let task =
            Command::new("task").subcommand(Command::new("list").arg(Arg::new("job").long("job")));
        let hidden = Command::new("agent-exec").hide(true);
        let tree = [job, task, Command::new("cert"), hidden];
        Command::new("omega").subcommand_required(true).subcommands(tree)
    }

    fn said(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let all = ["omega".to_owned()].into_iter().chain(words.clone());
        let mut error = program().try_get_matches_from(all).expect_err("it is wrong");
        error_in_line(&program(), &words, &mut error)
    }

    #[test]
    fn errors_name_the_help_of_their_command() {
        assert_eq!(
            said("job resize web many"),
            "invalid value 'many' for '[COUNT]': must be a whole number; see omega job resize --help"
        );
        assert!(
            said("job status").ends_with("; see omega job get --help"),
            "{}",
            said("job status")
        );
    }

    #[test]
    fn usual_mistakes_are_told_with_the_remedy() {
        let cases = [
            ("job apply web.toml", "(give the file with -f web.toml); see omega job apply --help"),
            ("task list web", "(give the job with --job web); see omega task list --help"),
            ("job list web", "(for one of them: omega job get web); see omega job list --help"),
            ("job resize web --count 8", "(COUNT has no flag: omega job resize [NAME] [COUNT])"),
            ("get jobs", "(the object comes before the verb: omega job get); see omega --help"),
            ("list", "(the object comes before the verb: omega job list); see omega --help"),
        ];
        for (line, hint) in cases {
            assert!(said(line).contains(hint), "{line}: {}", said(line));
        }
        assert_eq!(said("jib").matches("'job'").count(), 1, "{}", said("jib"));
        assert!(!said("agent-exe").contains("agent-exec'"), "{}", said("agent-exe"));
    }
}
