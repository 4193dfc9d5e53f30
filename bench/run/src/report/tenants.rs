//! The tenants of a run: shares, waits and evictions of each tenant, and waits and evictions of each scheduler.
//!
//! These parts are only printed if there is something to compare: two tenants, an eviction, a wait, or a preference.

use super::number::{NOTHING, count, duration, percent, plural, wide};
use super::text::{Align, WIDTH, clean, clip, columns};
use super::{RunReport, SchedulerReport, TenantReport};

/// Maximum number of tenants in the table on the terminal.
const ROWS_MAX: usize = 10;
/// Maximum number of tenants on the page, which is more than a reader reads.
pub(super) const PAGE_ROWS_MAX: usize = 50;

/// Whether a run has tenants to compare.
pub(super) fn are_several(report: &RunReport) -> bool {
    report.tenants.len() > 1
}

/// Whether schedulers have waits, evictions or preferences to report.
pub(super) fn schedulers_tell(report: &RunReport) -> bool {
    let tells = |one: &SchedulerReport| {
        one.wait_s_p99.is_some_and(|wait| wait > 0.0)
            || one.evictions > 0
            || one.preferences_met.is_some()
    };
    report.schedulers.iter().any(tells)
}

/// Formats a number of seconds; without a value, returns [`NOTHING`].
pub(super) fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), duration)
}

/// Formats a share; without a value, returns [`NOTHING`].
pub(super) fn share(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), percent)
}

/// Formats the number of evictions, and how many of them were for guarantees.
pub(super) fn evictions(all: u64, for_guarantees: u64) -> String {
    match (all, for_guarantees) {
        (0, _) => NOTHING.to_owned(),
        (all, 0) => count(all),
        (all, some) => format!("{} ({} reclaimed)", count(all), count(some)),
    }
}

/// Formats the work that was lost to evictions.
pub(super) fn lost(seconds: f64) -> String {
    if seconds > 0.0 { duration(seconds) } else { NOTHING.to_owned() }
}

/// The tables for the terminal.
pub(super) fn table(report: &RunReport) -> String {
    let mut parts = Vec::new();
    if schedulers_tell(report) {
        parts.push(scheduler_table(report));
    }
    if are_several(report) {
        parts.push(tenant_table(report));
    }
    parts.join("\n")
}

fn scheduler_table(report: &RunReport) -> String {
    let mut rows = vec![strings(["", "wait", "wait", "tasks", "work", "preferences"])];
    rows.push(strings(["by scheduler", "p50", "p99", "evicted", "lost", "met"]));
    rows.extend(report.schedulers.iter().map(|one| {
        vec![
            clip(&clean(&one.name), WIDTH / 4),
            seconds(one.wait_s_p50),
            seconds(one.wait_s_p99),
            evictions(one.evictions, one.evictions_for_guarantees),
            lost(one.lost_work_s),
            share(one.preferences_met),
        ]
    }));
    columns(&rows, &aligned::<6>(), 0)
}

fn tenant_table(report: &RunReport) -> String {
    let mut rows = vec![strings(["", "", "", "wait", "wait", "share", "share", "tasks"])];
    rows.push(strings([
        "tenant",
        "placements",
        "waiting",
        "p50",
        "p99",
        "mean",
        "peak",
        "evicted",
    ]));
    let (shown, rest) = report.tenants.split_at(report.tenants.len().min(ROWS_MAX));
    rows.extend(shown.iter().map(|one| {
        vec![
            clip(&clean(&one.name), WIDTH / 4),
            count(one.placements),
            count(one.pending),
            seconds(one.wait_s_p50),
            seconds(one.wait_s_p99),
            percent(one.share_mean),
            percent(one.share_at_peak),
            evictions(one.evicted, one.evicted_for_guarantees),
        ]
    }));
    let mut text = columns(&rows, &aligned::<8>(), 0);
    text.push_str(&rest_of(rest));
    text
}

/// Describes the tenants that are not listed, by their totals.
pub(super) fn rest_of(rest: &[TenantReport]) -> String {
    if rest.is_empty() {
        return String::new();
    }
    let placements = rest.iter().map(|tenant| tenant.placements).sum();
    let placements = plural(placements, "placement");
    format!("and {} with {placements}\n", plural(wide(rest.len()), "other tenant"))
}

fn aligned<const N: usize>() -> [Align; N] {
    let mut aligns = [Align::Right; N];
    aligns[0] = Align::Left;
    aligns
}

fn strings<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_nothing_of_is_not_shown() {
        assert_eq!(table(&RunReport::default()), "");
        let one = TenantReport { name: "default".into(), ..TenantReport::default() };
        let report = RunReport { tenants: vec![one], ..RunReport::default() };
        assert_eq!(table(&report), "", "one tenant has everything");
    }

    #[test]
    fn tenants_and_schedulers_are_told() {
        let tenant = |name: &str, mean: f64| TenantReport {
            name: name.into(),
            placements: 1200,
            pending: 3,
            wait_s_p50: Some(0.5),
            wait_s_p99: Some(90.0),
            share_mean: mean,
            share_at_peak: 2.0 * mean,
            evicted: 5,
            evicted_for_guarantees: 2,
            ..TenantReport::default()
        };
        let scheduler = SchedulerReport {
            name: "batch".into(),
            wait_s_p99: Some(2.0),
            evictions: 5,
            lost_work_s: 120.0,
            preferences_met: Some(0.75),
            ..SchedulerReport::default()
        };
        let mut tenants = vec![tenant("search", 0.25)];
        tenants.extend((0..11).map(|i| tenant(&format!("t{i}"), 0.01)));
        let report = RunReport { schedulers: vec![scheduler], tenants, ..RunReport::default() };
        let text = table(&report);
        for line in [
            "batch            –   2 s        5  2 min       75.0 %",
            "search       1,200        3  500 ms  90 s  25.0 %  50.0 %  5 (2 reclaimed)",
            "and 2 other tenants with 2,400 placements",
        ] {
            assert!(text.lines().any(|known| known == line), "no {line:?} in\n{text}");
        }
    }
}
