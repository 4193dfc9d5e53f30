//! Quotas, guarantees and request limits of tenants by command.

use crate::kit::cell::Served;
use serde_json::Value;

#[test]
fn quotas_are_set_listed_and_cleared() {
    let cell = Served::new(&[]);
    assert_eq!(cell.ok("quota set team --cpu 10 --memory 1TiB"), "tenant team is limited\n");
    let expected = "\
TENANT      CPU          MEMORY  DISK  GPU
team    0 of 10  0 B of 1.0 TiB   0 B    0
";
    let listed = cell.ok("quota list");
    assert!(listed.contains(expected.lines().nth(1).unwrap()), "{listed}");
    cell.ok("quota set search --cpu 1");
    let names = cell.ok("quota list -o name");
    assert!(names.lines().is_sorted() && names.contains("search\nteam\n"), "{names}");
    let listed = cell.json("quota list");
    let team = listed["items"].as_array().unwrap().iter().find(|of| of["name"] == "team").unwrap();
    assert_eq!((&team["limit"]["cpu"], &team["limit"]["gpu"]), (&10_000.into(), &Value::Null));
    assert_eq!(cell.ok("quota clear team"), "tenant team is not limited\n");
}

#[test]
fn a_tenant_is_put_below_another_with_a_guarantee() {
    let cell = Served::new(&[]);
    let output = cell.ok("quota guarantee search --parent company --cpu 600 --weight 3");
    assert_eq!(output, "tenant search is configured\n");
    let listed = cell.ok("quota list");
    let row = listed.lines().find(|line| line.starts_with("search")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..6], ["search", "company", "3", "0", "(600", "guaranteed)"], "{listed}");
    let listed = cell.json("quota list");
    let of = |name: &str| {
        listed["items"].as_array().unwrap().iter().find(|of| of["name"] == name).unwrap().clone()
    };
    let search = of("search");
    assert_eq!((&search["parent"], &search["weight"]), (&"company".into(), &3.into()));
    assert_eq!(search["guaranteed"]["cpu"], 600_000);
    assert_eq!((&of("company")["parent"], &of("company")["weight"]), (&Value::Null, &1.into()));
    assert_eq!(search["tasks_per_machine_max"], Value::Null);
    cell.ok("quota guarantee search --tasks-per-machine 2");
    assert!(cell.ok("quota list").contains("PER MACHINE"));
    let search = || {
        let listed = cell.json("quota list");
        listed["items"].as_array().unwrap().iter().find(|of| of["name"] == "search").cloned()
    };
    let changed = search().unwrap();
    assert_eq!(changed["tasks_per_machine_max"], 2);
    assert_eq!(changed["parent"], "company", "omitted settings stay");
    assert_eq!((&changed["weight"], &changed["guaranteed"]["cpu"]), (&3.into(), &600_000.into()));
    cell.ok("quota guarantee search --no-parent --tasks-per-machine 0");
    let changed = search().unwrap();
    assert_eq!((&changed["parent"], &changed["weight"]), (&Value::Null, &3.into()));
    assert_eq!(changed["tasks_per_machine_max"], Value::Null);
    for misspelt in ["quota clear unknown", "quota admit unknown", "quota guarantee unknown"] {
        let why = cell.fails(2, misspelt);
        assert!(why.contains("no tenant \"unknown\"; its tenants are: "), "{why}");
    }
    assert!(!cell.ok("quota list").contains("unknown"));
    cell.ok("quota guarantee search --parent company");
    let why = cell.fails(1, "quota guarantee company --parent search");
    assert!(why.contains("cannot be the parent of") && why.contains("BAD_TENANT"), "{why}");
}
