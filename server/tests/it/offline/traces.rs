//! Replays of the complete published traces. The tests are skipped if the data is missing.

use crate::kit::outcome::{Outcome, run};
use omega_workload::public_data;

/// Runs a trace, or prints that it is missing.
fn replay(trace: &str, more: &[&str], claimable: f64) -> Option<Outcome> {
    let dir = public_data(trace)?;
    let arguments = ["run", "--trace", trace, "--data", dir.to_str().unwrap()];
    Some(run(&[&arguments, more].concat(), claimable))
}

#[test]
fn all_of_google_is_placed() {
    // Memory may be claimed to 200 %, and processors to 160 %.
    let Some(outcome) = replay("google2011", &[], 2.0) else { return };
    assert_eq!((outcome.number("tasks"), outcome.number("placed_at_start")), (190_926, 132_969));
    assert_eq!(outcome.number("pending"), 0, "{}", outcome.table);
    for machine in outcome.json["heat"].as_array().unwrap() {
        assert!(machine["used"][0].as_f64().is_none_or(|cpu| cpu <= 1.6), "{machine}");
    }
}

#[test]
fn the_production_of_google_is_placed() {
    let Some(outcome) = replay("google2011", &["--production"], 1.45) else { return };
    assert_eq!(outcome.number("tasks"), 56_344);
    assert_eq!(outcome.number("pending"), 0, "{}", outcome.table);
    for machine in outcome.json["heat"].as_array().unwrap() {
        assert!(machine["used"][1].as_f64().is_none_or(|memory| memory <= 1.0), "{machine}");
    }
}

#[test]
fn openb_fills_its_devices_and_no_machine_beyond() {
    for list in ["default", "multigpu50"] {
        let Some(outcome) = replay("openb", &["--cell", list], 1.0) else { return };
        assert_eq!(outcome.number("machines"), 1523);
        assert_eq!(outcome.number("finished"), 0, "its tasks never end");
        let resources = outcome.json["resources"].as_array().unwrap();
        let gpu = resources.iter().find(|resource| resource["name"] == "gpu").unwrap();
        // The tasks request 98 % of the devices, so a much lower use is an error.
        assert!(gpu["used_at_end"].as_f64().unwrap() > 0.7, "{gpu}");
    }
}

#[test]
fn every_job_of_the_papers_simulator_is_placed() {
    let Some(outcome) = replay("omega-sim", &[], 1.0) else { return };
    assert_eq!((outcome.number("machines"), outcome.number("tasks")), (2000, 505_250));
    assert_eq!(outcome.number("pending"), 0, "{}", outcome.table);
}

#[test]
fn a_trace_without_its_part_is_its_default() {
    let Some(by_default) = replay("openb", &[], 1.0) else { return };
    let Some(by_name) = replay("openb", &["--list", "default"], 1.0) else { return };
    assert_eq!(by_default.json["name"], by_name.json["name"]);
}
