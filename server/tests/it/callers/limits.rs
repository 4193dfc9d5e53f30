//! Limits that an operator sets: their effects, and the documentation page, which must list exactly the existing
//! limits.

use crate::kit::callers::Guarded;
use crate::kit::calls::describe;
use crate::kit::cell::{Process, ports, serve};
use crate::kit::process::{CommandOutput, folder, run_omega, workspace_file};
use crate::kit::wait::insist;
use omega_client::proto;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::{ApiError, ErrorCode};
use omega_core::{Amounts, Job, TaskGroup};
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Opens a watch on a connection of its own, as soon as the caller's rate allows it.
async fn watch(url: &str) -> tonic::Streaming<proto::WatchJobsResponse> {
    let mut client = JobServiceClient::connect(url.to_owned()).await.unwrap();
    loop {
        let request = proto::WatchJobsRequest { name_prefix: String::new() };
        match client.watch_jobs(request).await {
            Ok(watch) => return watch.into_inner(),
            Err(status) => {
                let pause = ApiError::from(status).retry_after.expect("only the rate is exceeded");
                tokio::time::sleep(pause).await;
            }
        }
    }
}

#[test]
fn the_limits_that_were_set_hold() {
    let dir = folder(&[("omega.toml", "memory = true\n[limits]\nmessage-bytes = 65536\n")]);
    let port = ports(1)[0];
    let arguments = [
        "--config=omega.toml".to_owned(),
        format!("--listen=127.0.0.1:{port}"),
        "--limit-calls-per-second=1".to_owned(),
        "--limit-calls-burst=5".to_owned(),
        "--limit-connections=16".to_owned(),
        "--limit-handshake-seconds=600".to_owned(),
    ];
    let _server = serve(dir.path(), &arguments);
    let runtime = Runtime::new().unwrap();
    let url = format!("http://127.0.0.1:{port}");
    insist(|| runtime.block_on(describe(url.clone())));
    let too_long = proto::GetJobRequest {
        job: Some(proto::JobRef { job: Some(proto::job_ref::Job::Name("x".repeat(100_000))) }),
    };
    let refused = runtime.block_on(async {
        let mut client = JobServiceClient::connect(url.clone()).await.unwrap();
        ApiError::from(client.get_job(too_long).await.unwrap_err())
    });
    assert_eq!(refused.code, ErrorCode::Limit);
    assert!(refused.message.contains("too long"), "{}", refused.message);

    // Five calls are answered at once, then one per second. A caller that waits for each answer is slowed down, not
    // rejected.
    let refused = runtime.block_on(async {
        let client = CellServiceClient::connect(url.clone()).await.unwrap();
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            let mut client = client.clone();
            calls.spawn(async move { client.describe_cell(proto::DescribeCellRequest {}).await });
        }
        let refused = calls.join_all().await.into_iter().find_map(Result::err);
        ApiError::from(refused.unwrap())
    });
    assert_eq!(refused.code, ErrorCode::Limit);
    assert!(refused.retry_after.is_some_and(|pause| pause <= Duration::from_secs(1)));

    // If all connections have calls, a connection beyond the maximum is closed at once. Otherwise, an idle connection
    // is closed instead.
    let held: Vec<_> = (0..16).map(|_| runtime.block_on(watch(&url))).collect();
    let mut more = TcpStream::connect(("127.0.0.1", port)).unwrap();
    more.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let closed = match more.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    assert!(closed, "it was closed before its ten minutes were over");
    drop(held);
}

/// A cell in memory with one limit.
struct Limited {
    address: String,
    _server: Process,
    dir: TempDir,
}

impl Limited {
    fn new(limit: &str) -> Limited {
        let dir = folder(&[]);
        let address = format!("127.0.0.1:{}", ports(1)[0]);
        let arguments = ["--memory", limit, &format!("--listen={address}")];
        let server = serve(dir.path(), &arguments.map(str::to_owned));
        Limited { address, _server: server, dir }
    }

    fn run(&self, line: &str) -> CommandOutput {
        let line = format!("{line} --cell {}", self.address);
        run_omega(self.dir.path(), &line.split_whitespace().collect::<Vec<_>>())
    }

    fn taken(&self, line: &str) {
        let output = self.run(line);
        assert_eq!(output.code, Some(0), "{line}: {}", output.stderr);
    }

    /// Runs a command that the limit does not admit; the error contains `text`.
    fn refused(&self, line: &str, text: &str) {
        let output = self.run(line);
        assert!(output.stderr.ends_with("[NOT_ADMITTED]\n"), "{line}: {}", output.stderr);
        assert!(output.stderr.contains(text), "{line}: {}", output.stderr);
    }
}

