//! `omega rebalance`: finds better machines for the tasks of a cell, and prints the gain of each move.
//!
//! The cell is read from a workload, a backup or a stopped replica, or it is a served cell. In the first three cases,
//! all moves are made on a copy in this process. A served cell is only read, unless `--apply` is given.

mod error;
mod roadef;
#[cfg(feature = "serve")]
mod served;
mod trail;
mod unknown;

use crate::duration::duration;
use crate::interrupt;
use crate::output::{self, OutputError};
use crate::run::{Error, HowArgs, prepare, with_bar};
use clap::{Args, ValueEnum};
pub(crate) use error::RebalanceError;
use omega_cellstate::Cell;
use omega_core::{JobKind, Kinds, Text};
use omega_reassign::{self as reassign, Budget, Watch};
use omega_run::report::rebalanced::{self, Detail, RebalanceReport};
use omega_run::{Carry, Moment, Pass, Stop, cell_of, rebalance_cell};
use omega_schedulers::disruption::DisruptionBudget;
use omega_schedulers::rebalance::{Annealing, Bounds, Objectives, Settings};
use omega_workload::input::InputArgs;
use omega_workload::objectives::{self, ObjectivesError, Overrides, Purpose};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use unknown::{KnownNames, unknown};

/// The cell, the objectives, and the limits on moves.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  omega rebalance --cluster cluster.json --for balance --moves 20\n  \
    omega rebalance --from cell.backup --for drain --drain m7\n  \
    omega rebalance --cell 10.0.0.1:7600 --for defragment --apply"
)]
#[command(mut_arg("cell", |cell| cell.hide(false).value_name("HOST:PORT").help(
    "Address of a served cell to rebalance. If the cell uses TLS, OMEGA_CA, OMEGA_CERT and OMEGA_KEY name the \
     certificate files")))]
pub(crate) struct RebalanceArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Rebalance the cell in a backup, or in the directory of a stopped replica.
    #[arg(long, value_name = "DIR|BACKUP", group = "source", help_heading = "Input")]
    from: Option<PathBuf>,
    /// Solve an instance of the machine reassignment contest (ROADEF/EURO 2012).
    ///
    /// Of the other options, only --time, --steps, --seed, --walks, --out, --trail and --quiet have an effect.
    #[arg(long, num_args = 2, value_names = ["MODEL", "ASSIGNMENT"], group = "source", help_heading = "Input")]
    roadef: Vec<PathBuf>,
    /// Only if --from is a directory: include log entries that are not known to be committed.
    #[arg(long, help_heading = "Input")]
    all: bool,
    /// Moment of a workload's run at which the cell is rebalanced; not for --cell, --from or --roadef.
    ///
    /// The default is `start` if the workload has tasks that run at the start, and `end` otherwise.
    #[arg(long, value_enum, value_name = "MOMENT", help_heading = "Input")]
    at: Option<MomentArg>,
    #[command(flatten)]
    pass: PassArgs,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MomentArg {
    /// Start of the run, with the tasks that run then.
    Start,
    /// End of the run.
    End,
    /// End of a run that ignores the run times of tasks, so that no task ends.
    EndOfAll,
}

/// Heading of options in the help.
const SEARCH: &str = "Search for the plan";

