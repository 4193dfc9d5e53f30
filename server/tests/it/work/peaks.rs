//! `omega peak`: commands that change a peak calendar, and the processes of a peak controller and of a scheduler.

use crate::kit::cell::{Process, Served};
use crate::kit::process::omega;
use crate::kit::wait::until;
use std::process::Stdio;

#[test]
fn calendars_of_peaks_are_set_listed_and_removed() {
    let cell = Served::new(&[]);
    let set = "peak set web --label pool=web --machine m1 --peak";
    let response = cell.ok(&format!("{set} 08:00-20:00,memory=50,cpu=30%"));
    assert_eq!(response, "calendar web is set; no machine matches now\n");
    cell.ok("machine add m1 --cpu 4 --label pool=web");
    let response = cell.ok(&format!("{set} 08:00-20:00,memory=50,cpu=30"));
    assert_eq!(response, "calendar web is set for 1 machine\n");
    cell.ok(&format!("{set} 00:00-24:00,cpu=30 --peak 22:00-06:00,disk=0"));
    let why = cell.fails(1, &format!("{set} 08:00-08:00,cpu=30"));
    assert!(
        why.contains("has a peak that ends when it begins") && why.contains("BAD_PEAKS"),
        "{why}"
    );
    let why = cell.fails(2, &format!("{set} 08:00-20:00,gold=30"));
    assert!(why.contains("no resource kind \"gold\""), "{why}");
    let day = 86_400_000;
    let mut response = cell.json("peak list");
    response["calendars"][0]["peaks"][1].as_object_mut().unwrap().remove("holds");
    let wanted = serde_json::json!({
        "calendars": [{
            "name": "web",
            "machines": "pool=web, name=m1",
            "peaks": [
                { "from_ms": 0, "until_ms": day, "batch_max": { "cpu": 30 }, "holds": true },
                { "from_ms": 79_200_000, "until_ms": 21_600_000, "batch_max": { "disk": 0 } },
            ],
        }],
        "machines_over": 0,
    });
    assert_eq!(response, wanted);
    assert!(cell.ok("peak list").contains("30% cpu"));
    assert_eq!(cell.ok("peak remove web"), "calendar web is removed\n");
    let why = cell.fails(1, "peak remove web");
    assert!(why.contains("UNKNOWN_PEAKS"), "{why}");
}

#[test]
fn a_keeper_has_batch_step_back() {
    let cell = Served::new(&[]);
    let start = |arguments: &[&str]| {
        let mut process = omega(cell.path());
        process.args(arguments).args(["--cell", &cell.address]).stdout(Stdio::null());
        Process(process.spawn().unwrap())
    };
    let placed = || {
        let response = cell.json("task list --job night");
        let tasks = response["items"].as_array().unwrap().iter();
        tasks.filter(|task| !task["machine"].is_null()).count()
    };
    cell.ok("machine add m1 --cpu 8 --memory 8GiB");
    let _scheduler = start(&["scheduler"]);
    cell.ok("job submit night --count 4 --cpu 1");
    until(|| placed() == 4);
    cell.ok("task resize night/0 --cpu 3");
    let _keeper = start(&["peak", "run", "--every=100ms"]);
    cell.ok("peak set web --machine m1 --peak 00:00-24:00,cpu=25");
    until(|| placed() == 2);
    cell.ok("peak remove web");
    until(|| placed() == 4);
}
