//! The difference between a job and its new description.

use crate::commands::files::job_file::JobFile;
use crate::commands::show::clean_name;
use omega_client::restart::RESTARTED_AT;
use omega_core::{Groups, Job, Kinds, SharedGroup, TaskGroup};
use omega_workload::words::plural;
use serde::Serialize;
use serde_json::{Map, Value};

/// The difference, with the changes of each group.
#[derive(Debug, Default, Serialize)]
pub(in crate::commands) struct Difference {
    /// Fields of the job, outside of its groups, that differ.
    pub(super) fields: Vec<String>,
    pub(super) groups: Vec<GroupChange>,
}

/// The change of a group.
#[derive(Debug, Serialize)]
pub(super) struct GroupChange {
    pub(super) group: String,
    /// `added`, `removed`, `replaced`, `restarted`, `resized` or `kept`.
    pub(super) change: &'static str,
    /// Number of tasks before the change.
    pub(super) from: u32,
    /// Number of tasks after the change.
    pub(super) to: u32,
    /// Fields of the group that differ. If there are any, the tasks of the group are replaced.
    pub(super) fields: Vec<String>,
}

impl Difference {
    /// The difference between a description and the previous one, if there was one.
    pub(in crate::commands) fn of(kinds: &Kinds, before: Option<&Job>, after: &Job) -> Difference {
        let old = |name: &str| Some(&**before?.groups.iter().find(|group| *group.name == *name)?);
        let new = after.groups.iter().map(|group| change(kinds, old(&group.name), Some(group)));
        let is_gone =
            |group: &&SharedGroup| after.groups.iter().all(|kept| kept.name != group.name);
        let gone = before.into_iter().flat_map(|job| &job.groups).filter(is_gone);
        let gone = gone.map(|group| change(kinds, Some(group), None));
        let without_groups = |job: &Job| Job { groups: Groups::new(), ..job.clone() };
        let fields = before.map(|before| {
            let [before, after] = [before, after].map(|job| fields_of(kinds, &without_groups(job)));
            differing(&before, &after)
        });
        Difference {
            fields: fields.unwrap_or_default(),
            groups: new.chain(gone).flatten().collect(),
        }
    }

    /// Whether the descriptions differ only in numbers of tasks.
    pub(super) fn is_size_alone(&self) -> bool {
        let is_size = |change: &GroupChange| matches!(change.change, "resized" | "kept");
        self.fields.is_empty() && self.groups.iter().all(is_size)
    }

    /// Whether the update only restarts tasks.
    pub(in crate::commands) fn is_restart(&self) -> bool {
        let is = |change: &str| self.groups.iter().any(|group| group.change == change);
        self.fields.is_empty()
            && is("restarted")
            && self.groups.iter().all(|group| matches!(group.change, "restarted" | "kept"))
    }

    /// The groups of which only the number of tasks changes.
    pub(super) fn sizes(&self) -> impl Iterator<Item = &GroupChange> {
        self.groups.iter().filter(|change| change.change == "resized")
    }

    /// The difference in a few words.
    pub(in crate::commands) fn summary(&self) -> String {
        let size = |from: u32, to: u32| format!("{from} to {}", plural(to.into(), "task"));
        let group = |change: &GroupChange| {
            let GroupChange { group, from, to, fields, .. } = change;
            match change.change {
                "added" => Some(format!("group {group} added")),
                "removed" => Some(format!("group {group} removed")),
                "replaced" if from == to => Some(format!("{group}: {}", fields.join(", "))),
                "replaced" => Some(format!("{group}: {}, {}", fields.join(", "), size(*from, *to))),
                "resized" => Some(format!("{group}: {}", size(*from, *to))),
                "restarted" if from == to => Some(format!("{group}: restarted")),
                "restarted" => Some(format!("{group}: restarted, {}", size(*from, *to))),
                _ => None,
            }
        };
        let groups = self.groups.iter().filter_map(group);
        self.fields.iter().cloned().chain(groups).collect::<Vec<_>>().join("; ")
    }

    /// The difference in words, with a line for each part.
    pub(in crate::commands) fn lines(&self) -> String {
        let fields = if self.fields.is_empty() {
            String::new()
        } else {
            format!("  changed: {}\n", self.fields.join(", "))
        };
        fields + &self.groups.iter().map(line).collect::<String>()
    }
}

