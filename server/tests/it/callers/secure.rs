//! Permissions over real TLS: each role and each call, invalid certificates, peers that lie, and certificates that
//! change while the cell is served.

use crate::kit::callers::{CALLERS, Guarded, certificates, certified, channel};
use crate::kit::cell::{Process, ports, serve, start};
use crate::kit::certificates::{Odd, authority, issue, odd, tls};
use crate::kit::process::{run_omega, workspace_file};
use crate::kit::wait::insist;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::peer_service_client::PeerServiceClient;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::proto::task_service_client::TaskServiceClient;
use omega_client::proto::{self, commit_stream_response};
use omega_client::{ApiError, ErrorCode};
use omega_core::{Amounts, Job, Machine, TaskGroup};
use prost::Message;
use rcgen::ExtendedKeyUsagePurpose;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

/// Makes a call with an empty message, and returns the first reply.
fn call(runtime: &Runtime, channel: Channel, path: &str) -> Result<(), Status> {
    runtime.block_on(async {
        let mut client = Grpc::new(channel);
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = path.parse().unwrap();
        let codec = ProstCodec::<(), ()>::default();
        client.server_streaming(Request::new(()), path, codec).await.map(drop)
    })
}

/// Path of every call of our services.
fn paths() -> Vec<String> {
    let set = prost_types::FileDescriptorSet::decode(proto::DESCRIPTORS).unwrap();
    let mut paths = Vec::new();
    for file in &set.file {
        for service in &file.service {
            let of = format!("/{}.{}", file.package(), service.name());
            paths.extend(service.method.iter().map(|call| format!("{of}/{}", call.name())));
        }
    }
    paths.push("/grpc.health.v1.Health/Check".to_owned());
    paths.push("/omega.v1.NoService/NoCall".to_owned());
    paths
}

#[test]
fn each_role_may_call_what_the_table_says() {
    let guarded = Guarded::start();
    let mut table = format!("{:<44}", "");
    for whom in CALLERS {
        write!(table, "{:<12}", whom.split('/').next().unwrap()).unwrap();
    }
    table = table.trim_end().to_owned() + "\n";
    for path in paths() {
        let mut line = format!("{:<44}", path.trim_start_matches("/omega.v1."));
        for whom in CALLERS {
            let channel = guarded.of(&whom.replace('/', "-"));
            let output = match call(&guarded.runtime, channel, &path) {
                Err(status) if status.code() == Code::PermissionDenied => {
                    let error = ApiError::from(status);
                    assert_eq!(error.code, ErrorCode::Denied);
                    let role = error.message.contains("needs the role")
                        || error.message.contains("this server has no call");
                    // An empty message does not refer to anything of the caller's own.
                    if role { "-" } else { "own" }
                }
                Err(status) => {
                    assert_ne!(status.code(), Code::Unauthenticated, "{status:?}");
                    assert_ne!(status.code(), Code::Unavailable, "{status:?}");
                    "yes"
                }
                Ok(()) => "yes",
            };
            write!(line, "{output:<10}").unwrap();
        }
        table += &(line.trim_end().to_owned() + "\n");
    }
    let file = workspace_file("server/tests/it/callers/roles.txt");
    if std::env::var_os("OMEGA_BLESS").is_some() {
        std::fs::write(&file, &table).unwrap();
    }
    assert_eq!(table, std::fs::read_to_string(file).unwrap());
}

#[test]
fn an_agent_needs_only_its_own_certificate() {
    let guarded = Guarded::start();
    let agent = |name: &str| {
        let address = guarded.address();
        let flags = ["--no-limits", "--cpu=1", "--memory=1GiB", "--cell", &address, "--name", name];
        let tls = ["--tls-ca=certs/ca.pem", "--tls-cert=certs/agent-m0.pem"];
        let key = ["--tls-key=certs/agent-m0.key", "--dir", name];
        [&["agent"][..], &flags, &tls, &key].concat().into_iter().map(str::to_owned).collect()
    };
    let other: Vec<String> = agent("m1");
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    let output = run_omega(guarded.path(), &other);
    assert!(output.stderr.contains("may not manage the machine \"m1\""), "{output:?}");
    for _ in 0..2 {
        let own: Vec<String> = agent("m0");
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        // The program writes its line only after its machine is registered.
        drop(start(guarded.path(), &own));
    }
}

