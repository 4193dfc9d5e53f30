//! Commands for a served cell: every verb, every format, and their errors. The cell is a separate process.

use crate::kit::cell::{Process, Served, ports, run_omega_at, serve};
use crate::kit::process::{folder, omega, run_omega};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const MACHINES: &str = r#"
[[machine]]
name = "a-{n}"
count = 2
capacity = { cpu = 4, memory = "16GiB" }
labels = { rack = "a", place = "a{n}" }

[[machine]]
name = "b-1"
capacity = { cpu = 8, memory = "32GiB" }
labels = { rack = "b" }
taints = ["keep=off:NoSchedule"]
devices = 2
overcommit = { cpu = 150 }
"#;

const JOB: &str = r#"{
  "name": "gang", "kind": "batch", "gang_min": 2, "run_time": "90s", "precedence": 5,
  "group": [{
    "count": 2, "request": { "cpu": 1 }, "devices": { "count": 1 },
    "tolerations": [{ "key": "keep", "value": "off" }],
    "rules": [{ "spread": { "level": "rack", "skew_max": 1 } }]
  }]
}"#;

#[test]
fn machines_are_added_listed_drained_and_removed() {
    let cell = Served::new(&[("machines.toml", MACHINES)]);
    assert_eq!(cell.ok("machine add -f machines.toml"), "3 machines are added or unchanged\n");
    let expected = "\
NAME  STATUS  TASKS  FREE CPU           FREE MEMORY  FREE GPU
a-1   up          0    4 of 4  16.0 GiB of 16.0 GiB    0 of 0
a-2   up          0    4 of 4  16.0 GiB of 16.0 GiB    0 of 0
b-1   up          0    8 of 8  32.0 GiB of 32.0 GiB    2 of 2
";
    assert_eq!(cell.ok("machine list"), expected);
    let expected = "\
name     b-1
id       m2
status   up
tasks    0
devices  2
labels   rack=b
taints   keep=off:NoSchedule

RESOURCE  CAPACITY  CLAIMABLE  CLAIMED      FREE  LOAD
cpu              8          8        0         8     0
memory    32.0 GiB   32.0 GiB      0 B  32.0 GiB   0 B
disk           0 B        0 B      0 B       0 B   0 B
gpu              2          2        0         2     0
";
    let told = cell.ok("machine get b-1");
    let events = told.strip_prefix(expected).unwrap_or_else(|| panic!("{told}"));
    assert!(events.ends_with("  registered  machine b-1\n"), "{events}");
    let one = cell.json("machine get a-2");
    assert_eq!(one["labels"]["place"], "a2");
    assert_eq!(one["resources"]["memory"]["free"], 16_u64 << 30);

    assert_eq!(cell.json("machine list --label rack=a")["items"].as_array().unwrap().len(), 2);
    assert_eq!(cell.json("machine list -l rack=a,place=a2")["items"].as_array().unwrap().len(), 1);
    assert_eq!(cell.json("machine list -l rack,!place")["items"][0]["name"], "b-1");
    let limited = cell.json("machine list --limit 1");
    assert_eq!((&limited["more"], &limited["items"][0]["name"]), (&true.into(), &"a-1".into()));

    assert_eq!(cell.ok("machine drain a-1"), "machine a-1 takes no new tasks\n");
    assert_eq!(cell.json("machine get a-1")["status"], "draining");
    assert_eq!(cell.ok("machine resume a-1"), "machine a-1 takes tasks again\n");
    assert_eq!(cell.ok("machine remove a-1"), "machine a-1 is removed\n");
    assert!(cell.fails(1, "machine get a-1").ends_with("\"a-1\" [UNKNOWN_MACHINE]\n"));

    // The command is repeated with other amounts, so the machine is changed.
    let one = "machine add c-1 --cpu 500m --memory 1GB --disk 2TiB --devices 3 --label k=v --taint t:NoExecute";
    assert_eq!(cell.ok(one), "machine c-1 is in the cell\n");
    assert_eq!(cell.json("machine get c-1")["resources"]["gpu"]["capacity"], 3000);
    cell.ok("machine add c-1 --cpu 2 --gpu 0.5 --amount memory=1KiB");
    let changed = cell.json("machine get c-1");
    assert_eq!(changed["resources"]["cpu"]["capacity"], 2000);
    assert_eq!(changed["resources"]["memory"]["capacity"], 1024);
    assert_eq!(changed["taints"], Value::Array(vec![]));
    cell.ok("machine add a-0 --cpu 1");
    assert!(
        cell.ok("machine list --limit 1").contains("\na-0 "),
        "lists are cut in the order of names"
    );
}

