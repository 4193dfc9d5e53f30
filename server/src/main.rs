//! `omega`: the command line of the cell.
//!
//! `omega run`, which is also what `omega` alone does, places a workload on a cell in this
//! process and tells how it went. Bad input ends with one line on standard error and exit code 2,
//! before anything has started. `omega explain` does the same, and tells why a job waits; `omega improve` finds
//! better machines for what runs. `omega trace` looks at what `omega run` would place, and makes more of it; `omega bench` measures this very program.
//! `omega log` looks at what a replica has kept. `omega machine`, `job`, `task`, `quota`, `policy`, `member`, `lease`,
//! `txn`, `cell` and `top` ask a cell that is served; where it refuses or does not answer, the exit code is 1.

mod agent;
mod ask;
mod audit;
mod backup;
mod cert;
mod connect;
mod dev;
mod events;
mod explain;
mod explainer;
mod improve;
mod keep;
mod log;
mod manual;
mod output;
mod profiles;
mod progress;
mod restore;
mod run;
mod scheduler;
mod serve;
mod signals;
mod what_if;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The exit code of bad input: what clap uses for bad arguments.
const BAD_INPUT: u8 = 2;

/// The exit code of a server that would be open to everyone: `EX_CONFIG` of `sysexits.h`, so that a
/// supervisor does not start it again and again.
const EXPOSED: u8 = 78;

/// The exit code of a scheduler whose name another process holds: `EX_TEMPFAIL` of `sysexits.h`, so that
/// a supervisor may start it again.
const REPLACED: u8 = 75;

/// A shared-state, optimistically concurrent cluster scheduler.
#[derive(Debug, Parser)]
#[command(name = "omega", version, about, args_conflicts_with_subcommands = true)]
struct Omega {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Place a workload on a cell in this process, and tell how it went.
    Run(run::RunArgs),
    /// Run a workload, and tell why a job waits at its end and what would help.
    Explain(explain::ExplainArgs),
    /// Find better machines for the tasks of a cell, and tell what each move gains.
    Improve(Box<improve::ImproveArgs>),
    /// Simulate a cell: what it would do, rather than what it does.
    #[command(subcommand)]
    Sim(what_if::SimVerb),
    /// Look at traces, and make others after their example.
    #[command(subcommand)]
    Trace(omega_sim::trace::command::TraceCommand),
    /// Measure how fast this build is on this machine.
    #[command(subcommand)]
    Bench(omega_bench::command::BenchCommand),
    /// Serve a cell to schedulers, agents and people on other machines.
    Serve(Box<serve::ServeArgs>),
    /// Make an authority and certificates, to try a cell out with.
    #[command(subcommand)]
    Cert(cert::CertCommand),
    /// A whole cell on this machine, to try things out.
    Dev(dev::DevArgs),
    /// Place the jobs of one scheduler, in a process of its own.
    Scheduler(scheduler::SchedulerArgs),
    /// Speak for simulated machines that run what they are told to.
    Agent(agent::AgentArgs),
    /// Look at the directory of a replica: its entries, and the cell at any version.
    #[command(subcommand)]
    Log(log::LogCommand),
    /// The machines of a cell.
    #[command(subcommand)]
    Machine(ask::machine::MachineCommand),
    /// The jobs of a cell.
    #[command(subcommand)]
    Job(ask::job::JobCommand),
    /// The tasks of a job, or of a machine.
    #[command(subcommand)]
    Task(ask::task::TaskCommand),
    /// What the tasks of a tenant may claim together.
    #[command(subcommand)]
    Quota(ask::quota::QuotaCommand),
    /// Machines that some tenants have to themselves for a time to come.
    #[command(subcommand)]
    Reservation(ask::reservation::ReservationCommand),
    /// What the cell as a whole has that tasks claim, such as licences.
    #[command(subcommand)]
    Resource(ask::resource::ResourceCommand),
    /// Hours in which services need their machines, and batch steps back.
    #[command(subcommand)]
    Peak(ask::peak::PeakCommand),
    /// What holds for the whole cell: bands of precedence, how many evictions there may be.
    #[command(subcommand)]
    Policy(ask::policy::PolicyCommand),
    /// The replicas of a cell.
    #[command(subcommand)]
    Member(ask::member::MemberCommand),
    /// Who places: the schedulers of a cell, and the processes that hold their names.
    #[command(subcommand)]
    Lease(ask::lease::LeaseCommand),
    /// What transactions were answered, and transactions by hand.
    #[command(subcommand)]
    Txn(ask::txn::TxnCommand),
    /// What a cell is, and how much of it is taken.
    Cell(ask::cell::DescribeArgs),
    /// Watch a cell: how full it is, what its schedulers do, what waits and why.
    Top(ask::top::TopArgs),
    /// Look at audit logs.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Save all that a cell knows in a file.
    Backup(ask::backup::BackupArgs),
    /// Make a replica of a new cell of a backup.
    Restore(restore::RestoreArgs),
    /// Print what a shell completes.
    #[command(
        after_help = "Example:\n  omega completions bash > ~/.local/share/bash-completion/completions/omega"
    )]
    Completions(manual::CompletionArgs),
    /// Print the manual page.
    #[command(after_help = "Example:\n  omega man | man -l -")]
    Man,
}

