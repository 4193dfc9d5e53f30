//! `omega txn`: transactions by hand, recorded results of transactions, and errors.

use crate::kit::cell::{Served, ports, serve};
use crate::kit::process::{folder, run_omega};
use omega_client::{Address, ErrorCode, LeaseSettings, RemoteCell};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::time::Duration;

const MACHINES: &str =
    "[[machine]]\nname = \"m-{n}\"\ncount = 2\ncapacity = { cpu = 2 }\ndevices = 2\n";

/// A file with two valid claims, and a claim for which there is no room.
const THREE: &str = r#"
[[claim]]
task = "web/0"
machine = "m-1"

[[claim]]
task = "web/1"
machine = "m-1"

[[claim]]
task = "j0/2"
machine = "m-1"
"#;

fn cell(files: &[(&str, &str)]) -> Served {
    let mut all = vec![("machines.toml", MACHINES), ("three.toml", THREE)];
    all.extend(files);
    let cell = Served::new(&all);
    cell.ok("machine add -f machines.toml");
    cell.ok("job submit web --count 4 --cpu 1");
    cell
}

/// Output of a commit with rejected items.
fn refused(cell: &Served, line: &str) -> (String, String) {
    let output = cell.run_omega(line);
    assert_eq!(output.code, Some(1), "{line}: {}", output.stderr);
    (output.stdout, output.stderr)
}

#[test]
fn what_holds_is_taken_and_the_rest_is_told() {
    let cell = cell(&[]);
    let (table, why) = refused(&cell, "txn commit -f three.toml");
    let expected = "\
transaction  by-hand:0
version      6
committed    2 of 3

ITEM   TASK   MACHINE  ANSWER
claim  web/0  m-1      committed
claim  web/1  m-1      committed
claim  j0/2   m-1      no room: cpu
";
    assert_eq!(
        (table.as_str(), why.as_str()),
        (expected, "omega: the cell rejected 1 of 3 items of the transaction\n")
    );
    assert_eq!(cell.json("job get web")["tasks"]["placed"], 2);
    let expected = "\
transaction  by-hand:0
version      6
answer       1 of its items were rejected, and all others were committed

ITEM     WHY
claim 2  no room: cpu
";
    assert_eq!(cell.ok("txn get by-hand:0"), expected);
    let one = json!({
        "transaction": "by-hand:0", "scheduler": "by-hand", "number": 0, "version": 6,
        "refused": [{"item": "claim", "index": 2, "reason": "NO_ROOM", "kind": "cpu"}],
    });
    assert_eq!(cell.json("txn get by-hand:0"), one);
    assert_eq!(cell.json("txn list")["items"], json!([one]));
    let yaml = cell.ok("txn get by-hand:0 -o yaml");
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), one);
}

#[test]
fn the_same_file_under_the_same_number_has_the_same_answer() {
    let other = THREE.replace("m-1", "m-2");
    let cell = cell(&[("other.toml", &other)]);
    let line = "txn commit -f three.toml --as ann --id 7 -o json";
    let first = refused(&cell, line);
    assert_eq!(refused(&cell, line), first);
    assert_eq!(cell.json("job get web")["tasks"]["placed"], 2, "nothing was done twice");
    // The recorded result does not change, whether there is room now or not.
    let why = cell.fails(1, "machine remove m-1");
    assert!(
        why.contains("machine m-1 has 2 tasks: run `omega machine drain m-1 --deadline"),
        "{why}"
    );
    cell.ok("machine remove m-2");
    assert_eq!(refused(&cell, line), first);
    let output = cell.fails(1, "txn commit -f other.toml --as ann --id 7");
    assert!(output.ends_with("[UNKNOWN_MACHINE]\n"), "{output}");
    cell.ok("machine add -f machines.toml");
    let output = cell.fails(1, "txn commit -f other.toml --as ann --id 7");
    assert!(output.ends_with("[ID_REUSED]\n"), "{output}");
    // Numbers may be skipped: the next number is one more than the last used number.
    let (next, _) = refused(&cell, "txn commit -f three.toml --as ann -o json");
    assert_eq!(serde_json::from_str::<Value>(&next).unwrap()["number"], 8);
    let listed = cell.ok("txn list");
    let expected = "\
TRANSACTION  VERSION  REFUSED  WHY
ann:8              8        3  no room: cpu (1), task placed (2)
ann:7              6        1  no room: cpu (1)
";
    assert_eq!(listed, expected);
    let said = cell.fails(2, "txn commit -f three.toml --as ann --id 1033");
    let ahead =
        "omega: --id 1033: must be at most 1032, because the next transaction number is 9\n";
    assert_eq!(said, ahead);
}

