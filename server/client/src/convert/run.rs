//! Conversion of tasks' programs.

use super::job::{strings, texts};
use super::{Malformed, given, narrow};
use crate::proto;
use omega_core::{
    EndReason, EnvVar, HealthCheck, Mount, NamedPort, Probe, RestartPolicy, Run, RunEnd, TaskGroup,
    Text,
};

impl From<&Run> for proto::Run {
    fn from(run: &Run) -> Self {
        let or_empty = |text: &Option<Text>| text.as_deref().unwrap_or_default().to_owned();
        let variable = |variable: &EnvVar| proto::EnvVar {
            name: variable.name.to_string(),
            value: variable.value.to_string(),
        };
        let RestartPolicy { attempts, delay_ms } = run.restart;
        proto::Run {
            command: run.command.to_string(),
            args: strings(&run.args),
            env: run.env.iter().map(variable).collect(),
            working_dir: or_empty(&run.working_dir),
            user: or_empty(&run.user),
            ports: run.ports.iter().map(named_port).collect(),
            health: run.health.as_ref().map(health),
            restart: Some(proto::RestartPolicy { attempts, delay_ms }),
            image: or_empty(&run.image),
            mounts: run.mounts.iter().map(mount).collect(),
        }
    }
}

impl TryFrom<proto::Run> for Run {
    type Error = Malformed;

    fn try_from(run: proto::Run) -> Result<Self, Malformed> {
        let given_text = |text: String| (!text.is_empty()).then(|| Text::from(text));
        let variable =
            |one: proto::EnvVar| EnvVar { name: one.name.into(), value: one.value.into() };
        let proto::RestartPolicy { attempts, delay_ms } = run.restart.unwrap_or_default();
        Ok(Run {
            command: run.command.into(),
            args: texts(run.args),
            env: run.env.into_iter().map(variable).collect(),
            working_dir: given_text(run.working_dir),
            user: given_text(run.user),
            ports: run.ports.into_iter().map(named_port_in).collect::<Result<_, _>>()?,
            health: run.health.map(health_in).transpose()?,
            restart: RestartPolicy { attempts, delay_ms },
            image: given_text(run.image),
            mounts: run.mounts.into_iter().map(mount_in).collect(),
        })
    }
}

fn mount(mount: &Mount) -> proto::Mount {
    proto::Mount {
        source: mount.source.to_string(),
        target: mount.target.to_string(),
        read_only: mount.is_read_only,
    }
}

fn mount_in(mount: proto::Mount) -> Mount {
    Mount {
        source: mount.source.into(),
        target: mount.target.into(),
        is_read_only: mount.read_only,
    }
}

/// Converts a port and its name to a message.
#[must_use]
pub fn named_port(port: &NamedPort) -> proto::NamedPort {
    proto::NamedPort { name: port.name.to_string(), number: port.number.into() }
}

/// Converts a message to a port and its name.
///
/// # Errors
/// The number is above 65,535.
pub fn named_port_in(port: proto::NamedPort) -> Result<NamedPort, Malformed> {
    let number = narrow(port.number, u16::MAX, "port.number")?;
    Ok(NamedPort { name: port.name.into(), number })
}

/// Converts the ports that the cell chose for a task to messages. The names of the ports come from the task's group.
#[must_use]
pub fn chosen_ports(group: &TaskGroup, chosen: &[u16]) -> Vec<proto::NamedPort> {
    let named = |(name, number): (&Text, &u16)| proto::NamedPort {
        name: name.to_string(),
        number: (*number).into(),
    };
    group.any_ports.iter().zip(chosen).map(named).collect()
}

