//! The page: a self-contained HTML file that shows a run and can be sent by mail.
//!
//! ```text
//!   page.rs ── key figures, the frame          style.css ── colours and layout, light and dark
//!     ├── plot.rs ── axis.rs                   hover.js ─── values at the pointer, nothing more
//!     ├── heat.rs ── grid.rs
//!     └── lists.rs                             html.rs ──── escapes every name
//! ```
//!
//! All drawings are made here, in Rust. Without scripts the page only lacks the values at the pointer. The
//! page's content policy forbids the page to load anything.

use super::html::{escape, script_data};
use super::number::{NOTHING, amount, count, duration, percent, percent_of, plural, wide};
use super::text::clip;
use super::{RunReport, durable, heat, lists, plot};
use serde::Serialize;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("hover.js");

/// Values that the script shows at the pointer.
#[derive(Serialize)]
struct Readings {
    series: plot::Readings,
    heat: heat::Readings,
}

/// Makes the page of a report.
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
        lists::waits(report),
        lists::tenants(report),
        durable::page(report),
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

/// Description of the run.
fn heading(report: &RunReport, name: &str) -> String {
    let input = [
        plural(wide(report.machines), "machine"),
        plural(wide(report.jobs), "job"),
        plural(wide(report.tasks), "task"),
        format!(
            "{} of workload{}",
            duration(report.workload_s),
            if report.interrupted { ", interrupted" } else { "" }
        ),
        format!("seed {}", report.seed),
    ];
    format!("<header>\n<h1>{name}</h1>\n<p>{}</p>\n</header>\n", input.join(" · "))
}

/// Key figures, each with a name and an explanation.
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
        start => format!("{} ran at the start", plural(wide(start), "task")),
    };
    // The kind with the largest claimed share limits the number of further tasks.
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
            let detail = escape(detail).replace(" %", "&nbsp;%");
            format!("<div><dt>{name}</dt><dd>{figure}<small>{detail}</small></dd></div>\n")
        })
        .collect();
    format!("<dl class=\"figures\">\n{items}</dl>\n")
}

/// The share of tasks that are pending.
fn tasks_of(report: &RunReport) -> String {
    let tasks = plural(wide(report.tasks), "task");
    match report.tasks {
        0 => format!("of {tasks}"),
        all => format!("{} of {tasks}", percent_of(report.pending as f64, all as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{example, hostile};

    #[test]
    fn a_page_shows_every_part() {
        let page = render(&example(1_000, 4, 200));
        for part in [
            "<title>synthetic, three schedulers side by side</title>",
            "Utilisation",
            "Throughput",
            "Conflicts",
            "<label for=\"kind2\">accelerators</label>",
            "zone-d",
            "batch-1",
            "no machine has 8 accelerators left",
            "Constraints on the kernel&#39;s version were left out",
            "prefers-color-scheme: dark",
        ] {
            assert!(page.contains(part), "no {part:?}");
        }
        assert_eq!(page.matches("<figure class=\"plot\"").count(), 6);
        assert_eq!(page.matches("<svg data-block").count(), 3 * 4);
    }

    #[test]
    fn a_page_needs_nothing_else() {
        let page = render(&example(100, 2, 20));
        for outside in ["http:", "https:", "@import", "url(", "src=", "fetch("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn names_do_not_become_markup_anywhere() {
        let page = render(&hostile());
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!(page.matches("</script").count(), 2);
        assert!(!page.contains("<img"));
        assert!(!page.contains('\u{1b}'));
        let data = page.split("id=\"readings\">").nth(1).unwrap();
        let data = data.split("</script>").next().unwrap();
        let readings: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(readings["heat"]["names"].as_array().unwrap().len(), 600);
    }

    #[test]
    fn the_page_of_a_large_cell_is_small() {
        // The size of the page for a month of one cell of the 2011 trace must be small enough for a mail.
        let bytes = render(&example(12_500, 4, 700)).len();
        assert!(bytes < 1_500_000, "{bytes} bytes");
        let bytes = render(&example(100_000, 4, 700)).len();
        assert!(bytes < 2_000_000, "{bytes} bytes");
    }

    #[test]
    fn reports_with_little_in_them_have_a_page() {
        let no_heat = RunReport { heat: Vec::new(), ..example(10, 2, 5) };
        let no_kinds = RunReport { resources: Vec::new(), ..example(10, 2, 5) };
        for report in [RunReport::default(), example(1, 0, 1), example(3, 3, 2), no_heat, no_kinds]
        {
            let page = render(&report);
            assert!(page.ends_with("</html>\n") && !page.contains("NaN"));
        }
    }
}