#[test]
fn a_wait_ends_with_its_time() {
    let cell = Served::new(&[]);
    let output = cell.run_omega("job submit web --service --cpu 1 --wait=200ms");
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("was not done within 200ms: 1 pending"), "{}", output.stderr);
    let output = cell.run_omega("job submit web --service --cpu 1 --wait=soon");
    assert!(
        output.code == Some(2) && output.stderr.contains("must be a time"),
        "{}",
        output.stderr
    );
}

#[test]
fn jobs_are_submitted_watched_explained_and_killed() {
    let cell = Served::new(&[("machines.toml", MACHINES), ("job.json", JOB)]);
    cell.ok("machine add -f machines.toml");
    let submit = "job submit web --count 3 --cpu 0.5 --memory 2GiB --service --tenant t \
        --precedence -2 --run-time 30s --label app=web --require rack=a --spread place:1";
    assert_eq!(cell.ok(submit), "job web is submitted: 3 tasks\n");
    assert_eq!(cell.ok(submit), "job web is unchanged\n", "nothing is done twice");
    assert_eq!(cell.ok("job submit -f job.json"), "job gang is submitted: 2 tasks\n");
    assert!(cell.fails(2, "job submit -f job.json --deadline 2h").contains("cannot be used with"));
    cell.ok("job submit big --cpu 64 --anti-affinity machine --gang 1 --scheduler other");
    let expected = "\
NAME  KIND     TENANT   SCHEDULER  TASKS  PENDING  PLACED  RUNNING  ENDED
big   batch    default  other          1        1       0        0      0
gang  batch    default  default        2        2       0        0      0
web   service  t        default        3        3       0        0      0
";
    assert_eq!(cell.ok("job list"), expected);
    assert_eq!(cell.json("job list --tenant t")["items"].as_array().unwrap().len(), 1);
    assert_eq!(cell.json("job list --scheduler other")["items"][0]["name"], "big");

    let gang = cell.json("job get gang");
    assert_eq!((&gang["gang_min"], &gang["runtime_estimate_ms"]), (&2.into(), &90_000.into()));
    assert_eq!(gang["groups"][0]["request"]["gpu"], 1000, "devices are counted");
    assert_eq!(cell.json("job get web")["precedence"], -2);

    let why = cell.ok("job explain big");
    assert!(why.contains("big: 1 of 1 task waits for a machine (scheduler other)"), "{why}");
    assert!(
        why.contains("no process owns the name other") && why.contains("56 cpu short"),
        "{why}"
    );
    assert!(why.contains("what would help"), "{why}");
    assert_eq!(cell.ok(&format!("explain big --json why.json --cell {}", cell.address)), why);
    let why = std::fs::read_to_string(cell.path().join("why.json")).unwrap();
    let why: Value = serde_json::from_str(&why).unwrap();
    assert_eq!((&why["pending"], &why["jobs"][0]), (&1.into(), &cell.json("job explain big")));
    let before = cell.json("cell")["version"].clone();
    assert_eq!(cell.json("job explain big")["groups"][0]["machines"], 3);
    assert_eq!(cell.json("cell")["version"], before, "to explain changes nothing");
    assert_eq!(cell.json("job explain big --group main")["waiting"], 1);
    assert!(cell.fails(1, "job explain big --group no").contains("[UNKNOWN_GROUP]"));
    assert!(cell.fails(1, "job explain nobody").contains("[UNKNOWN_JOB]"));

    let tasks = "TASK   GROUP  STATE    MACHINE\nweb/0  main   pending\nweb/1  main   pending\nweb/2  main   pending\n";
    assert_eq!(cell.ok("task list --job web"), tasks);
    assert_eq!(cell.ok("task list --machine a-1"), "TASK  GROUP  STATE  MACHINE\n");

    assert_eq!(cell.ok("job resize web 4"), "job web is resized from 3 to 4 tasks\n");
    assert_eq!(cell.ok("job resize web 4"), "job web already has 4 tasks\n");
    assert_eq!(cell.json("job get web")["tasks"]["pending"], 4);
    assert_eq!(cell.ok("job kill web"), "job web is killed\n");
    assert_eq!(cell.ok("job kill web"), "job web had already ended\n");
    assert!(
        cell.ok("task get web/0").ends_with("  web   killed\n"),
        "{}",
        cell.ok("task get web/0")
    );
    let why = cell.fails(1, "job resize gang 3 --group none");
    assert!(why.contains("has no group \"none\"; its groups are: main"), "{why}");
    assert!(cell.fails(2, "task list").contains("--machine"));
    assert_eq!(cell.ok("job watch web --until placed"), cell.ok("job watch web"));
    assert_eq!(cell.json("job list")["items"].as_array().unwrap().len(), 2);
    let ended = cell.json("job list --ended");
    assert_eq!(ended["items"].as_array().unwrap().len(), 1, "{ended}");
    assert_eq!(ended["items"][0]["name"], "web");
    assert_eq!(cell.json("job list --all")["items"].as_array().unwrap().len(), 3);
    cell.ok("job kill gang");
    let told = cell.ok("job submit -f job.json");
    assert!(told.contains("gang was submitted before and has ended"), "{told}");
}

