//! `omega-sim capacity`: how many machines a workload needs, and how much more load a cell carries.

use super::SimError;
use super::folder::{prepare_report, write_report};
use super::how::{EndArgs, HowArgs, name};
use super::scaling::{share, thousandths, time};
use super::streams::stdout;
use crate::capacity::{
    Asked, CapacityReport, Finding, Objective, Of, Probe, Question, find, sentence,
};
use clap::{Args, ValueEnum};
use omega_core::JobKind;
use omega_core::limits::MACHINES_MAX;
use omega_workload::Workload;
use omega_workload::input::InputArgs;
use omega_workload::words::plural;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments: the workload, and the objectives.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  omega-sim capacity --synthetic 2000 --hours 4 --placed 99%\n  \
    omega-sim capacity --synthetic 2000 --find load --wait-p90 batch=30s --out capacity"
)]
pub struct CapacityArgs {
    #[command(flatten)]
    end: EndArgs,
    /// Quantity to search for [default: both, one after the other].
    #[arg(long, value_enum)]
    find: Option<Question>,
    /// Largest number of machines to try [default: ten times as many as in the input].
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..=MACHINES_MAX as u64))]
    machines_most: Option<u64>,
    /// Largest load to try, as a multiple of the load of the input.
    #[arg(long, value_name = "TIMES", allow_negative_numbers = true, default_value = "10",
          value_parser = thousandths)]
    load_most: u64,
    /// Precision of the answer, as a share of the answer.
    ///
    /// The search ends when the difference between a value that meets the objectives and a value that misses them is at
    /// most this share of the answer. With 0, the difference is one machine, or a thousandth of the load.
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, default_value = "1%",
          value_parser = share)]
    precision: f64,
    /// Folder for a report with plots: report.html, report.md, and each plot as SVG and PNG [default: no report].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "table")]
    output: OutputArg,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten, next_help_heading = "Schedulers")]
    how: HowArgs,
    #[command(flatten)]
    objectives: ObjectiveArgs,
}

/// Objectives, all of which must be met. Each flag except `--used` may be given several times.
#[derive(Debug, Args)]
#[command(next_help_heading = "Objectives")]
#[group(required = true, multiple = true)]
struct ObjectiveArgs {
    /// Half of the jobs wait at most this time until all of their tasks are placed.
    ///
    /// A job that is still pending at the end of the simulation counts with its wait until then.
    ///
    /// Examples: 30s (for all jobs), batch=30s, service=2m.
    #[arg(long, value_name = "[KIND=]TIME", allow_hyphen_values = true, value_parser = of_kind::<Time>)]
    wait_p50: Vec<OfKind<Time>>,
    /// Nine of ten jobs wait at most this time until all of their tasks are placed.
    #[arg(long, value_name = "[KIND=]TIME", allow_hyphen_values = true, value_parser = of_kind::<Time>)]
    wait_p90: Vec<OfKind<Time>>,
    /// 99 of 100 jobs wait at most this time until all of their tasks are placed.
    #[arg(long, value_name = "[KIND=]TIME", allow_hyphen_values = true, value_parser = of_kind::<Time>)]
    wait_p99: Vec<OfKind<Time>>,
    /// Half of the jobs have all of their tasks placed within this time of submission.
    ///
    /// A job that is still pending at the end of the simulation counts as never placed, however short its wait.
    ///
    /// Examples: 30s (for all jobs), batch=30s, service=2m.
    #[arg(long, value_name = "[KIND=]TIME", allow_hyphen_values = true, value_parser = of_kind::<Time>)]
    placed_p50: Vec<OfKind<Time>>,
    /// Nine of ten jobs have all of their tasks placed within this time of submission.
    #[arg(long, value_name = "[KIND=]TIME", allow_hyphen_values = true, value_parser = of_kind::<Time>)]
    placed_p90: Vec<OfKind<Time>>,
    /// 99 of 100 jobs have all of their tasks placed within this time of submission.
    #[arg(long, value_name = "[KIND=]TIME", allow_hyphen_values = true, value_parser = of_kind::<Time>)]
    placed_p99: Vec<OfKind<Time>>,
    /// At least this share of the jobs is placed completely. Examples: 99% (of all jobs), batch=99.9%.
    #[arg(long, value_name = "[KIND=]SHARE", allow_hyphen_values = true, value_parser = of_kind::<Share>)]
    placed: Vec<OfKind<Share>>,
    /// At most this share of the processors, and of the memory, is allocated on average, such as 80%.
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, value_parser = share)]
    used: Option<f64>,
}

