//! A custom scheduler with a score of its own, in a separate process that connects to a cell over the network.
//!
//! ```console
//! $ omega serve --memory &
//! $ cargo run -p omega-server --example remote_scheduler -- 127.0.0.1:7600
//! ```
//!
//! The example registers two machines and a job, places the job, and ends. Without an address, it serves a cell itself.

use omega_cellstate::{Cell, SharedCell};
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::{Address, RemoteCell, proto};
use omega_core::{Amounts, Job, Kinds, Labels, Machine, TaskGroup};
use omega_schedulers::{
    MachineRef, MachineScore, PerMachine, Profile, SCORE_MAX, Scheduler, Settings, Tasks,
    Unobserved,
};
use omega_service::{Extras, Host, ListenerConfig, ReplicaIdentity, serve_clients};
use omega_store::CellId;
use omega_store::log::ReplicaId;
use std::error::Error;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Prefers machines with the label `power` = `green`.
struct GreenPower;

impl MachineScore for GreenPower {
    fn name(&self) -> &'static str {
        "green_power"
    }

    fn score(&self, _tasks: &Tasks<'_>, machine: MachineRef<'_>) -> i32 {
        let power = machine.machine().labels.get("power");
        if power.is_some_and(|power| &**power == "green") { SCORE_MAX } else { 0 }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let address = match std::env::args().nth(1) {
        Some(address) => address,
        None => serve(&runtime)?,
    };
    runtime.block_on(prepare(&address))?;

    // From here on, the code is the same as for a cell in the same process.
    let cell = RemoteCell::connect(&Address::plain([address.clone()]))?;
    let profile = Profile::batch().with_score(PerMachine(GreenPower), 10);
    let mut scheduler = Scheduler::new(&cell, profile, Settings::new("green"))?;
    let began = Instant::now();
    let mut placed = 0;
    while placed < 3 {
        let step = scheduler.step(&cell, began.elapsed().as_nanos() as u64, &mut Unobserved)?;
        placed += step.placed;
    }
    println!("{}", runtime.block_on(where_it_runs(&address))?);
    Ok(())
}

/// Starts a cell in this process.
fn serve(runtime: &Runtime) -> Result<String, Box<dyn Error>> {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?.to_string();
    let host = Host::memory(SharedCell::new(Cell::new(Kinds::standard())));
    let me = ReplicaIdentity { cell: CellId(1), replica: ReplicaId(1) };
    let listener_config = ListenerConfig::open(listener);
    let extras = Extras::default();
    runtime.spawn(serve_clients(listener_config, host, me, extras, std::future::pending()));
    Ok(address)
}

/// Registers two machines and submits a job. A second call changes nothing.
async fn prepare(address: &str) -> Result<(), Box<dyn Error>> {
    let url = format!("http://{address}");
    let mut machines = MachineServiceClient::connect(url.clone()).await?;
    for (name, power) in [("coal-1", "brown"), ("sun-1", "green")] {
        let mut machine = Machine::new(name, Amounts::new([4000, 8 << 30]));
        machine.labels = Labels::new([("power", power)]);
        let request = proto::RegisterMachineRequest { machine: Some((&machine).into()) };
        machines.register_machine(request).await?;
    }
    let mut job = Job::batch("solar", TaskGroup::new(3, Amounts::new([1000, 1 << 30])));
    job.scheduler = "green".into();
    let request = proto::SubmitJobRequest { job: Some((&job).into()) };
    JobServiceClient::connect(url).await?.submit_job(request).await?;
    Ok(())
}

async fn where_it_runs(address: &str) -> Result<String, Box<dyn Error>> {
    use proto::task_service_client::TaskServiceClient;
    let mut tasks = TaskServiceClient::connect(format!("http://{address}")).await?;
    let job = proto::JobRef { job: Some(proto::job_ref::Job::Name("solar".into())) };
    let of = Some(proto::list_tasks_request::Of::Job(job));
    let answer = tasks.list_tasks(proto::ListTasksRequest { of, ..Default::default() }).await?;
    let line = |task: &proto::TaskStatus| format!("task on {}", task.machine_name);
    Ok(answer.into_inner().tasks.iter().map(line).collect::<Vec<_>>().join("\n"))
}
