//! Jobs in files, which are submitted, printed as they were read, and applied again; and the names of deleted jobs.

use crate::kit::cell::Served;
use crate::kit::wait::until;

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
    assert_eq!(cell.ok("job submit -f again.toml"), "job gang is unchanged\n");
    cell.ok("job delete gang");
    cell.ok("job submit -f again.toml");
    assert_eq!(cell.ok("job get gang -o toml"), file);
    assert!(cell.fails(2, "job list -o toml").contains("invalid value 'toml' for '--output"));
}

const TWO: &str = r#"
[[job]]
name = "good"
group = [{ count = 1, request = { cpu = 1 } }]

[[job]]
name = "web"
kind = "service"
group = [{ count = 2, request = { cpu = "CPU" }, restarts = 1 }]
"#;

#[test]
fn an_error_in_a_file_of_several_jobs_names_the_job() {
    let cell = Served::new(&[
        ("unit.toml", &TWO.replace("CPU", "4GiB")),
        ("two.toml", &TWO.replace("CPU", "1")),
        ("many.toml", &TWO.replace("CPU", "1").replace("count = 2", "count = 2000000")),
        ("batch.toml", &TWO.replace("CPU", "1").replace("\nkind = \"service\"", "")),
    ]);
    let why = cell.fails(2, "job apply -f unit.toml");
    assert!(why.contains("unit.toml:9: job \"web\": group[0].request.cpu: \"4GiB\""), "{why}");
    let why = cell.fails(1, "job apply -f many.toml");
    assert!(why.starts_with("omega: job ") && why.matches("web").count() == 1, "{why}");
    cell.ok("job apply -f two.toml");
    let why = cell.fails(1, "job apply -f batch.toml");
    assert_eq!(why.matches("web").count(), 1, "{why}");
    // No job of the file is created if another one is refused.
    let kind = TWO.replace("CPU", "1").replace("kind = \"service\"", "kind = \"batch\"");
    std::fs::write(cell.path().join("new.toml"), kind.replace("\"good\"", "\"new\"")).unwrap();
    cell.fails(1, "job apply -f new.toml");
    assert!(cell.fails(1, "job get new").contains("[UNKNOWN_JOB]"));
}

#[test]
fn an_updated_job_shows_a_group_once() {
    let cell = Served::new(&[("two.toml", &TWO.replace("CPU", "1"))]);
    cell.ok("job apply -f two.toml");
    let changed = TWO.replace("CPU", "2");
    std::fs::write(cell.path().join("two.toml"), changed).unwrap();
    cell.ok("job apply -f two.toml");
    // No task runs, so all are replaced at once.
    until(|| cell.json("job get web")["outdated"] == 0);
    let groups = cell.json("job get web")["groups"].as_array().unwrap().clone();
    assert_eq!((groups.len(), &groups[0]["version"]), (1, &1.into()), "{groups:?}");
    assert!(cell.ok("job get web").contains("\nmain       2  2 cpu\n"));
}

#[test]
fn a_job_in_json_has_its_file_with_all_rules() {
    let spread = "rules = [{ spread = { level = \"rack\", skew_max = 2 } }], restarts";
    let two = TWO.replace("CPU", "1").replace("restarts", spread);
    let cell = Served::new(&[("two.toml", &two)]);
    cell.ok("job apply -f two.toml");
    for job in ["good", "web"] {
        let file = cell.json(&format!("job get {job}"))["file"].to_string();
        std::fs::write(cell.path().join("job.json"), file).unwrap();
        assert_eq!(cell.ok("job apply -f job.json"), format!("job {job} is unchanged\n"));
    }
    assert_eq!(cell.json("job get web")["file"]["group"][0]["rules"][0]["spread"]["skew_max"], 2);
}

#[test]
fn an_ended_service_is_started_again() {
    let other = TWO.replace("CPU", "2");
    let cell = Served::new(&[("two.toml", &TWO.replace("CPU", "1")), ("other.toml", &other)]);
    cell.ok("job apply -f two.toml");
    cell.ok("job kill good");
    cell.ok("job kill web");
    let web = "job web had ended, and is started again: 2 tasks\n";
    // A batch job that has ended is not run again.
    let planned = web.replace("is started", "would be started");
    let unchanged = "job good is unchanged\n";
    assert_eq!(cell.ok("job apply --dry-run -f two.toml"), format!("{unchanged}{planned}"));
    assert_eq!(cell.ok("job apply -f two.toml"), format!("{unchanged}{web}"));
    assert_eq!(cell.ok("job apply -f two.toml"), format!("{unchanged}job web is unchanged\n"));
    cell.ok("job kill web");
    let good = "[[job]]\nname = \"good\"\ngroup = [{ count = 1, request = { cpu = 1 } }]\n";
    let (_, changed) = other.split_once("\n\n").unwrap();
    std::fs::write(cell.path().join("changed.toml"), format!("{good}{changed}")).unwrap();
    assert_eq!(cell.ok("job apply -f changed.toml"), format!("{unchanged}{web}"));
}

#[test]
fn a_dry_run_refuses_what_the_cell_would_refuse() {
    let update = "[[job]]\nname = \"b\"\nupdate = { max_surge = 1 }\ngroup = [{ count = 1 }]\n";
    let twice = "[[job]]\nname = \"t\"\ngroup = [{ count = 1 }, { count = 1 }]\n";
    let batch = TWO.replace("CPU", "1").replace("\nkind = \"service\"", "");
    let cell = Served::new(&[
        ("two.toml", &TWO.replace("CPU", "1")),
        ("update.toml", update),
        ("twice.toml", twice),
        ("batch.toml", &batch),
    ]);
    cell.ok("job apply -f two.toml");
    for file in ["update.toml", "twice.toml", "batch.toml"] {
        // A dry run also prints the plans of the other jobs.
        let planned = cell.run_omega(&format!("job apply --dry-run -f {file}"));
        assert_eq!(planned.code, Some(1), "{file}: {}", planned.stderr);
        assert_eq!(planned.stderr, cell.fails(1, &format!("job apply -f {file}")), "{file}");
    }
    assert!(cell.fails(1, "job apply -f batch.toml").contains("cannot change its kind"));
}
