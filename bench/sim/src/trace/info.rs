//! Statistics of a trace: machines, jobs, tasks, percentiles, and the load compared with the capacity.
//!
//! The stream is read once, and only counts and the ends of running tasks are kept. The load is the demand of the
//! trace: the resources that *would* be used if every task started when its job arrives.

use super::load::{Load, Mean};
use super::peak::{Alike, Peak};
use super::values::Values;
use omega_core::{Amounts, JobKind, KindId, Kinds, Machine, TaskGroup, TaskRule, Text};
use omega_workload::kube::kinds::is_nominal;
use omega_workload::stream::{Event, Head, Stream};
use omega_workload::{Arrival, LoadError, MachineChange};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of tenants that are counted separately; later ones are counted together.
const TENANTS_MAX: usize = 4096;

/// Maximum number of pairs of kind and precedence that are counted separately; traces have about a dozen.
const CLASSES_MAX: usize = 256;

/// Maximum number of machine sizes that are counted separately; traces have about a dozen.
const SIZES_MAX: usize = 1024;

/// Maximum number of points of the load over time, for a plot.
const POINTS_MAX: usize = 128;

/// Statistics of a trace.
#[derive(Debug, Serialize)]
pub struct Info {
    /// Source of the trace.
    pub name: String,
    /// Machines of the trace.
    pub machines: MachinesInfo,
    /// Number of jobs, and how many of them are present at the start.
    pub jobs: Count,
    /// Number of tasks, and how many of them are present at the start.
    pub tasks: Count,
    /// Tasks that already run on machines when their job arrives.
    pub tasks_placed: u64,
    /// Tasks whose end is not in the trace.
    pub tasks_endless: u64,
    /// Milliseconds from the start to the last arrival.
    pub span_ms: u64,
    /// Milliseconds from the start to the first arrival after the start.
    pub first_ms: u64,
    /// Arrivals per hour, from the first arrival after the start to the last.
    pub jobs_per_hour: f64,
    /// Percentiles of each quantity of jobs and of tasks.
    pub values: Vec<ValuesInfo>,
    /// Requested load of each resource kind.
    pub load: Vec<LoadInfo>,
    /// Jobs by kind and precedence.
    pub classes: Vec<ClassInfo>,
    /// Jobs by tenant.
    pub tenants: TenantsInfo,
    /// Jobs with placement rules.
    pub rules: RulesInfo,
    /// Notes on input that was not converted.
    pub notes: Vec<String>,
}

/// A number of items, and how many of them are present at the start.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Count {
    /// Total number.
    pub all: u64,
    /// Number of items at the start.
    pub at_start: u64,
}

/// Machines of a trace.
#[derive(Debug, Default, Serialize)]
pub struct MachinesInfo {
    /// Number of machines present at the start.
    pub count: u64,
    /// Total capacity by resource kind.
    pub capacity: BTreeMap<String, u64>,
    /// Most frequent sizes.
    pub sizes: Vec<SizeInfo>,
    /// Number of distinct sizes; 1024 means at least 1024.
    pub size_count: u64,
    /// Number of machines that are added or changed later.
    pub added: u64,
    /// Number of machines that are removed later.
    pub removed: u64,
}

/// Machines of one size.
#[derive(Debug, Serialize)]
pub struct SizeInfo {
    /// Number of machines of this size.
    pub count: u64,
    /// Capacity of each machine by resource kind, as text with a unit.
    pub has: BTreeMap<String, String>,
}

/// Percentiles of one quantity.
#[derive(Debug, Serialize)]
pub struct ValuesInfo {
    /// Name of the quantity.
    pub what: String,
    /// Unit of the quantity.
    pub unit: ValueUnit,
    /// Number of values.
    pub count: u64,
    /// Minimum.
    pub least: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Maximum.
    pub largest: u64,
    /// The mean.
    pub mean: f64,
    /// The coefficient of variation: the standard deviation divided by the mean.
    pub variation: f64,
    /// The percentiles from 0 to 100, for a plot.
    pub percentiles: Vec<u64>,
}

