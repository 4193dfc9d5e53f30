//! Encoding of commands: round trips, bytes that are stable across versions, and rejection of invalid bytes.

use crate::cell::histories::seeds;
use omega_core::{
    Affinity, Amounts, Band, Claim, Command, ConflictCheck, CoreRequest, DemandProfile,
    DeviceRequest, DeviceSet, EndReason, EnvVar, EvictionCap, Granularity, HealthCheck, HolderId,
    Image, Job, JobId, JobKind, KindId, KindShare, LabelSelector, Labels, Machine, MachineId,
    MachineSelector, Mount, NamedPort, Near, NodeCores, OnFailure, Operator, OptionalResources,
    Overcommit, Peak, PeakCalendar, PlacementRules, Policy, Port, PortRange, Precedence,
    Preemption, Preferred, Probe, Protocol, Requirement, Reservation, Resize, RestartPolicy,
    RollStep, Run, RunEnd, SchedulerId, SequenceNumber, Spread, Taint, TaintEffect, Take,
    TaskGroup, TaskId, TaskReport, TaskRule, TaskSelector, TaskUse, Tenants, Text, Toleration,
    TolerationOperator, TopologyLevel, Transaction, TransactionId, UpdateResult, UpdateRules,
    Version, WhenUnsatisfiable,
};
use omega_store::CodecError;
use omega_store::codec::{VERSION, decode, encode};
use omega_tests::history;
use omega_tests::random::Dice;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

fn bytes(command: &Command) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(command, &mut bytes).unwrap();
    bytes
}

fn texts(texts: &[&str]) -> Vec<Text> {
    texts.iter().map(|text| Text::from(*text)).collect()
}

/// A machine with every field set.
fn machine() -> Machine {
    let taint =
        |key: &str, effect| Taint { key: key.into(), value: format!("{key}!").into(), effect };
    Machine {
        overcommit: Overcommit::none().with(KindId::CPU, 150),
        labels: Labels::from_iter([("zone", "a"), ("rack", "a7")]),
        taints: Box::new([
            taint("a", TaintEffect::NoSchedule),
            taint("b", TaintEffect::PreferNoSchedule),
            taint("c", TaintEffect::NoExecute),
        ]),
        images: Box::new([Image { name: "postgres:18".into(), bytes: 400 << 20 }]),
        numa: NodeCores::NONE.with(0, 48).with(1, 40),
        ports: PortRange { first: 300, last: 40_000 },
        ..Machine::new("n1", Amounts::new([96_000, 512 << 30, 0, 8_000]))
            .with_devices(KindId::GPU, 8)
    }
}

/// Every rule about other tasks.
fn task_rules() -> Vec<TaskRule> {
    let zone = || TopologyLevel::Label("zone".into());
    let tasks = |tenants| TaskSelector::Labels {
        tenants,
        labels: LabelSelector { requirements: vec![Requirement::equals("app", "web")] },
    };
    let near = || Near { tasks: tasks(Tenants::Any), level: zone() };
    let spread = |when| {
        let of = tasks(Tenants::Own);
        TaskRule::Spread(Spread { domains_min: 3, when, ..Spread::new(of, zone(), 2) })
    };
    vec![
        TaskRule::AntiAffinity { from: TaskSelector::SameGroup, level: TopologyLevel::Machine },
        TaskRule::Affinity(vec![near(), near()]),
        TaskRule::Prefer { near: near(), weight: -100 },
        TaskRule::MaxPerDomain { of: TaskSelector::SameJob, level: zone(), count: 300 },
        TaskRule::MaxPerDomain {
            of: tasks(Tenants::Named(texts(&["x", "y"]))),
            level: zone(),
            count: 1,
        },
        TaskRule::MaxShare { level: zone(), percent: 40 },
        spread(WhenUnsatisfiable::DoNotSchedule),
        spread(WhenUnsatisfiable::ScheduleAnyway),
        TaskRule::MaxColocated { of: tasks(Tenants::Any), level: zone(), count: 2 },
        TaskRule::RuntimeAffinity(near()),
    ]
}

