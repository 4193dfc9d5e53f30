//! Cost of durability: lines of the table, and a section of the page.

use super::html::section;
use super::number::{amount, count, duration};
use super::text::{Align, columns};
use super::{DurableReport, ReplicaReport, RunReport};

/// The names of the columns.
const COLUMNS: [&str; 7] =
    ["replica", "role", "log", "log/claim", "syncs", "snapshots", "directory"];

/// The figures that do not belong to a single replica, as name and value.
pub(super) fn figures(durable: &DurableReport) -> [(&'static str, String); 2] {
    let [p50, p99] = [durable.commit_us_p50, durable.commit_us_p99];
    let (p50, p99) = (duration(p50 * 1e-6), duration(p99 * 1e-6));
    [
        ("commit", format!("{p50} p50, {p99} p99")),
        ("fdatasync", format!("{} for 4 KiB on this disk", duration(durable.fdatasync_us * 1e-6))),
    ]
}

/// The table of the replicas; empty for a cell in memory.
pub(super) fn table(report: &RunReport) -> String {
    let Some(durable) = &report.durable else { return String::new() };
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(durable.replicas.iter().map(|replica| cells(replica).to_vec()));
    let mut aligns = [Align::Right; COLUMNS.len()];
    (aligns[0], aligns[1]) = (Align::Left, Align::Left);
    columns(&rows, &aligns, 0)
}

/// Cost of durability as a section of the page.
pub(super) fn page(report: &RunReport) -> String {
    let Some(durable) = &report.durable else { return String::new() };
    let figures = figures(durable).map(|(name, value)| format!("{name}: {value}")).join("; ");
    let head: String = COLUMNS.iter().map(|name| format!("<th>{name}</th>")).collect();
    let row = |replica: &ReplicaReport| {
        let cells = cells(replica);
        let cells = COLUMNS.iter().zip(&cells);
        let cells = cells.map(|(name, cell)| format!("<td data-name=\"{name}\">{cell}</td>"));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = durable.replicas.iter().map(row).collect();
    let body = format!(
        "<p>{figures}</p>\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    );
    section("Replicas", &body)
}

fn cells(replica: &ReplicaReport) -> [String; COLUMNS.len()] {
    [
        replica.name.clone(),
        if replica.leads { "leader" } else { "follower" }.to_owned(),
        bytes(replica.log_bytes),
        format!("{} B", amount(replica.log_bytes_per_claim)),
        count(replica.syncs),
        count(replica.snapshots),
        bytes(replica.directory_bytes),
    ]
}

/// Formats bytes for people.
fn bytes(bytes: u64) -> String {
    match bytes as f64 / f64::from(1 << 20) {
        mebibytes if mebibytes >= 1024.0 => format!("{} GiB", amount(mebibytes / 1024.0)),
        mebibytes => format!("{} MiB", amount(mebibytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{durable, example};

    #[test]
    fn the_table_has_a_line_for_each_replica() {
        let report = RunReport { durable: Some(durable()), ..RunReport::default() };
        let expected = "\
replica  role           log  log/claim   syncs  snapshots  directory
r1       leader    40.0 MiB     61.4 B  39,999          0    3.0 GiB
r2       follower  40.0 MiB     61.4 B  39,998          1    3.0 GiB
r3       follower  40.0 MiB     61.4 B  39,997          2    3.0 GiB
";
        let squeezed = |text: &str| {
            let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            lines.map(|words| words.join(" ").replace(".0 ", " ")).collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&table(&report)), squeezed(expected));
        let whole = crate::report::table::render(&report);
        assert!(whole.contains("\ncommit        812 µs p50, 4.21 ms p99\n"), "{whole}");
        assert!(whole.contains("\nfdatasync     102 µs for 4 KiB on this disk\n"), "{whole}");
    }

    #[test]
    fn a_cell_in_memory_has_no_replicas_to_show() {
        assert_eq!((table(&example(10, 2, 5)), page(&example(10, 2, 5))), Default::default());
        let report = RunReport { durable: Some(durable()), ..example(10, 2, 5) };
        let page = crate::report::page::render(&report);
        assert_eq!(page.matches("<h2>Replicas</h2>").count(), 1);
    }
}
