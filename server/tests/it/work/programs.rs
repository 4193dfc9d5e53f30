//! Real programs on a served cell: agents on this computer run processes, and are killed and restarted.
//!
//! The agents run without control groups, because not every computer allows them; `server/agent/src/cgroup.rs` tests
//! control groups.

use crate::kit::cell::{serve, start};
use crate::kit::process::omega;
use crate::kit::programs::Cell;
use crate::kit::wait::until;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const ARRAY: &str = r#"
name = "array"
[[group]]
count = 40
restarts = 100
request = { cpu = 1, memory = "8MiB" }
[group.run]
command = "/bin/sh"
args = ["-c", "sleep 0.1; echo $OMEGA_JOB $OMEGA_CPU_MILLIS > $RESULTS/$OMEGA_TASK_INDEX"]
[group.run.env]
RESULTS = "FOLDER/results"
"#;

const STUBBORN: &str = r#"
name = "stubborn"
kind = "service"
[[group]]
count = 2
grace = "300ms"
request = { cpu = 1 }
ports = [{ number = 47123, name = "http" }]
[group.run]
command = "/bin/sh"
args = ["-c", "trap '' TERM; echo $$ $OMEGA_PORT_HTTP > FOLDER/up-$OMEGA_TASK_INDEX; while :; do sleep 0.1; done"]
"#;

#[test]
fn a_batch_array_survives_the_death_of_agents() {
    let cell = Cell::new(&[("array.toml", ARRAY)]);
    let mut agents = vec![cell.agent("one"), cell.agent("two")];
    cell.served.ok("job submit -f array.toml");
    for finished in [5, 15, 25] {
        until(|| cell.tasks("array", "finished") >= finished);
        // Dropping an agent kills it by SIGKILL.
        drop(agents.remove(0));
        let name = if finished == 15 { "two" } else { "one" };
        agents.push(cell.agent(name));
    }
    until(|| cell.tasks("array", "finished") == 40);
    let results = cell.served.path().join("results");
    for index in 0..40 {
        let text = std::fs::read_to_string(results.join(index.to_string())).unwrap();
        assert_eq!(text, "array 1000\n", "{index}");
    }
    cell.nothing_is_left();
}

#[test]
fn a_second_agent_does_not_take_over_the_machine_of_another() {
    let cell = Cell::new(&[]);
    let mut agent = cell.agent("one");
    until(|| cell.served.ok("machine list").contains("one"));
    let flags = ["agent", "--no-limits", "--cpu=4", "--memory=1GiB", "--name=one", "--dir=other"];
    let second = omega(cell.served.path())
        .args(flags)
        .args(["--cell", &cell.served.address])
        .output()
        .unwrap();
    let why = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{why}");
    assert!(why.contains("machine \"one\" has another agent, which is reachable"), "{why}");
    assert!(agent.0.try_wait().unwrap().is_none(), "the first agent goes on");
    // The folder of the first agent has its id.
    drop(agent);
    let _again = cell.agent("one");
    cell.served.ok("job submit flags --cpu 0.5 -- /bin/true");
    until(|| cell.tasks("flags", "finished") == 1);
}

#[test]
fn a_service_is_found_again_and_stopped_for_good() {
    let cell = Cell::new(&[("stubborn.toml", STUBBORN)]);
    let agents = [cell.agent("one"), cell.agent("two")];
    cell.served.ok("job submit -f stubborn.toml");
    let output = |index: u32| {
        let file = cell.served.path().join(format!("up-{index}"));
        std::fs::read_to_string(file).unwrap_or_default()
    };
    until(|| (0..2).all(|index| output(index).ends_with(" 47123\n")));
    until(|| cell.tasks("stubborn", "running") == 2);
    let before = [output(0), output(1)];
    drop(agents);
    let _agents = [cell.agent("one"), cell.agent("two")];
    until(|| cell.tasks("stubborn", "running") == 2);
    assert_eq!([output(0), output(1)], before, "the same processes run");
    cell.served.ok("job kill stubborn");
    cell.nothing_is_left();
}

