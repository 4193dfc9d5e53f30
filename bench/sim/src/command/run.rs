//! `omega-sim run`: simulates a workload on Omega's own cell, with one of the scheduler architectures.

use super::SimError;
use super::how::{EndArgs, HowArgs, name};
use super::streams::stdout;
use crate::front::{CELLS_MAX, Front, OneOf};
use crate::scenario::{
    Report, SchedulerReport, TenantReport, Waits, default_end_s, simulate_stream,
};
use crate::sheet::{Cell, Output, Sheet};
use clap::{Args, ValueEnum};
use omega_workload::input::InputArgs;
use omega_workload::reopened::Reopened;
use omega_workload::stream::{Event, Stream};
use omega_workload::words::plural;
use std::io::Write;
use std::process::ExitCode;

/// Options of a simulated run.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  omega-sim run --arch omega --batch 4 --synthetic 2000 --hours 4\n  \
    omega-sim run --arch mesos --t-job-service 30 --trace omega-sim --data data"
)]
pub struct RunArgs {
    #[command(flatten)]
    end: EndArgs,
    /// Divide the machines into N cells, each with its own schedulers
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Several cells",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(CELLS_MAX)))]
    cells: u32,
    /// Rule that chooses the cell of each job if there are several cells
    #[arg(long, value_enum, default_value = "emptiest", help_heading = "Several cells")]
    front: Front,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "table")]
    output: OutputArg,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten, next_help_heading = "Schedulers")]
    how: HowArgs,
}

/// Output format.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputArg {
    /// Text in columns.
    Table,
    /// JSON.
    Json,
}

