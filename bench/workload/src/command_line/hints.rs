//! Hints for common mistakes in command lines, in place of clap's guesses.

use super::place::Place;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// Endings of the names of files that commands read.
const FILES: [&str; 3] = [".toml", ".json", ".yaml"];

/// Removes hidden commands from the suggestions of an error.
pub(super) fn hide(error: &mut clap::Error, command: &Command) {
    let is_shown =
        |name: &&String| !command.find_subcommand(name).is_some_and(Command::is_hide_set);
    let shown = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.iter().filter(is_shown).cloned().collect(),
        Some(ContextValue::String(name)) => [name].into_iter().filter(is_shown).cloned().collect(),
        _ => return,
    };
    let shown: Vec<String> = shown;
    let value = if shown.is_empty() { ContextValue::None } else { ContextValue::Strings(shown) };
    error.insert(ContextKind::SuggestedSubcommand, value);
}

/// The remedy for an error, if its cause is a common mistake.
pub(super) fn hint(error: &clap::Error, place: &Place<'_>) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument => argument(text(ContextKind::InvalidArg)?, place),
        ErrorKind::InvalidSubcommand => verb(text(ContextKind::InvalidSubcommand)?, place),
        _ => None,
    }
}

/// The remedy for a value without its flag, or for a flag in place of a positional argument.
fn argument(word: &str, place: &Place<'_>) -> Option<String> {
    if let Some(flag) = word.strip_prefix("--") {
        let names: Vec<&str> = place.command.get_positionals().map(name).collect();
        let found = names.iter().find(|name| name.eq_ignore_ascii_case(flag))?;
        let all: Vec<String> = names.iter().map(|name| format!("[{name}]")).collect();
        return Some(format!("{found} has no flag: {} {}", place.path, all.join(" ")));
    }
    let has = |flag: &str| place.command.get_arguments().any(|arg| arg.get_long() == Some(flag));
    let takes_file = place.command.get_arguments().any(|arg| arg.get_short() == Some('f'));
    let is_file = FILES.iter().any(|end| word.ends_with(end));
    if word.starts_with('-') {
        None
    } else if takes_file && (is_file || !has("job")) {
        Some(format!("give the file with -f {word}"))
    } else if has("job") {
        Some(format!("give the job with --job {word}"))
    } else {
        let parent = place.parent.filter(|_| place.command.get_name() == "list")?;
        parent.find_subcommand("get")?;
        let noun = place.path.strip_suffix("list")?;
        Some(format!("for one of them: {noun}get {word}"))
    }
}

fn name(arg: &Arg) -> &str {
    arg.get_value_names().and_then(<[_]>::first).map_or(arg.get_id().as_str(), |name| name.as_str())
}

/// The remedy for a verb before its object, such as `get jobs`.
fn verb(verb: &str, place: &Place<'_>) -> Option<String> {
    let has_verb = |noun: &&Command| noun.find_subcommand(verb).is_some() && !noun.is_hide_set();
    let nouns = || place.command.get_subcommands().filter(has_verb);
    let is_meant = |noun: &&Command| {
        let next = place.rest.get(1).map(|next| next.strip_suffix('s').unwrap_or(next));
        next == Some(noun.get_name())
    };
    let noun = nouns().find(is_meant);
    let noun = noun.or_else(|| nouns().find(|noun| noun.get_name() == "job")).or(nouns().next())?;
    Some(format!("the object comes before the verb: {} {} {verb}", place.path, noun.get_name()))
}
