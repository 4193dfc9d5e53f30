//! `omega run`: the workload, the settings of the run, and the outputs.

use crate::duration::duration;
use crate::interrupt;
use crate::output::{self, OutputError};
use crate::progress::Bar;
use clap::{Args, ValueEnum};
use omega_core::{ConflictCheck, Granularity, Kinds};
use omega_run::backend::DurableBackend;
use omega_run::report::{self, RunReport};
use omega_run::{
    Evict, Pace, PlacedFile, Progress, Rebalancing, RunError, RunOptions, Stop, Workers,
};
use omega_schedulers::Search;
use omega_schedulers::config::Profiles;
use omega_workload::Workload;
use omega_workload::input::{InputArgs, InputError};
use omega_workload::objectives::{self, ObjectivesError, Overrides};
use omega_workload::profiles::{self, ProfileError};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Input of a run, and its options. Without an input, the run uses a synthetic cell and a day of jobs that follow the
/// published statistics of a large cluster.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  omega run --synthetic 2000 --hours 4 --report report.html\n  \
    omega run --trace openb --data data --batch 4"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    rebalancing: RebalancingArgs,
    #[command(flatten)]
    kept: KeptArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Rebalancing during the run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Rebalancing")]
struct RebalancingArgs {
    /// Interval, in the workload's time, at which up to 1,000 running tasks move to better machines [default: tasks do
    /// not move].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = interval)]
    rebalance_every: Option<Duration>,
    /// File with the objectives of the moves; docs/rebalance.md describes it [default: the purpose balance].
    #[arg(long, value_name = "FILE.toml", requires = "rebalance_every")]
    objectives: Option<PathBuf>,
}

impl RebalancingArgs {
    fn options(&self, kinds: &Kinds) -> Result<Option<Rebalancing>, ObjectivesError> {
        let Some(every) = self.rebalance_every else { return Ok(None) };
        let file = self.objectives.as_deref();
        let objectives = objectives::read(file, &Overrides::default(), kinds)?;
        Ok(Some(Rebalancing { every_ms: every.as_millis() as u64, objectives }))
    }
}

/// Storage of the cell. By default, memory.
#[derive(Debug, Args)]
#[command(next_help_heading = "Durability", group = clap::ArgGroup::new("kept").multiple(true))]
struct KeptArgs {
    /// Keep the cell in this folder, which must be empty or not exist (see docs/durability.md) [default: keep it in
    /// memory].
    #[arg(long, value_name = "DIR", group = "kept", conflicts_with = "deterministic")]
    dir: Option<PathBuf>,
    /// Keep the cell on this number of replicas within this process, from 1 to 7, in folders below --dir or in a
    /// temporary folder.
    #[arg(long, value_name = "N", allow_negative_numbers = true, group = "kept",
          conflicts_with = "deterministic", value_parser = clap::value_parser!(u32).range(1..=7))]
    replicas: Option<u32>,
    /// Log engine of each replica; for --dir and --replicas.
    #[arg(long, value_enum, requires = "kept", default_value_t = EngineArg::Segment)]
    engine: EngineArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EngineArg {
    /// Segment files, with the fastest commits.
    Segment,
    /// RocksDB, in a program built with the feature rocksdb.
    #[value(name = "rocksdb")]
    RocksDb,
}

impl KeptArgs {
    /// The storage of the cell; `None` for a cell in memory. Fails if this storage is not available.
    #[cfg(feature = "serve")]
    fn backend(&self) -> Result<Option<Arc<dyn DurableBackend>>, Error> {
        use omega_run::replicas::Durability;
        use omega_store::directory::EngineKind;
        if self.dir.is_none() && self.replicas.is_none() {
            return Ok(None);
        }
        let durability = Durability {
            dir: self.dir.clone(),
            replicas: self.replicas.unwrap_or(1),
            engine: match self.engine {
                EngineArg::Segment => EngineKind::Segment,
                EngineArg::RocksDb => EngineKind::RocksDb,
            },
        };
        durability.check().map_err(crate::served::Error::from)?;
        Ok(Some(Arc::new(durability)))
    }

