//! Commands that the feature `serve` adds: they serve and operate a cell.

use crate::{
    accounting, agent, audit, cert, commands, completions, dev, log, manual, peak_run, restore,
    scheduler, serve,
};
use clap::Subcommand;
use omega_run::RunError;
use omega_run::replicas::ReplicaError;
use omega_store::directory::OpenDirectoryError;
use omega_store::history::HistoryError;
use omega_workload::profiles::ProfileError;

#[cfg(test)]
#[path = "unserved.rs"]
#[expect(dead_code, reason = "the test reads the list of names alone")]
mod unserved;

/// The exit code of a server that would be open to everyone. It is `EX_CONFIG` of `sysexits.h`, so that a supervisor
/// can be configured not to restart the server.
const EXPOSED: u8 = 78;

/// Exit code of a fault that may pass, such as an address that is in use.
const FAILED: u8 = 1;

/// The exit code of a server whose disk failed. It is `EX_IOERR` of `sysexits.h`, and a supervisor starts the server
/// again.
const DISK_FAILED: u8 = 74;

/// Exit code of a scheduler whose name another process owns. It is `EX_TEMPFAIL` of `sysexits.h`, so that a supervisor
/// may start it again.
const REPLACED: u8 = 75;

/// The end of the help of `omega`.
pub(crate) const HELP: &str = "Examples:\n  omega run --synthetic 2000 --hours 4\n  omega dev\n  omega job list\n\n\
    Exit codes: 0 is success; 1 means that the cell rejected the request or did not answer; 2 is an invalid argument \
    or input. docs/cli.md describes all.";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a replica of a cell, and serve schedulers, agents and users over the network.
    Serve(Box<serve::ServeArgs>),
    /// Create a certificate authority and issue certificates, for development and small sites.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega cert authority --dir certs\n  omega cert issue operator/ann --cell-name prod"
    )]
    Cert(cert::CertCommand),
    /// Run a complete cell on this machine, to try it out. Ctrl-C ends it.
    ///
    /// The replicas, a scheduler and an agent of simulated machines run as separate processes, whose output is written
    /// to files in the folder of the cell. Without --dir, this folder is temporary, and is deleted at the end.
    Dev(dev::DevArgs),
    /// Run a scheduler process for a cell that `omega serve` runs.
    ///
    /// The exit code is 75 if another process owns the scheduler's name.
    Scheduler(scheduler::SchedulerArgs),
    /// Offer this machine to a cell and run the tasks that the cell places there, or simulate machines.
    Agent(Box<agent::AgentArgs>),
    /// Inspect the directory of a stopped replica: its log entries, and the cell at any version.
    ///
    /// Stop the replica first, or use a copy of its directory. Nothing in the directory is changed.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega log show cell\n  omega log at cell 1200"
    )]
    Log(log::LogCommand),
    /// Report the hourly allocations of jobs or tenants, as recorded in the directory of a stopped replica.
    ///
    /// The report reaches back to the oldest snapshot in the directory.
    Accounting(accounting::AccountingArgs),
    /// List, add, drain and remove the machines of a cell.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega machine list\n  omega machine drain m-1 --deadline 10m"
    )]
    Machine(commands::machine::MachineCommand),
    /// Submit, list, update and end jobs.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega job list\n  omega job submit web --count 3 --cpu 0.5 --service"
    )]
    Job(commands::jobs::job::JobCommand),
    /// List the tasks of a job or a machine, print their output, and resize them.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega task list --job web\n  omega task logs web/0 -f"
    )]
    Task(commands::task::TaskCommand),
    /// List and set the limits and guarantees of tenants.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega quota list\n  omega quota set team-a --cpu 100 --memory 1TiB"
    )]
    Quota(commands::quota::QuotaCommand),
    /// Reserve machines for some tenants for a time.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega reservation list\n  omega reservation create demo --label rack=a --tenant show --from 2h --for 30m"
    )]
    Reservation(commands::reservation::ReservationCommand),
    /// List and set resources that belong to no machine, such as licences.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega cluster-resource list\n  omega cluster-resource set solver-licence 40"
    )]
    ClusterResource(commands::resource::ResourceCommand),
    /// Limit batch tasks in favour of services during peak hours.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega peak list\n  omega peak set web --label pool=web --peak 08:00-20:00,cpu=30"
    )]
    Peak(commands::peak::PeakCommand),
    /// Show and change the cell's policy: bands, eviction limit, overcommit, and how long ended jobs are kept.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega policy get\n  omega policy set --evictions 20/1m"
    )]
    Policy(commands::policy::PolicyCommand),
    /// List, add, promote and remove the replicas of a cell.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega member list\n  omega member add 4 db4.example:7601"
    )]
    Member(commands::member::MemberCommand),
    /// List the scheduler names of a cell and the processes that own them, and revoke leases.
    #[command(subcommand, after_help = "Examples:\n  omega lease list\n  omega lease revoke web")]
    Lease(commands::lease::LeaseCommand),
    /// Show the results of past transactions, and commit transactions from a file.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega txn list --limit 20\n  omega txn get default-0:17"
    )]
    Txn(commands::txn::TxnCommand),
    /// Show the id, the leader and the allocation of a cell.
    Cell(commands::cell::DescribeArgs),
    /// Save the addresses of cells under names, and choose the cell that commands use by default.
    ///
    /// Contexts are in ~/.config/omega/config.toml, or in the file that OMEGA_CONFIG names.
    #[command(
        subcommand,
        after_help = "Examples:\n  omega context set prod --cell 10.0.0.1:7600,10.0.0.2:7600\n  omega context use prod"
    )]
    Context(commands::context::ContextCommand),
    /// Watch a cell: allocation, schedulers, and pending jobs with reasons.
    Top(commands::top::TopArgs),
    /// Check that an audit log was not changed.
    #[command(subcommand, after_help = "Example:\n  omega audit verify audit.log")]
    Audit(audit::AuditCommand),
    /// Save the whole state of a served cell in a file.
    Backup(commands::backup::BackupArgs),
    /// Create a replica of a new cell from a backup; then start the replica with `omega serve`.
    Restore(restore::RestoreArgs),
    /// Print shell completions.
    #[command(
        after_help = "Example:\n  omega completions bash > ~/.local/share/bash-completion/completions/omega"
    )]
    Completions(completions::CompletionArgs),
    /// Print the manual of all commands, or write a manual page for each command.
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
    #[error(transparent)]
    Serve(#[from] serve::ServeError),
    #[error(transparent)]
    Cert(#[from] cert::CertError),
    #[error(transparent)]
    Scheduler(#[from] scheduler::SchedulerError),
    #[error(transparent)]
    Command(#[from] commands::CommandError),
    #[error(transparent)]
    Audit(#[from] audit::AuditError),
    #[error(transparent)]
    Restore(#[from] restore::RestoreError),
}

impl Error {
    /// The exit code: the code of bad input, except for errors with codes of their own.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Error::Command(error) => error.exit_code(),
            Error::Audit(error) => error.exit_code(),
            Error::Serve(error) if error.is_exposed() => EXPOSED,
            Error::Serve(error) if error.is_of_disk() => DISK_FAILED,
            Error::Serve(error) if error.may_pass() => FAILED,
            Error::Scheduler(error) if error.may_pass() => FAILED,
            Error::Agent(error) if error.may_pass() => FAILED,
            Error::History(HistoryError::Directory(OpenDirectoryError::Locked(_))) => FAILED,
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
        Verb::Cert(command) => cert::run(&command)?,
        Verb::Dev(args) => dev::run(&args)?,
        Verb::Serve(args) => serve::serve(*args)?,
        Verb::Machine(command) => commands::machine::run(&command)?,
        Verb::Job(command) => commands::jobs::job::run(&command)?,
        Verb::Task(command) => commands::task::run(&command)?,
        Verb::Reservation(command) => commands::reservation::run(&command)?,
        Verb::ClusterResource(command) => commands::resource::run(&command)?,
        Verb::Peak(command) => peak(&command)?,
        Verb::Quota(command) => commands::quota::run(&command)?,
        Verb::Policy(command) => commands::policy::run(&command)?,
        Verb::Member(command) => commands::member::run(&command)?,
        Verb::Lease(command) => commands::lease::run(&command)?,
        Verb::Txn(command) => commands::txn::run(&command)?,
        Verb::Cell(args) => commands::cell::run(&args)?,
        Verb::Context(command) => commands::context::run(&command)?,
        Verb::Top(args) => commands::top::run(&args)?,
        Verb::Audit(command) => audit::run(&command)?,
        Verb::Backup(args) => commands::backup::run(&args)?,
        Verb::Restore(args) => restore::run(&args)?,
        Verb::Completions(args) => completions::completions(&args)?,
        Verb::Man(args) => manual::manual(&args)?,
    }
    Ok(())
}

/// Runs a command about peak calendars, or the peak controller.
fn peak(command: &commands::peak::PeakCommand) -> Result<(), Error> {
    use commands::peak::PeakCommand;
    match command {
        PeakCommand::List(ask) => commands::peak::list(ask)?,
        PeakCommand::Set(args) => commands::peak::set(args)?,
        PeakCommand::Remove(args) => commands::peak::remove(args)?,
        PeakCommand::Run(args) => peak_run::run(args)?,
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
