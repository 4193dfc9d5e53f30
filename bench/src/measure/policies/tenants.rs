//! Question: what do tenants in a tree, fair shares between them, and limits on their requests cost?

use crate::measure::cells::{self, Made};
use crate::measure::clock::{Figure, by_turns, timed};
use crate::measure::show::{Reach, Row, Unit};
use crate::measure::{Options, SEED};
use omega_cellstate::SharedCell;
use omega_core::limits::QUOTA_MAX;
use omega_core::{Amounts, Command, Job, Outcome, TenantConfig, Text};
use omega_schedulers::plugins::FairShare;
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};

pub(crate) const WORKLOAD: &str = "10,000 machines in use; single-task jobs of 100 tenants in 10 branches; a scheduler's time per job";

const MACHINES: usize = 10_000;

const TENANTS: usize = 100;

/// Feature that is enabled for a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Nothing,
    /// A tree of tenants with a limit at each level, which is never reached.
    Tree,
    /// A tree of tenants with fair shares.
    Turns,
}

pub(crate) fn rows(options: &Options) -> Vec<Row> {
    let made = cells::in_use(MACHINES);
    let jobs: Vec<Job> =
        (0..).zip(cells::small_jobs(0, options.work(20_000), 1)).map(of_tenant).collect();
    let (tree, off) = by_turns(
        options.runs(),
        || cost(&made, &jobs, On::Tree),
        || cost(&made, &jobs, On::Nothing),
    );
    let (turns, _) = by_turns(
        options.runs(),
        || cost(&made, &jobs, On::Turns),
        || cost(&made, &jobs, On::Nothing),
    );
    let ratio = |what: &str, figure: Figure| {
        Row::value(what.to_owned(), Unit::Times, figure.cpu / off.cpu).reach(Reach::AtMost(1.1))
    };
    let (limited, free) = by_turns(
        options.runs(),
        || submitted(&made, &jobs, Submitted::Limited),
        || submitted(&made, &jobs, Submitted::Freely),
    );
    vec![
        Row::time("tenants alone, order by age".to_owned(), Unit::Micros, off),
        Row::time("a tree of limits and guarantees".to_owned(), Unit::Micros, tree),
        ratio("  to tenants alone, time", tree),
        Row::time("the same, and fair_share".to_owned(), Unit::Micros, turns),
        Row::value("  to tenants alone, time".to_owned(), Unit::Times, turns.cpu / off.cpu),
        Row::time("a job submitted and killed".to_owned(), Unit::Micros, free),
        Row::time(
            "the same in the tree, each asking within limits".to_owned(),
            Unit::Micros,
            limited,
        ),
        Row::value("  to freely, time".to_owned(), Unit::Times, limited.cpu / free.cpu),
    ]
}

fn of_tenant((number, job): (usize, Job)) -> Job {
    Job { tenant: tenant(number % TENANTS), ..job }
}

fn tenant(number: usize) -> Text {
    format!("tenant-{number}").into()
}

/// Whether requests of jobs are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Submitted {
    Freely,
    Limited,
}

/// Time of the cell to submit and kill each of the jobs.
fn submitted(made: &Made, jobs: &[Job], how: Submitted) -> Figure {
    let cell = SharedCell::new(made.copy());
    if how == Submitted::Limited {
        for number in 0..TENANTS {
            let branch: Text = format!("branch-{}", number % 10).into();
            for (name, parent) in [(branch.clone(), "all".into()), (tenant(number), branch)] {
                let tenant_config =
                    TenantConfig { parent: Some(parent), ..TenantConfig::default() };
                cell.apply(Command::SetTenant { tenant: name.clone(), tenant_config })
                    .expect("a tree");
                let limit = Some(Amounts::new([QUOTA_MAX; 4]));
                cell.apply(Command::SetAdmission { tenant: name, limit }).expect("a limit");
            }
        }
    }
    let jobs: Vec<Command> = jobs.iter().cloned().map(Command::SubmitJob).collect();
    let count = jobs.len();
    let ((), span) = timed(|| {
        for command in jobs {
            if let Ok(Outcome::Job(job)) = cell.apply(command) {
                cell.apply(Command::KillJob { job }).expect("the job is there");
            }
        }
    });
    span.each(count)
}

/// Scheduler time per job.
fn cost(made: &Made, jobs: &[Job], on: On) -> Figure {
    let cell = SharedCell::new(made.copy());
    let much = Amounts::new([1 << 49; 4]);
    if on != On::Nothing {
        for number in 0..TENANTS {
            let branch: Text = format!("branch-{}", number % 10).into();
            for (name, parent) in [(branch.clone(), "all".into()), (tenant(number), branch)] {
                let tenant_config = TenantConfig {
                    parent: Some(parent),
                    guaranteed: much.clone(),
                    ..TenantConfig::default()
                };
                cell.apply(Command::SetTenant { tenant: name.clone(), tenant_config })
                    .expect("a tree");
                let limit = Some(much.clone());
                cell.apply(Command::SetQuota { tenant: name, limit }).expect("a limit");
            }
        }
    }
    let profile = match on {
        On::Nothing | On::Tree => Profile::service(),
        On::Turns => Profile::service().with_order(FairShare),
    };
    let settings = Settings::new("default").with_seed(SEED);
    let mut scheduler = Scheduler::new(&cell, profile, settings).expect("a scheduler registers");
    let mut run = || while !scheduler.step(&cell, 0, &mut Unobserved).expect("it answers").idle {};
    run();
    cell.apply_all(jobs.iter().cloned().map(Command::SubmitJob));
    let ((), span) = timed(run);
    span.each(jobs.len())
}
