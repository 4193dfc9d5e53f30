//! Conversion of a group's program to the form in a file.

use super::{DELAY_MIN_MS, HealthFile, HttpFile, MountFile, RestartFile, RunFile};
use crate::commands::files::ports_file::PortRef;
use crate::commands::files::time_file::TimeFile;
use omega_core::{HealthCheck, Mount, Probe, RestartPolicy, Run, Text};

fn strings(list: &[Text]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

impl From<&Run> for RunFile {
    fn from(run: &Run) -> RunFile {
        let optional = |text: &Option<Text>| text.as_ref().map(ToString::to_string);
        let RestartPolicy { attempts, delay_ms } = run.restart;
        // Agents wait at least this long, even if a program describes a shorter delay.
        let delay = TimeFile::from_millis(delay_ms.max(DELAY_MIN_MS).into());
        let restart = RestartFile { attempts, delay };
        RunFile {
            command: run.command.to_string(),
            args: strings(&run.args),
            env: run.env.iter().map(|one| (one.name.to_string(), one.value.to_string())).collect(),
            image: optional(&run.image),
            mounts: run.mounts.iter().map(Into::into).collect(),
            working_dir: optional(&run.working_dir),
            user: optional(&run.user),
            health: run.health.as_ref().map(Into::into),
            restart: (run.restart != RestartPolicy::default()).then_some(restart),
        }
    }
}

impl From<&Mount> for MountFile {
    fn from(mount: &Mount) -> MountFile {
        MountFile {
            source: mount.source.to_string(),
            target: mount.target.to_string(),
            read_only: mount.is_read_only,
        }
    }
}

impl From<&HealthCheck> for HealthFile {
    fn from(check: &HealthCheck) -> HealthFile {
        let time = |ms: u32| TimeFile::from_millis(ms.into());
        let (mut command, mut tcp, mut http) = (None, None, None);
        match &check.probe {
            Probe::Command(words) => command = Some(strings(words)),
            Probe::Tcp(port) => tcp = Some(PortRef::Number(*port)),
            Probe::NamedTcp(name) => tcp = Some(PortRef::Text(name.to_string())),
            Probe::Http { port, path } => {
                http = Some(HttpFile { port: PortRef::Number(*port), path: path.to_string() });
            }
            Probe::NamedHttp { port, path } => {
                let port = PortRef::Text(port.to_string());
                http = Some(HttpFile { port, path: path.to_string() });
            }
        }
        HealthFile {
            command,
            tcp,
            http,
            interval: time(check.interval_ms),
            timeout: time(check.timeout_ms),
            failures: check.failures,
            start_period: (check.start_period_ms > 0).then(|| time(check.start_period_ms)),
        }
    }
}
