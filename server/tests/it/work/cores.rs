//! Commands that set and show the exclusive cores of machines, jobs and tasks, and requests that are rejected.

use crate::kit::cell::Served;
use crate::kit::programs::Cell;
use crate::kit::wait::until;
use serde_json::json;

#[test]
fn cores_are_given_by_files_and_flags() {
    let machines = "[[machine]]\nname = \"n-1\"\ncapacity = { memory = \"8GiB\" }\nnuma = [6, 4]\n";
    let ranks =
        r#"{"name": "ranks", "group": [{"count": 2, "cores": {"count": 4, "place": "one_node"}}]}"#;
    let place = "[[claim]]\ntask = \"ranks/0\"\nmachine = \"n-1\"\n[[claim]]\ntask = \"db/0\"\nmachine = \"n-1\"\n";
    let files = [("machines.toml", machines), ("ranks.json", ranks), ("place.toml", place)];
    let cell = Served::new(&files);
    cell.ok("machine add -f machines.toml");
    cell.ok("job submit -f ranks.json");
    cell.ok("job submit db --cores 3");
    let group = &cell.json("job get ranks")["groups"][0];
    assert_eq!(group["request"]["cpu"], 4000, "cores are counted");
    assert_eq!(group["cores"], json!({"count": 4, "place": "one_node"}));
    cell.ok("txn commit -f place.toml");
    // The first task has all cores of the node that it fills; the others have cores of the other node.
    let on = cell.json("task list --machine n-1");
    assert_eq!(on["items"][0]["cores"], json!([0, 4]));
    assert_eq!(on["items"][1]["cores"], json!([3]));
    let table = cell.ok("task list --machine n-1");
    assert!(table.contains("CORES\n") && table.contains("n-1      0,4\n"), "{table}");
    let one = cell.ok("machine get n-1");
    assert!(one.contains("numa    3 of 6, 0 of 4\n"), "{one}");
    assert!(cell.ok("job explain ranks").contains("1 exclusive core short"));
    let response = cell.fails(1, "machine add n-1 --cpu 16 --numa 8,8");
    assert!(
        response.ends_with(", so its `numa` cannot change: drain it first [CORES_IN_USE]\n"),
        "{response}"
    );
    let response = cell.fails(1, "machine add n-2 --cpu 4 --numa 8,8");
    assert!(
        response.contains(
            "has 16 cores in its NUMA nodes, but only 4 cpu in total: raise cpu, or \
             name fewer cores [BAD_MACHINE]"
        ),
        "{response}"
    );
    assert!(cell.run_omega("machine add n-2 --numa 8,x").stderr.contains("such as 16,16"));
    assert_eq!(cell.ok("machine add n-2 --numa 8,8"), "machine n-2 is in the cell\n");
    assert_eq!(cell.json("machine get n-2")["cores_left"], json!([8, 8]));
}

#[test]
fn a_task_gets_the_cores_of_an_evicted_one() {
    let cell = Cell::new(&[]);
    let _agent = cell.agent("one");
    let left = cell.served.json("machine get one")["cores_left"].clone();
    let cores: u64 = left.as_array().unwrap().iter().map(|node| node.as_u64().unwrap()).sum();
    cell.served.ok(&format!("job submit low --cores {cores} -- /bin/sleep 1000"));
    until(|| cell.tasks("low", "running") == 1);
    // The agent kills one task, and starts the other, by one message of the cell.
    cell.served.ok(&format!("job submit high --precedence 9 --cores {cores} -- /bin/true"));
    let evict = "evictions = [\"low/0\"]\n[[claim]]\ntask = \"high/0\"\nmachine = \"one\"\n";
    std::fs::write(cell.served.path().join("evict.toml"), evict).unwrap();
    cell.served.ok("txn commit -f evict.toml");
    until(|| cell.tasks("high", "finished") == 1);
    cell.served.ok("job kill low");
    cell.nothing_is_left();
}
