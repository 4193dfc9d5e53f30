//! Served cells: real processes and sockets, and their state after some of the processes were killed.

use crate::kit::calls::{add_machines, describe, submit, unavailable};
use crate::kit::cell::{Three, ports, serve};
use crate::kit::http::get;
use crate::kit::process::{folder, run_omega};
use crate::kit::wait::insist;
use omega_cellstate::{CellHandle, HandleError, View};
use omega_client::proto::{self, job_ref, list_tasks_request};
use omega_client::{Address, RemoteCell};
use omega_core::{Amounts, Job, TaskGroup, TaskId, Version};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A machine with room for all submitted jobs.
const LARGE: [u64; 2] = [64_000, 64 << 30];

fn small(tasks: u32) -> TaskGroup {
    TaskGroup::new(tasks, Amounts::new([100, 1 << 20]))
}

#[test]
fn a_dead_replica_is_seen_in_the_list() {
    let mut three = Three::found();
    let runtime = Runtime::new().unwrap();
    let cell = three.address().replicas.join(",");
    let list = || {
        let output =
            run_omega(three.dir.path(), &["member", "list", "-o", "json", "--cell", &cell]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let members: Vec<serde_json::Value> = serde_json::from_str(&output.stdout).unwrap();
        members
    };
    let is_heard = |member: &serde_json::Value| {
        member["silent_ms"].as_u64().is_some_and(|silent| silent < 2000)
    };
    while !list().iter().all(is_heard) {
        std::thread::yield_now();
    }
    let dead = three.leader(&runtime) % 3 + 1;
    three.kill(dead);
    let list = || {
        let output = run_omega(three.dir.path(), &["member", "list", "--cell", &cell]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.stdout
    };
    let row = |response: &str| {
        let row =
            response.lines().find(|row| row.starts_with(&format!("r{dead} "))).map(str::to_owned);
        row.unwrap_or_else(|| panic!("{response}"))
    };
    while !row(&list()).contains("not for") {
        std::thread::yield_now();
    }
}

#[test]
fn a_server_listens_by_name() {
    let dir = folder(&[]);
    let port = ports(1)[0];
    let _server = serve(dir.path(), &["--memory".to_owned(), format!("--listen=localhost:{port}")]);
    let output = run_omega(dir.path(), &["cell", "--cell", &format!("127.0.0.1:{port}")]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let output = run_omega(dir.path(), &["serve", "--memory", "--listen=7600"]);
    assert!(
        output.stderr.contains("must be an address such as localhost:7600"),
        "{}",
        output.stderr
    );
}

#[test]
fn one_replica_serves_and_keeps() {
    let dir = folder(&[]);
    let port = ports(1)[0];
    let arguments = ["--dir=cell".to_owned(), format!("--listen=127.0.0.1:{port}")];
    let runtime = Runtime::new().unwrap();
    let url = format!("http://127.0.0.1:{port}");
    let server = serve(dir.path(), &arguments);
    add_machines(&runtime, &url, 3, LARGE);
    submit(&runtime, &url, "kept", small(5));
    let cell = insist(|| runtime.block_on(describe(url.clone()))).cell;
    drop(server);

    let server = serve(dir.path(), &arguments);
    let response = loop {
        let response = insist(|| runtime.block_on(describe(url.clone())));
        if !response.stale {
            break response;
        }
    };
    assert_eq!((response.machines, response.jobs, response.cell), (3, 1, cell));
    let second = run_omega(dir.path(), &["serve", "--dir=cell", "--listen=127.0.0.1:0"]);
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains("in use by another process"), "{}", second.stderr);
    drop(server);
}

#[test]
fn a_cell_outlives_its_leader() {
    let mut three = Three::found();
    let runtime = Runtime::new().unwrap();
    let url = three.url(1);
    add_machines(&runtime, &url, 4, LARGE);
    let remote = RemoteCell::connect(&three.address()).unwrap();
    let (me, number) = remote.register("default".into()).unwrap();
    let mut view = View::new(me, number);
    let mut taken: BTreeMap<TaskId, Version> = BTreeMap::new();
    for round in 0..6 {
        let leader = three.leader(&runtime);
        let job = submit(&runtime, &three.url(leader), &format!("job-{round}"), small(40));
        for batch in 0..4 {
            place(&mut view, &remote, omega_core::JobId(job), batch, &mut taken);
            if round % 2 == 0 && batch == 1 {
                three.kill(leader);
            }
        }
        if round % 2 == 0 {
            three.start(leader, &[]);
        }
    }
    assert_eq!(taken.len(), 6 * 40);
    let leader = three.leader(&runtime);
    for job in 0..6 {
        let answer = insist(|| {
            runtime.block_on(async {
                use proto::task_service_client::TaskServiceClient;
                let mut client =
                    TaskServiceClient::connect(three.url(leader)).await.map_err(unavailable)?;
                let of =
                    list_tasks_request::Of::Job(proto::JobRef { job: Some(job_ref::Job::Id(job)) });
                let request = proto::ListTasksRequest { of: Some(of), ..Default::default() };
                Ok(client.list_tasks(request).await?.into_inner())
            })
        });
        let placed = answer.tasks.iter().filter(|task| task.machine.is_some()).count();
        assert_eq!(placed, 40, "what was acknowledged is there");
    }
    // All replicas have the same history, whether they were killed or not.
    (1..=3).for_each(|id| three.kill(id));
    for id in 1..=3 {
        let dir = format!("r{id}");
        let output =
            run_omega(three.dir.path(), &["log", "replay", &dir, "--all", "--audit-every", "50"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
}

/// Places ten tasks of a job, even if the leader changes.
fn place(
    view: &mut View,
    remote: &RemoteCell,
    job: omega_core::JobId,
    batch: u32,
    taken: &mut BTreeMap<TaskId, Version>,
) {
    let spec =
        std::sync::Arc::new(Job::batch("any", TaskGroup::new(40, Amounts::new([100, 1 << 20]))));
    loop {
        match view.sync(remote) {
            Ok(()) => break,
            Err(HandleError::Unavailable) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("{error}"),
        }
    }
    let group = view.compile(job, &spec, 0);
    for index in batch * 10..batch * 10 + 10 {
        let machine = view.machine_by_name(&format!("m{}", index % 4)).expect("it was registered");
        view.claim(TaskId { job, index }, machine, group).expect("there is room");
    }
    let txn = view.take_transaction();
    let commit = loop {
        match remote.commit(&txn) {
            Ok(commit) => break commit,
            Err(HandleError::Unavailable | HandleError::Unknown) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert!(commit.is_complete(), "{commit:?}");
    view.settle(&txn, &commit);
    for claim in &txn.claims {
        assert!(taken.insert(claim.task, commit.version).is_none(), "once");
    }
}

#[test]
fn bad_settings_are_told_before_anything_starts() {
    let dir = folder(&[
        ("unknown.toml", "dir = \"x\"\nlisten = \"127.0.0.1:1\"\nlissten = 1\n"),
        ("type.toml", "listen = 7600\n"),
        ("good.toml", "dir = \"cell\"\n[limits]\ncalls = 7\nconnections = 9\n"),
        ("limits.toml", "dir = \"x\"\n[limits]\ncals = 7\n"),
        ("zero.toml", "dir = \"x\"\n[limits]\ncalls = 0\n"),
    ]);
    let cases = [
        (vec!["serve"], "give --dir DIR to keep the cell in a folder"),
        (vec!["serve", "--memory", "--dir=x"], "leave out --memory"),
        (vec!["serve", "--config=none.toml"], "none.toml"),
        (vec!["serve", "--config=unknown.toml"], "line 3: unknown field `lissten`"),
        (vec!["serve", "--config=type.toml"], "line 1"),
        (vec!["serve", "--config=limits.toml"], "line 3: unknown field `cals`"),
        (vec!["serve", "--config=zero.toml"], "line 3"),
        (vec!["serve", "--dir=x", "--limit-calls=0"], "--limit-calls"),
        (vec!["serve", "--dir=x", "--limit-streams-each=5000"], "must be at most streams (4096)"),
        (
            vec!["serve", "--dir=x", "--limit-call-seconds=61"],
            "must be at most call-seconds-max (60)",
        ),
        (vec!["serve", "--dir=x", "--limit-header-bytes=7"], "must be from 8192 to 1048576"),
        (vec!["serve", "--dir=x", "--replica=1"], "--cell-name is missing"),
        (
            vec!["serve", "--dir=x", "--replica=1", "--cell-name=c", "--peers=1=a:1,1=b:2"],
            "r1 appears twice",
        ),
        (
            vec!["serve", "--dir=x", "--replica=3", "--cell-name=c", "--peers=1=a:1,2=b:2"],
            "the address of replica r3 is missing",
        ),
        (
            vec!["serve", "--dir=x", "--replica=1", "--cell-name=c", "--peers=1=127.0.0.1:1,2=b:2"],
            "contains no replica yet",
        ),
        (vec!["serve", "--dir=x", "--listen=1.2.3"], "1.2.3"),
        (vec!["serve", "--dir=x", "--peers=one"], "must be ID=HOST:PORT"),
    ];
    for (arguments, expected) in cases {
        let output = run_omega(dir.path(), &arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(expected), "{arguments:?}: {}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    }
    let output = run_omega(dir.path(), &["serve", "--config=good.toml", "--check-config"]);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("by one replica"), "{}", output.stdout);
    // A lower total of connections also lowers the default limit of the connections of each client.
    let shown = ["limits    calls 7, operator-calls 256", "connections 9, connections-each 9"];
    for limit in shown {
        assert!(output.stdout.contains(limit), "{limit}: {}", output.stdout);
    }
    // A flag takes precedence over the file.
    let output = run_omega(
        dir.path(),
        &["serve", "--config=good.toml", "--check-config", "--limit-calls=8"],
    );
    assert!(output.stdout.contains("limits    calls 8,"), "{}", output.stdout);
    let wrong = [
        "--audit-log=none/audit",
        "--tls-cert=none.pem --tls-key=none.key --client-ca=none.pem --cell-name=c",
    ];
    for wrong in wrong {
        let check = ["serve", "--memory", "--check-config"].into_iter().chain(wrong.split(' '));
        let output = run_omega(dir.path(), &check.collect::<Vec<_>>());
        assert_eq!(output.code, Some(2), "{wrong}: {}", output.stderr);
        assert!(output.stderr.contains("none"), "{}", output.stderr);
    }
    assert!(!dir.path().join("x").exists() && !dir.path().join("cell").exists());
}

#[test]
fn metrics_and_probes_tell_how_it_goes() {
    let dir = folder(&[]);
    let all = ports(2);
    let arguments = [
        "--dir=cell".to_owned(),
        format!("--listen=127.0.0.1:{}", all[0]),
        format!("--web-listen=127.0.0.1:{}", all[1]),
    ];
    let _server = serve(dir.path(), &arguments);
    let runtime = Runtime::new().unwrap();
    let url = format!("http://127.0.0.1:{}", all[0]);
    add_machines(&runtime, &url, 4, LARGE);
    let job = submit(&runtime, &url, "measured", small(40));
    let remote = RemoteCell::connect(&Address::plain([format!("127.0.0.1:{}", all[0])])).unwrap();
    let (me, number) = remote.register("default".into()).unwrap();
    let mut view = View::new(me, number);
    place(&mut view, &remote, omega_core::JobId(job), 0, &mut BTreeMap::new());
    let text = get(all[1], "/metrics").body;
    for line in [
        "omega_transactions_total{result=\"committed\"} 1",
        "omega_claims_total 10",
        "omega_commit_seconds_count 1",
        "omega_commit_stage_seconds_count{stage=\"replicate\"}",
        "omega_commit_stage_seconds_count{stage=\"log\"}",
        "omega_scheduler_transactions_total{scheduler=\"default\",result=\"committed\"} 1",
        "omega_scheduler_pending_tasks{scheduler=\"default\"} 30",
        "omega_cell_tasks{state=\"placed\"} 10",
        "omega_sync_delay_seconds_count",
        "omega_sync_streams 1",
        "omega_cell_machines 4",
        "omega_cell_jobs 1",
        "omega_cell_claimed{kind=\"cpu\"} 1000",
        "omega_replica_is_leader 1",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert_eq!(get(all[1], "/healthz").status, 200);
    assert_eq!(get(all[1], "/readyz").status, 200);
}

#[test]
fn a_cell_without_a_majority_is_told_of() {
    let mut three = Three::found();
    let leader = three.leader(&Runtime::new().unwrap());
    let left = leader % 3 + 1;
    (1..=3).filter(|id| *id != left).for_each(|id| three.kill(id));
    // The last replica knows that it has no leader after an election timeout.
    loop {
        let (dir, cell) = (three.dir.path(), three.addresses());
        let output = run_omega(dir, &["job", "list", "--timeout=3s", "--cell", &cell]);
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        if output.stderr.contains("has no leader, so it did not answer within 3s") {
            break;
        }
    }
}
