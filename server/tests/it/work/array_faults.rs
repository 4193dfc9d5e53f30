//! Batch tasks of real programs, while agents, leaders and schedulers are killed.
//!
//! `OMEGA_ARRAY_TASKS=1000 OMEGA_ARRAY_SEED=7` sets the size of the array and the order of the kills.

use crate::kit::cell::Process;
use crate::kit::programs::is_anything_left;
use crate::kit::wait::until;
use crate::work::update_faults::World;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Every run adds a line to the file of its task. The directory is a lock, so that only the first run of a task has an
/// effect.
const ARRAY: &str = r#"
name = "array"
[[group]]
count = COUNT
restarts = 1000
request = { cpu = 1, memory = "8MiB" }
[group.run]
command = "/bin/sh"
args = ["-c", "echo run >> FOLDER/runs-$OMEGA_TASK_INDEX; sleep 0.1; if mkdir FOLDER/lock-$OMEGA_TASK_INDEX; then echo done >> FOLDER/done-$OMEGA_TASK_INDEX; fi"]
"#;

const ONCE: &str = r#"
name = "once"
[[group]]
restarts = 1000
request = { cpu = 1, memory = "8MiB" }
[group.run]
command = "/bin/sh"
args = ["-c", "echo run >> FOLDER/runs; until test -e FOLDER/gate; do sleep 0.05; done"]
"#;

/// Cores of each agent's machine.
const CORES: u64 = 4;

const AGENTS: [&str; 4] = ["one", "two", "three", "four"];

/// A number from the environment, or else this one.
fn env_or(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn an_array_has_every_result_once_while_everything_is_killed() {
    let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 86_400;
    let (tasks, seed) = (env_or("OMEGA_ARRAY_TASKS", 160), env_or("OMEGA_ARRAY_SEED", day));
    println!("OMEGA_ARRAY_SEED={seed}");
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let job = ARRAY.replace("COUNT", &tasks.to_string());
    let mut world = World::new(&[("array.toml", &job)]);
    let mut agents: BTreeMap<&str, Process> = AGENTS.map(|name| (name, world.agent(name))).into();
    world.ok("job submit -f array.toml");
    let finished = |world: &World| world.job("array")["tasks"]["finished"].as_u64().unwrap();
    let (step, mut kills) = (tasks / 8, 0);
    for round in 1..8 {
        until(|| finished(&world) >= round * step);
        match rng.random_range(0..4) {
            0 | 1 => {
                let name = AGENTS[rng.random_range(0..AGENTS.len())];
                // Dropping a process kills it by SIGKILL. The tasks of the agent run on.
                agents.remove(name);
                kills += 1;
                agents.insert(name, world.agent(name));
            }
            2 => world.kill_leader(),
            _ => world.restart_scheduler(),
        }
    }
    until(|| finished(&world) == tasks);
    until(|| !is_anything_left(&world.folder));
    let mut runs = 0;
    for index in 0..tasks {
        let lines = |name: &str| {
            let file = world.folder.join(format!("{name}-{index}"));
            std::fs::read_to_string(file).unwrap_or_default().lines().count()
        };
        assert_eq!(lines("done"), 1, "task {index}, OMEGA_ARRAY_SEED={seed}");
        runs += lines("runs") as u64;
    }
    // If an agent is killed just after it started a task, the task may be lost and run again. An agent has at most one
    // such task for each of its cores.
    println!("{tasks} tasks ran {runs} times, with {kills} kills of agents");
    assert!(runs <= tasks + CORES * kills, "OMEGA_ARRAY_SEED={seed}");
}

#[test]
fn an_end_that_the_cell_has_not_recorded_is_reported_by_the_next_agent() {
    let mut world = World::new(&[("once.toml", ONCE)]);
    let agent = world.agent("one");
    world.ok("job submit -f once.toml");
    until(|| world.job("once")["tasks"]["running"] == 1);
    let folder = world.folder.clone();
    world.without_replicas(|| {
        let tasks = || std::fs::read_dir(folder.join("one/tasks")).unwrap().flatten();
        let has_work = || tasks().any(|task| task.path().join("work").exists());
        assert!(has_work());
        std::fs::write(folder.join("gate"), "").unwrap();
        // The agent removes this folder when it observes the end.
        until(|| !has_work());
        drop(agent);
    });
    let _agent = world.agent("one");
    until(|| world.job("once")["tasks"]["finished"] == 1);
    assert_eq!(std::fs::read_to_string(folder.join("runs")).unwrap(), "run\n");
}
