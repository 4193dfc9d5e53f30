//! Three kinds of client on one cell: a scheduler with a view, frameworks that receive offers, and an application that
//! requests containers near its data. They work independently, and the cell checks all their claims by the same rules.
//!
//! `cargo run -p omega-schedulers --example three_clients`

use omega_cellstate::{Cell, SharedCell};
use omega_core::{
    Amounts, Command, Job, KindId, Kinds, Labels, Machine, TaskGroup, TaskId, TaskReport, TaskState,
};
use omega_schedulers::mesos::{self, Framework, FrameworkId, Launch, Offer, OfferId, Refuse};
use omega_schedulers::yarn::{self, Ask, Heartbeat};
use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
use std::error::Error;

const MACHINES: u32 = 6;
const ROUNDS: u64 = 12;
const SECOND: u64 = 1_000_000_000;

/// A cell of six machines, two in each rack, and four jobs, each of which names the client that is to place it.
fn cell() -> Result<SharedCell, Box<dyn Error>> {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for i in 0..MACHINES {
        let mut machine = Machine::new(format!("m{i}"), Amounts::new([6000, 24 << 30]));
        machine.labels = Labels::new([("rack", format!("r{}", i / 2))]);
        cell.apply(Command::RegisterMachine(machine))?;
    }
    let jobs = [
        ("web", "services", "services", 6, [2000, 4 << 30]),
        ("etl", "offers", "etl", 14, [1000, 6 << 30]),
        ("train", "offers", "train", 6, [3000, 2 << 30]),
        ("count", "asks", "count", 10, [1000, 4 << 30]),
    ];
    for (name, scheduler, tenant, tasks, request) in jobs {
        let mut job = Job::batch(name, TaskGroup::new(tasks, Amounts::new(request)));
        (job.scheduler, job.tenant) = (scheduler.into(), tenant.into());
        cell.apply(Command::SubmitJob(job))?;
    }
    Ok(cell)
}

/// Sends a framework's response to its offers: it starts at most two tasks on each machine with room, and declines the
/// other offers for two seconds.
fn answer(front: &mut mesos::Frontend, me: FrameworkId, now: u64) -> Result<(), Box<dyn Error>> {
    let jobs: Vec<_> = front.jobs_of(me).map(|(id, job)| (id, job.clone())).collect();
    let Some((id, job)) = jobs.first() else { return Ok(()) };
    let each = &job.groups[0].request;
    let mut waiting: Vec<TaskId> = front.waiting(*id, 0).collect();
    let fits = |offer: &Offer| {
        let times = |(kind, amount): (KindId, u64)| offer.amounts.get(kind) / amount;
        each.iter().map(times).min().unwrap_or(0).min(2) as usize
    };
    let offers: Vec<Offer> = front.offers_of(me).cloned().collect();
    for offer in offers {
        let here = waiting.split_off(waiting.len() - fits(&offer).min(waiting.len()));
        let (ids, until): ([OfferId; 1], u64) = ([offer.id], now + 2 * SECOND);
        if here.is_empty() {
            front.decline(me, &ids, Refuse::Machine { until })?;
            continue;
        }
        let launch = |task: &TaskId| Launch { task: *task, machine: offer.machine };
        let launches: Vec<Launch> = here.iter().map(launch).collect();
        front.accept(me, &ids, &launches, Refuse::Nothing)?;
    }
    Ok(())
}

/// Requests a container near each block of a file that the application reads.
fn asks_near_blocks() -> Heartbeat {
    let mut asks = vec![Ask::new("main", yarn::Place::Anywhere, 10)];
    for (machine, blocks) in [(0, 9), (3, 1)] {
        let [there, rack, _] =
            Ask::near("main", &format!("m{machine}"), &format!("r{}", machine / 2), blocks);
        asks.extend([there, rack]);
    }
    Heartbeat::asking(asks)
}

