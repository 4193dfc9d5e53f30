//! The first hour and a half of Google's cluster trace of May 2011, as a replay.
//!
//! The folder holds `machine_events_compact.csv.gz` and `tasks_replay.csv.gz`, both derived from
//! the published tables. What the reader decides:
//!
//! - **Scale.** The trace gives amounts as fractions of the largest machine. Here that machine has
//!   64 cores, 256 GiB of memory and 16 TiB of disk, so that amounts read as of a real machine.
//!   Requests are rounded up and capacities to the nearest unit: rounding never makes room.
//! - **Disk.** The trace does not say what disk a machine has. Every machine gets 16 TiB, of which
//!   the tasks that run at the start need at most 2 %: disk is counted but never decides.
//! - **Overcommit.** What the trace calls a request is a limit, and the cell was overcommitted: what
//!   runs at the start asks for up to 1.58 times a machine's CPU and 2.00 times its memory. So both
//!   kinds are compressible, and machines may be claimed to 160 % and 200 %; with the production
//!   tasks alone 145 % (of 141 needed) and 100 % will do.
//! - **Time.** The trace's clock stands at 600 s when it begins. A task that runs at the start has
//!   its run time counted from the clock's zero, so 600 s less remain: nearly all of these run
//!   times are longer than that. The few (2 %) that are shorter cannot be meant so, and are kept.
//! - **Jobs.** Tasks of one trace job that arrive at different times, or have different priorities,
//!   become several jobs, `ID.1`, `ID.2`, …; tasks of one job with different requests become groups.
//! - **Service** is what the paper calls so: production (priority 9 and above) and scheduling class
//!   2 or 3. All else is batch.
//! - A task that failed or was killed ends after its run time like one that finished.

mod tasks;

use crate::workload::decimal::Rounding;
use crate::workload::table::Table;
use crate::workload::volumes::VolumesAtStart;
use crate::workload::{LoadError, MachineChange, MachineEvent, Workload};
use omega_core::{Amounts, KindId, Kinds, Labels, Machine, Overcommit, Policy, ResourceKind, Unit};
use std::collections::HashMap;
use std::path::Path;
use tasks::{Place, Task};

/// Thousandths of a core in the largest machine.
const CPU_MILLIS: u64 = 64_000;
/// Bytes of memory in the largest machine.
const MEMORY_BYTES: u64 = 256 << 30;
/// Bytes of disk in every machine.
const DISK_BYTES: u64 = 16 << 40;
/// Where the trace's clock stands when it begins.
const CLOCK_START_MS: u64 = 600_000;
/// The lowest priority of production tasks.
const PRODUCTION_PRIORITY: u8 = 9;

/// Which tasks of the trace are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Production {
    /// Those of priority 9 and above: what the cell had promised room for.
    OnlyProduction,
    /// All.
    #[default]
    All,
}

/// What of the trace is replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoogleOptions {
    /// Which tasks.
    pub production: Production,
}

/// Reads the trace. The replay ends with the last arrival, and so do the machine events.
///
/// # Errors
/// If a file is missing or at fault.
pub fn load(dir: &Path, options: &GoogleOptions) -> Result<Workload, LoadError> {
    let mut cell = Cell::new(options);
    let mut machine_rows = Table::open(&dir.join("machine_events_compact.csv.gz"))?;
    cell.read_machines(&mut machine_rows)?;
    let mut task_rows = Table::open(&dir.join("tasks_replay.csv.gz"))?;
    let tasks = tasks::read(&mut task_rows, &cell.rows)?;

    let end_ms = tasks.iter().map(|task| task.at_ms).max().unwrap_or(0);
    cell.events.retain(|event| event.at_ms <= end_ms);
    let replayed: Vec<&Task> = match options.production {
        Production::All => tasks.iter().collect(),
        Production::OnlyProduction => {
            tasks.iter().filter(|task| task.priority >= PRODUCTION_PRIORITY).collect()
        }
    };
    let mut notes = Vec::new();
    if replayed.len() < tasks.len() {
        notes.push(format!(
            "{} of {} tasks are left out: they are not production",
            tasks.len() - replayed.len(),
            tasks.len()
        ));
    }
    let lost = replayed.iter().filter(|task| task.machine == Place::Unknown).count();
    if lost > 0 {
        notes.push(format!(
            "{lost} tasks ran at the start on machines that the trace does not list: they start \
             as pending"
        ));
    }
    Ok(Workload {
        name: match options.production {
            Production::All => "google 2011".to_owned(),
            Production::OnlyProduction => "google 2011, production only".to_owned(),
        },
        kinds: kinds(),
        policy: Policy { overcommit_max: cell.overcommit, ..Policy::default() },
        machines: cell.machines,
        budgets: Vec::new(),
        machine_events: cell.events,
        arrivals: tasks::arrivals(&replayed),
        volumes: VolumesAtStart::default(),
        notes,
    })
}

