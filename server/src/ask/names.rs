//! Names of a cell, for the completions of shells.

use crate::ask::call::{Caller, Page};
use crate::ask::jobs::{list, named_job};
use crate::ask::{AskError, lease, machine, quota, show, task};
use omega_client::proto::list_tasks_request::Of;
use omega_client::{Address, proto};
use std::time::Duration;

/// Names that can complete a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Contexts of the user.
    Contexts,
    /// Names of the cell.
    OfCell(Kind),
}

/// Kind of the objects of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Jobs that have not ended.
    LiveJobs,
    /// Jobs, including those that have ended.
    Jobs,
    /// Tasks, such as `web/0`.
    Tasks,
    Machines,
    Tenants,
    Schedulers,
}

/// Maximum number of names. A person does not read longer lists.
const NAMES_MAX: u32 = 200;

/// Mark at the end of a list that is not complete. It follows the typed part, so that a shell does not complete what
/// only the listed names have in common.
const MORE: &str = "...";

/// Requests the names with a prefix, sorted.
///
/// # Errors
/// If the cell rejects the request, or does not answer in time.
pub(crate) fn of_cell(
    address: &Address,
    kind: Kind,
    prefix: &str,
    timeout: Duration,
) -> Result<Vec<String>, AskError> {
    let caller = Caller::new(address, timeout)?;
    match kind {
        Kind::LiveJobs => jobs(&caller, false, prefix),
        Kind::Jobs => jobs(&caller, true, prefix),
        Kind::Tasks => tasks(&caller, prefix),
        Kind::Machines => listed(&caller, prefix, |caller, page_size, page_token| {
            let request = proto::ListMachinesRequest { page_size, page_token, labels: Vec::new() };
            let page = machine::page(caller, &request)?;
            let machines = page.machines.into_iter().filter_map(|told| told.machine);
            Ok((machines.map(|machine| machine.name).collect(), page.next_page_token, page.version))
        }),
        Kind::Tenants => listed(&caller, prefix, |caller, page_size, page_token| {
            let page = quota::page(caller, &proto::ListTenantsRequest { page_size, page_token })?;
            let tenants = page.tenants.into_iter().map(|told| told.name);
            Ok((tenants.collect(), page.next_page_token, page.version))
        }),
        Kind::Schedulers => {
            let schedulers = lease::list(&caller)?.into_iter().map(|told| told.name);
            Ok(matching(schedulers, prefix))
        }
    }
}

/// The names with a prefix, sorted, and at most [`NAMES_MAX`].
pub(crate) fn matching(names: impl IntoIterator<Item = String>, prefix: &str) -> Vec<String> {
    let names = names.into_iter().filter(|name| completes(name, prefix));
    let mut names: Vec<String> = names.collect();
    names.sort_by(|one, other| show::by_name(one, other));
    if names.len() > NAMES_MAX as usize {
        names.truncate(NAMES_MAX as usize);
        names.push(format!("{prefix}{MORE}"));
    }
    names
}

/// Whether a name has a prefix, and a shell reads the name as one plain word. Others are left out: shells differ in how
/// they quote names, and Bash splits words at characters such as `:`.
fn completes(name: &str, prefix: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+');
    name.starts_with(prefix) && !name.starts_with('-') && name.chars().all(is_plain)
}

/// Requests page after page, until there are enough names with a prefix.
fn listed(
    caller: &Caller,
    prefix: &str,
    page: impl Fn(&Caller, u32, String) -> Result<Page<String>, AskError>,
) -> Result<Vec<String>, AskError> {
    // One more name shows that the list is not complete.
    let listed = caller.pages(Some(NAMES_MAX + 1), |caller, page_size, page_token| {
        let (mut names, next, version) = page(caller, page_size, page_token)?;
        names.retain(|name| completes(name, prefix));
        Ok((names, next, version))
    })?;
    Ok(matching(listed.items, prefix))
}

fn jobs(caller: &Caller, ended: bool, prefix: &str) -> Result<Vec<String>, AskError> {
    listed(caller, prefix, |caller, page_size, page_token| {
        let request = proto::ListJobsRequest { ended, page_size, page_token, ..Default::default() };
        let page = list::page(caller, &request)?;
        let jobs = page.jobs.into_iter().filter_map(|told| told.job);
        Ok((jobs.map(|job| job.name).collect(), page.next_page_token, page.version))
    })
}

/// Tasks of the job whose name is typed in full, or of the only job with a prefix. If there are several such jobs, the
/// user first chooses one: they are listed with a `/` at the end.
fn tasks(caller: &Caller, prefix: &str) -> Result<Vec<String>, AskError> {
    let typed =
        prefix.rsplit_once('/').filter(|(_, index)| index.bytes().all(|b| b.is_ascii_digit()));
    if let Some((job, _)) = typed
        && let Ok(tasks) = tasks_of(caller, job, prefix)
    {
        return Ok(tasks);
    }
    let jobs = jobs(caller, true, prefix)?;
    match jobs.as_slice() {
        [one] => tasks_of(caller, one, &format!("{one}/")),
        _ => Ok(jobs
            .into_iter()
            .map(|job| if job.ends_with(MORE) { job } else { job + "/" })
            .collect()),
    }
}

fn tasks_of(caller: &Caller, job: &str, prefix: &str) -> Result<Vec<String>, AskError> {
    listed(caller, prefix, |caller, page_size, page_token| {
        let of = named_job::by_name(job).map(Of::Job);
        let request = proto::ListTasksRequest { of, page_size, page_token, index: None };
        let page = task::page(caller, &request)?;
        let indexes = page.tasks.into_iter().filter_map(|told| told.task);
        let names = indexes.map(|task| format!("{job}/{}", task.index));
        Ok((names.collect(), page.next_page_token, page.version))
    })
}
