//! Errors of the client.

use std::path::PathBuf;
use std::time::Duration;

/// Error of a configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read. Correct its path or permissions.
    #[error("{}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A field is missing or wrong. Correct the field.
    #[error("{}: {message}", path.display())]
    Field {
        /// Path of the file.
        path: PathBuf,
        /// The field, its value, the rule and the remedy.
        message: String,
    },
    /// There is neither a kubeconfig nor a service account. Give one of them.
    #[error(
        "no cluster is given: give --kubeconfig FILE, set KUBECONFIG, or create ~/.kube/config; in \
         a pod, KUBERNETES_SERVICE_HOST and the service account's token are used"
    )]
    NoCluster,
    /// TLS cannot be set up. The message has the reason.
    #[error("TLS: {0}: give PEM certificates and a matching key")]
    Tls(String),
    /// A credential plugin failed. Run the program by hand to see why.
    #[error("credential plugin {command:?}: {message}")]
    Exec {
        /// The program.
        command: String,
        /// The failure.
        message: String,
    },
}

/// Error of a call without a complete answer. The call may have had its effect nevertheless.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The credentials or the configuration cannot be used, so nothing was sent. Correct the configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server cannot be reached, so nothing was sent. Correct the address, or try again.
    #[error("cannot connect to the API server at {0}: {1}")]
    Connect(String, std::io::Error),
    /// The connection broke. The call may have had its effect.
    #[error("the connection to the API server was lost: {0}")]
    Broken(String),
    /// There was no answer within the time limit. The call may have had its effect.
    #[error("the API server did not answer within {0:?}")]
    Timeout(Duration),
    /// The answer is longer than the maximum for such an answer.
    #[error("the answer of the API server is longer than {0} bytes, the maximum for this call")]
    Body(usize),
    /// A stream's line is longer than any object can be.
    #[error("a line of the watch is longer than {0} bytes, the maximum for an object")]
    Line(usize),
}

impl CallError {
    /// Whether the server gave no answer. The client writes such errors to the log, so its callers need not.
    #[must_use]
    pub fn is_no_answer(&self) -> bool {
        matches!(self, CallError::Connect(..) | CallError::Broken(_) | CallError::Timeout(_))
    }
}
