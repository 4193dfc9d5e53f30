//! Statistics of a trace, as plain data: machines, jobs, tasks, percentiles, and the load compared with the capacity.
//! The names of the fields are those of the JSON output.

use super::values::Values;
use omega_core::JobKind;
use serde::Serialize;
use std::collections::BTreeMap;

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
    pub capacity: BTreeMap<String, u128>,
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

impl ValuesInfo {
    /// Returns the percentiles of one quantity.
    #[must_use]
    pub fn new(what: &str, unit: ValueUnit, values: &Values) -> ValuesInfo {
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
