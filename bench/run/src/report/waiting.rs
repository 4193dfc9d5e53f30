//! Reasons why jobs are pending: the output of `omega explain`, as a value, as text and as JSON.
//!
//! `docs/explain.md` describes the fields for readers of the file.

use super::number::{plural, wide};
use super::text::{Align, WIDTH, clean, clip, columns, notes, wrap};
use serde::Serialize;
use std::borrow::Cow;

/// Jobs that are pending at the end of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WaitingReport {
    /// Description of the run, in a few words.
    pub name: String,
    /// Number of pending tasks of all jobs.
    pub pending: usize,
    /// The explained jobs.
    pub jobs: Vec<WaitingJob>,
    /// Notes on parts of the input that were not converted.
    pub notes: Vec<String>,
}

/// A job, with the reasons if it is pending.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WaitingJob {
    /// Name of the job.
    pub job: String,
    /// The scheduler that could not place the job; empty if no task is pending.
    pub scheduler: String,
    /// Number of tasks of the job; 0 if it has ended and was removed.
    pub tasks: u64,
    /// Number of pending tasks of the job.
    pub waiting: usize,
    /// The last of these reasons for which the cell rejected a claim of the job: an exceeded quota, an exhausted
    /// cluster resource, or an incomplete gang.
    pub refused: Option<String>,
    /// State of the gang; `None` if the job is not a gang.
    pub gang: Option<WaitingGang>,
    /// Groups of the job with pending tasks.
    pub groups: Vec<WaitingGroup>,
    /// In a served cell, whether no process has the lease of the scheduler's name. Then the scheduler does not run,
    /// unless it runs without a lease.
    pub unattended: bool,
}

/// A job whose tasks must run together.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct WaitingGang {
    /// Minimum number of tasks that must run together.
    pub needs: u32,
    /// Number of placed tasks.
    pub have: usize,
    /// Number of pending tasks that would fit at the same time.
    pub room: usize,
    /// Whether the placed tasks keep their machines but do not run yet.
    pub holds: bool,
}

impl WaitingGang {
    /// Number of tasks that the gang needs and for which there is no room.
    #[must_use]
    pub fn lack(self) -> usize {
        (self.needs as usize).saturating_sub(self.have + self.room)
    }
}

/// Pending tasks of one group.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WaitingGroup {
    /// Name of the group.
    pub group: String,
    /// Number of pending tasks.
    pub waiting: usize,
    /// Request of each task, as text.
    pub request: String,
    /// Number of machines of the cell.
    pub machines: usize,
    /// Number of machines on which one of the tasks would fit now.
    pub feasible: usize,
    /// Number of machines that each filter rejects, of those that earlier filters accept.
    pub removed: Vec<(String, usize)>,
    /// Number of machines that each reason excludes, in descending order. A machine that lacks several kinds is counted
    /// for each of them.
    pub reasons: Vec<(String, usize)>,
    /// The machines that lack least.
    pub nearest: Vec<NearMiss>,
    /// Changes, each of which would make some machines feasible by itself.
    pub remedies: Vec<Help>,
}

/// Machines that lack the same things.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NearMiss {
    /// Number of the machines with these lacks.
    pub machines: usize,
    /// The first such machine.
    pub example: String,
    /// The resources and other properties that each of these machines lacks.
    pub lacks: Vec<Lack>,
}

/// One thing that a machine lacks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lack {
    /// Kind of the missing property, as one of the words in `docs/explain.md`.
    pub what: Cow<'static, str>,
    /// The resource kind, if the machine lacks room.
    pub kind: Option<String>,
    /// The missing amount of room (in the kind's smallest unit), devices or cores; `None` for other lacks.
    pub missing: Option<u64>,
    /// The reason in words.
    pub text: String,
}

/// A change that would make some machines feasible.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Help {
    /// Kind of the change: `room` if more of a machine becomes free, `larger_machine` if a larger machine is added,
    /// `lift` if a restriction is lifted.
    pub what: Cow<'static, str>,
    /// If the change is about room, the machine that lacks least.
    pub machine: Option<String>,
    /// Number of existing machines that the change would make feasible.
    pub machines: usize,
    /// The missing properties that the change provides, or the restriction that it lifts.
    pub lacks: Vec<Lack>,
    /// The remedy in words.
    pub text: String,
}

