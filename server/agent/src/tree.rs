//! The processes of a task, and how all of them are ended.
//!
//! A supervisor is a *subreaper*: orphaned processes of its program become its children, so no process escapes by
//! forking twice. With a cgroup, the kernel kills all processes at once. Without one, processes are killed until the
//! supervisor has no child. For processes that outlive their supervisor, see `strays.rs`.

use crate::task_files::files;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Pause between killing processes and checking for more.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// Maximum size of the arguments or the environment of a process that are read, in bytes: more than a job may give. A
/// process can move its arguments to a mapping of terabytes.
const ARGUMENTS_BYTES: u64 = 256 << 10;

/// A process of the machine, as `/proc/PID/stat` describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// Start of the process, in clock ticks since the machine booted.
    pub(crate) start_ticks: u64,
    /// Whether all threads have ended. A process is a zombie as soon as its first thread has ended, although other
    /// threads may still run.
    pub(crate) is_over: bool,
    /// Processor time of the process and of its children that have ended, in clock ticks.
    pub(crate) cpu_ticks: u64,
    /// Pages in memory.
    pub(crate) pages: u64,
}

impl Process {
    fn parse(stat: &str) -> Option<Process> {
        let fields: Vec<&str> = after_name(stat)?.collect();
        let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
        let count = |at: usize| number(at).unwrap_or_default() as u64;
        let is_zombie = matches!(*fields.first()?, "Z" | "X");
        Some(Process {
            parent: number(1)? as i32,
            session: number(3)? as i32,
            start_ticks: number(19)? as u64,
            is_over: is_zombie && number(17)? <= 1,
            // User and system time.
            cpu_ticks: (11..15).map(count).sum(),
            pages: count(21),
        })
    }
}

/// Processor time of this process, and of its children that have ended, in microseconds.
pub(crate) fn own_cpu_us() -> Option<u64> {
    let stat = text(&files::read_kernel("/proc/self/stat").ok()?);
    Some(Process::parse(&stat)?.cpu_ticks * tick_us())
}

/// Reads the line about a process. The name in it may be any bytes, which are replaced if they are no text.
fn stat(pid: i32) -> io::Result<String> {
    Ok(text(&files::read_kernel(format!("/proc/{pid}/stat"))?))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the arguments of a process, each with a zero byte at its end; none if they cannot be read.
pub(crate) fn arguments(pid: i32) -> Vec<u8> {
    let path = format!("/proc/{pid}/cmdline");
    files::read_start(Path::new(&path), ARGUMENTS_BYTES).unwrap_or_default()
}

/// Returns the environment of a process, each variable with a zero byte at its end; none if it cannot be read.
pub(crate) fn environment(pid: i32) -> Vec<u8> {
    let path = format!("/proc/{pid}/environ");
    files::read_start(Path::new(&path), ARGUMENTS_BYTES).unwrap_or_default()
}

/// Start of a process, in clock ticks since the machine booted; `None` if there is no such process, or it has ended.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    start_ticks_in(&stat(pid).ok()?)
}

/// Whether a process has ended. A process that cannot be examined, for example because too many files are open, counts
/// as running.
pub(crate) fn has_ended(pid: i32, started_ticks: u64) -> bool {
    match stat(pid) {
        Ok(stat) => start_ticks_in(&stat) != Some(started_ticks),
        Err(error) => {
            error.kind() == io::ErrorKind::NotFound
                || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
        }
    }
}

fn start_ticks_in(stat: &str) -> Option<u64> {
    let mut fields = after_name(stat)?;
    let state = fields.next()?;
    // The start is the 22nd field of the line. The first field here is the state (the third field), and 18 other fields
    // lie between the two.
    let ticks: u64 = fields.nth(18)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(ticks)
}

/// The fields of `/proc/PID/stat` after the name of the process, which may contain spaces and brackets.
fn after_name(stat: &str) -> Option<std::str::SplitWhitespace<'_>> {
    Some(stat.get(stat.rfind(')')? + 1..)?.split_whitespace())
}

/// All processes of the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes {
    all: BTreeMap<i32, Process>,
    /// Pids of the children of each process that has some.
    children: BTreeMap<i32, Vec<i32>>,
}

impl Processes {
    /// Lists the processes that run now.
    pub(crate) fn read() -> Processes {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let process = |entry: fs::DirEntry| {
            let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
            Some((pid, Process::parse(&stat(pid).ok()?)?))
        };
        entries.filter_map(process).collect()
    }

    pub(crate) fn get(&self, pid: i32) -> Option<&Process> {
        self.all.get(&pid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, &Process)> {
        self.all.iter().map(|(pid, process)| (*pid, process))
    }

    /// Returns the given processes and all their descendants.
    pub(crate) fn with_descendants(&self, mut found: BTreeSet<i32>) -> BTreeSet<i32> {
        let mut open: Vec<i32> = found.iter().copied().collect();
        while let Some(pid) = open.pop() {
            let children = self.children.get(&pid).into_iter().flatten();
            open.extend(children.filter(|child| found.insert(**child)));
        }
        found
    }

    /// Returns the resources that some processes use.
    pub(crate) fn used(&self, pids: impl IntoIterator<Item = i32>) -> Used {
        let found = pids.into_iter().filter_map(|pid| self.get(pid));
        found.fold(Used::default(), |used, process| Used {
            cpu_us: used.cpu_us + process.cpu_ticks * tick_us(),
            memory_bytes: used.memory_bytes + process.pages * rustix::param::page_size() as u64,
        })
    }
}

impl FromIterator<(i32, Process)> for Processes {
    fn from_iter<I: IntoIterator<Item = (i32, Process)>>(list: I) -> Processes {
        let mut processes = Processes::default();
        for (pid, process) in list {
            processes.children.entry(process.parent).or_default().push(pid);
            processes.all.insert(pid, process);
        }
        processes
    }
}

/// Resources of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Processor time so far, in microseconds.
    pub(crate) cpu_us: u64,
    /// Bytes of memory now.
    pub(crate) memory_bytes: u64,
}