fn demand_profiles() -> Vec<DemandProfile> {
    vec![
        DemandProfile { kind: KindId::CPU, points: vec![0, 250, 100] },
        DemandProfile { kind: KindId::MEMORY, points: vec![1 << 30; 24] },
    ]
}

fn tolerations() -> Vec<Toleration> {
    vec![
        Toleration {
            key: Some("a".into()),
            operator: TolerationOperator::Equal,
            value: "a!".into(),
            effect: Some(TaintEffect::NoSchedule),
        },
        Toleration {
            key: None,
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect: None,
        },
    ]
}

/// A program with every field set.
fn run() -> Run {
    let path = "/healthy".into();
    Run {
        env: vec![EnvVar { name: "MODE".into(), value: "fast".into() }],
        working_dir: Some("/srv".into()),
        user: Some("www".into()),
        image: Some("localhost/web:1".into()),
        mounts: vec![Mount {
            source: "/srv/web".into(),
            target: "/www".into(),
            is_read_only: true,
        }],
        ports: vec![NamedPort { name: "http".into(), number: 80 }],
        health: Some(HealthCheck {
            probe: Probe::Http { port: 80, path },
            interval_ms: 10_000,
            timeout_ms: 1000,
            failures: 3,
            start_period_ms: 0,
        }),
        restart: RestartPolicy { attempts: 5, delay_ms: 250 },
        ..Run::new("/bin/sh").with_args(["-c", "exec serve"])
    }
}

/// A job with every field and rule.
fn job() -> Job {
    let requirement = |operator, values: &[&str]| Requirement {
        key: "disk".into(),
        operator,
        values: texts(values),
    };
    let selector = MachineSelector {
        labels: vec![
            requirement(Operator::In, &["ssd", "nvme"]),
            requirement(Operator::NotIn, &["tape"]),
            requirement(Operator::Exists, &[]),
            requirement(Operator::DoesNotExist, &[]),
            requirement(Operator::Gt, &["3"]),
            requirement(Operator::Lt, &["-3"]),
        ],
        names: vec![Requirement::equals("", "n1")],
    };
    let tolerations = tolerations();
    let port = |protocol, number| Port { address: Some("10.0.0.1".into()), protocol, number };
    let group = TaskGroup {
        name: "web".into(),
        devices: Some(DeviceRequest { count: 2, milli_each: 1000 }),
        labels: Labels::from_iter([("app", "web")]),
        restarts: 70_000,
        images: texts(&["nginx:1"]),
        volumes: texts(&["shop/data", "shop/logs"]),
        grace_ms: 30_000,
        demand_profiles: demand_profiles(),
        cores: Some(CoreRequest::on_one_node(12)),
        optional: Some(OptionalResources {
            amounts: Amounts::new([250]),
            devices: Some(DeviceRequest { count: 1, milli_each: 500 }),
        }),
        cluster_request: Amounts::new([0, 0, 0, 0, 1]),
        run: Some(Arc::new(run())),
        payload: vec![0, 255, 7].into(),
        rules: PlacementRules {
            machine: Some("n1".into()),
            affinity: Affinity {
                required: Some(vec![selector]),
                preferred: vec![Preferred {
                    weight: 100,
                    machines: MachineSelector::label("zone", "a"),
                }],
            },
            tolerations,
            tasks: task_rules(),
            ports: vec![Port::tcp(80), port(Protocol::Udp, 53), port(Protocol::Sctp, 65535)],
        },
        ..TaskGroup::new(1000, Amounts::new([250, 1 << 30, 0, 2_000]))
    };
    Job {
        tenant: "shop".into(),
        scheduler: "service".into(),
        precedence: Precedence(200),
        preemption: Preemption::Never,
        kind: JobKind::Service,
        groups: vec![group.into(), TaskGroup::new(0, Amounts::zero()).into()].into(),
        gang_min: Some(7),
        gang_timeout_ms: Some(30_000),
        runtime_estimate_ms: Some(86_400_000),
        deadline_ms: Some(1_700_000_000_000),
        ..Job::batch("web", TaskGroup::new(1, Amounts::zero()))
    }
}

