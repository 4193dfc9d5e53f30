//! The command that a command line names.

use clap::Command;

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
