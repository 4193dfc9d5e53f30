//! The registration of an agent's machine. A machine that the cell has already keeps its taints, and another agent does
//! not take it over while its own agent is reachable. The cell may register less than the agent offers, because it
//! keeps what an operator has set.

use super::{AGENT, is_unreachable};
use crate::connect::MESSAGE_BYTES_MAX;
use crate::proto::machine_service_client::MachineServiceClient;
use crate::proto::{self, machine_ref};
use crate::{ApiError, ErrorCode};
use omega_core::{Labels, Machine, MachineId};
use tonic::transport::Channel;

/// Value of the label [`AGENT`] if the agent has no id.
const NO_ID: &str = "true";

/// Whether an agent may register a machine that the cell has already.
fn may_take_over(registered: &Machine, given: &Machine) -> bool {
    let id = |machine: &Machine| machine.labels.get(AGENT).filter(|id| &***id != NO_ID).cloned();
    let is_other =
        id(registered).zip(id(given)).is_some_and(|(registered, given)| registered != given);
    !is_other || is_unreachable(registered)
}

/// Registers a machine, and returns its id.
pub(super) async fn register(
    channel: Channel,
    mut machine: Machine,
) -> Result<MachineId, ApiError> {
    let mut client =
        MachineServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
    if machine.labels.get(AGENT).is_none() {
        let labels = machine.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
        machine.labels = Labels::new(labels.chain([(AGENT.into(), NO_ID.into())]));
    }
    let name = machine_ref::Machine::Name(machine.name.to_string());
    let named =
        proto::GetMachineRequest { machine: Some(proto::MachineRef { machine: Some(name) }) };
    let mut may_differ = false;
    match client.get_machine(named.clone()).await {
        Ok(answer) => {
            if let Some(registered) = described(answer)? {
                may_differ = registered != machine;
                if !may_take_over(&registered, &machine) {
                    let name = &machine.name;
                    return Err(ApiError::new(
                        ErrorCode::NameTaken,
                        format!(
                            "machine {name:?} has another agent, which is reachable: give this agent \
                         another --name, or start it again when that agent is unreachable"
                        ),
                    ));
                }
                if !registered.taints.is_empty() {
                    machine.taints = registered.taints;
                }
            }
        }
        Err(status) => match ApiError::from(status) {
            error if error.code == ErrorCode::UnknownMachine => {}
            error => return Err(error),
        },
    }
    let request = proto::RegisterMachineRequest { machine: Some((&machine).into()) };
    let answer = client.register_machine(request).await?.into_inner();
    let missing = || ApiError::new(ErrorCode::Internal, "the answer has no id");
    let id = answer.id.ok_or_else(missing)?.into();
    // The machine is registered, so an error of this call is not one of the registration.
    if may_differ
        && let Ok(answer) = client.get_machine(named).await
        && let Ok(Some(registered)) = described(answer)
    {
        warn(&registered, &machine);
    }
    Ok(id)
}

/// The machine in an answer.
fn described(
    answer: tonic::Response<proto::GetMachineResponse>,
) -> Result<Option<Machine>, ApiError> {
    let registered = answer.into_inner().machine.and_then(|registered| registered.machine);
    Ok(registered.map(Machine::try_from).transpose()?)
}

/// Logs what the cell did not accept of the offered machine.
fn warn(registered: &Machine, offered: &Machine) {
    let differ = differences(registered, offered);
    if !differ.is_empty() {
        tracing::warn!(
            machine = %offered.name, differ = differ.join(", "),
            "the cell keeps the known description of the machine, which differs from what the \
             agent offers: to accept the offer, let an operator use `omega machine add`, or \
             `omega machine remove` and start the agent again"
        );
    }
}

/// Names of the offered properties that the registered machine does not have. Labels that only the registered machine
/// has are those of an operator.
fn differences(registered: &Machine, offered: &Machine) -> Vec<String> {
    let fields = [
        ("capacity", registered.capacity != offered.capacity),
        ("overcommit", registered.overcommit != offered.overcommit),
        ("devices", registered.devices != offered.devices),
        ("NUMA nodes", registered.numa != offered.numa),
    ];
    let fields = fields.into_iter().filter(|(_, differs)| *differs);
    let labels = offered.labels.iter();
    let labels = labels.filter(|(key, value)| registered.labels.get(key) != Some(*value));
    fields
        .map(|(field, _)| field.to_owned())
        .chain(labels.map(|(key, _)| format!("label {key}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::UNREACHABLE;
    use omega_core::{Amounts, Taint, TaintEffect};

    #[test]
    fn an_agent_takes_over_only_a_machine_that_no_other_agent_reaches() {
        let machine = |id: &str| {
            let labels = Labels::new([(AGENT, id)]);
            Machine { labels, ..Machine::new("box", Amounts::new([1])) }
        };
        for (registered, given, may) in
            [("1f", "1f", true), ("1f", "2e", false), ("1f", NO_ID, true), (NO_ID, "2e", true)]
        {
            let registered = machine(registered);
            assert_eq!(may_take_over(&registered, &machine(given)), may, "{registered:?} {given}");
            let (key, effect) = (UNREACHABLE.into(), TaintEffect::NoSchedule);
            let silent = [Taint { key, value: "".into(), effect }];
            let silent = Machine { taints: silent.into(), ..registered };
            assert!(may_take_over(&silent, &machine(given)));
        }
        assert!(may_take_over(&Machine::new("box", Amounts::new([1])), &machine("1f")));
    }

    #[test]
    fn the_agent_names_what_the_cell_did_not_accept() {
        let mut registered = Machine::new("box", Amounts::new([8000]));
        registered.labels = Labels::new([(AGENT, "1f"), ("zone", "a"), ("team", "ml")]);
        let mut offered = registered.clone();
        offered.labels = Labels::new([(AGENT, "1f"), ("zone", "a")]);
        assert!(differences(&registered, &offered).is_empty());
        offered.capacity = Amounts::new([9000]);
        offered.devices = 1;
        offered.labels = Labels::new([(AGENT, "1f"), ("zone", "b")]);
        assert_eq!(differences(&registered, &offered), ["capacity", "devices", "label zone"]);
    }
}
