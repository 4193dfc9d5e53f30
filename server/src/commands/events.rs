//! `omega job history`, and the recent events of a task or a machine.

use crate::commands::call::Caller;
use crate::commands::files::moment::unix_ms;
use crate::commands::jobs::named_job::by_name;
use crate::commands::run_end::EndShape;
use crate::commands::show::{self, Align, columns};
use crate::commands::{CommandArgs, CommandError};
use clap::Args;
use omega_client::proto;
use omega_client::proto::job_service_client::JobServiceClient;
pub(super) use omega_client::proto::list_events_request::Of;
use omega_workload::words::plural;
use serde::Serialize;

/// Number of events that `task get` and `machine get` print.
pub(super) const FEW: u32 = 10;

/// Number of a job's latest events in which a failure is looked for.
const FAILURES_AMONG: u32 = 100;

/// Arguments: the job, and the number of its events.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Name of the job.
    #[arg(value_name = "NAME")]
    name: String,
    /// Maximum number of events to print, from 1 to 1000; older events are left out.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    common: CommandArgs,
}

/// Events of a job, a task or a machine, the oldest first.
#[derive(Debug, Serialize)]
pub(super) struct EventsShape {
    version: u64,
    /// Whether there are older events.
    more: bool,
    items: Vec<EventShape>,
}

/// An event.
#[derive(Debug, Serialize)]
pub(super) struct EventShape {
    /// Time of the event, in milliseconds since 1970.
    at_ms: u64,
    /// Kind of the event, such as `started` or `failed`; docs/history.md lists all.
    event: String,
    job: Option<String>,
    /// Name of the task, such as `web/0`; `null` if the event is about a whole job or a machine.
    task: Option<String>,
    machine: Option<String>,
    scheduler: Option<String>,
    /// Job whose task replaced the evicted task.
    by_job: Option<String>,
    end: Option<EndShape>,
    text: Option<String>,
}

impl EventShape {
    fn new(response: proto::Event) -> EventShape {
        let given = |text: String| (!text.is_empty()).then_some(text);
        EventShape {
            at_ms: response.at_ms,
            task: response.index.map(|index| format!("{}/{index}", response.job)),
            event: response.kind,
            job: given(response.job),
            machine: given(response.machine),
            scheduler: given(response.scheduler),
            by_job: given(response.by_job),
            end: response.end.as_ref().and_then(EndShape::new),
            text: given(response.text),
        }
    }

    /// The text of the event. For `submitted`, it is the number of tasks, and for events of updates the version.
    fn text(&self) -> Option<String> {
        let text = self.text.clone()?;
        Some(match self.event.as_str() {
            "submitted" => text.parse().map_or(text, |tasks| plural(tasks, "task")),
            "new_version" | "update_complete" | "update_failed" => format!("version {text}"),
            _ => text,
        })
    }

    /// Details of the event in one line.
    fn details(&self) -> String {
        let restarts = |end: &EndShape| match end.restarts() {
            0 => String::new(),
            1 => ", after 1 restart".to_owned(),
            many => format!(", after {many} restarts"),
        };
        let at = match self.event.as_str() {
            _ if self.job.is_none() => "machine",
            "moved" | "released" => "off",
            _ => "on",
        };
        let parts = [
            self.machine.as_ref().map(|machine| format!("{at} {machine}")),
            self.scheduler.as_ref().map(|scheduler| format!("by {scheduler}")),
            self.by_job.as_ref().map(|job| format!("for {job}")),
            self.text(),
        ];
        let line = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let end = self.end.as_ref().map(|end| format!("{}{}", end.text(), restarts(end)));
        match (line.is_empty(), end) {
            (_, None) => line,
            (true, Some(end)) => end,
            (false, Some(end)) => format!("{line}: {end}"),
        }
    }
}

/// The latest events of a job, of a task given by its index, or of a machine.
pub(super) fn latest(
    caller: &Caller,
    of: Option<Of>,
    index: Option<u32>,
    limit: u32,
) -> Result<EventsShape, CommandError> {
    let request = proto::ListEventsRequest { of, index, limit };
    let response = caller.call(&request, |channel, request| async move {
        JobServiceClient::new(channel).list_events(request).await
    })?;
    let items = response.events.into_iter().rev().map(EventShape::new).collect();
    Ok(EventsShape { version: response.version, more: response.more, items })
}