fn health(check: &HealthCheck) -> proto::HealthCheck {
    use proto::health_check::Probe as Sent;
    let probe = match &check.probe {
        Probe::Command(words) => Sent::Command(proto::CommandProbe { words: strings(words) }),
        Probe::Tcp(port) => Sent::TcpPort((*port).into()),
        Probe::Http { port, path } => {
            let (port, path) = ((*port).into(), path.to_string());
            Sent::Http(proto::HttpProbe { port, path, port_name: String::new() })
        }
        Probe::NamedTcp(name) => Sent::TcpPortName(name.to_string()),
        Probe::NamedHttp { port, path } => Sent::Http(proto::HttpProbe {
            port: 0,
            path: path.to_string(),
            port_name: port.to_string(),
        }),
    };
    proto::HealthCheck {
        probe: Some(probe),
        interval_ms: check.interval_ms,
        timeout_ms: check.timeout_ms,
        failures: check.failures,
        start_period_ms: check.start_period_ms,
    }
}

fn health_in(check: proto::HealthCheck) -> Result<HealthCheck, Malformed> {
    use proto::health_check::Probe as Sent;
    let port = |port| narrow(port, u16::MAX, "run.health.port");
    let probe = match given(check.probe, "run.health.probe")? {
        Sent::Command(command) => Probe::Command(texts(command.words)),
        Sent::TcpPort(number) => Probe::Tcp(port(number)?),
        Sent::TcpPortName(name) => Probe::NamedTcp(name.into()),
        Sent::Http(http) if !http.port_name.is_empty() => {
            Probe::NamedHttp { port: http.port_name.into(), path: http.path.into() }
        }
        Sent::Http(http) => Probe::Http { port: port(http.port)?, path: http.path.into() },
    };
    Ok(HealthCheck {
        probe,
        interval_ms: check.interval_ms,
        timeout_ms: check.timeout_ms,
        failures: check.failures,
        start_period_ms: check.start_period_ms,
    })
}

impl From<&RunEnd> for proto::RunEnd {
    fn from(end: &RunEnd) -> Self {
        use proto::EndReason as Sent;
        let (mut number, mut message) = (0, String::new());
        let reason = match &end.reason {
            EndReason::ExitCode(code) => {
                number = *code;
                Sent::ExitCode
            }
            EndReason::Signal(signal) => {
                number = *signal;
                Sent::Signal
            }
            EndReason::OutOfMemory => Sent::OutOfMemory,
            EndReason::Unhealthy => Sent::Unhealthy,
            EndReason::Stopped => Sent::Stopped,
            EndReason::NotStarted(why) => {
                message = why.to_string();
                Sent::NotStarted
            }
            EndReason::SupervisorLost => Sent::SupervisorLost,
            _ => Sent::Unspecified,
        };
        proto::RunEnd { reason: reason.into(), number, message, restarts: end.restarts }
    }
}

/// Converts the end of a run. `None` if the message has no end, or an end that this program does not support yet.
#[must_use]
pub fn run_end(end: &proto::RunEnd) -> Option<RunEnd> {
    use proto::EndReason as Sent;
    let reason = match end.reason() {
        Sent::Unspecified => return None,
        Sent::ExitCode => EndReason::ExitCode(end.number),
        Sent::Signal => EndReason::Signal(end.number),
        Sent::OutOfMemory => EndReason::OutOfMemory,
        Sent::Unhealthy => EndReason::Unhealthy,
        Sent::Stopped => EndReason::Stopped,
        Sent::NotStarted => EndReason::not_started(&end.message),
        Sent::SupervisorLost => EndReason::SupervisorLost,
    };
    Some(RunEnd { reason, restarts: end.restarts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_back() {
        let reasons = [
            EndReason::ExitCode(-3),
            EndReason::Signal(9),
            EndReason::OutOfMemory,
            EndReason::Unhealthy,
            EndReason::Stopped,
            EndReason::not_started("no such file"),
            EndReason::SupervisorLost,
        ];
        for reason in reasons {
            let end = RunEnd { reason, restarts: 3 };
            assert_eq!(run_end(&(&end).into()), Some(end));
        }
        assert_eq!(run_end(&proto::RunEnd::default()), None);
    }
}
