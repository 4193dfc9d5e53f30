//! Hints for common mistakes in command lines, in place of clap's guesses.

use super::synonyms;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};
use std::path::Path;

/// Endings of the names of files that commands read.
const FILES: [&str; 3] = [".toml", ".json", ".yaml"];

/// Verbs that take one name and no other value.
const OF_ONE: [&str; 13] = [
    "clear", "delete", "drain", "explain", "get", "history", "kill", "logs", "remove", "resume",
    "rollback", "versions", "watch",
];

/// The command that a command line names.
pub(super) struct Place<'a> {
    /// The command, with its program: `omega job submit`.
    pub(super) path: String,
    pub(super) command: &'a Command,
    /// The parent command, if `command` is one of its verbs.
    pub(super) parent: Option<&'a Command>,
    /// The words after the command.
    pub(super) rest: &'a [String],
}

impl<'a> Place<'a> {
    pub(super) fn of(root: &'a Command, words: &'a [String]) -> Place<'a> {
        let mut place =
            Place { path: root.get_name().to_owned(), command: root, parent: None, rest: words };
        for (at, word) in words.iter().enumerate() {
            let Some(command) = place.command.find_subcommand(word) else { break };
            place.path = format!("{} {}", place.path, command.get_name());
            place.parent = Some(place.command);
            place.command = command;
            place.rest = &words[at + 1..];
        }
        place
    }
}

/// Removes hidden commands from the suggestions of an error.
pub(super) fn hide(error: &mut clap::Error, command: &Command) {
    let is_shown =
        |name: &&String| !command.find_subcommand(name).is_some_and(Command::is_hide_set);
    let shown = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names.iter().filter(is_shown).cloned().collect(),
        Some(ContextValue::String(name)) => [name].into_iter().filter(is_shown).cloned().collect(),
        _ => return,
    };
    let mut shown: Vec<String> = shown;
    // A word with another first letter is no typing error, and the suggestion may be a command with other effects.
    if let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) {
        shown.retain(|name| name.chars().next() == word.chars().next());
    }
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
        ErrorKind::InvalidSubcommand => command(text(ContextKind::InvalidSubcommand)?, place),
        _ => None,
    }
}

/// The remedy for an unknown option, or for a value that the command does not take.
fn argument(word: &str, place: &Place<'_>) -> Option<String> {
    let remedy = synonyms::remedy(&place.path, word);
    if let Some(remedy) = remedy.or_else(|| synonyms::option(place.command, word)) {
        return Some(remedy.to_owned());
    }
    if let Some(flag) = word.strip_prefix("--") {
        let names: Vec<&str> = place.command.get_positionals().map(name).collect();
        let found = names.iter().find(|name| name.eq_ignore_ascii_case(flag))?;
        let all: Vec<String> = names.iter().map(|name| format!("[{name}]")).collect();
        return Some(format!("{found} has no flag: {} {}", place.path, all.join(" ")));
    }
    if word.starts_with('-') { None } else { value(word, place) }
}

/// The remedy for a value without its flag, and for a value too many.
fn value(word: &str, place: &Place<'_>) -> Option<String> {
    let Place { path, command, .. } = place;
    let is_file = |arg: &Arg| arg.get_short() == Some('f') && arg.get_long() == Some("file");
    let takes_file = command.get_arguments().any(is_file);
    let takes_program = command.get_positionals().any(Arg::is_last_set);
    let is_named = FILES.iter().any(|end| word.ends_with(end));
    if path == "omega run" && is_named {
        return Some(format!("for a file of jobs: omega job apply -f {word}"));
    }
    let exists = Path::new(word).is_file();
    let positionals = command.get_positionals().count();
    if takes_program && !(is_named && exists) {
        Some(format!("put -- before the program: {path} NAME -- {word}"))
    } else if takes_file && (is_named || exists) {
        Some(format!("give the file with -f {word}"))
    } else if takes_file && positionals == 0 {
        Some("give a file with -f".to_owned())
    } else if synonyms::has_option(command, "job") && !word.contains('/') {
        Some(format!("give the job with --job {word}"))
    } else if command.get_name() == "list" {
        place.parent?.find_subcommand("get")?;
        let noun = path.strip_suffix("list")?;
        Some(format!("for one of them: {noun}get {word}"))
    } else if positionals == 1 && OF_ONE.contains(&command.get_name()) {
        Some(format!("one at a time: use {path} for each"))
    } else {
        None
    }
}

fn name(arg: &Arg) -> &str {
    arg.get_value_names().and_then(<[_]>::first).map_or(arg.get_id().as_str(), |name| name.as_str())
}

/// The remedy for an unknown command, such as `node` or `job describe`.
fn command(word: &str, place: &Place<'_>) -> Option<String> {
    if place.parent.is_some() {
        return of_noun(place.command, &place.path, word);
    }
    if let Some(remedy) = synonyms::remedy(&place.path, word) {
        return Some(remedy.to_owned());
    }
    let next = place.rest.get(1).map(String::as_str);
    let Some(noun) = synonyms::noun(place.command, word) else { return verb(word, next, place) };
    let path = format!("{} {}", place.path, noun.get_name());
    let whole = next.and_then(|next| of_noun(noun, &path, next));
    Some(whole.unwrap_or_else(|| format!("use {path}")))
}

/// The remedy for an unknown verb of a noun.
fn of_noun(noun: &Command, path: &str, word: &str) -> Option<String> {
    let remedy = synonyms::remedy(path, word).map(str::to_owned);
    remedy.or_else(|| Some(format!("use {path} {}", synonyms::verb_of(noun, word)?)))
}

/// The remedy for a verb before its object, such as `get jobs`.
fn verb(word: &str, next: Option<&str>, place: &Place<'_>) -> Option<String> {
    let path = |noun: &Command| format!("{} {}", place.path, noun.get_name());
    let before = |noun: &Command, verb: &str| {
        format!("the object comes before the verb: {} {verb}", path(noun))
    };
    if let Some(noun) = next.and_then(|next| synonyms::noun(place.command, next)) {
        let remedy = synonyms::remedy(&path(noun), word).map(str::to_owned);
        let remedy = remedy.or_else(|| Some(before(noun, synonyms::verb_of(noun, word)?)));
        if remedy.is_some() {
            return remedy;
        }
    }
    synonyms::verbs(word).into_iter().find_map(|verb| {
        let has_verb =
            |noun: &&Command| noun.find_subcommand(verb).is_some() && !noun.is_hide_set();
        let nouns = || place.command.get_subcommands().filter(has_verb);
        let noun = nouns().find(|noun| noun.get_name() == "job").or_else(|| nouns().next())?;
        Some(before(noun, verb))
    })
}
