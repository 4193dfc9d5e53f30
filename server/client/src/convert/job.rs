//! Jobs, their groups, and the states of their tasks.

use super::machine::{label_list, labels};
use super::{Malformed, all, amounts, narrow, values, variant};
use crate::proto;
use omega_core::{
    CardRequest, CorePlace, CoreRequest, Curve, Job, JobKind, KindId, MachineId, Precedence,
    Preemption, TaskGroup, TaskReport, TaskState, Text, Wants,
};

/// A name that may be left out.
fn named(name: String, otherwise: &str) -> Text {
    if name.is_empty() { otherwise.into() } else { name.into() }
}

pub(super) fn texts(list: Vec<String>) -> Vec<Text> {
    list.into_iter().map(Into::into).collect()
}

pub(super) fn strings(list: &[Text]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

impl From<&Job> for proto::Job {
    fn from(job: &Job) -> Self {
        let kind = match job.kind {
            JobKind::Service => proto::JobKind::Service,
            JobKind::Batch => proto::JobKind::Batch,
        };
        let preemption = match job.preemption {
            Preemption::LowerPrecedence => proto::Preemption::LowerPrecedence,
            Preemption::Never => proto::Preemption::Never,
        };
        proto::Job {
            name: job.name.to_string(),
            tenant: job.tenant.to_string(),
            scheduler: job.scheduler.to_string(),
            precedence: job.precedence.0,
            preemption: preemption.into(),
            kind: kind.into(),
            groups: job.groups.iter().map(Into::into).collect(),
            gang_min: job.gang_min,
            gang_hold_ms: job.gang_hold_ms,
            run_ms_expected: job.run_ms_expected,
            due_ms: job.due_ms,
        }
    }
}

impl TryFrom<proto::Job> for Job {
    type Error = Malformed;

    fn try_from(job: proto::Job) -> Result<Self, Malformed> {
        let kind = match variant(job.kind, "job.kind")? {
            proto::JobKind::Unspecified | proto::JobKind::Batch => JobKind::Batch,
            proto::JobKind::Service => JobKind::Service,
        };
        use proto::Preemption as Given;
        let preemption = match variant(job.preemption, "job.preemption")? {
            Given::Unspecified | Given::LowerPrecedence => Preemption::LowerPrecedence,
            Given::Never => Preemption::Never,
        };
        Ok(Job {
            name: job.name.into(),
            tenant: named(job.tenant, "default"),
            scheduler: named(job.scheduler, "default"),
            precedence: Precedence(job.precedence),
            preemption,
            kind,
            groups: all(job.groups)?,
            gang_min: job.gang_min,
            gang_hold_ms: job.gang_hold_ms,
            run_ms_expected: job.run_ms_expected,
            due_ms: job.due_ms,
        })
    }
}

impl From<&TaskGroup> for proto::TaskGroup {
    fn from(group: &TaskGroup) -> Self {
        let cards = |cards: CardRequest| proto::CardRequest {
            count: cards.count.into(),
            milli_each: cards.milli_each.into(),
        };
        let wants = |wants: &Wants| proto::Wants {
            amounts: values(&wants.amounts),
            cards: wants.cards.map(cards),
        };
        proto::TaskGroup {
            name: group.name.to_string(),
            count: group.count,
            request: values(&group.request),
            cards: group.cards.map(cards),
            labels: label_list(&group.labels),
            restarts: group.restarts,
            images: strings(&group.images),
            rules: Some((&group.rules).into()),
            volumes: strings(&group.volumes),
            grace_ms: group.grace_ms,
            curves: group.curves.iter().map(curve).collect(),
            wants: group.wants.as_ref().map(wants),
            cores: group.cores.map(cores),
            cell_request: values(&group.cell_request),
        }
    }
}

impl TryFrom<proto::TaskGroup> for TaskGroup {
    type Error = Malformed;

    fn try_from(group: proto::TaskGroup) -> Result<Self, Malformed> {
        let cards = |cards: proto::CardRequest| -> Result<_, Malformed> {
            Ok(CardRequest {
                count: narrow(cards.count, u8::MAX, "cards.count")?,
                milli_each: narrow(cards.milli_each, u16::MAX, "cards.milli_each")?,
            })
        };
        let wants = |wants: proto::Wants| -> Result<_, Malformed> {
            let cards = wants.cards.map(cards).transpose()?;
            Ok(Wants { amounts: amounts(wants.amounts), cards })
        };
        Ok(TaskGroup {
            name: named(group.name, "main"),
            count: group.count,
            request: amounts(group.request),
            cards: group.cards.map(cards).transpose()?,
            labels: labels(group.labels),
            restarts: group.restarts,
            images: texts(group.images),
            rules: group.rules.map(TryFrom::try_from).transpose()?.unwrap_or_default(),
            volumes: texts(group.volumes),
            grace_ms: group.grace_ms,
            curves: group.curves.into_iter().map(curve_in).collect::<Result<_, _>>()?,
            wants: group.wants.map(wants).transpose()?,
            cores: group.cores.map(cores_in).transpose()?,
            cell_request: amounts(group.cell_request),
        })
    }
}

fn cores(cores: CoreRequest) -> proto::CoreRequest {
    let place = match cores.place {
        CorePlace::AnyNodes => proto::CorePlace::AnyNodes,
        CorePlace::OneNode => proto::CorePlace::OneNode,
    };
    proto::CoreRequest { count: cores.count.into(), place: place.into() }
}

fn cores_in(cores: proto::CoreRequest) -> Result<CoreRequest, Malformed> {
    let place = match variant(cores.place, "cores.place")? {
        proto::CorePlace::Unspecified | proto::CorePlace::AnyNodes => CorePlace::AnyNodes,
        proto::CorePlace::OneNode => CorePlace::OneNode,
    };
    Ok(CoreRequest { count: narrow(cores.count, u16::MAX, "cores.count")?, place })
}

fn curve(curve: &Curve) -> proto::Curve {
    proto::Curve { kind: curve.kind.0.into(), points: curve.points.clone() }
}

fn curve_in(curve: proto::Curve) -> Result<Curve, Malformed> {
    let kind = KindId(narrow(curve.kind, u8::MAX, "curves.kind")?);
    Ok(Curve { kind, points: curve.points })
}

/// The state of a task as a message has it: its phase, and its machine if it has one.
#[must_use]
pub fn phase(state: TaskState) -> (proto::TaskPhase, Option<MachineId>) {
    let phase = match state {
        TaskState::Pending => proto::TaskPhase::Pending,
        TaskState::Placed(_) => proto::TaskPhase::Placed,
        TaskState::Running(_) => proto::TaskPhase::Running,
        TaskState::Finished => proto::TaskPhase::Finished,
        TaskState::Failed => proto::TaskPhase::Failed,
        TaskState::Killed => proto::TaskPhase::Killed,
    };
    (phase, state.machine())
}

/// The state of a task from a message.
///
/// # Errors
/// If there is no such phase.
pub fn task_state(value: i32, machine: MachineId) -> Result<TaskState, Malformed> {
    Ok(match variant(value, "phase")? {
        proto::TaskPhase::Unspecified => return Err(Malformed::Missing("phase")),
        proto::TaskPhase::Pending => TaskState::Pending,
        proto::TaskPhase::Placed => TaskState::Placed(machine),
        proto::TaskPhase::Running => TaskState::Running(machine),
        proto::TaskPhase::Finished => TaskState::Finished,
        proto::TaskPhase::Failed => TaskState::Failed,
        proto::TaskPhase::Killed => TaskState::Killed,
    })
}

impl From<TaskReport> for proto::TaskReport {
    fn from(report: TaskReport) -> Self {
        match report {
            TaskReport::Started => proto::TaskReport::Started,
            TaskReport::Finished => proto::TaskReport::Finished,
            TaskReport::Failed => proto::TaskReport::Failed,
            TaskReport::Lost => proto::TaskReport::Lost,
        }
    }
}

/// The report of a message.
///
/// # Errors
/// If it says nothing.
pub fn task_report(value: i32) -> Result<TaskReport, Malformed> {
    Ok(match variant(value, "report")? {
        proto::TaskReport::Unspecified => return Err(Malformed::Missing("report")),
        proto::TaskReport::Started => TaskReport::Started,
        proto::TaskReport::Finished => TaskReport::Finished,
        proto::TaskReport::Failed => TaskReport::Failed,
        proto::TaskReport::Lost => TaskReport::Lost,
    })
}
