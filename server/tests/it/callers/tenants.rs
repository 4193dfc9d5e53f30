//! Jobs that each role may see and change, over real TLS: a job of its own, a job with another name in its tenant, and
//! a job of another tenant.

use crate::kit::callers::Guarded;
use crate::kit::certificates::issue;
use omega_client::application::{Application, ApplicationSettings, ContainerSpec, Ended, Recover};
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::proto::task_service_client::TaskServiceClient;
use omega_client::proto::tenant_service_client::TenantServiceClient;
use omega_client::proto::{self, job_ref, list_tasks_request, sync_request};
use omega_client::{Address, ApiError, ErrorCode};
use omega_core::{Amounts, EnvVar, Job, Precedence, Run, TaskGroup};
use std::fmt::Debug;
use tonic::Status;
use tonic::transport::Channel;

/// A job's name and its tenant.
const JOBS: [(&str, &str); 3] = [("app.own", "own"), ("bob", "own"), ("app.theirs", "others")];

/// Each role, by the name of its certificate, and for each of the three jobs, whether the role may see it.
const ROLES: [(&str, [bool; 3]); 6] = [
    ("operator-ann", [true; 3]),
    ("reader-eve", [true; 3]),
    ("reader-own", [true, true, false]),
    ("submitter-bob", [true, true, false]),
    ("application-app", [true, false, false]),
    ("scheduler-web", [true; 3]),
];

fn job(name: &str, tenant: &str) -> Job {
    let mut job = Job::batch(name, TaskGroup::new(2, Amounts::new([1, 1])));
    job.tenant = tenant.into();
    job
}

fn by_name(name: &str) -> Option<proto::JobRef> {
    Some(proto::JobRef { job: Some(job_ref::Job::Name(name.to_owned())) })
}

/// Returns whether a call was answered, or the reason for its rejection.
fn outcome_name<T>(answer: Result<T, Status>) -> &'static str {
    match answer.map_err(|status| ApiError::from(status).code) {
        Ok(_) => "yes",
        Err(ErrorCode::UnknownJob) => "unknown",
        Err(ErrorCode::Denied) => "denied",
        Err(other) => panic!("{other:?}"),
    }
}

/// For each of the jobs, whether its name is among these names.
fn named(names: &[String]) -> [bool; 3] {
    JOBS.map(|(name, _)| names.iter().any(|known| known == name))
}

/// The jobs that a role gets in lists and watches.
async fn lists(channel: &Channel, prefix: &str) -> Vec<(&'static str, [bool; 3])> {
    let mut jobs = JobServiceClient::new(channel.clone());
    let name = |job: Option<proto::Job>| job.unwrap().name;
    let listed = jobs.list_jobs(proto::ListJobsRequest::default()).await.unwrap().into_inner();
    let listed: Vec<String> = listed.jobs.into_iter().map(|status| name(status.job)).collect();
    let request = proto::WatchJobsRequest { name_prefix: prefix.to_owned() };
    let mut watch = jobs.watch_jobs(request).await.unwrap().into_inner();
    let first = watch.message().await.unwrap().unwrap();
    let watched: Vec<String> = first.jobs.into_iter().map(|job| name(job.job)).collect();
    let mut scheduling = SchedulingServiceClient::new(channel.clone());
    let interest = Some(sync_request::Interest::AllJobs(sync_request::AllJobs {}));
    let request = proto::SyncRequest { interest, ..Default::default() };
    let mut deltas = scheduling.sync(request).await.unwrap().into_inner();
    let delta = deltas.message().await.unwrap().unwrap();
    assert!(delta.full && !delta.more);
    assert_eq!(delta.task_jobs.len(), delta.jobs.len() * 2, "tasks of the jobs that are told");
    let synced: Vec<String> = delta.jobs.into_iter().map(|job| name(job.job)).collect();
    let shared = JOBS.map(|(_, tenant)| delta.tenants.iter().any(|known| known.name == tenant));
    let mut tenants = TenantServiceClient::new(channel.clone());
    let response = tenants.list_tenants(proto::ListTenantsRequest::default()).await.unwrap();
    let response: Vec<String> =
        response.into_inner().tenants.into_iter().map(|one| one.name).collect();
    let tenants = JOBS.map(|(_, tenant)| response.iter().any(|known| known == tenant));
    vec![
        ("ListJobs", named(&listed)),
        ("WatchJobs", named(&watched)),
        ("Sync", named(&synced)),
        ("ListTenants", tenants),
        ("tenants of Sync", shared),
    ]
}

/// Sets a weight of a tenant; from then on views contain tenants.
async fn weigh(operator: &Channel, tenant: &str) {
    let config = Some(proto::TenantConfig { weight: 2, ..Default::default() });
    let request = proto::SetTenantRequest { tenant: tenant.to_owned(), config };
    TenantServiceClient::new(operator.clone()).set_tenant(request).await.unwrap();
}