/// Every command, with every case of its parts.
fn every_command() -> Vec<(&'static str, Command)> {
    let id = MachineId { slot: 70_000, incarnation: 3 };
    let task = |index| TaskId { job: JobId(5_000_000_000), index };
    let adopt = Command::AdoptTask { task: task(6), machine: id };
    let report = |report| Command::ReportTask { task: task(1), machine: id, placed_ms: 0, report };
    let claim = |index, devices| Claim {
        devices: DeviceSet(devices),
        take: if index > 0 { Take::WithOptional } else { Take::Request },
        ..Claim::new(task(index), id, SequenceNumber(9))
    };
    let transaction = Transaction {
        granularity: Granularity::AllOrNothing,
        check: ConflictCheck::SequenceNumber,
        releases: vec![task(3)],
        evictions: vec![task(4), task(5)],
        resizes: vec![Resize { task: task(7), to: Amounts::new([500, 1 << 30]) }],
        ..Transaction::new(
            TransactionId { scheduler: SchedulerId(2), number: u64::MAX },
            Version(1 << 40),
            vec![claim(0, 0), claim(251, 0x8000_0001)],
        )
    };
    let plain = Transaction::new(TransactionId::default(), Version(0), Vec::new());
    let limit = |limit| Command::SetQuota { tenant: "shop".into(), limit };
    let mut commands = vec![
        ("register scheduler", Command::RegisterScheduler { name: "batch-0 é".into() }),
        ("register machine", Command::RegisterMachine(machine())),
        ("register machine, plain", {
            Command::RegisterMachine(Machine::new("n2", Amounts::new([4_000, 8 << 30])))
        }),
        ("update machine", Command::UpdateMachine { id, machine: machine() }),
        ("add taint", Command::AddTaint { id, taint: machine().taints[0].clone() }),
        ("remove taint", Command::RemoveTaint { id, key: "key".into() }),
        ("drain machine", Command::DrainMachine { id, draining: true }),
        ("remove machine", Command::RemoveMachine { id }),
        ("report load", Command::ReportLoad { id, load: Amounts::new([1, 2, 3, 4, 5, 6]) }),
        ("submit job", Command::SubmitJob(job())),
        ("submit job, plain", {
            Command::SubmitJob(Job::batch("b", TaskGroup::new(10, Amounts::new([100]))))
        }),
        ("resize group", {
            Command::ResizeGroup { job: JobId(1), group: "web".into(), count: u32::MAX }
        }),
        ("kill job", Command::KillJob { job: JobId(u64::MAX) }),
        ("report started", report(TaskReport::Started)),
        ("report finished", report(TaskReport::Finished)),
        ("report failed", report(TaskReport::Failed)),
        ("report lost", report(TaskReport::Lost)),
        ("adopt task", adopt),
        ("set quota", limit(Some(Amounts::new([1_000_000])))),
        ("lift quota", limit(None)),
        ("set policy", Command::SetPolicy(policy())),
        ("commit", Command::Commit(transaction)),
        ("commit, plain", Command::Commit(plain)),
        ("expire", Command::Expire { now_ms: 1_700_000_000_000 }),
        ("hold scheduler", {
            let (name, holder) = ("batch-0 é".into(), HolderId(u64::MAX));
            Command::GrantLease { name, holder, lease_ms: 10_000 }
        }),
        ("end holder", Command::RevokeLeases { holder: HolderId(7) }),
    ];
    commands.push(admission());
    commands.extend(about_reservations());
    let amount = 40;
    commands.push(("set cell capacity", Command::SetClusterCapacity { kind: KindId(4), amount }));
    commands.extend(about_peaks());
    commands.extend(about_ends());
    commands.extend(about_updates());
    commands
}

