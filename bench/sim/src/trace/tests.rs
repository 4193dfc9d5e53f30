//! Statistics of traces, through the public API.

use super::testing::{azure, folder, google, omega_sim, openb, tables};
use super::{collector, plots, show};
use omega_core::Kinds;
use omega_workload::public_data;
use omega_workload::{MachineChange, MachineEvent};

const MACHINES: &str = "name,cpu,memory,count\nsmall,4,8Gi,2\nlarge,8,32Gi,1\n";
const JOBS: &str = "name,count,cpu,memory,arrival_s,run_s,kind,precedence,gang\n\
    web,2,1,1Gi,0,,service,5,\na,4,2,1Gi,10,30,,,all\nb,1,2,1Gi,20,40,,,\nc,1,1,1Gi,100,10,,,\n";

#[test]
fn a_small_trace_is_described_as_it_is() {
    let dir = folder(&[("m.csv", MACHINES), ("j.csv", JOBS)]);
    let info = collector::read(&mut *tables(&dir).unwrap()).unwrap();
    assert_eq!((info.jobs.all, info.jobs.at_start, info.tasks.all), (4, 1, 8));
    assert_eq!((info.span_ms, info.tasks_endless, info.rules.gangs), (100_000, 2, 1));
    let cpu = &info.load[0];
    // Two tasks run forever, 8 for 30 s, and 2 for 40 s of the 100 s. They use 5.2 of 16 cores on average, and at most
    // 12. The last bucket is incomplete, and is left out.
    assert!((cpu.mean / 1000.0 - 5.2).abs() < 0.02, "{cpu:?}");
    assert!((cpu.peak / 1000.0 - 12.0).abs() < 1e-9, "{cpu:?}");
    assert!((cpu.mean_share.unwrap() - 5.2 / 16.0).abs() < 0.002, "{cpu:?}");
    assert!((cpu.peak_share.unwrap() - 0.75).abs() < 1e-9, "{cpu:?}");
    let gaps = &info.values[0];
    assert_eq!((gaps.least, gaps.largest, gaps.mean), (10_000, 80_000, 45_000.0));
    assert!((gaps.variation - 35.0 / 45.0).abs() < 1e-12, "{gaps:?}");

    let text = show::info(&info, &Kinds::standard());
    let expected = [
        "machines    3: cpu 16, memory 48.0 GiB",
        "                 2 x cpu 4, memory 8.0 GiB",
        "jobs        4, 1 of them at the start",
        "tasks       8, 1 of them at the start, 2 run beyond the end",
        "service           5     1      2",
        "jobs        1 is a gang",
    ];
    for line in expected {
        let line = line.replace("8, 1 of", "8, 2 of");
        assert!(text.contains(&line), "{line:?} is not in\n{text}");
    }
    let out = dir.path().join("plots");
    plots::write(&out, &info, &Kinds::standard()).unwrap();
    for name in ["load.svg", "load.png", "run-time.svg", "tasks-per-job.svg"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    assert!(!out.join("memory-per-task.svg").exists(), "all tasks ask for the same memory");
}

#[test]
fn machines_without_resources_and_with_the_most_are_described() {
    let jobs = "name,count,cpu,memory\nj,1,1,1Gi\n";
    let dir = folder(&[("m.csv", "name,cpu,memory\na,0,0\n"), ("j.csv", jobs)]);
    let info = collector::read(&mut *tables(&dir).unwrap()).unwrap();
    let text = show::info(&info, &Kinds::standard());
    for line in ["machines    1: no resources\n", "     1 x no resources\n"] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    let machines = "name,cpu,memory,count\na,4,1048576Gi,20000\n";
    let dir = folder(&[("m.csv", machines), ("j.csv", jobs)]);
    let info = collector::read(&mut *tables(&dir).unwrap()).unwrap();
    assert_eq!(info.machines.capacity["memory"], 20_000_u128 << 50);
    assert!(show::info(&info, &Kinds::standard()).contains("machines    20000: cpu 80,000"));
}

#[test]
fn a_short_burst_and_a_short_loss_of_machines_are_in_the_peaks() {
    let jobs = "name,count,cpu,memory,arrival_s,run_s\n\
        base,4,1,1Gi,0,\nburst,800,1,1Gi,1000,60\nlast,1,1,1Gi,864000,1\n";
    let dir = folder(&[("m.csv", "name,cpu,memory,count\nm,4,8Gi,250\n"), ("j.csv", jobs)]);
    let info = collector::read(&mut *tables(&dir).unwrap()).unwrap();
    let cpu = &info.load[0];
    assert_eq!((cpu.peak, cpu.peak_share), (804_000.0, Some(0.804)));
    assert!((cpu.mean / 1000.0 - (4.0 + 800.0 * 60.0 / 864_000.0)).abs() < 0.02, "{cpu:?}");
    assert!(cpu.over_time.iter().all(|share| *share < 0.1), "{cpu:?}");

    // All machines but one are missing for a second.
    let file = dir.path().join("j.csv");
    let mut workload = omega_workload::csv::load(&dir.path().join("m.csv"), &file).unwrap();
    for machine in &workload.machines[1..] {
        let change = MachineChange::Remove(machine.name.clone());
        workload.machine_events.push(MachineEvent { at_ms: 2_000_000, change });
    }
    for machine in &workload.machines[1..] {
        let change = MachineChange::Add(machine.clone());
        workload.machine_events.push(MachineEvent { at_ms: 2_001_000, change });
    }
    let mut stream = omega_workload::stream::Held::new(workload, &file);
    let info = collector::read(&mut stream).unwrap();
    assert_eq!((info.load[0].peak, info.load[0].peak_share), (804_000.0, Some(1.0)));
}

#[test]
fn kinds_for_scores_are_hidden_and_a_mean_of_a_count_has_a_fraction() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/cluster.json");
    let workload = omega_workload::kube::load(&file).unwrap();
    let kinds = workload.kinds.clone();
    let mut stream = omega_workload::stream::Held::new(workload, &file);
    let text = show::info(&collector::read(&mut stream).unwrap(), &kinds);
    assert!(text.contains("nvidia.com/gpu") && !text.contains("nominal"), "{text}");
    let row = text.lines().find(|line| line.starts_with("nvidia.com/gpu per task")).unwrap();
    // Few of the tasks request a GPU.
    assert!(row.contains("  0."), "{row}");
}

