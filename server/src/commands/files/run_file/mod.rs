//! The program of a group as described in a job file.

mod written;

use crate::commands::CommandError;
use crate::commands::files::ports_file::{NumberOrText, PortRef};
use crate::commands::files::time_file::TimeFile;
use omega_core::limits::PAYLOAD_BYTES_MAX;
use omega_core::{EnvVar, HealthCheck, Mount, NamedPort, Payload, Probe, RestartPolicy, Run, Text};
use omega_workload::readable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// The program that each task runs.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::commands) struct RunFile {
    /// Path of the program, or a name that is looked up in PATH; in a container, by default, the entry point of the
    /// image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    command: String,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
    /// Environment variables. Names that begin with OMEGA_ are set by the agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    /// Container image in which the program runs; by default, the program runs on the machine itself.
    image: Option<String>,
    /// Files and folders of the machine that the container has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<MountFile>,
    /// Absolute path of the working directory; by default, a directory of the task's own, or the directory that the
    /// image names.
    working_dir: Option<String>,
    /// User that runs the program; by default, the agent's user, or the user that the image names.
    user: Option<String>,
    /// Health check. A task is ready once the check succeeds, and is ended if the check fails.
    health: Option<HealthFile>,
    /// Restarts on the same machine.
    restart: Option<RestartFile>,
}

/// A file or folder of the machine that a container has.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MountFile {
    /// Absolute path on the machine.
    source: String,
    /// Absolute path in the container.
    target: String,
    /// Whether the container may only read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    read_only: bool,
}

/// Restarts on the same machine. If a run fails after the last restart, the task has failed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RestartFile {
    /// Maximum number of restarts in a row. After a run of ten minutes, counting starts again.
    attempts: u32,
    /// Delay before the first restart, at least `100ms`. It doubles with each further restart, up to five minutes.
    #[serde(default = "second")]
    #[schemars(with = "String")]
    delay: TimeFile,
}

/// A check of a running program, by one of `command`, `tcp` and `http`.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HealthFile {
    /// A program with its arguments. The check succeeds if the program exits with 0.
    command: Option<Vec<String>>,
    /// A TCP port, by number or name. The check succeeds if the port accepts a connection.
    #[schemars(with = "Option<NumberOrText>")]
    tcp: Option<PortRef>,
    /// A GET request. The check succeeds if the status is from 200 to 399.
    http: Option<HttpFile>,
    /// Time between two checks.
    #[serde(default = "ten_seconds")]
    #[schemars(with = "String")]
    interval: TimeFile,
    /// Time that a check may take.
    #[serde(default = "second")]
    #[schemars(with = "String")]
    timeout: TimeFile,
    /// Number of failures in a row after which the program is killed and counts as failed.
    #[serde(default = "three")]
    failures: u32,
    /// Time after the start during which failures do not count, unless a check has succeeded.
    #[schemars(with = "Option<String>")]
    start_period: Option<TimeFile>,
}

/// A GET request.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HttpFile {
    /// A port of the machine, or the name of a port of the group.
    #[schemars(with = "NumberOrText")]
    port: PortRef,
    /// The path, which begins with `/`.
    #[serde(default = "slash")]
    path: String,
}

/// Shortest delay before a restart, below which agents would not go.
const DELAY_MIN_MS: u32 = 100;

fn second() -> TimeFile {
    TimeFile::from_secs(1)
}

fn ten_seconds() -> TimeFile {
    TimeFile::from_secs(10)
}

fn three() -> u32 {
    3
}

fn slash() -> String {
    "/".to_owned()
}