    #[cfg(not(feature = "serve"))]
    fn backend(&self) -> Result<Option<Arc<dyn DurableBackend>>, Error> {
        if self.dir.is_none() && self.replicas.is_none() {
            Ok(None)
        } else {
            Err(crate::served::Error::NotBuilt("a cell on disk".to_owned()).into())
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Run options")]
pub(crate) struct HowArgs {
    /// Number of schedulers for services, from 1 to 64.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    service: u32,
    /// Number of schedulers for batch jobs, from 1 to 64; each takes a share of the jobs.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    batch: u32,
    /// Maximum number of claims in a transaction.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    claims: u32,
    /// Time, at most 1s, by which a scheduler delays a commit if it has no other work, so that the commit can include
    /// jobs that arrive during the delay.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "0ms",
          value_parser = hold)]
    hold: Duration,
    /// File with the schedulers' profiles; docs/profiles.md describes it [default: the built-in profiles].
    #[arg(long, value_name = "FILE.toml")]
    profile: Option<PathBuf>,
    /// Let tasks that find no machine preempt tasks of lower precedence, even if the profile has no preemption plugin.
    #[arg(long)]
    evict: bool,
    /// Machines that a scheduler examines for a task [default: the search of the profile, or adaptive].
    #[arg(long, value_enum)]
    search: Option<SearchArg>,
    /// Reject a whole transaction if any of its claims conflicts [default: commit the other claims].
    #[arg(long)]
    all_or_nothing: bool,
    /// Reject a claim if its machine has changed in any way since the scheduler's last sync [default: reject a claim
    /// only if it no longer fits].
    #[arg(long)]
    sequence_check: bool,
    /// Speed of the run: seconds of the workload per second of real time [default: as fast as possible].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = speed, conflicts_with = "deterministic")]
    speed: Option<f64>,
    /// Run all schedulers in turn on one thread, so that equal seeds give equal results.
    #[arg(long)]
    deterministic: bool,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SearchArg {
    /// All machines of a small cell, or a sample of the machines of a large cell.
    Adaptive,
    /// All machines.
    Full,
    /// Machines in order, beginning at a random one, until 64 machines that fit are found.
    Sampled,
    /// Like `sampled`, but without groups of machines in which no machine has enough room.
    Indexed,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Write the result as JSON to this file; `-` writes it to standard output, instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the result to this file as a web page with plots and a heat map.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write a row for each placement or move to this file as CSV: time, job, task and machine. `-` writes the rows to
    /// standard output, instead of the table.
    #[arg(long, value_name = "FILE.csv")]
    placed: Option<PathBuf>,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Parses the time for which a transaction is kept open. The maximum is a second, because a longer wait would cost jobs
/// more time than it saves.
pub(crate) fn hold(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time > Duration::from_secs(1) { Err(format!("{text} must be at most 1s")) } else { Ok(time) }
}

/// Parses the interval of rebalancing, which counts in whole milliseconds.
fn interval(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.as_millis() == 0 { Err(format!("{text} must be at least 1ms")) } else { Ok(time) }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        _ => Err("must be a number above 0, such as 1 or 60".to_owned()),
    }
}

/// Error of `omega run`, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Arguments(&'static str),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Input(InputError),
    #[error(
        "there is no job {job:?} in {input}: leave out the name to explain one job for each reason \
         why tasks are pending{}", of_served_cell(.job, .input)
    )]
    NoJob { job: String, input: String },
    #[error("{input}: {why}")]
    Run { input: String, why: RunError },
    #[error(transparent)]
    Placed(RunError),
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("interrupted: the result covers only what was done until then")]
    Interrupted,
    #[error(transparent)]
    Objectives(#[from] ObjectivesError),
    #[error(transparent)]
    Rebalance(#[from] crate::rebalance::RebalanceError),
    #[error(transparent)]
    Served(Box<crate::served::Error>),
}

/// The command for a job of a served cell, if no input was given; empty in a build without this command.
fn of_served_cell(job: &str, input: &str) -> String {
    if cfg!(feature = "serve") && input.starts_with("synthetic") {
        format!("; for a served cell: `omega job explain {}`", omega_core::text::shown(job))
    } else {
        String::new()
    }
}

impl From<InputError> for Error {
    fn from(error: InputError) -> Error {
        match error {
            InputError::Arguments(why) => Error::Arguments(why),
            error => Error::Input(error),
        }
    }
}

impl From<crate::served::Error> for Error {
    fn from(error: crate::served::Error) -> Error {
        Error::Served(Box::new(error))
    }
}

impl Error {
    /// The exit code: the code of bad input, unless a served cell rejects the request or does not answer.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::Rebalance(error) => error.exit_code(),
            Error::Served(error) => error.exit_code(),
            Error::Interrupted => interrupt::INTERRUPTED,
            _ => crate::BAD_INPUT,
        }
    }
}

