//! Tests of the synthetic workload.

use super::sizes::cpu_of;
use super::*;
use crate::{Arrival, RunTime};
use omega_core::{JobKind, KindId};

/// CPU work of these jobs within the span.
fn work<'a>(jobs: impl Iterator<Item = &'a Arrival>, span_ms: u64) -> f64 {
    jobs.map(|arrival| {
        let group = &arrival.job.groups[0];
        let left_ms = span_ms - arrival.at_ms;
        let run_ms = arrival.run.of(0).map_or(left_ms, |run_ms| run_ms.min(left_ms));
        group.request.get(KindId::CPU) as f64 * f64::from(group.count) * run_ms as f64
    })
    .sum()
}

fn check(options: SynthOptions) -> Workload {
    let workload = synthesize(&options);
    let span_ms = u64::from(options.span_hours) * 3_600_000;
    assert_eq!(workload.machines.len(), options.machines as usize);
    assert!(workload.arrivals.is_sorted_by_key(|arrival| arrival.at_ms));
    assert!(workload.arrivals.iter().all(|arrival| arrival.at_ms < span_ms));
    let whole = cpu_of(&workload.machines) as f64 * span_ms as f64;
    let used = work(workload.arrivals.iter(), span_ms) / whole * 100.0;
    let wanted = f64::from(options.utilisation_percent);
    assert!((used - wanted).abs() < 1.0, "{used} % of the CPU is asked for, not {wanted}");

    let service = workload.arrivals.iter().filter(|a| a.job.kind == JobKind::Service);
    let share = work(service, span_ms) / whole * 100.0 / used;
    assert!((0.55..=0.85).contains(&share), "{share} of the CPU goes to service jobs");
    for arrival in &workload.arrivals {
        let request = &arrival.job.groups[0].request;
        let fits = |machine: &Machine| request.fits_in(&machine.capacity);
        assert!(workload.machines.iter().any(fits), "{:?} fits nowhere", arrival.job);
    }
    workload
}

#[test]
fn the_load_is_as_wanted_at_every_size() {
    for machines in [200, 1000, 3000] {
        for seed in 1..4 {
            check(SynthOptions { machines, seed, ..SynthOptions::default() });
        }
    }
    check(SynthOptions { machines: 500, seed: 5, span_hours: 2, utilisation_percent: 50 });
}

#[test]
fn the_default_is_a_day_of_ten_thousand_machines() {
    let workload = check(SynthOptions::default());
    let tasks: u64 = workload.arrivals.iter().map(|arrival| arrival.job.task_count()).sum();
    assert!((1_500_000..=2_500_000).contains(&tasks), "{tasks} tasks");
    let batch = workload.arrivals.iter().filter(|a| a.job.kind == JobKind::Batch).count();
    assert!(batch * 10 >= workload.arrivals.len() * 8, "{batch} batch jobs");
    let rules = |arrival: &Arrival| arrival.job.groups[0].rules.clone();
    let count = |test: &dyn Fn(&Arrival) -> bool| {
        workload.arrivals.iter().filter(|arrival| test(arrival)).count()
    };
    assert!(count(&|a| !rules(a).tasks.is_empty()) > 100);
    assert!(count(&|a| !rules(a).ports.is_empty()) > 10);
    assert!(count(&|a| rules(a).affinity.required.is_some()) > 100);
    assert_eq!(count(&|a| a.job.groups[0].request.get(KindId::CPU) == 57_600), 20);
}

#[test]
fn the_same_options_give_the_same_workload() {
    let options = SynthOptions { machines: 100, ..SynthOptions::default() };
    let (a, b) = (synthesize(&options), synthesize(&options));
    assert_eq!(format!("{a:?}"), format!("{b:?}"));
    let other = synthesize(&SynthOptions { seed: 2, ..options });
    assert_ne!(format!("{:?}", a.arrivals), format!("{:?}", other.arrivals));
    // These numbers are the same on every platform. If they change, the workload of every seed has changed.
    let tasks: u64 = a.arrivals.iter().map(|arrival| arrival.job.task_count()).sum();
    let last = a.arrivals.last().map(|arrival| (arrival.at_ms, arrival.run.of(0)));
    assert_eq!((a.arrivals.len(), tasks, last), (3363, 21_196, Some((86_365_632, Some(440_177)))));
}

#[test]
fn options_beyond_their_bounds_are_brought_within() {
    let options = SynthOptions { machines: 0, seed: 0, span_hours: 0, utilisation_percent: 500 };
    let workload = synthesize(&options);
    assert_eq!(workload.machines.len(), 1);
    assert!(workload.arrivals.iter().any(|arrival| arrival.run == RunTime::Forever));
}

#[test]
fn machines_have_the_traces_shares() {
    let machines = machines(12_477, &mut Dice::new(1));
    let large = |machine: &&Machine| machine.capacity.get(KindId::CPU) == CPU_MILLIS;
    assert_eq!(machines.iter().filter(large).count(), 788 + 3);
    assert_eq!(machines[41].labels.get("rack").map(|rack| &**rack), Some("r001"));
    assert_eq!(machines[41].labels.get("zone").map(|zone| &**zone), Some("z1"));
}

#[test]
fn a_stream_has_the_jobs_of_the_whole() {
    let options = SynthOptions { machines: 300, span_hours: 2, seed: 5, ..SynthOptions::default() };
    let streamed = crate::stream::whole(&mut open(&options)).unwrap();
    assert_eq!(format!("{streamed:?}"), format!("{:?}", synthesize(&options)));
}
