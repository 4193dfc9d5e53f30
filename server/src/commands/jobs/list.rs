//! `omega job list`.

use crate::commands::call::{Caller, Listed, Page};
use crate::commands::events;
use crate::commands::files::pairs::{self, Condition};
use crate::commands::jobs::named_job::has_ended;
use crate::commands::shape::{JobShape, ListShape};
use crate::commands::show::{self, Align, Format, and_more, columns, fitted};
use crate::commands::task_state::State;
use crate::commands::{CommandArgs, CommandError};
use clap::Args;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_core::Kinds;

/// Arguments of the command.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    selected: Selected,
    /// Maximum number of rows [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    common: CommandArgs,
}

/// Selection of jobs. The default selects all jobs that have not ended.
#[derive(Debug, Default, Args)]
pub(in crate::commands) struct Selected {
    /// Only jobs of this tenant [default: all].
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    tenant: String,
    /// Only jobs of this scheduler [default: all].
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    scheduler: String,
    /// Only jobs with a group that has this label; KEY!=VALUE for groups without it. KEY and !KEY select any value. May
    /// be repeated, or contain several conditions, separated by commas, which values cannot contain: the group must meet all.
    #[arg(long = "label", short = 'l', value_name = "KEY=VALUE", value_delimiter = ',',
          value_parser = pairs::condition)]
    labels: Vec<Condition>,
    /// Only jobs that have tasks in this state; with `finished`, `failed` or `killed`, also jobs that have ended
    /// [default: all].
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Only jobs of which all tasks have ended.
    #[arg(long)]
    ended: bool,
    /// All jobs, including the ended jobs that the cell still keeps.
    #[arg(long, conflicts_with = "ended")]
    all: bool,
}

/// Runs the command.
pub(super) fn run(args: &ListArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let listed = jobs(&caller, &kinds, &args.selected, args.limit)?;
    let shape = ListShape { version: listed.version, more: listed.more, items: listed.items };
    let wide = args.common.output == Format::Wide;
    show::print(args.common.output, &shape, || table(&shape.items, wide) + and_more(shape.more))
}

/// Requests the selected jobs, sorted by name.
///
/// # Errors
/// As [`Caller::call`], or if a job cannot be decoded.
pub(in crate::commands) fn jobs(
    caller: &Caller,
    kinds: &Kinds,
    selected: &Selected,
    limit: Option<u32>,
) -> Result<Listed<JobShape>, CommandError> {
    // Pages are in the order of ids, so all are needed to find the first names.
    let mut listed = caller.pages(None, |caller, page_size, page_token| {
        let (tenant, scheduler) = (selected.tenant.clone(), selected.scheduler.clone());
        let ended = selected.ended || selected.all || selected.state.is_some_and(State::is_end);
        let request = proto::ListJobsRequest {
            tenant,
            scheduler,
            ended,
            page_size,
            page_token,
            waiting: false,
        };
        let page = page(caller, &request)?;
        let wanted = page.jobs.into_iter().filter(|status| {
            (!selected.ended || has_ended(status))
                && selected.state.is_none_or(|state| state.count(status) > 0)
                && has_labels(status, &selected.labels)
        });
        let shapes = wanted.map(|status| JobShape::new(kinds, status));
        let shapes = shapes.collect::<Result<_, _>>()?;
        Ok::<Page<JobShape>, _>((shapes, page.next_page_token, page.version))
    })?;
    listed.items.sort_by(|one, other| show::by_name(&one.name, &other.name));
    listed.cut(limit);
    Ok(listed)
}

/// Requests one page of jobs.
///
/// # Errors
/// As [`Caller::call`].
pub(in crate::commands) fn page(
    caller: &Caller,
    request: &proto::ListJobsRequest,
) -> Result<proto::ListJobsResponse, CommandError> {
    caller.call(request, |channel, request| async move {
        let client = JobServiceClient::new(channel);
        // The limit is raised, because a job may have many groups with many rules.
        client.max_decoding_message_size(PAGE_BYTES_MAX).list_jobs(request).await
    })
}

/// Whether some group of a job meets all conditions on its labels.
fn has_labels(status: &proto::JobStatus, conditions: &[Condition]) -> bool {
    let mut groups = status.job.iter().flat_map(|job| &job.groups);
    let meets = |group: &proto::TaskGroup, condition: &Condition| {
        condition.holds(group.labels.iter().map(|label| (&*label.key, &*label.value)))
    };
    conditions.is_empty()
        || groups.any(|group| conditions.iter().all(|condition| meets(group, condition)))
}

/// Maximum bytes of a page of jobs, which is sixteen times the limit on other messages.
const PAGE_BYTES_MAX: usize = 16 * omega_client::connect::MESSAGE_BYTES_MAX;

/// Columns that a narrow terminal does not get, in this order.
const LEAST: [&str; 4] = ["scheduler", "kind", "ended", "tenant"];

/// The jobs, one per line. Without `wide`, failed tasks have a column only if there are any.
fn table(jobs: &[JobShape], wide: bool) -> String {
    let (left, right) = (|name| (name, Align::Left), |name| (name, Align::Right));
    let mut heading = vec![
        left("name"),
        left("kind"),
        left("tenant"),
        left("scheduler"),
        right("tasks"),
        right("pending"),
        right("placed"),
        right("running"),
        right("ended"),
    ];
    let has_failed = wide || jobs.iter().any(|job| job.tasks.failed > 0);
    heading.extend(has_failed.then(|| right("failed")));
    if wide {
        heading.extend([right("requeued"), right("precedence"), right("age"), left("id")]);
    }
    let row = |job: &JobShape| {
        let tasks = job.tasks;
        let counts = [job.wanted_tasks(), tasks.pending, tasks.placed, tasks.running];
        let counts = counts.into_iter().chain([job.ended_tasks()]);
        let mut row =
            vec![job.name.clone(), job.kind.to_owned(), job.tenant.clone(), job.scheduler.clone()];
        row.extend(counts.map(|count| count.to_string()));
        row.extend(has_failed.then(|| tasks.failed.to_string()));
        if wide {
            row.push(job.failures.to_string());
            let age = events::age(job.age_ms + 1, 1);
            row.extend([job.precedence.to_string(), age, job.id.clone()]);
        }
        row
    };
    let rows: Vec<Vec<String>> = jobs.iter().map(row).collect();
    if wide { columns(&heading, &rows) } else { fitted(&heading, &rows, &LEAST) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, Job, TaskGroup};

    #[test]
    fn the_table_counts_no_tasks_that_were_replaced() {
        let kinds = Kinds::standard();
        let group = |count, cores, version| TaskGroup {
            version,
            ..TaskGroup::new(count, Amounts::new([cores]))
        };
        let target = Job::service("web", group(3, 2000, 0));
        let groups = vec![group(3, 1000, 0).into(), group(3, 2000, 1).into()].into();
        let job = Job { groups, ..target.clone() };
        let row = |running, [failed, killed]: [u32; 2]| {
            let (job, target) = (Some((&job).into()), Some((&target).into()));
            let status =
                proto::JobStatus { job, target, running, failed, killed, ..Default::default() };
            let table = table(&[JobShape::new(&kinds, status).unwrap()], false);
            let row = table.lines().nth(1).unwrap_or_default();
            row.split_whitespace().skip(4).take(5).map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        // The three tasks of the first version have failed, or were killed by the update.
        assert_eq!(row(3, [2, 1]), "3 0 0 3 0");
        assert_eq!(row(2, [3, 1]), "3 0 0 2 1");
        assert_eq!(row(0, [2, 4]), "3 0 0 0 3");
    }
}
