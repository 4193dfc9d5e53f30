//! One cell with all rules, shared by all kinds of clients: a scheduler of services, schedulers of
//! batch jobs with fair shares of tenants, frameworks that get offers, and applications that
//! request containers.
//!
//! ```console
//! $ cargo run --release -p omega-bench --example one_cell -- ../shared/data/google2011 page.html
//! ```
//!
//! The jobs and machines are from the trace of a Google cell of 2011, or synthetic if no folder is
//! given. The trace has few rules, so this example adds rules to jobs by their position in the list,
//! and each run has the same rules.

use omega_core::{
    Amounts, Band, Command, CoreRequest, DemandProfile, EvictionCap, Job, JobKind, KindId,
    KindShare, Kinds, LabelSelector, Labels, Machine, MachineSelector, Near, NodeCores, Operator,
    OptionalResources, Peak, PeakCalendar, Policy, Precedence, Preferred, Requirement, Reservation,
    ResourceKind, Spread, TaskGroup, TaskRule, TaskSelector, TenantConfig, Tenants, Text,
    TopologyLevel, Unit, WhenUnsatisfiable,
};
use omega_run::report::{RunReport, page, table};
use omega_run::{RunOptions, run};
use omega_schedulers::config::{Profiles, Registry};
use omega_workload::synth::{SynthOptions, synthesize};
use omega_workload::{Arrival, RunTime, Workload, google2011};
use std::error::Error;
use std::ops::DerefMut;
use std::path::Path;

/// Machines in a rack.
const RACK: usize = 40;

/// Tenants, each with its parent tenant, its weight, and its guarantee in percent of the cell.
const TENANTS: [(&str, &str, u32, u64); 9] = [
    ("production", "company", 1, 60),
    ("batch", "company", 1, 30),
    ("analytics", "batch", 2, 8),
    ("ads", "batch", 1, 6),
    ("search", "batch", 3, 12),
    ("guests", "company", 1, 0),
    ("spark", "guests", 1, 0),
    ("flink", "guests", 2, 0),
    ("hadoop", "guests", 1, 0),
];

/// The label by which placement rules select the tasks of an application.
fn app(name: &str) -> Labels {
    Labels::new([("app", name)])
}

fn labelled(name: &'static str) -> TaskSelector {
    let labels = LabelSelector { requirements: vec![Requirement::equals("app", name)] };
    TaskSelector::Labels { tenants: Tenants::Any, labels }
}

fn rack() -> TopologyLevel {
    TopologyLevel::Label("rack".into())
}

/// A resource kind that belongs to no machine.
const LICENCE: &str = "licence";

/// Assigns racks to machines, and zones to racks. Half of each machine's cores, on two NUMA nodes, are for exclusive
/// use.
fn lay_out(machines: &mut [Machine]) {
    for (i, machine) in machines.iter_mut().enumerate() {
        let known: Vec<(Text, Text)> =
            machine.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let place = [("rack", i / RACK), ("zone", i / (RACK * 16))];
        let place = place.map(|(key, number)| (key.into(), format!("{key}-{number:03}").into()));
        let new = place.into_iter().filter(|(key, _)| known.iter().all(|(other, _)| other != key));
        let new: Vec<(Text, Text)> = new.collect();
        machine.labels = Labels::from_iter(known.into_iter().chain(new));
        let quarter = u16::try_from(machine.capacity.get(KindId::CPU) / 4000).unwrap_or(0);
        machine.numa = NodeCores::NONE.with(0, quarter).with(1, quarter);
    }
}

/// A job with one cache per rack, for jobs that have affinity to a cache.
fn caches(machines: usize) -> Arrival {
    let racks = machines.div_ceil(RACK) as u32;
    let mut group = TaskGroup::new(racks, Amounts::new([100, 1 << 30]));
    group.labels = app("cache");
    group.rules.tasks =
        vec![TaskRule::AntiAffinity { from: TaskSelector::SameGroup, level: rack() }];
    let mut job = Job::batch("caches", group);
    (job.kind, job.precedence) = (JobKind::Service, Precedence(11));
    (job.scheduler, job.tenant) = ("service".into(), "production".into());
    Arrival { at_ms: 0, job, placed: Vec::new(), run: RunTime::Forever }
}