#[test]
fn all_or_nothing_takes_nothing_and_is_remembered_too() {
    let all = format!("granularity = \"all_or_nothing\"\n{THREE}");
    let cell = cell(&[("all.toml", &all)]);
    let version = cell.json("cell")["version"].clone();
    let (response, why) = refused(&cell, "txn commit -f all.toml -o json");
    assert_eq!(why, "omega: the cell rejected 3 of 3 items of the transaction\n");
    let response: Value = serde_json::from_str(&response).unwrap();
    assert_eq!((&response["committed"], &response["refused"]), (&json!(0), &json!(3)));
    let reasons: Vec<&Value> =
        response["items"].as_array().unwrap().iter().map(|item| &item["reason"]).collect();
    assert_eq!(reasons, ["OTHERS_CONFLICT", "OTHERS_CONFLICT", "NO_ROOM"]);
    assert_eq!(cell.json("cell")["tasks"], Value::Null);
    assert_eq!(cell.json("job get web")["tasks"]["placed"], 0);
    assert_eq!(cell.json("txn get by-hand:0")["refused"].as_array().unwrap().len(), 3);
    // The only change was the registration of the name.
    assert_eq!(response["version"].as_u64().unwrap(), version.as_u64().unwrap() + 1);
}

#[test]
fn tasks_are_moved_displaced_and_checked_by_sequence() {
    let cell = cell(&[
        (
            "place.json",
            r#"{"claim": [{"task": "web/0", "machine": "m-1"}, {"task": "web/1", "machine": "m-1"}]}"#,
        ),
        ("move.toml", "releases = [\"web/0\"]\n[[claim]]\ntask = \"web/0\"\nmachine = \"m-2\"\n"),
        (
            "evict.toml",
            "evictions = [\"web/1\"]\n[[claim]]\ntask = \"big/0\"\nmachine = \"m-1\"\ndevices = [1]\n",
        ),
        (
            "stale.toml",
            "check = \"sequence\"\n[[claim]]\ntask = \"web/2\"\nmachine = \"m-2\"\nseen = 0\n",
        ),
    ]);
    cell.ok("txn commit -f place.json");
    cell.ok("txn commit -f move.toml");
    assert_eq!(cell.json("task list --machine m-2")["items"][0]["task"], "web/0");
    let big = "{\"name\": \"big\", \"precedence\": 9, \"group\": [{\"count\": 1, \
               \"request\": {\"cpu\": 2}, \"devices\": {\"count\": 1}}]}";
    std::fs::write(cell.path().join("big.json"), big).unwrap();
    cell.ok("job submit -f big.json");
    let table = cell.ok("txn commit -f evict.toml");
    assert!(table.contains("eviction  web/1           committed\n"), "{table}");
    let happened = cell.json("job history web")["items"].clone();
    let of = |event: &str| happened.as_array().unwrap().iter().find(|one| one["event"] == event);
    let evicted = of("evicted").unwrap();
    assert_eq!((&evicted["task"], &evicted["by_job"]), (&json!("web/1"), &json!("big")));
    assert_eq!((&evicted["machine"], &evicted["scheduler"]), (&json!("m-1"), &json!("by-hand")));
    assert_eq!(of("released").unwrap()["task"], "web/0");
    let on = cell.json("task list --machine m-1");
    assert_eq!(
        (&on["items"][0]["task"], &on["items"][0]["devices"]),
        (&"big/0".into(), &json!([1]))
    );
    let (table, _) = refused(&cell, "txn commit -f stale.toml");
    assert!(table.contains("claim  web/2  m-2      machine changed\n"), "{table}");
    let seen = cell.json("machine get m-2")["sequence"].to_string();
    let fresh = std::fs::read_to_string(cell.path().join("stale.toml")).unwrap();
    std::fs::write(
        cell.path().join("fresh.toml"),
        fresh.replace("seen = 0", &format!("seen = {seen}")),
    )
    .unwrap();
    cell.ok("txn commit -f fresh.toml");
}

