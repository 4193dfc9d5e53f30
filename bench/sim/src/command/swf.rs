//! `omega-sim swf`: the classic policies of batch queues on a log, with a row of results for each policy.
//!
//! Notes on missing data are printed on standard error, so that standard output has only results.

use super::SimError;
use super::streams::{note, stdout};
use crate::sheet::{Cell, Output, Sheet};
use crate::swf::conservative::Conservative;
use crate::swf::figures::Figures;
use crate::swf::ordered::{Backfill, Order, Ordered, Ties};
use crate::swf::shipped::{Machines, NOW_MS_MAX, Shipped};
use crate::swf::simulate::simulate;
use crate::swf::trace::{SimJob, Trace};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use omega_core::limits::{MACHINES_MAX, TRANSACTION_ITEMS_MAX};
use omega_workload::words::plural;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `omega-sim swf`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  omega-sim swf log.swf.gz --policy easy --estimates user")]
pub struct SwfArgs {
    /// Log file, which may be compressed with gzip or Zstandard
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Scheduling policy
    #[arg(long, value_enum, default_value = "all")]
    policy: PolicyChoice,
    /// Run times that the policies use to plan
    #[arg(long, value_enum, default_value = "both")]
    estimates: EstimatesChoice,
    /// Only for `easy` and `sjf-easy`: order of running jobs with equal expected ends
    ///
    /// The reservation of the queue's first job takes the processors of these jobs in this order until it has enough.
    /// The other processors are left for backfill.
    #[arg(long, value_name = "ORDER", default_value = "smallest")]
    ties: TiesChoice,
    /// Only for --policy omega: number of jobs, from the head of the queue, whose starts are planned; 0 disables
    /// backfill
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 1)]
    depth: u16,
    /// Only for --policy omega: processors of each machine; must divide the total number of processors
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "1")]
    cores: NonZeroU64,
    /// Total number of processors [default: MaxProcs in the header of the log, else MaxNodes, else the processors of
    /// the largest job]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    processors: Option<NonZeroU64>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PolicyChoice {
    /// First come, first served
    Fcfs,
    /// EASY backfill: no job delays the first job of the queue
    Easy,
    /// Conservative backfill: no job delays a job that is before it in the queue
    Conservative,
    /// EASY backfill, with the queue in order of estimated run times, the shortest first
    SjfEasy,
    /// Omega's cell and scheduler, which plan when each of the first --depth jobs of the queue starts
    Omega,
    /// All policies except `omega`, one after the other
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EstimatesChoice {
    /// User estimates
    User,
    /// True run times
    Perfect,
    /// User estimates, then true run times
    Both,
}

/// An order of jobs with equal expected ends, or all orders, with a row for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TiesChoice {
    One(Ties),
    All,
}

const TIES: [TiesChoice; 6] = [
    TiesChoice::One(Ties::Smallest),
    TiesChoice::One(Ties::Largest),
    TiesChoice::One(Ties::Started),
    TiesChoice::One(Ties::Submitted),
    TiesChoice::One(Ties::Together),
    TiesChoice::All,
];

impl ValueEnum for TiesChoice {
    fn value_variants<'a>() -> &'a [TiesChoice] {
        &TIES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            TiesChoice::One(ties) => ties.to_possible_value(),
            TiesChoice::All => Some(PossibleValue::new("all").help("One run with each order")),
        }
    }
}

impl TiesChoice {
    fn each(self) -> Vec<Ties> {
        match self {
            TiesChoice::One(ties) => vec![ties],
            TiesChoice::All => Ties::value_variants().to_vec(),
        }
    }
}

/// A policy, with the order of jobs with equal expected ends if the policy depends on that order.
#[derive(Clone, Copy)]
struct Variant {
    policy: PolicyChoice,
    ties: Option<Ties>,
}

impl PolicyChoice {
    fn variants(self, ties: TiesChoice) -> Vec<Variant> {
        match self {
            PolicyChoice::Easy | PolicyChoice::SjfEasy => {
                let with = |ties| Variant { policy: self, ties: Some(ties) };
                ties.each().into_iter().map(with).collect()
            }
            _ => vec![Variant { policy: self, ties: None }],
        }
    }

