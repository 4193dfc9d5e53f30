//! The explainer of pending jobs for callers of a served cell: a scheduler that places nothing.
//!
//! The explainer is in this crate because the services do not depend on schedulers. This file also has the conversions
//! of a report to messages and back.

use omega_client::{ApiError, ErrorCode, proto};
use omega_run::report::waiting::{
    Help, Lack, NearMiss, WaitingGang, WaitingGroup, WaitingJob, render_job,
};
use omega_run::{AskedJob, explain_at};
use omega_schedulers::config::{Profiles, Registry};
use omega_schedulers::rebalance::Objectives;
use omega_service::{Explainer, ExplanationText, Question, ReadOnlyHandle};
use omega_workload::words::plural;

/// Explainer that uses the decision code of schedulers. See the module documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByScheduler;

impl Explainer for ByScheduler {
    fn explain(
        &self,
        cell: &ReadOnlyHandle,
        question: &Question,
    ) -> Result<proto::ExplainJobResponse, ApiError> {
        let wrong = |why: String| ApiError::new(ErrorCode::Malformed, format!("profile: {why}"));
        let profiles = match question.profile.as_str() {
            "" => Profiles::default(),
            text => Profiles::parse(text, &registry())
                .and_then(|profiles| profiles.check(&question.kinds).map(|()| profiles))
                .map_err(|why| wrong(why.to_string()))?,
        };
        let Question { id, job, waiting, kinds, .. } = question;
        let asked_job = AskedJob { id: *id, job, waiting: waiting.clone() };
        let explained = explain_at(cell, kinds, &profiles, asked_job, &|| question.is_needed())
            .map_err(|why| wrong(why.to_string()))?;
        Ok(to_message(explained))
    }

    fn format(&self, explanation: proto::ExplainJobResponse) -> ExplanationText {
        let job = from_message(explanation);
        ExplanationText { summary: summary(&job), text: render_job(&job) }
    }
}

/// The plugins that the profile in a question may name. Scores have no effect on an explanation, so objectives files
/// are not read.
fn registry() -> Registry {
    Registry::built_in().reading_objectives(|_, _| Ok(Objectives::drain()))
}

/// Summarises in one line why a job is pending: for the first group without a machine, the reason that applies to most
/// machines, and the change that would help.
pub(crate) fn summary(job: &WaitingJob) -> String {
    if job.waiting == 0 {
        return "none of its tasks is pending".to_owned();
    }
    let Some(group) = job.groups.iter().find(|group| group.feasible == 0) else {
        if job.unattended {
            return format!(
                "its scheduler {} is not running: no process owns this name",
                job.scheduler
            );
        }
        let feasible = job.groups.first().map_or(0, |group| group.feasible);
        let machines = plural(feasible as u64, "machine");
        return format!(
            "{machines} could run a task, but its scheduler has not tried this job yet"
        );
    };
    let why = match group.reasons.iter().max_by_key(|(_, count)| *count) {
        _ if group.machines == 0 => "the cell has no machines".to_owned(),
        Some((reason, count)) => {
            format!("{count} of {}: {reason}", plural(group.machines as u64, "machine"))
        }
        None => "no machine may run it".to_owned(),
    };
    match group.remedies.first() {
        Some(help) => format!("{why}; what would help: {}", help.text),
        None => why,
    }
}

fn to_message(waiting_job: WaitingJob) -> proto::ExplainJobResponse {
    proto::ExplainJobResponse {
        job: waiting_job.job,
        scheduler: waiting_job.scheduler,
        tasks: waiting_job.tasks,
        waiting: waiting_job.waiting as u64,
        gang: waiting_job.gang.map(|gang| proto::ExplainedGang {
            needs: gang.needs,
            have: gang.have as u64,
            room: gang.room as u64,
            waits_for_gang: gang.holds,
        }),
        groups: waiting_job.groups.into_iter().map(group_to_message).collect(),
        unattended: waiting_job.unattended,
    }
}

fn group_to_message(group: WaitingGroup) -> proto::ExplainedGroup {
    let count = |(name, machines): (String, usize)| proto::ExplainedCount {
        name,
        machines: machines as u64,
    };
    let lack = |lack: Lack| proto::ExplainedLack {
        what: lack.what.into_owned(),
        kind: lack.kind,
        missing: lack.missing,
        text: lack.text,
    };
    proto::ExplainedGroup {
        group: group.group,
        waiting: group.waiting as u64,
        request: group.request,
        machines: group.machines as u64,
        feasible: group.feasible as u64,
        removed: group.removed.into_iter().map(count).collect(),
        reasons: group.reasons.into_iter().map(count).collect(),
        nearest: group
            .nearest
            .into_iter()
            .map(|miss| proto::ExplainedMiss {
                machines: miss.machines as u64,
                example: miss.example,
                lacks: miss.lacks.into_iter().map(lack).collect(),
            })
            .collect(),
        remedies: group
            .remedies
            .into_iter()
            .map(|help| proto::ExplainedRemedy {
                what: help.what.into_owned(),
                machine: help.machine,
                machines: help.machines as u64,
                lacks: help.lacks.into_iter().map(lack).collect(),
                text: help.text,
            })
            .collect(),
    }
}

/// Converts a message of the API to a report.
pub(crate) fn from_message(explanation: proto::ExplainJobResponse) -> WaitingJob {
    WaitingJob {
        job: explanation.job,
        scheduler: explanation.scheduler,
        tasks: explanation.tasks,
        waiting: explanation.waiting as usize,
        refused: None,
        gang: explanation.gang.map(|gang| WaitingGang {
            needs: gang.needs,
            have: gang.have as usize,
            room: gang.room as usize,
            holds: gang.waits_for_gang,
        }),
        groups: explanation.groups.into_iter().map(group_from_message).collect(),
        unattended: explanation.unattended,
    }
}

fn group_from_message(group: proto::ExplainedGroup) -> WaitingGroup {
    let count = |count: proto::ExplainedCount| (count.name, count.machines as usize);
    let lack = |lack: proto::ExplainedLack| Lack {
        what: lack.what.into(),
        kind: lack.kind,
        missing: lack.missing,
        text: lack.text,
    };
    WaitingGroup {
        group: group.group,
        waiting: group.waiting as usize,
        request: group.request,
        machines: group.machines as usize,
        feasible: group.feasible as usize,
        removed: group.removed.into_iter().map(count).collect(),
        reasons: group.reasons.into_iter().map(count).collect(),
        nearest: group
            .nearest
            .into_iter()
            .map(|miss| NearMiss {
                machines: miss.machines as usize,
                example: miss.example,
                lacks: miss.lacks.into_iter().map(lack).collect(),
            })
            .collect(),
        remedies: group
            .remedies
            .into_iter()
            .map(|help| Help {
                what: help.what.into(),
                machine: help.machine,
                machines: help.machines as usize,
                lacks: help.lacks.into_iter().map(lack).collect(),
                text: help.text,
            })
            .collect(),
    }
}
