//! Rules of an objectives file that no move may break: a minimum number of domains of a job, dependencies between jobs,
//! and limits on tasks of one job in domains with another job.
//!
//! Only the rebalancer applies these rules; the cell has no record of them. Where a rule is already broken, a move must
//! not break the rule further, by more excess tasks in a domain or by fewer domains. The moves of one step are checked
//! together, so two tasks whose jobs need each other can move in one step.

use foldhash::fast::FixedState;
use omega_cellstate::View;
use omega_core::{JobId, Text, TopologyLevel};
use smallvec::SmallVec;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of rules.
pub const RULES_MAX: usize = 1 << 20;

/// A rule about the domains in which tasks of jobs run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Name of the job whose tasks the rule limits.
    pub job: Text,
    /// Level whose domains count.
    pub level: TopologyLevel,
    /// Limit on the job's tasks.
    pub limit: Limit,
}

/// Limit of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The job runs in at least this many domains.
    Domains(u32),
    /// In each domain with a task of the job, at least one task of the job of this name runs.
    Needs(Text),
    /// In each domain with a task of another job, at most `count` tasks of the job run.
    MaxColocated {
        /// Name of the other job.
        other: Text,
        /// Number of tasks.
        count: u32,
    },
}

/// Number for the domain of a machine that lacks the label.
const NOWHERE: u32 = u32::MAX;

/// Number for a job that has no running tasks.
const ABSENT: u32 = u32::MAX;

/// A rule, with numbers in place of the names of jobs and the level.
#[derive(Clone, Copy, Debug)]
struct Compiled {
    job: u32,
    level: u32,
    limit: OfJobs,
}

#[derive(Clone, Copy, Debug)]
enum OfJobs {
    Domains(u32),
    Needs(u32),
    MaxColocated { other: u32, count: u32 },
}

/// Move of a task of a job between two rows.
#[derive(Clone, Copy, Debug)]
pub(in crate::rebalance) struct Shift {
    pub(in crate::rebalance) job: JobId,
    pub(in crate::rebalance) from: usize,
    pub(in crate::rebalance) to: usize,
}

/// Compiled rules, with the number of tasks of each job in each domain. The maps are only looked up, never iterated.
#[derive(Debug, Default)]
pub(in crate::rebalance) struct Keep {
    /// For each level, the number of each row's domain.
    levels: Vec<Vec<u32>>,
    jobs: HashMap<JobId, u32, FixedState>,
    rules: Vec<Compiled>,
    /// For each job, the positions of the rules that concern it.
    of_job: Vec<Vec<u32>>,
    counts: HashMap<(u32, u32, u32), u32, FixedState>,
    /// Number of domains in which a job runs, by level and job.
    spread: HashMap<(u32, u32), u32, FixedState>,
}

impl Keep {
    /// Compiles rules, and counts the tasks of a view.
    pub(in crate::rebalance) fn new(rules: &[Rule], view: &View) -> Keep {
        let mut keep = Keep::default();
        if rules.is_empty() {
            return keep;
        }
        let mut names: BTreeMap<&Text, u32> = BTreeMap::new();
        for rule in rules {
            let others = match &rule.limit {
                Limit::Domains(_) => None,
                Limit::Needs(other) | Limit::MaxColocated { other, .. } => Some(other),
            };
            for name in std::iter::once(&rule.job).chain(others) {
                let next = names.len() as u32;
                names.entry(name).or_insert(next);
            }
        }
        keep.of_job = vec![Vec::new(); names.len()];
        let mut levels: BTreeMap<&TopologyLevel, u32> = BTreeMap::new();
        for rule in rules {
            let next = levels.len() as u32;
            let level = *levels.entry(&rule.level).or_insert_with(|| {
                keep.levels.push(domains(view, &rule.level));
                next
            });
            keep.add(rule, level, &names);
        }
        for row in 0..view.rows() {
            for task in view.tasks_on(row) {
                let number = view.job_of(task.id).and_then(|job| names.get(&job.name));
                if let Some(number) = number {
                    keep.jobs.insert(task.id.job, *number);
                    (0..keep.levels.len() as u32).for_each(|level| keep.enter(level, *number, row));
                }
            }
        }
        keep
    }

    fn add(&mut self, rule: &Rule, level: u32, names: &BTreeMap<&Text, u32>) {
        let number = |name: &Text| names.get(name).copied().unwrap_or(ABSENT);
        let job = number(&rule.job);
        let (limit, other) = match &rule.limit {
            Limit::Domains(least) => (OfJobs::Domains(*least), job),
            Limit::Needs(other) => (OfJobs::Needs(number(other)), number(other)),
            Limit::MaxColocated { other, count } => {
                (OfJobs::MaxColocated { other: number(other), count: *count }, number(other))
            }
        };
        let at = self.rules.len() as u32;
        self.rules.push(Compiled { job, level, limit });
        self.of_job[job as usize].push(at);
        if other != job {
            self.of_job[other as usize].push(at);
        }
    }

