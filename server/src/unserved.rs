//! The verbs of `served.rs` in a build without the feature `serve`: each ends with the command that builds it.

use std::ffi::OsString;

/// The end of the help.
pub(crate) const HELP: &str = "This build only runs workloads. To serve and operate a cell, build it with \
    cargo build --release --features serve: it adds serve, dev, scheduler, agent, job, machine, top and more.";

/// The verbs of the feature; a test compares them with those of `served.rs`.
pub(crate) const SERVED: [&str; 25] = [
    "serve",
    "cert",
    "dev",
    "scheduler",
    "agent",
    "log",
    "machine",
    "job",
    "task",
    "quota",
    "reservation",
    "cluster-resource",
    "peak",
    "policy",
    "member",
    "lease",
    "txn",
    "cell",
    "context",
    "top",
    "audit",
    "backup",
    "restore",
    "completions",
    "man",
];

/// Reason for which a command is missing: one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "{0} is not in this build of omega, which only runs workloads; build all of it with \
         cargo build --release --features serve"
    )]
    NotBuilt(String),
    #[error("unrecognized subcommand '{0}'; see omega --help")]
    Unknown(String),
}

impl Error {
    /// The exit code: bad input.
    pub(crate) fn exit_code(&self) -> u8 {
        crate::BAD_INPUT
    }
}

/// Reports that a command is not in this build. It is given with its arguments.
pub(crate) fn run(verb: Vec<OsString>) -> Result<(), Error> {
    let name = verb.first().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    match SERVED.contains(&&*name) {
        true => Err(Error::NotBuilt(format!("omega {name}"))),
        false => Err(Error::Unknown(name)),
    }
}
