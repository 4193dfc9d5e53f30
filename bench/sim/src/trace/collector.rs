//! Collection of a trace's statistics from its events.
//!
//! The stream is read once, and only counts and the ends of running tasks are kept. The load is the demand of the
//! trace: the resources that *would* be used if every task started when its job arrives.

use super::breakdown::{Classes, Tenants};
use super::info::{Count, Info, LoadInfo, RulesInfo, ValueUnit, ValuesInfo};
use super::load::{Load, Mean};
use super::machines::Machines;
use super::peak::{Alike, Peak};
use super::values::Values;
use omega_core::{KindId, Kinds, TaskGroup};
use omega_workload::kube::kinds::is_nominal;
use omega_workload::stream::{Event, Head, Stream};
use omega_workload::{Arrival, LoadError, RunTime};

/// Maximum number of points of the load over time, for a plot.
const POINTS_MAX: usize = 128;

/// Reads a stream to its end.
///
/// # Errors
/// If the stream cannot be read.
pub fn read(stream: &mut dyn Stream) -> Result<Info, LoadError> {
    let mut collector = Collector::new(stream.head());
    while let Some(event) = stream.next_event()? {
        collector.add(&event);
    }
    Ok(collector.finish(stream.notes()))
}

/// Statistics of the events so far.
pub struct Collector {
    name: String,
    kinds: Kinds,
    machines: Machines,
    jobs: Count,
    tasks: Count,
    placed: u64,
    endless: u64,
    /// Time of the last event. The next two fields are the times of the first and of the last arrival after the start.
    now_ms: u64,
    first_ms: Option<u64>,
    last_ms: Option<u64>,
    gaps: Values,
    sizes: Values,
    runs: Values,
    requests: Vec<Values>,
    loads: Vec<Load>,
    peaks: Vec<Peak>,
    classes: Classes,
    tenants: Tenants,
    rules: RulesInfo,
}

impl Collector {
    /// Creates empty statistics from the description of a cell.
    #[must_use]
    pub fn new(head: &Head) -> Collector {
        Collector {
            name: head.name.clone(),
            machines: Machines::new(&head.machines, &head.kinds),
            jobs: Count::default(),
            tasks: Count::default(),
            placed: 0,
            endless: 0,
            now_ms: 0,
            first_ms: None,
            last_ms: None,
            gaps: Values::default(),
            sizes: Values::default(),
            runs: Values::default(),
            requests: (0..head.kinds.count()).map(|_| Values::default()).collect(),
            loads: vec![Load::default(); head.kinds.count()],
            peaks: vec![Peak::default(); head.kinds.count()],
            classes: Classes::default(),
            tenants: Tenants::default(),
            rules: RulesInfo::default(),
            kinds: head.kinds.clone(),
        }
    }

    /// Counts an event.
    pub fn add(&mut self, event: &Event) {
        if event.at_ms() > self.now_ms {
            self.note_peaks();
            self.now_ms = event.at_ms();
        }
        for load in &mut self.loads {
            load.advance(self.now_ms);
        }
        self.machines.advance(self.now_ms);
        match event {
            Event::Machine(event) => self.machines.change(event.at_ms, &event.change),
            Event::Job(job) => self.job(&job.arrival),
        }
    }

    /// Updates the peaks after all events at the present time.
    fn note_peaks(&mut self) {
        for (peak, capacity) in self.peaks.iter_mut().zip(self.machines.capacity_now()) {
            peak.note(self.now_ms, *capacity);
        }
    }

    fn job(&mut self, arrival: &Arrival) {
        let (job, tasks) = (&arrival.job, arrival.job.task_count());
        self.jobs.all += 1;
        self.tasks.all += tasks;
        if arrival.at_ms == 0 {
            self.jobs.at_start += 1;
            self.tasks.at_start += tasks;
        } else {
            if let Some(last_ms) = self.last_ms {
                self.gaps.add(arrival.at_ms - last_ms, 1);
            }
            self.first_ms = self.first_ms.or(Some(arrival.at_ms));
            self.last_ms = Some(arrival.at_ms);
        }
        self.placed += arrival.placed.len() as u64;
        self.sizes.add(tasks, 1);
        self.rules.add(job);
        let mut number = 0;
        for group in &job.groups {
            for (kind, values) in (0..).map(KindId).zip(&mut self.requests) {
                values.add(group.request.get(kind), u64::from(group.count));
            }
            self.run(arrival, group, number);
            number += group.count;
        }
        self.classes.add(job);
        self.tenants.add(job);
    }

