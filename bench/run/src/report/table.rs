//! The short table that a run prints at its end, as plain text of at most a hundred columns.
//!
//! It shows what a user needs first: the placed tasks and their rate, the cost of conflicts, the use of the cell, and
//! why some tasks have no machine. The rest is on the page and in the JSON file.

use super::number::{NOTHING, amount, count, duration, micros, percent, percent_of, plural, wide};
use super::text::{Align, WIDTH, clean, clip, columns, notes};
use super::{RebalancingReport, RunReport, SchedulerReport, Unplaced, durable, tenants};

/// Maximum number of reasons in the table. The page has more.
const REASONS_MAX: usize = 5;

/// Formats the report as plain text with a final line break.
#[must_use]
pub fn render(report: &RunReport) -> String {
    let sections = [
        heading(report),
        figures(report),
        schedulers(report),
        tenants::table(report),
        resources(report),
        durable::table(report),
        unplaced(report),
        notes(&report.notes),
    ];
    let full: Vec<String> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    full.join("\n")
}

/// Description of the run.
fn heading(report: &RunReport) -> String {
    let name = if report.name.is_empty() { "run" } else { &report.name };
    let seed = format!(" (seed {})", report.seed);
    let name = clip(&clean(name), WIDTH - seed.len());
    let input = format!(
        "{}, {}, {}",
        plural(wide(report.machines), "machine"),
        plural(wide(report.jobs), "job"),
        plural(wide(report.tasks), "task"),
    );
    let interrupted = if report.interrupted { ", interrupted" } else { "" };
    let time = duration(report.workload_s);
    format!("{name}{seed}\n{input}; {time} of workload{interrupted}\n")
}

/// Figures of the run, one per line.
fn figures(report: &RunReport) -> String {
    let mut lines = vec![
        ("placements", count(report.placements)),
        ("placements/s", amount(report.placements_per_s)),
        ("time taken", time_taken(report)),
    ];
    if report.placed_at_start > 0 {
        lines.push(("ran at the start", plural(wide(report.placed_at_start), "task")));
    }
    if report.finished > 0 {
        lines.push(("finished", plural(report.finished, "task")));
    }
    if report.evictions > 0 {
        lines.push(("evictions", evictions(report)));
    }
    if let Some(rebalancing) = &report.rebalancing {
        lines.push(("moves", moves(rebalancing)));
    }
    if report.pending > 0 {
        lines.push(("wait at the end", plural(wide(report.pending), "task")));
    }
    lines.extend(report.durable.iter().flat_map(durable::figures));
    let rows: Vec<Vec<String>> =
        lines.into_iter().map(|(name, value)| vec![name.to_string(), value]).collect();
    columns(&rows, &[Align::Left, Align::Left], 1)
}

/// Number of evictions, and how many tasks were evicted repeatedly.
fn evictions(report: &RunReport) -> String {
    match report.evicted_again {
        0 => count(report.evictions),
        tasks => {
            format!("{}, {} more than once", count(report.evictions), plural(wide(tasks), "task"))
        }
    }
}

/// Number of moves, and the mean cost of the objectives before and after a pass.
pub(super) fn moves(rebalancing: &RebalancingReport) -> String {
    let RebalancingReport { passes, moves, rejected, cost_before, cost_after, .. } = rebalancing;
    let rejected =
        if *rejected > 0 { format!(", {} rejected", count(*rejected)) } else { String::new() };
    format!(
        "{} in {}{rejected}; cost before and after a pass (mean): {}, {}",
        count(*moves),
        passes_in_words(*passes),
        amount(*cost_before),
        amount(*cost_after),
    )
}

fn passes_in_words(passes: u64) -> String {
    if passes == 1 { "1 pass".to_owned() } else { format!("{} passes", count(passes)) }
}

/// Duration of the run in seconds, and the mean number of busy processors.
fn time_taken(report: &RunReport) -> String {
    let wall = duration(report.wall_s);
    match report.cpu_s {
        Some(cpu_s) if report.wall_s > 0.0 => {
            format!("{wall}, {} processors busy on average", amount(cpu_s / report.wall_s))
        }
        _ => wall,
    }
}

/// One line per scheduler, and their sum if there are several.
fn schedulers(report: &RunReport) -> String {
    if report.schedulers.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        strings(["", "", "", "decision", "decision", "", "claims", "time", "time"]),
        strings([
            "scheduler",
            "placements",
            "decisions",
            "p50",
            "p99",
            "transactions",
            "refused",
            "deciding",
            "wasted",
        ]),
    ];
    rows.extend(report.schedulers.iter().map(|scheduler| {
        let decision = [scheduler.decision_us_p50, scheduler.decision_us_p99].map(micros);
        scheduler_row(scheduler, decision)
    }));
    if report.schedulers.len() > 1 {
        // Quantiles of several schedulers cannot be added up.
        rows.push(scheduler_row(&report.all_schedulers(), [String::new(), String::new()]));
    }
    let mut aligns = [Align::Right; 9];
    aligns[0] = Align::Left;
    columns(&rows, &aligns, 0)
}

