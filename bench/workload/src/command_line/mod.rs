//! Command lines of all programs. Bad input ends the program with one line on standard error and exit code 2. A command
//! that lacks its verb, such as `omega job`, prints its verbs and ends with the same code.

mod hints;
mod synonyms;

use clap::error::ErrorKind;
use clap::{Command, Parser};
use hints::Place;
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
const NUMBERS: [(&str, &str); 6] = [
    ("invalid digit found in string", "must be a whole number"),
    ("cannot parse integer from empty string", "must be a whole number"),
    ("number too large to fit in target type", "is too large"),
    ("number would be zero for non-zero type", "must be at least 1"),
    ("invalid float literal", "must be a number"),
    ("cannot parse float from empty string", "must be a number"),
];

/// The sentence of an error, and clap's tips in parentheses.
fn parts(text: &str) -> (String, String) {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let (mut sentence, mut tips) = (Vec::new(), String::new());
    for line in lines.take_while(|line| !is_usage(line)) {
        match line.strip_prefix("tip:").map(str::trim) {
            // Names do not begin with a hyphen.
            Some(tip) if tip.is_empty() || tip.starts_with("to pass '") => {}
            Some(tip) => tips += &format!(" ({tip})"),
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
        let output = || Arg::new("output").long("output").short('o');
        let of_one = |verb: &'static str| {
            Command::new(verb).arg(Arg::new("name").value_name("NAME").required(true))
        };
        let job = Command::new("job")
            .subcommand(
                Command::new("list")
                    .arg(Arg::new("all").long("all").action(ArgAction::SetTrue))
                    .arg(output()),
            )
            .subcommand(of_one("get").visible_alias("status").arg(output()))
            .subcommand(
                of_one("submit")
                    .arg(file())
                    .arg(Arg::new("cpu").long("cpu"))
                    .arg(Arg::new("run").num_args(0..).last(true)),
            )
            .subcommand(Command::new("apply").arg(file()))
            .subcommands(["kill", "delete", "rollback", "watch"].map(of_one))
            .subcommand(
                of_one("resize")
                    .arg(Arg::new("count").value_name("COUNT").value_parser(value_parser!(u32)))
                    .arg(Arg::new("context").long("context")),
            );
        let task = Command::new("task")
            .subcommand(Command::new("list").arg(Arg::new("job").long("job")))
            .subcommands(["get", "logs"].map(of_one));
        let machine = Command::new("machine").subcommands(["list", "get", "drain"].map(of_one));
        let nouns = ["context", "member", "quota"];
        let nouns = nouns.map(|noun| Command::new(noun).subcommand(of_one("list")));
        let hidden = Command::new("agent-exec").hide(true);
        let tree = [job, task, machine, Command::new("cert"), Command::new("run"), hidden];
        Command::new("omega").subcommand_required(true).subcommands(tree).subcommands(nouns)
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
            ("job kill a b", "(one at a time: use omega job kill for each)"),
            ("machine drain a b", "(one at a time: use omega machine drain for each)"),
        ];
        for (line, hint) in cases {
            assert!(said(line).contains(hint), "{line}: {}", said(line));
        }
        assert_eq!(said("jib").matches("'job'").count(), 1, "{}", said("jib"));
        assert!(!said("agent-exe").contains("agent-exec'"), "{}", said("agent-exe"));
    }

    #[test]
    fn files_are_suggested_only_if_they_can_be_meant() {
        let program = "(put -- before the program: omega job submit NAME -- ";
        let cases = [
            ("job submit hello echo hello", format!("{program}echo)")),
            ("job submit hello none.toml", format!("{program}none.toml)")),
            ("job submit hello Cargo.toml", "(give the file with -f Cargo.toml)".to_owned()),
            ("job apply src/lib.rs", "(give the file with -f src/lib.rs)".to_owned()),
            ("job apply web", "(give a file with -f)".to_owned()),
        ];
        for (line, hint) in cases {
            assert!(said(line).contains(&hint), "{line}: {}", said(line));
        }
    }

    #[test]
    fn words_of_other_systems_are_translated() {
        let cases = [
            ("nodes", "(use omega machine); see omega --help"),
            ("node list", "(use omega machine list)"),
            ("alloc exec web/0", "(there is no exec: use omega task logs, or SSH)"),
            ("namespace list", "(use omega quota list)"),
            ("tenant", "(use omega quota)"),
            ("operator raft", "(use omega member)"),
            ("logs web", "(use omega task logs)"),
            ("version", "(use omega --version)"),
            ("events", "(use omega job history or omega machine get)"),
            ("config get-contexts", "(use omega context list)"),
            ("context current", "(use omega context list)"),
            ("get pods", "(use omega task list --job NAME or omega task get NAME/0)"),
            ("job cancel web", "(use omega job kill)"),
            ("job pause web", "(a job cannot be paused: use omega job kill, and later"),
            ("job submit web -n 4", "(use --count, or --tenant for a namespace)"),
            (
                "job submit web --array 0-9",
                "(use --count: OMEGA_TASK_INDEX is the number of a task)",
            ),
            ("job submit web --time 1h", "(tasks have no time limit: --run-time is an estimate)"),
            ("machine taint m a=b:NoSchedule", "(use --taint of omega machine add"),
            ("quota delete a", "(a tenant cannot be deleted: omega quota clear removes its limit)"),
            ("rollout status web", "(use omega job versions, omega job rollback or omega job"),
            ("run web.toml", "(for a file of jobs: omega job apply -f web.toml)"),
            ("sbatch run.sh", "(use omega job submit NAME -- PROGRAM)"),
            ("server members", "(use omega member list)"),
            ("describe job web", "(the object comes before the verb: omega job get)"),
            ("get nodes", "(the object comes before the verb: omega machine get)"),
            ("get namespaces", "(the object comes before the verb: omega quota list)"),
            ("kill task web/0", "(use omega job kill or omega job resize)"),
            ("job describe web", "(use omega job get); see omega job --help"),
            ("job inspect web", "(use omega job get)"),
            ("job run web.toml", "(use omega job apply)"),
            ("job logs web", "(use omega task logs)"),
            ("job rm web", "(use omega job delete)"),
            ("job restart web", "such as its env, and use omega job apply)"),
            ("task stop web/0", "(use omega job kill or omega job resize)"),
            ("machine label m rack=a", "(use --label of omega agent or omega machine add)"),
            ("quota get a", "(use omega quota list)"),
            ("machine drain m --yes", "(no command asks for confirmation); see omega machine"),
            ("machine drain m --ignore-daemonsets", "(tasks of per_machine groups stay)"),
            ("task logs web --previous", "(a restarted program continues its log)"),
            ("job list --json", "(use -o json)"),
            ("job get web -w", "(use omega job watch)"),
        ];
        for (line, hint) in cases {
            assert!(said(line).contains(hint), "{line}: {}", said(line));
            assert_eq!(said(line).matches(" (").count(), 1, "{line}: {}", said(line));
        }
        let none = said("machine train m");
        assert!(!none.contains("drain") && !none.contains('('), "{none}");
        assert!(said("machine drian m").contains("'drain'"), "{}", said("machine drian m"));
        let close = said("job submit web --cpus 4");
        assert!(close.contains("(a similar argument exists: '--cpu'); see"), "{close}");
    }
}
