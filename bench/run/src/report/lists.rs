//! The tables of the page: schedulers, resources, and tasks without a machine.
//!
//! Each cell repeats its column's name in an attribute: on a narrow screen the style sheet turns each row into a block,
//! and shows the names there.

use super::html::{escape, label, section};
use super::number::{NOTHING, count, duration, micros, percent, percent_of, plural, wide};
use super::{ResourceReport, RunReport, SchedulerReport, Unplaced, tenants};

/// Maximum number of reasons on the page, which is more than a reader reads.
const REASONS_MAX: usize = 50;
/// Maximum number of reasons for conflicts in a scheduler's row, which has no room for more.
const CONFLICT_REASONS_MAX: usize = 3;

/// A column: its name, and the class of its cells.
type Column = (&'static str, &'static str);

const SCHEDULER_COLUMNS: [Column; 10] = [
    ("Scheduler", "name"),
    ("Placements", "number"),
    ("Decisions", "number"),
    ("Decision p50", "number"),
    ("Decision p99", "number"),
    ("Transactions", "number"),
    ("Claims", "number"),
    ("Refused", "number"),
    ("Time wasted", "number"),
    ("Refused for", "words"),
];
const RESOURCE_COLUMNS: [Column; 5] = [
    ("Resource", "name"),
    ("Capacity", "amount"),
    ("At the end", "meter"),
    ("Peak", "meter"),
    ("Fragmented", "number"),
];
const WAIT_COLUMNS: [Column; 6] = [
    ("Scheduler", "name"),
    ("Wait p50", "number"),
    ("Wait p99", "number"),
    ("Tasks evicted", "number"),
    ("Work lost", "number"),
    ("Preferences met", "number"),
];
const TENANT_COLUMNS: [Column; 11] = [
    ("Tenant", "name"),
    ("Below", "words"),
    ("Placements", "number"),
    ("Waiting", "number"),
    ("Wait p50", "number"),
    ("Wait p99", "number"),
    ("Share, mean", "meter"),
    ("Share, peak", "meter"),
    ("Tasks evicted", "number"),
    ("Work lost", "number"),
    ("Preferences met", "number"),
];
const UNPLACED_COLUMNS: [Column; 4] =
    [("Reason", "name"), ("Tasks", "meter"), ("Jobs", "number"), ("One of the jobs", "words")];

/// Figures of each scheduler.
pub(super) fn schedulers(report: &RunReport) -> String {
    if report.schedulers.is_empty() {
        return section("Schedulers", "<p class=\"none\">No scheduler ran.</p>\n");
    }
    let mut rows: Vec<String> = report
        .schedulers
        .iter()
        .map(|scheduler| {
            let decision = [scheduler.decision_us_p50, scheduler.decision_us_p99].map(micros);
            scheduler_row(scheduler, decision, "tr")
        })
        .collect();
    if report.schedulers.len() > 1 {
        // Quantiles of several schedulers cannot be added up.
        let none = [NOTHING.to_string(), NOTHING.to_string()];
        rows.push(scheduler_row(&report.all_schedulers(), none, "tr class=\"sum\""));
    }
    section("Schedulers", &table(&SCHEDULER_COLUMNS, &rows))
}

/// Row of one scheduler.
fn scheduler_row(scheduler: &SchedulerReport, [p50, p99]: [String; 2], tag: &str) -> String {
    let shown = scheduler.conflict_reasons.iter().take(CONFLICT_REASONS_MAX);
    let mut reasons: Vec<String> =
        shown.map(|(reason, claims)| format!("{} ({})", label(reason), count(*claims))).collect();
    match scheduler.conflict_reasons.len().saturating_sub(CONFLICT_REASONS_MAX) {
        0 => {}
        more => reasons.push(format!("{more} more")),
    }
    let refused = percent_of(scheduler.conflicts as f64, scheduler.claims as f64);
    let wasted = percent_of(scheduler.wasted_s, scheduler.deciding_s);
    let cells = [
        label(&scheduler.name),
        count(scheduler.placements),
        count(scheduler.decisions),
        p50,
        p99,
        count(scheduler.transactions),
        count(scheduler.claims),
        with_detail(&refused, &count(scheduler.conflicts)),
        with_detail(&wasted, &format!("of {}", duration(scheduler.deciding_s))),
        if reasons.is_empty() { NOTHING.to_string() } else { reasons.join(", ") },
    ];
    row(&SCHEDULER_COLUMNS, &cells, tag)
}

/// Waits of each scheduler's tasks, and its evictions.
pub(super) fn waits(report: &RunReport) -> String {
    if !tenants::schedulers_tell(report) {
        return String::new();
    }
    let rows: Vec<String> = report
        .schedulers
        .iter()
        .map(|one| {
            let cells = [
                label(&one.name),
                tenants::seconds(one.wait_s_p50),
                tenants::seconds(one.wait_s_p99),
                tenants::evictions(one.evictions, one.evictions_for_guarantees),
                tenants::lost(one.lost_work_s),
                tenants::share(one.preferences_met),
            ];
            row(&WAIT_COLUMNS, &cells, "tr")
        })
        .collect();
    section("Waits and evictions", &table(&WAIT_COLUMNS, &rows))
}