#[test]
fn lists_come_whole_and_the_newest_first() {
    let cell = cell(&[("one.toml", "[[claim]]\ntask = \"web/0\"\nmachine = \"m-1\"\n")]);
    cell.ok("txn commit -f one.toml --as ann");
    for (name, times) in [("ann", 2), ("bob", 3)] {
        for _ in 0..times {
            refused(&cell, &format!("txn commit -f one.toml --as {name}"));
        }
    }
    let transactions = |line: &str| -> Vec<String> {
        let items = cell.json(line)["items"].as_array().unwrap().clone();
        items.iter().map(|one| one["transaction"].as_str().unwrap().to_owned()).collect()
    };
    let all = transactions("txn list");
    assert_eq!(all, ["bob:2", "bob:1", "bob:0", "ann:2", "ann:1", "ann:0"]);
    assert_eq!(transactions("txn list --scheduler ann"), ["ann:2", "ann:1", "ann:0"]);
    let cut = cell.json("txn list --limit 4");
    assert_eq!((cut["items"].as_array().unwrap().len(), &cut["more"]), (4, &true.into()));
    assert!(cell.ok("txn list --limit 1").ends_with(
        "more are not shown: raise --limit to see \
         them\n"
    ));
}

#[test]
fn a_name_that_a_process_holds_is_not_used_by_hand() {
    let dir = folder(&[("machines.toml", MACHINES), ("three.toml", THREE)]);
    let address = format!("127.0.0.1:{}", ports(1)[0]);
    let server = serve(dir.path(), &["--dir=cell".to_owned(), format!("--listen={address}")]);
    let ask = |line: &str| {
        let mut arguments: Vec<&str> = line.split_whitespace().collect();
        arguments.extend(["--cell", &address]);
        run_omega(dir.path(), &arguments)
    };
    assert_eq!(ask("machine add -f machines.toml").code, Some(0));
    assert_eq!(ask("job submit web --count 4 --cpu 1").code, Some(0));
    let leases = LeaseSettings { lease: Duration::from_secs(60), process: "p".to_owned() };
    let remote = RemoteCell::with_leases(&Address::plain([address.clone()]), leases).unwrap();
    remote.stand_by("ann", |_| ControlFlow::Continue(())).unwrap().unwrap();
    let output = ask("txn commit -f three.toml --as ann");
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{}", output.stderr);
    assert!(output.stderr.ends_with("[LEASE_HELD]\n"), "{}", output.stderr);
    remote.end_leases().unwrap();
    // The numbers that were skipped when the owner of the name changed belong to no process.
    let output = ask("txn commit -f three.toml --as ann --id 3");
    assert!(output.stderr.ends_with("[FENCED]\n"), "{}", output.stderr);
    let output = ask("txn commit -f three.toml --as ann");
    assert!(output.stdout.contains("committed    2 of 3\n"), "{} {}", output.stdout, output.stderr);
    // After a restart the results are equal, because they are part of the state.
    let response = ask("txn list -o json").stdout;
    drop(server);
    let _server = serve(dir.path(), &["--dir=cell".to_owned(), format!("--listen={address}")]);
    assert_eq!(ask("txn list -o json").stdout, response);
}