    /// Whether any rule concerns the job.
    #[inline]
    pub(in crate::rebalance) fn concerns(&self, job: JobId) -> bool {
        !self.rules.is_empty() && self.jobs.contains_key(&job)
    }

    /// Returns the positions of the rules that concern any of the jobs.
    pub(in crate::rebalance) fn rules_of(&self, jobs: impl Iterator<Item = JobId>) -> Vec<u32> {
        let numbers = jobs.filter_map(|job| self.jobs.get(&job));
        numbers.flat_map(|number| &self.of_job[*number as usize]).copied().collect()
    }

    /// Whether these moves, made together, leave no rule more broken than before.
    pub(in crate::rebalance) fn allows(&mut self, moves: &[Shift]) -> bool {
        let mut affected: SmallVec<[(u32, u32); 16]> = SmallVec::new();
        for shift in moves {
            let Some(number) = self.jobs.get(&shift.job) else { continue };
            for rule in &self.of_job[*number as usize] {
                let level = &self.levels[self.rules[*rule as usize].level as usize];
                affected.extend([(*rule, level[shift.from]), (*rule, level[shift.to])]);
            }
        }
        if affected.is_empty() {
            return true;
        }
        let broken = |keep: &Keep| -> SmallVec<[u32; 16]> {
            affected.iter().map(|(rule, domain)| keep.broken(*rule, *domain)).collect()
        };
        let before = broken(self);
        self.count(moves);
        let after = broken(self);
        let back: SmallVec<[Shift; 2]> =
            moves.iter().map(|s| Shift { from: s.to, to: s.from, ..*s }).collect();
        self.count(&back);
        before.iter().zip(&after).all(|(before, after)| after <= before)
    }

    /// Updates the counts for moves that are made.
    pub(in crate::rebalance) fn count(&mut self, moves: &[Shift]) {
        for shift in moves {
            let Some(number) = self.jobs.get(&shift.job).copied() else { continue };
            for level in 0..self.levels.len() as u32 {
                self.exit(level, number, shift.from);
                self.enter(level, number, shift.to);
            }
        }
    }

    fn enter(&mut self, level: u32, job: u32, row: usize) {
        let domain = self.levels[level as usize][row];
        let count = self.counts.entry((level, job, domain)).or_default();
        *count += 1;
        if *count == 1 && domain != NOWHERE {
            *self.spread.entry((level, job)).or_default() += 1;
        }
    }

    fn exit(&mut self, level: u32, job: u32, row: usize) {
        let domain = self.levels[level as usize][row];
        let count = self.counts.entry((level, job, domain)).or_default();
        *count -= 1;
        if *count == 0 && domain != NOWHERE {
            *self.spread.entry((level, job)).or_default() -= 1;
        }
    }

    /// Returns how far a rule is broken in a domain: the number of excess tasks, or the number of missing domains.
    fn broken(&self, rule: u32, domain: u32) -> u32 {
        let Compiled { job, level, limit } = self.rules[rule as usize];
        let count = |job: u32| self.counts.get(&(level, job, domain)).copied().unwrap_or(0);
        match limit {
            OfJobs::Domains(least) => {
                least.saturating_sub(self.spread.get(&(level, job)).copied().unwrap_or(0))
            }
            OfJobs::Needs(_) if domain == NOWHERE => count(job),
            OfJobs::Needs(other) if count(other) == 0 => count(job),
            OfJobs::Needs(_) => 0,
            OfJobs::MaxColocated { .. } if domain == NOWHERE => 0,
            OfJobs::MaxColocated { other, count: most } => match count(other) {
                0 => 0,
                _ => count(job).saturating_sub(most),
            },
        }
    }
}

/// Returns the number of the domain of each row: equal numbers for equal domains, [`NOWHERE`] without a domain.
fn domains(view: &View, level: &TopologyLevel) -> Vec<u32> {
    let mut numbers = BTreeMap::new();
    let mut number = |row: usize| {
        let domain = view.machine(row).and_then(|machine| machine.domain(level));
        let Some(domain) = domain else { return NOWHERE };
        let next = numbers.len() as u32;
        *numbers.entry(domain.clone()).or_insert(next)
    };
    (0..view.rows()).map(&mut number).collect()
}
