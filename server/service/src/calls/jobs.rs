//! Calls about jobs, for users.

use crate::access::audited::about;
use crate::access::grants::caller;
use crate::access::identity::Caller;
use crate::access::visibility;
use crate::calls::explain::{Explainer, Explanations};
use crate::calls::history;
use crate::calls::jobs_page::JobsPage;
use crate::calls::jobs_watch::JobsWatch;
use crate::calls::refs;
use crate::calls::responses;
use crate::host::{Host, done, unknown};
use crate::observe::statistics;
use crate::overload::in_flight::TenantUse;
use crate::overload::limits::Limits;
use crate::overload::task_changes::TaskChanges;
use crate::overload::tenant_limits::TenantLimits;
use crate::service::{RpcResult, deadline};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use omega_cellstate::{Cell, JobVersion};
use omega_client::proto::job_service_server::JobService;
use omega_client::{ApiError, ErrorCode, proto, restart};
use omega_core::{Command, Job, JobId, Outcome, SharedGroup, Text, UpdateResult};
use std::sync::Arc;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

/// The job service.
#[derive(Clone, Debug)]
pub struct Jobs {
    host: Host,
    explanations: Explanations,
    tenant_limits: TenantLimits,
    task_changes: TaskChanges,
}

impl Jobs {
    /// Creates the service of a cell, with its explainer, if any, and the limits of the server.
    #[must_use]
    pub fn new(host: Host, explainer: Option<Arc<dyn Explainer>>, limits: &Limits) -> Jobs {
        let explanations = Explanations::new(explainer);
        let (tenant_limits, task_changes) = (TenantLimits::new(limits), TaskChanges::new(limits));
        Jobs { host, explanations, tenant_limits, task_changes }
    }

    /// Submits a job, and returns its id. If an identical job exists, returns that job's id, and does not count its
    /// tasks again. The flag is true if all tasks of the existing job have ended.
    async fn submit(
        &self,
        caller: &Caller,
        job: &Job,
        until: Instant,
    ) -> Result<(JobId, bool), ApiError> {
        let tasks = job.task_count();
        let adds = TenantUse::described(job, tasks);
        let is_new = self.host.read(|cell| cell.job_by_name(&job.name).is_none());
        let admitted =
            self.tenant_limits.admit(&self.host, &job.tenant, adds).and_then(|admitted| {
                self.task_changes.count(caller, if is_new { tasks } else { 0 })?;
                Ok(admitted)
            });
        let submitted = match &admitted {
            Ok(_) => self.host.apply(Command::SubmitJob(job.clone()), until).await,
            Err(refused) => Err(refused.clone()),
        };
        match submitted {
            Ok(Outcome::Job(id)) => Ok((id, false)),
            Ok(_) => Err(unknown()),
            // The rejection may refer to a job that this replica has not applied yet, so the replica catches up first.
            Err(error) if matches!(error.code, ErrorCode::NameTaken | ErrorCode::NotAdmitted) => {
                self.host.refresh(until).await?;
                let same = self.host.read(|cell| {
                    let id = cell.job_by_name(&job.name)?;
                    let known = cell.job_target(id)?;
                    let same = restart::updated(job.clone(), known) == **known;
                    same.then(|| (id, !cell.is_alive(id)))
                });
                same.ok_or_else(|| match error.code {
                    ErrorCode::NameTaken => ApiError {
                        message: format!(
                            "job {:?} already exists: choose another name, update the job with \
                             `omega job apply`, or free its name with `omega job delete`",
                            job.name
                        ),
                        ..error
                    },
                    _ => error,
                })
            }
            Err(error) => Err(error),
        }
    }
}

/// Number of a job's tasks, as its description states it.
fn task_count(cell: &Cell, job: JobId) -> u64 {
    cell.job(job).map_or(0, |job| job.task_count())
}

/// Whether an update takes an incomplete restart back: it is to an earlier version with the same programs.
fn takes_restart_back(versions: &[JobVersion], spec: &Job, target: &Job) -> bool {
    let is_open = |one: &JobVersion| one.result != Some(UpdateResult::Complete);
    versions.last().is_some_and(is_open)
        && versions.iter().any(|one| *one.spec == *spec)
        && restart::is_restart(target, spec)
}

