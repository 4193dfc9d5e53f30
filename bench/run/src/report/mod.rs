//! Result of a run as one value, from which the table, the JSON file and the page are made.
//!
//! [`table`] is for the terminal, [`json`] for programs, [`page`] for the browser. All three are text that depends only
//! on a [`RunReport`]; `docs/report.md` describes its fields for readers of the file.

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
    /// Seed of all random choices of the run.
    pub seed: u64,
    /// Notes on parts of the input that were not converted, in sentences.
    pub notes: Vec<String>,
    /// Whether the run was interrupted before all jobs had arrived and been tried.
    pub interrupted: bool,
    /// Number of machines that the cell had at the end.
    pub machines: usize,
    /// Number of jobs that arrived.
    pub jobs: usize,
    /// Number of tasks that arrived.
    pub tasks: usize,
    /// Tasks that already ran at the start, before the schedulers began.
    pub placed_at_start: usize,
    /// Placements by the schedulers. A task that was lost or evicted and placed again counts twice.
    pub placements: u64,
    /// Tasks that ended after their run time.
    pub finished: u64,
    /// Number of times that a task became pending again because its machine was removed.
    pub lost: u64,
    /// Number of evictions: a task became pending again to make room for a more important one.
    pub evictions: u64,
    /// Tasks that were evicted more than once.
    pub evicted_again: usize,
    /// Tasks that are pending at the end.
    pub pending: usize,
    /// Seconds from the first job to the end.
    pub wall_s: f64,
    /// Processor seconds that the whole process used during `wall_s`; `None` if the system does not report them.
    pub cpu_s: Option<f64>,
    /// Duration of the run in the workload's time, in seconds.
    pub workload_s: f64,
    /// Placements divided by `wall_s`.
    pub placements_per_s: f64,
    /// Figures of each scheduler.
    pub schedulers: Vec<SchedulerReport>,
    /// Accounting of each tenant. The tenant with the largest mean share is first.
    pub tenants: Vec<TenantReport>,
    /// Usage of each resource kind.
    pub resources: Vec<ResourceReport>,
    /// Rebalancing during the run; `None` if tasks stay on their machines.
    pub rebalancing: Option<RebalancingReport>,
    /// Cost of durability; `None` for a cell in memory.
    pub durable: Option<DurableReport>,
    /// Unplaced jobs by reason; the reason with the most tasks comes first.
    pub unplaced: Vec<Unplaced>,
    /// Samples over the run, evenly spaced in the workload's time.
    pub series: Vec<Sample>,
    /// The machines at the end, in the cell's order.
    pub heat: Vec<MachineHeat>,
}

/// Figures of one scheduler.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SchedulerReport {
    /// Name of the scheduler.
    pub name: String,
    /// Number of placements by the scheduler.
    pub placements: u64,
    /// Number of decisions. A decision is one attempt to place a job, whatever its number of tasks.
    pub decisions: u64,
    /// Number of transactions that the scheduler submitted.
    pub transactions: u64,
    /// Number of claims in the scheduler's transactions.
    pub claims: u64,
    /// Number of claims that were rejected.
    pub conflicts: u64,
    /// Rejected claims by reason, the most frequent first.
    pub conflict_reasons: Vec<(String, u64)>,
    /// Median time of a decision in microseconds; `None` if there were no decisions.
    pub decision_us_p50: Option<f64>,
    /// 99th percentile of the time of a decision in microseconds; `None` if there were no decisions.
    pub decision_us_p99: Option<f64>,
    /// Seconds that the scheduler spent on decisions.
    pub deciding_s: f64,
    /// The part of `deciding_s` that was spent on rejected claims.
    pub wasted_s: f64,
    /// Median time that a task waited for its placement, in seconds of the workload's time.
    pub wait_s_p50: Option<f64>,
    /// 99th percentile of the time that a task waited for its placement, in seconds of the workload's time.
    pub wait_s_p99: Option<f64>,
    /// Number of tasks that the scheduler evicted.
    pub evictions: u64,
    /// Number of evictions that precedence alone did not allow, but a tenant's guarantee did.
    pub evictions_for_guarantees: u64,
    /// Total run time of the evicted tasks before their evictions, in seconds of the workload's time.
    pub lost_work_s: f64,
    /// Satisfied share of the placed tasks' preferences for machines, by weight; `None` if there were no preferences.
    pub preferences_met: Option<f64>,
}

/// Accounting of one tenant.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TenantReport {
    /// Name of the tenant.
    pub name: String,
    /// Name of the parent tenant.
    pub parent: Option<String>,
    /// Number of the tenant's jobs that arrived.
    pub jobs: usize,
    /// Number of tasks of the tenant's jobs.
    pub tasks: u64,
    /// Number of placements of the tenant's tasks.
    pub placements: u64,
    /// Number of the tenant's pending tasks at the end.
    pub pending: u64,
    /// Median time that the tenant's tasks waited for placements, in seconds of the workload's time.
    pub wait_s_p50: Option<f64>,
    /// 99th percentile of the time that the tenant's tasks waited for placements, in seconds of the workload's time.
    pub wait_s_p99: Option<f64>,
    /// Longest time that a task of the tenant waited for a placement, in seconds of the workload's time.
    pub wait_s_max: Option<f64>,
    /// Dominant share of the tenant and all tenants below it, at the end.
    pub share_at_end: f64,
    /// Mean of the dominant share over all samples.
    pub share_mean: f64,
    /// Largest dominant share of all samples.
    pub share_at_peak: f64,
    /// Number of times that a task of the tenant was evicted.
    pub evicted: u64,
    /// Number of the tenant's evictions for the guarantee of another tenant.
    pub evicted_for_guarantees: u64,
    /// Total run time of the evicted tasks before their evictions, in seconds of the workload's time.
    pub lost_work_s: f64,
    /// Satisfied share of the preferences for machines of the tenant's tasks, by weight; `None` if there were no
    /// preferences.
    pub preferences_met: Option<f64>,
    /// Dominant share at each sample of the series. Only the first eight tenants have it; for others the list is empty.
    pub shares: Vec<f64>,
}

