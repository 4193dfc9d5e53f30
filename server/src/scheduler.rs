//! `omega scheduler`: places the jobs that name it, in a process of its own.
//!
//! Several processes may run schedulers of different names at once: the cell takes what holds and
//! refuses what conflicts.

use crate::connect::CellArgs;
use crate::output::{self, OutputError};
use crate::signals::Signals;
use clap::Args;
use omega_cellstate::{CellHandle, HandleError, View};
use omega_client::{ApiError, RemoteCell};
use omega_schedulers::config::{ConfigError, Profiles, Registry};
use omega_schedulers::{Clock, Nanos, Pool, Profile, Scheduler, Settings, Unobserved};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Transactions of one worker that may be on the way at once: over a network, many cost little more
/// than one.
const COMMITS_IN_FLIGHT: usize = 4;

/// Place the jobs of one scheduler.
#[derive(Debug, Args)]
pub(crate) struct SchedulerArgs {
    #[command(flatten)]
    cell: CellArgs,
    /// Its name: it places the jobs that name it.
    #[arg(long, value_name = "NAME", default_value = "default")]
    name: String,
    /// Workers that share its jobs, each on a thread.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// The profile of this name in this file says how it places; docs/profiles.md.
    #[arg(long, value_name = "FILE.toml")]
    profile: Option<PathBuf>,
}

/// Why a scheduler does not start, or ends early. One line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchedulerError {
    /// Correct the address.
    #[error(transparent)]
    Address(#[from] ApiError),
    /// Name another file, or mend this one.
    #[error("{}: {why}", file.display())]
    File {
        /// Which file.
        file: PathBuf,
        /// What is wrong.
        why: io::Error,
    },
    /// Mend the file.
    #[error("{}:{why}", file.display())]
    Profile {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it, and where.
        why: ConfigError,
    },
    /// Name a profile for it.
    #[error("{}: has no profile for the scheduler {name:?}", file.display())]
    NoProfile {
        /// Which file.
        file: PathBuf,
        /// Whose.
        name: String,
    },
    /// Look whether the cell runs, and where.
    #[error("the cell does not answer: {0}")]
    Cell(#[from] HandleError),
    /// See the error.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The system has no threads or signals left.
    #[error("the system refuses: {0}")]
    System(io::Error),
}

/// The monotonic clock.
struct Monotonic(Instant);

impl Clock for Monotonic {
    fn now(&self) -> Nanos {
        self.0.elapsed().as_nanos() as Nanos
    }
}

/// Places until it is told to end.
pub(crate) fn run(args: &SchedulerArgs) -> Result<(), SchedulerError> {
    let profiles = args.profile.as_deref().map(read).transpose()?;
    let cell = RemoteCell::connect(&args.cell.address())?;
    let schedulers = schedulers(args, profiles.as_ref(), &cell)?;
    output::print(&format!("scheduler {} places with {} workers\n", args.name, args.workers))?;
    let clock = Monotonic(Instant::now());
    let workers = std::thread::scope(|scope| {
        let pool = Pool::start(scope, &cell, &clock, schedulers);
        wait_for_the_end(|| pool.running() == 0)?;
        Ok(pool.stop())
    });
    let workers = workers.map_err(SchedulerError::System)?;
    match workers.into_iter().find_map(|worker| worker.error) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn schedulers(
    args: &SchedulerArgs,
    profiles: Option<&Profiles>,
    cell: &RemoteCell,
) -> Result<Vec<(Scheduler, Unobserved)>, SchedulerError> {
    let mut all = Vec::new();
    for index in 0..args.workers {
        let mut settings = Settings::worker(&args.name, index, args.workers);
        settings.commits_in_flight = COMMITS_IN_FLIGHT;
        let mut profile = Profile::batch();
        if let (Some(profiles), Some(file)) = (profiles, &args.profile) {
            let (file, name) = (file.clone(), args.name.clone());
            let Some(spec) = profiles.get(&args.name) else {
                return Err(SchedulerError::NoProfile { file, name });
            };
            settings = spec.apply(settings);
            let (me, number) = cell.register(args.name.as_str().into())?;
            let mut view = View::new(me, number);
            view.sync(cell)?;
            profile =
                spec.bind(view.kinds()).map_err(|why| SchedulerError::Profile { file, why })?;
        }
        all.push((Scheduler::new(cell, profile, settings)?, Unobserved));
    }
    Ok(all)
}

fn read(file: &Path) -> Result<Profiles, SchedulerError> {
    let text = std::fs::read_to_string(file)
        .map_err(|why| SchedulerError::File { file: file.to_owned(), why })?;
    Profiles::parse(&text, &Registry::built_in())
        .map_err(|why| SchedulerError::Profile { file: file.to_owned(), why })
}

/// How often is looked whether there is nothing left to wait for.
const LOOK: std::time::Duration = std::time::Duration::from_millis(200);

/// Waits for a signal that asks to end, or until `over` says that it is.
fn wait_for_the_end(over: impl Fn() -> bool) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        loop {
            tokio::select! {
                () = signals.end() => return Ok(()),
                () = tokio::time::sleep(LOOK) => if over() { return Ok(()) },
            }
        }
    })
}
