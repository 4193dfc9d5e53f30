//! Results of a sweep: equal values as CSV and as typed Parquet, and a page whose plots have every point.

use crate::support::{omega_sim, text};
use parquet::basic::{LogicalType, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Runs a sweep whose file has this text. Returns the folder of its results.
fn sweep(dir: &Path, content: &str) -> PathBuf {
    let (file, out) = (dir.join("file.toml"), dir.join("out"));
    std::fs::write(&file, content).expect("written");
    let said = omega_sim(&["sweep", &file.to_string_lossy(), "--out", &out.to_string_lossy()]);
    assert_eq!((text(&said.stderr).as_str(), said.status.code()), ("", Some(0)));
    out
}

/// The header and the rows of the table.
fn csv(out: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let text = std::fs::read_to_string(out.join("results.csv")).expect("it was written");
    let mut rows = text.lines().map(|line| line.split(',').map(str::to_owned).collect());
    (rows.next().expect("a header"), rows.collect())
}

fn read(out: &Path, name: &str) -> String {
    std::fs::read_to_string(out.join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// Formats a Parquet field as the CSV does, with as many decimals as the CSV's field.
fn as_csv(field: &Field, csv: &str) -> String {
    let decimals = csv.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::ULong(count) => count.to_string(),
        Field::Double(number) => format!("{number:.decimals$}"),
        other => panic!("no column is {other:?}"),
    }
}

/// Compares the two tables. Returns the number of empty fields in them.
fn compared(out: &Path) -> usize {
    let (header, rows) = csv(out);
    let file = File::open(out.join("results.parquet")).expect("it was written");
    let file = SerializedFileReader::new(file).expect("it is Parquet");
    let about = file.metadata().file_metadata();
    let names: Vec<&str> = about.schema_descr().columns().iter().map(|it| it.name()).collect();
    assert_eq!(names, header);
    assert_eq!(about.num_rows() as usize, rows.len());
    let mut nothing = 0;
    for (row, expected) in file.get_row_iter(None).expect("rows").zip(&rows) {
        for ((name, field), expected) in row.expect("a row").get_column_iter().zip(expected) {
            assert_eq!(&as_csv(field, expected), expected, "{name}");
            nothing += usize::from(*field == Field::Null);
        }
    }
    nothing
}

const FILE: &str = "[input]\nsynthetic = 40\nhours = 1\n\n[sweep]\narch = [\"mono-multi\", \"omega\"]\n\
    t_job_service = [0.1, 1, 10]\nbatch = [1, 2]\nseed = [1, 2]\n";

#[test]
fn parquet_has_the_same_rows_with_their_types() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = sweep(dir.path(), FILE);
    compared(&out);
    let file = File::open(out.join("results.parquet")).expect("it was written");
    let file = SerializedFileReader::new(file).expect("it is Parquet");
    let about = file.metadata().file_metadata();
    let column = |name: &str| {
        let columns = about.schema_descr().columns();
        columns.iter().find(|column| column.name() == name).expect("a column")
    };
    assert_eq!(column("arch").logical_type_ref(), Some(&LogicalType::String));
    let whole = Some(&LogicalType::integer(64, false));
    assert_eq!(
        (column("seed").physical_type(), column("seed").logical_type_ref()),
        (Type::INT64, whole)
    );
    assert_eq!(column("t_job_service").physical_type(), Type::DOUBLE);
    let remarks = about.key_value_metadata().expect("remarks");
    let remark = |name: &str| {
        let remark = remarks.iter().find(|remark| remark.key == name);
        remark.and_then(|remark| remark.value.as_deref()).expect("it is there")
    };
    assert_eq!((remark("omega.sweep"), remark("omega.version")), (FILE, env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_mean_of_nothing_is_nothing_rather_than_zero() {
    let dir = tempfile::tempdir().expect("a folder");
    // There is one batch job, so the service scheduler has no job.
    std::fs::write(dir.path().join("log.swf"), "1 0 0 30 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n")
        .expect("written");
    let data = dir.path().join("log.swf");
    let out = sweep(
        dir.path(),
        &format!("[input]\ntrace = \"swf\"\ndata = {data:?}\non = \"2,cpu=4\"\n[sweep]\n"),
    );
    // The fields without a value are those of the service scheduler: its conflicts, its four waits, and the time until
    // its jobs are placed.
    assert_eq!(compared(&out), 6);
    let (header, rows) = csv(&out);
    let wait = header.iter().position(|name| name == "wait_mean_s").expect("a column");
    assert_eq!([&rows[0][wait], &rows[1][wait]], ["0.0000", ""]);
    // A sweep of a single point, without numbers that vary, gives a table.
    let page = read(&out, "report.html");
    assert!(
        page.contains("One point, with seed 1, simulated by omega-sim ") && !page.contains("<svg"),
        "{page}"
    );
    assert_eq!(page.matches("<td>service</td>").count(), 2, "as a setting, and its row: {page}");
    assert!(!out.join("plots").exists());
}

/// Checks that the tags of a drawing are nested and closed, and all attributes are quoted.
fn assert_is_xml(name: &str, svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, after) = tag.split_once('>').unwrap_or_else(|| panic!("{name}: <{tag}"));
        assert!(!after.contains('>') || open.last() == Some(&"style"), "{name}: {after}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{name}: {tag}");
        match (tag.strip_prefix('/'), tag.ends_with('/')) {
            (Some(closed), _) => assert_eq!(open.pop(), Some(closed), "{name}"),
            (None, true) => {}
            (None, false) => open.push(tag.split(' ').next().unwrap_or_default()),
        }
    }
    assert!(open.is_empty(), "{name}: {open:?}");
}

#[test]
fn the_page_has_every_point_and_says_what_was_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = sweep(dir.path(), FILE);
    let page = read(&out, "report.html");
    let version = env!("CARGO_PKG_VERSION");
    let lead = "24 points, 12 combinations of settings by seeds 1, 2, simulated by omega-sim";
    assert!(
        page.contains(&format!(
            "{lead} {version}. The workload: synthetic, 1 h, on 40 machines; a run ends after "
        )),
        "{page}"
    );
    // Each combination has a row for each kind of jobs, with the swept settings first, then the kind.
    let (header, rows) = csv(&out);
    let at = |name: &str| header.iter().position(|column| column == name).expect("a column");
    let shown = ["arch", "batch", "t_job_service", "scheduler"].map(at);
    let expected: BTreeSet<Vec<&str>> = rows
        .iter()
        .map(|row| shown.iter().map(|column| row[*column].as_str()).collect::<Vec<_>>())
        .map(|row| [&row[..3], &[row[3].split('-').next().unwrap_or_default()]].concat())
        .collect();
    assert_eq!(expected.len(), 6 + 6 * 2);
    let markdown = read(&out, "report.md");
    for row in &expected {
        let whose = if row[3] == "monolithic" { "all jobs" } else { row[3] };
        let cells = format!("| {} | {} | {} | {whose} | 2 |", row[0], row[1], row[2]);
        assert_eq!(markdown.matches(&cells).count(), 1, "{cells}: {markdown}");
    }
    // The horizontal axis is the setting with the most values, and each combination of the others has a line.
    for name in ["busy-batch", "busy-service", "wait-batch", "wait-service"] {
        let svg = read(&out, &format!("plots/{name}.svg"));
        assert_is_xml(name, &svg);
        assert!(svg.contains(">decision time of a service job, seconds<"), "{svg}");
        for line in ["mono-multi", "omega"] {
            for batch in [1, 2] {
                let line = format!(">batch {batch}, {line}<");
                assert_eq!(svg.matches(&line).count(), 1, "{line}: {svg}");
            }
        }
        // Four lines have three values each.
        assert_eq!(svg.matches("<circle").count(), 12, "{svg}");
        let png = std::fs::read(out.join(format!("plots/{name}.png"))).expect("it is there");
        assert!(png.starts_with(b"\x89PNG"));
    }
}

#[test]
fn what_is_too_much_for_a_page_is_left_out_aloud() {
    let short = "end = 0.02\n[input]\nsynthetic = 10\nhours = 1\n[sweep]\nnear_best = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n\
        batch = [1, 2, 3, 4, 5, 6, 7, 8, 9]\n";
    let dir = tempfile::tempdir().expect("a folder");
    let page = read(&sweep(dir.path(), short), "report.html");
    assert_eq!(page.matches("The plots have 8 of 9 lines, evenly chosen").count(), 1, "{page}");
    let dir = tempfile::tempdir().expect("a folder");
    let page = read(&sweep(dir.path(), &format!("{short}service = [1, 2]\n")), "report.html");
    assert!(page.contains("Shown are 6 of 9 parts, evenly chosen"), "{page}");
}
