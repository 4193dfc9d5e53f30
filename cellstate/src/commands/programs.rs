//! Bounds of the programs and payloads of jobs.
//!
//! These checks make sure that an agent can start an accepted program: its strings have no NUL byte, no variable occurs
//! twice, and the program fits into a message to an agent.

use crate::commands::bounds::at_most;
use crate::commands::texts;
use omega_core::limits::{
    HEALTH_MS_MAX, PAYLOAD_BYTES_MAX, RUN_BYTES_MAX, RUN_MOUNTS_MAX, RUN_TEXT_BYTES_MAX,
    RUN_TEXTS_MAX,
};
use omega_core::{
    EnvVar, HealthCheck, Mount, NamedPort, Probe, Rejection, Run, TaskGroup, Text, bytes_at_most,
};
use std::collections::BTreeSet;

type Checked = Result<(), Rejection>;

/// Prefix of the environment variables that agents set. Jobs must not set variables with this prefix.
const RESERVED_PREFIX: &str = "OMEGA_";

/// Checks the program and the payload of a group.
pub fn program(group: &TaskGroup) -> Checked {
    at_most("bytes of a payload", group.payload.as_bytes().len(), PAYLOAD_BYTES_MAX)?;
    let named = group.run.as_ref().map_or(&[][..], |run| &run.ports);
    let ports = ports(group, named)?;
    let Some(run) = &group.run else { return Ok(()) };
    command(group, run)?;
    at_most("environment variables of a program", run.env.len(), RUN_TEXTS_MAX)?;
    env(group, &run.env)?;
    container(group, run)?;
    if let Some(check) = &run.health {
        health(group, check)?;
        if let Probe::NamedTcp(port) | Probe::NamedHttp { port, .. } = &check.probe
            && !ports.contains(port)
        {
            let rule = "names a port that the group does not have: name one of its ports";
            return Err(bad(group, "run.health", rule));
        }
    }
    let delay = run.restart.delay_ms;
    at_most("milliseconds before a restart", delay as usize, HEALTH_MS_MAX as usize)?;
    at_most("bytes of a program", bytes_at_most(&**run), RUN_BYTES_MAX)
}

fn bad(group: &TaskGroup, field: &str, rule: &str) -> Rejection {
    Rejection::BadJob(format!("group {:?}: {field} {rule}", group.name).into())
}

fn text(group: &TaskGroup, field: &str, text: &Text) -> Checked {
    at_most(&format!("bytes of {field}"), text.len(), RUN_TEXT_BYTES_MAX)?;
    if text.contains('\0') {
        Err(bad(
            group,
            field,
            "has a NUL byte, which no program can receive: leave it \
             out",
        ))
    } else {
        Ok(())
    }
}

fn command(group: &TaskGroup, run: &Run) -> Checked {
    if run.command.is_empty() && run.image.is_none() {
        return Err(bad(group, "run.command", "is empty: give a program such as \"/bin/sh\""));
    }
    text(group, "run.command", &run.command)?;
    at_most("arguments of a program", run.args.len(), RUN_TEXTS_MAX)?;
    run.args.iter().try_for_each(|arg| text(group, "run.args", arg))?;
    if let Some(dir) = &run.working_dir {
        text(group, "run.working_dir", dir)?;
        if !dir.starts_with('/') {
            return Err(bad(group, "run.working_dir", "is not absolute: must begin with \"/\""));
        }
    }
    run.user.iter().try_for_each(|user| texts::name("user", user))
}

/// Checks the fields that only containers have. Agents pass the image, the user and the mounts to Podman as arguments,
/// and the variables as a file with a line for each.
fn container(group: &TaskGroup, run: &Run) -> Checked {
    let Some(image) = &run.image else {
        let rule = "needs an image: leave it out, or give run.image";
        return if run.mounts.is_empty() { Ok(()) } else { Err(bad(group, "run.mounts", rule)) };
    };
    texts::name("image", image)?;
    if image.starts_with('-') || image.contains(char::is_whitespace) {
        let rule = "is no image: give a name such as \"docker.io/library/nginx:1.27\"";
        return Err(bad(group, "run.image", rule));
    }
    if run.env.iter().any(|variable| variable.value.contains('\n')) {
        let rule = "has a line break, which the variables of a container cannot have: leave it out";
        return Err(bad(group, "run.env", rule));
    }
    at_most("mounts of a container", run.mounts.len(), RUN_MOUNTS_MAX)?;
    for path in run.mounts.iter().flat_map(|Mount { source, target, .. }| [source, target]) {
        texts::name("path of a mount", path)?;
        if !path.starts_with('/') || path.contains([',', '"']) {
            let rule = "has a path that is not absolute, or that has a comma or a quotation mark";
            return Err(bad(group, "run.mounts", rule));
        }
    }
    Ok(())
}

