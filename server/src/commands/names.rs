//! Names of a cell, for the completions of shells.

use crate::commands::call::{Caller, Page};
use crate::commands::jobs::{list, named_job};
use crate::commands::{CommandError, lease, machine, quota, show, task_pages};
use omega_client::proto::list_tasks_request::Of;
use omega_client::{Address, proto};
use std::cell::RefCell;
use std::time::Duration;

/// Names that can complete a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameQuery {
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
    /// Ids of replicas, such as `r4`, or `4` after a digit.
    Replicas,
}

/// Maximum number of names. A person does not read longer lists.
const NAMES_MAX: u32 = 200;

/// Mark at the end of a list that is not complete. It follows the typed part, so that a shell does not complete what
/// only the listed names have in common.
const MORE: &str = "...";

/// Names that a look-up has found.
#[derive(Debug)]
pub(crate) enum Names {
    /// The complete list, of which the look-up sends only one.
    All(Vec<String>),
    /// A list that more pages may extend, with the mark that it is not complete.
    Some(Vec<String>),
}

/// A look-up of names.
struct Search<'a> {
    caller: Caller,
    prefix: &'a str,
    /// Receives the list after each page but the last.
    some: &'a dyn Fn(Vec<String>),
}

/// Requests the names with a prefix, sorted. If there are several pages, `some` receives the names of the first ones
/// with the mark that the list is not complete.
///
/// # Errors
/// If the cell rejects the request, cannot be reached, or does not answer in time.
pub(crate) fn of_cell(
    address: &Address,
    kind: Kind,
    prefix: &str,
    timeout: Duration,
    some: &dyn Fn(Vec<String>),
) -> Result<Vec<String>, CommandError> {
    let caller = Caller::new(address, timeout)?.impatient();
    let search = Search { caller, prefix, some };
    match kind {
        Kind::LiveJobs => search.jobs(false, ""),
        Kind::Jobs => search.jobs(true, ""),
        Kind::Tasks => search.tasks(),
        Kind::Machines => search.listed(prefix, "", |caller, page_size, page_token| {
            let request = proto::ListMachinesRequest { page_size, page_token, labels: Vec::new() };
            let page = machine::page(caller, &request)?;
            let machines = page.machines.into_iter().filter_map(|response| response.machine);
            Ok((machines.map(|machine| machine.name).collect(), page.next_page_token, page.version))
        }),
        Kind::Tenants => search.listed(prefix, "", |caller, page_size, page_token| {
            let page = quota::page(caller, &proto::ListTenantsRequest { page_size, page_token })?;
            let tenants = page.tenants.into_iter().map(|response| response.name);
            Ok((tenants.collect(), page.next_page_token, page.version))
        }),
        Kind::Schedulers => {
            let schedulers = lease::list(&search.caller)?.into_iter().map(|response| response.name);
            Ok(matching(schedulers, prefix))
        }
        Kind::Replicas => {
            let members = search.caller.describe()?.members.unwrap_or_default().all.into_iter();
            let mark =
                if prefix.starts_with(|first: char| first.is_ascii_digit()) { "" } else { "r" };
            Ok(matching(members.map(|member| format!("{mark}{}", member.replica)), prefix))
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

impl Search<'_> {
    /// Requests page after page, until there are enough names with a prefix. `end` follows each name.
    fn listed(
        &self,
        prefix: &str,
        end: &str,
        page: impl Fn(&Caller, u32, String) -> Result<Page<String>, CommandError>,
    ) -> Result<Vec<String>, CommandError> {
        let found = RefCell::new(Vec::new());
        // One more name shows that the list is not complete.
        let listed = self.caller.pages(Some(NAMES_MAX + 1), |caller, page_size, page_token| {
            let (mut names, next, version) = page(caller, page_size, page_token)?;
            names.retain(|name| completes(name, prefix));
            let mut found = found.borrow_mut();
            found.extend(names.iter().map(|name| format!("{name}{end}")));
            if !next.is_empty() && !found.is_empty() {
                let mut some = matching(found.iter().cloned(), prefix);
                some.truncate(NAMES_MAX as usize);
                some.push(format!("{prefix}{MORE}"));
                (self.some)(some);
            }
            Ok((names, next, version))
        })?;
        let names = listed.items.into_iter().map(|name| name + end);
        Ok(matching(names, prefix))
    }

    fn jobs(&self, ended: bool, end: &str) -> Result<Vec<String>, CommandError> {
        self.listed(self.prefix, end, |caller, page_size, page_token| {
            let request =
                proto::ListJobsRequest { ended, page_size, page_token, ..Default::default() };
            let page = list::page(caller, &request)?;
            let jobs = page.jobs.into_iter().filter_map(|response| response.job);
            Ok((jobs.map(|job| job.name).collect(), page.next_page_token, page.version))
        })
    }

    /// Tasks of the job whose name is typed in full, or of the only job with a prefix. If there are several such jobs,
    /// the user first chooses one: they are listed with a `/` at the end.
    fn tasks(&self) -> Result<Vec<String>, CommandError> {
        let typed = self.prefix.rsplit_once('/');
        let typed = typed.filter(|(_, index)| index.bytes().all(|b| b.is_ascii_digit()));
        if let Some((job, _)) = typed
            && let Ok(tasks) = self.tasks_of(job, self.prefix)
        {
            return Ok(tasks);
        }
        let jobs = self.jobs(true, "/")?;
        match jobs.as_slice() {
            [one] => self.tasks_of(one.trim_end_matches('/'), one),
            _ => Ok(jobs),
        }
    }

    fn tasks_of(&self, job: &str, prefix: &str) -> Result<Vec<String>, CommandError> {
        self.listed(prefix, "", |caller, page_size, page_token| {
            let of = named_job::by_name(job).map(Of::Job);
            let request = proto::ListTasksRequest { of, page_size, page_token, index: None };
            let page = task_pages::page(caller, &request)?;
            let indexes = page.tasks.into_iter().filter_map(|response| response.task);
            let names = indexes.map(|task| format!("{job}/{}", task.index));
            Ok((names.collect(), page.next_page_token, page.version))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_address_that_refuses_is_tried_once() {
        // No program listens on this port, and no test is assigned it.
        let address = Address::plain(["127.0.0.1:1"]);
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let day = Duration::from_secs(86_400);
            let names = of_cell(&address, Kind::Jobs, "", day, &|_| ());
            sender.send(matches!(names, Err(CommandError::NoCell(_)))).unwrap();
        });
        let bound = Duration::from_secs(120);
        assert_eq!(ended.recv_timeout(bound), Ok(true), "it tries again for a day");
    }
}
