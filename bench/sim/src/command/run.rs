//! `omega sim run`: a workload on the shipped cell under an architecture.

use super::SimError;
use super::how::{EndArgs, HowArgs, name};
use crate::input::InputArgs;
use crate::scenario::{Report, SchedulerReport, TenantReport, simulate_stream};
use clap::{Args, ValueEnum};
use std::io::Write;
use std::process::ExitCode;

/// What is simulated.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  omega sim run --arch omega --batch 4 --synthetic 2000 --hours 4\n  \
    omega sim run --arch mesos --t-job-service 30 --trace omega-sim --data data -o json"
)]
pub struct RunArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    how: HowArgs,
    #[command(flatten)]
    end: EndArgs,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: OutputArg,
}

/// How it is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputArg {
    /// For people.
    Table,
    /// For programs.
    Json,
}

pub(super) fn run(args: &RunArgs) -> Result<ExitCode, SimError> {
    let open = || Ok::<_, SimError>(args.input.open(args.how.seed)?);
    let outcome = simulate_stream(open, &args.how.settings(args.end.seconds()))?;
    let mut out = std::io::stdout().lock();
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

fn tell(report: &Report, out: &mut impl Write) -> Result<(), SimError> {
    let Report { workload, machines, seconds, .. } = report;
    let arch = name(&report.architecture);
    let (seed, version, hash) = (report.seed, &report.version, &report.state_hash);
    writeln!(out, "{workload}: {machines} machines, {seconds:.0} s, {arch}, seed {seed}")?;
    writeln!(out, "omega-sim {version}, state at the end {hash}")?;
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
        writeln!(out, "lost with their machines, and to be placed again: {} tasks", report.lost)?;
    }
    writeln!(out, "placed before the clock ran: {} jobs\n", report.jobs_at_start)?;
    writeln!(
        out,
        "{:<12} {:>7} {:>7} {:>7} {:>7} {:>7} {:>9} {:>8} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9}",
        "scheduler",
        "jobs",
        "busy",
        "useful",
        "wasted",
        "tx",
        "conflicts",
        "no_room",
        "abandoned",
        "left",
        "wait_mean",
        "wait_p50",
        "wait_p90",
        "wait_p99"
    )?;
    for SchedulerReport {
        name,
        jobs,
        busy,
        useful,
        wasted,
        succeeded,
        conflict_fraction,
        no_room,
        abandoned,
        left_in_queue,
        wait,
        ..
    } in &report.schedulers
    {
        writeln!(
            out,
            "{name:<12} {jobs:>7} {busy:>7.4} {useful:>7.4} {wasted:>7.4} {succeeded:>7} {conflict_fraction:>9.4} \
             {no_room:>8} {abandoned:>9} {left_in_queue:>6} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
            wait.mean_s, wait.p50_s, wait.p90_s, wait.p99_s
        )?;
    }
    tell_tenants(&report.tenants, out)?;
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

/// Tenants that are shown: JSON has all.
const TENANTS_SHOWN: usize = 10;

fn tell_tenants(tenants: &[TenantReport], out: &mut impl Write) -> Result<(), SimError> {
    if tenants.len() < 2 {
        return Ok(());
    }
    writeln!(
        out,
        "\n{:<16} {:>7} {:>8} {:>8} {:>7} {:>7} {:>9} {:>9} {:>10} {:>10} {:>9}",
        "tenant",
        "jobs",
        "tasks",
        "waiting",
        "share",
        "peak",
        "wait_p50",
        "wait_p99",
        "placed_p50",
        "placed_p99",
        "preferred"
    )?;
    for one in tenants.iter().take(TENANTS_SHOWN) {
        let met = one.preferences_met.map_or("-".to_owned(), |met| format!("{:.1} %", met * 100.0));
        writeln!(
            out,
            "{:<16} {:>7} {:>8} {:>8} {:>7.4} {:>7.4} {:>9.3} {:>9.3} {:>10.3} {:>10.3} {met:>9}",
            one.name,
            one.jobs,
            one.tasks,
            one.tasks_waiting,
            one.share_mean,
            one.share_peak,
            one.wait.p50_s,
            one.wait.p99_s,
            one.placed.p50_s,
            one.placed.p99_s
        )?;
    }
    if let Some(more) = tenants.len().checked_sub(TENANTS_SHOWN).filter(|more| *more > 0) {
        writeln!(out, "and {more} tenants with less")?;
    }
    Ok(())
}
