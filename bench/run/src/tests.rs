//! Runs that end although something waits, and what is said of it; and that it is the same on disks.

use super::kept::Keeper;
use super::replicas::Durability;
use super::{RunError, RunOptions, run};
use crate::report::RunReport;
use omega_core::{Job, Kinds};
use omega_schedulers::config::{Plugin, Point, Profiles, Registry};
use omega_schedulers::{Claimed, Events, Profile, Refused, Reserve};
use omega_store::directory::EngineKind;
use omega_workload::synth::{SynthOptions, synthesize};
use omega_workload::{Arrival, MachineChange, MachineEvent, Workload};
use serde::Deserialize;
use std::sync::Arc;

/// No arguments.
#[derive(Deserialize)]
struct NoArguments {}

/// Refuses every claim until some time has passed.
#[derive(Clone)]
struct Never;

impl Reserve for Never {
    fn name(&self) -> &'static str {
        "never"
    }

    fn reserve(&mut self, _: &Claimed<'_>) -> Result<(), Refused> {
        Err(Refused(Events::TIME))
    }

    fn unreserve(&mut self, _: &Claimed<'_>) {}
}

/// A small cell with an hour of work, whose services are placed by this profile.
fn run_with(list: &str) -> RunReport {
    let options = SynthOptions { machines: 20, seed: 1, span_hours: 1, utilisation_percent: 30 };
    let workload: Workload = synthesize(&options);
    let never = |_: &NoArguments, _: &Kinds| Ok(Never);
    let never = Plugin::around(Point::Reserve, "never", never, Profile::with_reserve);
    let registry = Registry::built_in().with(never).unwrap();
    let file = format!("[[profile]]\nname = 'service'\nbase = 'service'\n{list}");
    let profiles = Profiles::parse(&file, &registry).unwrap();
    run(workload, &RunOptions { profiles, ..RunOptions::default() }, &mut |_| {}).unwrap()
}

#[test]
fn a_plugin_that_always_refuses_does_not_keep_a_run_from_its_end() {
    let report = run_with("[[profile.reserve]]\nplugin = 'never'\n");
    let service = report.schedulers.iter().find(|scheduler| scheduler.name == "service-0").unwrap();
    assert_eq!(service.placements, 0);
    assert!(report.pending > 0 && report.placements > 0);
}

#[test]
fn what_a_filter_of_the_profile_refuses_is_laid_to_it() {
    let filter = "[[profile.filter]]\nplugin = 'node_label'\nargs = { present = ['nowhere'] }\n";
    let report = run_with(filter);
    assert!(report.pending > 0);
    assert!(report.unplaced.iter().any(|entry| entry.reason == "refused by node_label"));
    assert!(report.unplaced.iter().all(|entry| !entry.reason.contains("no machines")));
}

/// Machines that leave and come back, and jobs of which some come and end at once.
fn restless() -> Workload {
    let options = SynthOptions { machines: 20, seed: 1, span_hours: 2, utilisation_percent: 20 };
    let mut workload = synthesize(&options);
    for (at, machine) in (1..).zip(workload.machines.iter().take(10)) {
        let at_ms = at * 600_000;
        let remove = MachineChange::Remove(machine.name.clone());
        let add = MachineChange::Add(machine.clone());
        workload.machine_events.push(MachineEvent { at_ms, change: remove });
        // Three changes of a machine within a moment: the last one counts.
        workload.machine_events.push(MachineEvent { at_ms: at_ms + 1, change: add.clone() });
        workload.machine_events.push(MachineEvent { at_ms: at_ms + 1, change: add });
    }
    workload
}

#[test]
fn replicas_are_fed_what_a_cell_in_memory_is() {
    let engine = EngineKind::Segment;
    let on_disks = |replicas| -> Option<Arc<dyn Keeper>> {
        Some(Arc::new(Durability { dir: None, replicas, engine }))
    };
    for keeper in [None, on_disks(1), on_disks(3)] {
        let options = RunOptions { keeper, ..RunOptions::default() };
        let report = run(restless(), &options, &mut |_| {}).unwrap();
        // Each task is placed once, and once more whenever it is lost with its machine. (What a
        // scheduler places while a machine leaves is not counted as lost.)
        let wanted = report.tasks as u64 + report.lost;
        let placed = report.placements + report.placed_at_start as u64;
        let what = format!("{placed} of {wanted} placed, {:?}", options.keeper);
        assert!(placed >= wanted && report.pending == 0, "{what}");
        assert_eq!(report.machines, 20);
        assert!(report.finished > 0);
    }
}

#[test]
fn a_job_that_is_refused_on_its_way_ends_the_run_and_is_named() {
    let mut workload = restless();
    let twice = workload.arrivals.last().unwrap().clone();
    let name = twice.job.name.clone();
    // No tasks: no cell takes it.
    workload.arrivals.push(Arrival { job: Job { groups: Vec::new(), ..twice.job }, ..twice });
    let alone = Durability { dir: None, replicas: 1, engine: EngineKind::Segment };
    let alone: Arc<dyn Keeper> = Arc::new(alone);
    for keeper in [None, Some(alone)] {
        let options = RunOptions { keeper, ..RunOptions::default() };
        let refused = run(workload.clone(), &options, &mut |_| {}).map(drop);
        assert!(
            matches!(&refused, Err(RunError::Job { name: of, .. }) if *of == name),
            "{refused:?}"
        );
    }
}
