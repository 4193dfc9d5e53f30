//! Transactions that are impossible, settings that make no sense, and systems without resources, each with the error
//! that it gets. None of them changes the cell.
//!
//! The following table lists which test covers which bad input that a server can get. The numbers only count the
//! inputs; the words describe each group of inputs:
//!
//! | input | test |
//! |---|---|
//! | 1-6, 10 bytes | `requests.rs`: `bytes_that_mean_nothing_change_nothing` |
//! | 7 data that decompresses to more | `requests.rs`: `what_is_compressed_is_not_opened` |
//! | 8, 9, 13-17, 19-26, 31-33 transactions and amounts | here; all answers: `tests/it/cell/histories.rs` |
//! | 11, 12 invalid amounts | the API has none; `bad_choices.rs` for files |
//! | 18, 27, 29, 30, 34, 36, 37 changes in between, quotas, gangs, labels, words | `bad_choices.rs` |
//! | 28, 41-51 roles and certificates | `secure.rs` |
//! | 35, 38, 39 names, deadlines, pages | `requests.rs` |
//! | 40, 54, 55 watches, silent connections, resets | `requests.rs` |
//! | 52, 53 bad peer messages | `secure.rs`: `peers_show_who_they_are`; `store/src/node/check.rs`, `tests/src/fuzz` |
//! | 56 a replica without the others | `../cell/fire.rs` |
//! | 57-71 disks and files | `directory.rs`, `log_rot.rs`, `nth_failure.rs`, `moody_disk.rs` in `tests/it/storage`; `../cell/served.rs` |
//! | 63, 64, 66 real disks: read only, full, hanging | `bad_disks.rs`, `fire.rs` in `../cell` |
//! | 72, 73 settings | here, `../cell/served.rs` |
//! | 74 a server that anyone can reach | `secure.rs`: `a_server_stays_on_its_machine_unless_it_has_certificates` |
//! | 76, 77, 78 signals, few descriptors, two bootstraps | here |

use crate::kit::calls::describe;
use crate::kit::cell::{Process, ports, serve};
use crate::kit::process::{CommandOutput, folder, omega, run_omega};
use crate::kit::wait::insist;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::scheduling_service_client::SchedulingServiceClient;
use omega_client::{ApiError, ErrorCode};
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_core::{Amounts, Job, Machine, TaskGroup};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// A cell of one replica with a machine of four cores, a scheduler, and a job of eight tasks of one core.
pub(crate) struct Cell {
    port: u16,
    pub(crate) runtime: Runtime,
    server: Process,
    pub(crate) scheduler: u32,
    pub(crate) next: u64,
    pub(crate) job: u64,
    /// Dropped last, after the processes that use the folder.
    pub(crate) dir: TempDir,
}

/// A hash of the state, with the cell's time. The time changes every few seconds. States at two times cannot be
/// compared by their hashes, and are treated as equal.
#[derive(Clone, Debug)]
pub(crate) struct StateHash {
    now_ms: u64,
    hash: String,
}

impl PartialEq for StateHash {
    fn eq(&self, other: &StateHash) -> bool {
        self.now_ms != other.now_ms || self.hash == other.hash
    }
}

impl Cell {
    pub(crate) fn start() -> Cell {
        let (dir, port, runtime) = (folder(&[]), ports(1)[0], Runtime::new().unwrap());
        let server = serve(dir.path(), &arguments(port));
        let mut cell = Cell { dir, port, runtime, server, scheduler: 0, next: 0, job: 0 };
        let machine = Machine::new("m", Amounts::new([4000, 8 << 30]));
        let register = proto::RegisterMachineRequest { machine: Some((&machine).into()) };
        insist(|| {
            let mut client = MachineServiceClient::new(cell.channel());
            Ok(cell.runtime.block_on(client.register_machine(register.clone()))?)
        });
        let job = Job::batch("j", TaskGroup::new(8, Amounts::new([1000, 1 << 20])));
        cell.job = cell.submit(&job).unwrap();
        let mut client = SchedulingServiceClient::new(cell.channel());
        let register = proto::RegisterRequest { name: "default".to_owned(), ..Default::default() };
        let response = cell.runtime.block_on(client.register(register)).unwrap().into_inner();
        (cell.scheduler, cell.next) = (response.scheduler, response.next_transaction);
        cell
    }

    pub(crate) fn channel(&self) -> Channel {
        let _entered = self.runtime.enter();
        Endpoint::from_shared(format!("http://127.0.0.1:{}", self.port)).unwrap().connect_lazy()
    }

    pub(crate) fn submit(&self, job: &Job) -> Result<u64, Status> {
        let request = proto::SubmitJobRequest { job: Some(job.into()) };
        let mut client = JobServiceClient::new(self.channel());
        Ok(self.runtime.block_on(client.submit_job(request))?.into_inner().id)
    }