#[test]
fn the_rate_of_arrivals_is_that_of_the_gaps() {
    let mut jobs = "name,count,cpu,memory,arrival_s,run_s\n".to_owned();
    let row = |i: u64| format!("j{i},1,1,1Gi,{},5\n", 360_000 + i * 36);
    jobs.extend((0..101).map(row));
    let dir = folder(&[("m.csv", MACHINES), ("j.csv", &jobs)]);
    let info = collector::read(&mut *tables(&dir).unwrap()).unwrap();
    assert_eq!((info.first_ms, info.jobs_per_hour), (360_000_000, 100.0));
    assert_eq!(info.values[0].mean, 36_000.0);
    let text = show::info(&info, &Kinds::standard());
    assert!(text.contains("arrivals    100 jobs per hour, from 4.17 d on\n"), "{text}");
}

#[test]
fn machines_that_come_and_go_count_while_they_are_there() {
    let Some(dir) = public_data("google2011") else { return };
    let mut jobs = omega_workload::google2011::jobs::open(&dir).unwrap();
    let info = collector::read(&mut jobs).unwrap();
    assert_eq!((info.machines.count, info.jobs.all), (12_477, 223_766));
    assert!(info.machines.added > 1000 && info.machines.removed > 1000, "{:?}", info.machines);
    let gaps = &info.values[0];
    assert!(
        (3.5..4.5).contains(&(gaps.mean / 1000.0)),
        "published: 3.75 s over the 29 days, {}",
        gaps.mean
    );
    assert!((1.7..1.9).contains(&gaps.variation), "published: 1.84, {}", gaps.variation);
}

#[test]
fn the_real_traces_have_the_published_loads() {
    if let Some(dir) = public_data("google2011") {
        let info = collector::read(&mut *google(&dir).unwrap()).unwrap();
        assert_eq!((info.tasks.all, info.tasks_placed), (190_926, 132_969));
        // At the start, tasks request 113.5 % of the CPU and 93.3 % of the memory; the means are similar.
        let share = |i: usize| info.load[i].mean_share.unwrap();
        assert!((1.1..1.4).contains(&share(0)) && (0.9..1.3).contains(&share(1)));
    }
    if let Some(dir) = public_data("openb") {
        let info = collector::read(&mut *openb(&dir).unwrap()).unwrap();
        let gpu = info.load.iter().find(|load| load.kind == "gpu").unwrap();
        // All jobs of the trace together request 98 % of the devices.
        assert!((0.97..0.99).contains(&gpu.peak_share.unwrap()), "{:?}", gpu.peak_share);
    }
    if let Some(dir) = public_data("omega-sim") {
        let info = collector::read(&mut *omega_sim(&dir).unwrap()).unwrap();
        // The runs of the reference had a mean utilisation of 0.724.
        let cpu = info.load[0].mean_share.unwrap();
        assert!((0.70..0.75).contains(&cpu), "{cpu}");
    }
    if let Some(dir) = public_data("azure-vm-v1") {
        let info = collector::read(&mut *azure(&dir).unwrap()).unwrap();
        assert_eq!((info.jobs.all, info.tasks.all), (53_109, 259_159));
    }
}