#[derive(Debug, Args)]
#[command(next_help_heading = "Objective and limits")]
struct PassArgs {
    /// Purpose, which sets the weights of the objective [default: the purpose in the file of --objectives; else drain
    /// if --drain is given; else balance].
    #[arg(long = "for", value_enum, value_name = "PURPOSE")]
    purpose: Option<Purpose>,
    /// Drain this machine; not for a served cell (use `omega machine drain`). May be repeated.
    #[arg(long, value_name = "MACHINE")]
    drain: Vec<String>,
    /// File with objectives; docs/rebalance.md describes it. Options on the command line override it.
    #[arg(long, value_name = "FILE.toml")]
    objectives: Option<PathBuf>,
    /// Safety levels of resource kinds in percent, such as cpu=70,memory=85.
    ///
    /// On each machine, the allocation above this level counts as a cost [default: the level in the file of
    /// --objectives, else 80].
    #[arg(long, value_name = "KIND=PERCENT,...", value_delimiter = ',', value_parser = pair)]
    safety: Vec<(String, u32)>,
    /// Weights of terms of the objective, such as load=10,moves=1 [default: the weights of the purpose].
    ///
    /// The terms are misplaced, load, load.KIND, balance, fragments, in-use, crowding, moves, job-moves and
    /// machine-moves; docs/rebalance.md describes them.
    #[arg(long, value_name = "TERM=N,...", value_delimiter = ',', value_parser = pair)]
    weight: Vec<(String, u32)>,
    /// Label whose values are the domains over which jobs are spread [default: each machine is a domain].
    #[arg(long, value_name = "LABEL")]
    level: Option<String>,
    /// Maximum number of tasks to move.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    moves: u32,
    /// Maximum number of moved tasks of each job [default: no limit].
    #[arg(long, value_name = "N")]
    moves_per_job: Option<u32>,
    /// Maximum number of waves. A wave is a set of moves that may run at the same time.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    waves: u32,
    /// Resource kinds that a moving task occupies on both machines until its move is done, such as memory,disk
    /// [default: none].
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    transient: Vec<String>,
    /// Move only tasks of jobs of this kind [default: both kinds].
    #[arg(long, value_enum, value_name = "KIND")]
    only: Option<OnlyArg>,
    /// Time limit of the search, such as 5m [default: 30s, or no limit with --steps].
    ///
    /// With --time or --roadef, the search uses simulated annealing. Otherwise, it uses a simpler method, and ends
    /// before the limit if it finds no better plan.
    #[arg(long, help_heading = SEARCH, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// Number of parallel annealing searches, each on a thread [default: one for each processor].
    #[arg(long, help_heading = SEARCH, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    walks: Option<u32>,
    /// Number of moves that each search examines [default: no limit].
    ///
    /// With --steps and without --time, equal seeds give the same plan on every computer. With --roadef, --walks must
    /// also be equal.
    #[arg(long, help_heading = SEARCH, value_name = "N")]
    steps: Option<u64>,
    /// Number of machines to compare for each task.
    ///
    /// Machines on which the task does not fit are not counted. For a misplaced task, all machines are compared.
    #[arg(long, help_heading = SEARCH, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    machines_each: u32,
}

