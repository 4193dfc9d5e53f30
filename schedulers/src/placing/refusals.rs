//! Rejections: the filters that reject a task, and the events after which these filters may accept it.
//!
//! One rejecting filter per machine is enough, because the machine stays infeasible until the result of this filter
//! changes. So the first rejecting filter in the profile's order is recorded, as a bit in a word. Blocks without room,
//! or without a machine that has the required labels, are rejected as a whole by the view's bounds.

use crate::framework::evaluator::Evaluator;
use crate::framework::events::Events;
use crate::framework::plugin::tasks;
use crate::framework::plugin::{Filter, News, Reads, Tasks, lanes};
use crate::framework::profile::Profile;
use crate::queue::Nanos;
use omega_cellstate::{BLOCK, GroupRef, View};
use smallvec::SmallVec;

/// Machines of a block that one filter is the first to reject: the filter's position in the profile, and a bit for each
/// machine.
pub type FirstRefusal = (usize, u64);

/// The first rejecting filter of each machine of a block. A machine that no filter rejects is in no word. A row without
/// a machine may be in any word.
#[must_use]
pub fn first_refusals(
    evaluator: &Evaluator,
    tasks: &Tasks<'_>,
    block: usize,
) -> SmallVec<[FirstRefusal; 4]> {
    let block = tasks.view.block(block);
    let mut left = u64::MAX;
    let mut refusals = SmallVec::new();
    for (index, filter) in evaluator.filters().enumerate() {
        if left == 0 {
            break;
        }
        if filter.applies(tasks) {
            let allowed = left & filter.filter(tasks, block, left);
            if allowed != left {
                refusals.push((index, left & !allowed));
            }
            left = allowed;
        }
    }
    refusals
}

/// Plugins that rejected a job, and the events after which they may accept it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RejectingPlugins {
    /// Filters of the profile, one bit each by position. Filters beyond the 64th are in `others`.
    filters: u64,
    /// Events that wake the job if `may_help` returns true for one of these filters.
    filter_events: Events,
    /// Events that wake the `PostFilter` plugins.
    maker_events: Events,
    /// Further events, which wake the job without a call of `may_help`.
    others: Events,
    /// Time of the unconditional retry.
    until: Option<Nanos>,
}

impl RejectingPlugins {
    /// Creates a rejection that lasts until one of these events.
    #[must_use]
    pub fn waiting_for(events: Events) -> RejectingPlugins {
        RejectingPlugins { others: events, ..RejectingPlugins::default() }
    }

    /// Creates a rejection that lasts at most until this time.
    #[must_use]
    pub fn until(at: Nanos) -> RejectingPlugins {
        RejectingPlugins { until: Some(at), ..RejectingPlugins::default() }
    }

    /// Returns the time at which the job is retried even without an event; `None` if the rejection sets no time.
    #[must_use]
    pub fn at_latest(self) -> Option<Nanos> {
        self.until
    }

    /// All events that may wake the job.
    #[must_use]
    pub fn events(self) -> Events {
        self.filter_events | self.maker_events | self.others
    }

    /// The plugins and events of both rejections.
    #[must_use]
    pub fn and(self, other: RejectingPlugins) -> RejectingPlugins {
        RejectingPlugins {
            filters: self.filters | other.filters,
            filter_events: self.filter_events | other.filter_events,
            maker_events: self.maker_events | other.maker_events,
            others: self.others | other.others,
            until: self.until.into_iter().chain(other.until).min(),
        }
    }

    /// Returns `self` with the events after which the post filters may make room for these tasks.
    #[must_use]
    pub fn with_makers(self, profile: &Profile, tasks: &Tasks<'_>) -> RejectingPlugins {
        if profile.chain.post_filter.is_empty() {
            return self;
        }
        let all = RejectingPlugins::all_that_apply(profile, tasks).events();
        let makers = profile.chain.post_filter.iter().map(|plugin| plugin.wakes_on(tasks, all));
        let maker_events = makers.fold(self.maker_events, |all, events| all | events);
        RejectingPlugins { maker_events, ..self }
    }

    fn add(&mut self, index: usize, filter: &dyn Filter) {
        match 1u64.checked_shl(index as u32) {
            Some(bit) => {
                self.filters |= bit;
                self.filter_events |= filter.wakes_on();
            }
            None => self.others |= filter.wakes_on(),
        }
    }

    fn has(self, index: usize) -> bool {
        1u64.checked_shl(index as u32).is_some_and(|bit| self.filters & bit != 0)
    }

