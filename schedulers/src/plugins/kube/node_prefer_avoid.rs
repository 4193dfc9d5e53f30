//! Machines with a list of jobs and tenants to avoid. (Kubernetes' former NodePreferAvoidPods.)
//!
//! The list is a label of the machine, with entries separated by commas:
//!
//! ```text
//!   prefer-avoid = "job/web, tenant/research"
//! ```
//!
//! Spaces around an entry are ignored. An entry of another form has no effect, because a typing
//! error in one label should not stop a scheduler. Names with a comma cannot be listed.

use crate::framework::plugin::{Reads, SCORE_MAX, Score, Tasks, lanes};
use omega_cellstate::{BLOCK, Block, MachineSet, SetId, View};
use omega_core::{Job, MachineSelector, Operator, Requirement, Text};

/// Default key of the label that lists the jobs and tenants that should avoid the machine.
pub const PREFER_AVOID: &str = "prefer-avoid";

/// Score: the maximum for a machine whose label lists neither the job nor its tenant, else 0.
#[derive(Clone, Debug)]
pub struct NodePreferAvoid {
    label: Text,
    /// Machines that have the label.
    speaking: MachineSet,
}

impl Default for NodePreferAvoid {
    fn default() -> NodePreferAvoid {
        NodePreferAvoid::new(PREFER_AVOID)
    }
}

impl NodePreferAvoid {
    /// Creates the score that reads the label with this key.
    #[must_use]
    pub fn new(label: impl Into<Text>) -> NodePreferAvoid {
        let label = label.into();
        let exists =
            Requirement { key: label.clone(), operator: Operator::Exists, values: Vec::new() };
        let speaking = MachineSelector { labels: vec![exists], names: Vec::new() };
        NodePreferAvoid { label, speaking: MachineSet::Matching(vec![speaking]) }
    }

    fn speaking(&self, view: &View) -> Option<SetId> {
        let set = view.kept_set(&self.speaking);
        debug_assert!(set.is_some(), "the profile was prepared for the view");
        set
    }
}

/// Whether a label's value lists a job or its tenant.
fn avoids(value: &str, job: &Job) -> bool {
    value.split(',').filter_map(|entry| entry.trim().split_once('/')).any(|(what, name)| match what
    {
        "job" => *name == *job.name,
        "tenant" => *name == *job.tenant,
        _ => false,
    })
}

impl Score for NodePreferAvoid {
    fn name(&self) -> &'static str {
        "node_prefer_avoid"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION | Reads::JOB
    }

    /// Applies only if some machine has the label.
    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        self.speaking(tasks.view).is_some_and(|set| !tasks.view.is_empty_set(set))
    }

    fn keep(&self, view: &mut View) {
        view.keep_set(&self.speaking);
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        *scores = [SCORE_MAX; BLOCK];
        let speaking = self.speaking(tasks.view).map_or(0, |set| block.set(set));
        for lane in lanes(among & speaking) {
            let said = block.machine(lane).and_then(|machine| machine.labels.get(&self.label));
            if said.is_some_and(|value| avoids(value, tasks.job)) {
                scores[lane] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, TaskGroup};

    #[test]
    fn a_value_names_jobs_and_tenants() {
        let mut job = Job::batch("a/b", TaskGroup::new(1, Amounts::zero()));
        job.tenant = "t".into();
        for named in ["job/a/b", "job/x, tenant/t", "nonsense,,job/a/b ", " tenant/t,job/"] {
            assert!(avoids(named, &job), "{named}");
        }
        for other in ["", "a/b", "job/a", "jobs/a/b", "tenant/a/b", "job/t", "job/ a/b"] {
            assert!(!avoids(other, &job), "{other}");
        }
    }
}