/// The standard kinds without cards; memory is compressible, because requests are limits here.
fn kinds() -> Kinds {
    let kind =
        |name: &str, unit, compressible| ResourceKind { name: name.to_owned(), unit, compressible };
    Kinds::new(vec![
        kind("cpu", Unit::Milli, true),
        kind("memory", Unit::Bytes, true),
        kind("disk", Unit::Bytes, false),
    ])
    .expect("three kinds with different names")
}

/// The machines of the trace.
struct Cell {
    overcommit: Overcommit,
    machines: Vec<Machine>,
    /// The position of each machine of the start, by its id in the trace.
    rows: HashMap<u64, u32>,
    events: Vec<MachineEvent>,
    labels: HashMap<String, Labels>,
}

impl Cell {
    fn new(options: &GoogleOptions) -> Cell {
        let overcommit = match options.production {
            Production::All => Overcommit::none().with(KindId::CPU, 160).with(KindId::MEMORY, 200),
            Production::OnlyProduction => Overcommit::none().with(KindId::CPU, 145),
        };
        Cell {
            overcommit,
            machines: Vec::new(),
            rows: HashMap::new(),
            events: Vec::new(),
            labels: HashMap::new(),
        }
    }

    fn read_machines(&mut self, table: &mut Table) -> Result<(), LoadError> {
        let [time, id, event] = table.find(["time", "machine", "event"])?;
        let [platform, cpu, memory] = table.find(["platform", "cpu", "mem"])?;
        while let Some(row) = table.next_row()? {
            let (time_us, id) = (row.integer(time, u64::MAX)?, row.integer(id, u64::MAX)?);
            let at_ms = since_start(time_us);
            if row.integer(event, 2)? == 1 {
                let change = MachineChange::Remove(id.to_string().into());
                self.events.push(MachineEvent { at_ms, change });
                continue;
            }
            // A few machines are listed without a size: they have no room for anything.
            let amount = |column, unit| match row.text(column) {
                "" => Ok(0),
                _ => row.amount(column, unit, Rounding::Nearest),
            };
            let (cpu, memory) = (amount(cpu, CPU_MILLIS)?, amount(memory, MEMORY_BYTES)?);
            let capacity = Amounts::new([cpu, memory, DISK_BYTES]);
            let mut machine = Machine::new(id.to_string(), capacity);
            machine.overcommit = self.overcommit.clone();
            machine.labels = self.platform(row.text(platform));
            if time_us > 0 {
                self.events.push(MachineEvent { at_ms, change: MachineChange::Add(machine) });
            } else if self.rows.insert(id, self.machines.len() as u32).is_some() {
                return Err(table.error_at(Some("machine"), format!("{id} is there already")));
            } else {
                self.machines.push(machine);
            }
        }
        self.events.sort_by_key(|event| event.at_ms);
        Ok(())
    }

    fn platform(&mut self, name: &str) -> Labels {
        if let Some(labels) = self.labels.get(name) {
            return labels.clone();
        }
        let labels = Labels::new([("platform", name)]);
        self.labels.insert(name.to_owned(), labels.clone());
        labels
    }
}