#[tonic::async_trait]
impl JobService for Jobs {
    async fn submit_job(
        &self,
        request: Request<proto::SubmitJobRequest>,
    ) -> RpcResult<proto::SubmitJobResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| request.job.as_ref().map_or("", |job| &job.name).to_owned());
        let given = request.into_inner().job;
        let missing = || ApiError::new(ErrorCode::Malformed, "job is missing");
        let job = described(given.ok_or_else(missing)?)?;
        visibility::may_submit(&caller, &job)?;
        visibility::may_select(&caller, &job)?;
        let (id, ended) = self.submit(&caller, &job, until).await?;
        Ok(Response::new(proto::SubmitJobResponse { id: id.0, ended }))
    }

    async fn resize_group(
        &self,
        request: Request<proto::ResizeGroupRequest>,
    ) -> RpcResult<proto::ResizeGroupResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| refs::shown(request.job.as_ref()));
        let request = request.into_inner();
        self.host.refresh(until).await?;
        let named: Text = if request.group.is_empty() { "main" } else { &request.group }.into();
        let (job, group, tenant, count) = self.host.read(|cell| {
            let id = refs::job(cell, request.job, &caller)?;
            // During an update, the job also has groups of older versions.
            let Some(job) = cell.job_target(id) else {
                return Ok((id, named, Text::default(), None));
            };
            visibility::may_submit(&caller, job)?;
            let group = match &*job.groups {
                [only] if request.group.is_empty() => only.name.clone(),
                _ => named,
            };
            let known = job.groups.iter().find(|known| known.name == group);
            may_resize(cell, (id, job), known)?;
            Ok::<_, ApiError>((id, group, job.tenant.clone(), known.map(|known| known.count)))
        })?;
        let has = count.unwrap_or(request.count);
        let more = TenantUse::tasks(request.count.saturating_sub(has).into());
        let _admitted = self.tenant_limits.admit(&self.host, &tenant, more)?;
        self.task_changes.count(&caller, request.count.abs_diff(has).into())?;
        let command = Command::ScaleGroup { job, group, count: request.count };
        let version = done(self.host.apply(command, until).await?)?;
        Ok(Response::new(proto::ResizeGroupResponse { version: version.0 }))
    }

    async fn kill_job(
        &self,
        request: Request<proto::KillJobRequest>,
    ) -> RpcResult<proto::KillJobResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| refs::shown(request.job.as_ref()));
        self.host.refresh(until).await?;
        let (job, tasks) = self.host.read(|cell| {
            let job = refs::job(cell, request.into_inner().job, &caller)?;
            Ok::<_, ApiError>((job, if cell.is_alive(job) { task_count(cell, job) } else { 0 }))
        })?;
        self.task_changes.count(&caller, tasks)?;
        let version = done(self.host.apply(Command::KillJob { job }, until).await?)?;
        Ok(Response::new(proto::KillJobResponse { version: version.0 }))
    }

    async fn delete_job(
        &self,
        request: Request<proto::DeleteJobRequest>,
    ) -> RpcResult<proto::DeleteJobResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| refs::shown(request.job.as_ref()));
        self.host.refresh(until).await?;
        let (job, tasks) = self.host.read(|cell| {
            let job = refs::job(cell, request.into_inner().job, &caller)?;
            Ok::<_, ApiError>((job, task_count(cell, job)))
        })?;
        self.task_changes.count(&caller, tasks)?;
        let version = match self.host.apply(Command::DeleteJob { job }, until).await {
            // An earlier attempt of this call may have deleted the job, so this is success.
            Err(error) if error.code == ErrorCode::UnknownJob => self.host.read(Cell::version),
            outcome => done(outcome?)?,
        };
        Ok(Response::new(proto::DeleteJobResponse { version: version.0 }))
    }

    async fn update_job(
        &self,
        request: Request<proto::UpdateJobRequest>,
    ) -> RpcResult<proto::UpdateJobResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| request.job.as_ref().map_or("", |job| &job.name).to_owned());
        let proto::UpdateJobRequest { job, version } = request.into_inner();
        let missing = || ApiError::new(ErrorCode::Malformed, "job is missing");
        let spec = described(job.ok_or_else(missing)?)?;
        visibility::may_submit(&caller, &spec)?;
        visibility::may_select(&caller, &spec)?;
        self.host.refresh(until).await?;
        let named = proto::job_ref::Job::Name(spec.name.to_string());
        let named = Some(proto::JobRef { job: Some(named) });
        let (job, spec, adds, changes) = self.host.read(|cell| {
            let id = refs::job(cell, named, &caller)?;
            let spec = match cell.job_target(id) {
                Some(target) if !takes_restart_back(cell.job_versions(id), &spec, target) => {
                    restart::updated(spec, target)
                }
                _ => spec,
            };
            // A job that has ended starts again with all its tasks.
            let target = cell.job_target(id).filter(|_| cell.is_alive(id));
            if target.is_some_and(|target| **target == spec) {
                return Ok((id, spec, TenantUse::default(), 0));
            }
            let has = target.map_or(0, |target| target.task_count());
            let more = spec.task_count().saturating_sub(has);
            let adds = TenantUse::described(&spec, more);
            // The update may replace each task.
            let changes = has + spec.task_count();
            Ok::<_, ApiError>((id, spec, adds, changes))
        })?;
        let _admitted = self.tenant_limits.admit(&self.host, &spec.tenant, adds)?;
        self.task_changes.count(&caller, changes)?;
        done(self.host.apply(Command::UpdateJob { job, version, spec }, until).await?)?;
        let version = self.host.read(|cell| cell.job_version(job)).unwrap_or_default();
        Ok(Response::new(proto::UpdateJobResponse { id: job.0, version }))
    }

    async fn list_job_versions(
        &self,
        request: Request<proto::ListJobVersionsRequest>,
    ) -> RpcResult<proto::ListJobVersionsResponse> {
        let caller = caller(&request)?;
        self.host.refresh(deadline(&request)).await?;
        let versions = self.host.read(|cell| {
            let id = refs::job(cell, request.into_inner().job, &caller)?;
            let sees = cell.job(id).is_some_and(|job| caller.may_see_programs(job));
            Ok::<_, ApiError>(responses::versions(cell, id, sees))
        })?;
        Ok(Response::new(proto::ListJobVersionsResponse { versions }))
    }

    async fn get_job(
        &self,
        request: Request<proto::GetJobRequest>,
    ) -> RpcResult<proto::GetJobResponse> {
        let caller = caller(&request)?;
        self.host.refresh(deadline(&request)).await?;
        let job = self.host.read(|cell| {
            let id = refs::job(cell, request.into_inner().job, &caller)?;
            let sees = cell.job(id).is_some_and(|job| caller.may_see_programs(job));
            let response = if sees { responses::job_with_programs } else { responses::job };
            let age_ms = statistics::age_ms(&self.host, cell, id);
            Ok::<_, ApiError>(proto::JobStatus { age_ms, ..response(cell, id) })
        })?;
        Ok(Response::new(proto::GetJobResponse { job: Some(job) }))
    }

    async fn list_jobs(
        &self,
        request: Request<proto::ListJobsRequest>,
    ) -> RpcResult<proto::ListJobsResponse> {
        let caller = caller(&request)?;
        self.host.refresh(deadline(&request)).await?;
        let request = request.into_inner();
        let answer = JobsPage::of(&self.host, &caller, &request).await?;
        Ok(Response::new(answer))
    }

    async fn list_events(
        &self,
        request: Request<proto::ListEventsRequest>,
    ) -> RpcResult<proto::ListEventsResponse> {
        let caller = caller(&request)?;
        self.host.refresh(deadline(&request)).await?;
        let reported = history::list(&self.host, request.into_inner(), &caller).await?;
        Ok(Response::new(reported))
    }

    async fn explain_job(
        &self,
        request: Request<proto::ExplainJobRequest>,
    ) -> RpcResult<proto::ExplainJobResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        self.host.refresh(until).await?;
        self.host.read(|cell| refs::job(cell, request.get_ref().job.clone(), &caller))?;
        let (caller, request) = (Some(&caller), request.into_inner());
        let reported = self.explanations.explain(&self.host, caller, request, until).await?;
        Ok(Response::new(reported))
    }

    type WatchJobStream = BoxStream<'static, Result<proto::WatchJobResponse, Status>>;

    async fn watch_job(
        &self,
        request: Request<proto::WatchJobRequest>,
    ) -> RpcResult<Self::WatchJobStream> {
        let caller = caller(&request)?;
        self.host.refresh(deadline(&request)).await?;
        let job = self.host.read(|cell| refs::job(cell, request.into_inner().job, &caller))?;
        Ok(Response::new(JobsWatch::of_one(self.host.clone(), caller, job).tasks().boxed()))
    }

    type WatchJobsStream = BoxStream<'static, Result<proto::WatchJobsResponse, Status>>;

    async fn watch_jobs(
        &self,
        request: Request<proto::WatchJobsRequest>,
    ) -> RpcResult<Self::WatchJobsStream> {
        let caller = caller(&request)?;
        visibility::may_watch(&caller, &request.get_ref().name_prefix)?;
        // The first message must include every change that any replica confirmed before this call.
        self.host.refresh(deadline(&request)).await?;
        let prefix = request.into_inner().name_prefix;
        Ok(Response::new(JobsWatch::of_prefix(self.host.clone(), caller, prefix).jobs().boxed()))
    }
}

/// Checks that a group may be resized: its job has not ended, and the group does not have one task on each machine.
fn may_resize(
    cell: &Cell,
    (id, job): (JobId, &Job),
    group: Option<&SharedGroup>,
) -> Result<(), ApiError> {
    if !cell.is_alive(id) && !cell.is_scaled_to_zero(id) {
        let why = format!(
            "job {} has ended, so it cannot be resized: start it again with `omega job apply`",
            job.name
        );
        return Err(ApiError::new(ErrorCode::UnknownJob, why));
    }
    match group.filter(|group| group.per_machine) {
        Some(group) => {
            let why = format!(
                "group {} of job {} has one task on each machine, so it cannot be resized",
                group.name, job.name
            );
            Err(ApiError::new(ErrorCode::BadJob, why))
        }
        None => Ok(()),
    }
}

/// The job in a request. Its groups do not have versions yet.
fn described(job: proto::Job) -> Result<Job, ApiError> {
    let mut job = Job::try_from(job).map_err(ApiError::from)?;
    job.groups.iter_mut().for_each(|group| group.version = 0);
    Ok(job)
}
