//! Lists of jobs and machines, and the details of one of them.

use crate::commands::CommandError;
use crate::commands::call::Caller;
use crate::commands::jobs::{job, list};
use crate::commands::machine;
use crate::commands::shape::{JobShape, MachineShape};
use crate::commands::show::Align;
use omega_core::Kinds;

/// A page of `omega top`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    Overview,
    Jobs,
    Machines,
}

/// A column's heading, and the alignment of its cells.
pub(super) type Column = (&'static str, Align);

/// A list of objects of one kind. The first cell of a row is the object's name.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<String>>,
}

impl List {
    /// Requests the list of a page; an empty list for the overview.
    ///
    /// # Errors
    /// If the cell does not answer, or rejects the request.
    pub(super) fn request(
        caller: &Caller,
        kinds: &Kinds,
        page: Page,
    ) -> Result<List, CommandError> {
        match page {
            Page::Overview => Ok(List::default()),
            Page::Jobs => {
                let listed = list::jobs(caller, kinds, &list::Selected::default(), None)?;
                Ok(jobs(&listed.items))
            }
            Page::Machines => {
                let listed = machine::machines(caller, kinds, &machine::Selected::default(), None)?;
                Ok(machines(&listed.items))
            }
        }
    }
}

/// Describes one object of a page, as `omega job get` and `omega machine get` do, with its tasks.
///
/// # Errors
/// If the cell does not answer, or has no such object.
pub(super) fn detail(
    caller: &Caller,
    kinds: &Kinds,
    page: Page,
    name: &str,
) -> Result<String, CommandError> {
    match page {
        Page::Overview => Ok(String::new()),
        Page::Jobs => job::detail(caller, kinds, name),
        Page::Machines => machine::detail(caller, kinds, name),
    }
}

fn jobs(all: &[JobShape]) -> List {
    let columns = vec![
        ("name", Align::Left),
        ("kind", Align::Left),
        ("tenant", Align::Left),
        ("scheduler", Align::Left),
        ("tasks", Align::Right),
        ("pending", Align::Right),
        ("running", Align::Right),
        ("failed", Align::Right),
        ("requeued", Align::Right),
    ];
    let row = |job: &JobShape| {
        let tasks = job.tasks;
        let counts = [job.wanted_tasks(), tasks.pending, tasks.running, tasks.failed];
        let mut row =
            vec![job.name.clone(), job.kind.to_owned(), job.tenant.clone(), job.scheduler.clone()];
        row.extend(counts.map(|count| count.to_string()));
        row.push(job.failures.to_string());
        row
    };
    List { columns, rows: all.iter().map(row).collect() }
}

/// Machines, with the claimed and the measured part of their cpu and memory.
fn machines(all: &[MachineShape]) -> List {
    let columns = vec![
        ("name", Align::Left),
        ("status", Align::Left),
        ("tasks", Align::Right),
        ("cpu claimed", Align::Right),
        ("cpu used", Align::Right),
        ("memory claimed", Align::Right),
        ("memory used", Align::Right),
    ];
    let row = |machine: &MachineShape| {
        let mut row =
            vec![machine.name.clone(), machine.status.to_owned(), machine.tasks.to_string()];
        for kind in ["cpu", "memory"] {
            let amounts = machine.resources.get(kind).copied().unwrap_or_default();
            let claimed = u64::try_from(amounts.claimed).unwrap_or_default();
            row.push(percent(claimed, amounts.claimable));
            row.push(percent(amounts.load, amounts.capacity));
        }
        row
    };
    List { columns, rows: all.iter().map(row).collect() }
}

fn percent(part: u64, whole: u64) -> String {
    let percent = (u128::from(part) * 100).checked_div(whole.into());
    percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent} %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_nothing_have_no_percentage() {
        assert_eq!(
            [percent(1, 3), percent(u64::MAX, 1 << 63), percent(1, 0)],
            ["33 %", "199 %", "-"]
        );
    }
}
