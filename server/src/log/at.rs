//! `omega log at`: prints the cell as it was at a version, or explains why a job was pending then.

use super::describe::clean;
use super::replay::{TaskStates, which};
use crate::output;
use crate::served::Error;
use clap::Args;
use omega_cellstate::{Cell, MachineState};
use omega_core::{TaskState, Version};
use omega_run::explain_cell;
use omega_run::report::waiting::{self, WaitingReport};
use omega_schedulers::config::Profiles;
use omega_store::history;
use omega_workload::profiles;
use omega_workload::words::plural;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The version, and the output.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  omega log at cell 1200 --explain web")]
pub(crate) struct AtArgs {
    /// Directory of a stopped replica, or a copy of such a directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Version of the cell, as `omega log show` prints it.
    #[arg(value_name = "VERSION")]
    version: u64,
    /// Also write all machines, jobs and tenants to this file as JSON; docs/log.md describes the fields.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Explain why this job was pending, and print nothing else.
    #[arg(long, value_name = "JOB", conflicts_with = "json")]
    explain: Option<String>,
    /// File with the schedulers' profiles for --explain; docs/profiles.md describes it [default: the built-in
    /// profiles].
    #[arg(long, value_name = "FILE.toml", requires = "explain")]
    profile: Option<PathBuf>,
    /// Include log entries that are not known to be committed.
    #[arg(long)]
    all: bool,
}

/// Maximum number of machines, jobs and tenants in the table. The JSON file has all of them.
const LINES_MAX: usize = 20;

/// Everything about a cell that is shown.
#[derive(Debug, Serialize)]
struct Shown {
    version: u64,
    machines: Vec<Machine>,
    jobs: Vec<Job>,
    tenants: Vec<Tenant>,
}

#[derive(Debug, Serialize)]
struct Machine {
    name: String,
    status: String,
    tasks: usize,
    /// Amounts by resource kind.
    amounts: BTreeMap<String, Amount>,
}

/// Amounts in the kind's smallest unit.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Amount {
    used: i64,
    free: i64,
}

#[derive(Debug, Serialize)]
struct Job {
    name: String,
    scheduler: String,
    tenant: String,
    pending: usize,
    placed: usize,
    ended: usize,
}

#[derive(Debug, Serialize)]
struct Tenant {
    name: String,
    /// Claimed amounts by resource kind.
    used: BTreeMap<String, i64>,
    /// Limits by resource kind; `None` if the tenant has no limits.
    limit: Option<BTreeMap<String, u64>>,
}

pub(crate) fn at(args: &AtArgs) -> Result<(), Error> {
    let outputs: Vec<_> = args.json.iter().map(PathBuf::as_path).collect();
    output::check(&outputs, &[])?;
    let loaded = args.profile.as_deref().map(profiles::load).transpose()?;
    let cell = history::replay_to(&args.dir, Version(args.version), which(args.all))?;
    if let Some(job) = &args.explain {
        return explain(args, cell, job, loaded.unwrap_or_default());
    }
    let shown = all(&cell);
    output::print(&table(&cell, &shown))?;
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&shown);
        let text = text.expect("the keys are text, and memory takes all that is written");
        output::write(file, &(text + "\n"))?;
    }
    Ok(())
}

fn explain(args: &AtArgs, cell: Cell, job: &str, loaded: Profiles) -> Result<(), Error> {
    if let Some(file) = &args.profile {
        profiles::check(file, &loaded, cell.kinds())?;
    }
    let name = format!("{} at version {}", args.dir.display(), args.version);
    let pending = TaskStates::of(&cell).pending;
    let no_job = || Error::NoJobThen { job: job.to_owned(), version: args.version };
    let explained = explain_cell(cell, &loaded, job);
    let explained = explained.map_err(|why| Error::Run { input: name.clone(), why })?;
    let jobs = vec![explained.ok_or_else(no_job)?];
    let report = WaitingReport { name, pending, jobs, notes: Vec::new() };
    Ok(output::print(&waiting::render(&report))?)
}

fn all(cell: &Cell) -> Shown {
    Shown {
        version: cell.version().0,
        machines: cell.machines().map(|state| machine(cell, &state)).collect(),
        jobs: cell.jobs().map(|(id, spec)| job(cell, id, spec)).collect(),
        tenants: tenants(cell),
    }
}

