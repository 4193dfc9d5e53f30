//! Statistics of a trace, as text.

use super::info::{Info, LoadInfo, MachinesInfo, ValueUnit, ValuesInfo};
use omega_core::{JobKind, KindId, Kinds, Unit};
use omega_workload::words::plural;
use std::fmt::Write;

/// A trace begins late if its first arrival is after a fiftieth (1 / `LATE`) of its span. The first arrival of such a
/// trace is printed.
const LATE: u64 = 50;

/// Formats the statistics as `omega-sim trace info` prints them.
#[must_use]
pub fn info(info: &Info, kinds: &Kinds) -> String {
    let mut text = format!("{}\n\n", info.name);
    machines(&mut text, &info.machines, kinds);
    let line = |what: &str, value: String| format!("{what:<12}{value}\n");
    let start = |n: u64| if n > 0 { format!(", {n} of them at the start") } else { String::new() };
    text += &line("jobs", format!("{}{}", info.jobs.all, start(info.jobs.at_start)));
    let mut tasks = format!("{}{}", info.tasks.all, start(info.tasks.at_start));
    if info.tasks_placed > 0 {
        tasks += &format!(", {} run already when they come", info.tasks_placed);
    }
    if info.tasks_endless > 0 {
        tasks += &format!(", {} run beyond the end", info.tasks_endless);
    }
    text += &line("tasks", tasks);
    text += &line("span", time(info.span_ms as f64));
    let mut arrivals = format!("{} jobs per hour", number(info.jobs_per_hour));
    if info.first_ms > info.span_ms / LATE {
        arrivals += &format!(", from {} on", time(info.first_ms as f64));
    }
    text += &line("arrivals", arrivals);
    text += "\n";
    text += &values(&info.values, kinds);
    text += "\n";
    text += &loads(info, kinds);
    text += &classes(info);
    tenants_and_rules(&mut text, info);
    if !info.notes.is_empty() {
        text += "\nnotes\n";
        info.notes.iter().for_each(|note| text += &format!("  {note}\n"));
    }
    text
}

fn machines(text: &mut String, machines: &MachinesInfo, kinds: &Kinds) {
    if machines.count == 0 && machines.added == 0 {
        *text += "machines    none\n";
        return;
    }
    let shown = |(name, amount): (&String, &u128)| {
        let whole = u64::try_from(*amount).unwrap_or(u64::MAX);
        let kind = kinds.by_name(name).map(|kind| kinds.display(kind, whole));
        format!("{name} {}", kind.unwrap_or_else(|| amount.to_string()))
    };
    let capacity: Vec<String> = machines.capacity.iter().map(shown).collect();
    *text += &format!("machines    {}: {}\n", machines.count, listed(&capacity));
    for size in &machines.sizes {
        let has: Vec<String> =
            size.has.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
        *text += &format!("            {:>6} x {}\n", size.count, listed(&has));
    }
    if machines.size_count as usize > machines.sizes.len() {
        let more = machines.size_count as usize - machines.sizes.len();
        *text += &format!("                   and {}\n", plural(more as u64, "more size"));
    }
    if machines.added + machines.removed > 0 {
        let (added, removed) = (machines.added, machines.removed);
        *text += &format!("            {added} join or change later, {removed} leave\n");
    }
}

/// Formats amounts of resources.
fn listed(amounts: &[String]) -> String {
    if amounts.is_empty() { "no resources".to_owned() } else { amounts.join(", ") }
}

/// Formats percentiles as a table.
#[must_use]
pub fn values(values: &[ValuesInfo], kinds: &Kinds) -> String {
    let mut rows = vec![
        ["", "least", "50 %", "90 %", "99 %", "largest", "mean", "cv"].map(str::to_owned).to_vec(),
    ];
    for v in values.iter().filter(|v| v.count > 0) {
        let show = |value: f64| amount(value, v.unit, kinds);
        let of = [v.least, v.p50, v.p90, v.p99, v.largest].map(|value| show(value as f64));
        let mut row = vec![v.what.clone()];
        row.extend(of);
        row.extend([show(v.mean), format!("{:.2}", v.variation)]);
        rows.push(row);
    }
    table(&rows)
}

