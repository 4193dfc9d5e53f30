//! Shapes: compiled task groups that groups with equal needs share.
//!
//! Most jobs have groups equal to those of other jobs. The cell and every view keep the compiled needs of equal groups
//! once. So a job of one task takes less memory, and a commit reads needs that the previous commit has brought into the
//! cache. Comparing a group with the last few shapes costs a fraction of compiling it.
//!
//! Only rules about other tasks can make the needs of a group depend on its job. So needs are shared only while the
//! cell has no such rule. If a rule comes later, a group that it concerns gets its own copy of the needs.

use crate::index::need::Need;
use crate::policy::PolicySet;
use omega_core::{Job, TaskGroup};
use smallvec::SmallVec;
use std::sync::Arc;

/// Number of shapes that are kept. A group is compared with each shape before it is compiled.
const SHAPES_MAX: usize = 4;

/// The groups that were compiled last, with their needs. Each shape is one user of the machine sets of its needs.
#[derive(Clone, Debug, Default)]
pub struct Shapes {
    known: SmallVec<[Shape; SHAPES_MAX]>,
    /// Position of the shape that is replaced next.
    oldest: usize,
}

/// A compiled group.
#[derive(Clone, Debug)]
pub struct Shape {
    pub job: Arc<Job>,
    /// Position of the group in the job.
    pub index: usize,
    pub need: Arc<Need>,
}

impl Shapes {
    /// Returns the needs of an equal group, if a shape has one.
    pub fn find(&self, job: &Job, index: usize) -> Option<&Arc<Need>> {
        let group = &job.groups[index];
        let policies = PolicySet::concerning(job, group);
        let is_alike = |shape: &&Shape| {
            let known = &shape.job.groups[shape.index];
            shape.need.policies == policies && (known.is_same(group) || needs_alike(known, group))
        };
        self.known.iter().find(is_alike).map(|shape| &shape.need)
    }

    /// Adds a shape. Returns the needs of the shape that it replaces.
    pub fn add(&mut self, shape: Shape) -> Option<Arc<Need>> {
        if self.known.len() < SHAPES_MAX {
            self.known.push(shape);
            return None;
        }
        let before = std::mem::replace(&mut self.known[self.oldest], shape);
        self.oldest = (self.oldest + 1) % SHAPES_MAX;
        Some(before.need)
    }
}

/// Whether two groups have equal needs, provided that no rule about other tasks concerns them.
fn needs_alike(one: &TaskGroup, other: &TaskGroup) -> bool {
    fn needed(group: &TaskGroup) -> impl PartialEq + use<'_> {
        // Every field is named, so that adding a field forces a decision whether `MachineIndex::compile` reads it.
        let TaskGroup {
            name: _,
            count: _,
            restarts: _,
            grace_ms: _,
            run: _,
            payload: _,
            version: _,
            per_machine: _,
            // Only plugins and rules about other tasks read these fields. Plugins read them from the group itself.
            labels: _,
            images: _,
            volumes: _,
            request,
            devices,
            cores,
            rules,
            demand_profiles,
            cluster_request,
            optional,
            any_ports,
        } = group;
        let amounts = (request, devices, cores, demand_profiles, cluster_request, optional);
        (amounts, rules, any_ports)
    }
    needed(one) == needed(other)
}

#[cfg(test)]
mod tests {
    use crate::handle::CellHandle;
    use crate::{Cell, Interest, SharedCell, View};
    use omega_core::{
        Amounts, Command, Job, JobId, Kinds, Machine, TaskGroup, TaskRule, TaskSelector,
        TopologyLevel,
    };
    use std::sync::Arc;

    fn viewed() -> (SharedCell, View) {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([10])))).unwrap();
        let (id, number) = cell.register("s".into()).unwrap();
        let mut view = View::new(id, number).with_interest(Interest::Machines);
        view.sync(&cell).unwrap();
        (cell, view)
    }

    fn job(name: &str, request: u64) -> Arc<Job> {
        Arc::new(Job::batch(name, TaskGroup::new(1, Amounts::new([request]))))
    }

    #[test]
    fn equal_groups_share_what_they_need_and_others_do_not() {
        let (_, mut view) = viewed();
        let groups = [1, 1, 2, 1].map(|request| job("j", request));
        let compiled: Vec<_> =
            groups.iter().zip(0..).map(|(job, id)| view.compile(JobId(id), job, 0)).collect();
        let need = |i: usize| std::ptr::from_ref(view.need(compiled[i]));
        assert_eq!(need(0), need(1));
        assert_eq!(need(0), need(3));
        assert_ne!(need(0), need(2));
        assert_eq!(view.need(compiled[2]).request[0], 2);
    }

    #[test]
    fn jobs_that_other_policies_concern_do_not_share() {
        let (_, mut view) = viewed();
        let batch = job("j", 1);
        let gang = Arc::new(Job { gang_min: Some(1), ..Job::clone(&batch) });
        let jobs = [&batch, &gang, &batch, &gang];
        let compiled: Vec<_> =
            jobs.iter().zip(0..).map(|(job, id)| view.compile(JobId(id), job, 0)).collect();
        let need = |i: usize| std::ptr::from_ref(view.need(compiled[i]));
        assert_ne!(need(0), need(1));
        assert_eq!((need(0), need(1)), (need(2), need(3)));
    }

    /// Checks that each group and each shape counts as a user of its machine sets, so that no set is released too
    /// often.
    #[test]
    fn shapes_and_groups_release_their_sets() {
        let (_, mut view) = viewed();
        for round in 0..3 {
            for i in 0..50 {
                view.compile(JobId(i), &job("j", 1 + (i + round) % 7), 0);
            }
            (0..50).for_each(|i| view.forget_job(JobId(i)));
        }
        let group = view.compile(JobId(0), &job("j", 1), 0);
        assert!(view.check_fit(0, group).is_ok());
    }

    #[test]
    fn a_rule_about_other_tasks_ends_the_sharing() {
        let (cell, mut view) = viewed();
        let before = view.compile(JobId(7), &job("before", 1), 0);
        let mut group = TaskGroup::new(1, Amounts::new([1]));
        let from = TaskSelector::SameGroup;
        group.rules.tasks.push(TaskRule::AntiAffinity { from, level: TopologyLevel::Machine });
        let ruled = Arc::new(Job::batch("ruled", group));
        cell.apply(Command::SubmitJob(Job::clone(&ruled))).unwrap();
        view.sync(&cell).unwrap();
        let ruled = view.compile(JobId(0), &ruled, 0);
        assert!(view.need(ruled).has_rules() && !view.need(before).has_rules());
        let [one, other] = [8, 9].map(|id| view.compile(JobId(id), &job("after", 1), 0));
        assert_ne!(std::ptr::from_ref(view.need(one)), std::ptr::from_ref(view.need(other)));
    }
}