fn env(group: &TaskGroup, env: &[EnvVar]) -> Checked {
    let mut names = BTreeSet::new();
    for EnvVar { name, value } in env {
        text(group, "run.env", name)?;
        text(group, "run.env", value)?;
        texts::name("environment variable", name)?;
        if name.contains('=') {
            return Err(bad(
                group,
                "run.env",
                "has a name that contains \"=\": leave this \
                 character out",
            ));
        }
        if name.starts_with(RESERVED_PREFIX) {
            return Err(bad(
                group,
                "run.env",
                "has a name that begins with OMEGA_: choose another name, because agents set \
                 these variables",
            ));
        }
        if !names.insert(name) {
            return Err(bad(group, "run.env", "has the same name twice: give each name once"));
        }
    }
    Ok(())
}

/// Checks the names of all ports: those of `run`, and those of ports that the cell chooses. Returns the names.
fn ports<'a>(
    group: &'a TaskGroup,
    named: &'a [NamedPort],
) -> Result<BTreeSet<&'a Text>, Rejection> {
    let (mut names, mut variables) = (BTreeSet::new(), BTreeSet::new());
    for name in named.iter().map(|port| &port.name).chain(&group.any_ports) {
        texts::name("port name", name)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !name.chars().all(is_plain) {
            let rule = "has an invalid name: must consist of letters, digits, \"-\" and \"_\"";
            return Err(bad(group, "ports", rule));
        }
        if !variables.insert(name.to_ascii_uppercase().replace('-', "_")) {
            return Err(bad(group, "ports", "has the same name twice: give each name once"));
        }
        names.insert(name);
    }
    let has = |named: &NamedPort| group.rules.ports.iter().any(|port| port.number == named.number);
    if named.iter().all(has) {
        Ok(names)
    } else {
        Err(bad(group, "run.ports", "names a port that the group does not have"))
    }
}

