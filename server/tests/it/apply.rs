//! Jobs as files: deleted, printed as they were read, and applied.

use crate::commands::Served;

const JOB: &str = r#"{
  "name": "gang", "kind": "batch", "gang_min": 2, "run_time": "90s", "precedence": 5,
  "group": [{
    "count": 2, "request": { "cpu": 1 }, "devices": { "count": 1 },
    "tolerations": [{ "key": "keep", "value": "off" }],
    "rules": [{ "spread": { "level": "rack", "skew_max": 1 } }]
  }]
}"#;

#[test]
fn a_deleted_job_gives_its_name_away_at_once() {
    let cell = Served::new(&[("job.json", JOB)]);
    // The job is deleted whether its tasks had ended or not.
    for kill in [false, true] {
        assert_eq!(cell.ok("job submit -f job.json"), "job gang is submitted: 2 tasks\n");
        if kill {
            cell.ok("job kill gang");
        }
        assert_eq!(cell.ok("job delete gang"), "job gang is deleted\n");
        assert!(cell.fails(1, "job get gang").contains("[UNKNOWN_JOB]"));
    }
}

#[test]
fn a_job_is_printed_as_a_file_that_describes_it() {
    let cell = Served::new(&[("job.json", JOB)]);
    cell.ok("job submit -f job.json");
    let file = cell.ok("job get gang -o toml");
    std::fs::write(cell.path().join("again.toml"), &file).unwrap();
    assert_eq!(cell.ok("job submit -f again.toml"), "job gang is submitted: 2 tasks\n");
    cell.ok("job delete gang");
    cell.ok("job submit -f again.toml");
    assert_eq!(cell.ok("job get gang -o toml"), file);
    assert!(cell.fails(2, "job list -o toml").contains("only `omega job get` prints TOML"));
}
