//! Limits that a process sets for itself before it becomes the program of a task.

use crate::spec::TaskSpec;
use rustix::process::{Pid, Resource, Rlimit};
use std::io;

/// Sets the limits that do not need a cgroup.
pub(crate) fn set(spec: &TaskSpec) -> io::Result<()> {
    let both = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    rustix::process::setrlimit(Resource::Core, both(0))?;
    if spec.limits.open_files > 0 {
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let current = spec.limits.open_files.min(maximum.unwrap_or(u64::MAX));
        let files = Rlimit { current: Some(current), maximum };
        rustix::process::setrlimit(Resource::Nofile, files)?;
    }
    if !spec.limits.cores.is_empty() && spec.limits.cgroup.is_none() {
        pin(&spec.limits.cores)?;
    }
    Ok(())
}

/// Makes the kernel kill this process before the agent and the supervisors if the machine has too little memory, because
/// the operator may have protected these (`OOMScoreAdjust=`).
pub(crate) fn be_killed_before_the_agent() {
    const ADJUSTMENT: &str = "/proc/self/oom_score_adj";
    if std::fs::read_to_string(ADJUSTMENT).is_ok_and(|value| value.starts_with('-')) {
        // The value may be raised without any rights.
        let _ = std::fs::write(ADJUSTMENT, "0");
    }
}

/// Restricts the process, and so the program, to these cores.
pub(crate) fn pin(cores: &[u32]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for core in cores.iter().filter(|core| (**core as usize) < rustix::thread::CpuSet::MAX_CPU) {
        set.set(*core as usize);
    }
    Ok(rustix::thread::sched_setaffinity(None::<Pid>, &set)?)
}
