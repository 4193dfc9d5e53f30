//! Real servers whose disks fail, are full or lose their power. The test compiles a library that simulates this between
//! the process and its files (`omega_tests::disk::interposed`). `bad_disks.rs` tests real file systems, if the test has
//! root rights.

use crate::kit::cell::{Process, ports};
use crate::kit::process::{folder, omega};
use crate::kit::wait::insist;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::{self, job_ref};
use omega_client::{ApiError, ErrorCode};
use omega_core::limits::LABELS_MAX;
use omega_core::{Amounts, Job, Labels, TaskGroup};
use omega_tests::disk::interposed::{InterposedDisk, Lost, Mode};
use omega_tests::random::Dice;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

/// The exit code of a server whose disk failed, EX_IOERR.
const DISK_FAILED: i32 = 74;

/// Number of concurrent submitters.
const SUBMITTERS: usize = 4;

/// Starts a server on an interposed disk. If the server fails to start, its errors are in `errors`.
fn start(dir: &Path, disk: &InterposedDisk, arguments: &[String]) -> Option<Process> {
    let mut command = omega(dir);
    disk.put_below(&mut command);
    let errors = File::create(dir.join("errors")).unwrap();
    command.arg("serve").args(arguments).stdout(Stdio::piped()).stderr(errors);
    let mut child = Process(command.spawn().expect("omega starts"));
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.contains("listens on").then_some(child)
}

fn errors(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("errors")).unwrap()
}

/// A cell of one replica on an interposed disk.
struct Single {
    dir: tempfile::TempDir,
    disk: InterposedDisk,
    port: u16,
    runtime: Runtime,
    channel: Channel,
}

impl Single {
    fn new() -> Single {
        let dir = folder(&[]);
        let disk = InterposedDisk::new(&dir.path().join("disk"), &dir.path().join("state"));
        let (port, runtime) = (ports(1)[0], Runtime::new().unwrap());
        let channel = channel(&runtime, port);
        Single { dir, disk: disk.unwrap(), port, runtime, channel }
    }

    fn start(&self, more: &[&str]) -> Option<Process> {
        let mut arguments =
            vec!["--dir=disk/cell".to_owned(), format!("--listen=127.0.0.1:{}", self.port)];
        arguments.extend(more.iter().map(|more| (*more).to_owned()));
        start(self.dir.path(), &self.disk, &arguments)
    }