/// Duration of a clock tick, in microseconds.
fn tick_us() -> u64 {
    1_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// All processes below a process. Processes that fork or end meanwhile may be missing.
pub(crate) fn descendants(of: i32) -> Vec<i32> {
    // Most kernels list the children of a thread, which takes much less time than to list all processes.
    if !Path::new("/proc/thread-self/children").exists() {
        let mut found = Processes::read().with_descendants(BTreeSet::from([of]));
        found.remove(&of);
        return found.into_iter().collect();
    }
    let (mut found, mut open) = (Vec::new(), vec![of]);
    while let Some(pid) = open.pop() {
        let children = children(pid);
        open.extend(&children);
        found.extend(children);
    }
    found
}

/// The children of a process, according to the kernel's lists; none if it has ended.
fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids = |list: String| -> Vec<i32> {
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    };
    lists.flat_map(pids).collect()
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // If this fails, the process has ended meanwhile and needs no signal.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Stops a process, so that it starts no others, and kills its descendants. Returns whether there were any.
pub(crate) fn kill_below(of: i32) -> bool {
    signal(of, Signal::STOP);
    let below = descendants(of);
    below.iter().for_each(|pid| signal(*pid, Signal::STOP));
    below.iter().for_each(|pid| signal(*pid, Signal::KILL));
    !below.is_empty()
}

/// Kills all descendants of this process, and waits until it has no child. No other code may wait for children at the
/// same time.
pub(crate) fn kill_all_below() -> io::Result<()> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // Most tasks leave no process. A process without children has no descendants, so they are listed only if there are
    // children.
    while has_children()? {
        // All processes are stopped first, so that none can fork while the others are killed.
        let below = descendants(own);
        below.iter().for_each(|pid| signal(*pid, Signal::STOP));
        below.iter().for_each(|pid| signal(*pid, Signal::KILL));
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Reaps the children that have ended. Returns whether this process has others.
fn has_children() -> io::Result<bool> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return Ok(true),
            Err(rustix::io::Errno::CHILD) => return Ok(false),
            Err(why) => return Err(why.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    #[test]
    fn the_start_of_this_process_is_known_and_that_of_none_is_not() {
        let own = std::process::id() as i32;
        assert_eq!(start_ticks(own), start_ticks(own));
        assert!(start_ticks(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(start_ticks(i32::MAX), None);
        assert!(!has_ended(own, start_ticks(own).unwrap()));
        assert!(has_ended(own, 1), "another process had this pid");
        assert!(has_ended(i32::MAX, 1));
    }

    #[test]
    fn names_with_brackets_do_not_shift_fields() {
        let stat = "7 (a) b) S 1 7 7 0";
        assert_eq!(after_name(stat).unwrap().collect::<Vec<_>>(), ["S", "1", "7", "7", "0"]);
    }

    #[test]
    fn a_process_whose_name_is_no_text_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(OsStr::from_bytes(b"a\xff) Z"));
        std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
        let mut child = Command::new(program).arg("1000").spawn().unwrap();
        let pid = child.id() as i32;
        let own = std::process::id() as i32;
        assert_eq!(Processes::read().get(pid).map(|process| process.parent), Some(own));
        assert!(start_ticks(pid).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_large_environment_is_not_read_whole() {
        let mut sleep = Command::new("/bin/sleep");
        sleep.arg("1000").env_clear();
        sleep.envs((0..10).map(|number| (format!("V{number}"), "v".repeat(100_000))));
        let mut child = sleep.spawn().unwrap();
        // The kernel sets up the environment after the start.
        while environment(child.id() as i32).is_empty() {
            std::thread::yield_now();
        }
        let environment = environment(child.id() as i32);
        assert_eq!(environment.len() as u64, ARGUMENTS_BYTES);
        assert!(arguments(child.id() as i32).ends_with(b"sleep\x001000\0"));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_zombie_with_threads_is_not_over() {
        let stat = |state: &str, threads: u32| {
            format!("7 (a) {state} 1 7 6 0 0 0 0 0 0 0 1 2 3 4 20 0 {threads} 0 55 0 8")
        };
        let process = |is_over| Process {
            parent: 1,
            session: 6,
            start_ticks: 55,
            is_over,
            cpu_ticks: 10,
            pages: 8,
        };
        assert_eq!(Process::parse(&stat("S", 1)), Some(process(false)));
        assert_eq!(Process::parse(&stat("Z", 2)), Some(process(false)));
        assert_eq!(Process::parse(&stat("Z", 1)), Some(process(true)));
        assert_eq!(Process::parse("7 (a) S 1"), None);
    }

    #[test]
    fn children_of_children_are_below() {
        let mut child =
            std::process::Command::new("/bin/sh").args(["-c", "sleep 100 & wait"]).spawn().unwrap();
        let own = std::process::id() as i32;
        while descendants(child.id() as i32).is_empty() {
            std::thread::yield_now();
        }
        let below = descendants(own);
        assert!(below.contains(&(child.id() as i32)), "{below:?}");
        descendants(child.id() as i32).into_iter().for_each(|pid| signal(pid, Signal::KILL));
        child.wait().unwrap();
    }
}