#[test]
fn a_service_is_scaled_to_zero_and_back() {
    let file = |head: &str| {
        format!(
            "name = \"web\"\nkind = \"service\"\n{head}[[group]]\ncount = 4\nrequest = {{ cpu = 1 }}\n"
        )
    };
    let (web, other) = (file(""), file("precedence = 7\n"));
    let cell = Served::new(&[("web.toml", &web), ("other.toml", &other)]);
    cell.ok("job submit web --service --count 2 --cpu 1");
    cell.ok("policy set --ttl-after-finished 0s");
    let told = cell.ok("job scale web 0");
    assert!(
        told.starts_with("job web is resized from 2 to 0 tasks: the service remains"),
        "{told}"
    );
    assert_eq!(cell.json("job list")["items"][0]["scaled_to_zero"], true);
    assert_eq!(cell.json("job list --ended")["items"].as_array().unwrap().len(), 0);
    assert!(cell.ok("job get web").contains("2 killed, scaled to zero"));
    assert!(cell.fails(1, "job restart web").contains("omega job resize web COUNT"));
    assert_eq!(cell.ok("job scale web 3"), "job web is resized from 0 to 3 tasks\n");
    let web = cell.json("job get web");
    assert_eq!((&web["tasks"]["pending"], &web["scaled_to_zero"]), (&3.into(), &false.into()));
    cell.ok("job scale web 0");
    assert!(cell.fails(1, "job apply -f other.toml").contains("cannot change"));
    cell.ok("job apply -f web.toml --dry-run");
    cell.ok("job apply -f web.toml");
    let web = cell.json("job get web");
    assert_eq!((&web["tasks"]["pending"], &web["version"]), (&4.into(), &1.into()));
    cell.ok("job scale web 0");
    assert_eq!(cell.ok("job kill web"), "job web is killed\n");
    cell.ok("job submit once --count 1 --cpu 1");
    assert_eq!(cell.ok("job scale once 0"), "job once has no task left, and so has ended\n");
}

#[test]
fn a_scheduler_places_and_a_watch_tells_of_it() {
    let cell = Served::new(&[("machines.toml", MACHINES)]);
    cell.ok("machine add -f machines.toml");
    cell.ok("job submit web --count 3 --cpu 0.5 --require rack=a");
    let mut watch = omega(cell.path());
    watch.args(["job", "watch", "web", "--until", "placed", "-o", "json", "--cell", &cell.address]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let pending: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&pending["state"], &pending["machine"]), (&"pending".into(), &Value::Null));
    let mut scheduler = omega(cell.path());
    scheduler.args(["scheduler", "--cell", &cell.address]).stdout(Stdio::null());
    let _scheduler = Process(scheduler.spawn().unwrap());
    let response: Vec<Value> =
        lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(watch.wait().unwrap().success());
    let placed = response.iter().filter(|change| change["state"] == "placed");
    assert!(placed.clone().all(|change| change["machine"].as_str().unwrap().starts_with("a-")));
    assert_eq!(placed.count(), 3);
    let text = cell.ok("job get web");
    assert!(text.contains("tasks       3 placed\n") && !text.contains("to see why"), "{text}");
    let why = cell.ok("job explain web");
    assert_eq!(why, "web does not wait: its tasks are 3 placed\n");
}