/// The time of the replay at this time of the trace.
fn since_start(time_us: u64) -> u64 {
    (time_us / 1000).saturating_sub(CLOCK_START_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::testing::{capacity, data, folder, message};
    use omega_core::{JobKind, TaskRule, TaskSelector};

    const MACHINES: &str = "time,machine,event,platform,cpu,mem\n\
        0,5,0,P2,0.5,0.2493\n0,6,0,P1,1.0,1.0\n\
        700000000,6,1,P1,1.0,1.0\n650000000,7,2,P2,0.5,0.5\n9900000000,8,0,P2,0.5,0.5\n";
    const TASKS: &str = "job,idx,submit_us,user,sched,prio,cpu,mem,disk,diff,init_machine,\
        first_sched_us,run_us,last_event,evictions\n";

    fn read(
        tasks: &str,
        production: Production,
    ) -> (tempfile::TempDir, Result<Workload, LoadError>) {
        let dir = folder(&[
            ("machine_events_compact.csv.gz", MACHINES),
            ("tasks_replay.csv.gz", &format!("{TASKS}{tasks}")),
        ]);
        let result = load(dir.path(), &GoogleOptions { production });
        (dir, result)
    }

    #[test]
    fn a_small_trace_becomes_jobs_and_groups() {
        let tasks = "1,0,0,7,2,9,0.07,0.1,0,0,5,0,,1,0\n\
            1,1,0,7,2,9,0.5,0.1,0,0,,0,,1,0\n\
            1,2,0,7,2,9,0.07,0.1,0,0,6,0,700000000,4,0\n\
            2,0,0,8,0,0,0.1,0.1,0,1,99,0,2500000,4,0\n\
            2,1,800000000,8,0,0,0.1,0.1,0,1,,800000000,2500000,4,0\n";
        let workload = read(tasks, Production::All).1.unwrap();
        let names: Vec<&str> = workload.arrivals.iter().map(|a| &*a.job.name).collect();
        assert_eq!(names, ["1", "2.1", "2.2"]);

        let first = &workload.arrivals[0];
        assert_eq!((first.job.kind, &*first.job.tenant), (JobKind::Service, "user-7"));
        assert_eq!(first.job.groups.iter().map(|g| g.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(first.job.groups[0].request.get(KindId::CPU), 4480);
        assert_eq!(first.placed, [(0, 0), (1, 1)]);
        assert_eq!([0, 1, 2].map(|task| first.run.of(task)), [None, Some(100_000), None]);

        let last = &workload.arrivals[2];
        assert_eq!((last.at_ms, last.run.of(0)), (200_000, Some(2500)));
        assert_eq!(last.job.groups[0].labels.get("job").map(|id| &**id), Some("2"));
        let [TaskRule::AntiAffinity { from: TaskSelector::Labels { labels, .. }, .. }] =
            &last.job.groups[0].rules.tasks[..]
        else {
            panic!("{:?}", last.job.groups[0].rules)
        };
        assert!(labels.matches(&workload.arrivals[1].job.groups[0].labels));
        assert!(workload.notes[0].starts_with("1 tasks ran"), "{:?}", workload.notes);

        let times: Vec<u64> = workload.machine_events.iter().map(|event| event.at_ms).collect();
        assert_eq!(times, [50_000, 100_000]);
    }

    #[test]
    fn faults_of_the_trace_are_told_in_one_line() {
        let cases = [
            ("1,0,0,7,4,9,0.1,0.1,0,0,5,0,,1,0", "2: sched: \"4\" is too large: at most 3"),
            ("1,0,0,7,2,12,0.1,0.1,0,0,5,0,,1,0", "2: prio: \"12\" is too large: at most 11"),
            ("1,0,0,7,2,9,,0.1,0,0,5,0,,1,0", "2: cpu: is empty"),
            ("1,0,0,7,2,9,0.1,-0.1,0,0,5,0,,1,0", "2: mem: \"-0.1\" is negative"),
            ("1,0,0,7,2,9,0.1,0.1,0,2,5,0,,1,0", "2: diff: \"2\" is too large: at most 1"),
            ("1,0,soon,7,2,9,0.1,0.1,0,0,5,0,,1,0", "2: submit_us: \"soon\" is not a number"),
        ];
        for (row, expected) in cases {
            let (dir, result) = read(&format!("{row}\n"), Production::All);
            assert_eq!(message(dir.path(), result), format!("tasks_replay.csv.gz:{expected}"));
        }
        let twice = "time,machine,event,platform,cpu,mem\n0,5,0,P2,1,1\n0,5,0,P2,1,1\n";
        let dir = folder(&[("machine_events_compact.csv.gz", twice)]);
        let error = message(dir.path(), load(dir.path(), &GoogleOptions::default()));
        let expected = "machine_events_compact.csv.gz:3: machine: 5 is there already";
        assert_eq!(error, expected);
    }

    /// Tasks, tasks that run at the start, and tasks of service jobs.
    fn counts(workload: &Workload) -> [usize; 3] {
        let arrivals = &workload.arrivals;
        let tasks = |arrival: &crate::workload::Arrival| arrival.job.task_count() as usize;
        [
            arrivals.iter().map(tasks).sum(),
            arrivals.iter().map(|a| a.placed.len()).sum(),
            arrivals.iter().filter(|a| a.job.kind == JobKind::Service).map(tasks).sum(),
        ]
    }

    /// Whether what runs at the start fits into the machines with their overcommit.
    fn fits(workload: &Workload) -> bool {
        let mut used = vec![Amounts::zero(); workload.machines.len()];
        for arrival in &workload.arrivals {
            let groups = arrival.job.groups.iter();
            let requests: Vec<&Amounts> =
                groups.flat_map(|group| (0..group.count).map(move |_| &group.request)).collect();
            for (task, row) in &arrival.placed {
                let sum = &mut used[*row as usize];
                *sum = sum.checked_add(requests[*task as usize]).unwrap();
            }
        }
        let mut pairs = used.iter().zip(&workload.machines);
        pairs.all(|(used, machine)| {
            used.iter().all(|(kind, amount)| amount <= machine.claimable(kind))
        })
    }

    #[test]
    fn the_real_trace_has_the_published_counts() {
        let Some(dir) = data("google2011") else { return };
        let all = load(&dir, &GoogleOptions::default()).unwrap();
        assert_eq!(all.machines.len(), 12_477);
        // 132,982 run at the start, 13 of them on machines that are not listed.
        assert_eq!(counts(&all), [190_926, 132_969, 42_761]);
        assert!(all.notes[0].starts_with("13 tasks"), "{:?}", all.notes);
        assert!(fits(&all));
        assert!(all.arrivals.is_sorted_by_key(|arrival| arrival.at_ms));
        assert!(all.machine_events.is_sorted_by_key(|event| event.at_ms));
        assert_eq!(all.machine_events.len(), 26);
        assert_eq!(capacity(&all.machines).get(KindId::CPU) / CPU_MILLIS, 6603);

        let options = GoogleOptions { production: Production::OnlyProduction };
        let production = load(&dir, &options).unwrap();
        assert_eq!(counts(&production)[0], 56_344);
        let note = "134582 of 190926 tasks are left out: they are not production";
        assert_eq!(production.notes[0], note);
        assert!(fits(&production));
    }
}
