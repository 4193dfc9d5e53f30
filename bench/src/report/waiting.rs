//! Why jobs wait: what `omega explain` shows, as one value, as text and as JSON.
//!
//! `docs/explain.md` describes the fields for readers of the file.

use super::number::{plural, wide};
use super::text::{Align, WIDTH, clean, clip, columns, wrap};
use serde::Serialize;

/// Jobs that wait at the end of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WaitingReport {
    /// What was run, in a few words.
    pub name: String,
    /// Tasks of all jobs that wait.
    pub pending: usize,
    /// The jobs that were asked for.
    pub jobs: Vec<WaitingJob>,
}

/// A job, and why it waits if it does.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WaitingJob {
    /// Its name.
    pub job: String,
    /// The scheduler that could not place it; empty if none of its tasks waits.
    pub scheduler: String,
    /// How many tasks it has; 0 if it has ended and is forgotten.
    pub tasks: u64,
    /// How many of them wait.
    pub waiting: usize,
    /// Why the cell refused claims for it last, if not for what others did in the meantime.
    pub refused: Option<String>,
    /// If its tasks must run together.
    pub gang: Option<WaitingGang>,
    /// Its groups with tasks that wait.
    pub groups: Vec<WaitingGroup>,
}

/// A job whose tasks must run together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct WaitingGang {
    /// How many tasks at least.
    pub needs: u32,
    /// How many have a machine.
    pub have: usize,
    /// For how many of those that wait there is room, all at once.
    pub room: usize,
}

/// Identical tasks that wait.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WaitingGroup {
    /// The group's name.
    pub group: String,
    /// How many tasks wait.
    pub waiting: usize,
    /// What each asks for, as a person reads it.
    pub request: String,
    /// How many machines there are.
    pub machines: usize,
    /// How many would take one of the tasks now.
    pub feasible: usize,
    /// How many machines each filter removes of those that the filters before it left.
    pub removed: Vec<(String, usize)>,
    /// How many machines each reason rules out, the most first; one that has too little of several
    /// kinds counts for each.
    pub reasons: Vec<(String, usize)>,
    /// The machines that come nearest.
    pub nearest: Vec<NearMiss>,
    /// Single changes that would help.
    pub remedies: Vec<Help>,
}

/// Machines that lack the same.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NearMiss {
    /// How many.
    pub machines: usize,
    /// The first of them.
    pub example: String,
    /// All that each of them lacks.
    pub lacks: Vec<Lack>,
}

/// One thing that a machine lacks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lack {
    /// What it is: `room`, `cards`, `taints`, `affinity`, `other_machine`, `draining`, `rule` or
    /// `filter`.
    pub what: &'static str,
    /// Of which resource kind, if it is room.
    pub kind: Option<String>,
    /// How much, if it is room (in the kind's smallest unit) or cards.
    pub missing: Option<u64>,
    /// The same in words.
    pub text: String,
}

/// A change that would help.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Help {
    /// What it is: `room` that comes free, a `larger_machine`, or to `lift` what forbids.
    pub what: &'static str,
    /// The machine that is short of least, if it is about room.
    pub machine: Option<String>,
    /// How many machines that are there it opens.
    pub machines: usize,
    /// What is missing, or is lifted.
    pub lacks: Vec<Lack>,
    /// The same in words.
    pub text: String,
}

/// The report as indented JSON, with a line break at its end.
///
/// # Panics
/// Never: every key is text, and nothing is written but to memory.
#[must_use]
pub fn json(report: &WaitingReport) -> String {
    let mut text = serde_json::to_string_pretty(report)
        .expect("a report holds only what JSON has, and memory takes all that is written");
    text.push('\n');
    text
}

/// The report as text for a terminal.
#[must_use]
pub fn render(report: &WaitingReport) -> String {
    let pending = plural(wide(report.pending), "task");
    let mut text = format!("{}\n{pending} without a machine at the end\n", clean(&report.name));
    for job in &report.jobs {
        text.push('\n');
        text.push_str(&render_job(job));
    }
    text
}

fn render_job(job: &WaitingJob) -> String {
    let name = clip(&clean(&job.job), WIDTH / 2);
    if job.waiting == 0 {
        return match job.tasks {
            0 => format!("{name} does not wait: it has ended\n"),
            tasks => format!("{name} does not wait: {} had room\n", plural(tasks, "task")),
        };
    }
    let tasks = plural(job.tasks, "task");
    let by = clean(&job.scheduler);
    let mut text =
        format!("{name}: {} of {tasks} wait for a machine (scheduler {by})\n", job.waiting);
    if let Some(reason) = &job.refused {
        text.push_str(&format!("the cell refused it last: {reason}\n"));
    }
    if let Some(gang) = &job.gang {
        text.push_str(&format!(
            "a gang: at least {} run together; {} have machines, and there is room for {} more\n",
            gang.needs, gang.have, gang.room
        ));
    }
    for group in &job.groups {
        text.push('\n');
        text.push_str(&render_group(group));
    }
    text
}

fn render_group(group: &WaitingGroup) -> String {
    let waiting = plural(wide(group.waiting), "task");
    let head = format!(
        "group {}: {waiting}, each {}; {} of {} would take one now",
        clean(&group.group),
        clean(&group.request),
        group.feasible,
        plural(wide(group.machines), "machine"),
    );
    let mut text = wrap(&head, WIDTH).join("\n");
    text.push('\n');
    text.push_str(&counts("filter", "removes", &group.removed));
    text.push_str(&counts("why not", "machines", &group.reasons));
    text.push_str(&nearest(group));
    text.push_str(&remedies(group));
    text
}

/// A table of what takes how many machines away.
fn counts(what: &str, how_many: &str, list: &[(String, usize)]) -> String {
    let some = list.iter().filter(|(_, count)| *count > 0);
    let row = |(name, count): &(String, usize)| {
        vec![format!("  {}", clean(name)), super::number::count(wide(*count))]
    };
    let head = vec![format!("  {what}"), how_many.to_owned()];
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(some.map(row)).collect();
    if rows.len() == 1 {
        return String::new();
    }
    format!("\n{}", columns(&rows, &[Align::Left, Align::Right], 0))
}

fn nearest(group: &WaitingGroup) -> String {
    if group.nearest.is_empty() {
        return String::new();
    }
    let row = |miss: &NearMiss| {
        let lacks: Vec<String> = miss.lacks.iter().map(|lack| clean(&lack.text)).collect();
        let machines = plural(wide(miss.machines), "machine");
        let example = format!("e.g. {}", clip(&clean(&miss.example), WIDTH / 4));
        vec![format!("  {machines}"), example, lacks.join("; ")]
    };
    let rows: Vec<Vec<String>> = group.nearest.iter().map(row).collect();
    let table = columns(&rows, &[Align::Right, Align::Left, Align::Left], 2);
    format!("\n  nearest misses\n{table}")
}

fn remedies(group: &WaitingGroup) -> String {
    let lines: Vec<String> = match group.remedies.as_slice() {
        _ if group.feasible > 0 => Vec::new(),
        [] if group.machines == 0 => vec!["a machine: the cell has none".to_owned()],
        [] => vec!["no one change is enough: see what the nearest machines lack".to_owned()],
        remedies => remedies.iter().map(|remedy| clean(&remedy.text)).collect(),
    };
    let lines = lines.iter().flat_map(|line| {
        let wrapped = wrap(line, WIDTH - 4);
        wrapped.into_iter().enumerate().map(|(index, line)| {
            let bullet = if index == 0 { "-" } else { " " };
            format!("  {bullet} {line}\n")
        })
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n  what would help\n{lines}") }
}