#[test]
fn a_policy_is_set_in_part_and_shown() {
    let cell = Served::new(&[]);
    assert_eq!(
        cell.ok("policy set --band -9..-1 --band 100..199 --evictions 20/1m"),
        "the policy is set\n"
    );
    cell.ok("policy set --ttl-after-finished 10m");
    let text = cell.ok("policy get");
    assert!(text.contains("20 in 1m\n") && text.contains("kept for 10m\n"), "{text}");
    let wanted = serde_json::json!({
        "ttl_after_finished_ms": 600_000,
        "bands": [{ "from": -9, "to": -1 }, { "from": 100, "to": 199 }],
        "eviction_cap": { "count": 20, "per_ms": 60_000 },
        "overcommit_max": {},
    });
    assert_eq!(cell.json("policy get"), wanted);
    cell.ok("policy set --overcommit cpu=200");
    assert_eq!(cell.json("policy get")["overcommit_max"], serde_json::json!({ "cpu": 200 }));
    assert!(cell.ok("policy get").contains("cpu up to 200 %"));
    assert!(cell.fails(2, "policy set --overcommit cpu=50").contains("100 to 1000 percent"));
    let why = cell.fails(2, "policy set --overcommit memory=150");
    assert!(why.contains("memory cannot be overcommitted"), "{why}");
    cell.ok("policy set --no-overcommit");
    assert_eq!(cell.json("policy get")["overcommit_max"], serde_json::json!({}));
    assert!(cell.ok("policy get").contains("-9..-1, 100..199"));
    let why = cell.fails(1, "policy set --band 5..4");
    assert!(why.contains("is empty") && why.contains("BAD_POLICY"), "{why}");
    let why = cell.fails(2, "policy set");
    assert!(why.contains("--evictions"), "nothing to set is no change: {why}");
    cell.ok("policy set --no-bands --any-evictions");
    assert_eq!(cell.json("policy get")["eviction_cap"], serde_json::Value::Null);
}

#[test]
fn machines_are_reserved_listed_and_given_back() {
    let cell = Served::new(&[]);
    let create = "reservation create demo --label rack=a --machine m1 --machine m2 --tenant show";
    let made = cell.ok(&format!("{create} --from @4000000000 --for 30m"));
    let expected = "reservation demo is made; no machine matches now\n\
        warning: the cell has no tenant \"show\"";
    assert!(made.starts_with(expected), "{made}");
    cell.ok(&format!("{create} --from @4000000000 --for 30m"));
    let why = cell.fails(1, &format!("{create} --from @4000000000 --for 1h"));
    assert!(why.contains("NAME_TAKEN"), "{why}");
    let why = cell.fails(1, "reservation create none --machine m1 --tenant t --for 0s");
    assert!(why.contains("before it begins") && why.contains("BAD_RESERVATION"), "{why}");
    let wanted = serde_json::json!([{
        "name": "demo",
        "machines": "rack=a, name=m1|m2",
        "tenants": ["show"],
        "from_ms": 4_000_000_000_000u64,
        "until_ms": 4_000_001_800_000u64,
        "begun": false,
    }]);
    assert_eq!(cell.json("reservation list"), wanted);
    cell.fails(2, "reservation create all --tenant show --for 1h");
    assert_eq!(cell.ok("reservation delete demo"), "reservation demo is ended\n");
    let why = cell.fails(1, "reservation delete demo");
    assert!(why.contains("UNKNOWN_RESERVATION"), "{why}");
    assert_eq!(cell.json("reservation list"), serde_json::json!([]));
}

