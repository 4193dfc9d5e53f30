//! What a view tells about tasks that run elsewhere: the rules' counters, for filters and scores.

use super::{Block, View};
use crate::facts::Need;
use crate::rules::{GroupRules, RuleFamily, SpreadWish};
use omega_core::Reason;

/// What draws a task to a machine, or keeps it away: preferences about tasks that run in the
/// machine's domains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// The weights of the task's own preferences, each as often as tasks that it means run there.
    pub own: i64,
    /// The weights of the preferences of tasks that run there and mean this one.
    pub others: i64,
    /// How many required affinities of tasks that run there mean this one.
    pub seekers: u64,
}

impl View {
    /// Why the rules of one family do not let a task run on the machine in a row.
    ///
    /// # Errors
    /// The first reason.
    pub fn judge_rules(&self, need: &Need, family: RuleFamily, row: usize) -> Result<(), Reason> {
        let Some(rules) = &need.rules else { return Ok(()) };
        self.facts.rules.judge_family((rules, family), row, &self.facts.sets)
    }

    /// How many of a wished spread's tasks run in the domain of the machine in a row. `None` if
    /// the machine does not count: it lacks a place at a level of the spreads, or the spread leaves
    /// it out.
    #[must_use]
    pub fn wish_count(&self, wish: &SpreadWish, row: usize) -> Option<u32> {
        self.wish_domain(wish, row)?;
        Some(self.facts.rules.count(wish.tracker, row).matched)
    }

    /// The domain of the machine in a row for a wished spread: equal numbers are equal domains.
    /// `None` as for [`View::wish_count`].
    #[must_use]
    pub fn wish_domain(&self, wish: &SpreadWish, row: usize) -> Option<u32> {
        self.facts.rules.domain_of(wish.tracker, row, &self.facts.sets)
    }

    /// Whether anything draws a task to some machine, or keeps it away (see [`View::draw`]).
    #[must_use]
    pub fn is_drawn(&self, need: &Need) -> bool {
        let book = &self.facts.rules;
        let Some(rules) = &need.rules else { return false };
        rules.pulls.iter().any(|pull| book.matches_any(pull.tracker))
            || rules.matched.iter().any(|id| book.draws(*id))
    }

    /// What draws a task to the machine in a row.
    #[must_use]
    pub fn draw(&self, need: &Need, row: usize) -> Draw {
        let Some(rules) = &need.rules else { return Draw::default() };
        let GroupRules { pulls, matched, .. } = &**rules;
        let book = &self.facts.rules;
        let mut draw = Draw::default();
        for pull in pulls {
            let count = book.count(pull.tracker, row).matched;
            draw.own += i64::from(pull.weight) * i64::from(count);
        }
        for id in matched.iter().filter(|id| book.draws(**id)) {
            let count = book.count(*id, row);
            draw.others += count.pull;
            draw.seekers += u64::from(count.seekers);
        }
        draw
    }
}

impl Block<'_> {
    /// Of the machines in `among`, those where no rule about other tasks forbids one of these.
    #[must_use]
    pub fn rules_allow(&self, need: &Need, among: u64) -> u64 {
        let Some(rules) = &need.rules else { return among };
        let facts = &self.view().facts;
        super::block::filter_bits(among, |lane| {
            facts.rules.judge(rules, self.first_row() + lane, &facts.sets).is_ok()
        })
    }

    /// The same, for one family of rules.
    #[must_use]
    pub fn family_allows(&self, need: &Need, family: RuleFamily, among: u64) -> u64 {
        if need.rules.is_none() {
            return among;
        }
        super::block::filter_bits(among, |lane| {
            self.view().judge_rules(need, family, self.first_row() + lane).is_ok()
        })
    }
}
