//! The machines of a cell, for applications.

use crate::agent::{AGENT, is_unreachable};
use crate::connect::{Connections, MESSAGE_BYTES_MAX};
use crate::proto::machine_service_client::MachineServiceClient;
use crate::{ApiError, ErrorCode, before_another_try, convert, proto};
use omega_core::{Labels, Machine, Text};
use std::time::Duration;
use tokio::time::Instant;

/// A machine at one version of the cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSnapshot {
    /// Name of the machine.
    pub name: Text,
    /// Labels of the machine.
    pub labels: Labels,
    /// Capacity for each resource kind, in the order of the cell's kinds.
    pub capacity: Vec<u64>,
    /// Free amounts for each resource kind, in the order of the cell's kinds. They are negative if adopted tasks exceed
    /// the capacity.
    pub free: Vec<i64>,
    /// Whether the machine's agent is alive; `None` if it has no agent.
    pub is_alive: Option<bool>,
    /// Whether the machine is draining.
    pub is_draining: bool,
}

/// Lists all machines. If there are more than a thousand, they arrive in pages, each of which has its own version.
pub(super) async fn list(
    connections: &Connections,
    patience: Duration,
) -> Result<Vec<MachineSnapshot>, ApiError> {
    let until = Instant::now() + patience;
    let mut all = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = proto::ListMachinesRequest { page_token, ..Default::default() };
        let page = insist(connections, &request, until).await?;
        for machine in page.machines {
            all.push(snapshot(machine)?);
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(all);
        }
    }
}

async fn insist(
    connections: &Connections,
    request: &proto::ListMachinesRequest,
    until: Instant,
) -> Result<proto::ListMachinesResponse, ApiError> {
    let mut tries = 0;
    loop {
        let connection = connections.current();
        let mut client = MachineServiceClient::new(connection.channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX);
        let response = tokio::time::timeout_at(until, client.list_machines(request.clone())).await;
        let late = |_| Err(tonic::Status::deadline_exceeded("the cell did not answer in time"));
        let error = match response.unwrap_or_else(late) {
            Ok(reply) => return Ok(reply.into_inner()),
            Err(status) => ApiError::from(status),
        };
        let may_pass = error.is_temporary()
            || matches!(error.code, ErrorCode::OutcomeUnknown | ErrorCode::Late);
        let pause = before_another_try(&error, tries);
        tries += 1;
        if !may_pass || Instant::now() + pause >= until {
            return Err(error);
        }
        connections.leave(&connection);
        tokio::time::sleep(pause).await;
    }
}

fn snapshot(update: proto::MachineStatus) -> Result<MachineSnapshot, ApiError> {
    let missing = || ApiError::new(ErrorCode::Internal, "a machine is not described");
    let machine = Machine::try_from(update.machine.ok_or_else(missing)?)?;
    let is_silent = is_unreachable(&machine);
    let has_agent = machine.labels.get(AGENT).is_some() || is_silent;
    Ok(MachineSnapshot {
        name: machine.name,
        labels: machine.labels,
        capacity: convert::values(&machine.capacity),
        free: update.free,
        is_alive: has_agent.then_some(!is_silent),
        is_draining: update.draining,
    })
}