/// A program whose health check names a port.
fn run_with_named_port() -> Run {
    let probe = Probe::NamedHttp { port: "web".into(), path: "/".into() };
    let health =
        HealthCheck { probe, interval_ms: 300, timeout_ms: 300, failures: 3, start_period_ms: 0 };
    Run { health: Some(health), ..Run::new("serve") }
}

/// Commands that delete and update jobs.
fn about_updates() -> [(&'static str, Command); 7] {
    let id = JobId(300);
    let rules = UpdateRules { min_healthy_ms: 10_000, ..UpdateRules::default() };
    let group = TaskGroup {
        per_machine: true,
        version: 3,
        any_ports: texts(&["web", "admin"]),
        run: Some(Arc::new(run_with_named_port())),
        ..TaskGroup::new(1, Amounts::zero())
    };
    let update = Some(UpdateRules { on_failure: OnFailure::Rollback, ..rules });
    let spec = Job { update, ..Job::batch("web", group) };
    let end = |result| Command::EndUpdate { job: id, version: 300, result };
    let step = RollStep { stops: vec![70_000, 2], ..RollStep::of(7).with_tasks("web", 300) };
    [
        ("delete job", Command::DeleteJob { job: id }),
        ("update job", Command::UpdateJob { job: id, version: Some(300), spec: spec.clone() }),
        ("update job, any version", Command::UpdateJob { job: id, version: None, spec }),
        ("roll job", Command::RollJob { job: id, step }),
        ("update complete", end(UpdateResult::Complete)),
        ("update failed", end(UpdateResult::Failed)),
        ("scale group", Command::ScaleGroup { job: id, group: "web".into(), count: 300 }),
    ]
}

/// Reports of the use of tasks, and of their ends, with every reason.
fn about_ends() -> [(&'static str, Command); 10] {
    let task = TaskId { job: JobId(5_000_000_000), index: 1 };
    let machine = MachineId { slot: 70_000, incarnation: 3 };
    let end = |reason| {
        let (report, end) = (TaskReport::Failed, RunEnd { reason, restarts: 300 });
        Command::ReportEnd { task, machine, placed_ms: 0, report, end }
    };
    let restarted =
        Command::ReportTask { task, machine, placed_ms: 0, report: TaskReport::Restarted };
    let used = TaskUse { task, cpu_us: 3_600_000_000, memory_byte_seconds: 1 << 50 };
    [
        ("report use", Command::ReportUse { machine, used: vec![used; 2] }),
        ("report use of nothing", Command::ReportUse { machine, used: Vec::new() }),
        ("report restarted", restarted),
        ("report end", end(EndReason::ExitCode(-1))),
        ("report end, signal", end(EndReason::Signal(9))),
        ("report end, out of memory", end(EndReason::OutOfMemory)),
        ("report end, unhealthy", end(EndReason::Unhealthy)),
        ("report end, stopped", end(EndReason::Stopped)),
        ("report end, not started", end(EndReason::not_started("no file"))),
        ("report end, supervisor lost", end(EndReason::SupervisorLost)),
    ]
}

fn policy() -> Policy {
    let band = |from, to| Band { from: Precedence(from), to: Precedence(to) };
    Policy {
        overcommit_max: Overcommit::none().with(KindId::MEMORY, 120),
        ttl_after_finished_ms: 60_000,
        bands: vec![band(i32::MIN, -1), band(100, 199)],
        eviction_cap: Some(EvictionCap { count: 20, per_ms: 60_000 }),
    }
}

fn admission() -> (&'static str, Command) {
    let limit = Some(Amounts::new([1_000_000]));
    ("set admission", Command::SetAdmission { tenant: "shop".into(), limit })
}

fn about_reservations() -> [(&'static str, Command); 2] {
    let reservation = Reservation {
        name: "night".into(),
        machines: MachineSelector::label("rack", "a"),
        tenants: texts(&["shop", "ops"]),
        from_ms: 1_700_000_000_000,
        until_ms: 1_700_000_600_000,
    };
    [
        ("reserve", Command::Reserve(reservation)),
        ("unreserve", Command::Unreserve { name: "night".into() }),
    ]
}

fn about_peaks() -> [(&'static str, Command); 2] {
    let batch_max = vec![KindShare { kind: KindId::CPU, percent: 30 }];
    let peak = Peak { from_ms: 72_000_000, until_ms: 28_800_000, batch_max };
    let machines = MachineSelector::label("pool", "web");
    let calendar = PeakCalendar { name: "night".into(), machines, peaks: vec![peak] };
    [
        ("set peaks", Command::SetPeaks(calendar)),
        ("remove peaks", Command::RemovePeaks { name: "night".into() }),
    ]
}

/// The recorded bytes, as `name: hexadecimal` lines. If this fails, logs of released versions are
/// unreadable: raise [`VERSION`], keep the old file, and read both.
#[test]
fn the_bytes_of_a_version_never_change() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/commands-v{VERSION}.txt"));
    let mut lines = String::new();
    for (name, command) in every_command() {
        write!(lines, "{name}: ").unwrap();
        bytes(&command).iter().for_each(|byte| write!(lines, "{byte:02x}").unwrap());
        lines.push('\n');
    }
    if std::env::var_os("OMEGA_BLESS").is_some() {
        std::fs::write(&path, &lines).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    for (line, recorded) in lines.lines().zip(recorded.lines()) {
        assert_eq!(line, recorded);
    }
    assert_eq!(lines.lines().count(), recorded.lines().count());
}

#[test]
fn every_command_comes_back() {
    for (name, command) in every_command() {
        assert_eq!(decode(&bytes(&command)).unwrap(), command, "{name}");
    }
    for seed in seeds(100) {
        for command in history::commands(seed, 100).1 {
            assert_eq!(decode(&bytes(&command)).unwrap(), command, "seed {seed}");
        }
    }
}

#[test]
fn a_part_of_a_command_is_no_command() {
    for (name, command) in every_command() {
        let bytes = bytes(&command);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{name}, {length} bytes");
        }
        let longer = [&bytes[..], &[0, 0]].concat();
        assert!(matches!(decode(&longer), Err(CodecError::Trailing { bytes: 2 })), "{name}");
    }
}

#[test]
fn bytes_of_another_version_are_named() {
    let mut bytes = bytes(&Command::KillJob { job: JobId(1) });
    bytes[0] = VERSION + 1;
    let error = decode(&bytes).unwrap_err();
    assert!(matches!(error, CodecError::UnknownVersion { .. }));
    assert!(error.to_string().contains("use a program that reads version 2"), "{error}");
    assert!(matches!(decode(&[]), Err(CodecError::Empty)));
}

/// Random bytes give an error, or a command that can be encoded again. They never cause a panic, and never use more
/// memory than a small multiple of the bytes. (If a length of 2^63 was allocated, this process would end.)
#[test]
fn rubbish_is_refused() {
    let commands = every_command();
    for seed in seeds(20_000) {
        let mut dice = Dice::new(seed);
        let mut bytes = bytes(&commands[dice.below(commands.len())].1);
        for _ in 0..1 + dice.below(8) {
            let at = 1 + dice.below(bytes.len() - 1);
            bytes[at] = if dice.chance(50) { 253 } else { dice.below(256) as u8 };
        }
        if let Ok(command) = decode(&bytes) {
            let mut again = Vec::new();
            encode(&command, &mut again).unwrap();
            assert_eq!(decode(&again).unwrap(), command, "seed {seed}");
        }
    }
}
