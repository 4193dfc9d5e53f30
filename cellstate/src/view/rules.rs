//! Rules about other tasks in a view: checks and counters for filters and scores.

use crate::index::need::Need;
use crate::rules::{Counter, GroupRules, RuleFamily, SoftSpread};
use crate::view::{BLOCK, Block, View};
use omega_core::Reason;
use smallvec::SmallVec;

impl View {
    /// Checks one family of rules for a task on the machine in a row.
    ///
    /// # Errors
    /// The first reason against the placement.
    pub fn check_rules(&self, need: &Need, family: RuleFamily, row: usize) -> Result<(), Reason> {
        let Some(rules) = &need.rules else { return Ok(()) };
        self.machine_index.rules.check_family(rules, family, row, &self.machine_index.sets)
    }

    /// Whether the rules of one family could reject a task on some machine.
    #[must_use]
    pub fn family_concerns(&self, need: &Need, family: RuleFamily) -> bool {
        let Some(rules) = &need.rules else { return false };
        self.machine_index.rules.concerns(rules, family)
    }

    /// Whether some task has a runtime affinity. If so, the cell may reject the departure of other tasks.
    #[must_use]
    pub fn any_runtime_affinity(&self) -> bool {
        self.machine_index.rules.any_runtime_affinity()
    }

    /// Whether the runtime affinity of some task may select a task with this need.
    #[must_use]
    pub fn may_be_runtime_affinity(&self, need: &Need) -> bool {
        need.rules
            .as_ref()
            .is_some_and(|rules| self.machine_index.rules.may_be_runtime_affinity(rules))
    }

    /// Whether a move of a task from one row to another preserves runtime affinity. The moved task must still satisfy
    /// the runtime affinity of every task that needs it.
    #[must_use]
    pub fn keeps_runtime_affinity(&self, need: &Need, from: usize, to: usize) -> bool {
        let Some(rules) = &need.rules else { return true };
        let (rule_index, sets) = (&self.machine_index.rules, &self.machine_index.sets);
        let mut unmet = rule_index.unmet_without(rules, from, sets);
        unmet.all(|unmet| unmet.missing == 1 && rule_index.is_counted(rules, to, unmet, sets))
    }

    /// The counts of a soft spread; `None` if no delta has brought the spread's tracker yet.
    #[must_use]
    pub fn soft_spread(&self, soft_spread: &SoftSpread) -> Option<SoftSpreadCounts<'_>> {
        self.machine_index.rules.counter(soft_spread.tracker).map(SoftSpreadCounts)
    }

    /// The strength with which each machine attracts a task, in a form that is fast to evaluate on many machines.
    #[must_use]
    pub fn draws(&self, need: &Need) -> Draws<'_> {
        let mut draws = Draws::default();
        let Some(rules) = &need.rules else { return draws };
        let GroupRules { pulls, matched, .. } = &**rules;
        let rule_index = &self.machine_index.rules;
        for pull in pulls.iter().filter(|pull| rule_index.matches_any(pull.tracker)) {
            let counter = rule_index.counter(pull.tracker);
            draws.own.extend(counter.map(|counter| (counter, pull.weight)));
        }
        draws.preferred = !draws.own.is_empty() || matched.iter().any(|id| rule_index.pulls(*id));
        let drawing = matched.iter().filter(|id| rule_index.draws(**id));
        draws.others.extend(drawing.filter_map(|id| rule_index.counter(*id)));
        draws
    }
}

/// The counts of a soft spread. See [`View::soft_spread`].
#[derive(Clone, Copy, Debug)]
pub struct SoftSpreadCounts<'a>(Counter<'a>);

impl SoftSpreadCounts<'_> {
    /// The domain of the machine in a row, as a number. Machines of one domain have equal numbers. `None` if the
    /// machine has no domain at the spread's level.
    #[must_use]
    pub fn domain(&self, row: usize) -> Option<u32> {
        self.0.domain(row)
    }

    /// The machines of a block in `among` that have a domain at the spread's level.
    #[must_use]
    pub fn placed(&self, block: Block<'_>, among: u64) -> u64 {
        self.0.placed(block.index()) & among
    }

    /// For each machine of a block, the number of tasks that the spread counts in the machine's domain; 0 if the
    /// machine has no domain. Tasks on machines that the spread leaves out are not counted, unless the spread's domains
    /// are single machines.
    #[must_use]
    pub fn of_block(&self, block: Block<'_>) -> [u32; BLOCK] {
        self.0.column(block.index(), |count| count.matched)
    }
}

/// The strength with which each machine attracts a task, by affinity to other tasks. See [`View::draws`].
#[derive(Clone, Debug, Default)]
pub struct Draws<'a> {
    own: SmallVec<[(Counter<'a>, i32); 4]>,
    others: SmallVec<[Counter<'a>; 4]>,
    preferred: bool,
}

impl Draws<'_> {
    /// Whether no affinity or preference attracts the task to a machine or repels it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.others.is_empty()
    }

    /// Whether the attraction includes a preference, either of the task itself or of a placed task. If not, the
    /// attraction consists only of required affinities.
    #[must_use]
    pub fn any_preference(&self) -> bool {
        self.preferred
    }

    /// The attraction of each machine of a block, which is the sum over its domain of:
    /// - the weight of each of the task's preferences, times the number of placed tasks that the preference selects;
    /// - the weights of placed tasks' preferences that select this task;
    /// - `required` for each required affinity of placed tasks that selects this task.
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
    /// The machines in `among` on which no rule about other tasks rejects a task.
    #[must_use]
    pub fn rules_allow(&self, need: &Need, among: u64) -> u64 {
        let Some(rules) = &need.rules else { return among };
        let machine_index = &self.view().machine_index;
        machine_index.rules.filter(rules, self.lanes(among), &machine_index.sets)
    }

    /// The machines in `among` on which no rule of one family rejects a task.
    #[must_use]
    pub fn family_allows(&self, need: &Need, family: RuleFamily, among: u64) -> u64 {
        let Some(rules) = &need.rules else { return among };
        let machine_index = &self.view().machine_index;
        machine_index.rules.filter_family(rules, family, self.lanes(among), &machine_index.sets)
    }

    /// The machines in `among` on which a task's required affinities to other tasks are met.
    #[must_use]
    pub fn affinity_met(&self, need: &Need, among: u64) -> u64 {
        let Some(rules) = &need.rules else { return among };
        let machine_index = &self.view().machine_index;
        machine_index.rules.affinity_met(rules, self.lanes(among), &machine_index.sets)
    }
}
