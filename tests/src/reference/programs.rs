//! Validation of programs and payloads, implemented independently.

use super::validate::{at_most, bad_job, name};
use omega_core::{Probe, Rejection, TaskGroup, Text, bytes_at_most};
use std::collections::BTreeMap;

fn plain(text: &Text) -> Result<(), Rejection> {
    at_most(text.len(), 32 * 1024)?;
    if text.bytes().any(|byte| byte == 0) { Err(bad_job()) } else { Ok(()) }
}

fn must(good: bool) -> Result<(), Rejection> {
    if good { Ok(()) } else { Err(bad_job()) }
}

pub(super) fn program(group: &TaskGroup) -> Result<(), Rejection> {
    at_most(group.payload.as_bytes().len(), 65_536)?;
    let Some(run) = &group.run else { return Ok(()) };
    must(!run.command.is_empty())?;
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
    let mut seen = BTreeMap::new();
    for port in &run.ports {
        name(&port.name)?;
        let word: Option<String> = port
            .name
            .chars()
            .map(|letter| match letter {
                'a'..='z' => Some(letter.to_ascii_uppercase()),
                'A'..='Z' | '0'..='9' | '_' => Some(letter),
                '-' => Some('_'),
                _ => None,
            })
            .collect();
        must(seen.insert(word.ok_or_else(bad_job)?, ()).is_none())?;
        must(group.rules.ports.iter().any(|own| own.number == port.number))?;
    }
    if let Some(check) = &run.health {
        let times = [check.interval_ms, check.timeout_ms, check.start_period_ms];
        times.iter().try_for_each(|time| at_most(*time as usize, 3_600_000))?;
        must(check.interval_ms > 0 && check.timeout_ms > 0 && check.failures > 0)?;
        match &check.probe {
            Probe::Tcp(port) => must(*port > 0)?,
            Probe::Http { port, path } => {
                must(*port > 0)?;
                must(path.bytes().next() == Some(b'/'))?;
                must(path.bytes().all(|byte| byte > b' ' && byte < 127))?;
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
