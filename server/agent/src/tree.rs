//! The processes of a task, and how all of them are ended.
//!
//! A supervisor is a *subreaper*: orphaned processes of its program become its children, so no process escapes by
//! forking twice. With a cgroup, the kernel kills all processes at once. Without one, processes are killed until the
//! supervisor has no child. For processes that outlive their supervisor, see `strays.rs`.

use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::Duration;

/// Pause between killing processes and checking for more.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// A process of the machine, as `/proc/PID/stat` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) parent: i32,
    pub(crate) session: i32,
    /// Start of the process, in clock ticks since the machine booted.
    pub(crate) start_ticks: u64,
    /// Whether all threads have ended. A process is a zombie as soon as its first thread has ended, although other
    /// threads may still run.
    pub(crate) is_over: bool,
}

impl Process {
    fn parse(stat: &str) -> Option<Process> {
        let fields: Vec<&str> = after_name(stat)?.collect();
        let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
        let is_zombie = matches!(*fields.first()?, "Z" | "X");
        Some(Process {
            parent: number(1)? as i32,
            session: number(3)? as i32,
            start_ticks: number(19)? as u64,
            is_over: is_zombie && number(17)? <= 1,
        })
    }
}

/// Start of a process, in clock ticks since the machine booted; `None` if there is no such process, or it has ended.
pub(crate) fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = after_name(&stat)?;
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

/// All processes of the machine by their pid.
pub(crate) fn processes() -> BTreeMap<i32, Process> {
    let mut all = BTreeMap::new();
    let Ok(entries) = fs::read_dir("/proc") else { return all };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        all.extend(Process::parse(&stat).map(|process| (pid, process)));
    }
    all
}

/// All processes below a process.
pub(crate) fn descendants(of: i32) -> Vec<i32> {
    let mut found = with_descendants(&processes(), BTreeSet::from([of]));
    found.remove(&of);
    found.into_iter().collect()
}

/// Returns the given processes and all their descendants.
pub(crate) fn with_descendants(
    processes: &BTreeMap<i32, Process>,
    mut found: BTreeSet<i32>,
) -> BTreeSet<i32> {
    loop {
        let before = found.len();
        let below = processes.iter().filter(|(_, process)| found.contains(&process.parent));
        let below: Vec<i32> = below.map(|(pid, _)| *pid).collect();
        found.extend(below);
        if found.len() == before {
            return found;
        }
    }
}

/// Processor time of a process and all processes below it, in microseconds, and the bytes of memory that they use now.
pub(crate) fn used(pid: i32) -> (u64, u64) {
    used_by(descendants(pid).into_iter().chain([pid]))
}

/// Processor time of some processes, in microseconds, and the bytes of memory that they use now.
pub(crate) fn used_by(pids: impl IntoIterator<Item = i32>) -> (u64, u64) {
    let (mut cpu_us, mut memory) = (0, 0);
    for pid in pids {
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

pub(crate) fn signal(pid: i32, signal: Signal) {
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
    fn a_zombie_with_threads_is_not_over() {
        let stat = |state: &str, threads: u32| {
            format!("7 (a) {state} 1 7 6 0 0 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 55 0")
        };
        let process = |is_over| Process { parent: 1, session: 6, start_ticks: 55, is_over };
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