fn resize(job: Option<proto::JobRef>) -> proto::ResizeGroupRequest {
    proto::ResizeGroupRequest { job, group: String::new(), count: 2 }
}

#[test]
fn each_role_sees_and_changes_its_own() {
    let guarded = Guarded::start();
    issue(guarded.path(), "certs", "reader/own", &["--tenant=own"]);
    let operator = guarded.of("operator-ann");
    let submit = |name: &str, tenant: &str| proto::SubmitJobRequest {
        job: Some((&job(name, tenant)).into()),
    };
    guarded.runtime.block_on(async {
        for (name, tenant) in JOBS {
            let mut jobs = JobServiceClient::new(operator.clone());
            jobs.submit_job(submit(name, tenant)).await.unwrap();
            weigh(&operator, tenant).await;
        }
        for (role, theirs) in ROLES {
            let channel = guarded.of(role);
            let changes = !role.starts_with("reader") && !role.starts_with("scheduler");
            let prefix = if role.starts_with("application") { "app." } else { "" };
            for (call, seen) in lists(&channel, prefix).await {
                let expected = match call {
                    "ListTenants" | "tenants of Sync" if role.starts_with("application") => {
                        [true, true, false]
                    }
                    _ => theirs,
                };
                assert_eq!(seen, expected, "{role}: {call}");
            }
            for ((name, tenant), is_own) in JOBS.into_iter().zip(theirs) {
                let mut jobs = JobServiceClient::new(channel.clone());
                let job = by_name(name);
                let mut outcomes = Vec::new();
                let mut note = |outcome| outcomes.push(outcome);
                note(outcome_name(jobs.get_job(proto::GetJobRequest { job: job.clone() }).await));
                let request = proto::WatchJobRequest { job: job.clone() };
                note(outcome_name(jobs.watch_job(request).await));
                let of = job.clone().map(list_tasks_request::Of::Job);
                let request = proto::ListTasksRequest { of, ..Default::default() };
                let mut tasks = TaskServiceClient::new(channel.clone());
                note(outcome_name(tasks.list_tasks(request).await));
                note(outcome_name(jobs.submit_job(submit(name, tenant)).await));
                note(outcome_name(jobs.resize_group(resize(job)).await));
                let expected = match (is_own, changes) {
                    (true, true) => "yes yes yes yes yes",
                    (true, false) => "yes yes yes denied denied",
                    (false, true) => "unknown unknown unknown denied unknown",
                    (false, false) => "unknown unknown unknown denied denied",
                };
                assert_eq!(outcomes.join(" "), expected, "{role}: {name}");
                let request = proto::ExplainJobRequest { job: by_name(name), ..Default::default() };
                let explained = outcome_name(jobs.explain_job(request).await);
                assert_eq!(explained, if is_own { "yes" } else { "unknown" }, "{role}: {name}");
            }
            let mut cell = CellServiceClient::new(channel);
            let response = outcome_name(cell.get_statistics(proto::GetStatisticsRequest {}).await);
            let sees_all = theirs == [true; 3];
            assert_eq!(response, if sees_all { "yes" } else { "denied" }, "{role}");
        }
        // Jobs are killed after all other calls, because this ends them.
        for (role, theirs) in ROLES.into_iter().rev() {
            let mut jobs = JobServiceClient::new(guarded.of(role));
            let changes = !role.starts_with("reader") && !role.starts_with("scheduler");
            for ((name, _), is_own) in JOBS.into_iter().zip(theirs) {
                let killed =
                    outcome_name(jobs.kill_job(proto::KillJobRequest { job: by_name(name) }).await);
                let expected = match (changes, is_own) {
                    (true, true) => "yes",
                    (true, false) => "unknown",
                    (false, _) => "denied",
                };
                assert_eq!(killed, expected, "{role}: {name}");
            }
        }
    });
}

/// Whether a message contains the environment or the payload of a job, as text or as the numbers of its bytes.
fn contains_secret(message: &impl Debug) -> bool {
    let text = format!("{message:?}");
    let bytes: Vec<String> = SECRET.bytes().map(|byte| byte.to_string()).collect();
    text.contains(SECRET) || text.contains(&bytes.join(", "))
}

const SECRET: &str = "hunter2";

