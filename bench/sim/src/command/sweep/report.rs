//! Result of a sweep as a page: plots over the setting with the most values, and a table of all results.

use super::drawn::{Drawn, FIGURES};
use super::file::SETTINGS;
use super::groups::{Combination, Figures, Spread, Whose, combinations};
use super::kept::Done;
use super::layout::{LINES_MAX, Layout, PARTS_MAX, name, sample, split, values};
use crate::page::{Page, Section, Table, figure};
use crate::sheet::Cell;
use std::collections::BTreeSet;

/// Maximum number of rows of the page's tables, so that browsers can show the page.
const ROWS_MAX: usize = 500;
/// Maximum number of values of a setting, of workloads, or of seeds that are listed one by one.
const TOLD_MAX: usize = 12;

/// The page of a sweep.
pub(super) fn page(done: &[Done]) -> Page {
    let combinations = combinations(done);
    let layout = Layout::of(&combinations);
    let all: Vec<&Combination> = combinations.iter().collect();
    let parts = match layout.across {
        Some(_) => split(&all, &layout.parts),
        None => vec![(Vec::new(), all.clone())],
    };
    let count = parts.len();
    let parts = sample(parts, PARTS_MAX);
    let mut sections = Vec::new();
    for (number, (key, part)) in parts.iter().enumerate() {
        let (ending, title) = match parts.len() {
            1 => (String::new(), "Results".to_owned()),
            _ => (format!("-{}", number + 1), name(&layout.parts, key)),
        };
        sections.push(results((&ending, title), part, (&layout, ROWS_MAX / parts.len())));
    }
    if let Some(first) = sections.first_mut() {
        let mut prose = how_to_read(&all, &layout);
        if count > parts.len() {
            prose.push(format!(
                "Shown are {} of {count} parts, evenly chosen; `results.csv` and \
                 `results.parquet` have all.",
                parts.len()
            ));
        }
        first.prose.splice(0..0, prose);
    }
    sections.push(settings(done, &all));
    Page { title: "Sweep".to_owned(), lead: lead(done, all.len()), sections }
}

/// Describes the run by its settings; equal results give equal text.
fn lead(done: &[Done], combinations: usize) -> String {
    let of = |value: &dyn Fn(&Done) -> String| told(done.iter().map(value));
    let points = match done.len() {
        1 => "One point, with seed".to_owned(),
        count if count == combinations => format!("{count} points, all with seed"),
        count => format!("{count} points, {combinations} combinations of settings by seeds"),
    };
    // Hours are rounded to hundredths, because a run of a trace ends at its last arrival, which is seldom at a full
    // hour.
    let hours = |it: &Done| ((it.report.seconds / 36.0).round() / 100.0).to_string();
    format!(
        "{points} {}, simulated by omega-sim {}. The workload: {}, on {} machines; a run ends after {} h.",
        of(&|it| it.point.seed().to_string()),
        of(&|it| it.report.version.clone()),
        of(&|it| it.report.workload.clone()),
        of(&|it| it.report.machines.to_string()),
        of(&hours),
    )
}