#[test]
fn a_tenant_has_no_more_tasks_than_its_bound() {
    let cell = Limited::new("--limit-tenant-tasks=10");
    let taken = |line: &str| cell.taken(line);
    let refused = |line: &str| cell.refused(line, "tasks that have not ended");
    refused("job submit wide --count 11");
    taken("job submit web --count 8");
    refused("job submit more --count 3");
    // The job already exists, so submitting it again does not count for the limit.
    taken("job submit web --count 8");
    taken("job submit other --count 10 --tenant other");
    taken("job submit last --count 2");
    refused("job resize web 9");
    taken("job resize web 7");
    taken("job resize web 8");
    taken("job kill last");
    taken("job resize web 10");
}

#[test]
fn a_tenant_has_no_more_bytes_than_its_bound() {
    let cell = Limited::new("--limit-tenant-bytes=3000");
    let taken = |line: &str| cell.taken(line);
    let refused = |line: &str| cell.refused(line, "--limit-tenant-bytes");
    let large = "x".repeat(500);
    let submit = |name: &str, more: &str| {
        let labels = ["a", "b", "c"].map(|key| format!("--label {key}={large}")).join(" ");
        format!("job submit {name} {labels} {more}")
    };
    taken(&submit("one", ""));
    refused(&submit("two", ""));
    taken(&submit("one", ""));
    taken(&submit("two", "--tenant other"));
    taken("job kill one");
    refused(&submit("two-again", ""));
    taken("job delete one");
    taken(&submit("three", ""));
}

#[test]
fn a_caller_whose_last_change_was_large_must_wait_before_the_next() {
    let cell = Guarded::start_with(&["--limit-task-changes-per-second=1"]);
    let mut own = JobServiceClient::new(cell.of("submitter-bob"));
    let mut operator = JobServiceClient::new(cell.of("operator-ann"));
    let job = |name: &str, count| {
        let mut job = Job::service(name, TaskGroup::new(count, Amounts::new([1])));
        job.tenant = "own".into();
        proto::Job::from(&job)
    };
    let named = || proto::JobRef { job: Some(proto::job_ref::Job::Name("large".to_owned())) };
    let submit = |name, count| proto::SubmitJobRequest { job: Some(job(name, count)) };
    cell.runtime.block_on(async {
        let first = own.submit_job(submit("large", 1_000_000)).await.unwrap().into_inner();
        let resize =
            proto::ResizeGroupRequest { job: Some(named()), group: String::new(), count: 1 };
        let update = proto::UpdateJobRequest { job: Some(job("large", 2)), ..Default::default() };
        let refused = [
            own.submit_job(submit("more", 1)).await.unwrap_err(),
            own.resize_group(resize.clone()).await.unwrap_err(),
            own.update_job(update).await.unwrap_err(),
            own.kill_job(proto::KillJobRequest { job: Some(named()) }).await.unwrap_err(),
            own.delete_job(proto::DeleteJobRequest { job: Some(named()) }).await.unwrap_err(),
        ];
        for status in refused {
            let error = ApiError::from(status);
            assert_eq!(error.code, ErrorCode::Limit, "{error}");
            assert!(error.message.contains("begin and end more than 1 tasks"), "{error}");
            assert!(error.retry_after.is_some_and(|pause| pause > Duration::from_secs(900_000)));
        }
        let again = own.submit_job(submit("large", 1_000_000)).await.unwrap().into_inner();
        assert_eq!(again.id, first.id, "it changes nothing");
        operator.resize_group(resize).await.unwrap();
        operator.kill_job(proto::KillJobRequest { job: Some(named()) }).await.unwrap();
    });
}

#[test]
fn every_limit_is_in_the_table_with_its_default() {
    let dir = folder(&[]);
    let output = run_omega(dir.path(), &["serve", "--memory", "--check-config"]);
    let limits = output.stdout.lines().find_map(|line| line.strip_prefix("limits")).unwrap();
    let page = std::fs::read_to_string(workspace_file("docs/serve.md")).unwrap();
    let table = page.split("\n## ").find(|part| part.starts_with("Limits\n")).unwrap();
    let mut in_table = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names = cells[1].split(", ").map(|name| name.trim_matches('`'));
        in_table
            .extend(names.zip(cells[2].split(", ")).map(|(name, usual)| format!("{name} {usual}")));
    }
    let response: Vec<&str> = limits.trim().split(", ").collect();
    assert_eq!(in_table, response);
    let help = run_omega(dir.path(), &["serve", "--help"]).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for limit in response {
        let (name, usual) = limit.split_once(' ').unwrap();
        let flag = help.split(&format!("--limit-{name} <")).nth(1).unwrap();
        let text = flag.split("--limit-").next().unwrap();
        assert!(text.contains(&format!("[default: {usual}]")), "--limit-{name}");
    }
}