/// Converts the report to indented JSON with a final line break.
///
/// # Panics
/// Never, because every key is text, and the text is only written to memory.
#[must_use]
pub fn json(report: &WaitingReport) -> String {
    let mut text = serde_json::to_string_pretty(report)
        .expect("a report holds only what JSON has, and memory takes all that is written");
    text.push('\n');
    text
}

/// Formats the report for a terminal.
#[must_use]
pub fn render(report: &WaitingReport) -> String {
    let pending = plural(wide(report.pending), "task");
    let mut text = format!("{}\n{pending} without a machine at the end\n", clean(&report.name));
    for job in &report.jobs {
        text.push('\n');
        text.push_str(&render_job(job));
    }
    let notes = notes(&report.notes);
    if notes.is_empty() { text } else { format!("{text}\n{notes}") }
}

/// Formats one job as text.
#[must_use]
pub fn render_job(job: &WaitingJob) -> String {
    let name = clip(&clean(&job.job), WIDTH / 2);
    if job.waiting == 0 {
        return match job.tasks {
            0 => format!("{name} does not wait: it has ended\n"),
            tasks => format!("{name} does not wait: {} had room\n", plural(tasks, "task")),
        };
    }
    let tasks = plural(job.tasks, "task");
    let by = clean(&job.scheduler);
    let wait = if job.waiting == 1 { "waits" } else { "wait" };
    let mut text =
        format!("{name}: {} of {tasks} {wait} for a machine (scheduler {by})\n", job.waiting);
    if job.unattended {
        let told = "its scheduler is not running, unless it runs without a lease";
        text.push_str(&format!("no process owns the name {by}: {told}\n"));
    }
    if let Some(reason) = &job.refused {
        text.push_str(&format!("the last rejection by the cell: {reason}\n"));
    }
    if let Some(gang) = &job.gang {
        text.push_str(&format!(
            "a gang of at least {}: {} {} machines, and there is room for {} more\n",
            plural(u64::from(gang.needs), "task"),
            gang.have,
            match (gang.holds, gang.have) {
                (true, 1) => "holds",
                (true, _) => "hold",
                (false, 1) => "has",
                (false, _) => "have",
            },
            gang.room
        ));
    }
    for group in &job.groups {
        text.push('\n');
        text.push_str(&render_group(group));
    }
    if let Some(lack) = job.gang.map(WaitingGang::lack).filter(|lack| *lack > 0)
        && job.groups.iter().any(|group| group.feasible > 0)
    {
        let more = plural(wide(lack), "task");
        let help = format!("free resources for {more} more of the gang at the same time");
        text.push_str(&list("what would help", vec![help]));
    }
    text
}