    pub(crate) fn version(&self) -> u64 {
        let url = format!("http://127.0.0.1:{}", self.port);
        insist(|| self.runtime.block_on(describe(url.clone()))).version
    }

    /// The hash of the whole state in a backup, which rejected requests must not change.
    pub(crate) fn hash(&self) -> StateHash {
        loop {
            let now_ms = self.now_ms();
            let hash = self.backed_up_hash();
            if self.now_ms() == now_ms {
                return StateHash { now_ms, hash };
            }
        }
    }

    fn backed_up_hash(&self) -> String {
        let mut command = omega(self.dir.path());
        command.args(["backup", "state", "-o", "json", &format!("--cell=127.0.0.1:{}", self.port)]);
        let result = CommandOutput::from(command.output().unwrap());
        assert_eq!(result.code, Some(0), "{}", result.stderr);
        std::fs::remove_file(self.dir.path().join("state")).unwrap();
        let response: serde_json::Value = serde_json::from_str(&result.stdout).unwrap();
        response["state_hash"].as_str().unwrap().to_owned()
    }

    /// The cell's time, which is part of its state.
    fn now_ms(&self) -> u64 {
        let mut client = MachineServiceClient::new(self.channel());
        let response = client.list_reservations(proto::ListReservationsRequest {});
        self.runtime.block_on(response).unwrap().into_inner().now_ms
    }

    /// A transaction that claims these tasks on these machines.
    pub(crate) fn claims(&self, number: u64, of: &[(u32, u32)]) -> proto::CommitRequest {
        proto::CommitRequest {
            scheduler: self.scheduler,
            number,
            claim_jobs: vec![self.job; of.len()],
            claim_indices: of.iter().map(|(index, _)| *index).collect(),
            claim_slots: of.iter().map(|(_, slot)| *slot).collect(),
            claim_seen: vec![0; of.len()],
            ..Default::default()
        }
    }

    /// Answer to a transaction: the reason of each conflict, or the code of the error.
    pub(crate) fn commit(&self, request: proto::CommitRequest) -> String {
        let mut client = SchedulingServiceClient::new(self.channel());
        match self.runtime.block_on(client.commit(request)) {
            Ok(answer) => {
                let reasons = answer.into_inner().conflicts;
                let reasons = reasons.iter().map(|conflict| conflict.reason().as_str_name());
                reasons.map(|name| name.trim_start_matches("REASON_")).collect::<Vec<_>>().join(" ")
            }
            Err(status) => format!("{:?} {}", status.code(), ApiError::from(status).code),
        }
    }
}

fn arguments(port: u16) -> [String; 2] {
    ["--dir=cell".to_owned(), format!("--listen=127.0.0.1:{port}")]
}