fn main() -> ExitCode {
    let omega = match Omega::try_parse() {
        Ok(omega) => omega,
        // Help and version are answers, and go to standard output.
        Err(answer) if !answer.use_stderr() => answer.exit(),
        Err(error) => return fail(&argument_error(&error), BAD_INPUT),
    };
    let done = match omega.command {
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Explain(args)) => explain::explain(&args),
        Some(Command::Improve(args)) => improve::improve(&args),
        Some(Command::Log(command)) => log::log(&command),
        Some(Command::Sim(command)) => {
            return what_if::run(&command)
                .unwrap_or_else(|error| fail(&error.to_string(), BAD_INPUT));
        }
        Some(Command::Bench(command)) => return omega_bench::command::run(&command),
        Some(Command::Trace(command)) => {
            omega_sim::trace::command::run(&command).map_err(Into::into)
        }
        Some(Command::Scheduler(args)) => scheduler::run(&args).map_err(Into::into),
        Some(Command::Agent(args)) => agent::run(&args).map_err(Into::into),
        Some(Command::Cert(command)) => cert::run(&command).map_err(Into::into),
        Some(Command::Dev(args)) => dev::run(&args).map_err(Into::into),
        Some(Command::Serve(args)) => serve::serve(*args).map_err(Into::into),
        Some(Command::Machine(command)) => ask::machine::run(&command).map_err(Into::into),
        Some(Command::Job(command)) => ask::job::run(&command).map_err(Into::into),
        Some(Command::Task(command)) => ask::task::run(&command).map_err(Into::into),
        Some(Command::Reservation(command)) => ask::reservation::run(&command).map_err(Into::into),
        Some(Command::Resource(command)) => ask::resource::run(&command).map_err(Into::into),
        Some(Command::Peak(command)) => peak(&command),
        Some(Command::Quota(command)) => ask::quota::run(&command).map_err(Into::into),
        Some(Command::Policy(command)) => ask::policy::run(&command).map_err(Into::into),
        Some(Command::Member(command)) => ask::member::run(&command).map_err(Into::into),
        Some(Command::Lease(command)) => ask::lease::run(&command).map_err(Into::into),
        Some(Command::Txn(command)) => ask::txn::run(&command).map_err(Into::into),
        Some(Command::Cell(args)) => ask::cell::run(&args).map_err(Into::into),
        Some(Command::Top(args)) => ask::top::run(&args).map_err(Into::into),
        Some(Command::Audit(command)) => audit::run(&command).map_err(Into::into),
        Some(Command::Backup(args)) => ask::backup::run(&args).map_err(Into::into),
        Some(Command::Restore(args)) => restore::run(&args).map_err(Into::into),
        Some(Command::Completions(args)) => manual::completions(&args).map_err(Into::into),
        Some(Command::Man) => manual::page().map_err(Into::into),
        None => run::run(&omega.run),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string(), error.exit_code()),
    }
}

/// What is asked of calendars of peaks, and the process that keeps them.
fn peak(command: &ask::peak::PeakCommand) -> Result<(), run::Error> {
    use ask::peak::PeakCommand;
    match command {
        PeakCommand::List(ask) => ask::peak::list(ask)?,
        PeakCommand::Set(args) => ask::peak::set(args)?,
        PeakCommand::Remove(args) => ask::peak::remove(args)?,
        PeakCommand::Keep(args) => keep::run(args)?,
    }
    Ok(())
}

/// Says why in one line, whatever names are in it, and ends with this code.
fn fail(why: &str, code: u8) -> ExitCode {
    let line = omega_core::text::shown(why);
    // Without a standard error, the exit code has to say it all.
    drop(writeln!(std::io::stderr(), "omega: {line}"));
    ExitCode::from(code)
}

/// What is wrong with the arguments, without clap's usage: it is in the help.
fn argument_error(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let what =
        lines.take_while(|line| !is_usage(line)).map(|line| match line.strip_prefix("tip:") {
            Some(tip) => format!("({})", tip.trim()),
            None => line.strip_prefix("error: ").unwrap_or(line).to_owned(),
        });
    let what: Vec<String> = what.collect();
    format!("{}; see omega --help", what.join(" "))
}

fn is_usage(line: &str) -> bool {
    line.starts_with("Usage:") || line.starts_with("For more information")
}
