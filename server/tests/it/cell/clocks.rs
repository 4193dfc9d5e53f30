//! Clocks of a server, its agents and its schedulers that jump by hours. Leases, heartbeats and the run times of tasks
//! are measured by monotonic time, so nothing expires, and the cell's time neither goes back nor stands still. `fire.rs`
//! combines such clocks with kills of replicas.

use crate::kit::calls::unavailable;
use crate::kit::cell::{Process, ports};
use crate::kit::http::get;
use crate::kit::process::{folder, omega};
use crate::kit::wait::insist;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::{self, job_ref};
use omega_core::{Amounts, Job, TaskGroup};
use omega_tests::clock::WrongClock;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Seconds by which the clocks of the server, the agent and the schedulers are ahead of this computer's clock, step by
/// step.
const STEPS_S: [[i64; 3]; 4] =
    [[3_600, 0, 0], [-7_200, 3_600, -60], [86_400, -86_400, 86_400], [0, 60, -3_600]];

const HOUR_MS: u64 = 3_600_000;

/// A cell whose processes have separate clocks.
struct World {
    dir: TempDir,
    port: u16,
    web: u16,
    runtime: Runtime,
    clocks: [WrongClock; 3],
}

impl World {
    fn new() -> World {
        let dir = folder(&[]);
        let clock = |name: &str| WrongClock::new(&dir.path().join(name)).unwrap();
        let clocks = ["server", "agent", "scheduler"].map(clock);
        let free = ports(2);
        World { dir, port: free[0], web: free[1], runtime: Runtime::new().unwrap(), clocks }
    }

    /// Starts a process with one of the clocks, and waits for the line that it prints when it is ready.
    fn start(&self, clock: usize, arguments: &str) -> Process {
        let mut command = omega(self.dir.path());
        self.clocks[clock].give_to(&mut command);
        command.args(arguments.split(' ')).stdout(Stdio::piped());
        let mut child = Process(command.spawn().expect("omega starts"));
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{arguments} ended at once");
        child
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn submit(&self, name: &str, run_ms: u64) -> u64 {
        let group = TaskGroup::new(2, Amounts::new([1000, 1 << 30]));
        let job = Job { runtime_estimate_ms: Some(run_ms), ..Job::batch(name, group) };
        let request = proto::SubmitJobRequest { job: Some((&job).into()) };
        insist(|| {
            self.runtime.block_on(async {
                let mut client =
                    JobServiceClient::connect(self.url()).await.map_err(unavailable)?;
                Ok(client.submit_job(request.clone()).await?.into_inner().id)
            })
        })
    }

    fn job(&self, id: u64) -> proto::JobStatus {
        let job = proto::JobRef { job: Some(job_ref::Job::Id(id)) };
        let response = insist(|| {
            self.runtime.block_on(async {
                let mut client =
                    JobServiceClient::connect(self.url()).await.map_err(unavailable)?;
                let request = proto::GetJobRequest { job: Some(job.clone()) };
                Ok(client.get_job(request).await?.into_inner())
            })
        });
        response.job.unwrap()
    }

    /// The cell's time.
    fn now_ms(&self) -> u64 {
        insist(|| {
            self.runtime.block_on(async {
                let mut client =
                    MachineServiceClient::connect(self.url()).await.map_err(unavailable)?;
                let response = client.list_reservations(proto::ListReservationsRequest {}).await?;
                Ok(response.into_inner().now_ms)
            })
        })
    }

    /// The value of a metric without labels.
    fn figure(&self, name: &str) -> f64 {
        let text = get(self.web, "/metrics").body;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name}: {text}")).trim().parse().unwrap()
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// This computer's time of day plus half a day. The cell's time is later than this, because the server's clock was a
/// day ahead.
fn ahead_of_us_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_millis() as u64 + 12 * HOUR_MS
}

#[test]
fn clocks_that_jump_expire_nothing() {
    let world = World::new();
    let cell = format!("127.0.0.1:{}", world.port);
    let web = format!("--web-listen=127.0.0.1:{}", world.web);
    let serve = format!("serve --dir=cell --listen={cell} {web} --machine-timeout=20");
    let _server = world.start(0, &serve);
    let _agent = world.start(1, &format!("agent --cell {cell} --simulate 4 --heartbeat 1"));
    let _active = world.start(2, &format!("scheduler --cell {cell} --lease=20s"));
    let _standby = world.start(2, &format!("scheduler --cell {cell} --standby --lease=20s"));
    let long = world.submit("long", 100 * HOUR_MS);
    until(|| world.job(long).running == 2);
    let mut cell_ms = world.now_ms();
    for (step, seconds) in STEPS_S.into_iter().enumerate() {
        world.clocks.iter().zip(seconds).for_each(|(clock, ahead)| clock.set(ahead).unwrap());
        // When the agent has sent further heartbeats, every timer of the server has run.
        let reports = world.figure("omega_agent_reports_total");
        until(|| world.figure("omega_agent_reports_total") >= reports + 3.0);
        let short = world.submit(&format!("short-{step}"), 1);
        until(|| world.job(short).finished == 2);
        let now_ms = world.now_ms();
        assert!(now_ms >= cell_ms, "step {step}: the cell's time went from {cell_ms} to {now_ms}");
        until(|| world.now_ms() > now_ms);
        cell_ms = now_ms;
        let expired = world.figure("omega_lease_expirations_total");
        assert_eq!(expired, 0.0, "step {step}: a lease expired");
        let draining = world.figure("omega_cell_machines_draining");
        assert_eq!(draining, 0.0, "step {step}: machines count as unreachable");
        let response = world.job(long);
        assert_eq!(
            (response.running, response.finished),
            (2, 0),
            "step {step}: its hours are not over"
        );
    }
    assert!(cell_ms >= ahead_of_us_ms(), "the server had none of these clocks: {cell_ms}");
}
