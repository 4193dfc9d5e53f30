//! Full and read-only disks, as real file systems. Creating these requires root; otherwise the test is skipped with a
//! message.

use crate::kit::cell::{Process, ports, serve};
use crate::kit::process::{folder, run_omega};
use crate::kit::wait::insist;
use omega_client::proto::cell_service_client::CellServiceClient;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::{ApiError, ErrorCode, proto};
use omega_core::limits::LABELS_MAX;
use omega_core::{Amounts, Job, Labels, TaskGroup};
use omega_tests::fire::disk::Disk;
use std::path::Path;
use std::process::Command;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

/// A disk of this many mebibytes; `None` (with a message) if it cannot be created.
fn disk(at: &Path, mib: u64) -> Option<Disk> {
    let made = Disk::with_room(at, mib);
    if let Err(why) = &made {
        println!("skipped: a disk takes the rights of root and loop devices: {why}");
    }
    made.ok()
}

fn start(dir: &Path, port: u16) -> Process {
    let arguments = ["--dir=disk/cell".to_owned(), format!("--listen=127.0.0.1:{port}")];
    serve(dir, &arguments)
}

fn submit(runtime: &Runtime, channel: &Channel, name: String) -> Result<u64, ApiError> {
    // The jobs are large, so that the disk is soon full.
    let labels = (0..LABELS_MAX).map(|at| (at.to_string(), "x".repeat(400)));
    let group = TaskGroup { labels: Labels::new(labels), ..TaskGroup::new(1, Amounts::new([1])) };
    let job = Job::batch(name, group);
    let request = proto::SubmitJobRequest { job: Some((&job).into()) };
    let mut client = JobServiceClient::new(channel.clone());
    let response = runtime.block_on(client.submit_job(request))?;
    Ok(response.into_inner().id)
}

#[test]
fn a_full_disk_is_told_and_what_was_answered_is_kept() {
    let dir = folder(&[]);
    let Some(disk) = disk(&dir.path().join("disk"), 128) else { return };
    let (port, runtime) = (ports(1)[0], Runtime::new().unwrap());
    let server = start(dir.path(), port);
    let channel = {
        let _entered = runtime.enter();
        Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap().connect_lazy()
    };
    insist(|| submit(&runtime, &channel, "first".to_owned()));
    // A file takes all free space, except for a little that a log may have reserved.
    let ballast = disk.at().join("ballast");
    let fill = Command::new("dd")
        .args(["if=/dev/zero", "bs=1M"])
        .arg(format!("of={}", ballast.display()))
        .output()
        .unwrap();
    assert!(!fill.status.success(), "dd ends when the disk is full");
    let mut kept = 1;
    let refused = loop {
        match submit(&runtime, &channel, format!("j{kept}")) {
            Ok(_) => kept += 1,
            // Whether the last job was accepted is known only once there is room again.
            Err(error)
                if error.code == ErrorCode::OutcomeUnknown || error.code == ErrorCode::Late => {}
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code, ErrorCode::DiskFull, "{refused}");
    assert!(refused.retry_after.is_some());
    // The server still runs, and answers reads.
    let mut cells = CellServiceClient::new(channel.clone());
    let response = runtime.block_on(cells.describe_cell(proto::DescribeCellRequest {}));
    let response = response.unwrap().into_inner();
    assert!(response.jobs >= kept);
    assert!(response.members.unwrap().all[0].disk_full);
    let cell = format!("--cell=127.0.0.1:{port}");
    let listed = run_omega(dir.path(), &["member", "list", &cell]).stdout;
    assert!(listed.contains(" full "), "{listed}");
    std::fs::remove_file(ballast).unwrap();
    insist(|| submit(&runtime, &channel, "after".to_owned()));
    kept += 1;
    drop(server);
    // The state is the same after a loss of power.
    let _server = start(dir.path(), port);
    // A replica reports the state that it has applied, and its log may have more entries. Once it accepts a job, it has
    // applied all earlier ones.
    insist(|| submit(&runtime, &channel, "last".to_owned()));
    kept += 1;
    let response = insist(|| {
        let requested = cells.describe_cell(proto::DescribeCellRequest {});
        Ok(runtime.block_on(requested)?.into_inner())
    });
    assert!(response.jobs >= kept, "{} of {kept}", response.jobs);
}

#[test]
fn a_disk_that_may_only_be_read_is_told_in_one_line() {
    let dir = folder(&[]);
    let Some(disk) = disk(&dir.path().join("disk"), 128) else { return };
    let port = ports(1)[0];
    drop(start(dir.path(), port));
    let remount = |how: &str| {
        let mut mount = Command::new("mount");
        let output = mount.args(["-o", &format!("remount,{how}")]).arg(disk.at()).status();
        assert!(output.unwrap().success());
    };
    remount("ro");
    for folder in ["disk/cell", "disk/new"] {
        let output = run_omega(
            dir.path(),
            &["serve", &format!("--dir={folder}"), &format!("--listen=127.0.0.1:{port}")],
        );
        assert_eq!(output.code, Some(74), "{folder}: {}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        assert!(output.stderr.contains("ead-only"), "{}", output.stderr);
    }
    remount("rw");
    drop(start(dir.path(), port));
}
