//! `omega log show`: the identity of a replica, and the entries of its log.

use super::describe;
use crate::output;
use crate::served::Error;
use clap::Args;
use omega_core::{Command, Version};
use omega_store::codec;
use omega_store::history::{self, History, HistoryError, Replay};
use omega_store::log::{Entry, EntryKind, LogIndex};
use omega_store::membership::MembershipChange;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// The entries to show.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  omega log show cell --from 100 --to 120 -v")]
pub(crate) struct ShowArgs {
    /// Directory of a stopped replica, or a copy of such a directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Number of the first entry to show [default: the first one].
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// Number of the last entry to show [default: the last one].
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// Print JSON; docs/log.md describes the fields.
    #[arg(long)]
    json: bool,
    /// Print the commands of each entry in words.
    #[arg(long, short)]
    verbose: bool,
}

/// Everything that is printed.
#[derive(Debug, Serialize)]
struct Shown {
    cell: String,
    replica: u64,
    engine: String,
    term: u64,
    vote: Option<u64>,
    commit: u64,
    base: u64,
    last: u64,
    /// Offset at which a replica would cut off an incomplete record.
    torn: Option<String>,
    snapshots: Vec<ShownSnapshot>,
    entries: Vec<ShownEntry>,
}

#[derive(Debug, Serialize)]
struct ShownSnapshot {
    index: u64,
    term: u64,
    bytes: Option<u64>,
    /// Damage of the file, if any.
    damage: Option<String>,
}

#[derive(Debug, Serialize)]
struct ShownEntry {
    index: u64,
    term: u64,
    kind: &'static str,
    committed: bool,
    bytes: usize,
    commands: usize,
    /// The cell's version after the entry, if it can be computed.
    version: Option<u64>,
    /// Each command of the entry in words, if requested.
    content: Vec<String>,
}

pub(crate) fn show(args: &ShowArgs) -> Result<(), Error> {
    let mut history = history::open(&args.dir)?;
    let mut shown = head(&history)?;
    let mut versions = Versions { replay: history.begin(None).ok() };
    let last = args.to.unwrap_or(u64::MAX);
    let mut next = history.bounds().base.index.next();
    'all: loop {
        let entries = history.read(next)?;
        let Some(end) = entries.last() else { break };
        next = end.position.index.next();
        for entry in &entries {
            let index = entry.position.index.0;
            if index > last {
                break 'all;
            }
            let is_committed = index <= shown.commit;
            let version = if is_committed { versions.after(entry) } else { None };
            if index >= args.from.unwrap_or(0) {
                shown.entries.push(describe_entry((entry, is_committed), version, args.verbose)?);
            }
        }
    }
    let text = if args.json { json(&shown) } else { text(&shown) };
    Ok(output::print(&text)?)
}

fn head(history: &History) -> Result<Shown, HistoryError> {
    let identity = history.identity();
    let (bounds, hard_state) = (history.bounds(), history.hard_state());
    let torn = history.torn().map(|(path, at)| format!("{} at byte {at}", path.display()));
    let snapshots = history.snapshots()?.into_iter().map(|(position, found)| ShownSnapshot {
        index: position.index.0,
        term: position.term.0,
        bytes: found.as_ref().ok().map(|found| found.bytes),
        damage: found.err().map(|error| error.to_string()),
    });
    Ok(Shown {
        cell: identity.origin.cell.to_string(),
        replica: identity.replica.0,
        engine: identity.engine.to_string(),
        term: hard_state.term.0,
        vote: hard_state.vote.map(|vote| vote.0),
        commit: hard_state.commit.0,
        base: bounds.base.index.0,
        last: bounds.last.index.0,
        torn,
        snapshots: snapshots.collect(),
        entries: Vec::new(),
    })
}

/// The cell's version after each entry. It can be computed only for entries after a snapshot.
struct Versions {
    replay: Option<Replay>,
}

impl Versions {
    fn after(&mut self, entry: &Entry) -> Option<Version> {
        let replay = self.replay.as_mut()?;
        let at = replay.position().index;
        if entry.position.index == at.next() {
            // `omega log replay` reports this error.
            if replay.apply(entry).is_err() {
                self.replay = None;
                return None;
            }
        } else if entry.position.index != at {
            return None;
        }
        self.replay.as_ref().map(|replay| replay.cell().version())
    }
}

fn describe_entry(
    (entry, committed): (&Entry, bool),
    version: Option<Version>,
    verbose: bool,
) -> Result<ShownEntry, HistoryError> {
    let at: LogIndex = entry.position.index;
    let unreadable = |source| HistoryError::Unreadable { at, source };
    let (kind, content) = match entry.kind {
        EntryKind::Commands => {
            let commands = codec::decode_entry(&entry.data).map_err(unreadable)?;
            ("commands", commands.iter().map(describe_one).collect::<Vec<String>>())
        }
        EntryKind::Membership => {
            let change = MembershipChange::from_bytes(&entry.data).map_err(unreadable)?;
            ("membership", vec![format!("{:?}", change.steps)])
        }
    };
    let commands = if kind == "commands" { content.len() } else { 0 };
    Ok(ShownEntry {
        index: at.0,
        term: entry.position.term.0,
        kind,
        committed,
        bytes: entry.data.len(),
        commands,
        version: version.map(|version| version.0),
        content: if verbose || kind == "membership" { content } else { Vec::new() },
    })
}

fn describe_one(command: &Command) -> String {
    describe::command(command)
}

fn json(shown: &Shown) -> String {
    let text = serde_json::to_string_pretty(shown);
    text.expect("the keys are text, and memory takes all that is written") + "\n"
}

fn text(shown: &Shown) -> String {
    let mut out = format!(
        "cell {}, replica r{}, engine {}\nlog: entries {} to {}, committed up to {}; term {}, voted for {}\n",
        shown.cell,
        shown.replica,
        shown.engine,
        shown.base + 1,
        shown.last,
        shown.commit,
        shown.term,
        shown.vote.map_or_else(|| "nobody".to_owned(), |vote| format!("r{vote}")),
    );
    if shown.base == shown.last {
        out = out.replace(&format!("entries {} to {}", shown.base + 1, shown.last), "no entries");
    }
    for snapshot in &shown.snapshots {
        let what = match (&snapshot.damage, snapshot.bytes) {
            (Some(damage), _) => damage.clone(),
            (None, bytes) => format!("{} bytes", bytes.unwrap_or_default()),
        };
        line(&mut out, &format!("snapshot: up to entry {}, {what}", snapshot.index));
    }
    if let Some(torn) = &shown.torn {
        line(
            &mut out,
            &format!("torn: {torn}: a write was cut short; a replica that starts cuts it"),
        );
    }
    line(&mut out, "\n  entry  term  kind        commands    bytes  version");
    for entry in &shown.entries {
        let version = entry.version.map_or_else(|| "-".to_owned(), |version| version.to_string());
        let open = if entry.committed { "" } else { "  not known to be committed" };
        line(
            &mut out,
            &format!(
                "{:>7}  {:>4}  {:<10}  {:>8}  {:>7}  {version:>7}{open}",
                entry.index, entry.term, entry.kind, entry.commands, entry.bytes
            ),
        );
        entry.content.iter().for_each(|content| line(&mut out, &format!("         {content}")));
    }
    out
}

/// Adds a line.
fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("memory takes all that is written");
}
