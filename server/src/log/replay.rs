//! `omega log replay`: applies the entries again, and prints the resulting state.

use crate::output;
use crate::served::Error;
use clap::Args;
use omega_cellstate::Cell;
use omega_core::{TaskState, Version};
use omega_store::history::{self, ReplayOptions, ReplayScope};
use std::path::PathBuf;

/// End of the replay, and the audits during it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  omega log replay cell --audit-every 1000")]
pub(crate) struct ReplayArgs {
    /// Directory of a stopped replica, or a copy of such a directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Stop at this version of the cell [default: the newest].
    #[arg(long, value_name = "VERSION")]
    to: Option<u64>,
    /// Check the cell after every N versions, in addition to the check at the end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    audit_every: Option<u64>,
    /// Include log entries that are not known to be committed.
    #[arg(long)]
    all: bool,
}

pub(crate) fn replay(args: &ReplayArgs) -> Result<(), Error> {
    let mut history = history::open(&args.dir)?;
    let options = ReplayOptions {
        to: args.to.map(Version),
        scope: which(args.all),
        audit_every: args.audit_every,
    };
    let replay = history.replay(&options)?;
    let fingerprint = replay
        .fingerprint()
        .map_or_else(|| "none in the midst of an entry".to_owned(), |hash| format!("{hash:016x}"));
    let tasks = TaskStates::of(replay.cell());
    let lines = [
        ("began at version", format!("{} (entry {})", replay.from(), replay.base().index)),
        ("commands", replay.commands().to_string()),
        ("version", format!("{} (entry {})", replay.cell().version(), replay.position().index)),
        ("machines", replay.cell().machines().count().to_string()),
        ("jobs", replay.cell().jobs().count().to_string()),
        ("tasks pending", tasks.pending.to_string()),
        ("tasks on machines", tasks.placed.to_string()),
        ("tasks ended", tasks.ended.to_string()),
        ("audits passed", replay.audits().to_string()),
        ("state hash", format!("{:016x}", replay.cell().state_hash())),
        ("fingerprint", fingerprint),
    ];
    let text: String = lines.iter().map(|(name, value)| format!("{name:<17}  {value}\n")).collect();
    Ok(output::print(&text)?)
}

/// Number of tasks in each state.
#[derive(Debug, Default)]
pub(super) struct TaskStates {
    pub(super) pending: usize,
    pub(super) placed: usize,
    pub(super) ended: usize,
}

impl TaskStates {
    pub(super) fn of(cell: &Cell) -> TaskStates {
        let mut states = TaskStates::default();
        for (_, state) in cell.jobs().flat_map(|(id, _)| cell.tasks(id)) {
            match state {
                TaskState::Pending => states.pending += 1,
                TaskState::Placed(_) | TaskState::Running(_) => states.placed += 1,
                _ => states.ended += 1,
            }
        }
        states
    }
}

/// Selection of the entries: all, or only the committed ones.
pub(crate) fn which(all: bool) -> ReplayScope {
    if all { ReplayScope::All } else { ReplayScope::Committed }
}