/// The line of one scheduler. The times that were spent on rejected claims follow the total times.
fn scheduler_row(scheduler: &SchedulerReport, [p50, p99]: [String; 2]) -> Vec<String> {
    vec![
        clean(&scheduler.name),
        count(scheduler.placements),
        count(scheduler.decisions),
        p50,
        p99,
        count(scheduler.transactions),
        percent_of(scheduler.conflicts as f64, scheduler.claims as f64),
        duration(scheduler.deciding_s),
        duration(scheduler.wasted_s),
    ]
}

/// Usage of the cell.
fn resources(report: &RunReport) -> String {
    if report.resources.is_empty() {
        return String::new();
    }
    let mut rows = vec![strings(["resource", "capacity", "at the end", "peak", "fragmented"])];
    rows.extend(report.resources.iter().map(|resource| {
        let capacity =
            if resource.capacity.is_empty() { NOTHING } else { resource.capacity.as_str() };
        vec![
            clip(&clean(&resource.name), WIDTH / 3),
            clean(capacity),
            percent(resource.used_at_end),
            percent(resource.used_at_peak),
            tenants::share(resource.fragmented),
        ]
    }));
    let mut aligns = [Align::Right; 5];
    aligns[0] = Align::Left;
    columns(&rows, &aligns, 1)
}

/// Reasons why tasks have no machine.
fn unplaced(report: &RunReport) -> String {
    if report.unplaced.is_empty() {
        return String::new();
    }
    let tasks = |list: &[Unplaced]| wide(list.iter().map(|entry| entry.tasks).sum());
    let shown = &report.unplaced[..report.unplaced.len().min(REASONS_MAX)];
    let rest = &report.unplaced[shown.len()..];
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|entry| {
            vec![
                format!("  {}", plural(wide(entry.tasks), "task")),
                plural(wide(entry.jobs), "job"),
                clean(&entry.why()),
                format!("e.g. {}", clip(&clean(&entry.example), WIDTH / 4)),
            ]
        })
        .collect();
    let aligns = [Align::Right, Align::Right, Align::Left, Align::Left];
    let mut text = format!("not placed: {}\n", plural(tasks(&report.unplaced), "task"));
    text.push_str(&columns(&rows, &aligns, 2));
    if !rest.is_empty() {
        let more = plural(wide(rest.len()), "other reason");
        text.push_str(&format!("  {} for {more}\n", plural(tasks(rest), "task")));
    }
    text
}

