//! The commands of `served.rs` in a build without the feature `serve`. Each ends with an error that contains the
//! command to build the feature.

use std::ffi::OsString;

/// The end of the help.
pub(crate) const HELP: &str = "Example:\n  omega run --synthetic 2000 --hours 4\n\nThis build only runs workloads. To serve and operate a cell, build \
     the whole program with `cargo build --release --features serve`: this adds the commands serve, dev, scheduler, agent, job, machine, top and more.\n\n\
     Exit codes: 0 is success; 2 is an invalid argument or input.";

/// The commands of the feature. A test compares them with those in `served.rs`.
pub(crate) const SERVED: [&str; 26] = [
    "serve",
    "cert",
    "dev",
    "scheduler",
    "agent",
    "log",
    "accounting",
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

/// Reason for which a command is missing, as one line for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "this build of omega does not support {0}, because it only runs workloads: build the whole \
         program with `cargo build --release --features serve`"
    )]
    NotBuilt(String),
    #[error("unrecognized subcommand '{0}'; see omega --help")]
    Unknown(String),
}

impl Error {
    /// The exit code, which is that of bad input.
    pub(crate) fn exit_code(&self) -> u8 {
        crate::BAD_INPUT
    }
}

/// Reports that a command, given with its arguments, is not in this build.
pub(crate) fn run(verb: Vec<OsString>) -> Result<(), Error> {
    let name = verb.first().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    if SERVED.contains(&&*name) {
        Err(Error::NotBuilt(format!("omega {name}")))
    } else {
        Err(Error::Unknown(name))
    }
}