#[test]
fn an_agent_whose_description_has_grown_starts_with_what_is_known() {
    let guarded = Guarded::start();
    let address = guarded.address();
    let omega = |whom: &str, line: &str| -> Vec<String> {
        let tls = format!("--tls-ca=certs/ca.pem --tls-cert=certs/{whom}.pem");
        let line = format!("{line} --cell {address} {tls} --tls-key=certs/{whom}.key");
        line.split(' ').map(str::to_owned).collect()
    };
    let start_agent = |flags: &str| {
        let line = format!("agent --no-limits --name m0 --dir m0 --memory=1GiB {flags}");
        let line = omega("agent-m0", &line);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        drop(start(guarded.path(), &line));
    };
    let operator = |line: &str| {
        let line = omega("operator-ann", line);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let output = run_omega(guarded.path(), &line);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.stdout
    };
    let registered = || {
        let machine: serde_json::Value =
            serde_json::from_str(&operator("machine get m0 -o json")).unwrap();
        let label = |key: &str| machine["labels"][key].as_str().map(str::to_owned);
        let cpu = machine["resources"]["cpu"]["capacity"].as_u64().unwrap();
        (cpu, label("zone"), label("omega.io/podman"), label("omega.io/agent").is_some())
    };
    let text = |text: &str| Some(text.to_owned());
    start_agent("--cpu=1 --label omega.io/podman=5.4");
    assert_eq!(registered(), (1000, None, text("5.4"), true));
    start_agent("--cpu=2 --label omega.io/podman=5.5 --label zone=a");
    assert_eq!(registered(), (1000, None, text("5.5"), true));
    operator("machine add m0 --cpu 3 --memory 1GiB --label zone=b");
    assert_eq!(registered(), (3000, text("b"), text("5.5"), true));
    start_agent("--cpu=9 --label omega.io/podman=5.5 --label zone=a");
    assert_eq!(registered(), (3000, text("b"), text("5.5"), true));
}

#[test]
fn wrong_certificates_open_nothing() {
    let guarded = Guarded::start();
    authority(guarded.path(), "others");
    let made = |of: &Odd<'_>| odd(guarded.path(), ("certs", "certs"), of);
    let server_auth = ExtendedKeyUsagePurpose::ServerAuth;
    let unheard = [
        ("expired", made(&Odd { from_days: -9, to_days: -1, ..Odd::default() })),
        ("not yet valid", made(&Odd { from_days: 1, to_days: 9, ..Odd::default() })),
        ("a server's", made(&Odd { usage: server_auth, ..Odd::default() })),
        ("another authority's", odd(guarded.path(), ("others", "certs"), &Odd::default())),
    ];
    for (what, tls) in unheard {
        let status = guarded.describe(guarded.channel(&tls)).unwrap_err();
        // The error of a broken connection depends on when the connection breaks. If the server had received the call,
        // its error would contain a reason.
        let unheard = matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled);
        assert!(unheard && status.details().is_empty(), "{what}: {status:?}");
    }
    let ann = "omega://test/operator/ann";
    let nobody: [(&[&str], &str); 6] = [
        (&[], "has 0 URI names"),
        (&[ann, ann], "has 2 URI names"),
        (&["omega://other/operator/ann"], "but this is the cell"),
        (&["omega://test/admin/ann"], "must be omega://CELL/ROLE/NAME"),
        (&["https://test/operator/ann"], "must be omega://CELL/ROLE/NAME"),
        (&["omega://test/operator/ann?tenant=a"], "must be omega://CELL/ROLE/NAME"),
    ];
    for (uris, why) in nobody {
        let tls = made(&Odd { uris, ..Odd::default() });
        let status = guarded.describe(guarded.channel(&tls)).unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{uris:?}: {status:?}");
        assert!(status.message().contains(why), "{status:?}");
        assert_eq!(ApiError::from(status).code, ErrorCode::Unauthenticated);
    }
    assert!(guarded.describe(guarded.channel(&made(&Odd::default()))).is_ok());
}

