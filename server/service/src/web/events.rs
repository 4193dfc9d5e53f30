//! Events of a job or a machine: `/api/v1/events`.

use super::Shown;
use super::response::{JsonResult, Params, json, page_size};
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
pub(super) struct EventParams {
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
    fn from(explanation: proto::Event) -> EventShape {
        let given = |text: String| (!text.is_empty()).then_some(text);
        let end = explanation.end.as_ref().and_then(omega_client::convert::run_end);
        EventShape {
            at_ms: explanation.at_ms,
            event: explanation.kind,
            task: explanation.index.map(|index| format!("{}/{index}", explanation.job)),
            job: given(explanation.job),
            machine: given(explanation.machine),
            scheduler: given(explanation.scheduler),
            by_job: given(explanation.by_job),
            end: end.map(|end| end.reason.to_string()),
            text: given(explanation.text),
        }
    }
}

pub(super) async fn events(
    State(shown): State<Shown>,
    caller: Option<Extension<Arc<Caller>>>,
    Params(params): Params<EventParams>,
) -> JsonResult {
    let named = |name: String| proto::JobRef { job: Some(proto::job_ref::Job::Name(name)) };
    let machine =
        |name: String| proto::MachineRef { machine: Some(proto::machine_ref::Machine::Name(name)) };
    let of = params.job.map(named).map(Of::Job).or(params.machine.map(machine).map(Of::Machine));
    let limit = params.limit.map(|limit| page_size(Some(limit as usize))).transpose()?;
    let limit = limit.map_or(LIMIT, |limit| limit as u32);
    let request = proto::ListEventsRequest { of, index: None, limit };
    let caller =
        caller.map_or_else(|| Arc::new(Caller::without_certificate()), |Extension(caller)| caller);
    let explanation = history::list(&shown.web.host, request, &caller).await?;
    let items = explanation.events.into_iter().map(EventShape::from).collect();
    Ok(json(&EventsShape { version: explanation.version, more: explanation.more, items }))
}