/// Unit of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueUnit {
    /// Milliseconds.
    Ms,
    /// A count.
    Count,
    /// Units of this resource kind.
    Kind(u8),
}

/// The load of one resource kind.
#[derive(Debug, Serialize)]
pub struct LoadInfo {
    /// Name.
    pub kind: String,
    /// Mean over the span, in the kind's units.
    pub mean: f64,
    /// Highest amount at any time, in the kind's units.
    pub peak: f64,
    /// Mean as a share of the machines' capacity; `None` if the machines have no such resource.
    pub mean_share: Option<f64>,
    /// Highest share at any time of the capacity at that time.
    pub peak_share: Option<f64>,
    /// Duration of a bucket, in milliseconds.
    pub bucket_ms: u64,
    /// Load over time as a share of the capacity, or in the kind's units if there are no machines.
    pub over_time: Vec<f64>,
}

/// Jobs of one kind and precedence.
#[derive(Clone, Debug, Serialize)]
pub struct ClassInfo {
    /// Service or batch; `None` for the classes that were counted together.
    pub kind: Option<JobKind>,
    /// The precedence.
    pub precedence: i32,
    /// Number of jobs.
    pub jobs: u64,
    /// Number of tasks.
    pub tasks: u64,
    /// Total request of the first resource kind, in its units.
    pub asked: u128,
}

/// Tenants of the jobs.
#[derive(Debug, Default, Serialize)]
pub struct TenantsInfo {
    /// Number of tenants; 4096 means at least 4096.
    pub count: u64,
    /// Tenants with the most tasks.
    pub largest: Vec<TenantInfo>,
}

/// The jobs of a tenant.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TenantInfo {
    /// Name.
    pub name: String,
    /// Number of jobs.
    pub jobs: u64,
    /// Number of tasks.
    pub tasks: u64,
}

/// Numbers of jobs with rules.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct RulesInfo {
    /// Number of gangs.
    pub gangs: u64,
    /// Number of jobs with rules about labels or names of machines.
    pub machines: u64,
    /// Number of jobs with affinity or anti-affinity to tasks.
    pub tasks: u64,
    /// Number of jobs that request devices.
    pub devices: u64,
}

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
    classes: BTreeMap<(JobKind, i32), ClassInfo>,
    tenants: HashMap<Text, TenantInfo>,
    others: [u64; 2],
    rules: RulesInfo,
}

/// The present machines, and their total capacity over time.
struct Machines {
    info: MachinesInfo,
    sizes: HashMap<Amounts, u64>,
    /// Capacity of each present machine, by name.
    there: HashMap<Text, Amounts>,
    capacity: Vec<Load>,
    /// Present capacity of each kind.
    now: Vec<u128>,
}