fn health(group: &TaskGroup, check: &HealthCheck) -> Checked {
    let HealthCheck { probe, interval_ms, timeout_ms, failures, start_period_ms } = check;
    let times =
        [("interval", interval_ms), ("timeout", timeout_ms), ("start period", start_period_ms)];
    for (what, time) in times {
        let what = format!("milliseconds of the {what} of a health check");
        at_most(&what, *time as usize, HEALTH_MS_MAX as usize)?;
    }
    if [interval_ms, timeout_ms, failures].contains(&&0) {
        let rule = "has an interval, timeout or number of failures of 0: each must be at least 1";
        return Err(bad(group, "run.health", rule));
    }
    match probe {
        Probe::Command(words) if words.first().is_none_or(|word| word.is_empty()) => {
            Err(bad(group, "run.health.command", "is empty: give a program and its arguments"))
        }
        Probe::Command(words) => {
            at_most("arguments of a health check", words.len(), RUN_TEXTS_MAX)?;
            words.iter().try_for_each(|word| text(group, "run.health.command", word))
        }
        Probe::Tcp(0) | Probe::Http { port: 0, .. } => {
            Err(bad(group, "run.health", "has port 0: must be 1 to 65535"))
        }
        Probe::Tcp(_) | Probe::NamedTcp(_) => Ok(()),
        Probe::Http { path, .. } | Probe::NamedHttp { path, .. } => {
            let is_path = path.starts_with('/') && path.chars().all(|c| c.is_ascii_graphic());
            if is_path {
                Ok(())
            } else {
                Err(bad(
                    group,
                    "run.health.http",
                    "is not a path: must begin with \"/\", with spaces and special characters \
                     encoded",
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Port, RestartPolicy};
    use std::sync::Arc;

    fn group(run: Run) -> TaskGroup {
        let mut group = TaskGroup::new(1, Amounts::zero());
        group.rules.ports = vec![Port::tcp(80)];
        group.run = Some(Arc::new(run));
        group
    }

    fn variable(name: &str, value: &str) -> EnvVar {
        EnvVar { name: name.into(), value: value.into() }
    }

    fn refused(change: impl FnOnce(&mut Run)) -> String {
        let mut run = Run::new("/bin/sh").with_args(["-c", "echo a\nexit 3"]);
        change(&mut run);
        program(&group(run)).err().map_or_else(String::new, |why| why.to_string())
    }

    fn checked(probe: Probe) -> Option<HealthCheck> {
        let (interval_ms, timeout_ms, failures, start_period_ms) = (1000, 500, 3, 0);
        Some(HealthCheck { probe, interval_ms, timeout_ms, failures, start_period_ms })
    }

    #[test]
    fn a_program_within_bounds_is_taken() {
        let why = refused(|run| {
            run.env = vec![variable("A", "1"), variable("B", "x\ny")];
            run.working_dir = Some("/tmp".into());
            run.user = Some("nobody".into());
            run.ports = vec![NamedPort { name: "http".into(), number: 80 }];
            run.health = checked(Probe::Http { port: 80, path: "/healthy?a=b".into() });
            run.restart = RestartPolicy { attempts: 3, delay_ms: 1000 };
        });
        assert_eq!(why, "");
    }

    #[test]
    fn each_bound_is_named() {
        let long: Text = "x".repeat(RUN_TEXT_BYTES_MAX + 1).into();
        let named = |name: &str, number| vec![NamedPort { name: name.into(), number }];
        let cases = [
            (refused(|run| run.command = "".into()), "run.command is empty"),
            (refused(|run| run.args.push("a\0b".into())), "run.args has a NUL byte"),
            (refused(|run| run.args.push(long)), "bytes of run.args"),
            (refused(|run| run.args = vec!["x".into(); 1025]), "arguments of a program"),
            (refused(|run| run.args = vec!["x".repeat(30_000).into(); 3]), "bytes of a program"),
            (refused(|run| run.env = vec![variable("A=", "")]), "a name that contains \"=\""),
            (refused(|run| run.env = vec![variable("OMEGA_JOB", "")]), "because agents set"),
            (
                refused(|run| run.env = vec![variable("A", ""), variable("A", "")]),
                "the same name twice",
            ),
            (refused(|run| run.working_dir = Some("tmp".into())), "is not absolute"),
            (refused(|run| run.user = Some("".into())), "is empty"),
            (refused(|run| run.ports = named("http", 81)), "does not have"),
            (refused(|run| run.ports = named("ht tp", 80)), "must consist of letters"),
            (refused(|run| run.health = checked(Probe::Tcp(0))), "port 0"),
            (refused(|run| run.health = checked(Probe::Command(Vec::new()))), "is empty"),
            (
                refused(|run| run.health = checked(Probe::Http { port: 1, path: "x".into() })),
                "is not a path",
            ),
            (refused(|run| run.restart.delay_ms = HEALTH_MS_MAX + 1), "before a restart"),
        ];
        for (why, part) in cases {
            assert!(why.contains(part), "{why:?} should name {part:?}");
        }
    }

    #[test]
    fn the_fields_of_a_container_are_checked() {
        let mount = |source: &str, target: &str| Mount {
            source: source.into(),
            target: target.into(),
            is_read_only: false,
        };
        let with = |image: &str, change: &dyn Fn(&mut Run)| {
            refused(|run| {
                run.image = Some(image.into());
                change(run);
            })
        };
        let entry_point = |run: &mut Run| {
            run.command = "".into();
            run.mounts = vec![mount("/srv/web", "/www")];
        };
        assert_eq!(with("docker.io/library/nginx:1.27@sha256:0a", &entry_point), "");
        let cases = [
            (with("", &|_| ()), "is empty"),
            (with("--privileged", &|_| ()), "is no image"),
            (with("a b", &|_| ()), "is no image"),
            (with("a", &|run| run.env = vec![variable("A", "x\ny")]), "has a line break"),
            (with("a", &|run| run.mounts = vec![mount("srv", "/www")]), "not absolute"),
            (with("a", &|run| run.mounts = vec![mount("/srv", "/a,ro=false")]), "a comma"),
            (with("a", &|run| run.mounts = vec![mount("/a", "/b"); 65]), "mounts of a container"),
            (refused(|run| run.mounts = vec![mount("/a", "/b")]), "needs an image"),
        ];
        for (why, part) in cases {
            assert!(why.contains(part), "{why:?} should name {part:?}");
        }
    }

    #[test]
    fn a_payload_has_a_bound() {
        let with = |bytes: usize| {
            program(&TaskGroup {
                payload: vec![7; bytes].into(),
                ..TaskGroup::new(1, Amounts::zero())
            })
        };
        assert_eq!(with(PAYLOAD_BYTES_MAX), Ok(()));
        assert!(with(PAYLOAD_BYTES_MAX + 1).is_err());
    }
}
