//! The program of a task: command, environment, user, health check, restarts on the same machine, and the opaque
//! payload.
//!
//! The cell does not interpret these fields. It checks their sizes, and sends them to the agent of the task's machine.

use crate::text::Text;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The program that each task of a group runs, on the machine itself or in a container. (Nomad's `raw_exec`, `exec` and
/// `podman` drivers.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    /// Path of the program, or a name that is looked up in `PATH`. If it is empty, the program is the entry point of
    /// the image.
    pub command: Text,
    /// Arguments, without the program itself.
    pub args: Vec<Text>,
    /// Container image of the program; `None` runs the program on the machine itself.
    pub image: Option<Text>,
    /// Files and folders of the machine that the container has.
    pub mounts: Vec<Mount>,
    /// Environment variables, each name once.
    pub env: Vec<EnvVar>,
    /// Working directory; `None` means a directory for the task alone, which is removed with the task, and in a
    /// container the directory that the image names.
    pub working_dir: Option<Text>,
    /// Name of the user under whose account the program runs; `None` means the agent's user, and in a container the
    /// user that the image names.
    pub user: Option<Text>,
    /// Names for the group's ports. The program gets each port's number in the environment variable
    /// `OMEGA_PORT_<NAME>`.
    pub ports: Vec<NamedPort>,
    /// Health check. The task is ready when the check succeeds, and the program is restarted when the check fails.
    pub health: Option<HealthCheck>,
    /// Restarts of a failed program on the same machine.
    pub restart: RestartPolicy,
}

impl Run {
    /// A program without arguments.
    #[must_use]
    pub fn new(command: impl Into<Text>) -> Run {
        Run { command: command.into(), ..Run::default() }
    }

    /// Adds arguments.
    #[must_use]
    pub fn with_args(mut self, args: impl IntoIterator<Item = impl Into<Text>>) -> Run {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// An environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnvVar {
    /// Name of the variable.
    pub name: Text,
    /// Value of the variable.
    pub value: Text,
}

/// A file or folder of the machine that a container has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mount {
    /// Absolute path on the machine.
    pub source: Text,
    /// Absolute path in the container.
    pub target: Text,
    /// Whether the container may only read.
    pub is_read_only: bool,
}

/// A name of one of the group's ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamedPort {
    /// Name of the port.
    pub name: Text,
    /// Number of the port, which must be one of the group's ports.
    pub number: u16,
}

/// Restarts of a failed program by its agent, on the same machine. If no restart is left, the task fails. Then
/// [`TaskGroup::restarts`](crate::TaskGroup::restarts) decides whether the task is placed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// Maximum number of restarts in a row. A run of at least ten minutes resets the count.
    pub attempts: u32,
    /// Delay before the first restart in a row, in milliseconds; agents wait at least 100 ms. Each further restart
    /// doubles the delay, up to five minutes.
    pub delay_ms: u32,
}

/// A check of a running program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HealthCheck {
    /// Test that the agent performs.
    pub probe: Probe,
    /// Time between two tests, in milliseconds.
    pub interval_ms: u32,
    /// Time limit of a test, in milliseconds.
    pub timeout_ms: u32,
    /// Number of failed tests in a row after which the agent kills the program, which then counts as failed.
    pub failures: u32,
    /// Time after the start, in milliseconds, in which failed tests are ignored. This time ends early when a test
    /// succeeds.
    pub start_period_ms: u32,
}

/// Test of a health check.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// Runs a command in the environment of the program. The test succeeds if the command exits with 0.
    Command(Vec<Text>),
    /// Connects to a TCP port of the machine. The test succeeds if the connection is accepted.
    Tcp(u16),
    /// Sends an HTTP GET request to a port of the machine. The test succeeds if the status is from 200 to 399.
    Http {
        /// Number of the port.
        port: u16,
        /// The path, which begins with `/`.
        path: Text,
    },
    /// Connects to the group's port of this name. Otherwise like [`Probe::Tcp`].
    NamedTcp(Text),
    /// Sends an HTTP GET request to the group's port of the given name. Otherwise like [`Probe::Http`].
    NamedHttp {
        /// Name of the port.
        port: Text,
        /// The path, which begins with `/`.
        path: Text,
    },
}

/// Opaque bytes of a task group for its agent. Copies share one allocation.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Payload(Arc<[u8]>);

impl Payload {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the payload is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload(bytes.into())
    }
}

impl fmt::Debug for Payload {
    /// Prints only the length, because payloads may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Payload, D::Error> {
        deserializer.deserialize_byte_buf(PayloadVisitor)
    }
}

struct PayloadVisitor;

impl<'de> Visitor<'de> for PayloadVisitor {
    type Value = Payload;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Payload, E> {
        Ok(Payload(bytes.into()))
    }

    fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<Payload, E> {
        Ok(bytes.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Payload, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element()? {
            bytes.push(byte);
        }
        Ok(bytes.into())
    }
}