#[test]
fn a_cell_is_described_and_its_members_are_told() {
    let cell = Served::new(&[("machines.toml", MACHINES)]);
    cell.ok("machine add -f machines.toml");
    let text = cell.ok("cell");
    let expected = "\
machines  3
jobs      0
replicas  none: the cell is in memory only

RESOURCE  CLAIMABLE  CLAIMED      FREE  TAKEN
cpu              16        0        16    0 %
memory     64.0 GiB      0 B  64.0 GiB    0 %
disk            0 B      0 B       0 B
gpu               2        0         2    0 %
";
    assert!(text.ends_with(expected), "{text}");
    assert_eq!(cell.json("cell")["resources"]["cpu"]["claimable"], 16_000);
    for line in
        ["member list", "member add 4", "member promote r4", "member remove 1", "member transfer 2"]
    {
        assert!(cell.fails(1, line).ends_with("[NOT_REPLICATED]\n"), "{line}");
    }
}

#[test]
fn a_replica_of_one_tells_of_itself() {
    let dir = folder(&[]);
    let address = format!("127.0.0.1:{}", ports(1)[0]);
    let _server = serve(dir.path(), &["--dir=cell".to_owned(), format!("--listen={address}")]);
    let output = run_omega_at(dir.path(), &address, "member list");
    assert_eq!(
        output.stdout,
        "REPLICA  ROLE   LEADER  LAST CONTACT  DISK  ADDRESS\n\
         r1       voter  yes     now           ok    -\n",
        "{}",
        output.stderr
    );
    let output = run_omega_at(dir.path(), &address, "member add 2 -o json");
    let members: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&members[1]["replica"], &members[1]["role"]), (&2.into(), &"learner".into()));
    let output = run_omega_at(dir.path(), &address, "member remove 2");
    assert_eq!(
        output.stdout,
        "REPLICA  ROLE   LEADER  LAST CONTACT  DISK  ADDRESS\n\
         r1       voter  yes     now           ok    -\n",
        "{}",
        output.stderr
    );
}

#[test]
fn long_lists_come_whole() {
    let many = "[[machine]]\nname = \"m-{n}\"\ncount = 1500\ncapacity = { cpu = 1 }\n";
    let cell = Served::new(&[("many.toml", many)]);
    cell.ok("machine add -f many.toml");
    let listed = cell.json("machine list");
    assert_eq!(listed["items"].as_array().unwrap().len(), 1500);
    assert_eq!(listed["more"], false);
    let cut = cell.ok("machine list --limit 1200");
    assert_eq!(cut.lines().count(), 1 + 1200 + 1);
    assert!(cut.ends_with("more are not shown: raise --limit to see them\n"));
    cell.ok("job submit wide --count 2500 --cpu 0.1");
    assert_eq!(cell.ok("task list --job wide").lines().count(), 1 + 2500);
}

