//! Audit logs: the changes and denials that a server writes down, and `omega audit verify`.

use crate::kit::callers::Guarded;
use crate::kit::cell::{ports, run_omega_at, serve};
use crate::kit::process::{folder, run_omega};
use omega_client::proto;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_core::{Amounts, Job, TaskGroup};

#[test]
fn changes_and_denials_are_written_down() {
    let guarded = Guarded::start_with(&["--audit-log=audit.log"]);
    let (operator, reader) = (guarded.of("operator-ann"), guarded.of("reader-eve"));
    let scheduler = guarded.of("scheduler-web");
    guarded.runtime.block_on(async {
        let mut job = Job::batch("a \"job\"", TaskGroup::new(2, Amounts::new([1, 1])));
        job.scheduler = "web".into();
        let request = proto::SubmitJobRequest { job: Some((&job).into()) };
        let mut jobs = JobServiceClient::new(operator.clone());
        let id = jobs.submit_job(request.clone()).await.unwrap().into_inner().id;
        JobServiceClient::new(reader.clone()).submit_job(request).await.unwrap_err();
        jobs.list_jobs(proto::ListJobsRequest::default()).await.unwrap();
        let name = "no\nsuch".to_owned();
        let job = Some(proto::JobRef { job: Some(proto::job_ref::Job::Name(name)) });
        jobs.kill_job(proto::KillJobRequest { job }).await.unwrap_err();
        let mut cell = CellServiceClient::new(operator);
        let mut backup = cell.backup(proto::BackupRequest {}).await.unwrap().into_inner();
        while backup.message().await.unwrap().is_some() {}
        CellServiceClient::new(reader).backup(proto::BackupRequest {}).await.unwrap_err();
        let mut scheduling = SchedulingServiceClient::new(scheduler);
        let register = proto::RegisterRequest { name: "web".to_owned(), ..Default::default() };
        let me = scheduling.register(register).await.unwrap().into_inner().scheduler;
        let commit = |number, job| proto::CommitRequest {
            scheduler: me,
            number,
            claim_jobs: vec![job],
            claim_indices: vec![0],
            claim_slots: vec![0],
            claim_seen: vec![0],
            ..Default::default()
        };
        let stream = tokio_stream::iter([commit(1, id), commit(2, id + 1)]);
        let mut answers = scheduling.commit_stream(stream).await.unwrap().into_inner();
        while answers.message().await.unwrap().is_some() {}
    });
    let file = guarded.path().join("audit.log");
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let response: Vec<String> = lines
        .iter()
        .map(|line| {
            let word = |key: &str| line[key].as_str().unwrap().to_owned();
            let call = word("call").rsplit('/').next().unwrap().to_owned();
            let caller = word("caller").replace("omega://test/", "");
            format!("{caller} {call} {:?} {}", word("of"), word("outcome"))
        })
        .collect();
    let expected = [
        r#"operator/ann SubmitJob "a \"job\"" OK"#,
        r#"reader/eve SubmitJob "" DENIED"#,
        r#"operator/ann KillJob "no\nsuch" UNKNOWN_JOB"#,
        r#"operator/ann Backup "the whole cell" OK"#,
        r#"reader/eve Backup "" DENIED"#,
        r#"scheduler/web Register "web" OK"#,
        r#"scheduler/web CommitStream "transaction 1 of scheduler 0" OK"#,
        r#"scheduler/web CommitStream "transaction 2 of scheduler 0" DENIED"#,
    ];
    assert_eq!(response, expected);
    assert_eq!(omega_service::audit::verify(&file).unwrap(), 8);
}

#[test]
fn audit_logs_are_checked() {
    let dir = folder(&[]);
    let address = format!("127.0.0.1:{}", ports(1)[0]);
    let arguments =
        ["--memory".to_owned(), format!("--listen={address}"), "--audit-log=log".into()];
    let server = serve(dir.path(), &arguments);
    for name in ["a", "b", "c"] {
        run_omega_at(dir.path(), &address, &format!("machine add {name} --cpu 1"));
    }
    drop(server);
    let output = run_omega(dir.path(), &["audit", "verify", "log"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert_eq!(output.stdout, "3 lines: no line was changed, removed or inserted\n");
    let log = dir.path().join("log");
    let text = std::fs::read_to_string(&log).unwrap();
    // The two files of a divided log are verified as one log, provided that they are given in order.
    let first = text.find('\n').unwrap() + 1;
    std::fs::write(dir.path().join("old"), &text[..first]).unwrap();
    std::fs::write(dir.path().join("new"), &text[first..]).unwrap();
    assert_eq!(run_omega(dir.path(), &["audit", "verify", "old", "new"]).code, Some(0));
    assert_eq!(run_omega(dir.path(), &["audit", "verify", "new", "old"]).code, Some(1));
    std::fs::write(&log, text.replacen("\"of\":\"a\"", "\"of\":\"x\"", 1)).unwrap();
    let output = run_omega(dir.path(), &["audit", "verify", "log"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""));
    assert_eq!(
        output.stderr,
        "omega: log:2: this line does not continue the line before it: a line \
         was changed, removed or inserted here\n"
    );
    let output = run_omega(dir.path(), &["audit", "verify", "none"]);
    assert!(output.code == Some(2) && output.stderr.contains("none: "), "{}", output.stderr);
}
