//! Runs that end although something waits, and what is said of it.

use super::{RunOptions, run};
use crate::report::RunReport;
use crate::workload::Workload;
use crate::workload::synth::{SynthOptions, synthesize};
use omega_core::Kinds;
use omega_schedulers::config::{Plugin, Point, Profiles, Registry};
use omega_schedulers::{Claimed, Events, Profile, Refused, Reserve};
use serde::Deserialize;

/// No arguments.
#[derive(Deserialize)]
struct None {}

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
    let never = |_: &None, _: &Kinds| Ok(Never);
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