/// Formats distinct values in order of first appearance; a long list is shortened.
fn told(values: impl Iterator<Item = String>) -> String {
    let mut seen = BTreeSet::new();
    let different: Vec<String> = values.filter(|value| seen.insert(value.clone())).collect();
    let (shown, left) = different.split_at(different.len().min(TOLD_MAX));
    match left.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Explanation of the plots.
fn how_to_read(all: &[&Combination], layout: &Layout) -> Vec<String> {
    let mut prose = Vec::new();
    if layout.across.is_some() && all.iter().any(|it| it.seeds > 1) {
        prose.push(
            "A dot is the mean over the seeds; a whisker shows the lowest and highest value."
                .to_owned(),
        );
    }
    let alone = all.iter().filter(|it| it.figures.contains_key(&Whose::All)).count();
    if layout.across.is_some() && alone > 0 && alone < all.len() {
        prose.push(
            "A scheduler that has all jobs is drawn both with those of batch jobs and with those of service jobs; its wait is \
             that of all jobs."
                .to_owned(),
        );
    }
    prose
}

/// The section with the settings of the run.
fn settings(done: &[Done], all: &[&Combination]) -> Section {
    let value = |setting: usize| told(all.iter().map(|it| it.settings[setting].text()));
    let mut rows: Vec<Vec<String>> = (0..SETTINGS.len() - 1)
        .map(|setting| vec![SETTINGS[setting].0.to_owned(), value(setting)])
        .collect();
    rows.push(vec!["seed".to_owned(), told(done.iter().map(|it| it.point.seed().to_string()))]);
    let notes: BTreeSet<&String> = done.iter().flat_map(|it| &it.report.notes).collect();
    let table = Table {
        title: "Settings of the runs".to_owned(),
        head: ["setting", "values"].map(str::to_owned).to_vec(),
        rows,
    };
    Section {
        id: "settings".to_owned(),
        title: "Runs".to_owned(),
        prose: notes.into_iter().map(|note| format!("Note: {note}.")).collect(),
        tables: vec![table],
        ..Section::default()
    }
}

/// A part of the results: its plots and its table, with at most `rows_max` rows.
fn results(
    (ending, title): (&str, String),
    part: &[&Combination],
    (layout, rows_max): (&Layout, usize),
) -> Section {
    let mut section = Section { id: format!("results{ending}"), title, ..Section::default() };
    if let Some(across) = layout.across {
        let lines = split(part, &layout.lines);
        let count = lines.len();
        let lines = sample(lines, LINES_MAX);
        if count > lines.len() {
            section.prose.push(format!(
                "The plots have {} of {count} lines, evenly chosen; the table has all.",
                lines.len()
            ));
        }
        let drawn = Drawn { across, settings: &layout.lines, lines };
        for figure in FIGURES {
            let plots = drawn.plots(&figure);
            if plots.is_empty() {
                section.prose.push(figure.nothing.to_owned());
            }
            section.plots.extend(
                plots
                    .into_iter()
                    .map(|(whose, plot)| (format!("{}{whose}{ending}", figure.file), plot)),
            );
        }
    } else if part.len() > 1 {
        section.prose.push("No numeric setting was swept, so there are no plots.".to_owned());
    }
    let (table, all) = table(part, layout, rows_max);
    if table.rows.len() < all {
        section.prose.push(format!(
            "The table has the first {} of {all} rows; `results.csv` and `results.parquet` have all.",
            table.rows.len()
        ));
    }
    section.tables.push(table);
    section
}

/// Results of each combination and kind of jobs, limited to `rows_max` rows, and the number of rows without the limit.
fn table(part: &[&Combination], layout: &Layout, rows_max: usize) -> (Table, usize) {
    let mut swept: Vec<usize> = layout.parts.iter().chain(&layout.lines).copied().collect();
    swept.extend(layout.across);
    swept.sort_unstable();
    let names = swept.iter().map(|setting| SETTINGS[*setting].0);
    let head = names.chain([
        "schedulers",
        "seeds",
        "busyness",
        "mean wait, s",
        "conflicts",
        "placed whole",
    ]);
    let row = |it: &Combination, whose: Whose, figures: &Figures<Option<Spread>>| {
        let mut row: Vec<String> = values(it, &swept).iter().map(Cell::text).collect();
        let schedulers = match whose {
            Whose::All => "all jobs",
            Whose::Batch => "batch",
            Whose::Service => "service",
        };
        row.extend([schedulers.to_owned(), it.seeds.to_string()]);
        let all = [figures.busy, figures.wait_s, figures.conflicts, figures.placed];
        row.extend(all.map(shown));
        row
    };
    let all: usize = part.iter().map(|it| it.figures.len()).sum();
    let rows = part.iter().flat_map(|it| it.figures.iter().map(|(whose, f)| row(it, *whose, f)));
    let table = Table {
        title: if part.iter().any(|it| it.seeds > 1) {
            "Means over the seeds, with the lowest and highest value".to_owned()
        } else {
            "Figures".to_owned()
        },
        head: head.map(str::to_owned).collect(),
        rows: rows.take(rows_max).collect(),
    };
    (table, all)
}

fn shown(spread: Option<Spread>) -> String {
    let Some(Spread { mean, least, most }) = spread else { return "–".to_owned() };
    let [mean, least, most] = [mean, least, most].map(figure);
    if least == most { mean } else { format!("{mean} ({least}–{most})") }
}
