//! The rule that a task group has although its file does not contain it.

use omega_core::{JobKind, Spread, TaskRule, TaskSelector, TopologyLevel, WhenUnsatisfiable};

/// Returns the implied rule of a group: a group with one task on each machine forbids two tasks on one machine, and a
/// group of a service without rules prefers machines with fewer of its tasks.
pub(in crate::commands::files) fn rule(kind: JobKind, per_machine: bool) -> Option<TaskRule> {
    let (of, level) = (TaskSelector::SameGroup, TopologyLevel::Machine);
    match (per_machine, kind) {
        (true, _) => Some(TaskRule::AntiAffinity { from: of, level }),
        (false, JobKind::Service) => Some(TaskRule::Spread(Spread {
            when: WhenUnsatisfiable::ScheduleAnyway,
            ..Spread::new(of, level, 1)
        })),
        (false, JobKind::Batch) => None,
    }
}