#[test]
fn without_a_certificate_nobody_is_heard() {
    let guarded = Guarded::start();
    let authority = tls(guarded.path(), "certs", "operator-ann").authority;
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority));
    let url = format!("https://{}", guarded.address());
    let bare = {
        let _entered = guarded.runtime.enter();
        Endpoint::from_shared(url).unwrap().tls_config(config).unwrap().connect_lazy()
    };
    assert!(guarded.describe(bare).is_err());
    let plain = {
        let _entered = guarded.runtime.enter();
        Endpoint::from_shared(format!("http://{}", guarded.address())).unwrap().connect_lazy()
    };
    assert!(guarded.describe(plain).is_err());
    let mut socket = std::net::TcpStream::connect(guarded.address()).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut output = Vec::new();
    // Reading may end with an error when the connection ends.
    let _ = socket.read_to_end(&mut output);
    assert!(!output.starts_with(b"HTTP"), "{output:?}");
    assert!(guarded.describe(guarded.of("reader-eve")).is_ok());
}

#[test]
fn a_role_is_held_to_its_own() {
    let guarded = Guarded::start();
    let operator = guarded.of("operator-ann");
    let (scheduler, agent) = (guarded.of("scheduler-web"), guarded.of("agent-m0"));
    let denied = |status: Status| {
        assert_eq!(ApiError::from(status.clone()).code, ErrorCode::Denied, "{status:?}");
    };
    guarded.runtime.block_on(async {
        let machine = |name: &str| {
            let machine = Machine::new(name, Amounts::new([64_000, 64 << 30]));
            proto::RegisterMachineRequest { machine: Some((&machine).into()) }
        };
        let mut machines = MachineServiceClient::new(operator.clone());
        let other = machines.register_machine(machine("m1")).await.unwrap().into_inner().id;
        let mut machines = MachineServiceClient::new(agent.clone());
        denied(machines.register_machine(machine("m1")).await.unwrap_err());
        let own = machines.register_machine(machine("m0")).await.unwrap().into_inner().id;
        let load = |machine| proto::ReportLoadRequest { machine, used: vec![1, 1] };
        machines.report_load(load(own)).await.unwrap();
        denied(machines.report_load(load(other)).await.unwrap_err());
        let nowhere = Some(proto::MachineId { slot: 999, incarnation: 7 });
        denied(machines.report_load(load(nowhere)).await.unwrap_err());
        let mut tasks = TaskServiceClient::new(agent);
        let report = |machine| proto::ReportTasksRequest { machine, reports: Vec::new() };
        tasks.report_tasks(report(own)).await.unwrap();
        denied(tasks.report_tasks(report(other)).await.unwrap_err());

        let mut jobs = JobServiceClient::new(operator);
        let mut ids = Vec::new();
        for (name, of) in [("own", "web"), ("theirs", "other")] {
            let mut job = Job::batch(name, TaskGroup::new(2, Amounts::new([1, 1])));
            job.scheduler = of.into();
            let request = proto::SubmitJobRequest { job: Some((&job).into()) };
            ids.push(jobs.submit_job(request).await.unwrap().into_inner().id);
        }
        let mut scheduling = SchedulingServiceClient::new(scheduler);
        let register =
            |name: &str| proto::RegisterRequest { name: name.to_owned(), ..Default::default() };
        denied(scheduling.register(register("other")).await.unwrap_err());
        let me = scheduling.register(register("web-0")).await.unwrap().into_inner().scheduler;
        let commit = |scheduler, number, jobs: &[u64]| proto::CommitRequest {
            scheduler,
            number,
            claim_jobs: jobs.to_vec(),
            claim_indices: vec![0; jobs.len()],
            claim_slots: vec![0; jobs.len()],
            claim_seen: vec![0; jobs.len()],
            ..Default::default()
        };
        denied(scheduling.commit(commit(me, 0, &[ids[0], ids[1]])).await.unwrap_err());
        denied(scheduling.commit(commit(me, 0, &[9999])).await.unwrap_err());
        denied(scheduling.commit(commit(me + 1, 0, &[ids[0]])).await.unwrap_err());
        let all = vec![commit(me, 1, &[ids[1]]), commit(me, 2, &[ids[0]])];
        let stream = tokio_stream::iter(all);
        let mut answers = scheduling.commit_stream(stream).await.unwrap().into_inner();
        let first = answers.message().await.unwrap().unwrap();
        match first.answer {
            Some(commit_stream_response::Answer::Error(error)) => assert_eq!(error.code, "DENIED"),
            other => panic!("{other:?}"),
        }
        let second = answers.message().await.unwrap().unwrap();
        let taken = matches!(second.answer, Some(commit_stream_response::Answer::Commit(_)));
        assert!(taken, "what is its own is taken: {second:?}");
    });
}