    /// Counts run times of a group's tasks, and their use of resources.
    fn run(&mut self, arrival: &Arrival, group: &TaskGroup, first: u32) {
        let mut task = first;
        while task < first + group.count {
            // Consecutive tasks with equal run times are counted together. Usually these are all tasks of a group.
            let run_ms = arrival.run.of(task);
            let alike = match &arrival.run {
                RunTime::Each(_) => 1,
                _ => group.count,
            };
            match run_ms {
                Some(run_ms) => self.runs.add(run_ms, u64::from(alike)),
                None => self.endless += u64::from(alike),
            }
            let end_ms = run_ms.map(|run_ms| arrival.at_ms.saturating_add(run_ms));
            let kinds = self.loads.iter_mut().zip(&mut self.peaks);
            for (kind, (load, peak)) in (0..).map(KindId).zip(kinds) {
                let each = group.request.get(kind);
                let amount = i128::from(each) * i128::from(alike);
                if amount > 0 {
                    load.change(arrival.at_ms, amount);
                    end_ms.into_iter().for_each(|end_ms| load.change(end_ms, -amount));
                    peak.begin(Alike { each, tasks: alike }, end_ms);
                }
            }
            task += alike;
        }
    }

    /// Returns the complete statistics, with the reader's notes.
    #[must_use]
    pub fn finish(mut self, mut notes: Vec<String>) -> Info {
        self.note_peaks();
        let first_ms = self.first_ms.unwrap_or(0);
        let hours = (self.last_ms.unwrap_or(0) - first_ms) as f64 / 3_600_000.0;
        let values = self.values();
        let load = self.load();
        notes.extend(self.tenants.note());
        Info {
            name: self.name,
            machines: self.machines.finish(&self.kinds),
            jobs: self.jobs,
            tasks: self.tasks,
            tasks_placed: self.placed,
            tasks_endless: self.endless,
            span_ms: self.now_ms,
            first_ms,
            // The rate counts gaps, not arrivals, so that an hour divided by the rate is the mean gap.
            jobs_per_hour: if hours > 0.0 { self.gaps.count() as f64 / hours } else { 0.0 },
            values,
            load,
            classes: self.classes.finish(),
            tenants: self.tenants.finish(),
            rules: self.rules,
            notes,
        }
    }

    /// The resource kinds that are reported, each with its name and the distribution of its requests.
    fn reported(&self) -> impl Iterator<Item = (KindId, &str, &Values)> {
        let kinds = self.kinds.iter().zip(&self.requests);
        kinds
            .map(|((kind, named), requests)| (kind, &*named.name, requests))
            .filter(|(_, name, _)| !is_nominal(name))
    }

    /// Returns the percentiles of each quantity.
    fn values(&self) -> Vec<ValuesInfo> {
        let mut values = vec![
            ValuesInfo::new("time between jobs", ValueUnit::Ms, &self.gaps),
            ValuesInfo::new("tasks per job", ValueUnit::Count, &self.sizes),
            ValuesInfo::new("run time", ValueUnit::Ms, &self.runs),
        ];
        for (kind, name, requests) in self.reported() {
            // The processors of machines are reported even if no task requests any.
            let is_cpu = kind == KindId::CPU && self.machines.had_at_start(name);
            if requests.largest() > 0 || is_cpu {
                let what = format!("{name} per task");
                values.push(ValuesInfo::new(&what, ValueUnit::Kind(kind.0), requests));
            }
        }
        values
    }

    /// Returns the load of each requested kind.
    fn load(&self) -> Vec<LoadInfo> {
        let requested = self.reported().filter(|(_, _, requests)| requests.largest() > 0);
        let load = |(kind, name, _): (KindId, &str, &Values)| {
            let asked = self.loads[kind.index()].means(self.now_ms);
            let there = self.machines.capacity_means(kind, self.now_ms);
            load_info(name.to_owned(), &[asked, there], &self.peaks[kind.index()])
        };
        requested.map(load).collect()
    }
}

/// Returns the load of a kind from the means of the requested amounts and of the capacity, and from the peak.
fn load_info(kind: String, [asked, there]: &[Vec<Mean>; 2], peak: &Peak) -> LoadInfo {
    let mean = |means: &[Mean]| means.iter().map(|m| m.mean).sum::<f64>() / means.len() as f64;
    let has_machines = there.iter().any(|m| m.mean > 0.0);
    let share = |(asked, there): (&Mean, &Mean)| {
        if there.mean > 0.0 { asked.mean / there.mean } else { 0.0 }
    };
    let over_time: Vec<f64> = if has_machines {
        asked.iter().zip(there).map(share).collect()
    } else {
        asked.iter().map(|m| m.mean).collect()
    };
    let together = over_time.len().div_ceil(POINTS_MAX);
    LoadInfo {
        kind,
        mean: mean(asked),
        peak: peak.largest(),
        mean_share: has_machines.then(|| mean(asked) / mean(there)),
        peak_share: has_machines.then(|| peak.largest_share()),
        bucket_ms: asked.first().map_or(0, |m| m.width_ms) * together as u64,
        over_time: over_time
            .chunks(together)
            .map(|c| c.iter().sum::<f64>() / c.len() as f64)
            .collect(),
    }
}
