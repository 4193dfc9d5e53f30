//! The table of figures, as text at most 120 characters wide, or as Markdown.

use crate::measure::Options;
use crate::measure::clock::Figure;
use crate::print::say;

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanos,
    Micros,
    Millis,
    Seconds,
    /// Millions per core-second.
    MillionsPerSecond,
    /// Thousands per core-second.
    ThousandsPerSecond,
    Percent,
    Bytes,
    Mebibytes,
    /// A ratio.
    Times,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            _ if value.is_nan() => "-".into(),
            Unit::Nanos => format!("{} ns", short(value)),
            Unit::Micros => format!("{} us", short(value)),
            Unit::Millis => format!("{} ms", short(value)),
            Unit::Seconds => format!("{} s", short(value)),
            Unit::MillionsPerSecond => format!("{} M/s", short(value)),
            Unit::ThousandsPerSecond => format!("{} k/s", short(value)),
            Unit::Percent => format!("{} %", short(value)),
            Unit::Bytes => format!("{value:.0} B"),
            Unit::Mebibytes => format!("{} MiB", short(value)),
            Unit::Times => format!("{} x", short(value)),
        }
    }
}

/// Rounds to three significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Target of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    AtMost(f64),
    AtLeast(f64),
}

/// A row of the table. All values are in the row's unit.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    what: String,
    unit: Unit,
    ours: f64,
    wall: f64,
    bare: f64,
    limit: &'static str,
    reach: Option<Reach>,
}

impl Row {
    /// A row from figures in nanoseconds per piece of work.
    pub(crate) fn time(what: impl Into<String>, unit: Unit, ours: Figure) -> Row {
        let (cpu, wall) = (convert(unit, ours.cpu), convert(unit, ours.wall));
        Row { wall, ..Row::value(what, unit, cpu) }
    }

    /// A row with one value in the unit.
    pub(crate) fn value(what: impl Into<String>, unit: Unit, ours: f64) -> Row {
        let (wall, bare) = (f64::NAN, f64::NAN);
        Row { what: what.into(), unit, ours, wall, bare, limit: "", reach: None }
    }

    /// Returns the row with the figure of a bare loop, in nanoseconds.
    pub(crate) fn beside(mut self, bare: Figure) -> Row {
        self.bare = convert(self.unit, bare.cpu);
        self
    }

    /// Returns the row with the best result of prototypes.
    pub(crate) fn limit(mut self, limit: &'static str) -> Row {
        self.limit = limit;
        self
    }

    /// Returns the row with a target.
    pub(crate) fn reach(mut self, reach: Reach) -> Row {
        self.reach = Some(reach);
        self
    }

    /// Ratio of Omega's cost to that of the bare loop.
    fn ratio(&self) -> f64 {
        match self.unit {
            Unit::MillionsPerSecond | Unit::ThousandsPerSecond => self.bare / self.ours,
            _ => self.ours / self.bare,
        }
    }

    fn verdict(&self) -> &'static str {
        match self.reach {
            None => "",
            Some(Reach::AtMost(most)) if self.ours <= most => "yes",
            Some(Reach::AtLeast(least)) if self.ours >= least => "yes",
            Some(_) => "NO",
        }
    }

    fn reach_text(&self) -> String {
        match self.reach {
            None => String::new(),
            Some(Reach::AtMost(value)) => format!("<= {}", self.unit.text(value)),
            Some(Reach::AtLeast(value)) => format!(">= {}", self.unit.text(value)),
        }
    }

    fn cells(&self) -> [String; 8] {
        [
            self.what.clone(),
            self.unit.text(self.ours),
            self.unit.text(self.wall),
            self.unit.text(self.bare),
            Unit::Times.text(self.ratio()),
            self.limit.to_owned(),
            self.reach_text(),
            self.verdict().to_owned(),
        ]
    }
}

/// Converts nanoseconds per operation to a unit of time or of rate.
fn convert(unit: Unit, nanos: f64) -> f64 {
    match unit {
        Unit::Micros => nanos / 1e3,
        Unit::Millis => nanos / 1e6,
        Unit::Seconds => nanos / 1e9,
        Unit::MillionsPerSecond => 1e3 / nanos,
        Unit::ThousandsPerSecond => 1e6 / nanos,
        _ => nanos,
    }
}

const HEADINGS: [&str; 8] = ["work", "cpu", "wall", "bare", "ratio", "limit", "target", "met"];
const WIDTHS: [usize; 8] = [51, 10, 10, 10, 8, 10, 14, 5];

/// Prints the head of the table. Returns whether it was written, or else its reader has closed the output.
pub(crate) fn head(options: &Options, seed: u64) -> bool {
    let profile = if cfg!(debug_assertions) { "DEBUG BUILD, NO FIGURES" } else { "release" };
    let runs = options.runs();
    say!(
        "omega-bench table: seed {seed}, {profile}, {} cores, median of {runs} runs",
        std::thread::available_parallelism().map_or(0, usize::from),
    ) && say!("cpu: thread processor time; bare: a bare loop in the same run; ratio: ours to bare")
}

/// Prints a group of rows. Returns whether it was written, or else its reader has closed the output.
pub(crate) fn group(options: &Options, name: &str, workload: &str, rows: &[Row]) -> bool {
    if options.markdown {
        return say!("\n### {name}\n\n{workload}\n")
            && say!("| {} |", HEADINGS.join(" | "))
            && say!("|---|--:|--:|--:|--:|--:|--:|---|")
            && rows.iter().all(|row| say!("| {} |", row.cells().join(" | ")));
    }
    say!("\n{name}: {workload}")
        && line(&HEADINGS.map(str::to_owned))
        && rows.iter().all(|row| line(&row.cells()))
}

fn line(cells: &[String; 8]) -> bool {
    let mut text = format!("{:<width$}", cells[0], width = WIDTHS[0]);
    for (cell, width) in cells.iter().zip(WIDTHS).skip(1) {
        text.push_str(&format!("{cell:>width$}"));
    }
    say!("{}", text.trim_end())
}
