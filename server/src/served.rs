//! The commands that serve and operate a cell, which the feature `serve` adds.

use crate::{
    accounting, agent, ask, audit, cert, dev, keep, log, manual, restore, scheduler, serve,
};
use clap::Subcommand;
use omega_run::RunError;
use omega_run::replicas::ReplicaError;
use omega_store::history::HistoryError;
use omega_workload::profiles::ProfileError;

#[cfg(test)]
#[path = "unserved.rs"]
#[expect(dead_code, reason = "the test reads the list of names alone")]
mod unserved;

/// The exit code of a server that would be open to everyone. It is `EX_CONFIG` of `sysexits.h`, so that a supervisor
/// can be set not to start the server again and again.
const EXPOSED: u8 = 78;

/// The exit code of a server whose disk failed. It is `EX_IOERR` of `sysexits.h`, and a supervisor starts the server
/// again.
const DISK_FAILED: u8 = 74;

/// Exit code of a scheduler whose name another process owns. It is `EX_TEMPFAIL` of `sysexits.h`, so that a supervisor
/// may start it again.
const REPLACED: u8 = 75;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Serve a cell to schedulers, agents and people on other machines.
    Serve(Box<serve::ServeArgs>),
    /// Create an authority and certificates, for development and small sites.
    #[command(subcommand)]
    Cert(cert::CertCommand),
    /// Run a complete cell on this machine, to try it out.
    Dev(dev::DevArgs),
    /// Run a scheduler process for a served cell.
    Scheduler(scheduler::SchedulerArgs),
    /// Offer this machine to a cell and run its tasks, or simulate machines.
    Agent(Box<agent::AgentArgs>),
    /// Run a stage of a task.
    #[command(hide = true)]
    AgentExec(agent::ExecArgs),
    /// Inspect the directory of a stopped replica: its entries, and the cell at any version.
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Report the amounts that jobs and tenants had, by hour, from the directory of a stopped replica.
    Accounting(accounting::AccountingArgs),
    /// Machines of a cell.
    #[command(subcommand)]
    Machine(ask::machine::MachineCommand),
    /// Jobs of a cell.
    #[command(subcommand)]
    Job(ask::job::JobCommand),
    /// Tasks of a job, or of a machine.
    #[command(subcommand)]
    Task(ask::task::TaskCommand),
    /// Limits and guarantees of tenants.
    #[command(subcommand)]
    Quota(ask::quota::QuotaCommand),
    /// Machines reserved for some tenants for a time.
    #[command(subcommand)]
    Reservation(ask::reservation::ReservationCommand),
    /// Cluster resources that belong to no machine, such as licences.
    #[command(subcommand)]
    ClusterResource(ask::resource::ResourceCommand),
    /// Peak hours, in which batch tasks are limited in favour of services.
    #[command(subcommand)]
    Peak(ask::peak::PeakCommand),
    /// Policy of the whole cell: bands of precedence, limit of evictions, overcommit.
    #[command(subcommand)]
    Policy(ask::policy::PolicyCommand),
    /// Replicas of a cell.
    #[command(subcommand)]
    Member(ask::member::MemberCommand),
    /// Schedulers of a cell, and the processes that own their names.
    #[command(subcommand)]
    Lease(ask::lease::LeaseCommand),
    /// Results of past transactions, and transactions written by hand.
    #[command(subcommand)]
    Txn(ask::txn::TxnCommand),
    /// Id, leader, and allocation of a cell.
    Cell(ask::cell::DescribeArgs),
    /// Names for cells, and the cell that commands use by default.
    #[command(subcommand)]
    Context(ask::context::ContextCommand),
    /// Watch a cell: allocation, schedulers, and pending jobs with reasons.
    Top(ask::top::TopArgs),
    /// Check audit logs.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Save the whole state of a cell in a file.
    Backup(ask::backup::BackupArgs),
    /// Create a replica of a new cell from a backup.
    Restore(restore::RestoreArgs),
    /// Print shell completions.
    #[command(
        after_help = "Example:\n  omega completions bash > ~/.local/share/bash-completion/completions/omega"
    )]
    Completions(manual::CompletionArgs),
    /// Print the manual page of omega, or write a page for each command.
    #[command(
        after_help = "Examples:\n  omega man | man -l -\n  omega man --dir /usr/local/share/man/man1"
    )]
    Man(manual::ManualArgs),
}