impl PassArgs {
    /// Objectives that result from all options.
    fn read_objectives(&self, kinds: &Kinds) -> Result<Objectives, ObjectivesError> {
        let overrides = Overrides {
            purpose: self.purpose,
            default_purpose: (!self.drain.is_empty()).then_some(Purpose::Drain),
            weights: &self.weight,
            safety: &self.safety,
            level: self.level.as_deref(),
        };
        objectives::read(self.objectives.as_deref(), &overrides, kinds)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnlyArg {
    /// Services.
    Service,
    /// Batch jobs, whose tasks start again when they move.
    Batch,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Output format.
    #[arg(long, short, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Print all moves, and all misplaced tasks that stay.
    #[arg(long)]
    all_moves: bool,
    /// Write the report as JSON to this file; `-` is the same as `-o json`. docs/rebalance.md describes the fields.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the best assignment of --roadef to this file, in the format of the contest.
    #[arg(long, value_name = "FILE", requires = "roadef")]
    out: Option<PathBuf>,
    /// Write the lowest cost of --roadef over time to this file: as a plot if its name ends in .svg, or else as CSV.
    #[arg(long, value_name = "FILE", requires = "roadef")]
    trail: Option<PathBuf>,
    /// Apply the moves to the served cell of --cell [default: only print the plan].
    #[arg(long)]
    apply: bool,
    /// Show no progress.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text in columns, with units such as GiB.
    Table,
    /// JSON; docs/rebalance.md describes the fields.
    Json,
}

fn pair(text: &str) -> Result<(String, u32), String> {
    let (name, number) =
        text.split_once('=').ok_or_else(|| format!("{text:?} must be NAME=NUMBER"))?;
    let number = number.parse().map_err(|_| format!("{number:?} must be a whole number from 0"))?;
    Ok((name.to_owned(), number))
}

fn is_served(args: &RebalanceArgs) -> bool {
    args.input.served().is_some()
}

pub(crate) fn rebalance(args: &RebalanceArgs) -> Result<(), Error> {
    if args.output.apply && !is_served(args) {
        if std::env::var_os("OMEGA_CELL").is_some() {
            return Err(Error::Arguments(
                "--apply is only for --cell, and OMEGA_CELL is not used here: give the address with \
                 --cell",
            ));
        }
        return Err(Error::Arguments(
            "--apply is only for --cell: all other inputs are only read, so no move can be applied \
             to them",
        ));
    }
    if args.all && args.from.as_ref().is_none_or(|from| from.is_file()) {
        return Err(Error::Arguments(
            "--all is only for --from DIR, the directory of a stopped replica: a backup has no log \
             entries",
        ));
    }
    if args.at.is_some() && (is_served(args) || args.from.is_some() || !args.roadef.is_empty()) {
        return Err(Error::Arguments(
            "--at is only for a workload: a cell of --cell, --from or --roadef has no run",
        ));
    }
    if !args.roadef.is_empty() {
        return roadef::rebalance(args, &args.roadef);
    }
    let report = match (args.input.served(), &args.from) {
        (Some(_), Some(_)) => {
            return Err(Error::Arguments(
                "--cell and --from name two different cells: give only one of them",
            ));
        }
        (None, None) => of_workload(args)?,
        #[cfg(feature = "serve")]
        (Some(cell), None) => served::served(args, cell)?,
        #[cfg(feature = "serve")]
        (None, Some(from)) => served::from_backup(args, from)?,
        #[cfg(not(feature = "serve"))]
        _ => return Err(crate::served::Error::NotBuilt("a served cell or its files".into()).into()),
    };
    show(&args.output, &report)?;
    match report.applied.and_then(|applied| applied.failed) {
        None => Ok(()),
        Some(why) => Err(RebalanceError::CutOff { why }.into()),
    }
}

/// Rebalances the cell of a workload.
fn of_workload(args: &RebalanceArgs) -> Result<RebalanceReport, Error> {
    let outputs: Vec<&Path> = args.output.json.iter().map(PathBuf::as_path).collect();
    let (workload, options) = prepare((&args.input, &args.how), &outputs)?;
    let moment = match args.at {
        None => Moment::of(&workload),
        Some(MomentArg::Start) => Moment::Start,
        Some(MomentArg::End) => Moment::End,
        Some(MomentArg::EndOfAll) => Moment::EndOfAll,
    };
    let when = match moment {
        Moment::Start => "as it begins",
        Moment::End => "at its end",
        Moment::EndOfAll => "at its end, if no task ended",
    };
    let name = format!("{}, {when}", workload.name);
    let budgets = workload.budgets.clone();
    let settings = args.settings(&workload.kinds, budgets)?;
    let notes = workload.notes.clone();
    let cell = with_bar(args.output.quiet, workload, |workload, progress| {
        cell_of(workload, moment, &options, progress)
    })?;
    let mut report = tried(args, cell, name, settings)?;
    report.notes.splice(0..0, notes);
    Ok(report)
}

/// Makes a plan on a copy in this process, and makes all moves there.
fn tried(
    args: &RebalanceArgs,
    cell: Cell,
    name: String,
    settings: Settings,
) -> Result<RebalanceReport, Error> {
    let clock = args.clock()?;
    let drain = args.pass.drain.clone();
    let annealing = args.annealing(&clock);
    let mut go_on = || clock.spent_of(ALL) < 1.0;
    let unknown = unknown(&settings.objectives, &KnownNames::of_cell(&cell));
    let pass = Pass { settings, drain, annealing, go_on: &mut go_on, carry: Carry::OnCopy };
    let mut report = rebalance_cell(cell, name, pass).map_err(RebalanceError::Run)?;
    report.notes.extend(unknown);
    Ok(report)
}

/// Default time limit of a search.
const TIME: Duration = Duration::from_secs(30);

/// Fraction of the time limit after which annealing ends.
const ANNEALING: f64 = 0.8;
/// Fraction of the time limit after which the whole search ends.
const ALL: f64 = 1.0;

/// Clock of a search. Ctrl-C sets it to the end.
struct Clock {
    start: Instant,
    /// Time limit of the search; `None` if only the number of steps ends the search.
    limit: Option<Duration>,
    stop: Stop,
}

impl Clock {
    /// Elapsed time as a fraction of `part` of the time limit. It is 1 after Ctrl-C, and 0 without a limit.
    fn spent_of(&self, part: f64) -> f64 {
        if self.stop.is_requested() {
            return 1.0;
        }
        self.limit.map_or(0.0, |limit| {
            self.start.elapsed().as_secs_f64() / (limit.as_secs_f64() * part).max(1e-9)
        })
    }
}

impl Watch for Clock {
    fn spent(&self) -> f64 {
        self.spent_of(ANNEALING)
    }
}

/// The name under which a rebalancer commits.
const NAME: &str = "rebalance";

fn show(output: &OutputArgs, report: &RebalanceReport) -> Result<(), OutputError> {
    let detail = if output.all_moves { Detail::All } else { Detail::Short };
    let json = rebalanced::json(report);
    let shown = match output.output {
        Format::Table => rebalanced::render(report, detail),
        Format::Json => json.clone(),
    };
    output::show(&shown, output.json.as_deref().map(|file| (file, json.as_str())))
}

impl PassArgs {
    /// Time limit of a search; `None` if only its steps limit the search, so that it gives the same plan on any
    /// machine.
    fn limit(&self) -> Option<Duration> {
        self.time.or_else(|| self.steps.is_none().then_some(TIME))
    }
}

impl RebalanceArgs {
    /// A clock that starts now.
    fn clock(&self) -> Result<Clock, Error> {
        let stop = interrupt::listen()?;
        Ok(Clock { start: Instant::now(), limit: self.pass.limit(), stop })
    }

    /// Parameters of annealing; `None` if no time was given for it.
    fn annealing<'a>(&self, clock: &'a Clock) -> Option<Annealing<'a>> {
        self.pass.time?;
        let settings = reassign::Settings {
            seed: self.how.seed(),
            walks: self.walks(),
            budget: self.pass.steps.map_or(Budget::Watched, Budget::Steps),
        };
        Some(Annealing { settings, watch: clock })
    }

