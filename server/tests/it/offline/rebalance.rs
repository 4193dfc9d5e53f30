//! `omega rebalance`: moves of running tasks to better machines, in a workload, a durable cell and a served cell; and
//! bad input.

use crate::kit::cell::Served;
use crate::kit::process::{CommandOutput, folder, listing, run_omega};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

const MACHINES: &str = "name,cpu,memory,count\nm,4,8Gi,4\n";
const JOBS: &str = "name,count,cpu,memory\nweb,6,1,1Gi\n";
const FILES: [&str; 4] = ["--machines", "m.csv", "--jobs", "j.csv"];

fn tables() -> TempDir {
    folder(&[("m.csv", MACHINES), ("j.csv", JOBS)])
}

fn rebalance(dir: &Path, more: &[&str]) -> CommandOutput {
    run_omega(dir, &[&["rebalance", "--quiet"], more].concat())
}

fn json(dir: &Path, more: &[&str]) -> Value {
    let output = rebalance(dir, &[more, &["-o", "json"]].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{more:?}");
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn a_drained_machine_is_emptied_and_each_move_is_told() {
    let dir = tables();
    let spread = json(dir.path(), &[&FILES[..], &["--for", "defragment"]].concat());
    let used = spread["facts"][0]["after"].as_u64().unwrap();
    assert!(used <= 2, "six tasks of one core fit on two machines: {used}");
    assert_eq!(spread["applied"]["stale"], 0);
    let moves = spread["moves"].as_array().unwrap();
    let busy = moves.first().map_or("m-0", |m| m["to"].as_str().unwrap()).to_owned();
    let drained = json(dir.path(), &[&FILES[..], &["--drain", &busy]].concat());
    for m in drained["moves"].as_array().unwrap() {
        assert_eq!((&m["from"], &m["why"]), (&Value::from(busy.clone()), &"misplaced".into()));
    }
    assert_eq!(drained["misplaced"].as_u64(), drained["moves"].as_array().map(|m| m.len() as u64));
    assert_eq!(drained["stuck"], Value::Array(Vec::new()));
    std::fs::write(dir.path().join("two.csv"), "name,cpu,memory\na,4,8Gi\nb,4,8Gi\n").unwrap();
    std::fs::write(dir.path().join("one.csv"), "name,count,cpu,memory\nweb,2,1,1Gi\n").unwrap();
    std::fs::write(dir.path().join("p.csv"), "job,machine\nweb,a\nweb,b\n").unwrap();
    let files =
        ["--machines", "two.csv", "--jobs", "one.csv", "--placements", "p.csv", "--drain", "b"];
    let fact = &json(dir.path(), &files)["facts"][0];
    assert_eq!((&fact["before"], &fact["after"]), (&2.into(), &1.into()), "{fact}");
    let text = rebalance(dir.path(), &[&FILES[..], &["--drain", &busy]].concat()).stdout;
    assert!(text.contains("objective, in mean machines"), "{text}");
}

#[test]
fn a_cell_that_was_kept_is_looked_at_and_not_changed() {
    let dir = tables();
    let run = [&["run", "--quiet", "--dir", "cell"], &FILES[..]].concat();
    assert_eq!(run_omega(dir.path(), &run).code, Some(0));
    let before = listing(&dir.path().join("cell"));
    let from = ["--from", "cell", "--all", "--for", "spread", "--json", "out.json"];
    let output = rebalance(dir.path(), &[&from[..], &["--steps", "1000"]].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let written = std::fs::read_to_string(dir.path().join("out.json")).unwrap();
    let report: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(report["tasks"], 6);
    assert_eq!(listing(&dir.path().join("cell")), before);
}

#[test]
fn names_in_objectives_that_the_cell_lacks_are_noted() {
    let dir = tables();
    for (text, expected) in [
        ("[[rule]]\njob = \"nope\"\nat-least = 2\n", "rule: the cell has no job \"nope\""),
        ("[[rule]]\njob = \"web\"\nneeds = \"nope\"\n", "rule: the cell has no job \"nope\""),
        (
            "[[rule]]\njob = \"web\"\nlevel = \"zone\"\nat-least = 2\n",
            "rule.level: the cell has no label \"zone\"",
        ),
        (
            "[[machines]]\nnames = [\"m-0\", \"nope\"]\nin-use = 5\n",
            "machines.names: the cell has no machine \"nope\"",
        ),
        ("[[move]]\nacross = \"zone\"\ncost = 1\n", "move.across: the cell has no label \"zone\""),
        (
            "[[move]]\nto = { names = [\"nope\"] }\ncost = 1\n",
            "move: the cell has no machine \"nope\"",
        ),
        ("level = \"zone\"\n", "level: the cell has no label \"zone\""),
    ] {
        std::fs::write(dir.path().join("o.toml"), text).unwrap();
        let report = json(dir.path(), &[&FILES[..], &["--objectives", "o.toml"]].concat());
        let note = format!("objectives: {expected}: correct the name, or it has no effect");
        assert_eq!(report["notes"], Value::from(vec![note]), "{text}");
    }
    std::fs::write(dir.path().join("o.toml"), "[[rule]]\njob = \"web\"\nat-least = 2\n").unwrap();
    let report = json(dir.path(), &[&FILES[..], &["--objectives", "o.toml"]].concat());
    assert_eq!(report["notes"], Value::Array(Vec::new()));
}

const AIMS: &str = "for = \"defragment\"\nlevel = \"zone\"\nsafety = { cpu = 70 }\n\
    weight = { fragments = 7, crowding = 3, \"load.cpu\" = 2, balance = 1 }\n\
    [[pair]]\nfree = \"cpu\"\nbeside = \"memory\"\n";

#[test]
fn what_is_better_is_told_by_a_file_and_flags_go_before_it() {
    let dir = tables();
    std::fs::write(dir.path().join("objectives.toml"), AIMS).unwrap();
    let more = [
        "--objectives",
        "objectives.toml",
        "--weight",
        "fragments=9",
        "-o",
        "json",
        "--steps",
        "100",
    ];
    let output = rebalance(dir.path(), &[&FILES[..], &more].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let weight = |name: &str| {
        let terms = report["terms"].as_array().unwrap();
        let term = terms.iter().find(|term| term["term"] == name);
        term.map_or(0, |term| term["weight"].as_u64().unwrap())
    };
    assert_eq!(
        ["fragments", "crowding", "load cpu", "load memory", "balance", "misplaced"].map(weight),
        [9, 3, 2, 0, 1, 1000]
    );
}

/// The blocks of docs/rebalance.md in this language.
fn of_the_page(language: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rebalance.md");
    let page = std::fs::read_to_string(page).unwrap();
    let fence = format!("```{language}\n");
    let blocks = page.split(&fence).skip(1);
    blocks.filter_map(|block| block.split_once("```")).map(|(text, _)| text.to_owned()).collect()
}

/// A folder with the files of docs/rebalance.md, and the tables of a workload.
fn files_of_the_page() -> TempDir {
    let machines = "name,cpu,memory,count,rack\nm,4,8Gi,4,r1\nn,4,8Gi,4,r2\n";
    let (toml, csv) = (of_the_page("toml"), of_the_page("csv"));
    let [objectives, profile] = &toml[..] else { panic!("two files: {toml:?}") };
    folder(&[
        ("m.csv", machines),
        ("j.csv", JOBS),
        ("objectives.toml", objectives),
        ("profile.toml", profile),
        ("between.csv", &csv.concat()),
    ])
}

#[test]
fn a_run_places_by_the_objectives_of_the_page_and_rebalances() {
    let dir = files_of_the_page();
    let by = ["--profile", "profile.toml", "--objectives", "objectives.toml"];
    let run = ["run", "--quiet", "--json", "-", "--rebalance-every", "1s"];
    let output = run_omega(dir.path(), &[&run[..], &by, &FILES].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(report["placements"].as_u64().unwrap() > 0);
    assert_eq!(report["rebalancing"]["every_s"], 1.0);
    let without = ["run", "--quiet", "--objectives", "objectives.toml"];
    let output = run_omega(dir.path(), &[&without[..], &FILES].concat());
    assert_eq!(output.code, Some(2));
    assert!(output.stderr.contains("--rebalance-every"), "{}", output.stderr);
}

#[test]
fn a_profile_names_the_fault_of_its_objectives_file() {
    let dir = files_of_the_page();
    std::fs::write(dir.path().join("objectives.toml"), "weight = { speed = 7 }").unwrap();
    let run = ["run", "--quiet", "--profile", "profile.toml"];
    let output = run_omega(dir.path(), &[&run[..], &FILES].concat());
    assert_eq!(output.code, Some(2));
    for part in ["profile.toml:6:", "profile[0].score[0].args.file", "there is no term \"speed\""] {
        assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
    }
}

#[test]
fn the_objectives_of_the_page_are_taken() {
    let dir = files_of_the_page();
    let more = ["--objectives", "objectives.toml", "--steps", "1000"];
    let report = json(dir.path(), &[&FILES[..], &more].concat());
    let terms = report["terms"].as_array().unwrap();
    let weight = |name: &str| {
        terms.iter().find(|term| term["term"] == name).map_or(0, |t| t["weight"].as_u64().unwrap())
    };
    assert_eq!(["in use", "machine moves", "balance"].map(weight), [3, 1, 2]);
    let load = terms.iter().find(|term| term["term"] == "load cpu").unwrap();
    assert_eq!(load["what"], "cpu by its curve");
}

#[test]
fn bad_input_ends_with_one_line() {
    let dir = tables();
    for (name, content) in [
        ("unknown.toml", "wait = { fragments = 7 }"),
        ("term.toml", "weight = { speed = 7 }"),
        ("pair.toml", "[[pair]]\nfree = \"cpu\"\nbeside = \"cores\""),
        ("much.toml", "[[pair]]\nfree = \"cpu\"\nbeside = \"memory\"\npercent = 1001"),
        ("both.toml", "[[pair]]\nfree = \"cpu\"\nbeside = \"memory\"\nwant = \"4Gi\""),
        ("want.toml", "[[pair]]\nfree = \"cpu\"\nbeside = \"memory\"\nwant = \"2x\"\nper = \"1\""),
        ("level.toml", "[[machines]]\nnames = [\"m-0\"]\nsafety = { cpu = 1001 }"),
        ("bent.toml", "[[load]]\nkind = \"cpu\"\npoints = [[0, 0], [10, 10], [20, 19]]"),
        ("dear.toml", "[[move]]\nacross = \"rack\"\ncost = 10001"),
        ("table.toml", "between = \"between.csv\""),
        ("points.toml", "[[demand]]\nkind = \"cpu\"\njob = \"web\"\npercent = []"),
        ("rule.toml", "[[rule]]\njob = \"web\"\nneeds = \"db\"\nat-least = 2"),
        ("pairs.toml", "rules = \"pairs.csv\""),
        ("pairs.csv", "job,beside,at_most\nweb,db,many\n"),
        ("between.csv", "from,to,cost\nm-0,m-1,5\nm-0,m-1,6\n"),
    ] {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    let cases: [(&[&str], &str); 23] = [
        (&["--drain", "none"], "there is no machine \"none\""),
        (
            &["--safety", "cores=3"],
            "--safety: the cell has no resource kind \"cores\"; its kinds are: cpu,",
        ),
        (&["--weight", "speed=3"], "--weight: there is no term \"speed\""),
        (&["--weight", "load=1,load=2"], "--weight: load is given twice"),
        (&["--weight", "load=10001"], "--weight: 10001 is too large"),
        (&["--safety", "cpu"], "\"cpu\" must be NAME=NUMBER"),
        (&["--objectives", "none.toml"], "none.toml: cannot be read"),
        (&["--objectives", "unknown.toml"], "unknown.toml:1:1: wait: unknown field"),
        (&["--objectives", "term.toml"], "term.toml:1: weight.speed: there is no term"),
        (&["--objectives", "pair.toml"], "pair.toml:3: pair[0].beside: the cell has"),
        (&["--objectives", "much.toml"], "much.toml:4: pair[0].percent: 1001 must be"),
        (&["--objectives", "both.toml"], "both.toml:1: pair[0]: give either percent"),
        (&["--objectives", "want.toml"], "want.toml:4: pair[0].want: \"2x\" has an"),
        (&["--objectives", "level.toml"], "level.toml:3: machines[0].safety.cpu: is 1001"),
        (&["--objectives", "bent.toml"], "bent.toml:3: load[0].points: the line to"),
        (&["--objectives", "dear.toml"], "dear.toml:3: move[0].cost: is 10001; give"),
        (&["--objectives", "table.toml"], "between.csv:3: from: this pair has two costs"),
        (&["--objectives", "points.toml"], "points.toml:4: demand[0].percent: of \"web\""),
        (&["--objectives", "rule.toml"], "rule.toml:1: rule[0]: of \"web\": give one"),
        (&["--objectives", "pairs.toml"], "pairs.csv:2: at_most: \"many\""),
        (&["--apply"], "--apply is only for --cell"),
        (&["--all"], "--from"),
        (&["--for", "speed"], "speed"),
    ];
    for (more, why) in cases {
        let output = rebalance(dir.path(), &[&FILES[..], more].concat());
        assert_eq!(output.code, Some(2), "{more:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{more:?}: {}", output.stderr);
        assert!(output.stderr.contains(why), "{more:?}: {}", output.stderr);
    }
    let output = rebalance(dir.path(), &["--from", "nothing"]);
    assert_eq!((output.code, output.stderr.lines().count()), (Some(2), 1), "{}", output.stderr);
}

const TWO: &str = "[[machine]]\nname = \"m-{n}\"\ncount = 2\ncapacity = { cpu = 2 }\n";
const ON_ONE: &str = "[[claim]]\ntask = \"web/0\"\nmachine = \"m-1\"\n";

#[test]
fn a_served_cell_is_looked_at_and_changed_only_if_that_is_asked_for() {
    let cell = Served::new(&[("machines.toml", TWO), ("one.toml", ON_ONE)]);
    cell.ok("machine add -f machines.toml");
    cell.ok("job submit web --cpu 1");
    cell.ok("txn commit -f one.toml");
    cell.ok("machine drain m-1");
    let rebalance = format!("rebalance --for drain -o json --quiet --cell {}", cell.address);
    let report: Value = serde_json::from_str(&cell.ok(&rebalance)).unwrap();
    assert_eq!((&report["moves"][0]["from"], &report["applied"]), (&"m-1".into(), &Value::Null));
    let there = |cell: &Served| cell.json("task list --machine m-1")["items"].clone();
    assert_eq!(there(&cell).as_array().map(Vec::len), Some(1), "nothing is done");
    let done: Value = serde_json::from_str(&cell.ok(&format!("{rebalance} --apply"))).unwrap();
    assert_eq!((&done["applied"]["committed"], &done["misplaced"]), (&1.into(), &1.into()));
    assert_eq!(there(&cell), Value::Array(Vec::new()));
}

/// A ROADEF instance: two machines with capacity 4 and safety capacity 2, and processes of 1, 1 and 2 units on the
/// first machine.
const MODEL: &str =
    "1\n0 10\n2\n0 0 4 2 0 1\n0 1 4 2 1 0\n3\n0 0\n0 0\n0 0\n3\n0 1 0\n1 1 0\n2 2 0\n0\n1 1 1\n";

#[test]
fn an_instance_of_the_contest_is_searched_and_its_solution_is_written() {
    let dir = folder(&[("model.txt", MODEL), ("start.txt", "0 0 0\n")]);
    let files = ["--roadef", "model.txt", "start.txt", "--steps", "20000", "--out", "best.txt"];
    let output = rebalance(dir.path(), &[&files[..], &["--trail", "trail.csv"]].concat());
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let total = output.stdout.lines().find(|line| line.contains("total")).unwrap();
    // At the start the cost is 20: 10 for each of the two units of load above the safety capacity. Afterwards it is 2:
    // 1 for a move of the service, 1 for the pair of machines.
    let words: Vec<&str> = total.split_whitespace().collect();
    assert_eq!(words, ["total", "20", "2"]);
    let best = std::fs::read_to_string(dir.path().join("best.txt")).unwrap();
    assert_eq!(best, "0 0 1\n");
    let trail = std::fs::read_to_string(dir.path().join("trail.csv")).unwrap();
    assert!(trail.starts_with("seconds,cost\n0.000,20\n"), "{trail}");
}

#[test]
fn a_bad_instance_of_the_contest_is_refused_with_its_place() {
    let cut = &MODEL[..MODEL.len() - 4];
    let dir = folder(&[
        ("model.txt", MODEL),
        ("cut.txt", cut),
        ("start.txt", "0 0 0\n"),
        ("two.txt", "0 2 0\n"),
    ]);
    let ended = rebalance(dir.path(), &["--roadef", "cut.txt", "start.txt"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("the weight of service moves"), "{}", ended.stderr);
    let wrong = rebalance(dir.path(), &["--roadef", "model.txt", "two.txt"]);
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.contains("two.txt: line 1: the machine of process 1: \"2\""),
        "{}",
        wrong.stderr
    );
}
