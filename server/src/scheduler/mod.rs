//! `omega scheduler`: a scheduler process.
//!
//! Several processes may run schedulers with different names at once. For each name, one process places jobs, and
//! others may be on standby: see docs/schedulers.md.

mod error;
mod figures;
mod listen;
mod panic_log;
mod plugins;

pub(crate) use error::SchedulerError;

use crate::connect::CellArgs;
use crate::duration::duration;
use crate::events::LogArgs;
use crate::output;
use crate::signals::Signals;
use clap::Args;
use figures::{SchedulerFigures, WorkerMeter};
use listen::MetricsArgs;
use omega_cellstate::{CellHandle, HandleError, View};
use omega_client::{ErrorCode, LeaseSettings, RemoteCell};
use omega_core::TransactionError;
use omega_core::limits::{LEASE_MS_MAX, LEASE_MS_MIN};
use omega_schedulers::config::Profiles;
use omega_schedulers::{Clock, Nanos, Observer, Pool, Profile, Scheduler, Settings};
use omega_workload::profiles::{self, ProfileError};
use omega_workload::words::plural;
use panic_log::PanicLog;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Maximum number of unanswered transactions of one worker. Over a network, several unanswered transactions cost little
/// more time than one.
const COMMITS_IN_FLIGHT: usize = 4;