#[test]
fn transactions_that_cannot_be_are_refused_with_a_reason() {
    let cell = Cell::start();
    let (before, hash, n) = (cell.version(), cell.hash(), cell.next);
    let many: Vec<(u32, u32)> = (0..=TRANSACTION_ITEMS_MAX as u32).map(|i| (i, 0)).collect();
    let task = |index| proto::TaskId { job: cell.job, index };
    let claims = |of: &[(u32, u32)]| cell.claims(n, of);
    let all = proto::Granularity::AllOrNothing.into();
    let cases = [
        ("empty", claims(&[]), "InvalidArgument TRANSACTION_EMPTY"),
        ("too many items", claims(&many), "InvalidArgument TRANSACTION_TOO_LARGE"),
        (
            "a version from the future",
            proto::CommitRequest { base: 1 << 40, ..claims(&[(0, 0)]) },
            "FailedPrecondition BASE_FROM_FUTURE",
        ),
        (
            "a scheduler that never was",
            proto::CommitRequest { scheduler: 99, ..claims(&[(0, 0)]) },
            "FailedPrecondition UNKNOWN_SCHEDULER",
        ),
        (
            "columns of two lengths",
            proto::CommitRequest { claim_slots: Vec::new(), ..claims(&[(0, 0)]) },
            "InvalidArgument MALFORMED",
        ),
        (
            "an unknown granularity",
            proto::CommitRequest { granularity: 77, ..claims(&[(0, 0)]) },
            "InvalidArgument MALFORMED",
        ),
        ("an unknown machine", claims(&[(0, 7)]), "MACHINE_GONE"),
        ("an unknown task", claims(&[(4_000_000_000, 0)]), "UNKNOWN_TASK"),
        (
            "the release of what is not placed",
            proto::CommitRequest { releases: vec![task(1)], ..claims(&[]) },
            "TASK_NOT_PLACED",
        ),
        (
            "all or nothing, the fifth of four",
            proto::CommitRequest {
                granularity: all,
                ..claims(&[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)])
            },
            "OTHERS_CONFLICT OTHERS_CONFLICT OTHERS_CONFLICT OTHERS_CONFLICT NO_ROOM",
        ),
        (
            "all or nothing, one task twice",
            proto::CommitRequest { granularity: all, ..claims(&[(0, 0), (0, 0)]) },
            "OTHERS_CONFLICT TASK_PLACED",
        ),
    ];
    for ((what, mut request, expected), number) in cases.into_iter().zip(n..) {
        request.number = number;
        // The pre-check, which leaves no record, never rejects releases, or claims that conflict only with each other.
        // These are rejected when the log entry is applied, and their recorded result changes the hash.
        let needs_a_check = !request.releases.is_empty() || request.granularity == all;
        assert_eq!(cell.commit(request), expected, "{what}");
        if !needs_a_check {
            assert_eq!(cell.hash(), hash, "{what}");
        }
    }
    let n = n + 100;
    let claims = |of: &[(u32, u32)]| cell.claims(n, of);
    assert_eq!(cell.version(), before, "nothing was changed");
    // A partial commit applies the claims that fit: the claims on one machine add up.
    let five = claims(&[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]);
    assert_eq!(cell.commit(five.clone()), "NO_ROOM");
    let after = cell.version();
    assert_eq!(after, before + 1);
    let hash = cell.hash();
    // A repeated transaction gets the first result; a different one with its number is rejected.
    assert_eq!(cell.commit(five), "NO_ROOM");
    assert_eq!(cell.commit(claims(&[(5, 0)])), "AlreadyExists ID_REUSED");
    assert_eq!(cell.commit(cell.claims(n + 1, &[(0, 0)])), "TASK_PLACED");
    assert_eq!((cell.version(), cell.hash()), (after, hash));
}

#[test]
fn amounts_beyond_all_bounds_are_refused() {
    let cell = Cell::start();
    let (before, hash) = (cell.version(), cell.hash());
    let most = |amount| Job::batch("more", TaskGroup::new(1, Amounts::new([amount])));
    for amount in [u64::MAX, i64::MAX as u64, (1 << 50) + 1] {
        let status = cell.submit(&most(amount)).unwrap_err();
        let code = ApiError::from(status).code;
        assert!(matches!(code, ErrorCode::BadAmount | ErrorCode::Malformed), "{code}");
    }
    let none = Job::batch("none", TaskGroup::new(0, Amounts::new([1])));
    assert_eq!(ApiError::from(cell.submit(&none).unwrap_err()).code, ErrorCode::BadJob);
    let huge = Job::batch("huge", TaskGroup::new(u32::MAX, Amounts::new([1])));
    assert_eq!(ApiError::from(cell.submit(&huge).unwrap_err()).code, ErrorCode::TooMany);
    assert_eq!((cell.version(), cell.hash()), (before, hash));
    // Maximum amounts do not overflow, nor does the sum of two of them.
    let job = Job::batch("most", TaskGroup::new(2, Amounts::new([1 << 50])));
    let job = cell.submit(&job).unwrap();
    let mut both = cell.claims(cell.next, &[(0, 0), (1, 0)]);
    both.claim_jobs = vec![job; 2];
    assert_eq!(cell.commit(both), "NO_ROOM NO_ROOM");
}

/// Output of `omega serve` for a file of settings.
fn check(dir: &Path, text: &str) -> CommandOutput {
    std::fs::write(dir.join("serve.toml"), text).unwrap();
    run_omega(dir, &["serve", "--config=serve.toml", "--check-config"])
}