#[test]
fn a_job_of_flags_runs_its_command() {
    let cell = Cell::new(&[]);
    let _agent = cell.agent("one");
    let script = "test $OMEGA_TASK_INDEX = 0 -a $MODE = a=b || exit 7";
    let mut command = omega(cell.served.path());
    command.args(["job", "submit", "flags", "--cpu", "0.5", "--env", "MODE=a=b", "--"]);
    command.args(["/bin/sh", "-c", script]).env("OMEGA_CELL", &cell.served.address);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    until(|| cell.tasks("flags", "finished") == 1);
    assert!(cell.served.ok("job get flags").contains("runs /bin/sh -c test $OMEGA_TASK_INDEX"));
    cell.served.ok("job submit none --cpu 1");
    until(|| cell.tasks("none", "failed") == 1);
    cell.served.ok("job submit missing --cpu 1 -- /no/such/program");
    until(|| cell.tasks("missing", "failed") == 1);
    let why = cell.served.fails(1, "job submit bad --cpu 1 --env OMEGA_JOB=x -- true");
    assert!(why.contains("because agents set"), "{why}");
    cell.nothing_is_left();
}

/// Uses 0.3 seconds of processor time, and lives for at least two seconds.
const BURNING: &str = "import time
while time.process_time() < 0.3: pass
time.sleep(2)";