/// Output format.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputArg {
    /// Text in columns, with a row as soon as a simulation is done.
    Table,
    /// JSON, at the end.
    Json,
}

/// A bound for the jobs of a kind, or for all.
#[derive(Clone, Copy, Debug)]
struct OfKind<T> {
    kind: Option<JobKind>,
    bound: T,
}

/// Seconds.
#[derive(Clone, Copy, Debug)]
struct Time(f64);

/// A share, from 0 to 1.
#[derive(Clone, Copy, Debug)]
struct Share(f64);

/// A bound that can be parsed from a text.
trait Bound: Sized {
    fn read(text: &str) -> Result<Self, String>;
}

impl Bound for Time {
    fn read(text: &str) -> Result<Time, String> {
        time(text).map(Time)
    }
}

impl Bound for Share {
    fn read(text: &str) -> Result<Share, String> {
        share(text).map(Share)
    }
}

fn of_kind<T: Bound>(text: &str) -> Result<OfKind<T>, String> {
    let (kind, bound) = match text.split_once('=') {
        None => (None, text),
        Some(("batch", bound)) => (Some(JobKind::Batch), bound),
        Some(("service", bound)) => (Some(JobKind::Service), bound),
        Some((kind, _)) => {
            return Err(format!("{kind:?} is not a kind of job: it must be batch or service"));
        }
    };
    Ok(OfKind { kind, bound: T::read(bound)? })
}

impl ObjectiveArgs {
    fn list(&self) -> Vec<Objective> {
        let times = [
            (Of::Wait, 50, &self.wait_p50),
            (Of::Wait, 90, &self.wait_p90),
            (Of::Wait, 99, &self.wait_p99),
            (Of::Placed, 50, &self.placed_p50),
            (Of::Placed, 90, &self.placed_p90),
            (Of::Placed, 99, &self.placed_p99),
        ];
        let time = |(of, percent, bounds): (Of, u8, &Vec<OfKind<Time>>)| {
            let one = |OfKind { kind, bound }: &OfKind<Time>| Objective::Times {
                of,
                kind: *kind,
                percent,
                most_s: bound.0,
            };
            bounds.iter().map(one).collect::<Vec<_>>()
        };
        let placed = |OfKind { kind, bound }: &OfKind<Share>| Objective::Placed {
            kind: *kind,
            least: bound.0,
        };
        let used = self.used.map(|most| Objective::Used { most });
        times.into_iter().flat_map(time).chain(self.placed.iter().map(placed)).chain(used).collect()
    }
}

