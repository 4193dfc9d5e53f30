//! Programs in containers of Podman. The tests are skipped where Podman is not installed or cannot run containers.
//!
//! Each test has its own storage of Podman. The image has a few programs of this computer, with their libraries.

use crate::kit::cell::{Process, Served};
use crate::kit::process::omega;
use crate::kit::programs::{Cell, documented};
use crate::kit::wait::until;
use omega_agent::cgroup::CgroupRoot;
use omega_agent::logs::{self, LogStream};
use omega_agent::{Container, Driver, Event, Exit, ProcessDriver, ProcessSettings, TaskSpec};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const IMAGE: &str = "localhost/tools:1";

/// Programs of the image.
const PROGRAMS: [&str; 6] =
    ["/bin/cat", "/bin/echo", "/bin/id", "/bin/sh", "/bin/sleep", "/bin/kill"];

/// Podman with storage of its own.
struct Podman {
    dir: TempDir,
}

impl Podman {
    /// `None`, after a message, if Podman cannot run containers here.
    fn new() -> Option<Podman> {
        let podman = Podman { dir: tempfile::tempdir().unwrap() };
        let why = match podman.install() {
            Ok(()) => return Some(podman),
            Err(why) => why,
        };
        println!("skipped, because Podman cannot run containers here: {why}");
        None
    }

    /// Configures Podman, and makes the image.
    fn install(&self) -> Result<(), String> {
        let dir = self.dir.path().display();
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{dir}/graph\"\nrunroot = \"{dir}/run\"\n"
        );
        std::fs::write(self.dir.path().join("storage.conf"), storage).unwrap();
        let mut why = String::new();
        // crun, the default on many systems, refuses some combinations of control groups that runc accepts.
        for runtime in ["crun", "runc"] {
            let engine = format!(
                "[engine]\nruntime = \"{runtime}\"\nlock_type = \"file\"\ntmp_dir = \"{dir}/tmp\"\n"
            );
            std::fs::write(self.dir.path().join("containers.conf"), engine).unwrap();
            why = match self.try_to_run() {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
        }
        Err(why)
    }

    fn try_to_run(&self) -> Result<(), String> {
        let listed = Command::new("ldd").args(PROGRAMS).output().map_err(|why| why.to_string())?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let words = listed.split_whitespace().filter(|word| !word.ends_with(':'));
        let libraries: BTreeSet<&str> = words.filter(|word| word.starts_with('/')).collect();
        let files = PROGRAMS.into_iter().chain(libraries);
        let relative = files.map(|path| path.trim_start_matches('/'));
        let mut tar = Command::new("tar");
        tar.current_dir(self.dir.path()).args(["-cf", "image.tar", "--dereference", "-C", "/"]);
        done(tar.args(relative))?;
        let image = self.dir.path().join("image.tar");
        done(self.podman(&["import", "--quiet"]).arg(image).arg(IMAGE))?;
        let limits = ["--ulimit=nofile=256:256", "--ulimit=nproc=256:256", "--network=host"];
        done(self.podman(&["run", "--rm"]).args(limits).args([IMAGE, "/bin/echo", "works"]))
    }