/// Place the jobs of one scheduler.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  omega scheduler --name web --workers 4\n  omega scheduler --name web --standby    # takes over when the first process ends"
)]
pub(crate) struct SchedulerArgs {
    #[command(flatten)]
    cell: CellArgs,
    /// Name of the scheduler, which places the jobs submitted with `--scheduler NAME`.
    #[arg(long, value_name = "NAME", default_value = "default")]
    name: String,
    /// Number of worker threads that share the jobs, from 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// File that contains a profile with the scheduler's name; docs/profiles.md describes the format [default: the
    /// built-in profile of batch jobs].
    #[arg(long, value_name = "FILE.toml")]
    profile: Option<PathBuf>,
    /// Time, at most 1s, by which a scheduler delays a commit if it has no other work, so that the commit can include
    /// jobs that arrive during the delay.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = crate::run::hold)]
    hold: Duration,
    /// If another process owns the name, wait until the name is free and take it over, instead of failing.
    #[arg(long)]
    standby: bool,
    /// Duration of the lease on the scheduler name, from 1s to 60s. A standby takes over if the lease is not renewed in
    /// this time.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = lease)]
    lease: Duration,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Parses the duration of a lease: a process that sends no message for this long loses its lease.
pub(crate) fn lease(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    let bounds = [LEASE_MS_MIN, LEASE_MS_MAX].map(|ms| Duration::from_millis(ms.into()));
    if (bounds[0]..=bounds[1]).contains(&time) {
        Ok(time)
    } else {
        Err(format!("{text} must be from {:?} to {:?}", bounds[0], bounds[1]))
    }
}

/// The monotonic clock.
struct Monotonic(Instant);

impl Clock for Monotonic {
    fn now(&self) -> Nanos {
        self.0.elapsed().as_nanos() as Nanos
    }
}

/// Places jobs until a signal arrives, or until another process owns the name.
pub(crate) fn run(args: &SchedulerArgs) -> Result<(), SchedulerError> {
    args.log.show();
    let profiles =
        args.profile.as_deref().map(profiles::read).transpose()?.map(|(_, profiles)| profiles);
    let settings = LeaseSettings { lease: args.lease, process: process_name() };
    let cell = RemoteCell::with_leases(&args.cell.address()?, settings)?;
    let figures = args.metrics.serve()?;
    let mut end = End::listen().map_err(SchedulerError::System)?;
    if !acquire_name((&args.name, args.standby), &cell, &mut end)? {
        return Ok(());
    }
    let schedulers = schedulers(args, profiles.as_ref(), &cell, figures.as_ref());
    // The leases are ended even after a panic, so that a standby takes over at once.
    let placed = catch_unwind(AssertUnwindSafe(|| match (schedulers?, figures) {
        (schedulers, None) => place(args, (&cell, unmeasured(schedulers)), &mut end),
        (schedulers, Some(figures)) => {
            place(args, (&cell, measured(schedulers, &figures)), &mut end)
        }
    }));
    if cell.lease_loss().is_none() {
        // If the cell does not answer, the leases expire.
        drop(cell.end_leases());
    }
    placed.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Leases the scheduler's name, and with it the names of its workers. Returns `false` if a signal arrives first.
pub(crate) fn acquire_name(
    (name, standby): (&str, bool),
    cell: &RemoteCell,
    end: &mut End,
) -> Result<bool, SchedulerError> {
    if !standby {
        return match cell.acquire(name) {
            Ok(_) => Ok(true),
            Err(why) if why.code == ErrorCode::LeaseHeld => Err(SchedulerError::Held(why)),
            Err(why) => Err(why.into()),
        };
    }
    let mut is_logged = false;
    let held = cell.stand_by(name, |why| {
        if !is_logged {
            // The process waits even if standard output cannot be written.
            drop(output::print(&format!("scheduler {name} stands by: {}\n", why.message)));
            is_logged = true;
        }
        if end.ended_within(RETRY_INTERVAL) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    Ok(held?.is_some())
}

fn unmeasured(schedulers: Vec<Scheduler>) -> Vec<(Scheduler, PanicLog)> {
    let with_log = |scheduler: Scheduler| {
        let name = scheduler.settings().name.clone();
        (scheduler, PanicLog(name))
    };
    schedulers.into_iter().map(with_log).collect()
}

fn measured(
    schedulers: Vec<Scheduler>,
    figures: &SchedulerFigures,
) -> Vec<(Scheduler, WorkerMeter)> {
    let with_meter = |scheduler: Scheduler| {
        let meter = figures.worker(&scheduler.settings().name);
        (scheduler, meter)
    };
    schedulers.into_iter().map(with_meter).collect()
}

fn place<O: Observer + Send>(
    args: &SchedulerArgs,
    (cell, schedulers): (&RemoteCell, Vec<(Scheduler, O)>),
    end: &mut End,
) -> Result<(), SchedulerError> {
    let workers = plural(args.workers.into(), "worker");
    output::print(&format!("scheduler {} places with {workers}\n", args.name))?;
    let clock = Monotonic(Instant::now());
    let workers = schedulers.len();
    let ended = std::thread::scope(|scope| {
        let pool = Pool::start(scope, cell, &clock, schedulers);
        // If one worker has ended, all are stopped: otherwise, the jobs of the ended worker would stay pending.
        while pool.running() == workers
            && cell.lease_loss().is_none()
            && !end.ended_within(CHECK_INTERVAL)
        {}
        pool.stop()
    });
    let error = ended.into_iter().find_map(|worker| worker.error);
    match (cell.lease_loss(), error) {
        (Some(why), _) => Err(SchedulerError::Lost(why)),
        (None, Some(HandleError::Refused(why @ TransactionError::Fenced(_)))) => {
            Err(SchedulerError::Lost((&why).into()))
        }
        (None, Some(error)) => Err(error.into()),
        (None, None) => Ok(()),
    }
}

fn schedulers(
    args: &SchedulerArgs,
    profiles: Option<&Profiles>,
    cell: &RemoteCell,
    figures: Option<&SchedulerFigures>,
) -> Result<Vec<Scheduler>, SchedulerError> {
    let mut all = Vec::new();
    for index in 0..args.workers {
        let mut settings = Settings::worker(&args.name, index, args.workers);
        settings.commits_in_flight = COMMITS_IN_FLIGHT;
        settings.hold = args.hold.as_nanos() as u64;
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
            profile = spec.bind(view.kinds()).map_err(|why| ProfileError::Content { file, why })?;
        }
        if let Some(figures) = figures {
            profile = profile.with_meter(figures.plugins.clone());
        }
        all.push(Scheduler::new(cell, profile, settings)?);
    }
    Ok(all)
}

/// Description of this process: the machine's name and the process id.
pub(crate) fn process_name() -> String {
    let machine = rustix::system::uname();
    format!("{}:{}", machine.nodename().to_string_lossy(), std::process::id())
}

/// Interval at which the scheduler checks whether it should end.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Interval at which a standby asks for the name.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Termination signals of this process. The arrival of a signal is recorded for later checks.
pub(crate) struct End {
    runtime: Runtime,
    signals: Signals,
    has_ended: bool,
}

impl End {
    pub(crate) fn listen() -> io::Result<End> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = runtime.block_on(async { Signals::listen() })?;
        Ok(End { runtime, signals, has_ended: false })
    }

    /// Whether a signal arrives within this time, or has arrived before.
    pub(crate) fn ended_within(&mut self, time: Duration) -> bool {
        let End { runtime, signals, has_ended } = self;
        if !*has_ended {
            let come = async { tokio::time::timeout(time, signals.end()).await.is_ok() };
            *has_ended = runtime.block_on(come);
        }
        *has_ended
    }
}
