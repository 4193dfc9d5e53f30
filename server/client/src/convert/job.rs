//! Conversion of jobs, their groups, and the states of their tasks.

use super::machine::{label_list, labels};
use super::{Malformed, amounts, narrow, values, variant};
use crate::proto;
use omega_core::{
    CorePlace, CoreRequest, DemandProfile, DeviceRequest, Job, JobKind, KindId, MachineId,
    OnFailure, OptionalResources, Precedence, Preemption, Run, TaskGroup, TaskReport, TaskState,
    Text, UpdateRules,
};
use std::sync::Arc;

/// Returns the name, or `otherwise` if the name is left out.
fn named(name: String, otherwise: &str) -> Text {
    if name.is_empty() { otherwise.into() } else { name.into() }
}

pub(super) fn texts(list: Vec<String>) -> Vec<Text> {
    list.into_iter().map(Into::into).collect()
}

pub(super) fn strings(list: &[Text]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

impl proto::Job {
    /// Returns the job without programs and payloads, which only roles of the job's tenant may see.
    #[must_use]
    pub fn without_programs(mut self) -> proto::Job {
        for group in &mut self.groups {
            group.run = None;
            group.payload.clear();
        }
        self
    }
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
            groups: job.groups.iter().map(|group| (&**group).into()).collect(),
            gang_min: job.gang_min,
            gang_timeout_ms: job.gang_timeout_ms,
            runtime_estimate_ms: job.runtime_estimate_ms,
            deadline_ms: job.deadline_ms,
            update: job.update.map(Into::into),
        }
    }
}

impl From<UpdateRules> for proto::UpdateRules {
    fn from(rules: UpdateRules) -> Self {
        let on_failure = match rules.on_failure {
            OnFailure::Stop => proto::OnFailure::Stop,
            OnFailure::Rollback => proto::OnFailure::Rollback,
        };
        proto::UpdateRules {
            max_unavailable: rules.max_unavailable,
            max_surge: rules.max_surge,
            min_healthy_ms: rules.min_healthy_ms,
            on_failure: on_failure.into(),
        }
    }
}

impl TryFrom<proto::UpdateRules> for UpdateRules {
    type Error = Malformed;

    fn try_from(rules: proto::UpdateRules) -> Result<Self, Malformed> {
        let on_failure = match variant(rules.on_failure, "update.on_failure")? {
            proto::OnFailure::Unspecified | proto::OnFailure::Stop => OnFailure::Stop,
            proto::OnFailure::Rollback => OnFailure::Rollback,
        };
        Ok(UpdateRules {
            max_unavailable: rules.max_unavailable,
            max_surge: rules.max_surge,
            min_healthy_ms: rules.min_healthy_ms,
            on_failure,
        })
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
        let groups = job.groups.into_iter().map(|group| Ok(TaskGroup::try_from(group)?.into()));
        Ok(Job {
            name: job.name.into(),
            tenant: named(job.tenant, "default"),
            scheduler: named(job.scheduler, "default"),
            precedence: Precedence(job.precedence),
            preemption,
            kind,
            groups: groups.collect::<Result<_, Malformed>>()?,
            gang_min: job.gang_min,
            gang_timeout_ms: job.gang_timeout_ms,
            runtime_estimate_ms: job.runtime_estimate_ms,
            deadline_ms: job.deadline_ms,
            update: job.update.map(TryFrom::try_from).transpose()?,
        })
    }
}

impl From<&TaskGroup> for proto::TaskGroup {
    fn from(group: &TaskGroup) -> Self {
        let devices = |devices: DeviceRequest| proto::DeviceRequest {
            count: devices.count.into(),
            milli_each: devices.milli_each.into(),
        };
        let optional = |optional: &OptionalResources| proto::OptionalResources {
            amounts: values(&optional.amounts),
            devices: optional.devices.map(devices),
        };
        proto::TaskGroup {
            name: group.name.to_string(),
            count: group.count,
            request: values(&group.request),
            devices: group.devices.map(devices),
            labels: label_list(&group.labels),
            restarts: group.restarts,
            images: strings(&group.images),
            rules: Some((&group.rules).into()),
            volumes: strings(&group.volumes),
            grace_ms: group.grace_ms,
            demand_profiles: group.demand_profiles.iter().map(demand_profile).collect(),
            optional: group.optional.as_ref().map(optional),
            cores: group.cores.map(cores),
            cluster_request: values(&group.cluster_request),
            run: group.run.as_deref().map(Into::into),
            payload: group.payload.as_bytes().to_vec(),
            version: group.version,
            per_machine: group.per_machine,
            any_ports: strings(&group.any_ports),
        }
    }
}

impl TryFrom<proto::TaskGroup> for TaskGroup {
    type Error = Malformed;

    fn try_from(group: proto::TaskGroup) -> Result<Self, Malformed> {
        let devices = |devices: proto::DeviceRequest| -> Result<_, Malformed> {
            Ok(DeviceRequest {
                count: narrow(devices.count, u8::MAX, "devices.count")?,
                milli_each: narrow(devices.milli_each, u16::MAX, "devices.milli_each")?,
            })
        };
        let optional = |optional: proto::OptionalResources| -> Result<_, Malformed> {
            let devices = optional.devices.map(devices).transpose()?;
            Ok(OptionalResources { amounts: amounts(optional.amounts), devices })
        };
        Ok(TaskGroup {
            name: named(group.name, "main"),
            count: group.count,
            request: amounts(group.request),
            devices: group.devices.map(devices).transpose()?,
            labels: labels(group.labels),
            restarts: group.restarts,
            images: texts(group.images),
            rules: group.rules.map(TryFrom::try_from).transpose()?.unwrap_or_default(),
            volumes: texts(group.volumes),
            grace_ms: group.grace_ms,
            demand_profiles: group
                .demand_profiles
                .into_iter()
                .map(demand_profile_in)
                .collect::<Result<_, _>>()?,
            optional: group.optional.map(optional).transpose()?,
            cores: group.cores.map(cores_in).transpose()?,
            cluster_request: amounts(group.cluster_request),
            run: group.run.map(Run::try_from).transpose()?.map(Arc::new),
            payload: group.payload.into(),
            version: group.version,
            per_machine: group.per_machine,
            any_ports: texts(group.any_ports),
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

fn demand_profile(demand_profile: &DemandProfile) -> proto::DemandProfile {
    proto::DemandProfile {
        kind: demand_profile.kind.0.into(),
        points: demand_profile.points.clone(),
    }
}

fn demand_profile_in(demand_profile: proto::DemandProfile) -> Result<DemandProfile, Malformed> {
    let kind = KindId(narrow(demand_profile.kind, u8::MAX, "demand_profiles.kind")?);
    Ok(DemandProfile { kind, points: demand_profile.points })
}

/// Converts the state of a task to a phase, and a machine if the task has one.
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

/// Converts the state of a task in a message.
///
/// # Errors
/// The phase does not exist.
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
            TaskReport::Restarted => proto::TaskReport::Restarted,
        }
    }
}

/// Converts the report in a message.
///
/// # Errors
/// The report is unspecified.
pub fn task_report(value: i32) -> Result<TaskReport, Malformed> {
    Ok(match variant(value, "report")? {
        proto::TaskReport::Unspecified => return Err(Malformed::Missing("report")),
        proto::TaskReport::Started => TaskReport::Started,
        proto::TaskReport::Finished => TaskReport::Finished,
        proto::TaskReport::Failed => TaskReport::Failed,
        proto::TaskReport::Lost => TaskReport::Lost,
        proto::TaskReport::Restarted => TaskReport::Restarted,
    })
}