#[test]
fn names_cannot_move_the_cursor() {
    let job = "{\"name\": \"caf\u{e9} \u{202e}gnp\", \"group\": [{\"count\": 1}]}";
    let machine =
        "[[machine]]\nname = \"m\u{fc}\"\ncapacity = {}\nlabels = { k = \"a\u{202e}b\" }\n";
    let cell = Served::new(&[("job.json", job), ("m.toml", machine)]);
    for refused in ["job submit -f job.json", "machine add -f m.toml", "job submit a\u{1b}[31m"] {
        let line = format!("{refused} --cell {}", cell.address);
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = run_omega(cell.path(), &words);
        let is_shown = |hidden| output.stderr.contains(hidden);
        assert!(
            output.code == Some(1) && !is_shown('\u{1b}') && !is_shown('\u{202e}'),
            "{output:?}"
        );
        assert!(output.stderr.ends_with("[BAD_NAME]\n"), "{output:?}");
    }
    cell.ok("job submit caf\u{e9} --count 1");
    assert_eq!(cell.json("job list")["items"][0]["name"], "caf\u{e9}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn what_is_wrong_is_told_in_one_line_before_anything_is_sent() {
    let cell = Served::new(&[
        ("job.toml", "name = \"j\"\n\n[[group]]\ncuont = 3\n"),
        ("job.json", "{\"name\": \"j\", \"group\": [\n  {\"count\": 3, \"requests\": {}}]}"),
        ("amount.toml", "name = \"j\"\n[[group]]\ncount = 1\nrequest = { cpu = \"4GiB\" }\n"),
        ("kind.toml", "name = \"j\"\n[[group]]\ncount = 1\nrequest = { fpga = 1 }\n"),
        (
            "level.toml",
            "name = \"j\"\n[[group]]\ncount = 1\nrules = [{ anti_affinity = { level = \"\" } }]\n",
        ),
        ("broken.toml", "name = \"j\n"),
        ("machines.toml", "[[machine]]\nname = \"m\"\ncount = 2\ncapacity = {}\n"),
        ("taint.toml", "[[machine]]\nname = \"m\"\ncapacity = {}\ntaints = [\"k\"]\n"),
    ]);
    let cases = [
        ("job submit", "<NAME>"),
        ("job submit x -f job.toml", "cannot be used with"),
        ("job submit -f job.toml --count 3", "cannot be used with"),
        ("job submit -f none.toml", "none.toml: cannot be read"),
        ("job submit -f job.toml", "job.toml:4:1: group[0].cuont: unknown field `cuont`"),
        ("job submit -f job.json", "job.json:2:"),
        (
            "job submit -f amount.toml",
            "amount.toml:4: group[0].request.cpu: \"4GiB\" is not valid for this resource kind",
        ),
        (
            "job submit -f kind.toml",
            "kind.toml:4: group[0].request.fpga: the cell has no resource kind \"fpga\"; its kinds are: cpu, memory, disk, gpu",
        ),
        ("job submit -f level.toml", "level.toml:4:"),
        ("job submit -f broken.toml", "broken.toml:1:"),
        ("job submit job.toml", "\"job.toml\" is an existing file: give -f \"job.toml\""),
        ("machine add machines.toml --cpu 1", "is an existing file: give -f \"machines.toml\""),
        ("job submit x --cpu 4cores", "has an unknown unit"),
        ("job submit x --cpu -1", "is negative"),
        ("job submit x --amount fpga=1", "no resource kind \"fpga\""),
        ("job submit x --amount fpga", "must be KIND=AMOUNT"),
        ("job submit x --run-time 30", "must be a time such as"),
        ("job submit x --spread rack", "must be LABEL:SKEW"),
        ("job submit x --label app", "must be key=value"),
        ("job list --limit 0", "0 is not in 1.."),
        ("machine add m --taint k=v", "must be key=value:EFFECT"),
        ("machine add m --devices 33", "33 is not in 0..=32"),
        (
            "machine add -f machines.toml",
            "must contain {n}, so that each of the 2 machines gets \
             its own name",
        ),
        ("machine add -f taint.toml", "taint.toml:4: machine[0].taints[0]: \"k\" must be"),
        ("task list", "--job <NAME>"),
        ("task logs web -o json", "--output: the output of tasks is printed as it is"),
        ("quota set team", "no limit is given"),
        ("member add four", "must be the id of a replica"),
        ("cell -o xml", "invalid value 'xml'"),
        ("cell --timeout 0s", "must be more than 0s"),
        ("cell --cell http://x", "must be an address such as host:port"),
        ("cell --cell http://127.0.0.1:7600", "such as host:port: leave out the scheme"),
        ("cell --cell x/y:7600", "must be an address such as host:port"),
        ("job submit x --cpu abc", "; see omega job submit --help"),
        ("machine drain m --deadline 5", "; see omega machine drain --help"),
        ("scheduler --workers 0", "; see omega scheduler --help"),
        ("job apply web.toml", "(give the file with -f web.toml)"),
        ("task list web", "(give the job with --job web)"),
        ("job list web", "(for one of them: omega job get web)"),
        ("job resize web --count 8", "(COUNT has no flag: omega job resize [NAME] [COUNT])"),
        ("get jobs", "(the object comes before the verb: omega job get)"),
        ("run --cell 127.0.0.1:1", "without --trace, --cell is only for `omega rebalance`"),
        ("explain --cell 127.0.0.1:1", "give the name of one job"),
    ];
    for (line, expected) in cases {
        let output = cell.fails(2, line);
        assert!(output.contains(expected), "{line}: {output}");
    }
    assert_eq!(cell.json("cell")["version"], 1, "that of a new cell");
}

#[test]
fn a_cell_that_does_not_answer_is_told_of_in_time() {
    let dir = folder(&[]);
    let nobody = format!("127.0.0.1:{}", ports(1)[0]);
    let output = run_omega_at(dir.path(), &nobody, "job list --timeout 3s");
    assert_eq!((output.code, output.stderr.lines().count()), (Some(1), 2), "{}", output.stderr);
    assert!(output.stderr.contains("Connection refused: trying for 3s\n"), "{}", output.stderr);
    let expected = format!("cannot connect to {nobody}: Connection refused: start the cell");
    assert!(output.stderr.contains(&expected), "{}", output.stderr);
    assert!(output.stderr.ends_with("[UNREACHABLE]\n"), "{}", output.stderr);
    // This server accepts the connection and sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let output = run_omega_at(dir.path(), &address, "cell --timeout 300ms");
    assert_eq!(output.code, Some(1), "{}", output.stderr);
    assert!(output.stderr.contains("did not answer within 300ms"), "{}", output.stderr);
    // If there are several addresses, the command finds the address that answers.
    let cell = Served::new(&[]);
    let all = format!("{nobody},{address},{}", cell.address);
    let output = run_omega_at(dir.path(), &all, "machine list");
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn addresses_that_are_not_for_commands_are_told_with_the_remedy() {
    let [client, web, peers] = ports(3)[..] else { panic!("three ports") };
    let dir = folder(&[]);
    let arguments = [
        "--dir=r1".to_owned(),
        format!("--listen=127.0.0.1:{client}"),
        format!("--web-listen=127.0.0.1:{web}"),
        "--cell-name=test".to_owned(),
        "--replica=1".to_owned(),
        format!("--peers=1=127.0.0.1:{peers}"),
        "--bootstrap".to_owned(),
    ];
    let _server = serve(dir.path(), &arguments);
    let cases = [
        (
            format!("127.0.0.1:{web}"),
            "is not the address of a cell's API, for example that of its web page",
        ),
        (format!("127.0.0.1:{peers}"), "this address is only for messages between replicas"),
    ];
    for (address, expected) in cases {
        let output = run_omega_at(dir.path(), &address, "machine list");
        assert_eq!((output.code, output.stderr.lines().count()), (Some(1), 1), "{}", output.stderr);
        assert!(output.stderr.contains(expected), "{}", output.stderr);
        assert!(output.stderr.contains("in --listen"), "{}", output.stderr);
    }
}

/// Agents and schedulers keep trying to reach the cell, but report the failure at once.
#[test]
fn processes_tell_at_once_that_they_cannot_reach_the_cell() {
    let dir = folder(&[]);
    let nobody = format!("127.0.0.1:{}", ports(1)[0]);
    for line in ["agent --no-limits", "agent --simulate 2", "scheduler"] {
        let mut command = omega(dir.path());
        command.args(line.split_whitespace()).arg(format!("--cell={nobody}"));
        let mut child = command.stderr(Stdio::piped()).spawn().expect("omega starts");
        let mut response = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut response).unwrap();
        let _process = Process(child);
        assert!(response.contains(&format!("cannot connect to {nobody}")), "{line}: {response}");
        assert!(response.contains("trying again"), "{line}: {response}");
    }
}

#[test]
fn yaml_says_what_json_says() {
    let cell = Served::new(&[("machines.toml", MACHINES)]);
    cell.ok("machine add -f machines.toml");
    cell.ok("job submit yes --count 2 --cpu 0.5 --require rack=a");
    for line in ["machine list", "job get yes", "job explain yes", "task list --job yes", "cell"] {
        let yaml = cell.ok(&format!("{line} -o yaml"));
        let mut both = [serde_saphyr::from_str::<Value>(&yaml).unwrap(), cell.json(line)];
        // The age differs from one call to the next.
        both.iter_mut()
            .for_each(|response| drop(response.as_object_mut().map(|all| all.remove("age_ms"))));
        assert_eq!(both[0], both[1], "{line}");
    }
    cell.ok("job kill yes");
    let output = cell.run_omega("job watch yes -o yaml");
    let why = "job yes: some tasks have failed or were killed (2 killed)";
    assert!(output.code == Some(1) && output.stderr.contains(why), "{}", output.stderr);
    let response = output.stdout;
    assert_eq!(response.matches("---\n").count(), 2, "a document for each change: {response}");
}
