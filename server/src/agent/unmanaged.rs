//! Tasks that no agent manages, because the agent of their folder has ended, and this agent has another folder.

use super::machine::LOCK;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum number of folders in warnings.
const FOLDERS_MAX: usize = 8;

/// Logs a warning for each folder of another agent that does not run, but has running tasks.
pub(super) fn warn(own: &Path) {
    // Without this list, other agents cannot be told from those that have ended.
    let Ok(locks) = fs::read_to_string("/proc/locks") else { return };
    let all = unmanaged(own, &omega_agent::supervised_folders(), &locks);
    // Any process may choose arguments like those of a supervisor.
    for (folder, tasks) in all.into_iter().take(FOLDERS_MAX) {
        tracing::warn!(
            ?folder,
            tasks,
            "tasks of another folder run on this machine, and no agent manages them: to stop them, \
             run `omega agent --dir` with that folder"
        );
    }
}

/// The folders of agents that do not run, each with the number of its tasks. `tasks` are the folders of all tasks, and
/// `locks` is the text of `/proc/locks`.
fn unmanaged(own: &Path, tasks: &[PathBuf], locks: &str) -> BTreeMap<PathBuf, usize> {
    let mut found = BTreeMap::new();
    let agents = tasks.iter().filter_map(|task| task.parent()?.parent());
    for agent in agents.filter(|agent| *agent != own) {
        *found.entry(agent.to_owned()).or_default() += 1;
    }
    found.retain(|agent, _| !is_locked(&agent.join(LOCK), locks));
    found
}

/// Whether a process has locked the file. The lock is not tried, because the file's agent could be starting.
fn is_locked(file: &Path, locks: &str) -> bool {
    let Ok(file) = fs::metadata(file) else { return false };
    let end = format!(":{}", file.ino());
    let mut locks = locks.lines().filter(|line| line.contains("FLOCK"));
    locks.any(|line| line.split_whitespace().any(|field| field.ends_with(&end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_without_an_agent_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let agents = ["own", "runs", "ended", "removed"].map(|name| dir.path().join(name));
        let mut locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:12 0 EOF\n".to_owned();
        for agent in &agents[..3] {
            fs::create_dir(agent).unwrap();
            fs::write(agent.join(LOCK), "").unwrap();
        }
        let ino = fs::metadata(agents[1].join(LOCK)).unwrap().ino();
        locks += &format!("2: FLOCK  ADVISORY  WRITE 8 fe:00:{ino} 0 EOF\n");
        let task = |agent: &PathBuf| agent.join("tasks/web.0");
        let mut tasks: Vec<PathBuf> = agents.iter().map(task).collect();
        tasks.push(agents[2].join("tasks/web.1"));
        let [own, _, ended, removed] = &agents;
        let expected = BTreeMap::from([(ended.clone(), 2), (removed.clone(), 1)]);
        assert_eq!(unmanaged(own, &tasks, &locks), expected);
    }
}
