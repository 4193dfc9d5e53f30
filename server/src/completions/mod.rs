//! `omega completions`: scripts that complete verbs, options and the names of a cell.
//!
//! `clap_complete` generates the scripts of verbs and options. For names, each script first runs a hidden command:
//!
//! ```text
//!   omega __names COUNT WORD... ──▶ line.rs: which names? ──▶ commands/names.rs: a request ──▶ names, by line
//! ```
//!
//! The program of the user's `PATH` reads the words, so that a script contains no list of verbs that take names, and
//! names are those that the caller's role may list. `clap_complete` can also complete names without static scripts, but
//! calls this interface unstable.

mod line;

use crate::commands::names::{self, NameQuery, Names};
use crate::connect::CellArgs;
use crate::output::{self, OutputError};
use crate::{Omega, context};
use clap::{Args, CommandFactory, Parser};
use clap_complete::Shell;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Arguments of the command.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Shell that reads the completions.
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// The beginning of the function that Bash and zsh call.
const FUNCTION: &str = "_omega() {\n";

/// Prints the completions for a shell.
pub(crate) fn completions(args: &CompletionArgs) -> Result<(), OutputError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Omega::command(), "omega", &mut text);
    let text = String::from_utf8_lossy(&text);
    let begin = |names: &str, call: &str| {
        text.replacen(FUNCTION, &format!("{names}{FUNCTION}    {call}\n"), 1)
    };
    output::print(&match args.shell {
        Shell::Bash => begin(include_str!("names.bash"), "_omega_names \"$@\" && return 0"),
        Shell::Zsh => begin(include_str!("names.zsh"), "_omega_names && return 0"),
        Shell::Fish => format!("{text}{}", include_str!("names.fish")),
        _ => text.into_owned(),
    })
}

/// The hidden command.
const NAMES: &str = "__names";

/// Time for the names. A shell waits for them after each press of the key.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Variable with another time, in milliseconds. It is for tests, whose computer may be busy.
const TIME_VARIABLE: &str = "OMEGA_NAMES_MS";

fn time_max() -> Duration {
    let set = std::env::var(TIME_VARIABLE).ok().and_then(|text| text.parse::<u32>().ok());
    set.map_or(TIME_MAX, |ms| Duration::from_millis(ms.into()))
}

/// Prints the names that may replace the word at the cursor, if the command line is that of the hidden command. If there
/// are none, or no replica answers, nothing is printed: errors would appear in the middle of the line that the user
/// types.
pub(crate) fn names_of_line() -> Option<ExitCode> {
    let began = Instant::now();
    let mut args = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    if args.next()? != NAMES {
        return None;
    }
    // The number of words up to the cursor.
    let count = args.next().and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
    let mut words: Vec<String> = args.collect();
    let after = words.split_off(count.min(words.len()));
    let (until, (sender, found)) = (began + time_max(), mpsc::channel());
    // The threads may take longer, for example to read a file or to resolve a name. They end with the process.
    std::thread::spawn(move || look_up(words, after, &sender));
    let lines: String = first(&found, until).iter().map(|name| format!("{name}\n")).collect();
    // Without a reader, there is nothing left to do.
    drop(output::print(&lines));
    Some(ExitCode::SUCCESS)
}

/// The first complete list, or else the longest one that is there at the deadline.
fn first(found: &Receiver<Names>, until: Instant) -> Vec<String> {
    let mut longest = Vec::new();
    while let Ok(one) = found.recv_timeout(until.saturating_duration_since(Instant::now())) {
        match one {
            Names::All(names) => return names,
            Names::Some(names) if names.len() > longest.len() => longest = names,
            Names::Some(_) => {}
        }
    }
    longest
}

/// Options that choose the cell.
#[derive(Parser)]
struct Cell {
    #[command(flatten)]
    cell: CellArgs,
}

/// Sends the names for the word at the cursor. All replicas are asked at once, because there is no time to try them in
/// turn.
fn look_up(words: Vec<String>, after: Vec<String>, sender: &Sender<Names>) {
    let read = line::read(&Omega::command(), words, after);
    let Some(line::Request { wanted, prefix, cell }) = read else { return };
    let NameQuery::OfCell(kind) = wanted else {
        let read = context::path().and_then(|file| context::read(&file).ok());
        let contexts = read.map(|read| read.contexts.into_keys()).into_iter().flatten();
        drop(sender.send(Names::All(names::matching(contexts, &prefix))));
        return;
    };
    let parsed = Cell::try_parse_from([String::new()].into_iter().chain(cell));
    let Some(address) = parsed.ok().and_then(|parsed| parsed.cell.address().ok()) else { return };
    for replica in &address.replicas {
        let one = omega_client::Address { replicas: vec![replica.clone()], ..address.clone() };
        let (sender, prefix) = (sender.clone(), prefix.clone());
        std::thread::spawn(move || {
            let some = |names| drop(sender.send(Names::Some(names)));
            if let Ok(names) = names::of_cell(&one, kind, &prefix, time_max(), &some) {
                drop(sender.send(Names::All(names)));
            }
        });
    }
}
