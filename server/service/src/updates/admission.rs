//! Steps of jobs whose tenant is at a limit: a step adds only the tasks that the limits allow.
//!
//! The limit on the number of a tenant's tasks belongs to the server, so it is checked before a step. The request
//! limits belong to the cell, which rejects a step as a whole. After a rejection, each further step adds half as many
//! tasks, until one is accepted. If not even one task is accepted, a later step tries one task again. After an accepted
//! step, the next one adds up to twice as many tasks.

use crate::host::Host;
use crate::overload::tenant_limits::{Admitted, Granted, TenantLimits};
use omega_client::{ApiError, ErrorCode};
use omega_core::{JobId, RollStep};

/// The refusals of a job's steps.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// Maximum number of tasks that the next step adds; `None` if the last steps were accepted as planned.
    adds_max: Option<u64>,
    /// The latest reason, which was logged.
    logged: Option<ErrorCode>,
}

/// A step within the limits.
#[derive(Debug)]
pub(super) struct Allowed {
    /// The step.
    pub(super) step: RollStep,
    /// Size of the step.
    pub(super) size: Size,
    /// Tasks that are reserved until the step is in the state.
    pub(super) admitted: Option<Admitted>,
}

/// Size of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// Number of tasks that the step adds.
    adds: u64,
    /// Whether the step was planned with more tasks.
    is_cut: bool,
}

impl Admission {
    /// Returns the part of a planned step that earlier refusals and the limit on the tenant's tasks allow. `None` if
    /// nothing of the step is left, or the job is gone.
    pub(super) fn allow(
        &mut self,
        host: &Host,
        bound: TenantLimits,
        id: JobId,
        mut step: RollStep,
    ) -> Option<Allowed> {
        let planned = added(&step);
        if planned == 0 {
            return Some(Allowed { step, size: Size::default(), admitted: None });
        }
        let tenant = host.read(|cell| cell.job(id).map(|job| job.tenant.clone()))?;
        let tried = planned.min(self.adds_max.unwrap_or(u64::MAX));
        let ends = step.stops.len() as u64;
        let Granted { adds, refused, admitted } = bound.grant(host, &tenant, tried, ends);
        if let Some(refused) = refused {
            self.log(id, &refused);
        }
        let size = Size { adds, is_cut: adds < planned };
        if size.is_cut {
            cut(&mut step, adds);
        }
        let is_empty = step.adds.is_empty() && step.stops.is_empty();
        (!is_empty).then_some(Allowed { step, size, admitted: Some(admitted) })
    }

    /// Records that a step was accepted.
    pub(super) fn accepted(&mut self, size: Size) {
        if size.is_cut {
            self.adds_max = self.adds_max.map(|max| max.saturating_mul(2));
        } else if size.adds > 0 {
            *self = Admission::default();
        }
    }

    /// Records that a step was refused. Returns whether a smaller step may be tried at once.
    pub(super) fn refused(&mut self, id: JobId, size: Size, error: &ApiError) -> bool {
        self.log(id, error);
        if error.code != ErrorCode::NotAdmitted || size.adds == 0 {
            return false;
        }
        self.adds_max = Some((size.adds / 2).max(1));
        size.adds > 1
    }

    /// Logs a refusal, unless the last one had the same reason.
    fn log(&mut self, id: JobId, error: &ApiError) {
        if self.is_new(error.code) {
            tracing::warn!(job = id.to_string(), %error, "a step of a rolling update was rejected");
        }
    }

    fn is_new(&mut self, reason: ErrorCode) -> bool {
        self.logged.replace(reason) != Some(reason)
    }
}

/// Number of tasks that a step adds.
fn added(step: &RollStep) -> u64 {
    step.adds.iter().map(|add| u64::from(add.count)).sum()
}