/// If a client and a server disagree about TLS, the error is returned at once. A retry would not help, because a
/// listener does not change its protocol.
#[test]
fn connections_that_cannot_work_are_told_with_the_remedy() {
    let guarded = Guarded::start();
    let port = ports(1)[0];
    let arguments = ["--memory".to_owned(), format!("--listen=127.0.0.1:{port}")];
    let _plain = serve(guarded.path(), &arguments);
    let with =
        "--tls-ca certs/ca.pem --tls-cert certs/operator-ann.pem --tls-key certs/operator-ann.key";
    let elsewhere = format!("127.0.0.2:{}", ports(1)[0]);
    let listen = ["--memory".to_owned(), format!("--listen={elsewhere}")];
    let _elsewhere = serve(guarded.path(), &[&listen[..], &certificates("replica-1")].concat());
    let address = guarded.address();
    let cases = [
        (
            format!("--cell {address}"),
            "uses TLS, but this client has no certificate: give --tls-ca",
        ),
        (
            format!("--cell 127.0.0.1:{port} {with}"),
            "does not use TLS, but this client has a certificate",
        ),
        // The replica's certificate does not have this name.
        (
            format!("--cell {elsewhere} {with}"),
            "reach the replica by a name that its certificate has",
        ),
    ];
    for (arguments, why) in cases {
        for call in ["machine list", "job submit web --count 1", "scheduler"] {
            let line = format!("{call} {arguments}");
            let output = run_omega(guarded.path(), &line.split_whitespace().collect::<Vec<_>>());
            assert!(
                output.code != Some(0) && output.stderr.contains(why),
                "{line}: {}",
                output.stderr
            );
        }
    }
    // If there are several replicas, it is enough that one has the right protocol.
    let line = format!("machine list --cell 127.0.0.1:{port},{address} {with}");
    let output = run_omega(guarded.path(), &line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(output.code, Some(0), "{}", output.stderr);
}

/// Replaces the server's certificates by those of another authority.
fn rotate(dir: &Path) {
    authority(dir, "new");
    ["replica/1", "operator/ann"].iter().for_each(|whom| issue(dir, "new", whom, &[]));
    for file in ["ca.pem", "replica-1.key", "replica-1.pem"] {
        std::fs::rename(dir.join("new").join(file), dir.join("certs").join(file)).unwrap();
    }
    std::fs::copy(dir.join("certs/ca.pem"), dir.join("new/ca.pem")).unwrap();
}

#[test]
fn certificates_change_while_somebody_is_connected() {
    let guarded = Guarded::start();
    let before = tls(guarded.path(), "certs", "operator-ann");
    let connected = guarded.channel(&before);
    guarded.describe(connected.clone()).unwrap();
    rotate(guarded.path());
    let after = tls(guarded.path(), "new", "operator-ann");
    insist(|| Ok(guarded.describe(guarded.channel(&after))?));
    guarded.describe(connected).expect("who was connected stays connected");
    assert!(guarded.describe(guarded.channel(&before)).is_err());
}

/// Sends one frame to a server's listener for peers.
fn deliver(runtime: &Runtime, channel: Channel, frame: proto::PeerFrame) -> Result<(), Status> {
    runtime.block_on(async {
        let mut client = PeerServiceClient::new(channel);
        client.deliver(tokio_stream::iter([frame])).await.map(drop)
    })
}

#[test]
fn peers_show_who_they_are() {
    let dir = certified();
    ["replica/2", "replica/3"].iter().for_each(|whom| issue(dir.path(), "certs", whom, &[]));
    let all = ports(6);
    let peers: Vec<String> = (0..3).map(|i| format!("{}=127.0.0.1:{}", i + 1, all[i])).collect();
    let start = |id: usize| {
        let mut arguments = vec![
            format!("--dir=r{id}"),
            format!("--listen=127.0.0.1:{}", all[2 + id]),
            format!("--replica={id}"),
            format!("--peers={}", peers.join(",")),
            "--bootstrap".to_owned(),
        ];
        arguments.extend(certificates(&format!("replica-{id}")));
        serve(dir.path(), &arguments)
    };
    let _replicas: Vec<Process> = (1..=3).map(start).collect();
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.enter();
    let operator = channel(all[3], &tls(dir.path(), "certs", "operator-ann"));
    let machine = Machine::new("m0", Amounts::new([1, 1]));
    let request = proto::RegisterMachineRequest { machine: Some((&machine).into()) };
    insist(|| {
        let mut client = MachineServiceClient::new(operator.clone());
        Ok(runtime.block_on(client.register_machine(request.clone()))?)
    });
    let response = insist(|| {
        let mut client = CellServiceClient::new(operator.clone());
        Ok(runtime.block_on(client.describe_cell(proto::DescribeCellRequest {}))?)
    });
    let cell = response.into_inner().cell;
    let frame = |from, to, cell: &str| proto::PeerFrame {
        cell: cell.to_owned(),
        from,
        to,
        messages: Vec::new(),
        ..Default::default()
    };
    let send = |name: &str, frame| {
        let channel = channel(all[0], &tls(dir.path(), "certs", name));
        deliver(&runtime, channel, frame).map_err(|status| ApiError::from(status).code)
    };
    assert_eq!(send("replica-2", frame(2, 1, &cell)), Ok(()));
    let denied = Err(ErrorCode::Denied);
    assert_eq!(send("replica-2", frame(3, 1, &cell)), denied, "a forged sender");
    assert_eq!(send("replica-2", frame(2, 3, &cell)), denied, "another receiver");
    assert_eq!(send("replica-2", frame(2, 1, "00")), denied, "another cell");
    for name in ["operator-ann", "scheduler-web", "agent-m0", "reader-eve"] {
        assert_eq!(send(name, frame(2, 1, &cell)), denied, "{name} on the peers' port");
    }
}

#[test]
fn a_server_stays_on_its_machine_unless_it_has_certificates() {
    let dir = certified();
    let exposed = [
        vec!["serve", "--memory", "--listen=0.0.0.0:0"],
        vec!["serve", "--memory", "--listen=[::]:0"],
        vec![
            "serve",
            "--dir=x",
            "--cell-name=c",
            "--replica=1",
            "--peers=1=example.org:7700,2=127.0.0.1:7701",
        ],
        vec![
            "serve",
            "--dir=x",
            "--cell-name=c",
            "--replica=1",
            "--peers=1=127.0.0.1:7700",
            "--peer-listen=0.0.0.0:7700",
        ],
    ];
    for arguments in exposed {
        let output = run_omega(dir.path(), &arguments);
        assert_eq!(output.code, Some(78), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains("is open to other machines"), "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    }
    let check = ["serve", "--memory", "--listen=0.0.0.0:0", "--insecure", "--check-config"];
    assert_eq!(run_omega(dir.path(), &check).code, Some(0));
}

#[test]
fn certificates_that_cannot_be_used_are_told_in_one_line() {
    use std::os::unix::fs::PermissionsExt;
    let dir = certified();
    let open = dir.path().join("certs/reader-eve.key");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let all = |cert: &str, key: &str, ca: &str| {
        vec![
            "serve".to_owned(),
            "--memory".to_owned(),
            "--cell-name=test".to_owned(),
            "--listen=127.0.0.1:0".to_owned(),
            format!("--tls-cert=certs/{cert}"),
            format!("--tls-key=certs/{key}"),
            format!("--client-ca=certs/{ca}"),
        ]
    };
    let (cert, key, ca) = ("replica-1.pem", "replica-1.key", "ca.pem");
    let without = |flag: &str| {
        let mut all = all(cert, key, ca);
        all.retain(|argument| !argument.starts_with(flag));
        all
    };
    let cases = [
        (without("--tls-key"), "--tls-key is missing"),
        (without("--client-ca"), "--client-ca is missing"),
        (without("--cell-name"), "--cell-name is missing"),
        (all(cert, "reader-eve.key", ca), "other users may read this key (mode 644)"),
        (all(cert, "agent-m0.key", ca), "cannot be used"),
        (all(key, key, ca), "contains no certificate"),
        (all(cert, key, key), "contains no certificate"),
        (all(cert, "none.key", ca), "none.key"),
    ];
    for (arguments, expected) in cases {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run_omega(dir.path(), &arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(expected), "{arguments:?}: {}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    }
    for file in ["ca.key", "replica-1.key"] {
        let mode = std::fs::metadata(dir.path().join("certs").join(file)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{file}");
    }
    let renew = ["cert", "issue", "replica/1", "--cell-name=test"];
    let renewed = run_omega(dir.path(), &renew);
    assert!(renewed.stderr.contains("certs/replica-1.pem and its key are replaced"), "{renewed:?}");
    assert_eq!((renewed.code, renewed.stdout.as_str()), (Some(0), "certs/replica-1.pem\n"));
    let again = run_omega(dir.path(), &["cert", "authority"]);
    assert_eq!((again.code, again.stderr.lines().count()), (Some(2), 1), "{}", again.stderr);
    for whom in ["root/ann", "operator", "operator/a/b", "agent/a b", "replica/0", "scheduler/a-1"]
    {
        let output = run_omega(dir.path(), &["cert", "issue", whom, "--cell-name=test"]);
        assert_eq!(output.code, Some(2), "{whom}: {}", output.stderr);
        assert!(
            output.stderr.contains("must be ROLE/NAME, where ROLE is operator,"),
            "{}",
            output.stderr
        );
    }
}

#[test]
fn a_scheduler_process_speaks_tls() {
    let guarded = Guarded::start();
    let cell = format!("--cell={}", guarded.address());
    let mut child = crate::kit::process::omega(guarded.path())
        .args(["scheduler", "--name=web", &cell, "--tls-ca=certs/ca.pem"])
        .args(["--tls-cert=certs/scheduler-web.pem", "--tls-key=certs/scheduler-web.key"])
        .spawn()
        .map(Process)
        .unwrap();
    let operator = guarded.of("operator-ann");
    let runtime = &guarded.runtime;
    let machine = Machine::new("m0", Amounts::new([1000, 1 << 30]));
    let request = proto::RegisterMachineRequest { machine: Some((&machine).into()) };
    let mut job = Job::batch("j", TaskGroup::new(3, Amounts::new([1, 1])));
    job.scheduler = "web".into();
    let job = proto::SubmitJobRequest { job: Some((&job).into()) };
    runtime.block_on(async {
        let mut machines = MachineServiceClient::new(operator.clone());
        machines.register_machine(request).await.unwrap();
        let mut jobs = JobServiceClient::new(operator.clone());
        jobs.submit_job(job).await.unwrap();
    });
    loop {
        let claimed = guarded.describe(operator.clone()).unwrap().claimed;
        if claimed == [3, 3] || claimed.get(..2) == Some(&[3, 3]) {
            break;
        }
        assert!(child.0.try_wait().unwrap().is_none(), "the scheduler has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
}
