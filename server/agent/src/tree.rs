//! The processes of a task, and how all of them are ended.
//!
//! A supervisor is a *subreaper*: orphaned processes of its program become its children, so no process escapes by
//! forking twice. With a cgroup, the kernel kills all processes at once. Without one, processes are killed until the
//! supervisor has no child.

use crate::launch::FOLDER_VARIABLE;
use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Pause between killing processes and checking for more.
const PAUSE: Duration = Duration::from_millis(1);

/// Maximum number of checks for remaining processes. A process that the kernel cannot end in this time, such as one
/// that waits for a dead disk, is left to the next agent.
const ROUNDS: u32 = 1000;

/// Start of a process, in clock ticks since the machine booted; `None` if there is no such process, or it has ended.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = after_name(&stat)?;
    let state = fields.next()?;
    // The start is the 22nd field. The first field here is the state, which is the third, and 18 fields follow before
    // the start.
    let ticks: u64 = fields.nth(18)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(ticks)
}

/// The fields of `/proc/PID/stat` after the name of the process, which may contain spaces and brackets.
fn after_name(stat: &str) -> Option<std::str::SplitWhitespace<'_>> {
    Some(stat.get(stat.rfind(')')? + 1..)?.split_whitespace())
}

/// The parent of each process on the machine.
fn parents() -> BTreeMap<i32, i32> {
    let mut all = BTreeMap::new();
    let Ok(entries) = fs::read_dir("/proc") else { return all };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = after_name(&stat).and_then(|mut fields| fields.nth(1)?.parse::<i32>().ok());
        all.extend(parent.map(|parent| (pid, parent)));
    }
    all
}

/// All processes below a process.
pub(crate) fn descendants(of: i32) -> Vec<i32> {
    let parents = parents();
    let mut found = BTreeSet::from([of]);
    loop {
        let before = found.len();
        let below = parents.iter().filter(|(_, parent)| found.contains(*parent));
        let below: Vec<i32> = below.map(|(pid, _)| *pid).collect();
        found.extend(below);
        if found.len() == before {
            break;
        }
    }
    found.remove(&of);
    found.into_iter().collect()
}

/// Processor time of a process and all processes below it, in microseconds, and the bytes of memory that they use now.
pub(crate) fn used(pid: i32) -> (u64, u64) {
    let (mut cpu_us, mut memory) = (0, 0);
    for pid in descendants(pid).into_iter().chain([pid]) {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let Some(fields) = after_name(&stat) else { continue };
        let fields: Vec<u64> = fields.map(|field| field.parse().unwrap_or_default()).collect();
        // User and system time, of the process and of its children that have ended. A later field has the pages in
        // memory.
        let ticks: u64 = fields.get(11..15).map_or(0, |times| times.iter().sum());
        cpu_us += ticks * (1_000_000 / rustix::param::clock_ticks_per_second().max(1));
        memory += fields.get(21).copied().unwrap_or_default() * rustix::param::page_size() as u64;
    }
    (cpu_us, memory)
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // If this fails, the process has ended meanwhile and needs no signal.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Kills all descendants of this process, and waits until it has no child. No other code may wait for children at the
/// same time.
pub(crate) fn kill_all_below() -> io::Result<()> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    loop {
        // All processes are stopped first, so that none can fork while the others are killed.
        let below = descendants(own);
        below.iter().for_each(|pid| signal(*pid, Signal::STOP));
        below.iter().for_each(|pid| signal(*pid, Signal::KILL));
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(rustix::io::Errno::CHILD) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// Kills the remaining processes of a task whose supervisor has ended. They are found by the task's folder in their
/// environment. Returns their number.
pub(crate) fn kill_strays(folder: &Path) -> usize {
    let mark = format!("{FOLDER_VARIABLE}={}", folder.display());
    let mut killed = 0;
    for _ in 0..ROUNDS {
        let strays: Vec<i32> = parents().into_keys().filter(|pid| has_mark(*pid, &mark)).collect();
        if strays.is_empty() {
            break;
        }
        killed += strays.len();
        strays.iter().for_each(|pid| signal(*pid, Signal::STOP));
        strays.iter().for_each(|pid| signal(*pid, Signal::KILL));
        std::thread::sleep(PAUSE);
    }
    killed
}

/// Whether a running process has a variable in its environment. A zombie has no environment.
fn has_mark(pid: i32, mark: &str) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_this_process_is_known_and_that_of_none_is_not() {
        let own = std::process::id() as i32;
        assert_eq!(start_ticks(own), start_ticks(own));
        assert!(start_ticks(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(start_ticks(i32::MAX), None);
    }

    #[test]
    fn names_with_brackets_do_not_shift_fields() {
        let stat = "7 (a) b) S 1 7 7 0";
        assert_eq!(after_name(stat).unwrap().collect::<Vec<_>>(), ["S", "1", "7", "7", "0"]);
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
