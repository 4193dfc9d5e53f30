//! A cell with schedulers, and agents of simulated machines.

use crate::kit::calls::{describe, job, submit_job, unavailable};
use crate::kit::cell::{Process, ports, serve, start};
use crate::kit::process::{CommandOutput, folder, run_omega};
use crate::kit::wait::insist;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::{self, job_ref};
use omega_core::Job;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Taint of machines whose agents are silent.
const UNREACHABLE: &str = omega_client::agent::UNREACHABLE;

/// Timeout that is long enough for heartbeats on a busy computer, and short enough that tests can wait for it.
const TIMEOUT: &str = "--machine-timeout=10";

/// A cell of one replica on a disk, and its clients.
pub(crate) struct Cell {
    port: u16,
    runtime: Runtime,
    server: Option<Process>,
    /// Dropped last, after the processes that use the folder.
    dir: TempDir,
}

impl Cell {
    pub(crate) fn start() -> Cell {
        let runtime = Runtime::new().unwrap();
        let mut cell = Cell { dir: folder(&[]), port: ports(1)[0], runtime, server: None };
        cell.serve();
        cell
    }

    fn serve(&mut self) {
        let listen = format!("--listen=127.0.0.1:{}", self.port);
        let more = [TIMEOUT, "--eviction-rate=5"].map(str::to_owned);
        let all = [vec!["--dir=cell".to_owned(), listen], more.to_vec()].concat();
        self.server = Some(serve(self.dir.path(), &all));
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn scheduler(&self) -> Process {
        let more = ["--standby", "--lease=5s"];
        start(self.dir.path(), &[&["scheduler", "--cell", &self.address()][..], &more].concat())
    }

    /// Starts a scheduler with a profile.
    pub(crate) fn scheduler_with(&self, profile: &str) -> Process {
        std::fs::write(self.dir.path().join("profile.toml"), profile).unwrap();
        let arguments = ["scheduler", "--cell", &self.address(), "--profile", "profile.toml"];
        start(self.dir.path(), &arguments)
    }

    pub(crate) fn kill(&self, job: u64) {
        let job = proto::JobRef { job: Some(job_ref::Job::Id(job)) };
        let request = proto::KillJobRequest { job: Some(job) };
        insist(|| {
            self.runtime.block_on(async {
                let mut client =
                    JobServiceClient::connect(self.url()).await.map_err(unavailable)?;
                Ok(client.kill_job(request.clone()).await?)
            })
        });
    }

    /// Resizes a task to a number of cores.
    pub(crate) fn resize(&self, task: &str, cores: u32) {
        let output = self.run_omega(&["task", "resize", task, "--cpu", &cores.to_string()]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }

    /// Starts an agent, and waits until it has registered its machines.
    pub(crate) fn agent(&self, name: &str, machines: u32, more: &[&str]) -> Process {
        let count = machines.to_string();
        let address = self.address();
        let agent = [
            "agent",
            "--cell",
            &address,
            "--prefix",
            name,
            "--simulate",
            &count,
            "--heartbeat",
            "1",
        ];
        start(self.dir.path(), &[&agent, more].concat())
    }

    pub(crate) fn submit(&self, job: &Job) -> u64 {
        submit_job(&self.runtime, &self.url(), job)
    }

    pub(crate) fn job(&self, id: u64) -> proto::JobStatus {
        job(&self.runtime, &self.url(), id)
    }

    /// The version of the cell.
    pub(crate) fn version(&self) -> u64 {
        insist(|| self.runtime.block_on(describe(self.url()))).version
    }

    /// Kills the server, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.server = None;
        self.serve();
    }

    /// Runs a command against the cell.
    pub(crate) fn run_omega(&self, arguments: &[&str]) -> CommandOutput {
        let address = self.address();
        run_omega(self.dir.path(), &[arguments, &["--cell", &address]].concat())
    }

    pub(crate) fn machines(&self) -> Vec<proto::MachineStatus> {
        let answer = insist(|| {
            self.runtime.block_on(async {
                let mut client =
                    MachineServiceClient::connect(self.url()).await.map_err(unavailable)?;
                let request = proto::ListMachinesRequest::default();
                Ok(client.list_machines(request).await?.into_inner())
            })
        });
        answer.machines
    }

    /// Number of an agent's machines that have the taint, and number of tasks on all its machines.
    pub(crate) fn marked(&self, name: &str) -> (usize, u32) {
        let prefix = format!("{name}-");
        let machines = self.machines();
        let of = |response: &&proto::MachineStatus| {
            response.machine.as_ref().is_some_and(|machine| machine.name.starts_with(&prefix))
        };
        let of: Vec<_> = machines.iter().filter(of).collect();
        let has_taint = |response: &&&proto::MachineStatus| {
            let taints = &response.machine.as_ref().unwrap().taints;
            taints.iter().any(|taint| taint.key == UNREACHABLE)
        };
        (of.iter().filter(has_taint).count(), of.iter().map(|response| response.tasks).sum())
    }

    /// Ends the server and replays its log with an audit.
    pub(crate) fn replay(mut self) {
        self.server = None;
        let output =
            run_omega(self.dir.path(), &["log", "replay", "cell", "--all", "--audit-every", "50"]);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
    }
}