/// Demand profile of processors: the whole request at one hour, 40 % of it twelve hours later.
fn by_day(request: &Amounts, i: usize) -> Vec<DemandProfile> {
    let peak = request.get(KindId::CPU);
    let hours_off = |hour: usize| (hour + 24 - i % 24) % 24;
    let points = (0..24).map(|hour| {
        let off = hours_off(hour).min(24 - hours_off(hour)) as u64;
        peak - peak * 6 * off / 120
    });
    let demand_profile = DemandProfile { kind: KindId::CPU, points: points.collect() };
    if peak > 0 { vec![demand_profile] } else { Vec::new() }
}

/// Selects some racks.
fn racks(numbers: std::ops::Range<usize>) -> MachineSelector {
    let names = numbers.map(|number| format!("rack-{number:03}").into());
    let racks = Requirement {
        operator: Operator::In,
        values: names.collect(),
        ..Requirement::equals("rack", "")
    };
    MachineSelector { labels: vec![racks], ..MachineSelector::default() }
}

/// Assigns rules to a service: spread, a maximum share per rack, and distance from noisy tasks.
fn service_rules(arrival: &mut Arrival, i: usize) {
    let Arrival { job, placed, .. } = arrival;
    job.tenant = "production".into();
    for group in job.groups.iter_mut().map(DerefMut::deref_mut) {
        group.grace_ms = 30_000;
        let cores = u16::try_from(group.request.get(KindId::CPU) / 1000).unwrap_or(0);
        if i % 4 == 2 && cores > 0 && placed.is_empty() {
            group.cores = Some(CoreRequest::on_one_node(cores));
        }
        let rules = &mut group.rules.tasks;
        if group.count >= 8 {
            rules.push(TaskRule::MaxShare { level: rack(), percent: 25 });
            let wish = Spread::new(TaskSelector::SameGroup, rack(), 1);
            rules
                .push(TaskRule::Spread(Spread { when: WhenUnsatisfiable::ScheduleAnyway, ..wish }));
        }
        if i % 4 == 1 {
            group.demand_profiles = by_day(&group.request, i);
        }
        if i.is_multiple_of(3) {
            let (of, level) = (labelled("noisy"), TopologyLevel::Machine);
            rules.push(TaskRule::MaxColocated { of, level, count: 3 });
        }
    }
}

/// Assigns a client, a tenant and rules to a batch job.
fn batch_rules(arrival: &mut Arrival, i: usize, (kinds, machines): (&Kinds, &[Machine])) {
    let Arrival { job, placed, .. } = arrival;
    let (client, tenant) = match i % 10 {
        0 => ("offers", "spark"),
        1 => ("offers", "flink"),
        2 | 3 => ("asks", "hadoop"),
        4 | 5 => ("batch", "analytics"),
        6 | 7 => ("batch", "ads"),
        _ => ("batch", "search"),
    };
    (job.scheduler, job.tenant) = (client.into(), tenant.into());
    let tasks = job.task_count();
    if client == "batch" && i.is_multiple_of(5) && (2..=500).contains(&tasks) {
        job.gang_min = Some(tasks as u32);
        job.gang_timeout_ms = (tasks > 16).then_some(120_000);
    }
    for group in &mut job.groups {
        if i.is_multiple_of(7) {
            group.labels = app("noisy");
        }
        if client != "offers" && i.is_multiple_of(4) {
            // The data of the job is on three machines.
            let names = [1, 5, 11].map(|step| &machines[i * 97 * step % machines.len()].name);
            group.rules.affinity.preferred.extend(names.map(|name| Preferred {
                weight: 50,
                machines: MachineSelector {
                    names: vec![Requirement::equals("", name.clone())],
                    ..MachineSelector::default()
                },
            }));
        }
        if client == "batch" && i.is_multiple_of(13) {
            // The task gets optional memory for a cache, where there is enough.
            let amounts = Amounts::zero().with(KindId::MEMORY, 1 << 30);
            group.optional = Some(OptionalResources { amounts, devices: None });
        }
        if client == "batch" && i.is_multiple_of(9) && placed.is_empty() {
            let licence = kinds.by_name(LICENCE).expect("the cell has this kind");
            group.cluster_request = Amounts::zero().with(licence, 1);
        }
        if client == "batch" && i.is_multiple_of(11) {
            let near = Near { tasks: labelled("cache"), level: rack() };
            group.rules.tasks.push(TaskRule::RuntimeAffinity(near));
        }
    }
}

