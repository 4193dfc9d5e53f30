//! Unschedulable cache: if a task has no feasible machine, other tasks of its class need no search.
//!
//! A search without a result has examined every machine. No other task of the class finds a machine until an event
//! occurs that a rejecting filter depends on. Such events are recorded, and are examined when the next task of the
//! class comes. If the events concern only particular machines, only these machines are searched again.
//!
//! The cache is correct if each filter reads only one machine at a time, and no filter accepts a machine because
//! less room is free there. The scheduler's own claims only take room, so they make no rejected machine feasible.
//! When claims are undone, the cache is emptied, because its results were found with these claims on the view.

use crate::framework::events::Events;
use crate::framework::plugin::tasks;
use crate::framework::plugin::{News, ROWS_MAX};
use crate::framework::plugin::{Reads, Tasks};
use crate::framework::profile::Profile;
use crate::placing::class::{Class, ClassRef};
use crate::placing::refusals::RejectingPlugins;
use omega_cellstate::{GroupRef, View};

/// Maximum number of classes in the cache. If the cache is full, the oldest class is dropped.
const CLASSES_MAX: usize = 64;

/// A class without a feasible machine.
#[derive(Debug)]
struct Failed {
    class: Class,
    by: RejectingPlugins,
    /// Whether the rejecting plugins in `by` were found by a search of all machines.
    exact: bool,
    /// The cell's time at the search, if a filter reads the time; otherwise 0.
    moment: u64,
    /// Events since the search.
    events: Events,
    /// Rows of machines that changed since the search. More than `ROWS_MAX` rows count as all machines.
    rows: Vec<u32>,
}

/// The cache for one profile and one view.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    known: Vec<Failed>,
}

impl Failures {
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Records that no machine accepts a task of a group.
    pub(crate) fn note(&mut self, view: &View, profile: &Profile, group: GroupRef) {
        let tasks = tasks(view, group);
        let by = RejectingPlugins::suspects(profile, &tasks);
        if !is_local(profile, &tasks) || by.events().meets(Events::ROOM_TAKEN) {
            return;
        }
        let class = ClassRef::new(tasks.group, tasks.job.kind, None);
        if self.known.iter().any(|failed| failed.class.is(class)) {
            return;
        }
        if self.known.len() >= CLASSES_MAX {
            self.known.remove(0);
        }
        let (events, rows) = (Events::NONE, Vec::new());
        let (class, moment) = (class.to_class(), moment(profile, &tasks));
        self.known.push(Failed { class, by, exact: false, moment, events, rows });
    }

    /// Whether the cache shows that no machine accepts a task of a group.
    pub(crate) fn has(&mut self, view: &View, profile: &Profile, group: GroupRef) -> bool {
        let Some(index) = self.position(view, group) else { return false };
        let (failed, tasks) = (&mut self.known[index], tasks(view, group));
        let news = News { events: failed.events, rows: &failed.rows };
        let still_holds = is_local(profile, &tasks)
            && failed.moment == moment(profile, &tasks)
            && (news.events.is_empty() || !failed.by.may_be_helped(profile, &tasks, &news));
        if still_holds {
            failed.events = Events::NONE;
            failed.rows.clear();
        } else {
            self.known.remove(index);
        }
        still_holds
    }

    /// Plugins that reject the tasks of a group, if its class is in the cache.
    pub(crate) fn rejecting_plugins(
        &mut self,
        view: &View,
        profile: &Profile,
        group: GroupRef,
    ) -> Option<RejectingPlugins> {
        let index = self.position(view, group)?;
        let failed = &mut self.known[index];
        if !failed.exact {
            failed.by = RejectingPlugins::of(view, profile, group);
            failed.exact = true;
        }
        Some(failed.by)
    }

    /// Whether the cache has the class of a group.
    pub(crate) fn includes(&self, view: &View, group: GroupRef) -> bool {
        self.position(view, group).is_some()
    }

    fn position(&self, view: &View, group: GroupRef) -> Option<usize> {
        if self.known.is_empty() {
            return None;
        }
        let tasks = tasks(view, group);
        let class = ClassRef::new(tasks.group, tasks.job.kind, None);
        self.known.iter().position(|failed| failed.class.is(class))
    }

    /// Records events; `rows` are the machines concerned.
    pub(crate) fn record_events(&mut self, events: Events, rows: &[u32]) {
        for failed in self.known.iter_mut().filter(|failed| failed.by.events().meets(events)) {
            failed.events |= events;
            let room = (ROWS_MAX + 1).saturating_sub(failed.rows.len());
            failed.rows.extend(rows.iter().take(room));
        }
    }

    /// Drops all classes, because claims were undone and the view has more room.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }
}

/// Returns the cell's time if an active filter reads the time; otherwise 0.
fn moment(profile: &Profile, tasks: &Tasks<'_>) -> u64 {
    let mut active = profile.evaluator.filters().filter(|filter| filter.applies(tasks));
    let reads = active.any(|filter| filter.reads().includes(Reads::TIME));
    if reads { tasks.view.now_ms() } else { 0 }
}

/// Whether every filter reads only one machine and the description of the tasks.
fn is_local(profile: &Profile, tasks: &Tasks<'_>) -> bool {
    let more = [Reads::OTHER_MACHINES, Reads::OTHER_DESCRIPTIONS, Reads::JOB];
    let mut active = profile.evaluator.filters().filter(|filter| filter.applies(tasks));
    !active.any(|filter| more.iter().any(|reads| filter.reads().includes(*reads)))
}
