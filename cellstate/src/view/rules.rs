//! What a view tells about tasks that run elsewhere: the rules' counters, for filters and scores.

use super::{BLOCK, Block, View};
use crate::facts::Need;
use crate::rules::{Counter, GroupRules, RuleFamily, SpreadWish};
use omega_core::Reason;
use smallvec::SmallVec;

impl View {
    /// Why the rules of one family do not let a task run on the machine in a row.
    ///
    /// # Errors
    /// The first reason.
    pub fn judge_rules(&self, need: &Need, family: RuleFamily, row: usize) -> Result<(), Reason> {
        let Some(rules) = &need.rules else { return Ok(()) };
        self.facts.rules.judge_family((rules, family), row, &self.facts.sets)
    }

    /// Whether the rules of one family could forbid a task any machine.
    #[must_use]
    pub fn family_concerns(&self, need: &Need, family: RuleFamily) -> bool {
        let Some(rules) = &need.rules else { return false };
        self.facts.rules.concerns(rules, family)
    }

    /// Whether some task of the cell needs runtime_affinity: then it may be that others must not leave.
    #[must_use]
    pub fn any_runtime_affinity(&self) -> bool {
        self.facts.rules.any_runtime_affinity()
    }

    /// Whether some task may need one of these near it.
    #[must_use]
    pub fn may_be_runtime_affinity(&self, need: &Need) -> bool {
        need.rules.as_ref().is_some_and(|rules| self.facts.rules.may_be_runtime_affinity(rules))
    }

    /// Whether nobody whom a task of this kind has left alone in one row is alone any more once it is in
    /// another.
    #[must_use]
    pub fn keeps_runtime_affinity(&self, need: &Need, (from, to): (usize, usize)) -> bool {
        let Some(rules) = &need.rules else { return true };
        let (book, sets) = (&self.facts.rules, &self.facts.sets);
        let mut alone = book.alone_without(rules, from, sets);
        alone.all(|alone| alone.missing == 1 && book.is_counted((rules, to), alone, sets))
    }

    /// Where the tasks of a wished spread run; `None` if the spread is not yet known to the cell.
    #[must_use]
    pub fn wish(&self, wish: &SpreadWish) -> Option<WishCounts<'_>> {
        self.facts.rules.counter(wish.tracker).map(WishCounts)
    }

    /// What draws a task to machines, ready to be asked about many.
    #[must_use]
    pub fn draws(&self, need: &Need) -> Draws<'_> {
        let mut draws = Draws::default();
        let Some(rules) = &need.rules else { return draws };
        let GroupRules { pulls, matched, .. } = &**rules;
        let book = &self.facts.rules;
        for pull in pulls.iter().filter(|pull| book.matches_any(pull.tracker)) {
            let counter = book.counter(pull.tracker);
            draws.own.extend(counter.map(|counter| (counter, pull.weight)));
        }
        draws.preferred = !draws.own.is_empty() || matched.iter().any(|id| book.pulls(*id));
        let drawing = matched.iter().filter(|id| book.draws(**id));
        draws.others.extend(drawing.filter_map(|id| book.counter(*id)));
        draws
    }
}

/// Where the tasks of a wished spread run. See [`View::wish`].
#[derive(Clone, Copy, Debug)]
pub struct WishCounts<'a>(Counter<'a>);

impl WishCounts<'_> {
    /// The domain of the machine in a row: equal numbers are equal domains. `None` if it has no
    /// place at the spread's level.
    #[must_use]
    pub fn domain(&self, row: usize) -> Option<u32> {
        self.0.domain(row)
    }

    /// Of the machines of a block in `among`, those that have a place at the spread's level.
    #[must_use]
    pub fn placed(&self, block: Block<'_>, among: u64) -> u64 {
        self.0.placed(block.index()) & among
    }

    /// For each machine of a block, how many of the tasks run in its domain, on machines that the
    /// spread lets count (where each machine is a domain, all do); 0 if it has no place.
    #[must_use]
    pub fn of_block(&self, block: Block<'_>) -> [u32; BLOCK] {
        self.0.column(block.index(), |count| count.matched)
    }
}

/// What draws a task to machines. See [`View::draws`].
#[derive(Clone, Debug, Default)]
pub struct Draws<'a> {
    own: SmallVec<[(Counter<'a>, i32); 4]>,
    others: SmallVec<[Counter<'a>; 4]>,
    preferred: bool,
}

impl Draws<'_> {
    /// Whether nothing draws it anywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.others.is_empty()
    }

    /// Whether a preference is among it, the task's own or one of tasks that run. Else it is all
    /// required affinities.
    #[must_use]
    pub fn any_preference(&self) -> bool {
        self.preferred
    }

    /// What draws it to each machine of a block, or keeps it away: the weights of its own
    /// preferences, each as often as tasks that it means run in the machine's domain; the weights
    /// of the preferences of tasks that run there and mean this one; and for each required affinity
    /// of those that means this one, `required`.
    #[must_use]
    pub fn of_block(&self, block: Block<'_>, required: i64) -> [i64; BLOCK] {
        let mut draws = [0; BLOCK];
        let own = self.own.iter().map(|(counter, weight)| {
            counter.column(block.index(), |count| i64::from(*weight) * i64::from(count.matched))
        });
        let others = self.others.iter().map(|counter| {
            counter.column(block.index(), |c| c.pull + required * i64::from(c.seekers))
        });
        for column in own.chain(others) {
            draws.iter_mut().zip(column).for_each(|(draw, more)| *draw += more);
        }
        draws
    }
}

impl Block<'_> {
    /// Of the machines in `among`, those where no rule about other tasks forbids one of these.
    #[must_use]
    pub fn rules_allow(&self, need: &Need, among: u64) -> u64 {
        let Some(rules) = &need.rules else { return among };
        let facts = &self.view().facts;
        facts.rules.sift(rules, (self.index(), among), &facts.sets)
    }

    /// The same, for one family of rules.
    #[must_use]
    pub fn family_allows(&self, need: &Need, family: RuleFamily, among: u64) -> u64 {
        let Some(rules) = &need.rules else { return among };
        let facts = &self.view().facts;
        facts.rules.sift_family((rules, family), (self.index(), among), &facts.sets)
    }

    /// Of the machines in `among`, those where the tasks' required affinities to tasks are met.
    #[must_use]
    pub fn affinity_met(&self, need: &Need, among: u64) -> u64 {
        let Some(rules) = &need.rules else { return among };
        let facts = &self.view().facts;
        facts.rules.affinity_met(rules, (self.index(), among), &facts.sets)
    }
}