fn machine(cell: &Cell, state: &MachineState<'_>) -> Machine {
    let amounts = cell.kinds().iter().map(|(kind, spec)| {
        let (free, claimable) = (state.free[kind.index()], state.claimable[kind.index()]);
        (spec.name.clone(), Amount { used: claimable - free, free })
    });
    Machine {
        name: state.machine.name.to_string(),
        status: format!("{:?}", state.status).to_lowercase(),
        tasks: state.tasks.len(),
        amounts: amounts.collect(),
    }
}

fn job(cell: &Cell, id: omega_core::JobId, spec: &omega_core::Job) -> Job {
    let (mut pending, mut placed, mut ended) = (0, 0, 0);
    for (_, state) in cell.tasks(id) {
        match state {
            TaskState::Pending => pending += 1,
            TaskState::Placed(_) | TaskState::Running(_) => placed += 1,
            _ => ended += 1,
        }
    }
    let (scheduler, tenant) = (spec.scheduler.to_string(), spec.tenant.to_string());
    Job { name: spec.name.to_string(), scheduler, tenant, pending, placed, ended }
}

fn tenants(cell: &Cell) -> Vec<Tenant> {
    let name = |kind| cell.kinds().get(kind).map_or_else(String::new, |spec| spec.name.clone());
    let tenant = |of: omega_cellstate::TenantSnapshot| {
        let used = cell.tenant_used(&of.name).unwrap_or_default();
        let used =
            cell.kinds().iter().zip(used).map(|((_, spec), used)| (spec.name.clone(), *used));
        let limit = of.limit.map(|limit| limit.iter().map(|(k, most)| (name(k), most)).collect());
        Tenant { name: of.name.to_string(), used: used.collect(), limit }
    };
    cell.snapshot_state().tenants.into_iter().map(tenant).collect()
}

fn table(cell: &Cell, shown: &Shown) -> String {
    let states = TaskStates::of(cell);
    let mut out = format!(
        "version {}: {}, {}; tasks: {} on machines, {} pending, {} ended\n",
        shown.version,
        plural(shown.machines.len() as u64, "machine"),
        plural(shown.jobs.len() as u64, "job"),
        states.placed,
        states.pending,
        states.ended,
    );
    out += "\nresource                used            free\n";
    for (kind, spec) in cell.kinds().iter() {
        let of = |machine: &Machine| machine.amounts.get(&spec.name).copied().unwrap_or_default();
        let sum = |part: fn(Amount) -> i64| {
            shown.machines.iter().map(|machine| i128::from(part(of(machine)))).sum::<i128>()
        };
        let display = |sum: i128| match u64::try_from(sum) {
            Ok(sum) => cell.kinds().display(kind, sum),
            Err(_) => sum.to_string(),
        };
        let (used, free) = (sum(|amount| amount.used), sum(|amount| amount.free));
        if used != 0 || free != 0 {
            out +=
                &format!("{:<12}{:>16}{:>16}\n", clean(&spec.name), display(used), display(free));
        }
    }
    let waiting = shown.jobs.iter().filter(|job| job.pending > 0);
    let waiting = waiting.map(|job| {
        format!(
            "{:>8} of job {} (scheduler {})",
            job.pending,
            clean(&job.name),
            clean(&job.scheduler)
        )
    });
    out += &section("pending tasks", waiting.collect());
    let display = |name: &str, used: i64| match (cell.kinds().by_name(name), u64::try_from(used)) {
        (Some(kind), Ok(used)) => cell.kinds().display(kind, used),
        _ => used.to_string(),
    };
    let tenants = shown.tenants.iter().map(|tenant| {
        let amounts = tenant.used.iter().filter(|(_, used)| **used != 0);
        let amounts: Vec<String> = amounts
            .map(|(kind, used)| format!("{} {}", clean(kind), display(kind, *used)))
            .collect();
        let limit = if tenant.limit.is_some() { ", limited" } else { "" };
        format!("  {}: {}{limit}", clean(&tenant.name), amounts.join(", "))
    });
    out + &section("tenants", tenants.collect())
}

/// A title and at most [`LINES_MAX`] lines, followed by the number of omitted lines.
fn section(title: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let more = lines.len().saturating_sub(LINES_MAX);
    let shown: String = lines.iter().take(LINES_MAX).map(|line| format!("{line}\n")).collect();
    let rest = if more > 0 { format!("  and {more} more\n") } else { String::new() };
    format!("\n{title}\n{shown}{rest}")
}
