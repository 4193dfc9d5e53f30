//! Command lines with the cursor at a name. The words are read as clap reads them, except that the line may have
//! errors, because it is not complete.

use crate::commands::names::{Kind, NameQuery};
use clap::{Arg, Command};

/// Names that a command line requires at the cursor.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) wanted: NameQuery,
    /// The part of the name that is typed.
    pub(super) prefix: String,
    /// The options of the line that choose the cell, as `--NAME=VALUE`.
    pub(super) cell: Vec<String>,
}

/// Options that choose the cell.
const OF_CELL: [&str; 5] = ["cell", "context", "tls-ca", "tls-cert", "tls-key"];

/// An option of each command that calls a cell.
const OF_CALL: &str = "timeout";

/// The words of a line up to a word.
struct Line<'a> {
    command: &'a Command,
    /// Names of the commands, such as `job` and `get`.
    path: Vec<&'a str>,
    /// Number of words that are neither commands nor options.
    values: usize,
    /// The option whose value is the next word.
    open: Option<&'a Arg>,
    cell: Vec<String>,
}

/// Reads a command line, without the name of the program: the words up to the cursor, the last of which is cut at the
/// cursor, and the words after it. Returns `None` if the cursor is not at a name.
pub(super) fn read(omega: &Command, words: Vec<String>, after: Vec<String>) -> Option<Request> {
    let mut words = glued(words);
    let last = words.pop()?;
    let (path, cell) = (Vec::new(), Vec::new());
    let mut line = Line { command: omega, path, values: 0, open: None, cell };
    for word in &words {
        if word == "--" {
            // The arguments of a task's program follow.
            return None;
        }
        line.advance(word);
    }
    let (wanted, prefix) =
        match (line.open, last.strip_prefix("--").and_then(|long| long.split_once('='))) {
            (Some(option), _) => (line.of_option(option)?, last),
            (None, Some((name, value))) => (line.of_option(line.long(name)?)?, value.to_owned()),
            (None, None) if last.starts_with('-') || line.values > 0 => return None,
            (None, None) => (line.of_value()?, last),
        };
    (line.open, line.values) = (None, line.values + 1);
    for word in glued(after).iter().take_while(|word| *word != "--") {
        line.advance(word);
    }
    Some(Request { wanted, prefix, cell: line.cell })
}

/// Joins words that Bash has split. To Bash, `--cell=h:1` is five words, of which `=` and `:` are two.
fn glued(words: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut joins = false;
    for word in words {
        let splits = !word.is_empty() && word.chars().all(|c| matches!(c, ':' | '='));
        match all.last_mut() {
            Some(last) if joins || splits => last.push_str(&word),
            _ => all.push(word),
        }
        joins = splits;
    }
    all
}

impl<'a> Line<'a> {
    /// Reads one more word.
    fn advance(&mut self, word: &str) {
        if let Some(option) = self.open.take() {
            self.note(option, word);
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let option = self.long(name);
            match (option, value) {
                (Some(option), Some(value)) => self.note(option, value),
                (option, _) => self.open = option.filter(|option| takes_next(option)),
            }
        } else if let Some(short) = word.strip_prefix('-') {
            self.open = short.chars().last().and_then(|last| self.last_short(short, last));
        } else if let Some(below) = self.command.find_subcommand(word).filter(|_| self.values == 0)
        {
            self.command = below;
            self.path.push(below.get_name());
        } else {
            self.values += 1;
        }
    }

    /// The option whose value follows the letters of a word such as `-f`. In `-ojson`, no value follows.
    fn last_short(&self, letters: &str, last: char) -> Option<&'a Arg> {
        let of = |letter| self.command.get_arguments().find(|arg| arg.get_short() == Some(letter));
        let first = letters.chars().find_map(|letter| of(letter).filter(|arg| takes_next(arg)))?;
        (first.get_short() == Some(last)).then_some(first)
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(name) || aliases.contains(&name)
        })
    }

    /// Keeps an option that chooses the cell.
    fn note(&mut self, option: &Arg, value: &str) {
        if let Some(name) = option.get_long().filter(|name| OF_CELL.contains(name)) {
            self.cell.push(format!("--{name}={value}"));
        }
    }

    /// Names that are values of an option.
    fn of_option(&self, option: &Arg) -> Option<NameQuery> {
        let kind = match option.get_long()? {
            "context" => return Some(NameQuery::Contexts),
            "job" => Kind::Jobs,
            "machine" => Kind::Machines,
            "tenant" | "parent" => Kind::Tenants,
            "scheduler" => Kind::Schedulers,
            _ => return None,
        };
        self.long(OF_CALL).map(|_| NameQuery::OfCell(kind))
    }

    /// Names that are arguments of the command.
    fn of_value(&self) -> Option<NameQuery> {
        self.command.get_positionals().next()?;
        Some(NameQuery::OfCell(match self.path.as_slice() {
            ["context", _] => return Some(NameQuery::Contexts),
            // The name is that of a new object.
            ["job", "submit"] | ["machine", "add"] => return None,
            ["job", "kill" | "resize" | "rollback" | "restart" | "explain"] => Kind::LiveJobs,
            ["job", _] => Kind::Jobs,
            ["task", _] => Kind::Tasks,
            ["machine", _] => Kind::Machines,
            ["quota", _] => Kind::Tenants,
            ["lease", _] => Kind::Schedulers,
            ["member", "promote" | "remove" | "transfer" | "update"] => Kind::Replicas,
            _ => return None,
        }))
    }
}

/// Whether the word after an option is its value.
fn takes_next(option: &Arg) -> bool {
    let takes = option.get_num_args().is_none_or(|count| count.min_values() > 0);
    option.get_action().takes_values() && takes && !option.is_require_equals_set()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn replicas_are_named_except_the_new_one() {
        let wanted = |line: &str| {
            let words = line.split(' ').map(str::to_owned).collect();
            read(&crate::Omega::command(), words, Vec::new()).map(|request| request.wanted)
        };
        for verb in ["promote", "remove", "transfer", "update"] {
            let replicas = Some(NameQuery::OfCell(Kind::Replicas));
            assert_eq!(wanted(&format!("member {verb} ")), replicas, "{verb}");
        }
        assert_eq!(wanted("member add "), None);
    }
}
