//! The program of a task: command, environment, user, health check, restarts in place, and the opaque payload.
//!
//! The cell reads none of it: it keeps it within bounds and gives it to the agent of the task's machine.

use crate::text::Text;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The program that each task of a group runs. (Nomad's `raw_exec` and `exec` drivers.)
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    /// Path of the program, or a name that is looked up in `PATH`.
    pub command: Text,
    /// Arguments, without the program itself.
    pub args: Vec<Text>,
    /// Environment variables, each name once.
    pub env: Vec<EnvVar>,
    /// Working directory; `None` is a directory of the task's own, which is removed with the task.
    pub working_dir: Option<Text>,
    /// Name of the user that it runs as; `None` is the agent's.
    pub user: Option<Text>,
    /// Names of the group's ports, for `OMEGA_PORT_<NAME>`.
    pub ports: Vec<NamedPort>,
    /// Check that makes a task ready, and restarts it when it fails.
    pub health: Option<HealthCheck>,
    /// Restarts on the same machine.
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
    /// Its name.
    pub name: Text,
    /// Its value.
    pub value: Text,
}

/// The name of a port of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamedPort {
    /// Its name.
    pub name: Text,
    /// The number, which is one of the group's ports.
    pub number: u16,
}

/// Restarts of a program that fails, on the same machine and without the cell. When they are used up, the task
/// has failed, and [`TaskGroup::restarts`](crate::TaskGroup::restarts) decides whether it is placed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// Number of restarts in a row. A run of ten minutes ends the row.
    pub attempts: u32,
    /// Delay before the first restart, in milliseconds. Each further one of a row doubles it, up to five minutes.
    pub delay_ms: u32,
}

/// A check of a running program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HealthCheck {
    /// Test to perform.
    pub probe: Probe,
    /// Time between two tests, in milliseconds.
    pub interval_ms: u32,
    /// Time limit of a test in milliseconds.
    pub timeout_ms: u32,
    /// Number of failures in a row after which the program is killed and has failed.
    pub failures: u32,
    /// Time from the start in which failures do not count, unless a test has succeeded, in milliseconds.
    pub start_period_ms: u32,
}

/// Test of a health check.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// A command that exits with 0, run as the program is.
    Command(Vec<Text>),
    /// A TCP port of the machine that accepts a connection.
    Tcp(u16),
    /// An HTTP GET request to a port of the machine. It succeeds with a status from 200 to 399.
    Http {
        /// The port.
        port: u16,
        /// The path, which begins with `/`.
        path: Text,
    },
}

/// Opaque bytes of a task group for its agent. Copies share them.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Payload(Arc<[u8]>);

impl Payload {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there are none.
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
    /// Writes only the length, because payloads may contain secrets.
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
