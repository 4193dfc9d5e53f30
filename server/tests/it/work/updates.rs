//! Services that are updated from one version to the next: real web servers under load, without a failed request.

use crate::kit::programs::Cell;
use crate::kit::wait::until;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A web server that answers with its version. After it is told to stop, it accepts requests for some time, as a load
/// balancer needs, and until the load has looked up the running tasks again (see [`Rounds`]).
pub(crate) const SERVER: &str = r#"
import http.server, os, signal, sys, threading, time
last = [time.monotonic()]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        last[0] = time.monotonic()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
def rounds():
    try:
        return os.path.getsize(f"{sys.argv[2]}/rounds")
    except FileNotFoundError:
        return None
def may_be_asked(first):
    now = rounds()
    return None not in (first, now) and now < first + 2
def drain():
    first, last[0] = rounds(), time.monotonic()
    while time.monotonic() - last[0] < 2 or may_be_asked(first):
        time.sleep(0.1)
    server.shutdown()
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=drain).start())
port = f"{sys.argv[2]}/port-{os.environ['OMEGA_TASK_INDEX']}"
with open(port + ".new", "w") as file:
    file.write(str(server.server_address[1]))
os.rename(port + ".new", port)
server.serve_forever()
"#;

pub(crate) const JOB: &str = r#"
name = "web"
kind = "service"

[update]
min_healthy_time = "500ms"
on_failure = "rollback"

[[group]]
count = 3
request = { cpu = 0.5, memory = "32MiB" }
grace = "5m"

[group.run]
command = "PYTHON"
args = ["FOLDER/server.py", "VERSION", "FOLDER"]
health = { command = ["/bin/sh", "-c", "test -e FOLDER/port-$OMEGA_TASK_INDEX"], interval = "200ms", start_period = "1m" }
"#;

/// Rounds of requests to all running tasks, in a file that has one byte for each round. So servers accept requests
/// until the round in which they were told to stop is over, however long a busy computer takes for it.
pub(crate) struct Rounds(PathBuf);

impl Rounds {
    pub(crate) fn begin(folder: &Path) -> Rounds {
        let file = folder.join("rounds");
        std::fs::write(&file, "").unwrap();
        Rounds(file)
    }

