//! Rules of an objectives file that no move may break: a minimum number of domains of a job, dependencies between jobs,
//! and limits on tasks of one job beside another.
//!
//! They hold for the rebalancer alone; the cell does not know them. Where a rule is broken already, a move must not break
//! it more: neither by more tasks in a domain, nor by fewer domains. Moves of one step count together, so two tasks that
//! need each other can move at once.

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
    /// Name of the job whose tasks it limits.
    pub job: Text,
    /// Definition of a domain.
    pub level: TopologyLevel,
    /// Limit.
    pub limit: Limit,
}

/// Limit of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The job runs in at least this many domains.
    Domains(u32),
    /// In each domain with a task of the job, a task of the job of this name runs.
    Needs(Text),
    /// In a domain with a task of another job, at most some tasks of the job run.
    Beside {
        /// Name of the other job.
        other: Text,
        /// Number of tasks.
        count: u32,
    },
}

/// Domain of a machine that lacks the label.
const NOWHERE: u32 = u32::MAX;

/// Number of a job that does not run.
const ABSENT: u32 = u32::MAX;

/// Rule on numbers of jobs and levels.
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
    Beside { other: u32, count: u32 },
}

/// Move of a task of a job from row to row.
#[derive(Clone, Copy, Debug)]
pub(in crate::rebalance) struct Shift {
    pub(in crate::rebalance) job: JobId,
    pub(in crate::rebalance) from: usize,
    pub(in crate::rebalance) to: usize,
}

/// Rules, with the number of tasks of each job in each domain. Its maps are only looked up, never iterated.
#[derive(Debug, Default)]
pub(in crate::rebalance) struct Keep {
    /// Domain of each row, by level.
    levels: Vec<Vec<u32>>,
    jobs: HashMap<JobId, u32, FixedState>,
    rules: Vec<Compiled>,
    /// Rules that concern each job.
    of_job: Vec<Vec<u32>>,
    counts: HashMap<(u32, u32, u32), u32, FixedState>,
    /// Number of domains of a level in which a job runs.
    spread: HashMap<(u32, u32), u32, FixedState>,
}

impl Keep {
    /// Rules for the tasks of a view.
    pub(in crate::rebalance) fn new(rules: &[Rule], view: &View) -> Keep {
        let mut keep = Keep::default();
        if rules.is_empty() {
            return keep;
        }
        let mut names: BTreeMap<&Text, u32> = BTreeMap::new();
        for rule in rules {
            let others = match &rule.limit {
                Limit::Domains(_) => None,
                Limit::Needs(other) | Limit::Beside { other, .. } => Some(other),
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
            Limit::Beside { other, count } => {
                (OfJobs::Beside { other: number(other), count: *count }, number(other))
            }
        };
        let at = self.rules.len() as u32;
        self.rules.push(Compiled { job, level, limit });
        self.of_job[job as usize].push(at);
        if other != job {
            self.of_job[other as usize].push(at);
        }
    }

    /// Whether a rule concerns a job.
    #[inline]
    pub(in crate::rebalance) fn concerns(&self, job: JobId) -> bool {
        !self.rules.is_empty() && self.jobs.contains_key(&job)
    }

    /// Positions of the rules that concern jobs.
    pub(in crate::rebalance) fn rules_of(&self, jobs: impl Iterator<Item = JobId>) -> Vec<u32> {
        let numbers = jobs.filter_map(|job| self.jobs.get(&job));
        numbers.flat_map(|number| &self.of_job[*number as usize]).copied().collect()
    }

    /// Whether moves made together break no rule more than before.
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

    /// Counts moves that are made.
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

    /// Number of tasks in a domain, or of missing domains, by which a rule is broken.
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
            OfJobs::Beside { .. } if domain == NOWHERE => 0,
            OfJobs::Beside { other, count: most } => match count(other) {
                0 => 0,
                _ => count(job).saturating_sub(most),
            },
        }
    }
}

/// The number of each row's domain.
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