impl RunFile {
    /// Returns the program, with the names of the group's ports.
    ///
    /// # Errors
    /// If there is neither a program nor an image, an optional text is empty, the delay of restarts is too short, or the
    /// health check has no probe or several probes.
    pub(in crate::commands) fn run(
        &self,
        at: &str,
        ports: Vec<NamedPort>,
    ) -> Result<Run, CommandError> {
        if self.command.is_empty() && self.image.is_none() {
            let why = "is missing: give a program such as \"/bin/sh\", or an image".to_owned();
            return Err(CommandError::Field { place: format!("{at}.command"), why });
        }
        let named =
            [("image", &self.image), ("working_dir", &self.working_dir), ("user", &self.user)];
        if let Some((field, _)) = named.iter().find(|(_, text)| text.as_deref() == Some("")) {
            let why = "is empty: leave it out for the default".to_owned();
            return Err(CommandError::Field { place: format!("{at}.{field}"), why });
        }
        let delay = self.restart.map_or(DELAY_MIN_MS, |restart| restart.delay.millis());
        if delay < DELAY_MIN_MS {
            let why = format!("{delay}ms is too short: must be at least {DELAY_MIN_MS}ms");
            return Err(CommandError::Field { place: format!("{at}.restart.delay"), why });
        }
        let optional = |text: &Option<String>| text.as_deref().map(Text::from);
        let variable = |(name, value): (&String, &String)| EnvVar {
            name: (&**name).into(),
            value: (&**value).into(),
        };
        let restart = self.restart.map(|restart| RestartPolicy {
            attempts: restart.attempts,
            delay_ms: restart.delay.millis(),
        });
        let mount = |mount: &MountFile| Mount {
            source: mount.source.as_str().into(),
            target: mount.target.as_str().into(),
            is_read_only: mount.read_only,
        };
        Ok(Run {
            command: self.command.as_str().into(),
            args: texts(&self.args),
            image: optional(&self.image),
            mounts: self.mounts.iter().map(mount).collect(),
            env: self.env.iter().map(variable).collect(),
            working_dir: optional(&self.working_dir),
            user: optional(&self.user),
            ports,
            health: self.health.as_ref().map(|health| health.check(at)).transpose()?,
            restart: restart.unwrap_or_default(),
        })
    }
}

impl HealthFile {
    fn check(&self, at: &str) -> Result<HealthCheck, CommandError> {
        let probe = match (&self.command, &self.tcp, &self.http) {
            (Some(words), None, None) => Probe::Command(texts(words)),
            (None, Some(PortRef::Number(port)), None) => Probe::Tcp(*port),
            (None, Some(PortRef::Text(name)), None) => Probe::NamedTcp(name.as_str().into()),
            (None, None, Some(http)) => http.probe(),
            _ => {
                let place = format!("{at}.health");
                let why = "give exactly one of command, tcp and http".to_owned();
                return Err(CommandError::Field { place, why });
            }
        };
        Ok(HealthCheck {
            probe,
            interval_ms: self.interval.millis(),
            timeout_ms: self.timeout.millis(),
            failures: self.failures,
            start_period_ms: self.start_period.map_or(0, TimeFile::millis),
        })
    }
}

impl HttpFile {
    fn probe(&self) -> Probe {
        let path = self.path.as_str().into();
        match &self.port {
            PortRef::Number(port) => Probe::Http { port: *port, path },
            PortRef::Text(name) => Probe::NamedHttp { port: name.as_str().into(), path },
        }
    }
}

fn texts(list: &[String]) -> Vec<Text> {
    list.iter().map(|text| text.as_str().into()).collect()
}

/// The payload of a group: a text, or the bytes of a file, whose path is relative to the job's file.
///
/// # Errors
/// If both are given, or the file cannot be read or is too large.
pub(in crate::commands) fn payload(
    at: &str,
    text: Option<&str>,
    named: Option<&Path>,
) -> Result<Payload, CommandError> {
    let wrong = |why: String| CommandError::Field { place: format!("{at}_file"), why };
    match (text, named) {
        (Some(_), Some(_)) => Err(wrong("give payload or payload_file, not both".to_owned())),
        (Some(text), None) => Ok(text.as_bytes().to_vec().into()),
        (None, None) => Ok(Payload::default()),
        (None, Some(path)) => {
            let read = || {
                let mut bytes = Vec::new();
                let file = readable::open(path)?;
                file.take(PAYLOAD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
                Ok::<_, std::io::Error>(bytes)
            };
            let bytes = read().map_err(|why| wrong(format!("{}: {why}", path.display())))?;
            if bytes.len() > PAYLOAD_BYTES_MAX {
                Err(wrong(format!(
                    "{} is larger than {PAYLOAD_BYTES_MAX} bytes: keep it in a file store from \
                     which the program reads it",
                    path.display()
                )))
            } else {
                Ok(bytes.into())
            }
        }
    }
}
