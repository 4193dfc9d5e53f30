//! A report like that of a real run, for tests of the output.

use super::{
    DurableReport, MachineHeat, ReplicaReport, ResourceReport, RunReport, Sample, SchedulerReport,
    TenantReport, Unplaced, page, table,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::f64::consts::TAU;
use std::path::PathBuf;

/// A report on ten days of a cell that fills, with little load each night. Every call returns an equal report.
pub(super) fn example(machines: usize, zones: usize, samples: usize) -> RunReport {
    let mut dice = Pcg64Mcg::seed_from_u64(7);
    let heat = (0..machines).map(|index| machine(index, machines, zones, &mut dice)).collect();
    let series: Vec<Sample> = (0..samples)
        .scan(Sample::default(), |last, index| {
            *last = sample(last, index, machines, &mut dice);
            Some(last.clone())
        })
        .collect();
    let last = series.last().cloned().unwrap_or_default();
    RunReport {
        name: "synthetic, three schedulers side by side".into(),
        seed: 42,
        interrupted: false,
        notes: vec![
            "Constraints on the kernel's version were left out: the trace hides their values."
                .into(),
            "118 tasks ask for nothing and were given 1 millicore.".into(),
        ],
        machines,
        jobs: machines * 3,
        tasks: machines * 31,
        placed_at_start: machines * 2,
        placements: last.placements,
        finished: last.placements.saturating_sub(wide(last.running)),
        lost: 0,
        evictions: 7,
        evicted_again: 1,
        pending: last.pending,
        wall_s: last.wall_s,
        cpu_s: Some(last.wall_s * 3.4),
        workload_s: last.workload_s,
        placements_per_s: last.placements as f64 / last.wall_s.max(1e-9),
        schedulers: schedulers(&last),
        tenants: tenants(&series),
        resources: resources(&series),
        rebalancing: None,
        durable: None,
        unplaced: unplaced(last.pending),
        series,
        heat,
    }
}

/// Disk usage of three replicas.
pub(super) fn durable() -> DurableReport {
    let replica = |id: u64| ReplicaReport {
        name: format!("r{id}"),
        leads: id == 1,
        log_bytes: (40 << 20) + id,
        log_bytes_per_claim: 61.4,
        syncs: 40_000 - id,
        snapshots: id - 1,
        directory_bytes: 3 << 30,
    };
    DurableReport {
        commit_us_p50: 812.0,
        commit_us_p99: 4_210.0,
        fdatasync_us: 102.0,
        replicas: (1..=3).map(replica).collect(),
    }
}

fn wide(number: usize) -> u64 {
    number as u64
}

/// The next sample: much load by day, little by night, and a burst on the fourth day.
fn sample(last: &Sample, index: usize, machines: usize, dice: &mut Pcg64Mcg) -> Sample {
    let workload_s = index as f64 * 4_320.0;
    let day = (workload_s / 86_400.0 * TAU - 1.5).sin();
    let fill = 1.0 - (-(index as f64) / 40.0).exp();
    let burst = if (72..84).contains(&index) { 4.0 } else { 1.0 };
    let came = machines as f64 * 0.12 * (1.2 + day) * burst * dice.random_range(0.8..1.2);
    let cpu = fill * (0.68 + 0.09 * day + dice.random_range(0.0..0.02)) + 0.02;
    let memory = fill * (0.55 + 0.03 * day) + 0.03;
    let accelerators = fill * (0.83 + 0.05 * (index as f64 / 9.0).sin());
    Sample {
        workload_s,
        wall_s: last.wall_s + 0.02 + came / 40_000.0 * dice.random_range(0.8..1.3),
        pending: (machines as f64 * 0.004 * (burst * burst - 0.9 + fill)) as usize,
        running: (machines as f64 * 11.0 * cpu) as usize,
        placements: last.placements + came as u64,
        conflicts: last.conflicts + (came * 0.012 * burst * dice.random_range(0.3..1.7)) as u64,
        used: vec![cpu, memory, accelerators],
    }
}

/// One machine. Most machines are nearly full, some are empty, and one in eight has accelerators.
fn machine(index: usize, machines: usize, zones: usize, dice: &mut Pcg64Mcg) -> MachineHeat {
    let zone = index * zones.max(1) / machines;
    let level = [0.82, 0.7, 0.58, 0.75][zone % 4];
    let drained = (index / 40).is_multiple_of(23);
    let cpu: f64 = match dice.random_range(0..100) {
        _ if drained => 0.0,
        0 => dice.random_range(1.0..1.25),
        _ => (level + dice.random_range(-0.3_f64..0.25)).clamp(0.0, 1.0),
    };
    let memory = (cpu * dice.random_range(0.5..1.05)).min(1.0);
    let accelerators =
        (index / 8).is_multiple_of(8).then(|| f64::from(dice.random_range(0..9)) / 8.0);
    MachineHeat {
        name: format!("machine-{index:05}"),
        place: if zones == 0 {
            String::new()
        } else {
            format!("zone-{}", char::from(b'a' + (zone % 26) as u8))
        },
        used: vec![Some(cpu), Some(memory), accelerators],
    }
}

fn schedulers(last: &Sample) -> Vec<SchedulerReport> {
    let shares = [("batch-0", 0.55, 180.0), ("batch-1", 0.38, 190.0), ("service", 0.07, 5_400.0)];
    let scheduler = |(name, share, us): (&str, f64, f64)| {
        let part = |number: u64| (number as f64 * share) as u64;
        SchedulerReport {
            name: name.into(),
            placements: part(last.placements),
            decisions: part(last.placements / 9),
            transactions: part(last.placements / 8),
            claims: part(last.placements + last.conflicts),
            conflicts: part(last.conflicts),
            conflict_reasons: vec![
                ("no room".into(), part(last.conflicts) * 9 / 10),
                ("machine draining".into(), part(last.conflicts) / 10),
            ],
            decision_us_p50: Some(us),
            decision_us_p99: Some(us * 11.3),
            deciding_s: last.wall_s * 0.9,
            wasted_s: last.wall_s * 0.9 * 0.021,
            wait_s_p50: Some(0.4),
            wait_s_p99: Some(us / 10.0),
            evictions: part(40),
            evictions_for_guarantees: part(10),
            lost_work_s: part(40) as f64 * 900.0,
            preferences_met: Some(share),
        }
    };
    let mut schedulers = shares.map(scheduler).to_vec();
    let placed: u64 = schedulers.iter().map(|scheduler| scheduler.placements).sum();
    schedulers[0].placements += last.placements - placed;
    schedulers
}

/// Three tenants, of which one is the parent of the others.
fn tenants(series: &[Sample]) -> Vec<TenantReport> {
    let tenant = |(name, part): (&str, f64)| {
        let shares: Vec<f64> = series.iter().map(|sample| part * sample.used[0]).collect();
        TenantReport {
            name: name.into(),
            parent: (part < 0.9).then(|| "runtime_affinity".into()),
            jobs: 120,
            tasks: 4_000,
            placements: (4_100.0 * part) as u64,
            pending: (90.0 * part) as u64,
            wait_s_p50: Some(0.2 / part),
            wait_s_p99: Some(60.0 / part),
            wait_s_max: Some(700.0),
            share_at_end: shares.last().copied().unwrap_or(0.0),
            share_mean: shares.iter().sum::<f64>() / shares.len().max(1) as f64,
            share_at_peak: shares.iter().copied().fold(0.0, f64::max),
            evicted: (10.0 * part) as u64,
            evicted_for_guarantees: (5.0 * part) as u64,
            lost_work_s: 8_000.0 * part,
            preferences_met: Some(0.8),
            shares,
        }
    };
    [("runtime_affinity", 0.9), ("search", 0.6), ("ads", 0.3)].map(tenant).to_vec()
}

fn resources(series: &[Sample]) -> Vec<ResourceReport> {
    let kinds = [("cpu", "320,000 cores"), ("memory", "1.25 PiB"), ("accelerators", "10,000")];
    let resource = |(kind, (name, capacity)): (usize, (&str, &str))| {
        let used = |sample: &Sample| sample.used[kind];
        ResourceReport {
            name: name.into(),
            capacity: capacity.into(),
            used_at_end: series.last().map_or(0.0, used),
            used_at_peak: series.iter().map(used).fold(0.0, f64::max),
            fragmented: Some(0.08),
        }
    };
    kinds.into_iter().enumerate().map(resource).collect()
}

fn unplaced(pending: usize) -> Vec<Unplaced> {
    let reasons = [
        ("no machine has 8 accelerators left", 0.7, "train-resnet-1187"),
        ("memory: the largest free machine has 61 GiB of the 96 GiB", 0.22, "index-build-7"),
        ("no machine has the label disk=nvme in zone-d", 0.08, "cache-3"),
    ];
    let mut left = pending;
    let unplaced = |(reason, share, example): (&str, f64, &str)| {
        let tasks = ((pending as f64 * share).ceil() as usize).min(left);
        left -= tasks;
        let machines = [(reason, 1_200_usize), ("taint not tolerated", 7)];
        let reasons = machines.map(|(reason, count)| (reason.to_owned(), count)).into();
        let (reason, example) = (reason.into(), example.into());
        Unplaced { reason, reasons, jobs: tasks / 8 + 1, tasks, example }
    };
    reasons.map(unplaced).into_iter().filter(|entry| entry.tasks > 0).collect()
}

/// A small report in which every name is long and contains markup.
pub(super) fn hostile() -> RunReport {
    let evil =
        "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>\u{1b}[2J";
    let long = "a-name-that-does-not-end-".repeat(12);
    let mut report = example(600, 6, 30);
    report.name = format!("{evil} {long}");
    report.notes = vec![evil.into(), long.clone()];
    report.schedulers[0].name = evil.into();
    report.schedulers[1].name = long.clone();
    report.schedulers[2].conflict_reasons = vec![(evil.into(), 5), (long.clone(), 3)];
    report.tenants[0].name = evil.into();
    report.tenants[1].name = long.clone();
    report.tenants[1].parent = Some(evil.into());
    report.tenants[2].shares = vec![f64::NAN];
    report.resources[0].name = evil.into();
    report.resources[1].name = long.clone();
    report.resources[2].capacity = evil.into();
    report.resources[2].used_at_end = 1.3;
    report.resources[1].used_at_end = f64::NAN;
    report.unplaced = unplaced(700);
    report.unplaced[0].reason = evil.into();
    report.unplaced[1].example = long.clone();
    for (index, machine) in report.heat.iter_mut().enumerate() {
        machine.name = format!("{evil}{index}");
        machine.place = format!("{}{}", if index % 2 == 0 { evil } else { &long }, index % 9);
    }
    report.series[7].used = vec![f64::NAN, 1.2];
    report
}

/// Writes every kind of page into the build folder, for people to look at. The path is in the output of `cargo test -p
/// omega-bench pages_to_look_at -- --nocapture`.
#[test]
fn pages_to_look_at() {
    let folder: PathBuf = std::env::current_exe()
        .unwrap()
        .ancestors()
        .nth(3)
        .expect("a test lies in <target>/<profile>/deps")
        .join("tmp/report");
    std::fs::create_dir_all(&folder).unwrap();
    let reports = [
        ("example", example(10_000, 4, 200)),
        ("one-place", example(12_500, 0, 200)),
        ("large", example(45_000, 20, 2_000)),
        ("small", example(12, 2, 3)),
        ("single", example(1, 1, 1)),
        ("empty", RunReport::default()),
        ("hostile", hostile()),
    ];
    for (name, report) in reports {
        let file = folder.join(format!("{name}.html"));
        std::fs::write(&file, page::render(&report)).unwrap();
        std::fs::write(folder.join(format!("{name}.txt")), table::render(&report)).unwrap();
        println!("{}", file.display());
    }
}