/// Reduces the tasks that a step adds to a maximum. The maximum must be at least 1 if the step ends tasks, because a job
/// without tasks would end.
fn cut(step: &mut RollStep, max: u64) {
    let mut left = max;
    for add in &mut step.adds {
        add.count = u32::try_from(left).map_or(add.count, |left| left.min(add.count));
        left -= u64::from(add.count);
    }
    step.adds.retain(|add| add.count > 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overload::limits::Limits;
    use crate::updates::LeaderState;
    use omega_cellstate::{Cell, SharedCell};
    use omega_core::{
        Amounts, Command, Job, Kinds, Machine, Outcome, Run, TaskGroup, TaskId, TaskReport,
        TaskRule, TaskSelector, TopologyLevel, UpdateRules,
    };
    use omega_store::log::Term;
    use std::sync::Arc;

    const MACHINES: u64 = 10;

    /// A cell in memory with a job of the tenant `default`, and a controller.
    struct World {
        cell: SharedCell,
        host: Host,
        lead: LeaderState,
        job: JobId,
    }

    impl World {
        fn new(job: Job) -> World {
            let cell = SharedCell::new(Cell::new(Kinds::standard()));
            for row in 0..MACHINES {
                let machine = Machine::new(format!("m{row}").as_str(), Amounts::new([100]));
                cell.apply(Command::RegisterMachine(machine)).unwrap();
            }
            let Ok(Outcome::Job(job)) = cell.apply(Command::SubmitJob(job)) else {
                panic!("a job")
            };
            let host = Host::memory(cell.clone());
            World { cell, host, lead: LeaderState::new(Term(1)), job }
        }

        /// A job with one task on each machine. At first, it has one task.
        fn per_machine() -> World {
            let (from, level) = (TaskSelector::SameGroup, TopologyLevel::Machine);
            let mut group = TaskGroup { per_machine: true, ..TaskGroup::new(1, Amounts::new([1])) };
            group.run = Some(Arc::new(Run::new("one")));
            group.rules.tasks.push(TaskRule::AntiAffinity { from, level });
            World::new(Job::service("log", group))
        }

        fn limit(&self, requested: u64) {
            let limit = Some(Amounts::new([requested]));
            self.cell.apply(Command::SetAdmission { tenant: "default".into(), limit }).unwrap();
        }

        /// Makes steps of the controller without pauses, and returns the number of tasks after each.
        async fn steps(&mut self, count: usize, bound: u32) -> Vec<u64> {
            let limits = Limits { tenant_tasks: bound, ..Limits::default() };
            let mut tasks = Vec::new();
            for _ in 0..count {
                self.lead.open.values_mut().for_each(|open| open.not_before = None);
                self.lead.step(&self.host, TenantLimits::new(&limits)).await;
                tasks.push(self.tasks());
            }
            tasks
        }

        fn tasks(&self) -> u64 {
            self.cell.read(|cell| cell.tenant_tasks("default"))
        }

        fn update(&self, program: &str) {
            let mut spec =
                self.cell.read(|cell| Job::clone(cell.job_target(self.job).expect("it runs")));
            spec.groups[0].run = Some(Arc::new(Run::new(program)));
            self.cell.apply(Command::UpdateJob { job: self.job, version: None, spec }).unwrap();
        }

        /// Starts the first tasks, each on its machine.
        fn start(&self, count: u32) {
            for index in 0..count {
                let (task, report) = (TaskId { job: self.job, index }, TaskReport::Started);
                let name = format!("m{index}");
                let machine = self.cell.read(|cell| cell.machine_by_name(&name));
                let machine = machine.expect("it is there");
                self.cell.apply(Command::AdoptTask { task, machine }).unwrap();
                self.cell
                    .apply(Command::ReportTask { task, machine, placed_ms: 0, report })
                    .unwrap();
            }
        }
    }

    #[tokio::test]
    async fn tasks_on_each_machine_stay_within_the_limit_on_tasks() {
        let mut world = World::per_machine();
        assert_eq!(world.steps(3, 4).await, [4; 3]);
        assert!(world.host.tenants_in_flight().lock().is_empty());
        assert_eq!(world.steps(3, 100).await, [MACHINES; 3], "the limit was raised");
    }

    #[tokio::test]
    async fn tasks_on_each_machine_stay_within_the_request_limit() {
        let mut world = World::per_machine();
        world.limit(6);
        let tasks = world.steps(20, 1000).await;
        assert_eq!(tasks.last(), Some(&6), "{tasks:?}");
        world.limit(8);
        let tasks = world.steps(20, 1000).await;
        assert_eq!(tasks.last(), Some(&8), "{tasks:?}");
        world.limit(1000);
        let tasks = world.steps(20, 1000).await;
        assert_eq!(tasks.last(), Some(&MACHINES), "{tasks:?}");
    }

    #[tokio::test]
    async fn an_update_adds_no_task_beyond_the_limit() {
        let rules = UpdateRules { max_unavailable: 0, max_surge: 1, ..UpdateRules::default() };
        let mut group = TaskGroup::new(2, Amounts::new([1]));
        group.run = Some(Arc::new(Run::new("one")));
        let mut world = World::new(Job { update: Some(rules), ..Job::service("web", group) });
        world.start(2);
        world.update("two");
        assert_eq!(world.steps(3, 2).await, [2; 3]);
        assert_eq!(world.steps(1, 3).await, [3], "the limit was raised");
    }

    #[tokio::test]
    async fn tasks_are_replaced_in_one_step_even_above_the_limit() {
        let mut group = TaskGroup::new(2, Amounts::new([1]));
        group.run = Some(Arc::new(Run::new("one")));
        let mut world = World::new(Job::service("web", group));
        world.update("two");
        // The old tasks are pending, so they are replaced at once.
        assert_eq!(world.steps(2, 1).await, [2; 2]);
        let living = world.cell.read(|cell| {
            let tasks = cell.tasks(world.job).filter(|(_, state)| !state.ended());
            tasks.map(|(id, _)| id.index).collect::<Vec<_>>()
        });
        assert_eq!(living, [2, 3], "they are new");
    }

    #[test]
    fn a_reason_is_logged_once() {
        let (mut admission, id) = (Admission::default(), JobId(1));
        let size = |adds, is_cut| Size { adds, is_cut };
        let error = ApiError::new(ErrorCode::NotAdmitted, "too many");
        assert!(admission.is_new(ErrorCode::NotAdmitted));
        assert!(admission.refused(id, size(10, false), &error));
        assert!(!admission.is_new(ErrorCode::NotAdmitted));
        assert_eq!(admission.adds_max, Some(5));
        admission.accepted(size(5, true));
        assert!(!admission.refused(id, size(1, true), &error), "the next try is later");
        assert_eq!(admission.adds_max, Some(1));
        assert!(!admission.is_new(ErrorCode::NotAdmitted), "the reason is the same");
        assert!(admission.is_new(ErrorCode::Busy));
        admission.accepted(size(1, false));
        assert_eq!((admission.adds_max, admission.logged), (None, None));
    }

    #[test]
    fn a_cut_step_adds_the_first_tasks() {
        let step = || RollStep::of(1).with_tasks("a", 2).with_tasks("b", 3);
        let counts = |max| {
            let mut step = step();
            cut(&mut step, max);
            step.adds.iter().map(|add| (add.group.to_string(), add.count)).collect::<Vec<_>>()
        };
        assert_eq!(counts(1), [("a".to_owned(), 1)]);
        assert_eq!(counts(4), [("a".to_owned(), 2), ("b".to_owned(), 2)]);
        assert_eq!(counts(u64::MAX), [("a".to_owned(), 2), ("b".to_owned(), 3)]);
        assert!(counts(0).is_empty());
    }
}