/// Reports batch tasks that have run long enough as finished; services continue.
fn finish(cell: &SharedCell, round: u64) -> Result<(), Box<dyn Error>> {
    let running: Vec<_> = cell.read(|cell| {
        let batch = cell.jobs().filter(|(_, job)| &*job.name != "web").map(|(id, _)| id);
        let tasks = batch.flat_map(|id| cell.tasks(id).collect::<Vec<_>>());
        let on = |(id, state): (TaskId, TaskState)| state.machine().map(|machine| (id, machine));
        tasks.filter_map(on).collect()
    });
    for (task, machine) in
        running.into_iter().filter(|(task, _)| u64::from(task.index) * 2 + 4 < round)
    {
        let report = TaskReport::Finished;
        cell.apply(Command::ReportTask { task, machine, placed_ms: 0, report })?;
    }
    Ok(())
}

/// Actions of each client, as a table.
pub(crate) fn run() -> Result<String, Box<dyn Error>> {
    let cell = cell()?;
    let mut services = Scheduler::new(&cell, Profile::service(), Settings::new("services"))?;
    let mut offers = mesos::Frontend::new(&cell, mesos::Settings::new("offers"))?;
    let frameworks = ["etl", "train"].map(|name| offers.register(Framework::new(name, name)));
    let delays = yarn::Settings { machine_delay: 1, rack_delay: 1, ..yarn::Settings::new("asks") };
    let mut asks = yarn::Frontend::new(&cell, Profile::batch(), delays)?;
    let (mut placed, mut refused) = (services.step(&cell, 0, &mut Unobserved)?.placed, 0);
    asks.step(&cell, 0)?;
    let count = asks.join("count", 0)?;
    asks.heartbeat(count, asks_near_blocks(), 0)?;

    for round in 1..=ROUNDS {
        let now = round * SECOND;
        // Commits the tasks that the frameworks accepted in the previous round. Other clients may have claimed the
        // resources first.
        offers.step(&cell, now)?;
        for (framework, thinks) in frameworks.iter().zip([1, 3]) {
            // The second framework answers in every third round only. Until then, offers whose resources other clients
            // have claimed are withdrawn from it.
            if round % thinks == 0 {
                answer(&mut offers, framework.clone()?, now)?;
            }
        }
        if round % 3 == 0 {
            let (job, tasks) = (cell.read(|cell| cell.job_by_name("web")), 6 + round as u32 / 3);
            let job = job.ok_or("the service is there")?;
            cell.apply(Command::ResizeGroup { job, group: "main".into(), count: tasks })?;
        }
        let step = services.step(&cell, now, &mut Unobserved)?;
        (placed, refused) = (placed + step.placed, refused + step.conflicts);
        asks.step(&cell, now)?;
        asks.heartbeat(count, Heartbeat::default(), now)?;
        finish(&cell, round)?;
    }
    cell.read(|cell| cell.audit_no_overcommit())?;
    let (o, a) = (offers.counters(), asks.counters());
    let mut table = format!("{:<18}{:>8}{:>9}  what happened\n", "client", "placed", "refused");
    let mut row = |name: &str, counts: (u64, u64), text: String| {
        table += format!("{name:<18}{:>8}{:>9}  {text}", counts.0, counts.1).trim_end();
        table += "\n";
    };
    row("services", (placed as u64, refused as u64), "looks at the whole cell".into());
    let mesos::Counters { offered, accepted, declined, withdrawn, .. } = o;
    let told = format!(
        "{offered} offers: {accepted} accepted, {declined} declined, {withdrawn} withdrawn"
    );
    row("offers: 2", (o.launched, o.conflicts), told);
    let told = format!(
        "{} on the machine, {} in the rack, {} elsewhere; {} rounds let pass, {:.1} s waited",
        a.on_machine,
        a.in_rack,
        a.elsewhere,
        a.passed_up,
        a.waited as f64 / a.allocated().max(1) as f64 / SECOND as f64
    );
    row("asks: 1", (a.allocated(), a.conflicts), told);
    Ok(table)
}

#[allow(dead_code, reason = "a test includes this file, and calls `run` itself")]
fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", run()?);
    Ok(())
}