/// Error of a command, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error("{input}: {why}")]
    Run { input: String, why: RunError },
    #[error(transparent)]
    Folder(#[from] ReplicaError),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error(
        "there is no job {job:?} at version {version}: run `omega log at DIR VERSION` to list the \
         jobs that are pending at a version"
    )]
    NoJobThen { job: String, version: u64 },
    #[error(transparent)]
    Output(#[from] crate::output::OutputError),
    #[error(transparent)]
    Dev(#[from] dev::DevError),
    #[error(transparent)]
    Agent(#[from] agent::AgentError),
    #[error("{0}")]
    Stage(std::io::Error),
    #[error(transparent)]
    Serve(#[from] serve::ServeError),
    #[error(transparent)]
    Cert(#[from] cert::CertError),
    #[error(transparent)]
    Scheduler(#[from] scheduler::SchedulerError),
    #[error(transparent)]
    Ask(#[from] ask::AskError),
    #[error(transparent)]
    Audit(#[from] audit::AuditError),
    #[error(transparent)]
    Restore(#[from] restore::RestoreError),
}

impl Error {
    /// The exit code: that of bad input, unless a served cell rejects the request or does not answer.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::Ask(error) => error.exit_code(),
            Error::Audit(error) => error.exit_code(),
            Error::Stage(_) => omega_agent::CANNOT_START,
            Error::Serve(error) if error.is_exposed() => EXPOSED,
            Error::Serve(error) if error.is_of_disk() => DISK_FAILED,
            Error::Scheduler(error) if error.is_exposed() => EXPOSED,
            Error::Scheduler(error) if error.is_replaced() => REPLACED,
            _ => crate::BAD_INPUT,
        }
    }
}

/// Runs a command.
pub(crate) fn run(verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Log(command) => log::log(&command)?,
        Verb::Accounting(args) => accounting::run(&args)?,
        Verb::Scheduler(args) => scheduler::run(&args)?,
        Verb::Agent(args) => agent::run(&args)?,
        Verb::AgentExec(args) => agent::exec(&args).map_err(Error::Stage)?,
        Verb::Cert(command) => cert::run(&command)?,
        Verb::Dev(args) => dev::run(&args)?,
        Verb::Serve(args) => serve::serve(*args)?,
        Verb::Machine(command) => ask::machine::run(&command)?,
        Verb::Job(command) => ask::job::run(&command)?,
        Verb::Task(command) => ask::task::run(&command)?,
        Verb::Reservation(command) => ask::reservation::run(&command)?,
        Verb::ClusterResource(command) => ask::resource::run(&command)?,
        Verb::Peak(command) => peak(&command)?,
        Verb::Quota(command) => ask::quota::run(&command)?,
        Verb::Policy(command) => ask::policy::run(&command)?,
        Verb::Member(command) => ask::member::run(&command)?,
        Verb::Lease(command) => ask::lease::run(&command)?,
        Verb::Txn(command) => ask::txn::run(&command)?,
        Verb::Cell(args) => ask::cell::run(&args)?,
        Verb::Context(command) => ask::context::run(&command)?,
        Verb::Top(args) => ask::top::run(&args)?,
        Verb::Audit(command) => audit::run(&command)?,
        Verb::Backup(args) => ask::backup::run(&args)?,
        Verb::Restore(args) => restore::run(&args)?,
        Verb::Completions(args) => manual::completions(&args)?,
        Verb::Man(args) => manual::manual(&args)?,
    }
    Ok(())
}

/// Runs a command about calendars of peaks, or the peak controller.
fn peak(command: &ask::peak::PeakCommand) -> Result<(), Error> {
    use ask::peak::PeakCommand;
    match command {
        PeakCommand::List(ask) => ask::peak::list(ask)?,
        PeakCommand::Set(args) => ask::peak::set(args)?,
        PeakCommand::Remove(args) => ask::peak::remove(args)?,
        PeakCommand::Run(args) => keep::run(args)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::unserved;
    use clap::{CommandFactory, Parser, Subcommand};

    #[derive(Parser)]
    struct Verbs {
        #[command(subcommand)]
        _verb: super::Verb,
    }

    #[test]
    fn a_build_without_the_feature_knows_every_verb_of_it() {
        let verbs = Verbs::command();
        let shown = verbs.get_subcommands().filter(|verb| !verb.is_hide_set());
        let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
        assert_eq!(names, unserved::SERVED);
        assert!(super::Verb::has_subcommand("serve"));
    }
}