/// Rebalancing during a run. Costs are weighted sums of the objectives, in mean machines.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RebalancingReport {
    /// Interval of the passes, in seconds of the workload's time.
    pub every_s: f64,
    /// Number of passes.
    pub passes: u64,
    /// Number of moved tasks; a task that moved twice counts twice.
    pub moves: u64,
    /// Number of planned moves that the cell rejected.
    pub rejected: u64,
    /// Mean cost before a pass.
    pub cost_before: f64,
    /// Mean cost after a pass, with the costs of its moves.
    pub cost_after: f64,
    /// Seconds that all passes took.
    pub planning_s: f64,
}

/// Cost of durability.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DurableReport {
    /// Median time of a commit, from request to reply at its scheduler, in microseconds.
    pub commit_us_p50: f64,
    /// 99th percentile of the time of a commit, in microseconds.
    pub commit_us_p99: f64,
    /// Median time in microseconds that the disk needed before the run to sync four kibibytes in a preallocated file.
    pub fdatasync_us: f64,
    /// Disk usage of each replica.
    pub replicas: Vec<ReplicaReport>,
}

/// Disk usage of one replica.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplicaReport {
    /// Name of the replica.
    pub name: String,
    /// Whether the replica is the leader at the end.
    pub leads: bool,
    /// Bytes written to the log, without the zeros that fill new segments.
    pub log_bytes: u64,
    /// Bytes of the log divided by the claims of the run.
    pub log_bytes_per_claim: f64,
    /// Number of syncs of the log.
    pub syncs: u64,
    /// Number of snapshots that the replica took.
    pub snapshots: u64,
    /// Bytes of the replica's directory at the end.
    pub directory_bytes: u64,
}

/// Usage of one resource kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ResourceReport {
    /// Name of the kind.
    pub name: String,
    /// Total capacity of all machines, as text.
    pub capacity: String,
    /// Claimed share of the capacity at the end; above 1 if the kind is overcommitted.
    pub used_at_end: f64,
    /// Largest claimed share of all samples.
    pub used_at_peak: f64,
    /// Unusable share of this kind's free amount at the end: the part on machines where a task does not fit, as the
    /// mean over the run's tasks that request the kind. `None` if nothing is free, or no task requests the kind.
    pub fragmented: Option<f64>,
}

/// Tasks that are pending for the same reason.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Unplaced {
    /// The reason that excludes most machines, in words.
    pub reason: String,
    /// Reasons for which machines reject a task of the example, with the number of machines, the most frequent first. A
    /// machine that is short of several kinds is counted for each of them. Empty if no machine was examined.
    pub reasons: Vec<(String, usize)>,
    /// Number of jobs.
    pub jobs: usize,
    /// Number of tasks of the unplaced jobs.
    pub tasks: usize,
    /// Name of one of the jobs.
    pub example: String,
}

/// State of the cell at one time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    /// The workload's time, in seconds.
    pub workload_s: f64,
    /// Wall seconds since the start.
    pub wall_s: f64,
    /// Number of pending tasks.
    pub pending: usize,
    /// Number of tasks that have a machine.
    pub running: usize,
    /// Placements so far.
    pub placements: u64,
    /// Number of rejected claims so far.
    pub conflicts: u64,
    /// Claimed share of the capacity, by resource kind, in the order of [`RunReport::resources`].
    pub used: Vec<f64>,
}

/// State of one machine at the end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MachineHeat {
    /// Name of the machine.
    pub name: String,
    /// The machine's zone, or else its GPU model or platform, by its labels; empty if it has none of these labels.
    pub place: String,
    /// Claimed share of the machine's capacity by resource kind, as in [`Sample::used`]; `None` for kinds that it does
    /// not have.
    pub used: Vec<Option<f64>>,
}

/// Maximum number of reasons of a group of pending tasks that are shown with their numbers of machines.
const MACHINE_REASONS_MAX: usize = 3;

impl Unplaced {
    /// The reason, and the first reasons with their numbers of machines: `too little cpu left (11 machines), taint not
    /// tolerated (3)`.
    fn why(&self) -> String {
        let shown = self.reasons.iter().take(MACHINE_REASONS_MAX).enumerate();
        let shown = shown.map(|(index, (reason, machines))| match index {
            0 => format!("{reason} ({})", number::plural(number::wide(*machines), "machine")),
            _ => format!("{reason} ({})", number::count(number::wide(*machines))),
        });
        let shown = shown.collect::<Vec<_>>().join(", ");
        match self.reasons.first() {
            None => self.reason.clone(),
            Some((first, _)) if *first == self.reason => shown,
            Some(_) => format!("{}: {shown}", self.reason),
        }
    }
}

impl RunReport {
    /// Totals of all schedulers. The quantiles are zero, because quantiles of several schedulers cannot be added up.
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
        // The sort is stable, so reasons with equal counts stay in the order of their names.
        all.conflict_reasons.sort_by_key(|(_, claims)| std::cmp::Reverse(*claims));
        all
    }
}

/// Converts the report to indented JSON with a final line break. `docs/report.md` describes it.
///
/// # Panics
/// Never, because every key is text, and the text is only written to memory.
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
        let rebalancing = Some(RebalancingReport::default());
        let report = RunReport { durable, rebalancing, ..testing::example(40, 2, 80) };
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