#[test]
fn programs_and_payloads_are_seen_by_roles_of_their_tenant_alone() {
    let guarded = Guarded::start();
    issue(guarded.path(), "certs", "reader/own", &["--tenant=own"]);
    guarded.runtime.block_on(async {
        for (name, tenant) in JOBS {
            let mut job = job(name, tenant);
            let env = vec![EnvVar { name: "TOKEN".into(), value: SECRET.into() }];
            job.groups[0].run = Some(Run { env, ..Run::new("serve") }.into());
            job.groups[0].payload = SECRET.as_bytes().to_vec().into();
            let request = proto::SubmitJobRequest { job: Some((&job).into()) };
            assert!(contains_secret(&request));
            let mut jobs = JobServiceClient::new(guarded.of("operator-ann"));
            jobs.submit_job(request).await.unwrap();
        }
        for (role, theirs) in ROLES {
            let channel = guarded.of(role);
            let mut jobs = JobServiceClient::new(channel.clone());
            let of_tenant = !matches!(role, "reader-eve" | "scheduler-web");
            for ((name, _), is_theirs) in JOBS.into_iter().zip(theirs) {
                let sees = is_theirs && of_tenant;
                let request = proto::GetJobRequest { job: by_name(name) };
                let job = jobs.get_job(request).await;
                assert_eq!(job.as_ref().is_ok_and(contains_secret), sees, "{role}: {name}");
                assert_eq!(job.is_ok(), is_theirs, "{role}: {name}");
                let request = proto::ListJobVersionsRequest { job: by_name(name) };
                let versions = jobs.list_job_versions(request).await;
                assert_eq!(versions.is_ok_and(|it| contains_secret(&it)), sees, "{role}: {name}");
                let request = proto::WatchJobRequest { job: by_name(name) };
                if let Ok(watch) = jobs.watch_job(request).await {
                    let first = watch.into_inner().message().await.unwrap();
                    assert!(!contains_secret(&first), "{role}: {name}");
                }
                let request = proto::ExplainJobRequest { job: by_name(name), ..Default::default() };
                assert!(!jobs.explain_job(request).await.is_ok_and(|it| contains_secret(&it)));
            }
            let listed = jobs.list_jobs(proto::ListJobsRequest::default()).await.unwrap();
            assert!(!contains_secret(&listed), "{role}");
            let name_prefix = if role == "application-app" { "app." } else { "" }.to_owned();
            let watch = jobs.watch_jobs(proto::WatchJobsRequest { name_prefix }).await.unwrap();
            let first = watch.into_inner().message().await.unwrap();
            assert_eq!(contains_secret(&first), of_tenant, "{role}");
            let interest = Some(sync_request::Interest::AllJobs(sync_request::AllJobs {}));
            let request = proto::SyncRequest { interest, ..Default::default() };
            let mut scheduling = SchedulingServiceClient::new(channel.clone());
            let delta = scheduling.sync(request).await.unwrap().into_inner().message().await;
            assert!(!contains_secret(&delta.unwrap()), "{role}");
        }
    });
}

#[test]
fn what_is_submitted_is_within_the_certificate() {
    let guarded = Guarded::start();
    let cases = [
        ("submitter-bob", "x", "own", 0, "yes"),
        ("submitter-bob", "y", "", 0, "denied"),
        ("submitter-bob", "y", "others", 0, "denied"),
        ("submitter-bob", "y", "own", 1, "denied"),
        ("application-app", "app.1", "own", -5, "yes"),
        ("application-app", "app.", "own", 0, "denied"),
        ("application-app", "apple.1", "own", 0, "denied"),
        ("application-app", "app.2", "others", 0, "denied"),
        ("application-app", "app.2", "own", 1, "denied"),
    ];
    guarded.runtime.block_on(async {
        for (role, name, tenant, precedence, expected) in cases {
            let mut job = job(name, tenant);
            job.precedence = Precedence(precedence);
            let request = proto::SubmitJobRequest { job: Some((&job).into()) };
            let answer = JobServiceClient::new(guarded.of(role)).submit_job(request).await;
            assert_eq!(outcome_name(answer), expected, "{role} {name} {tenant} {precedence}");
        }
        let request = proto::WatchJobsRequest { name_prefix: "ap".to_owned() };
        let mut jobs = JobServiceClient::new(guarded.of("application-app"));
        assert_eq!(outcome_name(jobs.watch_jobs(request).await), "denied");
        let mut machines = MachineServiceClient::new(guarded.of("application-app"));
        machines.list_machines(proto::ListMachinesRequest::default()).await.unwrap();
    });
}

#[test]
fn an_application_speaks_tls_under_its_own_name() {
    let guarded = Guarded::start();
    let tls = crate::kit::certificates::tls(guarded.path(), "certs", "application-app");
    let address = Address { replicas: vec![guarded.address()], tls: Some(tls) };
    let settings =
        |name: &str| ApplicationSettings { tenant: "own".into(), ..ApplicationSettings::new(name) };
    let other = Application::register(&address, settings("other"), Recover::Previous);
    assert_eq!(other.unwrap_err().code, ErrorCode::Denied);
    let registered = Application::register(&address, settings("app"), Recover::Previous).unwrap();
    let spec = ContainerSpec::new(Amounts::new([1, 1]));
    let (to, ended) = std::sync::mpsc::channel();
    let container = registered.application.create("one", &spec).unwrap();
    let container = container.on_completed(move |_, end| to.send(end.ended.clone()).unwrap());
    container.release();
    assert_eq!(ended.recv().unwrap(), Ended::Released);
}
