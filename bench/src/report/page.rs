//! The page: one HTML file that needs nothing else, to look at a run or to send to somebody.
//!
//! ```text
//!   page.rs ── key figures, the frame          style.css ── colours and layout, light and dark
//!     ├── plot.rs ── axis.rs                   hover.js ─── values at the pointer, nothing more
//!     ├── heat.rs ── grid.rs
//!     └── lists.rs                             html.rs ──── escapes every name
//! ```
//!
//! Everything is drawn here, in Rust; without scripts the page lacks only the values at the
//! pointer. A policy in its head forbids it to load anything.

use super::html::{escape, script_data};
use super::number::{NOTHING, amount, count, duration, percent, percent_of, plural, wide};
use super::text::clip;
use super::{RunReport, heat, lists, plot};
use serde::Serialize;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("hover.js");

/// What the script shows at the pointer.
#[derive(Serialize)]
struct Readings {
    series: plot::Readings,
    heat: heat::Readings,
}

/// The report as a page.
#[must_use]
pub fn render(report: &RunReport) -> String {
    let name = if report.name.is_empty() { "Run".to_string() } else { escape(&report.name) };
    let (plots, series) = plot::render(report);
    let (map, heat) = heat::render(report);
    let body = [
        heading(report, &name),
        key_figures(report),
        plots,
        lists::resources(report),
        map,
        lists::schedulers(report),
        lists::unplaced(report),
        lists::notes(report),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{name}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{}</main>\n\
         <div id=\"tip\" hidden></div>\n\
         <script type=\"application/json\" id=\"readings\">{}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        body.concat(),
        script_data(&Readings { series, heat }),
    )
}

/// What was run.
fn heading(report: &RunReport, name: &str) -> String {
    let input = [
        plural(wide(report.machines), "machine"),
        plural(wide(report.jobs), "job"),
        plural(wide(report.tasks), "task"),
        format!("{} of workload", duration(report.workload_s)),
        format!("seed {}", report.seed),
    ];
    format!("<header>\n<h1>{name}</h1>\n<p>{}</p>\n</header>\n", input.join(" · "))
}

/// What a reader wants to know first: name, figure, and what explains it.
fn key_figures(report: &RunReport) -> String {
    let all = report.all_schedulers();
    let busy = match report.cpu_s {
        Some(cpu_s) if report.wall_s > 0.0 => {
            format!(", {} processors busy", amount(cpu_s / report.wall_s))
        }
        _ => String::new(),
    };
    let started = match report.placed_at_start {
        0 => format!("{} finished", plural(report.finished, "task")),
        start => format!("and {} at the start", plural(wide(start), "task")),
    };
    // What is claimed most decides how many more tasks fit.
    let fullest = report
        .resources
        .iter()
        .filter(|resource| resource.used_at_end.is_finite())
        .max_by(|a, b| a.used_at_end.total_cmp(&b.used_at_end));
    let (used, fullest) = fullest.map_or((NOTHING.to_string(), String::new()), |resource| {
        let peak = percent(resource.used_at_peak);
        (
            percent(resource.used_at_end),
            format!("{} at the end, peak {peak}", clip(&resource.name, 32)),
        )
    });
    let refused = percent_of(all.conflicts as f64, all.claims as f64);
    let wasted = percent_of(all.wasted_s, all.deciding_s);
    let figures = [
        ("Placements", count(report.placements), started),
        (
            "Placements per second",
            amount(report.placements_per_s),
            format!("in {}{busy}", duration(report.wall_s)),
        ),
        ("Waiting at the end", count(wide(report.pending)), tasks_of(report)),
        ("Claims refused", refused, format!("{} of {}", count(all.conflicts), count(all.claims))),
        ("Deciding time wasted", wasted, format!("of {}", duration(all.deciding_s))),
        ("Utilisation", used, fullest),
    ];
    let items: String = figures
        .iter()
        .map(|(name, figure, detail)| {
            let detail = escape(detail);
            format!("<div><dt>{name}</dt><dd>{figure}<small>{detail}</small></dd></div>\n")
        })
        .collect();
    format!("<dl class=\"figures\">\n{items}</dl>\n")
}

/// The share of tasks that wait.
fn tasks_of(report: &RunReport) -> String {
    let share = percent_of(report.pending as f64, report.tasks as f64);
    format!("{share} of {}", plural(wide(report.tasks), "task"))
}
