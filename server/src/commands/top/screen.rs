//! The page as text, which is the same for a terminal and for a file.

use super::shape::{ReplicaShape, SchedulerShape, TopShape, WaitingShape};
use crate::commands::show::{Align, columns, facts};
use omega_core::Kinds;

/// Width of a full bar.
const BAR: u64 = 24;

/// Maximum number of characters of a name, so that the following columns stay visible. JSON has the whole name.
const NAME_MAX: usize = 30;

/// A name, cut if it is too long.
fn short(name: &str) -> String {
    if name.chars().count() > NAME_MAX {
        name.chars().take(NAME_MAX - 3).chain("...".chars()).collect()
    } else {
        name.to_owned()
    }
}

/// The whole page.
pub(super) fn text(kinds: &Kinds, top: &TopShape) -> String {
    let mut text = facts(&[
        ("cell", top.cell.clone()),
        ("version", format!("{}, {} changes/s", top.version, rate(top.changes_per_second))),
        ("machines", machines(top)),
        ("jobs", top.jobs.to_string()),
        ("tasks", tasks(top)),
        ("replicas", replicas(&top.replicas)),
        ("silent", top.silent.join(", ")),
    ]);
    text += "\n";
    text += &resources(kinds, top);
    text += "\n";
    text += &schedulers(&top.schedulers);
    if !top.waiting.is_empty() {
        text += "\n";
        text += &waiting(&top.waiting);
    }
    text
}

/// The last page, below a line with the error that prevented a newer page.
pub(super) fn with_trouble(page: &str, why: &str) -> String {
    format!("! {why}\n{page}")
}

fn machines(top: &TopShape) -> String {
    let states = [("draining", top.draining), ("unreachable", top.unreachable)];
    let states = states.iter().filter(|(_, count)| *count > 0);
    let mut text = top.machines.to_string();
    for (position, (state, count)) in states.enumerate() {
        let of = if position == 0 { " of them" } else { "" };
        text += &format!(", {count}{of} {state}");
    }
    text
}

fn tasks(top: &TopShape) -> String {
    let tasks = &top.tasks;
    format!("{} wait, {} placed, {} running", tasks.pending, tasks.placed, tasks.running)
}

fn replicas(all: &[ReplicaShape]) -> String {
    let one = |one: &ReplicaShape| {
        let lag = match one.lag_entries {
            Some(0) | None => String::new(),
            Some(1) => ", 1 entry behind".to_owned(),
            Some(behind) => format!(", {behind} entries behind"),
        };
        let role = match (one.leads, one.role) {
            (true, _) => " leads",
            (false, "voter") => "",
            (false, _) => " learns",
        };
        format!("r{}{role}{lag}", one.replica)
    };
    match all {
        [] => "none: the cell is in memory only".to_owned(),
        all => all.iter().map(one).collect::<Vec<_>>().join("; "),
    }
}

/// A rate. Small rates have decimal places.
fn rate(per_second: f64) -> String {
    match per_second {
        small if small < 10.0 && small > 0.0 => format!("{small:.1}"),
        other => format!("{other:.0}"),
    }
}

fn resources(kinds: &Kinds, top: &TopShape) -> String {
    let heading = [
        ("resource", Align::Left),
        ("", Align::Left),
        ("taken", Align::Right),
        ("claimed", Align::Right),
        ("claimable", Align::Right),
    ];
    let row = |(id, kind): (omega_core::KindId, &omega_core::ResourceKind)| {
        let sum = top.resources.get(&kind.name).filter(|sum| sum.claimable > 0)?;
        let share =
            |of: u64| (u128::from(sum.claimed) * u128::from(of)).div_ceil(sum.claimable.into());
        let filled = share(BAR).min(BAR.into()) as usize;
        let bar = format!("[{}{}]", "#".repeat(filled), ".".repeat(BAR as usize - filled));
        let percent = sum.claimed as f64 / sum.claimable as f64 * 100.0;
        Some(vec![
            kind.name.clone(),
            bar,
            format!("{percent:.0} %"),
            kinds.display(id, sum.claimed),
            kinds.display(id, sum.claimable),
        ])
    };
    let rows: Vec<Vec<String>> = kinds.iter().filter_map(row).collect();
    columns(&heading, &rows)
}

fn schedulers(all: &[SchedulerShape]) -> String {
    let heading = [
        ("scheduler", Align::Left),
        ("wait", Align::Right),
        ("jobs", Align::Right),
        ("longest", Align::Right),
        ("placed/s", Align::Right),
        ("commits/s", Align::Right),
        ("conflicted", Align::Right),
        ("why", Align::Left),
    ];
    let row = |one: &SchedulerShape| {
        let longest = one.oldest_job.as_ref().map_or("-".into(), |_| time(one.oldest_wait_ms));
        let percent = one.conflicted_percent.map_or("-".into(), |part| format!("{part:.1} %"));
        let mut reasons: Vec<_> = one.conflicts.iter().collect();
        reasons.sort_by_key(|(_, items)| std::cmp::Reverse(**items));
        let reason = |(reason, items): &(&String, &u64)| {
            format!("{} {items}", reason.to_lowercase().replace('_', " "))
        };
        vec![
            short(&one.name),
            one.pending_tasks.to_string(),
            one.pending_jobs.to_string(),
            longest,
            rate(one.placements_per_second),
            rate(one.commits_per_second),
            percent,
            reasons.iter().take(2).map(reason).collect::<Vec<_>>().join(", "),
        ]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    columns(&heading, &rows)
}

fn waiting(all: &[WaitingShape]) -> String {
    let heading = [
        ("waiting job", Align::Left),
        ("scheduler", Align::Left),
        ("tasks", Align::Right),
        ("why", Align::Left),
    ];
    let row = |one: &WaitingShape| {
        let why = one.why.clone().unwrap_or_else(|| "...".to_owned());
        vec![short(&one.job), short(&one.scheduler), one.waiting.to_string(), why]
    };
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    columns(&heading, &rows)
}

/// A time as text for people.
fn time(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        seconds @ 1..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_leaves_room_for_the_rest() {
        let long = "x".repeat(90);
        let one = WaitingShape {
            job: long.clone(),
            scheduler: long,
            waiting: 3,
            why: Some("no room".to_owned()),
        };
        let text = waiting(&[one]);
        assert!(text.contains("xxx...") && text.contains("3  no room"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert_eq!(short("short"), "short");
    }

    #[test]
    fn times_and_rates_are_short() {
        assert_eq!(
            [time(5), time(1500), time(61_000), time(3_660_000)],
            ["5 ms", "1 s", "1 min 1 s", "1 h 1 min"]
        );
        assert_eq!([rate(0.0), rate(0.25), rate(9.96), rate(1234.5)], ["0", "0.2", "10.0", "1234"]);
    }
}