fn loads(info: &Info, kinds: &Kinds) -> String {
    if info.load.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        ["load, as asked", "mean", "peak", "cluster resources", "peak", "over"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for load in &info.load {
        rows.push(load_row(load, kinds));
    }
    table(&rows) + "\n"
}

fn load_row(load: &LoadInfo, kinds: &Kinds) -> Vec<String> {
    let kind = kinds.by_name(&load.kind).unwrap_or(KindId::CPU);
    let show = |value: f64| amount(value, ValueUnit::Kind(kind.0), kinds);
    let share = |share: Option<f64>| {
        share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
    };
    vec![
        load.kind.clone(),
        show(load.mean),
        show(load.peak),
        share(load.mean_share),
        share(load.peak_share),
        sparks(&load.over_time),
    ]
}

/// Formats values as a line of bars, scaled to the largest value.
fn sparks(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let together = values.len().div_ceil(32).max(1);
    let means: Vec<f64> =
        values.chunks(together).map(|c| c.iter().sum::<f64>() / c.len() as f64).collect();
    let largest = means.iter().copied().fold(0.0, f64::max);
    let bar = |mean: &f64| {
        let height = if largest > 0.0 { mean / largest * 7.0 } else { 0.0 };
        BARS[(height.round() as usize).min(7)]
    };
    means.iter().map(bar).collect()
}

fn classes(info: &Info) -> String {
    if info.classes.len() < 2 {
        return String::new();
    }
    let all: u128 = info.classes.iter().map(|class| class.asked).sum();
    let mut rows =
        vec![["kind", "precedence", "jobs", "tasks", "cpu asked"].map(str::to_owned).to_vec()];
    for class in &info.classes {
        let (kind, precedence) = match class.kind {
            Some(JobKind::Service) => ("service", class.precedence.to_string()),
            Some(JobKind::Batch) => ("batch", class.precedence.to_string()),
            None => ("others", String::new()),
        };
        let share = if all > 0 { class.asked as f64 / all as f64 * 100.0 } else { 0.0 };
        let counts = [class.jobs.to_string(), class.tasks.to_string(), format!("{share:.1} %")];
        rows.push([vec![kind.to_owned(), precedence], counts.to_vec()].concat());
    }
    table(&rows) + "\n"
}

fn tenants_and_rules(text: &mut String, info: &Info) {
    if info.tenants.count > 1 {
        let named = info
            .tenants
            .largest
            .iter()
            .map(|t| format!("{} ({})", t.name, plural(t.tasks, "task")));
        let named: Vec<String> = named.collect();
        *text += &format!("tenants     {}, the largest {}\n", info.tenants.count, named.join(", "));
    }
    let rules = info.rules;
    let said = [
        (rules.gangs, ["is a gang", "are gangs"]),
        (rules.machines, ["asks for certain machines", "ask for certain machines"]),
        (
            rules.tasks,
            ["asks to be near to or far from tasks", "ask to be near to or far from tasks"],
        ),
        (rules.devices, ["asks for devices", "ask for devices"]),
    ];
    let said = said
        .iter()
        .filter(|(jobs, _)| *jobs > 0)
        .map(|(jobs, [one, many])| format!("{jobs} {}", if *jobs == 1 { one } else { many }));
    let said: Vec<String> = said.collect();
    if !said.is_empty() {
        *text += &format!("jobs        {}\n", said.join(", "));
    }
}

/// Formats a rounded amount with its unit.
#[must_use]
pub fn amount(value: f64, unit: ValueUnit, kinds: &Kinds) -> String {
    match unit {
        ValueUnit::Ms => time(value),
        ValueUnit::Count => number(value),
        // A mean of a few devices is seldom a whole number.
        ValueUnit::Kind(kind) => match kinds.get(KindId(kind)).map(|kind| kind.unit) {
            Some(Unit::Count) if value < 100.0 => number(value),
            _ => kinds.display(KindId(kind), value.round() as u64),
        },
    }
}

/// Formats a time in the largest unit of which there is at least one.
fn time(ms: f64) -> String {
    const UNITS: [(f64, &str); 4] =
        [(86_400_000.0, "d"), (3_600_000.0, "h"), (60_000.0, "min"), (1000.0, "s")];
    match UNITS.iter().find(|(unit, _)| ms >= *unit) {
        Some((unit, name)) => format!("{} {name}", number(ms / unit)),
        None => format!("{} ms", number(ms)),
    }
}

/// Formats a number with three significant digits, or with all digits of its integral part if these are more.
fn number(value: f64) -> String {
    match value {
        value if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Formats a table; the first column is left-aligned, the others right-aligned.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| rows.iter().filter_map(|r| r.get(i)).map(|f| f.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|i| width(i).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, (field, width)) in row.iter().zip(&widths).enumerate() {
            let written = if i == 0 {
                write!(line, "{field:<width$}")
            } else {
                write!(line, "  {field:>width$}")
            };
            written.expect("a string takes what is written");
        }
        text += line.trim_end();
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        let shown = [0.0, 7.0, 7.125, 71.25, 712.5, 7125.0].map(number);
        assert_eq!(shown, ["0", "7", "7.12", "71.2", "712", "7125"]);
        let shown = [250.0, 1500.0, 90_000.0, 7_200_000.0, 172_800_000.0].map(time);
        assert_eq!(shown, ["250 ms", "1.50 s", "1.50 min", "2 h", "2 d"]);
        assert_eq!(sparks(&[0.0, 1.0, 2.0]), "▁▅█");
        assert_eq!(sparks(&[]), "");
    }

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [vec!["a", "bc"], vec!["abc", "b"]];
        let rows = rows.map(|row| row.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(table(&rows), "a    bc\nabc   b\n");
    }
}