    fn each(self) -> Vec<PolicyChoice> {
        use PolicyChoice::{All, Conservative, Easy, Fcfs, SjfEasy};
        if self == All { vec![Fcfs, Easy, Conservative, SjfEasy] } else { vec![self] }
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl Variant {
    fn starts(self, trace: &Trace, args: &SwfArgs) -> Vec<u64> {
        let (jobs, processors) = (&trace.jobs[..], trace.processors);
        let ties = self.ties.unwrap_or_default();
        let ordered = |order, backfill| {
            simulate(jobs, processors, &mut Ordered::new(jobs, processors, order, backfill, ties))
        };
        match self.policy {
            PolicyChoice::Fcfs => ordered(Order::Submission, Backfill::None),
            PolicyChoice::Easy | PolicyChoice::All => ordered(Order::Submission, Backfill::Easy),
            PolicyChoice::SjfEasy => ordered(Order::Shortest, Backfill::Easy),
            PolicyChoice::Conservative => {
                simulate(jobs, processors, &mut Conservative::new(jobs, processors))
            }
            PolicyChoice::Omega => {
                let machines = Machines { count: processors / args.cores, cores: args.cores.get() };
                simulate(jobs, processors, &mut Shipped::new(jobs, machines, args.depth.into()))
            }
        }
    }
}

const COLUMNS: [&str; 15] = [
    "policy",
    "ties",
    "estimates",
    "jobs",
    "wait_mean_min",
    "slowdown_mean",
    "wait_p50_min",
    "wait_p90_min",
    "wait_p99_min",
    "wait_max_min",
    "wide_wait_mean_min",
    "wide_wait_max_min",
    "utilisation_percent",
    "makespan_days",
    "left_out",
];

/// Simulates a log.
///
/// # Errors
/// If the log is invalid.
pub(super) fn run(args: &SwfArgs) -> Result<ExitCode, SimError> {
    let trace = Trace::read(&args.file, args.processors.map(NonZeroU64::get))?;
    tell(&trace);
    if args.policy == PolicyChoice::Omega && trace.processors % args.cores != 0 {
        let (cores, all) = (args.cores, trace.processors);
        return Err(SimError::Lacks(format!(
            "the log's machine has {all} processors, which cannot be divided into machines of \
             {cores} cores: --cores must divide that number"
        )));
    }
    let machines = trace.processors / args.cores;
    if args.policy == PolicyChoice::Omega && machines > MACHINES_MAX as u64 {
        return Err(SimError::Lacks(format!(
            "the log's machine has {} processors, which are {machines} machines of {} cores, but \
             the policy `omega` supports at most {MACHINES_MAX}: increase --cores, or use another \
             --policy",
            trace.processors, args.cores
        )));
    }
    let is_too_wide = |job: &SimJob| job.processors > TRANSACTION_ITEMS_MAX as u64;
    if args.policy == PolicyChoice::Omega && trace.jobs.iter().any(is_too_wide) {
        return Err(SimError::Lacks(format!(
            "the log has jobs with more than {TRANSACTION_ITEMS_MAX} processors, which the policy \
             `omega` cannot start at once: use another --policy, or `omega run --trace swf`"
        )));
    }
    if args.policy == PolicyChoice::Omega && trace.span_ms() > NOW_MS_MAX {
        return Err(SimError::Lacks(
            "the log spans more than 584 years, which the policy `omega` does not support: use \
             another --policy"
                .to_owned(),
        ));
    }
    let mut sheet = Sheet::new(&COLUMNS);
    if let Some(figures) = Figures::logged(&trace) {
        sheet.push(row(("logged", ""), "", &trace, figures));
    }
    let perfect = trace.with_perfect_estimates();
    let variants = args.policy.each().into_iter().flat_map(|policy| policy.variants(args.ties));
    for variant in variants {
        let policy = variant.policy;
        let mut push = |estimates: &str, trace: &Trace| {
            let figures = Figures::of(trace, &variant.starts(trace, args));
            let ties = variant.ties.and_then(|ties| ties.to_possible_value());
            let ties = ties.as_ref().map_or("", PossibleValue::get_name);
            sheet.push(row((&policy.name(), ties), estimates, trace, figures));
        };
        if policy == PolicyChoice::Fcfs || policy == PolicyChoice::Omega && args.depth == 0 {
            // This policy uses no estimates.
            push("", &trace);
            continue;
        }
        if args.estimates != EstimatesChoice::Perfect {
            push("user", &trace);
        }
        if args.estimates != EstimatesChoice::User {
            push("perfect", &perfect);
        }
    }
    write!(stdout(), "{}", sheet.print(args.output))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the assumptions behind the results.
fn tell(trace: &Trace) {
    let left_out = trace.left_out;
    let jobs = plural(trace.jobs.len() as u64, "job");
    note(format!("{jobs} on {}", plural(trace.processors, "processor")));
    for (count, why) in [
        (left_out.too_large, "because more processors are requested than there are"),
        (left_out.run_unknown, "because the run time is missing or unknown"),
        (left_out.size_unknown, "because the number of processors is unknown"),
        (left_out.submission_unknown, "because the time of submission is unknown"),
    ] {
        if count > 0 {
            note(format!("note: left out, {why}: {}", plural(count, "job")));
        }
    }
    for text in &trace.notes {
        note(format!("note: {text}"));
    }
}

fn row(
    (policy, ties): (&str, &str),
    estimates: &str,
    trace: &Trace,
    figures: Figures,
) -> Vec<Cell> {
    let minutes = |seconds: f64| Cell::Number(seconds / 60.0, 1);
    vec![
        policy.into(),
        ties.into(),
        estimates.into(),
        Cell::Count(figures.jobs as u64),
        minutes(figures.wait_mean_s),
        Cell::Number(figures.slowdown_mean, 2),
        minutes(figures.wait_p50_s),
        minutes(figures.wait_p90_s),
        minutes(figures.wait_p99_s),
        minutes(figures.wait_max_s),
        minutes(figures.wide_wait_mean_s),
        minutes(figures.wide_wait_max_s),
        Cell::Number(figures.utilisation * 100.0, 2),
        Cell::Number(figures.makespan_s / 86_400.0, 2),
        Cell::Count(trace.left_out.sum()),
    ]
}
