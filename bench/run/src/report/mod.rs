//! Result of a run, as one value: the table, the JSON file and the page show it.
//!
//! [`table`] is for the terminal, [`json`] for programs, [`page`] for the browser. All three are text made of a
//! [`RunReport`] alone; `docs/report.md` describes its fields for readers of the file.

use serde::Serialize;
use std::collections::BTreeMap;

pub mod page;
pub mod rebalanced;
pub mod table;
pub mod text;
pub mod waiting;

mod axis;
mod durable;
mod grid;
mod heat;
mod html;
mod lists;
mod number;
mod plot;
mod tenants;
#[cfg(test)]
mod testing;

/// The result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// Description of the run, in a few words.
    pub name: String,
    /// The seed of everything random in it.
    pub seed: u64,
    /// Parts of the input that were not carried over, in sentences.
    pub notes: Vec<String>,
    /// Whether it was interrupted before all jobs had arrived and been tried.
    pub interrupted: bool,
    /// Number of machines the cell had at the end.
    pub machines: usize,
    /// Number of jobs that arrived.
    pub jobs: usize,
    /// Number of tasks that arrived.
    pub tasks: usize,
    /// Tasks that ran at the start and were placed before the schedulers began.
    pub placed_at_start: usize,
    /// Placements by the schedulers. A task that was lost or evicted and placed again counts twice.
    pub placements: u64,
    /// Tasks that ended after their run time.
    pub finished: u64,
    /// Tasks that became pending again because their machine left.
    pub lost: u64,
    /// Evictions: tasks became pending again to make room for more important ones.
    pub evictions: u64,
    /// Tasks that were evicted more than once.
    pub evicted_again: usize,
    /// Tasks that wait at the end.
    pub pending: usize,
    /// Seconds from the first job to the end.
    pub wall_s: f64,
    /// Processor seconds of the whole process in that time, if the system tells.
    pub cpu_s: Option<f64>,
    /// Seconds of the workload's own time that passed.
    pub workload_s: f64,
    /// Placements divided by `wall_s`.
    pub placements_per_s: f64,
    /// Each scheduler.
    pub schedulers: Vec<SchedulerReport>,
    /// Each tenant, the one with the largest mean share first.
    pub tenants: Vec<TenantReport>,
    /// Each resource kind.
    pub resources: Vec<ResourceReport>,
    /// Cost of durability; none for a cell in memory.
    pub durable: Option<DurableReport>,
    /// Unplaced jobs by reason, the most tasks first.
    pub unplaced: Vec<Unplaced>,
    /// The run over time, evenly spaced in the workload's time.
    pub series: Vec<Sample>,
    /// The machines at the end, by row.
    pub heat: Vec<MachineHeat>,
}

/// Actions of one scheduler.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SchedulerReport {
    /// Its name.
    pub name: String,
    /// Tasks that it placed.
    pub placements: u64,
    /// Decisions: one per job and turn, whatever the number of tasks.
    pub decisions: u64,
    /// Transactions that it sent.
    pub transactions: u64,
    /// Claims in them.
    pub claims: u64,
    /// Claims that were refused.
    pub conflicts: u64,
    /// Refused claims by reason, the most frequent first.
    pub conflict_reasons: Vec<(String, u64)>,
    /// Median and 99th percentile of the time of a decision, in microseconds.
    pub decision_us_p50: f64,
    /// See above.
    pub decision_us_p99: f64,
    /// Seconds that it spent deciding.
    pub deciding_s: f64,
    /// The part of it spent on rejected claims.
    pub wasted_s: f64,
    /// Median and 99th percentile of the time that a task waited for its placement, in seconds of the workload.
    pub wait_s_p50: Option<f64>,
    /// See above.
    pub wait_s_p99: Option<f64>,
    /// Tasks that it evicted.
    pub evictions: u64,
    /// The evictions for a tenant's guarantee, which precedence alone did not allow.
    pub evictions_for_guarantees: u64,
    /// Total run time of these tasks before their evictions, in seconds of the workload.
    pub lost_work_s: f64,
    /// Share of the placed tasks' preferences for machines that was satisfied, by weight; `None`
    /// without preferences.
    pub preferences_met: Option<f64>,
}