#[test]
fn what_cannot_be_is_told_in_one_line() {
    let cell = cell(&[
        ("none.toml", ""),
        ("task.toml", "releases = [\"web\"]\n"),
        ("job.toml", "releases = [\"nobody/0\"]\n"),
        ("id.toml", "releases = [\"j77/0\"]\n"),
        ("field.toml", "evict = []\n"),
        ("seen.toml", "check = \"sequence\"\n[[claim]]\ntask = \"web/0\"\nmachine = \"m-1\"\n"),
        ("machine.toml", "[[claim]]\ntask = \"web/0\"\nmachine = \"m1\"\n"),
        ("future.toml", "base = 99\nreleases = [\"web/0\"]\n"),
    ]);
    let cases = [
        (2, "txn commit", "--file <FILE>"),
        (
            2,
            "txn commit -f task.toml",
            "task.toml:1: releases[0]: \"web\" must be the name of a job",
        ),
        (2, "txn commit -f field.toml", "field.toml:1:1: evict: unknown field `evict`"),
        (2, "txn commit -f seen.toml", "seen.toml:2: claim[0].seen: is missing"),
        (2, "txn get web", "such as default-0:17"),
        (2, "txn get :3", "such as default-0:17"),
        (1, "txn commit -f job.toml", "there is no job \"nobody\""),
        (1, "txn commit -f id.toml", "there is no job \"j77\""),
        (1, "txn commit -f machine.toml", "\"m1\" [UNKNOWN_MACHINE]"),
        (1, "txn commit -f none.toml", "[TRANSACTION_EMPTY]"),
        (1, "txn commit -f future.toml", "[BASE_FROM_FUTURE]"),
        (1, "txn get nobody:0", "[UNKNOWN_SCHEDULER]"),
        (1, "txn list --scheduler nobody", "[UNKNOWN_SCHEDULER]"),
        (1, "txn get by-hand:0", "its next number is 0 [UNKNOWN_TRANSACTION]"),
    ];
    for (code, line, expected) in cases {
        let output = cell.fails(code, line);
        assert!(output.contains(expected), "{line}: {output}");
    }
    let output = cell.run_omega("txn commit -f three.toml --id 3");
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    let output = cell.fails(1, "txn get by-hand:1");
    assert!(output.contains(ErrorCode::AnswerExpired.name()), "one that was skipped: {output}");
}

#[test]
fn a_task_that_has_a_machine_is_given_more_or_less_of_it() {
    let grow = "[[resize]]\ntask = \"web/1\"\nto = { cpu = 1.5 }\n";
    let cell = cell(&[("grow.toml", grow)]);
    refused(&cell, "txn commit -f three.toml");
    let (output, why) = refused(&cell, "task resize web/0 --cpu 2");
    assert_eq!(output, "");
    assert_eq!(why, "omega: web/0 was not resized: no room: cpu\n");
    assert_eq!(cell.ok("task resize web/0 --cpu 500m"), "web/0 is allocated 0.5 cpu\n");
    let table = cell.ok("txn commit -f grow.toml");
    assert!(table.contains("resize  web/1           committed\n"), "{table}");
    let of_cpu = |cpu: u64| json!({ "cpu": cpu, "memory": 0, "disk": 0, "gpu": 0 });
    let holds =
        |index: usize| cell.json("task list --job web")["items"][index]["allocated"].clone();
    assert_eq!((holds(0), holds(1), holds(2)), (of_cpu(500), of_cpu(1500), Value::Null));
    // Kinds that are not named keep their amounts. An allocation that equals the group's request is not recorded.
    assert_eq!(cell.ok("task resize web/1 --memory 0"), "web/1 is allocated 1.5 cpu\n");
    assert_eq!(cell.ok("task resize web/1 --cpu 1"), "web/1 is allocated 1 cpu\n");
    assert_eq!(holds(1), Value::Null);
    let table = cell.ok("task list --job web");
    assert!(table.contains("  ALLOCATED\n") && table.contains("  0.5 cpu\n"), "{table}");
    assert_eq!(cell.ok("task resize web/1 --cpu 0"), "web/1 is allocated nothing\n");
    assert_eq!(holds(1), of_cpu(0));
    assert!(cell.ok("task list --job web").contains("  nothing\n"));
    assert_eq!(cell.ok("task resize web/1 --memory 0"), "web/1 is allocated nothing\n");
    cell.ok("task resize web/1 --cpu 1");
    let (_, why) = refused(&cell, "task resize web/2 --cpu 1");
    assert_eq!(why, "omega: web/2 was not resized: task not placed\n");
    let (_, why) = refused(&cell, "task resize web/9 --cpu 1");
    assert_eq!(why, "omega: web/9 was not resized: unknown task\n");
    cell.fails(2, "task resize web --cpu 1");
    let why = cell.fails(2, "task resize web/0");
    assert!(why.contains("give the new amount"), "{why}");
}
