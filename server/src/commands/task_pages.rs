//! Pages of the tasks of a job or of a machine.

use crate::commands::CommandError;
use crate::commands::call::{Caller, Listed, Page};
use crate::commands::jobs::named_job::{by_id, find};
use crate::commands::task_state::State;
use omega_client::proto;
use omega_client::proto::list_tasks_request::Of;
use omega_client::proto::task_service_client::TaskServiceClient;
use std::collections::{BTreeMap, BTreeSet};

/// The tasks of a job or a machine, of one state or of all.
pub(super) fn list(
    caller: &Caller,
    of: Option<Of>,
    limit: Option<u32>,
    state: Option<State>,
) -> Result<Listed<proto::TaskStatus>, CommandError> {
    caller.pages(limit, |caller, page_size, page_token| {
        let of = of.clone();
        let request = proto::ListTasksRequest { of, page_size, page_token, index: None };
        let page = page(caller, &request)?;
        let mut tasks = page.tasks;
        tasks.retain(|task| state.is_none_or(|state| state.is_of(task)));
        Ok::<Page<proto::TaskStatus>, _>((tasks, page.next_page_token, page.version))
    })
}

/// Requests one page of tasks.
///
/// # Errors
/// As [`Caller::call`].
pub(super) fn page(
    caller: &Caller,
    request: &proto::ListTasksRequest,
) -> Result<proto::ListTasksResponse, CommandError> {
    caller.call(request, |channel, request| async move {
        TaskServiceClient::new(channel).list_tasks(request).await
    })
}

/// Whether all these tasks are of `per_machine` groups, so that they stay while their machine drains.
///
/// # Errors
/// As [`Caller::call`].
pub(super) fn all_stay(caller: &Caller, of: Option<Of>) -> Result<bool, CommandError> {
    let mut groups: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for status in list(caller, of, None, None)?.items {
        let Some(task) = status.task else { return Ok(false) };
        groups.entry(task.job).or_default().insert(status.group);
    }
    for (job, groups) in groups {
        let job = find(caller, by_id(job))?.job.unwrap_or_default();
        let stays = |name: &String| {
            let mut group = job.groups.iter().filter(|group| group.name == *name);
            group.all(|group| group.per_machine)
        };
        if !groups.iter().all(stays) {
            return Ok(false);
        }
    }
    Ok(true)
}