    fn contains(&self, name: &str) -> bool {
        insist(|| {
            let job = proto::JobRef { job: Some(job_ref::Job::Name(name.to_owned())) };
            let request = proto::GetJobRequest { job: Some(job) };
            let mut client = JobServiceClient::new(self.channel.clone());
            match self.runtime.block_on(client.get_job(request)).map_err(ApiError::from) {
                Ok(_) => Ok(true),
                Err(error) if error.code == ErrorCode::UnknownJob => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Submits jobs with this name prefix from several threads of the runtime, and reports each
    /// accepted job.
    fn submit_all(&self, prefix: &str) -> mpsc::Receiver<String> {
        let (taken, response) = mpsc::channel();
        for submitter in 0..SUBMITTERS {
            let (channel, taken) = (self.channel.clone(), taken.clone());
            let prefix = format!("{prefix}-{submitter}");
            self.runtime.spawn(async move {
                for number in 0.. {
                    let name = format!("{prefix}-{number}");
                    if submit(channel.clone(), &name).await.is_err() || taken.send(name).is_err() {
                        return;
                    }
                }
            });
        }
        response
    }
}

fn channel(runtime: &Runtime, port: u16) -> Channel {
    let _entered = runtime.enter();
    Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap().connect_lazy()
}

async fn submit(channel: Channel, name: &str) -> Result<(), ApiError> {
    send(channel, &Job::batch(name, TaskGroup::new(1, Amounts::new([1])))).await
}

/// Submits a job of 100 KB, so that the log grows quickly.
async fn submit_large(channel: Channel, name: &str) -> Result<(), ApiError> {
    let labels = (0..LABELS_MAX).map(|at| (at.to_string(), "x".repeat(400)));
    let group = TaskGroup { labels: Labels::new(labels), ..TaskGroup::new(1, Amounts::new([1])) };
    send(channel, &Job::batch(name, group)).await
}

async fn send(channel: Channel, job: &Job) -> Result<(), ApiError> {
    let request = proto::SubmitJobRequest { job: Some(job.into()) };
    JobServiceClient::new(channel).submit_job(request).await?;
    Ok(())
}

/// Submits a job, or finds that an earlier attempt has submitted it.
async fn have(channel: Channel, name: &str) -> Result<(), ApiError> {
    match submit(channel, name).await {
        Err(error) if error.code == ErrorCode::NameTaken => Ok(()),
        response => response,
    }
}

/// Cuts the power of a server under load repeatedly: `OMEGA_POWER_CUTS` times.
#[test]
fn nothing_acknowledged_is_lost_when_the_power_goes() {
    let cuts = std::env::var("OMEGA_POWER_CUTS").map_or(6, |cuts| cuts.parse().unwrap());
    let single = Single::new();
    let (mut acknowledged, mut undone, mut torn) = (Vec::new(), 0, 0);
    let mut cut = 0;
    // On a busy computer, there may be a sync just before each of the cuts; then there are more cuts.
    while cut < cuts || (undone == 0 && cut < 60) {
        let server = single.start(&[]).unwrap_or_else(|| {
            // The operator confirms that there was a power failure; see docs/durability.md.
            assert!(errors(single.dir.path()).contains("--accept-torn-log"), "cut {cut}");
            torn += 1;
            single.start(&["--accept-torn-log"]).expect("it was told to go on")
        });
        insist(|| single.runtime.block_on(have(single.channel.clone(), &format!("begin-{cut}"))));
        let response = single.submit_all(&cut.to_string());
        let mut dice = Dice::new(cut);
        acknowledged.extend((0..1 + dice.below(60)).map(|_| response.recv().unwrap()));
        // Dropping the process kills it; see `Process`.
        drop(server);
        acknowledged.extend(response);
        let Lost { undone: now, .. } = single.disk.cut_power(&mut dice).unwrap();
        undone += now;
        cut += 1;
    }
    let _server = single.start(&[]).or_else(|| single.start(&["--accept-torn-log"])).unwrap();
    let lost = acknowledged.iter().filter(|name| !single.contains(name));
    assert_eq!(lost.collect::<Vec<_>>(), Vec::<&String>::new(), "of {}", acknowledged.len());
    println!("{cut} cuts, {undone} changes undone, {torn} torn logs, {} jobs", acknowledged.len());
    assert!(undone > 0, "no cut undid anything: the library is not below the server");
}

#[test]
fn a_server_ends_when_its_disk_fails() {
    let single = Single::new();
    let mut kept = Vec::new();
    for (round, mode) in [Mode::WritesFail, Mode::SyncsFail].into_iter().enumerate() {
        let mut server =
            single.start(&[]).unwrap_or_else(|| panic!("{}", errors(single.dir.path())));
        let response = single.submit_all(&round.to_string());
        kept.extend((0..10).map(|_| response.recv().unwrap()));
        single.disk.set(mode).unwrap();
        kept.extend(response);
        let ended = server.0.wait().unwrap();
        let output = errors(single.dir.path());
        assert_eq!(ended.code(), Some(DISK_FAILED), "{mode:?}: {output}");
        assert!(output.contains("nput/output error"), "{mode:?}: {output}");
        single.disk.set(Mode::Works).unwrap();
    }
    // With a working disk, every acknowledged job is present.
    let _server = single.start(&[]).unwrap_or_else(|| panic!("{}", errors(single.dir.path())));
    assert!(kept.iter().all(|name| single.contains(name)), "{kept:?}");
}

#[test]
fn a_server_ends_when_its_folder_is_removed() {
    let single = Single::new();
    let mut server = single.start(&[]).unwrap_or_else(|| panic!("{}", errors(single.dir.path())));
    let response = single.submit_all("a");
    (0..10).for_each(|_| drop(response.recv().unwrap()));
    std::fs::remove_dir_all(single.dir.path().join("disk/cell")).unwrap();
    let ended = server.0.wait().unwrap();
    let output = errors(single.dir.path());
    assert_eq!(ended.code(), Some(DISK_FAILED), "{output}");
    assert!(output.contains("was removed") || output.contains("o such file"), "{output}");
}

#[test]
fn a_leader_whose_disk_is_full_hands_over() {
    let (dir, runtime) = (folder(&[]), Runtime::new().unwrap());
    let all = ports(6);
    let (clients, peers) = all.split_at(3);
    let peers: Vec<String> =
        peers.iter().zip(1..).map(|(port, id)| format!("{id}=127.0.0.1:{port}")).collect();
    let mut replicas = Vec::new();
    for (id, client) in (1..=3).zip(clients) {
        let at = |name: &str| dir.path().join(format!("{name}{id}"));
        let disk = InterposedDisk::new(&at("disk"), &at("state")).unwrap();
        let arguments = [
            format!("--dir=disk{id}/cell"),
            format!("--listen=127.0.0.1:{client}"),
            format!("--replica={id}"),
            format!("--peers={}", peers.join(",")),
            "--cell-name=test".to_owned(),
            "--bootstrap".to_owned(),
        ];
        let server = start(dir.path(), &disk, &arguments).expect("it begins");
        replicas.push((disk, server, channel(&runtime, *client)));
    }
    let leader = |requested: &Channel| {
        insist(|| {
            let mut client = CellServiceClient::new(requested.clone());
            let response = runtime.block_on(client.describe_cell(proto::DescribeCellRequest {}))?;
            match response.into_inner().members.map_or(0, |members| members.leader as usize) {
                0 => Err(ApiError::new(ErrorCode::NoLeader, "nobody leads")),
                leader => Ok(leader - 1),
            }
        })
    };
    let full = leader(&replicas[0].2);
    let (disk, other) = (&replicas[full].0, &replicas[(full + 1) % 3].2);
    disk.set(Mode::Full).unwrap();
    // Jobs are submitted until the log needs another file. A job without an answer may be in the log or not.
    let mut number = 0;
    while leader(other) == full {
        let _ = runtime.block_on(submit_large(other.clone(), &format!("large-{number}")));
        number += 1;
    }
    insist(|| runtime.block_on(have(other.clone(), "then")));
    // When there is room again, the server continues as a follower.
    disk.set(Mode::Works).unwrap();
    insist(|| runtime.block_on(have(replicas[full].2.clone(), "later")));
}