impl Collector {
    /// Creates empty statistics from the description of a cell.
    #[must_use]
    pub fn new(head: &Head) -> Collector {
        let mut machines = Machines {
            info: MachinesInfo::default(),
            sizes: HashMap::new(),
            there: HashMap::new(),
            capacity: vec![Load::default(); head.kinds.count()],
            now: vec![0; head.kinds.count()],
        };
        for machine in &head.machines {
            machines.start(machine, &head.kinds);
        }
        Collector {
            name: head.name.clone(),
            machines,
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
            classes: BTreeMap::new(),
            tenants: HashMap::new(),
            others: [0; 2],
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
        for load in self.loads.iter_mut().chain(&mut self.machines.capacity) {
            load.advance(self.now_ms);
        }
        match event {
            Event::Machine(event) => self.machines.change(event.at_ms, &event.change),
            Event::Job(job) => self.job(&job.arrival),
        }
    }

    /// Updates the peaks after all events at the present time.
    fn note_peaks(&mut self) {
        for (peak, capacity) in self.peaks.iter_mut().zip(&self.machines.now) {
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
        self.rules.add(arrival);
        let mut number = 0;
        for group in &job.groups {
            for (kind, values) in (0..).map(KindId).zip(&mut self.requests) {
                values.add(group.request.get(kind), u64::from(group.count));
            }
            self.run(arrival, group, number);
            number += group.count;
        }
        self.class(arrival, tasks);
        self.tenant(&job.tenant, tasks);
    }

    /// Counts run times of a group's tasks, and their use of resources.
    fn run(&mut self, arrival: &Arrival, group: &TaskGroup, first: u32) {
        let mut task = first;
        while task < first + group.count {
            // Consecutive tasks with equal run times are counted together. Usually these are all tasks of a group.
            let run_ms = arrival.run.of(task);
            let alike = match &arrival.run {
                omega_workload::RunTime::Each(_) => 1,
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

    fn class(&mut self, arrival: &Arrival, tasks: u64) {
        let job = &arrival.job;
        let key = (job.kind, job.precedence.0);
        let asked = job
            .groups
            .iter()
            .map(|group| u128::from(group.request.get(KindId::CPU)) * u128::from(group.count));
        // Keys beyond the bound are counted under a common key that no job has.
        let is_room = self.classes.len() < CLASSES_MAX || self.classes.contains_key(&key);
        let key = if is_room { key } else { (JobKind::Batch, i32::MIN) };
        let class = self.classes.entry(key).or_insert(ClassInfo {
            kind: is_room.then_some(job.kind),
            precedence: key.1,
            jobs: 0,
            tasks: 0,
            asked: 0,
        });
        class.jobs += 1;
        class.tasks += tasks;
        class.asked += asked.sum::<u128>();
    }

    fn tenant(&mut self, name: &Text, tasks: u64) {
        if self.tenants.len() >= TENANTS_MAX && !self.tenants.contains_key(name) {
            self.others[0] += 1;
            self.others[1] += tasks;
            return;
        }
        let tenant = self.tenants.entry(name.clone()).or_default();
        tenant.jobs += 1;
        tenant.tasks += tasks;
    }

    /// Returns the complete statistics, with the reader's notes.
    #[must_use]
    pub fn finish(mut self, mut notes: Vec<String>) -> Info {
        self.note_peaks();
        let first_ms = self.first_ms.unwrap_or(0);
        let hours = (self.last_ms.unwrap_or(0) - first_ms) as f64 / 3_600_000.0;
        let kinds = &self.kinds;
        let kind_name = |kind: KindId| kinds.get(kind).map_or("", |kind| &*kind.name).to_owned();
        let mut values = vec![
            values_info("time between jobs", ValueUnit::Ms, &self.gaps),
            values_info("tasks per job", ValueUnit::Count, &self.sizes),
            values_info("run time", ValueUnit::Ms, &self.runs),
        ];
        let mut load = Vec::new();
        for (kind, requests) in (0..).map(KindId).zip(&self.requests) {
            if is_nominal(&kind_name(kind)) {
                continue;
            }
            let has_some = self.machines.info.capacity.contains_key(&kind_name(kind));
            if requests.largest() > 0 || (has_some && kind == KindId::CPU) {
                let what = format!("{} per task", kind_name(kind));
                values.push(values_info(&what, ValueUnit::Kind(kind.0), requests));
            }
            if requests.largest() > 0 {
                let asked = self.loads[kind.index()].means(self.now_ms);
                let there = self.machines.capacity[kind.index()].means(self.now_ms);
                let means = [asked, there];
                load.push(load_info(kind_name(kind), &means, &self.peaks[kind.index()]));
            }
        }
        if self.others[0] > 0 {
            notes.push(format!(
                "only the first {TENANTS_MAX} tenants are told apart; jobs of others: {}",
                self.others[0]
            ));
        }
        Info {
            name: self.name,
            machines: self.machines.finish(kinds),
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
            classes: self.classes.into_values().collect(),
            tenants: tenants(self.tenants),
            rules: self.rules,
            notes,
        }
    }
}

fn tenants(tenants: HashMap<Text, TenantInfo>) -> TenantsInfo {
    let count = tenants.len() as u64;
    let named =
        tenants.into_iter().map(|(name, tenant)| TenantInfo { name: name.to_string(), ..tenant });
    let mut largest: Vec<TenantInfo> = named.collect();
    largest.sort_by(|a, b| b.tasks.cmp(&a.tasks).then_with(|| a.name.cmp(&b.name)));
    largest.truncate(5);
    TenantsInfo { count, largest }
}

impl RulesInfo {
    fn add(&mut self, arrival: &Arrival) {
        let groups = &arrival.job.groups;
        let any =
            |has: &dyn Fn(&TaskGroup) -> bool| u64::from(groups.iter().any(|group| has(group)));
        self.gangs += u64::from(arrival.job.gang_min.is_some());
        self.machines += any(&|group| {
            let rules = &group.rules;
            rules.machine.is_some() || rules.affinity.required.is_some()
        });
        let is_about_tasks = |rule: &TaskRule| !matches!(rule, TaskRule::Prefer { .. });
        self.tasks += any(&|group| group.rules.tasks.iter().any(is_about_tasks));
        self.devices += any(&|group| group.devices.is_some());
    }
}

impl Machines {
    fn start(&mut self, machine: &Machine, kinds: &Kinds) {
        self.info.count += 1;
        for (kind, named) in kinds.iter() {
            let amount = machine.capacity.get(kind);
            if amount > 0 && !is_nominal(&named.name) {
                *self.info.capacity.entry(named.name.clone()).or_default() += amount;
            }
        }
        if self.sizes.len() < SIZES_MAX || self.sizes.contains_key(&machine.capacity) {
            *self.sizes.entry(machine.capacity.clone()).or_default() += 1;
        }
        self.set(0, machine);
    }

    fn change(&mut self, at_ms: u64, change: &MachineChange) {
        match change {
            MachineChange::Add(machine) => {
                self.info.added += 1;
                self.set(at_ms, machine);
            }
            MachineChange::Remove(name) => {
                self.info.removed += 1;
                self.unset(at_ms, name);
            }
        }
    }

    fn set(&mut self, at_ms: u64, machine: &Machine) {
        self.unset(at_ms, &machine.name);
        for (kind, amount) in machine.capacity.iter() {
            if let Some(load) = self.capacity.get_mut(kind.index()) {
                load.change(at_ms, i128::from(amount));
                self.now[kind.index()] += u128::from(amount);
            }
        }
        self.there.insert(machine.name.clone(), machine.capacity.clone());
    }

    fn unset(&mut self, at_ms: u64, name: &Text) {
        let Some(had) = self.there.remove(name) else { return };
        for (kind, amount) in had.iter() {
            if let Some(load) = self.capacity.get_mut(kind.index()) {
                load.change(at_ms, -i128::from(amount));
                self.now[kind.index()] -= u128::from(amount);
            }
        }
    }

    fn finish(mut self, kinds: &Kinds) -> MachinesInfo {
        let mut sizes: Vec<(Amounts, u64)> = self.sizes.into_iter().collect();
        sizes.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.as_slice().cmp(b.0.as_slice())));
        self.info.size_count = sizes.len() as u64;
        sizes.truncate(5);
        let size = |(amounts, count): (Amounts, u64)| SizeInfo {
            count,
            has: kinds
                .iter()
                .filter(|(kind, named)| amounts.get(*kind) > 0 && !is_nominal(&named.name))
                .map(|(kind, named)| (named.name.clone(), kinds.display(kind, amounts.get(kind))))
                .collect(),
        };
        self.info.sizes = sizes.into_iter().map(size).collect();
        self.info
    }
}

/// Returns the percentiles of one quantity.
#[must_use]
pub fn values_info(what: &str, unit: ValueUnit, values: &Values) -> ValuesInfo {
    ValuesInfo {
        what: what.to_owned(),
        unit,
        count: values.count(),
        least: values.least(),
        p50: values.percentile(50.0),
        p90: values.percentile(90.0),
        p99: values.percentile(99.0),
        largest: values.largest(),
        mean: values.mean(),
        variation: values.variation(),
        percentiles: (0..=100).map(|percent| values.percentile(f64::from(percent))).collect(),
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
