//! Validation of programs and payloads, implemented independently.

use super::validate::{at_most, bad_job, name};
use omega_core::{Probe, Rejection, Run, TaskGroup, Text, bytes_at_most};
use std::collections::BTreeMap;

fn plain(text: &Text) -> Result<(), Rejection> {
    at_most(text.len(), 32 * 1024)?;
    if text.bytes().any(|byte| byte == 0) { Err(bad_job()) } else { Ok(()) }
}

fn must(good: bool) -> Result<(), Rejection> {
    if good { Ok(()) } else { Err(bad_job()) }
}

fn http_path(path: &Text) -> Result<(), Rejection> {
    must(path.bytes().next() == Some(b'/'))?;
    must(path.bytes().all(|byte| byte > b' ' && byte < 127))
}

/// The names of a group's ports.
fn port_names(group: &TaskGroup) -> Result<Vec<Text>, Rejection> {
    let fixed = group.run.iter().flat_map(|run| &run.ports);
    let names: Vec<Text> =
        fixed.clone().map(|port| &port.name).chain(&group.any_ports).cloned().collect();
    let mut seen = BTreeMap::new();
    for one in &names {
        name(one)?;
        let word: Option<String> = one
            .chars()
            .map(|letter| match letter {
                'a'..='z' => Some(letter.to_ascii_uppercase()),
                'A'..='Z' | '0'..='9' | '_' => Some(letter),
                '-' => Some('_'),
                _ => None,
            })
            .collect();
        must(seen.insert(word.ok_or_else(bad_job)?, ()).is_none())?;
    }
    for port in fixed {
        must(group.rules.ports.iter().any(|own| own.number == port.number))?;
    }
    Ok(names)
}

fn container(run: &Run) -> Result<(), Rejection> {
    let Some(image) = &run.image else { return must(run.mounts.is_empty()) };
    name(image)?;
    must(image.bytes().next() != Some(b'-') && image.split_whitespace().count() == 1)?;
    must(image.trim() == &**image)?;
    must(run.env.iter().all(|variable| variable.value.bytes().all(|byte| byte != b'\n')))?;
    at_most(run.mounts.len(), 64)?;
    for mount in &run.mounts {
        for path in [&mount.source, &mount.target] {
            name(path)?;
            must(path.bytes().next() == Some(b'/'))?;
            must(path.bytes().all(|byte| byte != b',' && byte != b'"'))?;
        }
    }
    Ok(())
}

pub(super) fn program(group: &TaskGroup) -> Result<(), Rejection> {
    at_most(group.payload.as_bytes().len(), 65_536)?;
    let names = port_names(group)?;
    let Some(run) = &group.run else { return Ok(()) };
    must(!run.command.is_empty() || run.image.is_some())?;
    plain(&run.command)?;
    at_most(run.args.len(), 1024)?;
    run.args.iter().try_for_each(plain)?;
    if let Some(dir) = &run.working_dir {
        plain(dir)?;
        must(dir.bytes().next() == Some(b'/'))?;
    }
    run.user.iter().try_for_each(name)?;
    at_most(run.env.len(), 1024)?;
    let mut seen = BTreeMap::new();
    for variable in &run.env {
        plain(&variable.name)?;
        plain(&variable.value)?;
        name(&variable.name)?;
        must(!variable.name.contains('=') && variable.name.get(..6) != Some("OMEGA_"))?;
        must(seen.insert(variable.name.clone(), ()).is_none())?;
    }
    container(run)?;
    if let Some(check) = &run.health {
        let times = [check.interval_ms, check.timeout_ms, check.start_period_ms];
        times.iter().try_for_each(|time| at_most(*time as usize, 3_600_000))?;
        must(check.interval_ms > 0 && check.timeout_ms > 0 && check.failures > 0)?;
        match &check.probe {
            Probe::Tcp(port) => must(*port > 0)?,
            Probe::NamedTcp(port) => must(names.contains(port))?,
            Probe::NamedHttp { port, path } => {
                must(names.contains(port))?;
                http_path(path)?;
            }
            Probe::Http { port, path } => {
                must(*port > 0)?;
                http_path(path)?;
            }
            Probe::Command(words) => {
                must(words.first().is_some_and(|word| !word.is_empty()))?;
                at_most(words.len(), 1024)?;
                words.iter().try_for_each(plain)?;
            }
        }
    }
    at_most(run.restart.delay_ms as usize, 3_600_000)?;
    at_most(bytes_at_most(&**run), 65_536)
}