pub(super) fn run(args: &RunArgs) -> Result<ExitCode, SimError> {
    let input = Reopened::new(&args.input, args.how.seed)?;
    if args.cells > 1 {
        return several(args, &input);
    }
    let open = || Ok::<_, SimError>(input.open()?);
    let outcome = simulate_stream(open, &args.how.settings(args.end.seconds()))?;
    let mut out = stdout();
    match args.output {
        OutputArg::Json => {
            serde_json::to_writer_pretty(&mut out, &outcome.report)
                .map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
        OutputArg::Table => tell(&outcome.report, &mut out)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Simulates each of several cells, and prints a row for each and for all.
fn several(args: &RunArgs, input: &Reopened<'_>) -> Result<ExitCode, SimError> {
    let open = || Ok::<_, SimError>(input.open()?);
    let machines = open()?.head().machines.len();
    if machines < args.cells as usize {
        return Err(SimError::Lacks(format!(
            "{} cannot be divided into {} cells: --cells must be at most the number of machines",
            plural(machines as u64, "machine"),
            args.cells
        )));
    }
    let end_s = match args.end.seconds() {
        Some(seconds) => seconds,
        None => default_end_of(&mut *open()?)?,
    };
    let mut reports = Vec::new();
    for number in 0..args.cells {
        let part = || Ok::<_, SimError>(OneOf::new(open()?, (args.cells, args.front), number));
        let cpu = part()?.cpu_millis() as f64;
        let boxed = || Ok::<Box<dyn Stream>, SimError>(Box::new(part()?));
        let outcome = simulate_stream(boxed, &args.how.settings(Some(end_s)))?;
        reports.push((cpu, outcome.report));
    }
    let mut out = stdout();
    match args.output {
        OutputArg::Json => {
            let reports: Vec<&Report> = reports.iter().map(|(_, report)| report).collect();
            serde_json::to_writer_pretty(&mut out, &reports).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
        OutputArg::Table => write!(out, "{}", by_cell(&reports).print(Output::Table))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// End of a run of a workload, in seconds, if none is set.
fn default_end_of(stream: &mut dyn Stream) -> Result<f64, SimError> {
    let mut last_ms = 0;
    while let Some(event) = stream.next_event()? {
        if let Event::Job(job) = event {
            last_ms = job.arrival.at_ms;
        }
    }
    Ok(default_end_s(last_ms))
}

/// Makes a row for each cell, and one for all cells. The last row has sums, and means that are weighted by processors
/// or by placed jobs.
fn by_cell(reports: &[(f64, Report)]) -> Sheet {
    let columns =
        ["cell", "machines", "jobs", "whole %", "tasks", "cpu %", "memory %", "placed mean s"];
    let mut sheet = Sheet::new(&columns);
    let mut sums = CellSums::default();
    for (number, (cpu, report)) in reports.iter().enumerate() {
        let own = CellSums::of(*cpu, report);
        sheet.push(own.row(number.to_string()));
        sums.add(&own);
    }
    sheet.push(sums.row("all".to_owned()));
    sheet
}

/// Sums over the schedulers of all cells, for jobs that arrive after the start.
#[derive(Clone, Copy, Debug, Default)]
struct CellSums {
    machines: u64,
    jobs: u64,
    whole: u64,
    tasks: u64,
    /// Seconds from submission to placement, summed over the completely placed jobs.
    placed_s: f64,
    cpu: f64,
    cpu_used: f64,
    memory_used: f64,
}

impl CellSums {
    fn of(cpu: f64, report: &Report) -> CellSums {
        let sum = |of: fn(&SchedulerReport) -> u64| report.schedulers.iter().map(of).sum::<u64>();
        let placed = |one: &SchedulerReport| one.placed.mean_s * one.jobs_placed as f64;
        CellSums {
            machines: report.machines as u64,
            jobs: sum(|one| one.jobs),
            whole: sum(|one| one.jobs_placed),
            tasks: sum(|one| one.tasks_placed),
            placed_s: report.schedulers.iter().map(placed).sum(),
            cpu,
            cpu_used: report.cpu_used * cpu,
            memory_used: report.memory_used * cpu,
        }
    }

    fn add(&mut self, other: &CellSums) {
        self.machines += other.machines;
        self.jobs += other.jobs;
        self.whole += other.whole;
        self.tasks += other.tasks;
        self.placed_s += other.placed_s;
        self.cpu += other.cpu;
        self.cpu_used += other.cpu_used;
        self.memory_used += other.memory_used;
    }

    fn row(&self, name: String) -> Vec<Cell> {
        let whole = self.whole as f64 / (self.jobs as f64).max(1.0);
        let cpu = self.cpu.max(1.0);
        vec![
            Cell::Text(name),
            Cell::Count(self.machines),
            Cell::Count(self.jobs),
            percent(whole),
            Cell::Count(self.tasks),
            percent(self.cpu_used / cpu),
            percent(self.memory_used / cpu),
            Cell::Number(self.placed_s / (self.whole as f64).max(1.0), 2),
        ]
    }
}

fn tell(report: &Report, out: &mut impl Write) -> Result<(), SimError> {
    let Report { workload, seconds, .. } = report;
    let machines = plural(report.machines as u64, "machine");
    let arch = name(&report.architecture);
    let (seed, version, hash) = (report.seed, &report.version, &report.state_hash);
    writeln!(out, "{workload}: {machines}, {seconds:.0} s, {arch}, seed {seed}")?;
    writeln!(out, "omega-sim {version}, state at the end {hash}")?;
    let sum = |of: fn(&SchedulerReport) -> u64| report.schedulers.iter().map(of).sum::<u64>();
    let (tasks, whole, jobs) =
        (sum(|one| one.tasks_placed), sum(|one| one.jobs_placed), sum(|one| one.jobs));
    let rate = tasks as f64 / seconds.max(f64::MIN_POSITIVE);
    let start = report.jobs_at_start;
    writeln!(
        out,
        "placed: {}, {rate:.2} in a second; {whole} of {} whole; before the clock ran: {}",
        plural(tasks, "task"),
        plural(jobs, "job"),
        plural(start as u64, "job"),
    )?;
    let (cpu, memory, locked) = (report.cpu_used, report.memory_used, report.cpu_locked);
    writeln!(out, "used: {:.1} % of cpu, {:.1} % of memory", cpu * 100.0, memory * 100.0)?;
    if !report.fragmented.is_empty() {
        let of = |(kind, share): (&String, &f64)| format!("{:.1} % of {kind}", share * 100.0);
        let all: Vec<String> = report.fragmented.iter().map(of).collect();
        writeln!(out, "free at the end, and fragmented: {}", all.join(", "))?;
    }
    if locked > 0.0 {
        writeln!(out, "locked in offers: {:.1} % of cpu", locked * 100.0)?;
    }
    if report.lost > 0 {
        let lost = plural(report.lost, "task");
        writeln!(out, "lost with their machines, and to be placed again: {lost}")?;
    }
    write!(out, "\n{}", by_scheduler(&report.schedulers).print(Output::Table))?;
    if report.tenants.len() > 1 {
        write!(out, "\n{}", by_tenant(&report.tenants).print(Output::Table))?;
    }
    if let Some(more) = report.tenants.len().checked_sub(TENANTS_SHOWN).filter(|more| *more > 0) {
        writeln!(out, "and {} with less", plural(more as u64, "tenant"))?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

fn percent(share: f64) -> Cell {
    Cell::Number(share * 100.0, 2)
}

fn by_scheduler(schedulers: &[SchedulerReport]) -> Sheet {
    let mut columns = vec![
        "scheduler",
        "jobs",
        "tasks",
        "busy %",
        "wasted %",
        "commits",
        "conflicts %",
        "no room",
        "given up",
        "in queue",
    ];
    columns.extend(TIMES);
    let mut sheet = Sheet::new(&columns);
    for one in schedulers {
        let mut row = vec![
            one.name.as_str().into(),
            Cell::Count(one.jobs),
            Cell::Count(one.tasks_placed),
            percent(one.busy),
            percent(one.wasted),
            Cell::Count(one.succeeded),
            one.conflict_fraction.map_or(Cell::None, percent),
            Cell::Count(one.no_room),
            Cell::Count(one.abandoned),
            Cell::Count(one.left_in_queue),
        ];
        let known = |jobs: u64, waits: Waits| (jobs > 0).then_some(waits);
        row.extend(times([known(one.jobs_tried, one.wait), known(one.jobs_placed, one.placed)]));
        sheet.push(row);
    }
    sheet
}

/// Maximum number of tenants in a table; JSON has all tenants.
const TENANTS_SHOWN: usize = 10;

fn by_tenant(tenants: &[TenantReport]) -> Sheet {
    let mut columns = vec!["tenant", "jobs", "tasks", "waiting", "share %", "peak %"];
    columns.extend(TIMES);
    let prefers = tenants.iter().any(|one| one.preferences_met.is_some());
    columns.extend(prefers.then_some("preferred %"));
    let mut sheet = Sheet::new(&columns);
    for one in tenants.iter().take(TENANTS_SHOWN) {
        let mut row = vec![
            one.name.as_str().into(),
            Cell::Count(one.jobs),
            Cell::Count(one.tasks),
            Cell::Count(one.tasks_waiting),
            percent(one.share_mean),
            percent(one.share_peak),
        ];
        row.extend(times([one.wait, one.placed]));
        row.extend(prefers.then(|| one.preferences_met.map_or(Cell::None, percent)));
        sheet.push(row);
    }
    sheet
}

/// Percentiles of the wait until the first attempt, and until the placement of all tasks.
const TIMES: [&str; 6] = ["wait p50 s", "p90 s", "p99 s", "placed p50 s", "p90 s", "p99 s"];

/// Values of the columns [`TIMES`]; empty if there are no waits.
fn times(waits: [Option<Waits>; 2]) -> impl Iterator<Item = Cell> {
    waits.into_iter().flat_map(|waits| {
        let percentiles = waits.map(|waits| [waits.p50_s, waits.p90_s, waits.p99_s]);
        let cell = |i: usize| percentiles.map_or(Cell::None, |all| Cell::Number(all[i], 3));
        [0, 1, 2].map(cell)
    })
}