#[test]
fn what_a_program_was_allocated_and_used_is_in_the_log() {
    let dir = crate::kit::process::folder(&[]);
    let address = format!("127.0.0.1:{}", omega_tests::ports::ports(1)[0]);
    let arguments = ["--dir=r1", &format!("--listen={address}")];
    let _server = serve(dir.path(), &arguments.map(str::to_owned));
    let _scheduler = start(dir.path(), &["scheduler", "--cell", &address]);
    let agent = ["agent", "--no-limits", "--heartbeat=1", "--cell", &address, "--dir", "box"];
    let _agent = start(dir.path(), &agent);
    let mut submit = omega(dir.path());
    submit.args(["job", "submit", "nap", "--cpu", "0.5", "--memory", "8MiB", "--"]);
    submit.args(["/usr/bin/env", "python3", "-c", BURNING]);
    assert!(submit.env("OMEGA_CELL", &address).status().unwrap().success());
    // The folder is in use, so a copy is read. It may miss a file that the replica just removed.
    let rows = |copy: &Path| {
        let output = omega(dir.path()).arg("accounting").arg(copy).args(["-o", "csv"]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let head = "hour,tenant,job,id,started,finished,failed,cpu_seconds,memory_byte_seconds,\
                    used_cpu_seconds,used_memory_byte_seconds";
        assert_eq!(text.lines().next(), Some(head));
        let row = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        text.lines().skip(1).map(row).collect::<Vec<_>>()
    };
    let sum = |rows: &[Vec<String>], column: usize| -> f64 {
        rows.iter().map(|row| row[column].parse::<f64>().unwrap()).sum()
    };
    until(|| {
        let copy = tempfile::tempdir().unwrap();
        let mut command = Command::new("cp");
        let copied = command.arg("-r").arg(dir.path().join("r1")).arg(copy.path());
        let copied = copied.status().unwrap();
        let rows = if copied.success() { rows(&copy.path().join("r1")) } else { Vec::new() };
        // The use since the last report is reported after the end.
        if sum(&rows, 5) < 1.0 || sum(&rows, 9) < 0.25 {
            return false;
        }
        assert_eq!((sum(&rows, 4), sum(&rows, 5), sum(&rows, 6)), (1.0, 1.0, 0.0), "{rows:?}");
        assert!(rows.iter().all(|row| row[2] == "nap"), "{rows:?}");
        // Half a core for two seconds. The recorded time may be shorter, because the cell's time advances in steps.
        let (cpu, memory) = (sum(&rows, 7), sum(&rows, 8));
        let of_cpu = cpu * f64::from(16 << 20);
        assert!(cpu >= 0.5 && (memory - of_cpu).abs() < 20_000.0, "{rows:?}");
        let (used_cpu, used_memory) = (sum(&rows, 9), sum(&rows, 10));
        assert!(used_cpu < 1.0 && used_memory > f64::from(1 << 20), "{rows:?}");
        true
    });
}

const TALKER: &str = r#"
name = "talker"
[[group]]
count = 1
request = { cpu = 1 }
[group.run]
command = "/bin/sh"
args = ["-c", "for i in 1 2 3; do echo line $i; done; echo oops >&2; until test -e FOLDER/gate; do sleep 0.1; done; echo last"]
"#;

#[test]
fn output_is_read_through_the_cell() {
    let cell = Cell::new(&[("talker.toml", TALKER)]);
    let _agents = [cell.agent("one"), cell.agent("two")];
    let why = cell.served.fails(1, "task logs talker/0");
    assert!(why.contains("there is no job"), "{why}");
    cell.served.ok("job submit -f talker.toml");
    until(|| cell.tasks("talker", "running") == 1);
    until(|| cell.served.ok("task logs talker/0 --stdout") == "line 1\nline 2\nline 3\n");
    assert_eq!(cell.served.ok("task logs talker/0 --stdout --tail 1"), "line 3\n");
    until(|| cell.served.ok("task logs talker/0 --stderr") == "oops\n");
    let both = cell.served.run_omega("task logs talker/0 --tail 2");
    assert_eq!((&*both.stdout, &*both.stderr), ("line 2\nline 3\n", "oops\n"));
    let mut follow = omega(cell.served.path());
    follow.args(["task", "logs", "talker/0", "-f", "--tail", "2"]);
    follow.env("OMEGA_CELL", &cell.served.address).stdout(std::process::Stdio::piped());
    let followed = follow.spawn().unwrap();
    std::fs::write(cell.served.path().join("gate"), "").unwrap();
    let output = followed.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // A fast task may have written its last line before the command began to follow the output.
    assert!(["line 2\nline 3\nlast\n", "line 3\nlast\n"].contains(&text.as_str()), "{text}");
    until(|| cell.tasks("talker", "finished") == 1);
    let all = cell.served.run_omega("task logs talker/0");
    assert!(all.stdout.ends_with("last\n"), "it is kept after the end: {}", all.stdout);
    let of_job = cell.served.run_omega("task logs talker -f --tail 1");
    let lines = ("talker/0 | last\n", "talker/0 | oops\n");
    assert_eq!((&*of_job.stdout, &*of_job.stderr), lines, "the job has ended");
    let why = cell.served.fails(1, "task logs talker/7");
    assert!(why.contains("there is no task"), "{why}");
}

const UNLUCKY: &str = r#"
name = "unlucky"
[[group]]
count = 1
restarts = 1
request = { cpu = 1 }
[group.run]
command = "/bin/sh"
args = ["-c", "exit 3"]
restart = { attempts = 1, delay = "100ms" }
"#;

/// A batch task that takes its time to end with 0 after a stop, or does not end at all.
const STOPPED: &str = r#"
name = "JOB"
[[group]]
count = 1
grace = "GRACE"
request = { cpu = 1 }
[group.run]
command = "/bin/sh"
args = ["-c", "trap 'TRAP' TERM; echo run >> FOLDER/JOB-runs; until test -e FOLDER/gate; do sleep 0.05; done"]
"#;

/// A stopped task that is placed on its machine again, even before its process has ended, has not finished.
#[test]
fn a_stopped_task_runs_again_on_the_same_machine() {
    let job = |name: &str, grace: &str, trap: &str| {
        let job = STOPPED.replace("JOB", name).replace("GRACE", grace);
        job.replace("TRAP", trap)
    };
    let tidy = job("tidy", "1h", "sleep 0.5; exit 0");
    let stubborn = job("stubborn", "300ms", "");
    let cell = Cell::new(&[("tidy.toml", &tidy), ("stubborn.toml", &stubborn)]);
    let _agent = cell.agent("one");
    let names = ["tidy", "stubborn"];
    let runs = |name: &str| {
        let file = cell.served.path().join(format!("{name}-runs"));
        std::fs::read_to_string(file).unwrap_or_default().lines().count()
    };
    let have_run = |times: usize| until(|| names.iter().all(|name| runs(name) == times));
    for name in names {
        cell.served.ok(&format!("job submit -f {name}.toml"));
    }
    until(|| names.iter().all(|name| cell.tasks(name, "running") == 1));
    have_run(1);
    for times in 2..4 {
        cell.served.ok("machine drain one --deadline 0s");
        until(|| names.iter().all(|name| cell.tasks(name, "pending") == 1));
        cell.served.ok("machine uncordon one");
        have_run(times);
        names.iter().for_each(|name| assert_eq!(cell.tasks(name, "finished"), 0, "{name}"));
    }
    std::fs::write(cell.served.path().join("gate"), "").unwrap();
    until(|| names.iter().all(|name| cell.tasks(name, "finished") == 1));
    cell.nothing_is_left();
}

#[test]
fn what_happened_is_told_with_reasons() {
    let cell = Cell::new(&[("unlucky.toml", UNLUCKY)]);
    let _agent = cell.agent("one");
    cell.served.ok("job submit -f unlucky.toml");
    until(|| cell.tasks("unlucky", "failed") == 1);
    let history = cell.served.json("job history unlucky");
    let items = history["items"].as_array().unwrap();
    let events: Vec<&str> = items.iter().map(|one| one["event"].as_str().unwrap()).collect();
    let run = ["placed", "started", "restarted"];
    let expected = [&["submitted"], &run[..], &["requeued"], &run[..], &["failed", "ended"]];
    assert_eq!(events, expected.concat());
    let end = |event: &str| items.iter().rfind(|one| one["event"] == event).unwrap()["end"].clone();
    let exit = |restarts: u32| serde_json::json!({ "reason": "exit_code", "number": 3, "message": null, "restarts": restarts });
    assert_eq!([end("restarted"), end("requeued"), end("failed")], [exit(0), exit(1), exit(1)]);
    let task = cell.served.json("task get unlucky/0");
    assert_eq!((&task["task"], &task["state"]), (&"unlucky/0".into(), &"failed".into()));
    assert_eq!((&task["restarts"], &task["last_end"]), (&3.into(), &exit(1)));
    let table = cell.served.ok("task get unlucky/0");
    assert!(table.contains("last end  exit code 3\n"), "{table}");
    assert!(table.contains("failed     on one: exit code 3, after 1 restart\n"), "{table}");
    assert!(cell.served.ok("task list --job unlucky").contains("RESTARTS"));
    assert!(cell.served.ok("machine get one").contains("registered"));
    let why = cell.served.fails(1, "task get unlucky/1");
    assert!(why.contains("there is no task unlucky/1"), "{why}");
    cell.served.ok("job submit absent --cpu 1 -- /no/such/program");
    until(|| cell.tasks("absent", "failed") == 1);
    let history = cell.served.ok("job history absent");
    assert!(history.contains("not started: /no/such/program: No such file"), "{history}");
}

const ROGUE: &str = r#"
name = "rogue"
[[group]]
request = { cpu = 1 }
[group.run]
command = "/bin/sh"
args = ["-c", "echo run >> FOLDER/runs; P=$PPID; env -i setsid /bin/sh -c \"kill -9 $P; while :; do sleep 0.1; done\" stray=FOLDER & wait"]
"#;

#[test]
fn a_task_that_kills_its_supervisor_is_delayed_and_leaves_nothing() {
    let cell = Cell::new(&[("rogue.toml", ROGUE)]);
    let _agent = cell.agent("one");
    let runs = || {
        let runs = std::fs::read_to_string(cell.served.path().join("runs"));
        runs.unwrap_or_default().lines().count()
    };
    let begin = Instant::now();
    cell.served.ok("job submit -f rogue.toml");
    until(|| runs() >= 3);
    assert!(begin.elapsed() >= Duration::from_secs(3), "delays of one and two seconds");
    until(|| cell.served.json("task get rogue/0")["restarts"].as_u64().unwrap() >= 3);
    let history = cell.served.ok("job history rogue");
    assert!(history.contains("supervisor lost"), "{history}");
    cell.served.ok("job kill rogue");
    until(|| !is_an_argument(cell.served.path()));
}

const HASTY: &str = r#"
name = "hasty"
kind = "service"
[[group]]
restarts = 2
request = { cpu = 1 }
[group.run]
command = "/bin/sh"
args = ["-c", "echo run >> FOLDER/runs; exit 1"]
"#;

#[test]
fn a_program_that_fails_at_once_is_placed_again_but_delayed() {
    let cell = Cell::new(&[("hasty.toml", HASTY)]);
    let _agent = cell.agent("one");
    let begin = Instant::now();
    cell.served.ok("job submit -f hasty.toml");
    until(|| cell.tasks("hasty", "failed") == 1);
    assert!(begin.elapsed() >= Duration::from_secs(3), "delays of one and two seconds");
    let runs = std::fs::read_to_string(cell.served.path().join("runs")).expect("it has run");
    assert_eq!(runs.lines().count(), 3);
}

#[test]
fn a_service_that_ends_has_failed() {
    let cell = Cell::new(&[]);
    let _agent = cell.agent("one");
    cell.served.ok("job submit web --service --cpu 1 -- /bin/true");
    until(|| cell.tasks("web", "failed") == 1);
    let history = cell.served.ok("job history web");
    assert!(history.contains("on one: exit code 0"), "{history}");
}

#[test]
fn a_fault_of_the_machine_does_not_fail_a_task() {
    let cell = Cell::new(&[]);
    let _agent = cell.agent("one");
    // A file is in the place of the folder of all tasks.
    let folder = cell.served.path().join("one");
    let (tasks, away) = (folder.join("tasks"), folder.join("away"));
    std::fs::rename(&tasks, &away).unwrap();
    std::fs::write(&tasks, "").unwrap();
    cell.served.ok("job submit sum --cpu 1 -- /bin/true");
    until(|| cell.served.ok("job history sum").contains("lost"));
    assert_eq!(cell.tasks("sum", "failed"), 0);
    std::fs::remove_file(&tasks).unwrap();
    std::fs::rename(away, tasks).unwrap();
    until(|| cell.tasks("sum", "finished") == 1);
}

/// A mounted file system, which is unmounted at the end.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_machine_with_a_full_disk_gets_no_tasks_until_there_is_room() {
    let cell = Cell::new(&[]);
    let folder = cell.served.path().join("one");
    std::fs::create_dir(&folder).unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&folder);
    if !mount.output().is_ok_and(|output| output.status.success()) {
        println!("skipped: nothing can be mounted here");
        return;
    }
    let _mounted = Mounted(folder.clone());
    let _agent = cell.agent("one");
    let fill = folder.join("fill");
    let mut file = File::create(&fill).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    cell.served.ok("job submit sum --cpu 1 -- /bin/true");
    let is_full = || cell.served.ok("machine get one").contains("omega.io/disk-full:NoSchedule");
    until(is_full);
    assert_eq!(cell.tasks("sum", "finished"), 0);
    drop(file);
    std::fs::remove_file(fill).unwrap();
    until(|| cell.tasks("sum", "finished") == 1);
    assert!(!is_full());
    assert_eq!(cell.tasks("sum", "failed"), 0);
}

/// Whether any process has an argument `stray=PATH` with a path in this folder.
fn is_an_argument(folder: &Path) -> bool {
    let mark = format!("stray={}", folder.display());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let arguments = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    arguments.into_iter().any(|bytes| String::from_utf8_lossy(&bytes).contains(&mark))
}

#[test]
fn two_agents_do_not_share_a_folder_and_limits_are_not_left_out_silently() {
    let cell = Cell::new(&[]);
    let _agent = cell.agent("one");
    let why = cell.served.fails(1, "agent --no-limits --name other --dir one");
    assert!(why.contains("another agent uses this folder"), "{why}");
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        let why = cell.served.fails(2, "agent --name other --dir other");
        assert!(why.contains("--no-limits"), "{why}");
    }
}
