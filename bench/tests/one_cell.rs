//! A small version of the example with all kinds of clients on one cell. Each client places its jobs. At the end of the
//! run, the cell's audit counts tasks and resources again, and checks the cell's rules.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

#[path = "../examples/one_cell.rs"]
mod one_cell;

#[test]
fn four_kinds_of_clients_share_a_cell_with_all_rules_on() {
    let workload = one_cell::shared(None, 200).unwrap();
    let asked: u64 = workload.arrivals.iter().map(|arrival| arrival.job.task_count()).sum();
    let report = one_cell::share(workload).unwrap();
    let names: Vec<&str> = report.schedulers.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["service-0", "batch-0", "batch-1", "offers", "asks"]);
    for scheduler in &report.schedulers {
        assert!(scheduler.placements > 0, "{}: {scheduler:?}", scheduler.name);
        assert!(scheduler.wait_s_p50.is_some(), "{}", scheduler.name);
    }
    let placed: u64 = report.schedulers.iter().map(|one| one.placements).sum();
    assert_eq!(placed, report.placements);
    let waiting: usize = report.unplaced.iter().map(|one| one.tasks).sum();
    assert_eq!(waiting, report.pending, "all that waits has a reason");
    assert!(report.placements + report.pending as u64 >= asked);
    let of = |name: &str| report.tenants.iter().find(|one| one.name == name).unwrap();
    assert_eq!(of("spark").parent.as_deref(), Some("guests"));
    for tenant in ["production", "analytics", "ads", "search", "spark", "flink", "hadoop"] {
        assert!(of(tenant).placements > 0, "{tenant}");
    }
}