pub(super) fn run(args: &CapacityArgs) -> Result<ExitCode, SimError> {
    let workload = args.input.load(args.how.seed)?;
    let settings = args.how.settings(args.end.seconds());
    let objectives = args.objectives.list();
    objectives.iter().try_for_each(|objective| check_jobs(&workload, objective))?;
    args.out.as_deref().map_or(Ok(()), prepare_report)?;
    let mut out = stdout();
    let mut report = report(args, &workload, &objectives);
    let is_table = matches!(args.output, OutputArg::Table);
    if is_table {
        let machines = plural(workload.machines.len() as u64, "machine");
        let (arch, seed) = (name(&args.how.arch), args.how.seed);
        writeln!(out, "{}: {machines}, {arch}, seed {seed}", workload.name)?;
        writeln!(out, "omega-sim {}", report.version)?;
        for objective in &report.objectives {
            writeln!(out, "must hold: {objective}")?;
        }
    }
    for question in questions(args.find) {
        let most = match question {
            Question::Machines => {
                let tenfold = (workload.machines.len() as u64 * 10).clamp(1, MACHINES_MAX as u64);
                args.machines_most.unwrap_or(tenfold)
            }
            Question::Load => args.load_most,
        };
        let asked =
            Asked { question, objectives: objectives.clone(), most, precision: args.precision };
        if is_table {
            head(&objectives, &mut out)?;
        }
        let finding = find(&workload, &settings, &asked, |probe| {
            if is_table { tell((question, probe), &objectives, &mut out) } else { Ok(()) }
        })?;
        if is_table {
            writeln!(out, "{}", sentence(&finding, workload.machines.len()))?;
        }
        report.findings.push(finding);
    }
    if let Some(dir) = &args.out {
        let page = write_report(dir, &report.page(&objectives))?;
        if is_table {
            writeln!(out, "\nreport: {}", page.display())?;
        }
    }
    match args.output {
        OutputArg::Json => {
            serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
        OutputArg::Table => {
            for note in &report.notes {
                writeln!(out, "note: {note}")?;
            }
        }
    }
    let answered = |finding: &Finding| finding.answer.holds.is_some();
    Ok(if report.findings.iter().all(answered) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks that a workload has jobs that an objective is about. Without jobs, every cell would meet the objective.
fn check_jobs(workload: &Workload, objective: &Objective) -> Result<(), SimError> {
    if workload.arrivals.iter().any(|arrival| objective.is_about(arrival.job.kind)) {
        return Ok(());
    }
    let words = objective.words();
    Err(SimError::Lacks(format!("the workload has no jobs for the objective \"{words}\"")))
}

fn questions(one: Option<Question>) -> Vec<Question> {
    one.map_or_else(|| Question::value_variants().to_vec(), |one| vec![one])
}

fn report(args: &CapacityArgs, workload: &Workload, objectives: &[Objective]) -> CapacityReport {
    CapacityReport {
        workload: workload.name.clone(),
        machines: workload.machines.len(),
        seed: args.how.seed,
        version: env!("CARGO_PKG_VERSION").into(),
        objectives: objectives.iter().map(Objective::words).collect(),
        findings: Vec::new(),
        notes: notes(workload),
    }
}

/// Notes on parts of a workload that are left out: the notes from reading the input, and a note on changes of machines
/// if there are any.
fn notes(workload: &Workload) -> Vec<String> {
    let mut notes = workload.notes.clone();
    let changes = workload.machine_events.len();
    if changes > 0 {
        notes.push(format!(
            "changes of machines are left out, because the number of machines is searched for: \
             {changes}"
        ));
    }
    notes
}

fn head(objectives: &[Objective], out: &mut impl Write) -> Result<(), SimError> {
    write!(out, "\n{:>9} {:>7} {:>9}", "machines", "load", "jobs")?;
    for objective in objectives {
        write!(out, " {:>18}", objective.name())?;
    }
    Ok(writeln!(out, "  holds")?)
}

fn tell(
    (question, probe): (Question, &Probe),
    objectives: &[Objective],
    out: &mut impl Write,
) -> Result<(), SimError> {
    let load = match question {
        Question::Machines => 1.0,
        Question::Load => probe.number as f64 / 1000.0,
    };
    write!(out, "{:>9} {load:>7.3} {:>9}", probe.machines, probe.jobs)?;
    for (objective, figure) in objectives.iter().zip(&probe.figures) {
        write!(out, " {:>18}", objective.show(*figure))?;
    }
    writeln!(out, "  {}", if probe.holds { "yes" } else { "no" })?;
    Ok(out.flush()?)
}