pub(crate) fn run(args: &RunArgs) -> Result<(), Error> {
    let backend = args.kept.backend()?;
    let (workload, mut options) = prepare((&args.input, &args.how), &args.output.files())?;
    options.rebalancing = args.rebalancing.options(&workload.kinds)?;
    options.backend = backend;
    options.placed = args.output.placed();
    options.stop = interrupt::listen()?;
    let result = with_bar(args.output.is_quiet(), workload, |workload, progress| {
        omega_run::run(workload, &options, progress)
    })?;
    show(&args.output, &result)?;
    if result.interrupted { Err(Error::Interrupted) } else { Ok(()) }
}

/// Prepares a run: checks its input, and the files for its results.
pub(crate) fn prepare(
    (input, how): (&InputArgs, &HowArgs),
    outputs: &[&Path],
) -> Result<(Workload, RunOptions), Error> {
    input.check()?;
    output::check(outputs, &[input.files(), how.files()].concat())?;
    let options = options(how)?;
    let workload = input.load(how.seed)?;
    if let Some(file) = &how.profile {
        profiles::check(file, &options.profiles, &workload.kinds)?;
    }
    Ok((workload, options))
}

/// Runs a workload and shows its progress with a bar.
pub(crate) fn with_bar<T>(
    quiet: bool,
    workload: Workload,
    run: impl FnOnce(Workload, &mut dyn FnMut(Progress)) -> Result<T, RunError>,
) -> Result<T, Error> {
    let input = workload.name.clone();
    let bar = Bar::new(quiet);
    let result = run(workload, &mut |progress| bar.show(progress));
    bar.clear();
    result.map_err(|why| match why {
        RunError::Placed { .. } => Error::Placed(why),
        why => Error::Run { input, why },
    })
}

fn show(output: &OutputArgs, result: &RunReport) -> Result<(), OutputError> {
    let json = output.json.as_deref().map(|file| (file, report::json(result)));
    let data = json.as_ref().map(|(file, text)| (*file, text.as_str()));
    match data {
        _ if !output.has_rows_on_stdout() => output::show(&report::table::render(result), data)?,
        Some((file, text)) => output::write(file, text)?,
        None => {}
    }
    if let Some(file) = &output.report {
        output::write(file, &report::page::render(result))?;
    }
    Ok(())
}

impl OutputArgs {
    fn files(&self) -> Vec<&Path> {
        let files = [&self.json, &self.report, &self.placed];
        files.into_iter().flatten().map(PathBuf::as_path).collect()
    }

    /// The output of the placements.
    fn placed(&self) -> Option<PlacedFile> {
        let file = self.placed.as_deref()?;
        let is_stdout = output::is_stdout(file);
        Some(if is_stdout { PlacedFile::Stdout } else { PlacedFile::Path(file.to_owned()) })
    }

    fn has_rows_on_stdout(&self) -> bool {
        self.placed.as_deref().is_some_and(output::is_stdout)
    }

    /// Whether no progress is shown. On a terminal, it would be mixed with the rows of placements.
    fn is_quiet(&self) -> bool {
        self.quiet || (self.has_rows_on_stdout() && io::stdout().is_terminal())
    }
}

impl HowArgs {
    /// The file of profiles.
    #[cfg(feature = "serve")]
    pub(crate) fn profile(&self) -> Option<&Path> {
        self.profile.as_deref()
    }

    /// Seed of all random choices.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    fn files(&self) -> Vec<&Path> {
        self.profile.iter().map(PathBuf::as_path).collect()
    }
}

fn options(how: &HowArgs) -> Result<RunOptions, ProfileError> {
    Ok(RunOptions {
        service_schedulers: how.service,
        batch_schedulers: how.batch,
        claims_max: how.claims as usize,
        hold: how.hold.as_nanos() as u64,
        granularity: if how.all_or_nothing {
            Granularity::AllOrNothing
        } else {
            Granularity::Incremental
        },
        check: if how.sequence_check {
            ConflictCheck::SequenceNumber
        } else {
            ConflictCheck::ResourceFit
        },
        search: how.search.map(|search| match search {
            SearchArg::Adaptive => Search::Adaptive,
            SearchArg::Full => Search::Full,
            SearchArg::Sampled => Search::Sampled { feasible: 64 },
            SearchArg::Indexed => Search::Indexed { feasible: 64 },
        }),
        setup: Vec::new(),
        rebalancing: None,
        placed: None,
        profiles: how.profile.as_deref().map_or(Ok(Profiles::default()), profiles::load)?,
        evict: if how.evict { Evict::Always } else { Evict::AsProfilesSay },
        pace: how.speed.map_or(Pace::Fastest, Pace::Speed),
        workers: if how.deterministic { Workers::LockStep } else { Workers::Threads },
        seed: how.seed,
        stop: Stop::default(),
        backend: None,
    })
}