    /// The first filter that rejects these tasks on all machines ([`Filter::refuses_all`]), if there is one.
    fn of_the_cell(profile: &Profile, tasks: &Tasks<'_>) -> Option<RejectingPlugins> {
        let mut filters = profile.evaluator.filters().enumerate();
        let (index, filter) = filters.find(|(_, f)| f.refuses_all() && f.applies(tasks))?;
        let mut rejecting_plugins = RejectingPlugins::default();
        rejecting_plugins.add(index, filter);
        Some(rejecting_plugins)
    }

    /// Whether one of the filters rejects all machines.
    pub(crate) fn is_of_the_cell(self, profile: &Profile) -> bool {
        profile
            .evaluator
            .filters()
            .enumerate()
            .any(|(index, filter)| self.has(index) && filter.refuses_all())
    }

    /// All filters that may reject these tasks, found without a search.
    #[must_use]
    pub fn suspects(profile: &Profile, tasks: &Tasks<'_>) -> RejectingPlugins {
        RejectingPlugins::of_the_cell(profile, tasks)
            .unwrap_or_else(|| RejectingPlugins::all_that_apply(profile, tasks))
    }

    fn all_that_apply(profile: &Profile, tasks: &Tasks<'_>) -> RejectingPlugins {
        let mut rejecting_plugins = RejectingPlugins::waiting_for(Events::MACHINE_ADDED);
        for (index, filter) in profile.evaluator.filters().enumerate() {
            if filter.applies(tasks) {
                rejecting_plugins.add(index, filter);
            }
        }
        rejecting_plugins
    }

    /// The filters that were first to reject some machine, after a search without a result.
    #[must_use]
    pub fn of(view: &View, profile: &Profile, group: GroupRef) -> RejectingPlugins {
        let tasks = tasks(view, group);
        if let Some(rejecting_plugins) = RejectingPlugins::of_the_cell(profile, &tasks) {
            return rejecting_plugins;
        }
        let mut rejecting_plugins = RejectingPlugins::waiting_for(Events::MACHINE_ADDED);
        for sixty_four in 0..view.blocks().div_ceil(BLOCK) {
            let there = view.blocks() - sixty_four * BLOCK;
            let there = if there < BLOCK { (1 << there) - 1 } else { u64::MAX };
            let allowed = there & view.blocks_allowed(sixty_four, tasks.need);
            if allowed != there {
                rejecting_plugins.others |= Events::of(Reads::DESCRIPTION);
            }
            if !view.blocks_may_fit(sixty_four, tasks.need.least()) {
                rejecting_plugins.others |= Events::of(Reads::AMOUNTS);
                continue;
            }
            for lane in lanes(allowed) {
                rejecting_plugins.add_block(profile, &tasks, sixty_four * BLOCK + lane);
            }
        }
        rejecting_plugins
    }

    fn add_block(&mut self, profile: &Profile, tasks: &Tasks<'_>, block: usize) {
        if !tasks.view.block_may_fit(block, tasks.need.least()) {
            self.others |= Events::of(Reads::AMOUNTS);
            return;
        }
        for (index, word) in first_refusals(&profile.evaluator, tasks, block) {
            let is_machine = |lane: usize| tasks.view.machine(block * BLOCK + lane).is_some();
            if !self.has(index)
                && lanes(word).any(is_machine)
                && let Some(filter) = profile.evaluator.filters().nth(index)
            {
                self.add(index, filter);
            }
        }
    }

    /// Whether recent events may help these tasks, according to the plugins that rejected them.
    pub(crate) fn may_be_helped(
        self,
        profile: &Profile,
        tasks: &Tasks<'_>,
        news: &News<'_>,
    ) -> bool {
        let listens = |(index, filter): &(usize, &dyn Filter)| {
            self.has(*index) && filter.wakes_on().meets(news.events)
        };
        self.others.meets(news.events)
            || profile
                .evaluator
                .filters()
                .enumerate()
                .filter(listens)
                .any(|f| f.1.may_help(tasks, news))
            || self.makers_may_help(profile, tasks, news)
    }
}

impl RejectingPlugins {
    /// Whether a `PostFilter` plugin may make room after news that it depends on.
    fn makers_may_help(self, profile: &Profile, tasks: &Tasks<'_>, news: &News<'_>) -> bool {
        let mut events = news.events.and(self.maker_events);
        if self.is_of_the_cell(profile) {
            // A job that waits for a quota does not depend on events of machines, which are frequent.
            events = events.without(Events::ROOM_FREED | Events::ROOM_TAKEN | Events::TASK_PLACED);
        }
        let news = News { events, ..*news };
        let mut makers = profile.chain.post_filter.iter();
        !news.events.is_empty() && makers.any(|plugin| plugin.may_help(tasks, &news))
    }
}
