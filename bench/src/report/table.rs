//! The short table that a run prints at its end: plain text, a hundred columns at most.
//!
//! It says what a user asks first: how much was placed and how fast, what conflicts cost, how full
//! the cell got, and why some tasks have no machine. The rest is on the page and in the JSON file.

use super::number::{NOTHING, amount, count, duration, percent, percent_of, plural, wide};
use super::text::{Align, WIDTH, clean, clip, columns, wrap};
use super::{RunReport, SchedulerReport, Unplaced};

/// The reasons that the table lists. The page lists more.
const REASONS_MAX: usize = 5;

/// The report as a table in plain text, with a line break at its end.
#[must_use]
pub fn render(report: &RunReport) -> String {
    let sections = [
        heading(report),
        figures(report),
        schedulers(report),
        resources(report),
        unplaced(report),
        notes(report),
    ];
    let full: Vec<String> = sections.into_iter().filter(|section| !section.is_empty()).collect();
    full.join("\n")
}

/// What was run.
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
    format!("{name}{seed}\n{input}; {} of workload\n", duration(report.workload_s))
}

/// What came of it, one line per figure.
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
    if report.pending > 0 {
        lines.push(("wait at the end", plural(wide(report.pending), "task")));
    }
    let rows: Vec<Vec<String>> =
        lines.into_iter().map(|(name, value)| vec![name.to_string(), value]).collect();
    columns(&rows, &[Align::Left, Align::Left], 1)
}

/// Seconds, and how many processors were busy in them.
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
        let p50 = duration(scheduler.decision_us_p50 * 1e-6);
        scheduler_row(scheduler, [p50, duration(scheduler.decision_us_p99 * 1e-6)])
    }));
    if report.schedulers.len() > 1 {
        // Quantiles of several schedulers do not add up to one.
        rows.push(scheduler_row(&report.all_schedulers(), [String::new(), String::new()]));
    }
    let mut aligns = [Align::Right; 9];
    aligns[0] = Align::Left;
    columns(&rows, &aligns, 0)
}

/// The line of one scheduler. Times spent on refused claims stand beside the time spent in all.
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

/// How full the cell is.
fn resources(report: &RunReport) -> String {
    if report.resources.is_empty() {
        return String::new();
    }
    let mut rows = vec![strings(["resource", "capacity", "at the end", "peak"])];
    rows.extend(report.resources.iter().map(|resource| {
        let capacity =
            if resource.capacity.is_empty() { NOTHING } else { resource.capacity.as_str() };
        vec![
            clip(&clean(&resource.name), WIDTH / 3),
            clean(capacity),
            percent(resource.used_at_end),
            percent(resource.used_at_peak),
        ]
    }));
    columns(&rows, &[Align::Left, Align::Right, Align::Right, Align::Right], 1)
}

/// Why tasks have no machine.
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
                clean(&entry.reason),
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

/// What of the input was left out.
fn notes(report: &RunReport) -> String {
    let indent = "  ";
    let lines = report.notes.iter().flat_map(|note| {
        let lines = wrap(&clean(note), WIDTH - indent.len() - 2);
        lines.into_iter().enumerate().map(move |(index, line)| {
            let bullet = if index == 0 { "- " } else { "  " };
            format!("{indent}{bullet}{line}\n")
        })
    });
    let text: String = lines.collect();
    if text.is_empty() { text } else { format!("notes\n{text}") }
}

/// Owned cells from fixed ones.
fn strings<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}
