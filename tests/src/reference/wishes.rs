//! Preferences about other tasks, counted over all tasks.

use super::Reference;
use super::fit::Member;
use omega_core::{JobId, Spread, TaskRule};

impl Reference {
    /// Three sums for a group's tasks on the machine in a row: the weight of their own preferences, the weight of other
    /// tasks' preferences about them, and the number of other tasks' affinities that select them.
    #[must_use]
    pub fn draw(&self, id: JobId, group: usize, row: usize) -> (i64, i64, u64) {
        let Some(job) = self.jobs.get(&id) else { return (0, 0, 0) };
        let of = Member { id, job, group };
        let (mut own, mut others, mut seekers) = (0, 0, 0);
        for (other, job, task, at) in self.placed() {
            let other = Member { id: other.job, job, group: task.group };
            let near = |level| {
                let here = self.domain(row, level);
                here.is_some() && here == self.domain(at, level)
            };
            for rule in &of.job.spec.groups[of.group].rules.tasks {
                if let TaskRule::Prefer { near: term, weight } = rule
                    && of.selects(&term.tasks, other)
                    && near(&term.level)
                {
                    own += i64::from(*weight);
                }
            }
            for rule in &other.job.spec.groups[other.group].rules.tasks {
                match rule {
                    TaskRule::Prefer { near: term, weight }
                        if other.selects(&term.tasks, of) && near(&term.level) =>
                    {
                        others += i64::from(*weight);
                    }
                    TaskRule::Affinity(terms) => {
                        let meant = terms
                            .iter()
                            .filter(|term| other.selects(&term.tasks, of) && near(&term.level));
                        seekers += meant.count() as u64;
                    }
                    _ => {}
                }
            }
        }
        (own, others, seekers)
    }

    /// The domain of a machine for a spread of a group, and the number of tasks in it that the spread counts.
    #[must_use]
    pub fn spread_place(
        &self,
        (id, group): (JobId, usize),
        spread: &Spread,
        row: usize,
    ) -> Option<(String, usize)> {
        let of = Member { id, job: self.jobs.get(&id)?, group };
        let domain = self.domain(row, &spread.level)?;
        let count = self.spread_count(of, spread, &domain);
        Some((domain, count))
    }
}
