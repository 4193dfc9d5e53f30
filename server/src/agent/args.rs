//! Arguments of `omega agent`.

use crate::commands::files::amount::{Amount, AmountError, machine_bytes};
use crate::commands::files::pairs;
use crate::connect::CellArgs;
use crate::events::LogArgs;
use clap::Args;
use omega_core::{NodeCores, PortRange, Unit};
use std::path::{Component, Path, PathBuf};

/// Heading of options in the help.
const SIMULATION: &str = "Simulation";

/// Offer this machine to a cell and run the tasks that the cell places there, or simulate machines.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  omega agent --cell 10.0.0.1:7600 --label rack=a\n  \
    omega agent --simulate 100")]
pub(crate) struct AgentArgs {
    /// Simulate this number of machines, which run no programs, instead of offering this machine.
    #[arg(long, help_heading = SIMULATION, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with_all = ["name", "dir", "labels", "cgroup", "no_limits", "log_bytes", "pids"])]
    pub(super) simulate: Option<u32>,
    /// Name of this machine [default: its host name].
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Folder for the working directories, logs and supervisor files of tasks, created if missing.
    #[arg(long, value_name = "DIR", default_value = "omega-agent")]
    pub(super) dir: PathBuf,
    /// Label of this machine. May be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pairs::label)]
    pub(super) labels: Vec<(String, String)>,
    /// Control group, such as `omega`, in which the agent creates a group for each task. It is created if missing
    /// [default: the agent's own group, which must have no other processes].
    #[arg(long, value_name = "GROUP", value_parser = group, conflicts_with = "no_limits")]
    pub(super) cgroup: Option<PathBuf>,
    /// Run tasks without control groups: the cpu, memory and number of processes of tasks are not limited.
    #[arg(long)]
    pub(super) no_limits: bool,
    /// Maximum size of a log file, such as 1MiB; without a unit, bytes. A task has up to four log files: two for
    /// standard output, and two for standard error.
    #[arg(long, value_name = "BYTES", default_value_t = 10 << 20, value_parser = log_bytes)]
    pub(super) log_bytes: u64,
    /// Maximum number of processes and threads of a task.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) pids: u64,
    /// Prefix of the machines' names: PREFIX-0, PREFIX-1, ...
    #[arg(long, help_heading = SIMULATION, value_name = "NAME", default_value = "sim", requires = "simulate")]
    pub(super) prefix: String,
    /// Number of cores to offer [default: all cores of this machine; 64 for each simulated machine].
    #[arg(long, value_name = "CORES", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) cpu: Option<u64>,
    /// For each NUMA node, the number of cores that tasks may use exclusively, such as 32,32 [default: all cores of
    /// this machine; none if --cpu offers fewer cores than the machine has, or for a simulated machine].
    #[arg(long, value_name = "CORES,CORES", value_parser = pairs::numa)]
    pub(super) numa: Option<NodeCores>,
    /// Range of the ports that the cell may give to tasks, or `none` for no ports [default: 20000-31999].
    #[arg(long, value_name = "FIRST-LAST")]
    pub(super) ports: Option<PortRange>,
    /// Memory to offer, such as 64GiB or 64GB [default: all memory of this machine; 256GiB for each simulated machine].
    #[arg(long, value_name = "BYTES", value_parser = machine_bytes)]
    pub(super) memory: Option<u64>,
    /// Run time of batch tasks, as a multiple of the job's runtime estimate, or of one minute if the job has no
    /// estimate.
    #[arg(long, help_heading = SIMULATION, value_name = "X", default_value_t = 1.0, value_parser = scale, requires = "simulate")]
    pub(super) run_time_scale: f64,
    /// Percentage of task runs that fail.
    #[arg(long, help_heading = SIMULATION, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100), requires = "simulate")]
    pub(super) fail: u8,
    /// Seed for the choice of the task runs that fail, and for the resource usage of tasks.
    #[arg(long, help_heading = SIMULATION, value_name = "SEED", default_value_t = 1, requires = "simulate")]
    pub(super) seed: u64,
    /// Interval of each machine's heartbeats, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) heartbeat: u64,
    #[command(flatten, next_help_heading = "Cell and log")]
    pub(super) cell: CellArgs,
    #[command(flatten, next_help_heading = "Cell and log")]
    pub(super) log: LogArgs,
}

/// Reads the path of a control group below `/sys/fs/cgroup`.
fn group(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    let path = path.strip_prefix("/sys/fs/cgroup").unwrap_or(path);
    let is_below = path.components().any(|part| matches!(part, Component::Normal(_)));
    if !is_below || path.components().any(|part| part == Component::ParentDir) {
        return Err("must be a path below /sys/fs/cgroup, such as omega or omega/one".to_owned());
    }
    Ok(path.to_owned())
}

/// Smallest maximum size of a log file.
const LOG_BYTES_MIN: u64 = 1024;

/// Reads the maximum size of a log file.
fn log_bytes(text: &str) -> Result<u64, String> {
    let amount: Amount = text.parse().map_err(|why: AmountError| why.to_string())?;
    let bytes = amount.of(Unit::Bytes).map_err(|why| why.to_string())?;
    if bytes < LOG_BYTES_MIN {
        return Err("must be at least 1KiB, such as 1MiB".to_owned());
    }
    Ok(bytes)
}

fn scale(text: &str) -> Result<f64, String> {
    let wrong = || "must be a number from 0 to 1000000".to_owned();
    text.parse().ok().filter(|scale| (0.0..=1e6).contains(scale)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_log_may_have_a_unit() {
        assert_eq!(["1MiB", "1024"].map(log_bytes), [Ok(1 << 20), Ok(1024)]);
        assert!(["1023", "1", "-1MiB", "x"].iter().all(|text| log_bytes(text).is_err()));
    }

    #[test]
    fn a_control_group_is_below_the_root() {
        for text in ["omega", "/omega", "/sys/fs/cgroup/omega", "./omega"] {
            let path = group(text).expect("a group");
            let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
            assert_eq!(names.collect::<PathBuf>(), Path::new("omega"), "{text}");
        }
        for text in ["", ".", "/", "/sys/fs/cgroup", "..", "omega/../.."] {
            assert!(group(text).is_err(), "{text}");
        }
    }
}