fn render_group(group: &WaitingGroup) -> String {
    let waiting = plural(wide(group.waiting), "task");
    let head = format!(
        "group {}: {waiting}, each {}; {} of {} could run one now",
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

/// A table of obstacles, with the number of machines that each obstacle excludes.
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
    let line = |miss: &NearMiss| {
        let lacks: Vec<String> = miss.lacks.iter().map(|lack| clean(&lack.text)).collect();
        let example = clip(&clean(&miss.example), WIDTH / 4);
        let who = match miss.machines {
            1 => example,
            machines => format!("{}, such as {example}", plural(wide(machines), "machine")),
        };
        format!("{who}: {}", lacks.join("; "))
    };
    list("nearest misses", group.nearest.iter().map(line).collect())
}

fn remedies(group: &WaitingGroup) -> String {
    let lines: Vec<String> = match group.remedies.as_slice() {
        _ if group.feasible > 0 => Vec::new(),
        [] if group.machines == 0 => vec!["a machine: the cell has none".to_owned()],
        [] => vec!["no single change is enough: see what the nearest machines lack".to_owned()],
        remedies => remedies.iter().map(|remedy| clean(&remedy.text)).collect(),
    };
    list("what would help", lines)
}

/// A heading, followed by lines with bullets.
fn list(heading: &str, items: Vec<String>) -> String {
    if items.is_empty() {
        return String::new();
    }
    let mut text = format!("\n  {heading}\n");
    for item in items {
        for (index, line) in wrap(&item, WIDTH - 4).into_iter().enumerate() {
            let bullet = if index == 0 { "-" } else { " " };
            text.push_str(&format!("  {bullet} {line}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lack(text: &str) -> Lack {
        Lack { what: "room".into(), text: text.into(), ..Lack::default() }
    }

    fn example() -> WaitingReport {
        let nearest = [(1, "m-7"), (1_200, "m-1")].map(|(machines, name)| NearMiss {
            machines,
            example: name.into(),
            lacks: vec![lack("2 cpu short"), lack("1.5 GiB memory short")],
        });
        let group = WaitingGroup {
            group: "main".into(),
            waiting: 3,
            request: "4 cpu".into(),
            machines: 1_201,
            removed: vec![("schedulable".into(), 0), ("resources_fit".into(), 1_201)],
            reasons: vec![("too little cpu left".into(), 1_201)],
            nearest: nearest.into(),
            remedies: vec![Help { text: "2 cpu more free on m-7".into(), ..Help::default() }],
            ..WaitingGroup::default()
        };
        let job = WaitingJob {
            job: "web\u{1b}[31m".into(),
            scheduler: "service-0".into(),
            tasks: 4,
            waiting: 3,
            refused: Some("gang incomplete".into()),
            gang: Some(WaitingGang { needs: 4, have: 1, room: 2, holds: false }),
            groups: vec![group],
            unattended: true,
        };
        let ended = WaitingJob { job: "old".into(), ..WaitingJob::default() };
        let notes = vec!["gpu-7: skipped".into()];
        WaitingReport { name: "a cell".into(), pending: 3, jobs: vec![job, ended], notes }
    }

    #[test]
    fn the_text_tells_all_and_nothing_to_the_terminal() {
        let expected = "a cell\n3 tasks without a machine at the end\n\n\
            web\u{fffd}[31m: 3 of 4 tasks wait for a machine (scheduler service-0)\n\
            no process owns the name service-0: its scheduler is not running, unless it runs \
            without a lease\n\
            the last rejection by the cell: gang incomplete\n\
            a gang of at least 4 tasks: 1 has machines, and there is room for 2 more\n\n\
            group main: 3 tasks, each 4 cpu; 0 of 1,201 machines could run one now\n\n\
            \x20 filter         removes\n  resources_fit    1,201\n\n\
            \x20 why not              machines\n  too little cpu left     1,201\n\n\
            \x20 nearest misses\n\
            \x20 - m-7: 2 cpu short; 1.5 GiB memory short\n\
            \x20 - 1,200 machines, such as m-1: 2 cpu short; 1.5 GiB memory short\n\n\
            \x20 what would help\n  - 2 cpu more free on m-7\n\n\
            old does not wait: it has ended\n\n\
            notes\n\x20 - gpu-7: skipped\n";
        assert_eq!(render(&example()), expected);
    }

    #[test]
    fn where_nothing_alone_helps_the_text_says_so() {
        let mut group = example().jobs[0].groups[0].clone();
        group.remedies.clear();
        assert!(render_group(&group).contains("  - no single change is enough"));
        group.feasible = 1;
        assert!(!render_group(&group).contains("what would help"));
        let empty = WaitingGroup::default();
        assert!(render_group(&empty).contains("  - a machine: the cell has none\n"));
    }

    #[test]
    fn every_field_of_the_file_is_in_the_docs() {
        let docs = include_str!("../../../../docs/explain.md");
        let text = json(&example());
        let names = text.split('"').skip(1).step_by(2).zip(text.split('"').skip(2).step_by(2));
        let fields = names.filter(|(_, after)| after.starts_with(':')).map(|(name, _)| name);
        assert!(fields.clone().any(|name| name == "missing"), "every list has an entry");
        for name in fields {
            assert!(docs.contains(&format!("`{name}`")), "docs/explain.md has no `{name}`");
        }
    }
}