/// Converts fixed cells to owned ones.
fn strings<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{example, hostile};
    use crate::report::{ResourceReport, RunReport};

    /// A report with constant numbers. `example` computes its numbers with sines, whose results differ between systems.
    fn fixed() -> RunReport {
        let batch = SchedulerReport {
            name: "batch".into(),
            placements: 1_182_899,
            decisions: 20_321,
            transactions: 22_862,
            claims: 1_200_000,
            conflicts: 17_101,
            conflict_reasons: vec![("no room".into(), 17_101)],
            decision_us_p50: Some(180.0),
            decision_us_p99: Some(2_034.0),
            deciding_s: 183.2,
            wasted_s: 2.61,
            ..SchedulerReport::default()
        };
        let service = SchedulerReport {
            name: "service".into(),
            decision_us_p50: Some(5_400.0),
            ..batch.clone()
        };
        let resource = |name: &str, capacity: &str, used_at_end, used_at_peak| ResourceReport {
            name: name.into(),
            capacity: capacity.into(),
            used_at_end,
            used_at_peak,
            fragmented: Some(0.125),
        };
        RunReport {
            placements: 2_365_798,
            placements_per_s: 11_829.0,
            wall_s: 200.0,
            cpu_s: Some(690.0),
            finished: 2_300_000,
            resources: vec![
                resource("cpu", "6,637 machines' worth", 0.625, 1.04),
                resource("memory", "5,862 machines' worth", 0.547, 0.605),
            ],
            schedulers: vec![batch, service],
            machines: 12_583,
            workload_s: 86_400.0 * 29.0,
            ..example(100, 1, 200)
        }
    }

    #[test]
    fn the_table_of_a_run() {
        let mut report = fixed();
        (report.jobs, report.tasks, report.pending) = (672_074, 25_424_731, 1_203);
        report.placed_at_start = 0;
        report.tenants.clear();
        let unplaced = |reason: &str, jobs, tasks, example: &str| Unplaced {
            reason: reason.into(),
            jobs,
            tasks,
            example: example.into(),
            ..Unplaced::default()
        };
        report.unplaced = vec![
            unplaced("cpu: the emptiest machine has 0.12 of the 0.25", 14, 1_200, "j-6251"),
            unplaced("no machine has rack=17", 1, 3, "cache-3"),
            unplaced("too little cpu left", 1, 2, "wide"),
            unplaced("gang incomplete", 1, 2, "all"),
        ];
        let machines = [("too little cpu left", 1_100_usize), ("taint not tolerated", 30)];
        for entry in &mut report.unplaced[2..] {
            entry.reasons = machines.map(|(reason, count)| (reason.to_owned(), count)).into();
        }
        let expected = "\
synthetic, three schedulers side by side (seed 42)
12,583 machines, 672,074 jobs, 25,424,731 tasks; 29 d of workload

placements       2,365,798
placements/s     11,829
time taken       3 min 20 s, 3.45 processors busy on average
finished         2,300,000 tasks
evictions        7, 1 task more than once
wait at the end  1,203 tasks

                                  decision  decision                 claims       time    time
scheduler  placements  decisions       p50       p99  transactions  refused   deciding  wasted
batch       1,182,899     20,321    180 µs   2.03 ms        22,862    1.4 %  3 min 3 s  2.61 s
service     1,182,899     20,321    5.4 ms   2.03 ms        22,862    1.4 %  3 min 3 s  2.61 s
all         2,365,798     40,642                            45,724    1.4 %  6 min 6 s  5.22 s

resource               capacity  at the end     peak  fragmented
cpu       6,637 machines' worth      62.5 %  104.0 %      12.5 %
memory    5,862 machines' worth      54.7 %   60.5 %      12.5 %

not placed: 1,207 tasks
  1,200 tasks  14 jobs  cpu: the emptiest machine has 0.12 of the 0.25                  e.g. j-6251
      3 tasks    1 job  no machine has rack=17                                          e.g. cache-3
      2 tasks    1 job  too little cpu left (1,100 machines), taint not tolerated (30)  e.g. wide
      2 tasks    1 job  gang incomplete: too little cpu left (1,100 machines), taint …  e.g. all

notes
  - Constraints on the kernel's version were left out: the trace hides their values.
  - 118 tasks ask for nothing and were given 1 millicore.
";
        assert_eq!(render(&report), expected);
    }

    #[test]
    fn an_empty_report_is_short() {
        let expected = "\
run (seed 0)
0 machines, 0 jobs, 0 tasks; 0 s of workload

placements    0
placements/s  0
time taken    0 s
";
        assert_eq!(render(&RunReport::default()), expected);
    }

    #[test]
    fn one_is_singular() {
        let report = RunReport {
            machines: 1,
            jobs: 1,
            tasks: 1,
            placed_at_start: 1,
            pending: 1,
            schedulers: vec![SchedulerReport { name: "only".into(), ..Default::default() }],
            resources: vec![ResourceReport { name: "cpu".into(), ..Default::default() }],
            unplaced: vec![Unplaced {
                reason: "no room".into(),
                jobs: 1,
                tasks: 1,
                example: "a".into(),
                ..Unplaced::default()
            }],
            ..RunReport::default()
        };
        let text = render(&report);
        for line in [
            "1 machine, 1 job, 1 task; 0 s of workload",
            "ran at the start  1 task",
            "wait at the end   1 task",
            "not placed: 1 task",
            "  1 task  1 job  no room  e.g. a",
        ] {
            assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
        }
        assert!(!text.contains("\nall "), "the sum of one scheduler says nothing");
    }

    #[test]
    fn reasons_beyond_the_first_are_counted() {
        let reason = |index: usize| Unplaced {
            reason: format!("reason {index}"),
            jobs: 1,
            tasks: 1_000 - index,
            example: "a".into(),
            ..Unplaced::default()
        };
        let report = RunReport { unplaced: (0..7).map(reason).collect(), ..Default::default() };
        let text = render(&report);
        assert!(text.contains("not placed: 6,979 tasks\n"), "{text}");
        assert!(text.ends_with("  1,989 tasks for 2 other reasons\n"), "{text}");
    }

    #[test]
    fn no_line_is_too_long_and_none_moves_the_cursor() {
        for report in [hostile(), example(10_000, 4, 200), RunReport::default()] {
            let text = render(&report);
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
                assert!(!line.contains(char::is_control), "{line:?}");
                assert_eq!(line, line.trim_end());
            }
        }
    }
}