/// Adds the event of a job that was killed to those of a task, because `omega job kill` gives its tasks no events.
pub(super) fn add_kill(caller: &Caller, job: &str, events: &mut EventsShape) {
    if events.items.last().is_some_and(|event| event.event == "killed") {
        return;
    }
    let of_job = latest(caller, by_name(job).map(Of::Job), None, FAILURES_AMONG).ok();
    let mut of_job = of_job.into_iter().flat_map(|events| events.items.into_iter().rev());
    events.items.extend(of_job.find(|event| event.task.is_none() && event.event == "killed"));
}

/// Describes the latest failure of a job's program since a time, with the task: `web/4: exit code 127`.
pub(super) fn latest_failure(
    caller: &Caller,
    name: &str,
    since_ms: u64,
) -> Result<Option<String>, CommandError> {
    let events = latest(caller, by_name(name).map(Of::Job), None, FAILURES_AMONG)?;
    let is_failure = |event: &&EventShape| {
        matches!(&*event.event, "failed" | "requeued" | "restarted") && event.at_ms >= since_ms
    };
    let failure = events.items.iter().rev().find(is_failure);
    Ok(failure.and_then(|event| {
        let task = show::clean_name(event.task.as_ref()?);
        Some(format!("{task}: {}", event.end.as_ref()?.text()))
    }))
}

/// The events as a table.
pub(super) fn table(events: &EventsShape) -> String {
    let now_ms = unix_ms();
    let heading = [
        ("age", Align::Right),
        ("task", Align::Left),
        ("event", Align::Left),
        ("details", Align::Left),
    ];
    let row = |event: &EventShape| {
        let task = event.task.clone().or_else(|| event.job.clone()).unwrap_or_default();
        vec![age(now_ms, event.at_ms), task, event.event.replace('_', " "), event.details()]
    };
    let rows: Vec<Vec<String>> = events.items.iter().map(row).collect();
    columns(&heading, &rows)
}

/// Prints the events of a job.
pub(super) fn run(args: &HistoryArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let events = latest(&caller, by_name(&args.name).map(Of::Job), None, args.limit)?;
    let more =
        if events.more { "older events are not shown: raise --limit to see them\n" } else { "" };
    show::print(args.common.output, &events, || {
        match events.items.as_slice() {
        [] => "the cell has no recent events of the job: docs/history.md tells how long it keeps them\n".to_owned(),
        _ => table(&events) + more,
    }
    })
}

/// Time from `at_ms` to `now_ms`, in the largest unit of which there are at least two, like in kubectl: `90s`, `47m`.
pub(super) fn age(now_ms: u64, at_ms: u64) -> String {
    if at_ms == 0 {
        return String::new();
    }
    let seconds = now_ms.saturating_sub(at_ms) / 1000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let of = |seconds: u64| age(1_000_000_000, 1_000_000_000 - seconds * 1000);
        let response = [of(0), of(119), of(120), of(7199), of(7200), of(172_800)];
        assert_eq!(response, ["0s", "119s", "2m", "119m", "2h", "2d"]);
        assert_eq!((age(5, 0), age(5, 9000)), (String::new(), "0s".to_owned()));
    }

    #[test]
    fn details_say_where_by_whom_and_why() {
        let event = |response: proto::Event| EventShape::new(response).details();
        let (machine, scheduler) = ("box".to_owned(), "default".to_owned());
        let evicted =
            proto::Event { by_job: "big".into(), scheduler, machine, ..Default::default() };
        let job = "small".to_owned();
        let evicted = proto::Event { job: job.clone(), ..evicted };
        assert_eq!(event(evicted.clone()), "on box by default for big");
        let moved = proto::Event { kind: "moved".into(), by_job: String::new(), ..evicted };
        assert_eq!(event(moved.clone()), "off box by default");
        let of_machine = proto::Event { job: String::new(), scheduler: String::new(), ..moved };
        assert_eq!(event(of_machine), "machine box");
        let submitted = |text: &str| {
            let (kind, text) = ("submitted".to_owned(), text.to_owned());
            event(proto::Event { kind, text, ..Default::default() })
        };
        assert_eq!((submitted("1"), submitted("6")), ("1 task".to_owned(), "6 tasks".to_owned()));
        let end = proto::RunEnd {
            reason: proto::EndReason::Signal.into(),
            number: 9,
            restarts: 2,
            ..Default::default()
        };
        let failed = proto::Event { end: Some(end.clone()), ..Default::default() };
        assert_eq!(event(failed.clone()), "signal 9, after 2 restarts");
        let once = proto::RunEnd { restarts: 1, ..end };
        let there = proto::Event { job, machine: "box".into(), end: Some(once), ..failed };
        assert_eq!(event(there), "on box: signal 9, after 1 restart");
    }
}