#[test]
fn files_of_settings_are_read_as_people_write_them_or_told_with_the_line() {
    let dir = folder(&[]);
    for good in ["\u{feff}dir = \"x\"\n", "dir = \"x\"\r\nlisten = \"127.0.0.1:1\"\r\n"] {
        let output = check(dir.path(), good);
        assert_eq!(output.code, Some(0), "{good:?}: {}", output.stderr);
    }
    let wrong = [
        ("", "give --dir DIR to keep the cell in a folder"),
        ("dir = \"x\"\ndir = \"y\"\n", "line 2: duplicate key"),
        ("dir = \"x\"\nreplica = -1\n", "line 2: "),
        ("dir = \"x\"\nmachine-timeout = 0\n", "line 2: "),
        ("dir = \"x\"\nmachine-timeout = 99999999999\n", "line 2: "),
        ("dir = \"x\"\nreplica = \"one\"\n", "line 2: replica: must be a whole number"),
        ("dir = \"x\n", "line 1: "),
        ("dir = \"x\"\nlisten = \"127.0.0.1:99999\"\n", "line 2: "),
    ];
    for (text, expected) in wrong {
        let output = check(dir.path(), text);
        assert_eq!(output.code, Some(2), "{text:?}: {}", output.stderr);
        assert!(output.stderr.contains(expected), "{text:?}: {}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    }
    assert!(!dir.path().join("x").exists());
}

#[test]
fn a_port_that_is_taken_and_a_folder_that_is_none_are_told() {
    let dir = folder(&[("file", "")]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    let output = run_omega(dir.path(), &["serve", "--memory", &listen]);
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("cannot listen on"), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    let output = run_omega(dir.path(), &["serve", "--dir=file", "--listen=127.0.0.1:0"]);
    assert_eq!(output.code, Some(2), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
}

#[test]
fn a_server_with_few_descriptors_serves_those_who_come_later() {
    let dir = folder(&[]);
    let port = ports(1)[0];
    let program = omega(dir.path()).get_program().to_owned();
    let mut child = Command::new("sh")
        .current_dir(dir.path())
        .args(["-c", "ulimit -n 64; exec \"$0\" serve --memory \"$1\""])
        .arg(program)
        .arg(format!("--listen=127.0.0.1:{port}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let _server = Process(child);
    // More connections are opened than the server can accept; the system queues the rest.
    let held: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    drop(held);
    let runtime = Runtime::new().unwrap();
    insist(|| runtime.block_on(describe(format!("http://127.0.0.1:{port}"))));
}

/// Starts `omega serve` in a shell that has set limits of open files.
fn serve_with_files(dir: &Path, ulimit: &str, port: u16) -> Command {
    let program = omega(dir).get_program().to_owned();
    let mut command = Command::new("sh");
    command.current_dir(dir).arg("-c");
    command.arg(format!("{ulimit}; exec \"$0\" serve --memory \"$1\"")).arg(program);
    command.arg(format!("--listen=127.0.0.1:{port}")).stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command
}

#[test]
fn a_server_opens_as_many_files_as_it_may_and_does_not_start_with_too_few() {
    let dir = folder(&[]);
    let ulimit = "ulimit -n 200; ulimit -S -n 40";
    let mut child = serve_with_files(dir.path(), ulimit, ports(1)[0]).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let server = Process(child);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.0.id())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let values: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(values, ["200", "200"]);
    let output = serve_with_files(dir.path(), "ulimit -n 24", ports(1)[0]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("may open only 24 files: raise the limit to at least 31"), "{stderr}");
}

#[test]
fn a_server_that_is_told_twice_to_end_keeps_what_it_answered() {
    let mut cell = Cell::start();
    let mut placed = 0;
    while placed < 4 {
        assert_eq!(cell.commit(cell.claims(cell.next + placed, &[(placed as u32, 0)])), "");
        placed += 1;
    }
    for _ in 0..2 {
        let id = cell.server.0.id().to_string();
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
    }
    // The second signal arrives during the shutdown, and does not change it.
    let status = cell.server.0.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    let replay = ["log", "replay", "cell", "--all", "--audit-every", "1"];
    let output = run_omega(cell.dir.path(), &replay);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    assert!(output.stdout.contains("tasks on machines  4"), "{}", output.stdout);
}

#[test]
fn a_cell_that_was_founded_is_not_founded_again() {
    let dir = folder(&[]);
    let all = ports(2);
    let several = [
        "--dir=r1".to_owned(),
        format!("--listen=127.0.0.1:{}", all[0]),
        "--cell-name=test".to_owned(),
        "--replica=1".to_owned(),
        format!("--peers=1=127.0.0.1:{}", all[1]),
        "--bootstrap".to_owned(),
    ];
    let runtime = Runtime::new().unwrap();
    let url = format!("http://127.0.0.1:{}", all[0]);
    let fresh = || loop {
        let response = insist(|| runtime.block_on(describe(url.clone())));
        if !response.stale {
            return response;
        }
    };
    let server = serve(dir.path(), &several);
    let machine = Machine::new("kept", Amounts::new([1000]));
    let register = proto::RegisterMachineRequest { machine: Some((&machine).into()) };
    insist(|| {
        runtime.block_on(async {
            let client = MachineServiceClient::connect(url.clone()).await;
            let mut client = client.map_err(crate::kit::calls::unavailable)?;
            Ok(client.register_machine(register.clone()).await?)
        })
    });
    let before = fresh();
    drop(server);
    // The server is started again with equal arguments, as a script would do.
    let _server = serve(dir.path(), &several);
    let after = fresh();
    assert_eq!((after.machines, after.version), (before.machines, before.version));
    assert_eq!(after.cell, before.cell);
}
