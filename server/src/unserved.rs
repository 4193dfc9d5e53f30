//! The verbs of `served.rs` in a build without the feature `serve`: each ends with the command that builds it.

use clap::Subcommand;
use std::ffi::OsString;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// The verbs of the feature; a test compares them with those of `served.rs`.
pub(crate) const SERVED: [&str; 24] = [
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
    "resource",
    "peak",
    "policy",
    "member",
    "lease",
    "txn",
    "cell",
    "top",
    "audit",
    "backup",
    "restore",
    "completions",
    "man",
];

/// Why a verb cannot be done. One line for the user.
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

/// Says that a verb is not there.
pub(crate) fn run(verb: Verb) -> Result<(), Error> {
    let Verb::Other(arguments) = verb;
    let name = arguments.first().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    match SERVED.contains(&&*name) {
        true => Err(Error::NotBuilt(format!("omega {name}"))),
        false => Err(Error::Unknown(name)),
    }
}