    /// Sets the configuration of Podman in the environment of a command.
    fn configure<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let path = |name: &str| self.dir.path().join(name);
        command.env("CONTAINERS_CONF", path("containers.conf"));
        command.env("CONTAINERS_STORAGE_CONF", path("storage.conf"))
    }

    fn podman(&self, args: &[&str]) -> Command {
        let mut command = Command::new("podman");
        self.configure(command.args(args).stdin(Stdio::null()));
        command
    }

    /// The names of all containers, running or not.
    fn containers(&self) -> String {
        let output = self.podman(&["ps", "--all", "--format={{.Names}}"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Waits until no container is left.
    fn nothing_is_left(&self, cell: &Cell) {
        cell.nothing_is_left();
        until(|| self.containers().is_empty());
    }

    fn agent(&self, cell: &Cell) -> Process {
        let mut command = omega(cell.served.path());
        command.args([
            "agent",
            "--no-limits",
            "--heartbeat=1",
            "--cpu=4",
            "--memory=1GiB",
            "--cell",
        ]);
        command.args([&cell.served.address, "--name=box", "--dir=box"]);
        let mut child = self.configure(command.stdout(Stdio::piped())).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("offers machine"), "{line:?}");
        Process(child)
    }
}

/// Runs a command to its end.
fn done(command: &mut Command) -> Result<(), String> {
    let Output { status, stderr, .. } = command.output().map_err(|why| why.to_string())?;
    let why = || format!("{command:?}: {}", String::from_utf8_lossy(&stderr));
    if status.success() { Ok(()) } else { Err(why()) }
}

fn failed(served: &Served, task: &str) -> String {
    served.ok(&format!("task get {task}"))
}

const GREETING: &str = r#"
name = "greeting"
[[group]]
count = 2
restarts = 100
request = { cpu = 0.5, memory = "64MiB" }
ports = { http = "any" }
required = [{ labels = [{ key = "omega.io/podman", operator = "exists" }] }]
[group.run]
image = "localhost/tools:1"
command = "/bin/sh"
args = ["-c", "echo $OMEGA_JOB/$OMEGA_TASK_INDEX \"$MODE\"; id -u; read line < /data/word; echo $line; echo x > /data/new; test $OMEGA_PORT_HTTP -gt 0"]
env = { MODE = "a  'b' #c" }
user = "65534"
mounts = [{ source = "FOLDER/data", target = "/data", read_only = true }]
"#;

#[test]
fn a_job_runs_in_containers() {
    let Some(podman) = Podman::new() else { return };
    let cell = Cell::new(&[("greeting.toml", GREETING)]);
    std::fs::create_dir(cell.served.path().join("data")).unwrap();
    std::fs::write(cell.served.path().join("data/word"), "from the machine\n").unwrap();
    let agent = podman.agent(&cell);
    cell.served.ok("job submit -f greeting.toml");
    until(|| cell.tasks("greeting", "finished") == 2);
    let log = cell.served.ok("task logs greeting/1 --stdout");
    assert_eq!(log, "greeting/1 a  'b' #c\n65534\nfrom the machine\n");
    let errors = cell.served.ok("task logs greeting/1 --stderr");
    assert!(errors.contains("/data/new"), "the mount is read-only: {errors}");
    let shown = cell.served.ok("job get greeting");
    assert!(shown.contains("runs localhost/tools:1 /bin/sh -c"), "{shown}");
    let again = cell.served.ok("job get greeting -o toml");
    assert!(again.contains("image = \"localhost/tools:1\""), "{again}");
    assert!(again.contains("read_only = true"), "{again}");

    let (documented, _) = documented("omega job submit greeting").remove(0);
    let command = documented.replace("omega ", "").replace("docker.io/library/alpine:3", IMAGE);
    cell.served.ok(&command.replace("greeting", "documented"));
    until(|| cell.tasks("documented", "finished") == 1);
    assert_eq!(cell.served.ok("task logs documented/0"), "hello\n");

    cell.served.ok("job submit words --cpu 0.1 --image localhost/tools:1 -- /bin/echo a b");
    until(|| cell.tasks("words", "finished") == 1);
    assert_eq!(cell.served.ok("task logs words/0"), "a b\n");
    podman.nothing_is_left(&cell);
    drop(agent);
}

#[test]
fn reasons_of_failed_containers_are_told() {
    let Some(podman) = Podman::new() else { return };
    let cell = Cell::new(&[]);
    let _agent = podman.agent(&cell);
    let submit = |name: &str, rest: &str| {
        cell.served.ok(&format!("job submit {name} --cpu 0.1 --image {rest}"));
        until(|| cell.tasks(name, "failed") == 1);
        failed(&cell.served, &format!("{name}/0"))
    };
    let response = submit("code", "localhost/tools:1 -- /bin/cat /no/such/file");
    assert!(response.contains("exit code 1"), "{response}");
    let response = submit("absent", "localhost:1/absent:1 -- /bin/true");
    assert!(response.contains("not started") && response.contains("localhost:1"), "{response}");
    let response = submit("program", "localhost/tools:1 -- /no/such/program");
    assert!(
        response.contains("not started") && response.contains("/no/such/program"),
        "{response}"
    );
    let why = cell.served.fails(1, "job submit option --cpu 0.1 --image=--privileged");
    assert!(why.contains("is no image"), "{why}");
    podman.nothing_is_left(&cell);
}

const SERVICE: &str = r#"
name = "service"
kind = "service"
[[group]]
count = 1
grace = "60s"
restarts = 100
request = { cpu = 0.5, memory = "64MiB" }
[group.run]
image = "localhost/tools:1"
command = "/bin/sh"
args = ["-c", "trap 'echo stopped; echo > /data/stopped' TERM; echo up; echo > /tmp/ready; while test ! -e /data/stopped; do sleep 0.1; done; sleep 0.3"]
mounts = [{ source = "FOLDER/data", target = "/data" }, { source = "FOLDER/tmp", target = "/tmp" }]
health = { command = ["/bin/cat", "/tmp/ready"], interval = "1s", timeout = "20s" }
"#;

#[test]
fn a_container_outlives_its_agent_and_is_stopped_once() {
    let Some(podman) = Podman::new() else { return };
    let cell = Cell::new(&[("service.toml", SERVICE)]);
    for folder in ["data", "tmp"] {
        std::fs::create_dir(cell.served.path().join(folder)).unwrap();
    }
    let agent = podman.agent(&cell);
    cell.served.ok("job submit -f service.toml");
    until(|| cell.tasks("service", "running") == 1);
    let name = podman.containers();
    drop(agent);
    let _agent = podman.agent(&cell);
    until(|| cell.tasks("service", "running") == 1);
    assert_eq!(podman.containers(), name, "the same container runs");
    cell.served.ok("job kill service");
    podman.nothing_is_left(&cell);
    assert_eq!(cell.served.ok("task logs service/0"), "up\nstopped\n");
}

/// The pid of the supervisor of the only task of an agent.
fn supervisor(tasks: &Path) -> Option<String> {
    let task = std::fs::read_dir(tasks).ok()?.next()?.ok()?;
    let journal = std::fs::read_to_string(task.path().join("journal.jsonl")).ok()?;
    let first: serde_json::Value = serde_json::from_str(journal.lines().next()?).ok()?;
    Some(first["supervisor"]["pid"].to_string())
}

#[test]
fn a_container_ends_with_its_supervisor() {
    let Some(podman) = Podman::new() else { return };
    let cell = Cell::new(&[]);
    let _agent = podman.agent(&cell);
    cell.served.ok("job submit long --cpu 0.1 --image localhost/tools:1 -- /bin/sleep 1000");
    until(|| cell.tasks("long", "running") == 1);
    let first = podman.containers();
    let pid = supervisor(&cell.served.path().join("box/tasks")).unwrap();
    done(Command::new("kill").args(["-9", &pid])).unwrap();
    // The task starts again, in a new container.
    until(|| cell.tasks("long", "running") == 1 && podman.containers() != first);
    until(|| !podman.containers().contains(first.trim()));
    cell.served.ok("job kill long");
    podman.nothing_is_left(&cell);
}

/// Runs a task to its end, with limits. Returns the end, and the output.
fn run(podman: &Podman, cgroups: CgroupRoot, folder: &Path, script: &str) -> (Exit, String) {
    let config = |name: &str, file: &str| {
        format!("{name}={}", podman.dir.path().join(file).display()).into()
    };
    let supervisor = vec![
        "env".into(),
        config("CONTAINERS_CONF", "containers.conf"),
        config("CONTAINERS_STORAGE_CONF", "storage.conf"),
        env!("CARGO_BIN_EXE_omega-supervisor").into(),
    ];
    let patience = Duration::from_secs(60);
    let folder = folder.to_owned();
    let settings = ProcessSettings { folder, supervisor, cgroups: Some(cgroups), patience };
    let mut driver = ProcessDriver::new(settings).unwrap();
    let container = Container { image: IMAGE.to_owned(), mounts: Vec::new() };
    let mut spec = TaskSpec {
        id: "9-0".to_owned(),
        command: "/bin/sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        container: Some(container),
        ..TaskSpec::default()
    };
    spec.limits.log_bytes = 10_000;
    spec.limits.memory_bytes = 64 << 20;
    spec.limits.cpu_millis = 500;
    spec.limits.pids = 77;
    driver.start(&spec).unwrap();
    let exit = loop {
        let ended = |event| match event {
            Event::Ended(_, exit) => Some(exit),
            _ => None,
        };
        if let Some(exit) = driver.poll().into_iter().find_map(ended) {
            break exit;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let logs = driver.logs("9-0", "").unwrap();
    let part = logs::read(&logs, LogStream::Stdout, 0, 10_000).unwrap();
    (exit, String::from_utf8(part.bytes).unwrap())
}

#[test]
fn a_container_has_the_limits_of_its_task() {
    let Some(podman) = Podman::new() else { return };
    let group = format!("omega-test-{}", std::process::id());
    let cgroups = match CgroupRoot::at(Path::new(&group)) {
        Ok(cgroups) => cgroups,
        Err(why) => return println!("skipped: {why}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let script = "cd /sys/fs/cgroup; cat memory.max pids.max cpu.max";
    let (exit, limits) = run(&podman, cgroups.clone(), folder.path(), script);
    assert_eq!(exit, Exit::Code(0));
    let limits: Vec<&str> = limits.split_whitespace().collect();
    assert_eq!(limits[..3], ["67108864", "77", "50000"]);
    let greedy = "x=0123456789abcdef; while :; do x=$x$x; done";
    let (exit, _) = run(&podman, cgroups, folder.path(), greedy);
    assert_eq!(exit, Exit::OutOfMemory);
    for folder in ["tasks", "exclusive", ""] {
        let _ = std::fs::remove_dir(Path::new("/sys/fs/cgroup").join(&group).join(folder));
    }
}
