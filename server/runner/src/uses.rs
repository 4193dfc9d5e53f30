//! The resources that tasks have used since the last report.
//!
//! The cell writes each report to its log. So the use of many tasks is reported at once, and that of running tasks less
//! often than that of tasks that have ended.

use omega_agent::TaskUsage;
use omega_core::{TaskId, TaskUse};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Number of measurements between reports of the tasks that have ended, and of all tasks.
const ENDED_EVERY: u32 = 6;
const ALL_EVERY: u32 = 60;

/// Use since the last report. Memory is counted as if each measurement held since the one before.
#[derive(Debug)]
pub(crate) struct Uses {
    tasks: BTreeMap<TaskId, Sum>,
    /// Tasks that have ended since the last measurement, by their name in the driver.
    ended: BTreeMap<String, TaskId>,
    /// Tasks that have ended since the last report.
    over: BTreeSet<TaskId>,
    measured: Instant,
    measurements: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    cpu_us: u64,
    /// Bytes of memory times milliseconds.
    memory_byte_ms: u128,
}

impl Default for Uses {
    fn default() -> Self {
        let (tasks, ended, over) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Uses { tasks, ended, over, measured: Instant::now(), measurements: 0 }
    }
}

impl Uses {
    /// Records that a task has ended, whose last use is measured next.
    pub(crate) fn ended(&mut self, name: &str, task: TaskId) {
        self.ended.insert(name.to_owned(), task);
        self.over.insert(task);
    }

    /// Adds a measurement. `id_of` returns the id of a task that runs. Returns a report if it is time for one, and if
    /// there is something to report.
    pub(crate) fn add(
        &mut self,
        usage: &[TaskUsage],
        id_of: impl Fn(&str) -> Option<TaskId>,
        now: Instant,
    ) -> Option<Vec<TaskUse>> {
        let passed_ms = now.saturating_duration_since(self.measured).as_millis();
        self.measured = now;
        let ended = std::mem::take(&mut self.ended);
        for TaskUsage { task, cpu_us, memory_bytes } in usage {
            let Some(id) = ended.get(task).copied().or_else(|| id_of(task)) else { continue };
            let sum = self.tasks.entry(id).or_default();
            sum.cpu_us += cpu_us;
            sum.memory_byte_ms += u128::from(*memory_bytes) * passed_ms;
        }
        self.measurements += 1;
        if !self.measurements.is_multiple_of(ENDED_EVERY) {
            return None;
        }
        let over = std::mem::take(&mut self.over);
        let is_full = self.measurements == ALL_EVERY;
        if is_full {
            self.measurements = 0;
        }
        let due = self.tasks.extract_if(.., |task, _| is_full || over.contains(task));
        let used = due.map(|(task, sum)| {
            let memory_byte_seconds = u64::try_from(sum.memory_byte_ms / 1000).unwrap_or(u64::MAX);
            TaskUse { task, cpu_us: sum.cpu_us, memory_byte_seconds }
        });
        let used = used.filter(|used| used.cpu_us > 0 || used.memory_byte_seconds > 0);
        let used: Vec<TaskUse> = used.collect();
        (!used.is_empty()).then_some(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::JobId;
    use std::time::Duration;

    #[test]
    fn use_is_summed_until_it_is_reported() {
        let id = |index| TaskId { job: JobId(0), index };
        let usage = |task: &str, cpu_us, memory_bytes| TaskUsage {
            task: task.to_owned(),
            cpu_us,
            memory_bytes,
        };
        let mut uses = Uses::default();
        let began = uses.measured;
        let mut reports = BTreeMap::new();
        for measurement in 1..=ALL_EVERY {
            // One task runs for two measurements; another one all the time.
            let mut both = vec![usage("long", 10, 100)];
            match measurement {
                1 => both.push(usage("short", 7, 50)),
                2 => {
                    uses.ended("short", id(1));
                    both.push(usage("short", 5, 0));
                }
                _ => {}
            }
            both.push(usage("unknown", 1, 1));
            let id_of = |name: &str| match (name, measurement) {
                ("long", _) => Some(id(0)),
                ("short", 1) => Some(id(1)),
                _ => None,
            };
            let now = began + Duration::from_millis(500) * measurement;
            reports.extend(uses.add(&both, id_of, now).map(|report| (measurement, report)));
        }
        let used = |index, cpu_us, memory_byte_seconds| {
            vec![TaskUse { task: id(index), cpu_us, memory_byte_seconds }]
        };
        assert_eq!(reports, [(6, used(1, 12, 25)), (60, used(0, 600, 3000))].into());
        let later = began + Duration::from_secs(60);
        assert!((0..100).all(|_| uses.add(&[], |_| None, later).is_none()), "nothing is used");
    }
}