fn line(change: &GroupChange) -> String {
    let GroupChange { group, from, to, fields, .. } = change;
    let (group, tasks) = (clean_name(group), |count: u32| plural(count.into(), "task"));
    let size = if from == to { tasks(*to) } else { format!("{from} to {}", tasks(*to)) };
    let what = match change.change {
        "added" => format!("added, {}", tasks(*to)),
        "removed" => format!("removed, {} to end", tasks(*from)),
        "replaced" => format!("{size}, all replaced: {}", fields.join(", ")),
        "resized" => format!("resized, {size}"),
        "restarted" => format!("{size}, all restarted"),
        _ => format!("kept, {size}"),
    };
    format!("  group {group}: {what}\n")
}

fn change(
    kinds: &Kinds,
    before: Option<&TaskGroup>,
    after: Option<&TaskGroup>,
) -> Option<GroupChange> {
    let group = after.or(before)?.name.to_string();
    let count = |group: Option<&TaskGroup>| group.map_or(0, |group| group.count);
    let (from, to) = (count(before), count(after));
    let fields = match before.zip(after) {
        Some((before, after)) => {
            let [before, after] = [before, after].map(|group| {
                let group = TaskGroup { count: 0, version: 0, ..group.clone() };
                let groups = fields_of(kinds, &Job::batch("", group));
                let first = groups.get("group").and_then(|groups| groups.get(0));
                first.and_then(Value::as_object).cloned().unwrap_or_default()
            });
            differing(&before, &after)
        }
        None => Vec::new(),
    };
    let change = match (before, after) {
        (None, _) => "added",
        (_, None) => "removed",
        _ if !fields.is_empty() => "replaced",
        (Some(before), Some(after))
            if before.labels.get(RESTARTED_AT) != after.labels.get(RESTARTED_AT) =>
        {
            "restarted"
        }
        _ if from != to => "resized",
        _ => "kept",
    };
    Some(GroupChange { group, change, from, to, fields })
}

/// The fields of a job in the form of its file. A payload that is not text is written as numbers.
fn fields_of(kinds: &Kinds, job: &Job) -> Map<String, Value> {
    let mut job = job.clone();
    for group in &mut job.groups {
        let bytes = group.payload.as_bytes();
        if std::str::from_utf8(bytes).is_err() {
            group.payload = format!("{bytes:?}").into_bytes().into();
        }
    }
    let file = JobFile::written(&job, kinds).ok();
    match file.and_then(|file| serde_json::to_value(file).ok()) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// The names of the fields in which two objects differ.
fn differing(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<String> {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let null = Value::Null;
    let value = |of: &Map<String, Value>, name: &str| of.get(name).unwrap_or(&null).clone();
    let differ = names.into_iter().filter(|name| value(before, name) != value(after, name));
    differ.filter(|name| *name != "group").cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Run};
    use std::sync::Arc;

    fn job(count: u32, command: &str) -> Job {
        let run = Some(Arc::new(Run::new(command)));
        let group = TaskGroup { run, ..TaskGroup::new(count, Amounts::new([500])) };
        Job::service("web", group)
    }

    #[test]
    fn each_kind_of_change_is_told() {
        let before = job(3, "one").with_group(TaskGroup::new(2, Amounts::zero()).named("old"));
        let after = job(4, "two").with_group(TaskGroup::new(1, Amounts::zero()).named("new"));
        let after = Job { deadline_ms: Some(5), ..after };
        let response = Difference::of(&Kinds::standard(), Some(&before), &after).lines();
        let expected = "  changed: deadline\n  \
            group main: 3 to 4 tasks, all replaced: run\n  \
            group new: added, 1 task\n  \
            group old: removed, 2 tasks to end\n";
        assert_eq!(response, expected);
        let summary = Difference::of(&Kinds::standard(), Some(&before), &after).summary();
        let expected = "deadline; main: run, 3 to 4 tasks; group new added; group old removed";
        assert_eq!(summary, expected);
        let sizes = Difference::of(&Kinds::standard(), Some(&job(3, "one")), &job(2, "one"));
        assert!(sizes.is_size_alone());
        assert_eq!(sizes.lines(), "  group main: resized, 3 to 2 tasks\n");
        let same = Difference::of(&Kinds::standard(), Some(&job(3, "one")), &job(3, "one"));
        assert_eq!(same.lines(), "  group main: kept, 3 tasks\n");
    }
}
