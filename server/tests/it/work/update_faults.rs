//! A rolling update of real web servers under load, while agents and leaders are killed. Leaders run the update
//! controller.

use crate::kit::cell::{Process, Three, run_omega_at, start};
use crate::kit::programs::is_anything_left;
use crate::kit::wait::until;
use crate::work::updates::{JOB, Rounds, SERVER, python, request};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Three replicas, a scheduler, and a folder for the files of tasks.
pub(crate) struct World {
    three: Three,
    pub(crate) folder: PathBuf,
    cell: String,
    /// `None` only while it is started again.
    scheduler: Option<Process>,
}

impl World {
    pub(crate) fn new(files: &[(&str, &str)]) -> World {
        let three = Three::found();
        let (folder, cell) = (three.dir.path().to_owned(), three.addresses());
        for (name, text) in files {
            let text = text.replace("FOLDER", &folder.display().to_string());
            std::fs::write(folder.join(name), text).unwrap();
        }
        let mut world = World { three, folder, cell, scheduler: None };
        world.restart_scheduler();
        world
    }

    /// Kills the scheduler, and starts another one, which waits for the end of the killed one's lease.
    pub(crate) fn restart_scheduler(&mut self) {
        self.scheduler = None;
        let flags = ["scheduler", "--standby", "--lease=5s", "--cell", &self.cell];
        self.scheduler = Some(start(&self.folder, &flags));
    }

    pub(crate) fn agent(&self, name: &str) -> Process {
        let flags = ["agent", "--no-limits", "--heartbeat=1", "--cpu=4", "--memory=1GiB", "--cell"];
        start(&self.folder, &[&flags[..], &[&self.cell, "--name", name, "--dir", name]].concat())
    }

    /// Runs a command until a leader answers it.
    pub(crate) fn ok(&self, line: &str) -> String {
        loop {
            let output = run_omega_at(&self.folder, &self.cell, line);
            match output.code {
                Some(0) => return output.stdout,
                _ => {
                    assert!(output.stderr.contains("does not answer"), "{line}: {}", output.stderr)
                }
            }
        }
    }

    pub(crate) fn job(&self, name: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("job get {name} -o json"))).unwrap()
    }

    /// Number of running tasks of the job's current version.
    fn updated(&self) -> u64 {
        let job = self.job("web");
        let count = |name: &str| job[name].as_u64().unwrap();
        job["tasks"]["running"].as_u64().unwrap().saturating_sub(count("outdated"))
    }

    /// Kills the replica that leads and carries out the update, and starts it again.
    pub(crate) fn kill_leader(&mut self) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let leader = self.three.leader(&runtime);
        self.three.kill(leader);
        // The other replicas elect a new leader before the killed one is back.
        until(|| self.three.leader(&runtime) != leader);
        self.three.start(leader, &[]);
    }

    /// Kills all replicas, and starts them again after `meanwhile`.
    pub(crate) fn without_replicas(&mut self, meanwhile: impl FnOnce()) {
        (1..=3).for_each(|id| self.three.kill(id));
        meanwhile();
        (1..=3).for_each(|id| self.three.start(id, &[]));
    }
}

/// The tasks that run, as a load balancer would look them up; none while no replica answers.
fn running(folder: &Path, cell: &str) -> Vec<String> {
    let output = run_omega_at(folder, cell, "task list --job web -o json");
    let listed: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
    let tasks = listed["items"].as_array().cloned().unwrap_or_default();
    let runs = |task: &&Value| task["state"] == "running";
    tasks.iter().filter(runs).filter_map(|task| Some(task["task"].as_str()?.to_owned())).collect()
}

/// Requests to all running tasks, which are repeated until `stop` is set.
struct Load {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<Vec<String>>,
}

impl Load {
    fn start(world: &World) -> Load {
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (folder, cell) = (world.folder.clone(), world.cell.clone());
        let (is_over, count) = (stop.clone(), asked.clone());
        let thread = std::thread::spawn(move || {
            let (mut failed, rounds) = (Vec::new(), Rounds::begin(&folder));
            while !is_over.load(Ordering::Relaxed) {
                for task in running(&folder, &cell) {
                    failed.extend(request(&folder, &task).err());
                    count.fetch_add(1, Ordering::Relaxed);
                }
                rounds.count();
            }
            failed
        });
        Load { stop, asked, thread }
    }

    /// Waits for more requests.
    fn more(&self) {
        let before = self.asked.load(Ordering::Relaxed);
        until(|| self.asked.load(Ordering::Relaxed) > before + 5);
    }

    /// Ends the load, and returns the failed requests.
    fn end(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Processes of web servers of this folder.
fn servers(folder: &Path) -> usize {
    let script = folder.join("server.py").display().to_string();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    // The supervisor of a task has other arguments.
    let of_script =
        |line: &Vec<u8>| line.split(|byte| *byte == 0).nth(1) == Some(script.as_bytes());
    lines.filter(of_script).count()
}

#[test]
fn an_update_ends_without_a_failed_request_while_leaders_and_agents_are_killed() {
    let Some(python) = python() else { return };
    let version = |version: &str| JOB.replace("VERSION", version).replace("PYTHON", &python);
    let (one, two) = (version("one"), version("two"));
    let files = [("server.py", SERVER), ("one.toml", &*one), ("two.toml", &*two)];
    let mut world = World::new(&files);
    let mut agents = vec![world.agent("one"), world.agent("two")];
    world.ok("job apply -f one.toml --wait");
    let load = Load::start(&world);
    load.more();

    world.ok("job apply -f two.toml");
    // A new task starts or runs when the first leader dies.
    until(|| world.ok("task list --job web -o json").contains("web/3"));
    world.kill_leader();
    for (at, name) in ["one", "two"].into_iter().enumerate() {
        until(|| world.updated() > at as u64);
        // Dropping an agent kills it by SIGKILL.
        drop(agents.remove(0));
        agents.push(world.agent(name));
    }
    world.kill_leader();
    until(|| world.job("web")["outdated"] == 0 && world.updated() == 3);
    load.more();
    assert_eq!(load.end(), [""; 0]);

    let tasks = running(&world.folder, &world.cell);
    let answers: Vec<String> =
        tasks.iter().map(|task| request(&world.folder, task).unwrap()).collect();
    assert_eq!(world.job("web")["version"], 1);
    assert_eq!(answers, ["two"; 3]);
    // No process is left of a task that was replaced.
    until(|| servers(&world.folder) == 3);
    world.ok("job delete web");
    until(|| !is_anything_left(&world.folder));
}
