//! Events of a job or a machine: `/api/v1/events`.

use super::Shown;
use super::answer::{Answer, Asked, json};
use crate::access::identity::Caller;
use crate::calls::history;
use axum::Extension;
use axum::extract::State;
use omega_client::proto;
use omega_client::proto::list_events_request::Of;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Default number of events.
const LIMIT: u32 = 50;

#[derive(Deserialize)]
pub(super) struct AskedEvents {
    job: Option<String>,
    machine: Option<String>,
    limit: Option<u32>,
}

#[derive(Serialize)]
struct EventsShape {
    version: u64,
    /// Whether there are older events.
    more: bool,
    /// Events, the latest first.
    items: Vec<EventShape>,
}

#[derive(Serialize)]
struct EventShape {
    /// Milliseconds since 1970.
    at_ms: u64,
    event: String,
    job: Option<String>,
    task: Option<String>,
    machine: Option<String>,
    scheduler: Option<String>,
    by_job: Option<String>,
    /// The end of a program, in words.
    end: Option<String>,
    text: Option<String>,
}

impl From<proto::Event> for EventShape {
    fn from(told: proto::Event) -> EventShape {
        let given = |text: String| (!text.is_empty()).then_some(text);
        let end = told.end.as_ref().and_then(omega_client::convert::run_end);
        EventShape {
            at_ms: told.at_ms,
            event: told.kind,
            task: told.index.map(|index| format!("{}/{index}", told.job)),
            job: given(told.job),
            machine: given(told.machine),
            scheduler: given(told.scheduler),
            by_job: given(told.by_job),
            end: end.map(|end| end.reason.to_string()),
            text: given(told.text),
        }
    }
}

pub(super) async fn events(
    State(shown): State<Shown>,
    caller: Option<Extension<Arc<Caller>>>,
    Asked(asked): Asked<AskedEvents>,
) -> Answer {
    let named = |name: String| proto::JobRef { job: Some(proto::job_ref::Job::Name(name)) };
    let machine =
        |name: String| proto::MachineRef { machine: Some(proto::machine_ref::Machine::Name(name)) };
    let of = asked.job.map(named).map(Of::Job).or(asked.machine.map(machine).map(Of::Machine));
    let limit = asked.limit.unwrap_or(LIMIT).clamp(1, 1000);
    let request = proto::ListEventsRequest { of, index: None, limit };
    let caller =
        caller.map_or_else(|| Arc::new(Caller::without_certificate()), |Extension(caller)| caller);
    let told = shown.web.host.read(|cell| history::list(cell, request, &caller))?;
    let items = told.events.into_iter().map(EventShape::from).collect();
    Ok(json(&EventsShape { version: told.version, more: told.more, items }))
}
