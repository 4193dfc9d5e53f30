//! A cell with a scheduler, and agents on this computer, which run programs.

use crate::kit::cell::{Process, Served, start};
use crate::kit::wait::until;
use std::path::Path;

/// A cell with a scheduler, and a folder that its jobs use.
pub(crate) struct Cell {
    pub(crate) served: Served,
    _scheduler: Process,
}

impl Cell {
    pub(crate) fn new(files: &[(&str, &str)]) -> Cell {
        let served = Served::new(files);
        for (name, text) in files {
            let folder = served.path().display().to_string();
            std::fs::write(served.path().join(name), text.replace("FOLDER", &folder)).unwrap();
        }
        std::fs::create_dir(served.path().join("results")).unwrap();
        let scheduler = start(served.path(), &["scheduler", "--cell", &served.address]);
        Cell { served, _scheduler: scheduler }
    }

    pub(crate) fn agent(&self, name: &str) -> Process {
        let address = &self.served.address;
        let flags = ["agent", "--no-limits", "--heartbeat=1", "--cpu=4", "--memory=1GiB", "--cell"];
        start(self.served.path(), &[&flags[..], &[address, "--name", name, "--dir", name]].concat())
    }

    pub(crate) fn tasks(&self, job: &str, state: &str) -> u64 {
        self.served.json(&format!("job get {job}"))["tasks"][state].as_u64().unwrap()
    }

    /// Waits until no task of the cell has a process any more.
    pub(crate) fn nothing_is_left(&self) {
        until(|| !is_anything_left(self.served.path()));
    }
}

/// Whether any process has a task folder below this one in its environment.
pub(crate) fn is_anything_left(folder: &Path) -> bool {
    let mark = format!("OMEGA_TASK_FOLDER={}", folder.canonicalize().unwrap().display());
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let environments = all.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments.into_iter().any(|bytes| String::from_utf8_lossy(&bytes).contains(&mark))
}

/// The commands of `docs/run-programs.md` that begin with this text, and their documented outputs.
pub(crate) fn documented(beginning: &str) -> Vec<(String, String)> {
    let page = include_str!("../../../../docs/run-programs.md");
    let blocks = page.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands = blocks.flat_map(|block| block.split("$ ").skip(1));
    let split = commands.filter_map(|command| command.split_once('\n'));
    let split = split.filter(|(command, _)| command.starts_with(beginning));
    split.map(|(command, output)| (command.to_owned(), output.to_owned())).collect()
}
