//! Handling of a heartbeat: it is checked completely, then applied, then answered.

use super::LINES_MAX;
use super::frontend::{Application, Frontend, Given, Key};
use super::messages::{Answer, Ask, Heartbeat, HeartbeatError, Missing};
use super::table::Table;
use crate::frontends::{Entry, Mark};
use crate::queue::Nanos;
use omega_core::{JobId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

impl Frontend {
    /// Handles a heartbeat, and returns the events since the last heartbeat.
    ///
    /// # Errors
    /// If any part of the heartbeat is invalid. Then nothing has changed, and no events are lost.
    pub fn heartbeat(
        &mut self,
        id: JobId,
        heartbeat: Heartbeat,
        now: Nanos,
    ) -> Result<Answer, HeartbeatError> {
        let tables = self.check(id, &heartbeat, now);
        let tables = tables.inspect_err(|_| self.counters.errors += 1)?;
        let headroom = self.headroom();
        let unknown = || HeartbeatError::UnknownApplication(id);
        let application = self.applications.get_mut(&id).ok_or_else(unknown)?;
        self.counters.heartbeats += 1;
        application.last_heartbeat = now;
        if let Some(tables) = tables {
            application.tables = tables;
            self.turns = None;
        }
        if self.session.task_index.job(id).is_some() {
            // Otherwise, the releases were not checked, and have no effect.
            self.releasing.extend(heartbeat.releases);
        }
        application.refused.extend(heartbeat.refuse);
        application.refused.retain(|name| !heartbeat.readmit.contains(name));
        let untold = std::mem::take(&mut application.untold);
        let answer = Answer {
            allocated: untold.into_iter().map(|given| given.container).collect(),
            completed: std::mem::take(&mut application.completed),
            headroom,
            missing: self
                .session
                .task_index
                .job(id)
                .map_or_else(Vec::new, |entry| missing(entry, application)),
            is_over: application.is_over,
        };
        if answer.is_over {
            self.applications.remove(&id);
        }
        Ok(answer)
    }

    /// Checks a heartbeat. Returns the request tables that the application will have; `None` if the heartbeat has no
    /// requests, which is the usual case.
    fn check(
        &self,
        id: JobId,
        heartbeat: &Heartbeat,
        now: Nanos,
    ) -> Result<Option<BTreeMap<Key, Table>>, HeartbeatError> {
        let application =
            self.applications.get(&id).ok_or(HeartbeatError::UnknownApplication(id))?;
        let Some(entry) = self.session.task_index.job(id) else {
            // The application has ended, so its requests have no effect.
            return Ok(None);
        };
        self.check_releases(entry, id, &heartbeat.releases)?;
        let refused = application.refused.len() + heartbeat.refuse.len();
        if heartbeat.asks.is_empty() && refused <= LINES_MAX {
            return Ok(None);
        }
        let mut tables = application.tables.clone();
        let mut seen = BTreeSet::new();
        for ask in &heartbeat.asks {
            let group = entry.job.groups.iter().position(|group| group.name == ask.group);
            let key =
                (ask.priority, group.ok_or_else(|| HeartbeatError::NoGroup(ask.group.clone()))?);
            if !seen.insert((key, &ask.at)) {
                return Err(HeartbeatError::Twice(Box::new(ask.clone())));
            }
            let untold = self.untold(id, application, key, ask);
            let count = ask.containers.saturating_sub(untold);
            tables.entry(key).or_default().set(&ask.at, count, ask.relax, now);
        }
        if let Some((key, _)) = tables.iter().find(|(_, table)| table.lacks_total()) {
            let group = entry.job.groups[key.1].name.clone();
            return Err(HeartbeatError::NoTotal { priority: key.0, group });
        }
        let is_awaited = |key: &Key| self.given_to(id, application).any(|given| given.key == *key);
        tables.retain(|key, table| !table.is_empty() || is_awaited(key));
        let lines = refused + tables.values().map(Table::lines).sum::<usize>();
        if lines > LINES_MAX { Err(HeartbeatError::TooMany { lines }) } else { Ok(Some(tables)) }
    }

    fn check_releases(
        &self,
        entry: &Entry,
        id: JobId,
        releases: &[TaskId],
    ) -> Result<(), HeartbeatError> {
        let mut seen = BTreeSet::new();
        for task in releases {
            let mark = entry.task(task.index).map(|(_, mark)| mark);
            let is_own = task.job == id && matches!(mark, Some(Mark::Placed(_)));
            if !is_own || self.releasing.contains(task) || !seen.insert(task) {
                return Err(HeartbeatError::NotAContainer(*task));
            }
        }
        Ok(())
    }

    /// Containers of an application that were claimed or allocated, but not yet reported to it.
    fn given_to<'a>(
        &'a self,
        id: JobId,
        application: &'a Application,
    ) -> impl Iterator<Item = &'a Given> {
        let flying = self.given.iter().filter(move |given| given.container.task.job == id);
        application.untold.iter().chain(flying)
    }

    /// Returns the number of claimed or allocated containers that match a new request, but were not yet reported. The
    /// number is subtracted from the request.
    fn untold(&self, id: JobId, application: &Application, key: Key, ask: &Ask) -> u32 {
        let meets = |given: &&Given| given.key == key && given.lines.meet(given.spot(), &ask.at);
        self.given_to(id, application).filter(meets).count() as u32
    }
}

/// Returns the groups that have fewer pending tasks than requested containers.
fn missing(entry: &Entry, application: &Application) -> Vec<Missing> {
    let mut wanted: BTreeMap<usize, u64> = BTreeMap::new();
    for ((_, group), table) in &application.tables {
        *wanted.entry(*group).or_default() += u64::from(table.total());
    }
    let lacking = |(group, wanted): (usize, u64)| {
        let tasks = wanted.saturating_sub(entry.waiting_count(group) as u64);
        let group = entry.job.groups.get(group)?.name.clone();
        (tasks > 0).then_some(Missing { group, tasks })
    };
    wanted.into_iter().filter_map(lacking).collect()
}