/// Setup: precedence bands, an eviction limit, a reservation, peak hours, licences, and a tenant
/// tree with two limits.
fn setup(policy: &Policy, workload: &Workload) -> Vec<Command> {
    let band = |from, to| Band { from: Precedence(from), to: Precedence(to) };
    let policy = Policy {
        bands: vec![band(0, 1), band(9, 11)],
        eviction_cap: Some(EvictionCap { count: 2000, per_ms: 60_000 }),
        ..policy.clone()
    };
    let kinds = [KindId::CPU, KindId::MEMORY];
    let total = |percent: u64| {
        let sum = |kind| -> u64 {
            workload.machines.iter().map(|machine| machine.capacity.get(kind)).sum()
        };
        Amounts::new(kinds.map(|kind| sum(kind) / 100 * percent))
    };
    let mut commands = vec![Command::SetPolicy(policy)];
    for (tenant, parent, weight, percent) in TENANTS {
        let tenant_config = TenantConfig {
            parent: Some(parent.into()),
            weight,
            guaranteed: total(percent),
            ..TenantConfig::default()
        };
        commands.push(Command::SetTenant { tenant: tenant.into(), tenant_config });
    }
    // A limit applies to all kinds; a kind without an amount has a limit of 0.
    let all = |percent| {
        let mut limit = total(percent);
        for (kind, _) in workload.kinds.iter().filter(|(kind, _)| !kinds.contains(kind)) {
            limit.set(kind, omega_core::limits::QUOTA_MAX);
        }
        Some(limit)
    };
    commands.push(Command::SetQuota { tenant: "ads".into(), limit: all(15) });
    commands.push(Command::SetQuota { tenant: "guests".into(), limit: all(40) });
    // From the thirtieth to the sixtieth minute, two racks are reserved for one tenant.
    commands.push(Command::Reserve(Reservation {
        name: "crawl".into(),
        machines: racks(3..5),
        tenants: vec!["search".into()],
        from_ms: 1_800_000,
        until_ms: 3_600_000,
    }));
    commands.push(Command::SetAdmission { tenant: "batch".into(), limit: all(400) });
    // From the twentieth to the fiftieth minute, batch tasks may have half of the processors in
    // some racks.
    let batch_max = vec![KindShare { kind: KindId::CPU, percent: 50 }];
    let peaks = vec![Peak { from_ms: 1_200_000, until_ms: 3_000_000, batch_max }];
    let calendar = PeakCalendar { name: "web".into(), machines: racks(0..3), peaks };
    commands.push(Command::SetPeaks(calendar));
    let licence = workload.kinds.by_name(LICENCE).expect("the cell has this kind");
    commands.push(Command::SetClusterCapacity { kind: licence, amount: 500 });
    commands
}

/// The workload of a trace, or a synthetic one, divided among all clients.
pub(crate) fn shared(data: Option<&Path>, machines: u32) -> Result<Workload, Box<dyn Error>> {
    let mut workload = match data {
        Some(dir) => google2011::load(dir, &google2011::GoogleOptions::default())?,
        None => synthesize(&SynthOptions { machines, span_hours: 1, ..SynthOptions::default() }),
    };
    let kinds = workload.kinds.iter().map(|(_, kind)| kind.clone());
    let licence = ResourceKind { name: LICENCE.into(), unit: Unit::Count, compressible: false };
    workload.kinds = Kinds::new(kinds.chain([licence]).collect())?;
    lay_out(&mut workload.machines);
    let world = (&workload.kinds, &workload.machines[..]);
    for (i, arrival) in workload.arrivals.iter_mut().enumerate() {
        match arrival.job.kind {
            JobKind::Service => service_rules(arrival, i),
            JobKind::Batch => batch_rules(arrival, i, world),
        }
    }
    workload.arrivals.insert(0, caches(workload.machines.len()));
    workload.name = format!("{}, shared by four kinds of clients", workload.name);
    Ok(workload)
}

/// Runs the workload.
pub(crate) fn share(workload: Workload) -> Result<RunReport, Box<dyn Error>> {
    let profiles = Profiles::parse(include_str!("one_cell.toml"), &Registry::built_in())?;
    let setup = setup(&workload.policy, &workload);
    let options = RunOptions { profiles, setup, batch_schedulers: 2, ..RunOptions::default() };
    Ok(run(workload, &options, &mut |_| {})?)
}

#[allow(dead_code, reason = "a test includes this file, and calls the rest itself")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (data, file) = (arguments.next(), arguments.next());
    let report = share(shared(data.as_deref().map(Path::new), 1000)?)?;
    print!("{}", table::render(&report));
    if let Some(file) = file {
        std::fs::write(file, page::render(&report))?;
    }
    Ok(())
}