/// Accounting of one tenant.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TenantReport {
    /// Its name.
    pub name: String,
    /// The tenant above it.
    pub parent: Option<String>,
    /// Number of its jobs that arrived.
    pub jobs: usize,
    /// Their tasks.
    pub tasks: u64,
    /// Number of their placements.
    pub placements: u64,
    /// Number of its pending tasks at the end.
    pub pending: u64,
    /// Median, 99th percentile and longest of the times that its tasks waited for placements, in seconds of the
    /// workload.
    pub wait_s_p50: Option<f64>,
    /// See above.
    pub wait_s_p99: Option<f64>,
    /// See above.
    pub wait_s_max: Option<f64>,
    /// Its dominant share of the cell, with all tenants below it, at the end.
    pub share_at_end: f64,
    /// The mean over all samples.
    pub share_mean: f64,
    /// The largest of all samples.
    pub share_at_peak: f64,
    /// Its tasks that were evicted.
    pub evicted: u64,
    /// Evictions for the guarantee of another tenant.
    pub evicted_for_guarantees: u64,
    /// Total run time of these tasks before their evictions, in seconds of the workload.
    pub lost_work_s: f64,
    /// Share of its tasks' preferences for machines that was satisfied; `None` without preferences.
    pub preferences_met: Option<f64>,
    /// Its dominant share at each sample of the series; empty but for the first eight tenants.
    pub shares: Vec<f64>,
}

/// Cost of durability.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DurableReport {
    /// Median and 99th percentile of the time of a commit at its scheduler, in microseconds.
    pub commit_us_p50: f64,
    /// See above.
    pub commit_us_p99: f64,
    /// Median time for which the same disk needed, before the run, to sync four kibibytes in a
    /// preallocated file, in microseconds.
    pub fdatasync_us: f64,
    /// Each replica.
    pub replicas: Vec<ReplicaReport>,
}

/// Disk usage of one replica.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplicaReport {
    /// Its name.
    pub name: String,
    /// Whether it leads at the end.
    pub leads: bool,
    /// Bytes that its log has written, without the zeros that fill new segments.
    pub log_bytes: u64,
    /// Bytes of the log divided by the claims of the run.
    pub log_bytes_per_claim: f64,
    /// Number of times its log was synced.
    pub syncs: u64,
    /// Snapshots that it took.
    pub snapshots: u64,
    /// Bytes of its folder at the end.
    pub directory_bytes: u64,
}

/// Outcome of one resource kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ResourceReport {
    /// Its name.
    pub name: String,
    /// Total capacity of all machines, as text.
    pub capacity: String,
    /// Claimed at the end, as a share of the capacity; above 1 where it is overcommitted.
    pub used_at_end: f64,
    /// The largest share that any sample saw.
    pub used_at_peak: f64,
    /// Share of this kind's free amount at the end that a task cannot use: the mean over all tasks of the run that
    /// request the kind. `None` if nothing is free or no task requests the kind.
    pub fragmented: Option<f64>,
}

/// Tasks that were not placed for one reason.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Unplaced {
    /// The obstacle on the most machines, in words.
    pub reason: String,
    /// Number of jobs.
    pub jobs: usize,
    /// Number of their tasks.
    pub tasks: usize,
    /// One of the jobs.
    pub example: String,
}

/// The cell at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    /// Seconds of the workload's time.
    pub workload_s: f64,
    /// Seconds since the start.
    pub wall_s: f64,
    /// Tasks that wait.
    pub pending: usize,
    /// Tasks that have a machine.
    pub running: usize,
    /// Placements so far.
    pub placements: u64,
    /// Refused claims so far.
    pub conflicts: u64,
    /// Claimed share of the capacity, by resource kind.
    pub used: Vec<f64>,
}