/// Accounting of each tenant.
pub(super) fn tenants(report: &RunReport) -> String {
    if !tenants::are_several(report) {
        return String::new();
    }
    let shares = report.tenants.iter().map(|tenant| tenant.share_at_peak);
    let most = shares.filter(|share| share.is_finite()).fold(1e-9, f64::max);
    let all = &report.tenants;
    let (shown, rest) = all.split_at(all.len().min(tenants::PAGE_ROWS_MAX));
    let rows: Vec<String> = shown
        .iter()
        .map(|one| {
            let share = |share: f64| bar(&percent(share), share / most, "");
            let cells = [
                label(&one.name),
                one.parent.as_deref().map_or_else(|| NOTHING.to_string(), label),
                count(one.placements),
                count(one.pending),
                tenants::seconds(one.wait_s_p50),
                tenants::seconds(one.wait_s_p99),
                share(one.share_mean),
                share(one.share_at_peak),
                tenants::evictions(one.evicted, one.evicted_for_guarantees),
                tenants::lost(one.lost_work_s),
                tenants::share(one.preferences_met),
            ];
            row(&TENANT_COLUMNS, &cells, "tr")
        })
        .collect();
    let mut body = table(&TENANT_COLUMNS, &rows);
    if !rest.is_empty() {
        body.push_str(&format!("<p class=\"hint\">{}.</p>\n", tenants::rest_of(rest).trim_end()));
    }
    section("Tenants", &body)
}

/// Usage of each resource.
pub(super) fn resources(report: &RunReport) -> String {
    if report.resources.is_empty() {
        return String::new();
    }
    let most = report.resources.iter().flat_map(|r| [r.used_at_end, r.used_at_peak]);
    let most = most.filter(|share| share.is_finite()).fold(1.0, f64::max);
    let rows: Vec<String> =
        report.resources.iter().map(|resource| resource_row(resource, most)).collect();
    section("Resources", &table(&RESOURCE_COLUMNS, &rows))
}

/// Row of one resource kind. `most` is the value of the longest bar.
fn resource_row(resource: &ResourceReport, most: f64) -> String {
    let share = |share: f64| {
        let class = if share > 1.0 + 1e-9 { "over" } else { "" };
        bar(&percent(share), share / most, class)
    };
    let cells = [
        label(&resource.name),
        label(&resource.capacity),
        share(resource.used_at_end),
        share(resource.used_at_peak),
        tenants::share(resource.fragmented),
    ];
    row(&RESOURCE_COLUMNS, &cells, "tr")
}

/// Reasons why tasks have no machine.
pub(super) fn unplaced(report: &RunReport) -> String {
    let title = "Not placed";
    if report.unplaced.is_empty() {
        let text = match report.pending {
            0 => "No task is pending at the end.".to_string(),
            tasks => format!("{} at the end, for an unknown reason.", waiting(tasks)),
        };
        return section(title, &format!("<p class=\"none\">{text}</p>\n"));
    }
    let tasks = |list: &[Unplaced]| wide(list.iter().map(|entry| entry.tasks).sum());
    let most = report.unplaced.iter().map(|entry| entry.tasks).max().unwrap_or(0).max(1) as f64;
    let (shown, rest) = report.unplaced.split_at(report.unplaced.len().min(REASONS_MAX));
    let rows: Vec<String> = shown
        .iter()
        .map(|entry| {
            let cells = [
                escape(&entry.why()),
                bar(&count(wide(entry.tasks)), entry.tasks as f64 / most, ""),
                count(wide(entry.jobs)),
                escape(&entry.example),
            ];
            row(&UNPLACED_COLUMNS, &cells, "tr")
        })
        .collect();
    let mut body = table(&UNPLACED_COLUMNS, &rows);
    if !rest.is_empty() {
        body.push_str(&format!(
            "<p class=\"hint\">And {} for {}.</p>\n",
            plural(tasks(rest), "task"),
            plural(wide(rest.len()), "other reason"),
        ));
    }
    section(title, &body)
}

/// `1 task waits`, `2 tasks wait`.
fn waiting(tasks: usize) -> String {
    format!("{} wait{}", plural(wide(tasks), "task"), if tasks == 1 { "s" } else { "" })
}

/// Notes on parts of the input that were not converted.
pub(super) fn notes(report: &RunReport) -> String {
    if report.notes.is_empty() {
        return String::new();
    }
    let items: String =
        report.notes.iter().map(|note| format!("<li>{}</li>\n", escape(note))).collect();
    section("Notes", &format!("<ul class=\"notes\">\n{items}</ul>\n"))
}

/// A table of rows that are already markup.
fn table(columns: &[Column], rows: &[String]) -> String {
    let head: String = columns
        .iter()
        .map(|(name, class)| format!("<th scope=\"col\" class=\"{class}\">{name}</th>"))
        .collect();
    format!(
        "<div class=\"table\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n",
        rows.concat()
    )
}

/// A row of cells that are already markup. The first cell is the heading of the row.
fn row(columns: &[Column], cells: &[String], tag: &str) -> String {
    let cells: String = columns
        .iter()
        .zip(cells)
        .enumerate()
        .map(|(index, ((column, class), cell))| match index {
            0 => format!("<th scope=\"row\" class=\"{class}\">{cell}</th>"),
            _ => format!("<td class=\"{class}\" data-column=\"{column}\">{cell}</td>"),
        })
        .collect();
    format!("<{tag}>{cells}</tr>\n")
}

/// A figure with an explanation in smaller letters.
fn with_detail(figure: &str, detail: &str) -> String {
    format!("{figure} <small>{detail}</small>")
}

/// A figure above a bar, whose width is this share of the cell's width.
fn bar(figure: &str, share: f64, class: &str) -> String {
    let width = if share.is_finite() { share.clamp(0.0, 1.0) * 100.0 } else { 0.0 };
    format!("<span>{figure}</span><i class=\"{class}\" style=\"--share:{width:.1}%\"></i>")
}
