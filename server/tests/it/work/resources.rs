//! Cluster resources: a cell that is bootstrapped with a kind of cluster resource, jobs that claim it, and the output
//! about it.

use crate::kit::cell::Served;
use crate::kit::wait::until;

const JOB: &str = r#"
name = "solve"
[[group]]
count = 3
request = { cpu = 1 }
cluster_request = { licence = 1, cloud-disk = "2GiB" }
"#;

#[test]
fn what_the_cell_has_is_set_listed_and_claimed() {
    let kinds = ["--kinds=licence,cloud-disk=bytes".to_owned()];
    let cell = Served::with(&[("job.toml", JOB)], &kinds);
    assert_eq!(cell.json("cluster-resource list"), serde_json::json!([]));
    assert_eq!(cell.ok("cluster-resource set licence 40"), "resource licence is set\n");
    cell.ok("cluster-resource set cloud-disk 1TiB");
    cell.ok("job submit -f job.toml");
    let one = |name, capacity: u64, waiting: u64| serde_json::json!({ "name": name, "capacity": capacity, "claimed": 0, "waiting": waiting });
    let wanted = serde_json::json!([one("licence", 40, 3), one("cloud-disk", 1 << 40, 6 << 30)]);
    // The pending amounts are updated once a second, or later on a busy computer.
    until(|| cell.json("cluster-resource list") == wanted);
    let table = cell.ok("cluster-resource list");
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["licence", "40", "0", "3"]);
    let group = &cell.json("job get solve")["groups"][0]["cluster_request"];
    assert_eq!((&group["licence"], &group["cpu"]), (&1.into(), &0.into()));
    assert!(
        cell.ok("job get solve").contains("1 cpu; cluster resources 1 licence, 2.0 GiB cloud-disk")
    );
    let why = cell.fails(2, "cluster-resource set tape 4");
    assert!(why.contains("tape") && why.contains("licence"), "{why}");
    let why = cell.fails(2, "cluster-resource set licence 4GiB");
    assert!(why.contains("whole number"), "{why}");
    let why = cell.fails(2, "cluster-resource set licence 0.5");
    assert!(why.contains("whole number"), "{why}");
    cell.ok("job submit flags --cluster-amount licence=2 --cluster-amount cloud-disk=1GiB");
    let claimed = &cell.json("job get flags")["groups"][0]["cluster_request"];
    assert_eq!((&claimed["licence"], &claimed["cloud-disk"]), (&2.into(), &(1 << 30).into()));
    let why = cell.fails(2, "job submit flags --cluster-amount tape=2");
    assert!(why.contains("--cluster-amount tape") && why.contains("licence"), "{why}");
    let explained = cell.ok("job explain solve");
    assert!(explained.contains("the cell has none"), "{explained}");
}

const VARIED: &str = r#"
name = "varied"
[[group]]
count = 1
demand_profiles.cpu = [0.5, 4, 2]
[[group]]
name = "wanting"
count = 1
request = { cpu = 1 }
optional = { memory = "8GiB" }
optional_devices = { count = 1 }
"#;

#[test]
fn what_a_group_wants_and_how_it_varies_is_shown() {
    let cell = Served::new(&[("job.toml", VARIED)]);
    cell.ok("job submit -f job.toml");
    let shown = cell.ok("job get varied");
    assert!(shown.contains("4 cpu; cpu from 0.5 to 4 over the day, in 3 parts\n"), "{shown}");
    assert!(shown.contains("1 cpu; optional 8.0 GiB memory, 1 gpu, 1 device\n"), "{shown}");
    let groups = &cell.json("job get varied")["groups"];
    assert_eq!(groups[0]["demand_profiles"], serde_json::json!({ "cpu": [500, 4000, 2000] }));
    assert_eq!(
        (&groups[1]["optional"]["gpu"], &groups[1]["optional_devices"]),
        (&1000.into(), &1.into())
    );
}