    /// Number of concurrent annealing walks: as many as the user gives, or one for each processor.
    fn walks(&self) -> usize {
        let all = || thread::available_parallelism().map_or(1, NonZero::get);
        self.pass.walks.map_or_else(all, |walks| walks as usize)
    }

    fn settings(
        &self,
        kinds: &Kinds,
        disruptions: Vec<DisruptionBudget>,
    ) -> Result<Settings, RebalanceError> {
        let pass = &self.pass;
        let bounds = Bounds {
            moves: pass.moves as usize,
            moves_per_job: pass.moves_per_job.unwrap_or(u32::MAX),
            waves: pass.waves as usize,
            steps: pass.steps.unwrap_or(u64::MAX),
        };
        let transient =
            pass.transient.iter().map(|name| objectives::kind(kinds, "--transient", name));
        let only = pass.only.map(|only| match only {
            OnlyArg::Service => JobKind::Service,
            OnlyArg::Batch => JobKind::Batch,
        });
        Ok(Settings {
            name: Text::from(NAME),
            bounds,
            disruptions,
            transient: transient.collect::<Result<_, _>>()?,
            only,
            machines_each: pass.machines_each as usize,
            seed: self.how.seed(),
            ..Settings::new(pass.read_objectives(kinds)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        pass: PassArgs,
    }

    #[test]
    fn steps_need_no_time() {
        let limit = |more: &[&str]| {
            let line = Line::try_parse_from([&["rebalance"], more].concat());
            line.unwrap_or_else(|why| panic!("{why}")).pass.limit()
        };
        assert_eq!(limit(&[]), Some(TIME));
        assert_eq!(limit(&["--steps", "10"]), None);
        assert_eq!(limit(&["--steps", "10", "--time", "5m"]), Some(Duration::from_secs(300)));
    }
}