    pub(crate) fn count(&self) {
        let mut file = File::options().append(true).open(&self.0).unwrap();
        file.write_all(b".").unwrap();
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        // Without the file, servers wait for no more rounds.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The commands of a block of the page, without the prompts.
fn commands_of_the_page(heading: &str) -> Vec<String> {
    let page = include_str!("../../../../docs/run-programs.md");
    let (_, section) = page.split_once(heading).expect("the page has the section");
    let (_, block) = section.split_once("```console\n").expect("it has commands");
    let (block, _) = block.split_once("```").expect("they end");
    let lines = block.lines().filter_map(|line| line.strip_prefix("$ omega "));
    lines.map(str::to_owned).collect()
}

/// The path of Python. Without one, the test is skipped.
pub(crate) fn python() -> Option<String> {
    let result = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    match result {
        Ok(result) => Some(String::from_utf8(result.stdout).unwrap().trim().to_owned()),
        Err(_) => {
            println!("skipped: python3 not found");
            None
        }
    }
}

/// Sends a request to a running task, and returns the body of its answer. Fails if the task or its port is gone, or the
/// answer's status is not 200.
pub(crate) fn request(folder: &Path, task: &str) -> Result<String, String> {
    let (_, index) = task.rsplit_once('/').expect("a task has an index");
    let file = folder.join(format!("port-{index}"));
    let port = std::fs::read_to_string(&file).map_err(|why| format!("{task}: {why}"))?;
    let ask = || {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}"))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    let text = ask().map_err(|why| format!("{task} at {port}: {why}"))?;
    match text.split_once("\r\n\r\n") {
        Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
        _ => Err(format!("{task}: {text:?}")),
    }
}

/// The running tasks, found as a load balancer would find them.
fn running(cell: &Cell) -> Vec<String> {
    let listed = cell.served.json("task list --job web");
    let tasks = listed["items"].as_array().cloned().unwrap_or_default();
    let runs = |task: &&Value| task["state"] == "running";
    tasks.iter().filter(runs).filter_map(|task| Some(task["task"].as_str()?.to_owned())).collect()
}

/// Answers of all running tasks.
fn answers(cell: &Cell) -> Vec<String> {
    running(cell).iter().map(|task| request(cell.served.path(), task).unwrap()).collect()
}

#[test]
fn a_web_server_is_updated_under_load_without_a_failed_request() {
    let Some(python) = python() else { return };
    let version = |version: &str| JOB.replace("VERSION", version).replace("PYTHON", python.trim());
    let (one, two) = (version("one"), version("two"));
    let bad = two.replace(python.trim(), "/bin/false");
    let files = [("server.py", SERVER), ("one.toml", &one), ("web.toml", &two), ("bad.toml", &bad)];
    let cell = Arc::new(Cell::new(&files));
    let _agents = [cell.agent("one"), cell.agent("two")];
    let created = cell.served.ok("job apply -f one.toml --wait");
    assert_eq!(created, "job web is created: 3 tasks\n");
    assert_eq!(answers(&cell), ["one"; 3]);

    let (stop, requested) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let load = {
        let (cell, stop, requested) = (cell.clone(), stop.clone(), requested.clone());
        std::thread::spawn(move || {
            let (mut failed, rounds) = (Vec::new(), Rounds::begin(cell.served.path()));
            while !stop.load(Ordering::Relaxed) {
                for task in running(&cell) {
                    failed.extend(request(cell.served.path(), &task).err());
                    requested.fetch_add(1, Ordering::Relaxed);
                }
                rounds.count();
            }
            failed
        })
    };
    let so_far = || requested.load(Ordering::Relaxed);
    until(|| so_far() > 10);

    let [dry_run, apply, versions, rollback] = &commands_of_the_page("## Update")[..] else {
        panic!("the page has four commands")
    };
    let response = cell.served.ok(dry_run);
    assert_eq!(
        response,
        "job web would be updated to version 1\n  group main: 3 tasks, all replaced: run\n"
    );
    assert_eq!(answers(&cell), ["one"; 3], "nothing was changed");
    cell.served.ok(apply);
    assert_eq!(answers(&cell), ["two"; 3]);
    let listed = cell.served.ok(versions);
    assert!(listed.contains("as submitted") && listed.contains("main: run"), "{listed}");

    // A version that fails is rolled back.
    let why = cell.served.run_omega("job apply -f bad.toml --wait");
    assert_eq!(why.code, Some(1), "{}", why.stderr);
    assert!(why.stderr.contains("version 2 failed (web/"), "{}", why.stderr);
    assert!(why.stderr.contains(": exit code 1), and was rolled back"), "{}", why.stderr);
    until(|| cell.served.json("job get web")["version"] == 3);
    until(|| cell.served.json("job get web")["update"] == "complete");
    assert_eq!(answers(&cell), ["two"; 3]);

    let listed = cell.served.json("job versions web");
    let results = [1, 2, 3].map(|version: usize| listed[version]["result"].clone());
    assert_eq!(results, ["complete", "failed", "complete"]);
    assert_eq!(listed[3]["content_of"], 1);
    let history = cell.served.ok("job history web");
    assert!(history.contains("update failed"), "{history}");

    cell.served.ok("job rollback web --to 0 --wait");
    assert_eq!(answers(&cell), ["one"; 3]);
    let again = cell.served.ok("job rollback web --to 0 --wait");
    assert_eq!(again, "job web is unchanged: version 4 has the content of version 0\n");
    // By default, the rollback returns to version 3, whose content is that of version 1.
    cell.served.ok(rollback);
    let end = so_far();
    until(|| so_far() > end + 10);
    stop.store(true, Ordering::Relaxed);
    assert_eq!(load.join().unwrap(), [""; 0], "of {} requests", so_far());
    assert_eq!(answers(&cell), ["two"; 3]);
    cell.served.ok("job delete web");
    cell.nothing_is_left();
}

const ALONE: &str = r#"
name = "alone"
kind = "service"
update = { max_unavailable = 1, min_healthy_time = "2s", on_failure = "rollback" }
[[group]]
count = 1
request = { cpu = 1 }
run = { command = "/bin/sh", args = ["-c", "PROGRAM"] }
"#;

#[test]
fn a_service_whose_only_task_fails_in_an_update_is_rolled_back() {
    let job = |program: &str| ALONE.replace("PROGRAM", program);
    let (good, bad) = (job("exec sleep 1000"), job("exit 5"));
    let cell = Cell::new(&[("good.toml", &good), ("bad.toml", &bad)]);
    let _agent = cell.agent("one");
    cell.served.ok("job apply -f good.toml --wait");
    let why = cell.served.run_omega("job apply -f bad.toml --wait");
    assert_eq!(why.code, Some(1), "{}", why.stderr);
    assert!(why.stderr.contains("and was rolled back"), "{}", why.stderr);
    until(|| cell.served.json("job get alone")["update"] == "complete");
    assert_eq!(cell.tasks("alone", "running"), 1);
    let listed = cell.served.json("job versions alone");
    let results = [1, 2].map(|version: usize| listed[version]["result"].clone());
    assert_eq!(results, ["failed", "complete"]);
    cell.served.ok("job delete alone");
    cell.nothing_is_left();
}

const SLEEPERS: &str = r#"
[[job]]
name = "up"
kind = "service"
[[job.group]]
count = 3
request = { cpu = 1 }
run = { command = "/bin/sleep", args = ["1000"] }

[[job]]
name = "each"
kind = "service"
[[job.group]]
per_machine = true
request = { cpu = 0.1 }
run = { command = "/bin/sleep", args = ["1000"] }

[[job]]
name = "batch"
[[job.group]]
count = 1
machine = "one"
request = { cpu = 0.1 }
run = { command = "/bin/sleep", args = ["1000"] }
"#;

#[test]
fn a_restarted_service_has_new_tasks_and_the_same_file() {
    let cell = Cell::new(&[("jobs.toml", SLEEPERS)]);
    let _agents = [cell.agent("one"), cell.agent("two")];
    cell.served.ok("job apply -f jobs.toml");
    until(|| cell.tasks("up", "running") == 3 && cell.tasks("each", "running") == 2);
    let file = cell.served.ok("job get up -o toml");
    let tasks = || -> Vec<String> {
        let listed = cell.served.json("task list --job up --state running");
        let tasks = listed["items"].as_array().cloned().unwrap_or_default();
        tasks.iter().filter_map(|task| Some(task["task"].as_str()?.to_owned())).collect()
    };
    let before = tasks();
    let response = cell.served.ok("job restart up --wait");
    assert_eq!(response, "job up restarts as version 1: 3 tasks\n");
    let after = tasks();
    assert_eq!((before.len(), after.len()), (3, 3));
    assert!(after.iter().all(|task| !before.contains(task)), "{after:?}");
    let versions = cell.served.ok("job versions up");
    assert!(versions.contains("restarted with the content of version 0"), "{versions}");

    // The label of the restart is no content: neither a file nor a user's change removes it.
    assert_eq!(cell.served.ok("job get up -o toml"), file);
    std::fs::write(cell.served.path().join("up.toml"), &file).unwrap();
    assert_eq!(cell.served.ok("job apply -f up.toml"), "job up is unchanged\n");
    assert_eq!(cell.served.ok("job submit -f up.toml"), "job up is unchanged\n");
    let fewer = file.replace("count = 3", "count = 2");
    std::fs::write(cell.served.path().join("up.toml"), fewer).unwrap();
    let response = cell.served.ok("job apply -f up.toml --wait");
    assert!(response.ends_with("group main: resized, 3 to 2 tasks\n"), "{response}");
    assert!(tasks().iter().all(|task| after.contains(task)), "none was restarted");
    let why = cell.served.fails(1, "job rollback up");
    assert!(why.contains("`omega job restart up`"), "{why}");

    cell.served.ok("job restart each --wait");
    assert_eq!(cell.tasks("each", "running"), 2);
    let why = cell.served.run_omega("job restart batch");
    assert_eq!(why.code, Some(1), "{}", why.stdout);
    assert!(why.stderr.contains("`omega job delete batch`"), "{}", why.stderr);
    for job in ["up", "each", "batch"] {
        cell.served.ok(&format!("job delete {job}"));
    }
    cell.nothing_is_left();
}

#[test]
fn a_machine_is_emptied_and_new_ones_get_their_tasks() {
    let cell = Cell::new(&[("jobs.toml", SLEEPERS)]);
    let mut agents = vec![cell.agent("one"), cell.agent("two")];
    cell.served.ok("job apply -f jobs.toml");
    let again = cell.served.ok("job apply -f jobs.toml");
    assert_eq!(again, "job up is unchanged\njob each is unchanged\njob batch is unchanged\n");
    until(|| cell.tasks("up", "running") == 3 && cell.tasks("batch", "running") == 1);
    until(|| cell.tasks("each", "running") == 2);
    agents.push(cell.agent("three"));
    until(|| cell.tasks("each", "running") == 3);

    let on = |machine: &str| -> Vec<String> {
        let listed = cell.served.json(&format!("task list --machine {machine}"));
        let tasks = listed["items"].as_array().cloned().unwrap_or_default();
        tasks.iter().filter_map(|task| Some(task["task"].as_str()?.to_owned())).collect()
    };
    let drained = cell.served.ok("machine drain one --deadline 1h");
    assert_eq!(drained, "machine one drains, and its tasks move\n");
    until(|| {
        assert!(cell.tasks("up", "running") >= 3, "new tasks run before old ones end");
        on("one").iter().all(|task| !task.starts_with("up/"))
    });
    assert!(on("one").contains(&"batch/0".to_owned()), "it may end until the deadline");
    cell.served.ok("machine drain one --deadline 0s");
    until(|| cell.tasks("batch", "pending") == 1);
    assert_eq!(on("one").len(), 1, "the task of each machine stays");
    let history = cell.served.json("job history batch");
    let events = history["items"].as_array().unwrap();
    let moved = events.iter().find(|event| event["event"] == "moved").expect("it was moved");
    assert_eq!((&moved["machine"], &moved["end"]["reason"]), (&"one".into(), &"stopped".into()));
    assert!(events.iter().all(|event| event["event"] != "lost"), "{events:?}");
    cell.served.ok("machine resume one");
    until(|| cell.tasks("batch", "running") == 1);
    assert_eq!(cell.tasks("up", "running"), 3);
    for job in ["up", "each", "batch"] {
        cell.served.ok(&format!("job delete {job}"));
    }
    cell.nothing_is_left();
}