/// One machine at the end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MachineHeat {
    /// Its name.
    pub name: String,
    /// Its zone, or the value of the first label by which the cell groups machines; empty if none.
    pub place: String,
    /// Claimed share of its capacity, by resource kind; none where it has none.
    pub used: Vec<Option<f64>>,
}

impl RunReport {
    /// Totals of all schedulers. Quantiles are zero: those of several do not add up.
    #[must_use]
    pub fn all_schedulers(&self) -> SchedulerReport {
        let mut all = SchedulerReport { name: "all".to_string(), ..Default::default() };
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for scheduler in &self.schedulers {
            all.placements += scheduler.placements;
            all.decisions += scheduler.decisions;
            all.transactions += scheduler.transactions;
            all.claims += scheduler.claims;
            all.conflicts += scheduler.conflicts;
            all.deciding_s += scheduler.deciding_s;
            all.wasted_s += scheduler.wasted_s;
            all.evictions += scheduler.evictions;
            all.evictions_for_guarantees += scheduler.evictions_for_guarantees;
            all.lost_work_s += scheduler.lost_work_s;
            for (reason, claims) in &scheduler.conflict_reasons {
                *reasons.entry(reason).or_default() += claims;
            }
        }
        all.conflict_reasons =
            reasons.into_iter().map(|(reason, claims)| (reason.to_string(), claims)).collect();
        // The sort is stable: reasons of the same weight stay in the order of their names.
        all.conflict_reasons.sort_by_key(|(_, claims)| std::cmp::Reverse(*claims));
        all
    }
}

/// The report as indented JSON, with a line break at its end. `docs/report.md` describes it.
///
/// # Panics
/// Never: every key is text, and nothing is written but to memory.
#[must_use]
pub fn json(report: &RunReport) -> String {
    let mut text = serde_json::to_string_pretty(report)
        .expect("a report holds only what JSON has, and memory takes all that is written");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_json_whatever_the_numbers_are() {
        let mut report = testing::hostile();
        report.wall_s = f64::NAN;
        let value: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
        assert!(value["wall_s"].is_null(), "JSON has no such number");
        assert_eq!(value["name"], report.name.as_str());
        assert_eq!(value["series"].as_array().unwrap().len(), report.series.len());
    }

    #[test]
    fn every_field_of_the_file_is_in_the_docs() {
        fn names(value: &serde_json::Value, found: &mut Vec<String>) {
            for (name, inner) in value.as_object().into_iter().flatten() {
                found.push(name.clone());
                names(inner, found);
            }
            value.as_array().into_iter().flatten().for_each(|inner| names(inner, found));
        }
        let docs = include_str!("../../../../docs/report.md");
        let mut found = Vec::new();
        let durable = Some(testing::durable());
        let report = RunReport { durable, ..testing::example(40, 2, 80) };
        names(&serde_json::to_value(report).unwrap(), &mut found);
        assert!(found.iter().any(|name| name == "example"), "every list has an entry");
        for name in found {
            assert!(docs.contains(&format!("`{name}`")), "docs/report.md has no `{name}`");
        }
    }

    #[test]
    fn the_sum_merges_the_reasons() {
        let scheduler = |reasons: &[(&str, u64)]| SchedulerReport {
            claims: 10,
            conflict_reasons: reasons.iter().map(|&(r, n)| (r.to_string(), n)).collect(),
            ..SchedulerReport::default()
        };
        let report = RunReport {
            schedulers: vec![scheduler(&[("a", 3), ("b", 1)]), scheduler(&[("b", 5), ("c", 3)])],
            ..RunReport::default()
        };
        let all = report.all_schedulers();
        let expected = [("b", 6), ("a", 3), ("c", 3)].map(|(r, n)| (r.to_string(), n));
        assert_eq!((all.claims, all.conflict_reasons), (20, expected.to_vec()));
    }
}
