//! Calls about machines, for operators and agents.

use crate::access::audited::about;
use crate::access::descriptions;
use crate::access::grants::{self, caller};
use crate::access::identity::Caller;
use crate::agents::Agents;
use crate::calls::refs;
use crate::calls::responses;
use crate::host::{Host, done, unknown};
use crate::service::{Room, RpcResult, deadline, page_start, page_token};
use omega_cellstate::Cell;
use omega_client::agent::DRAIN_BY;
use omega_client::proto::machine_service_server::MachineService;
use omega_client::{ApiError, ErrorCode, convert, proto};
use omega_core::limits::{RESERVED_VALUES_MAX, RULES_PER_GROUP_MAX};
use omega_core::{
    Command, LabelSelector, Machine, MachineId, MachineSelector, Outcome, PeakCalendar, Rejection,
    Requirement, Reservation, Taint, TaintEffect,
};
use tonic::{Request, Response};

/// Number of machines that are compared with a selector per lock of the cell.
const MACHINES_AT_ONCE: usize = 500;

/// The machine service.
#[derive(Clone, Debug)]
pub struct Machines {
    host: Host,
    agents: Agents,
}

impl Machines {
    /// Creates the service of a cell. The rate of commands applies to agents in all their calls.
    #[must_use]
    pub fn new(host: Host, agents: Agents) -> Machines {
        Machines { host, agents }
    }
}

impl Machines {
    /// Number of machines that a selector matches now. An unexpected number shows a typing error in the selector.
    fn count(&self, selector: &MachineSelector) -> u32 {
        let matched = |cell: &Cell| {
            cell.machines().filter(|state| selector.matches(state.machine)).count() as u32
        };
        self.host.read(matched)
    }

    /// Changes a registered machine to a new description.
    async fn update(
        &self,
        caller: &Caller,
        machine: Machine,
        until: tokio::time::Instant,
    ) -> Result<MachineId, ApiError> {
        let registered = self.host.read(|cell| {
            let id = cell.machine_by_name(&machine.name)?;
            let known = cell.machine(id)?.machine.clone();
            let machine = descriptions::described(caller, cell.kinds(), &known, machine.clone());
            Some((id, known, machine))
        });
        // The machine was removed just now.
        let removed = || ApiError::from(&Rejection::NameTaken(machine.name.clone()));
        let (id, known, described) = registered.ok_or_else(removed)?;
        match self.change(id, &known, described.clone(), until).await {
            Err(error) if descriptions::is_of_agent(caller, &machine) => {
                let kept = descriptions::while_in_use(error.code, &known, &described);
                self.change(id, &known, kept.ok_or(error)?, until).await?;
            }
            changed => changed?,
        }
        Ok(id)
    }

    /// Changes a machine, unless it is described so already.
    async fn change(
        &self,
        id: MachineId,
        known: &Machine,
        machine: Machine,
        until: tokio::time::Instant,
    ) -> Result<(), ApiError> {
        if *known != machine {
            done(self.host.apply(Command::UpdateMachine { id, machine }, until).await?)?;
        }
        Ok(())
    }
}

/// Name of a machine in the audit log.
fn named(machine: Option<&proto::MachineRef>) -> String {
    use proto::machine_ref::Machine as Given;
    match machine.and_then(|machine| machine.machine.as_ref()) {
        Some(Given::Id(id)) => MachineId::from(*id).to_string(),
        Some(Given::Name(name)) => name.clone(),
        None => String::new(),
    }
}

/// A reservation without the names of tenants that the caller does not see. Without these, the reservation still shows
/// why machines are closed.
fn seen_by(caller: &Caller, reservation: &Reservation) -> proto::Reservation {
    let mut seen = proto::Reservation::from(reservation);
    seen.tenants.retain(|tenant| caller.may_see_tenant(tenant));
    seen
}

#[tonic::async_trait]
impl MachineService for Machines {
    async fn register_machine(
        &self,
        request: Request<proto::RegisterMachineRequest>,
    ) -> RpcResult<proto::RegisterMachineResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        about(&request, |request| {
            request.machine.as_ref().map_or("", |machine| &machine.name).to_owned()
        });
        let given = request.into_inner().machine;
        let missing = || ApiError::new(ErrorCode::Malformed, "machine is missing");
        let machine = Machine::try_from(given.ok_or_else(missing)?).map_err(ApiError::from)?;
        grants::may_be_machine(&caller, &machine.name)?;
        self.agents.await_rate(&caller, 1, until).await?;
        let command = Command::RegisterMachine(machine.clone());
        let id = match self.host.apply(command, until).await {
            Ok(Outcome::Machine(id)) => id,
            Ok(_) => return Err(unknown().into()),
            Err(error) if error.code == ErrorCode::NameTaken => {
                self.host.refresh(until).await?;
                self.update(&caller, machine, until).await?
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Response::new(proto::RegisterMachineResponse { id: Some(id.into()) }))
    }

    async fn create_reservation(
        &self,
        request: Request<proto::CreateReservationRequest>,
    ) -> RpcResult<proto::CreateReservationResponse> {
        let until = deadline(&request);
        about(&request, |request| {
            request.reservation.as_ref().map_or("", |reservation| &reservation.name).to_owned()
        });
        let missing = || ApiError::new(ErrorCode::Malformed, "reservation is missing");
        let given = request.into_inner().reservation.ok_or_else(missing)?;
        let reservation = Reservation::try_from(given).map_err(ApiError::from)?;
        let selector = reservation.machines.clone();
        let version = done(self.host.apply(Command::Reserve(reservation), until).await?)?.0;
        let machines = Some(self.count(&selector));
        Ok(Response::new(proto::CreateReservationResponse { version, machines }))
    }

    async fn delete_reservation(
        &self,
        request: Request<proto::DeleteReservationRequest>,
    ) -> RpcResult<proto::DeleteReservationResponse> {
        let until = deadline(&request);
        about(&request, |request| request.name.clone());
        let name = request.into_inner().name.into();
        let version = done(self.host.apply(Command::Unreserve { name }, until).await?)?;
        Ok(Response::new(proto::DeleteReservationResponse { version: version.0 }))
    }

    async fn list_reservations(
        &self,
        request: Request<proto::ListReservationsRequest>,
    ) -> RpcResult<proto::ListReservationsResponse> {
        let caller = caller(&request)?;
        self.host.refresh(deadline(&request)).await?;
        let answer = self.host.read(|cell| proto::ListReservationsResponse {
            reservations: cell.reservations().map(|one| seen_by(&caller, one)).collect(),
            now_ms: cell.now_ms(),
            version: cell.version().0,
        });
        Ok(Response::new(answer))
    }

    async fn set_peaks(
        &self,
        request: Request<proto::SetPeaksRequest>,
    ) -> RpcResult<proto::SetPeaksResponse> {
        let until = deadline(&request);
        about(&request, |request| {
            request.calendar.as_ref().map_or("", |calendar| &calendar.name).to_owned()
        });
        let missing = || ApiError::new(ErrorCode::Malformed, "calendar is missing");
        let given = request.into_inner().calendar.ok_or_else(missing)?;
        let calendar = PeakCalendar::try_from(given).map_err(ApiError::from)?;
        let selector = calendar.machines.clone();
        let version = done(self.host.apply(Command::SetPeaks(calendar), until).await?)?.0;
        let machines = Some(self.count(&selector));
        Ok(Response::new(proto::SetPeaksResponse { version, machines }))
    }

    async fn remove_peaks(
        &self,
        request: Request<proto::RemovePeaksRequest>,
    ) -> RpcResult<proto::RemovePeaksResponse> {
        let until = deadline(&request);
        about(&request, |request| request.name.clone());
        let name = request.into_inner().name.into();
        let version = done(self.host.apply(Command::RemovePeaks { name }, until).await?)?;
        Ok(Response::new(proto::RemovePeaksResponse { version: version.0 }))
    }

    async fn list_peaks(
        &self,
        request: Request<proto::ListPeaksRequest>,
    ) -> RpcResult<proto::ListPeaksResponse> {
        self.host.refresh(deadline(&request)).await?;
        let answer = self.host.read(|cell| proto::ListPeaksResponse {
            calendars: cell.peak_calendars().map(Into::into).collect(),
            now_ms: cell.now_ms(),
            version: cell.version().0,
            machines_over: cell.machines_over_peak() as u32,
        });
        Ok(Response::new(answer))
    }

    async fn drain_machine(
        &self,
        request: Request<proto::DrainMachineRequest>,
    ) -> RpcResult<proto::DrainMachineResponse> {
        let until = deadline(&request);
        about(&request, |request| named(request.machine.as_ref()));
        let request = request.into_inner();
        self.host.refresh(until).await?;
        let id = self.host.read(|cell| refs::machine(cell, request.machine))?;
        let command = Command::DrainMachine { id, draining: !request.resume };
        let mut version = done(self.host.apply(command, until).await?)?;
        let leave_by = (!request.resume && request.leave_by_ms > 0).then_some(request.leave_by_ms);
        let has_taint = |cell: &Cell| {
            let taints = cell.machine(id).map_or(&[][..], |state| &state.machine.taints);
            taints.iter().any(|taint| *taint.key == *DRAIN_BY)
        };
        let (key, effect) = (DRAIN_BY.into(), TaintEffect::NoSchedule);
        if let Some(ms) = leave_by {
            let taint = Taint { key, value: ms.to_string().into(), effect };
            version = done(self.host.apply(Command::AddTaint { id, taint }, until).await?)?;
        } else if self.host.read(has_taint) {
            version = done(self.host.apply(Command::RemoveTaint { id, key }, until).await?)?;
        }
        Ok(Response::new(proto::DrainMachineResponse { version: version.0 }))
    }

    async fn remove_machine(
        &self,
        request: Request<proto::RemoveMachineRequest>,
    ) -> RpcResult<proto::RemoveMachineResponse> {
        let until = deadline(&request);
        about(&request, |request| named(request.machine.as_ref()));
        let request = request.into_inner();
        self.host.refresh(until).await?;
        let id = self.host.read(|cell| refs::machine(cell, request.machine))?;
        let version = done(self.host.apply(Command::RemoveMachine { id }, until).await?)?;
        Ok(Response::new(proto::RemoveMachineResponse { version: version.0 }))
    }

    async fn report_load(
        &self,
        request: Request<proto::ReportLoadRequest>,
    ) -> RpcResult<proto::ReportLoadResponse> {
        let until = deadline(&request);
        let caller = caller(&request)?;
        let request = request.into_inner();
        let missing = || ApiError::new(ErrorCode::Malformed, "machine is missing");
        let id = request.machine.ok_or_else(missing)?.into();
        grants::may_report(&caller, &self.host, id, until).await?;
        self.agents.await_rate(&caller, 1, until).await?;
        let load = convert::amounts(request.used);
        done(self.host.apply(Command::ReportLoad { id, load }, until).await?)?;
        Ok(Response::new(proto::ReportLoadResponse {}))
    }

    async fn get_machine(
        &self,
        request: Request<proto::GetMachineRequest>,
    ) -> RpcResult<proto::GetMachineResponse> {
        self.host.refresh(deadline(&request)).await?;
        let caller = caller(&request)?;
        let machine = request.into_inner().machine;
        if let Some(proto::machine_ref::Machine::Name(name)) =
            machine.as_ref().and_then(|named| named.machine.as_ref())
        {
            // Checked before the look-up, so that the answer does not depend on whether the machine exists.
            grants::may_be_machine(&caller, name)?;
        }
        let machine = self.host.read(|cell| {
            let id = refs::machine(cell, machine)?;
            let Some(state) = cell.machine(id) else { return Ok(None) };
            grants::may_be_machine(&caller, &state.machine.name)?;
            Ok::<_, ApiError>(Some(responses::machine(&state)))
        })?;
        Ok(Response::new(proto::GetMachineResponse { machine }))
    }

    async fn list_machines(
        &self,
        request: Request<proto::ListMachinesRequest>,
    ) -> RpcResult<proto::ListMachinesResponse> {
        self.host.refresh(deadline(&request)).await?;
        let request = request.into_inner();
        let mut next = Some(page_start(&request.page_token)?);
        let room = Room::of_page(request.page_size);
        let selector = label_selector(request.labels)?;
        let mut page = MachinesPage { selector, room, answer: Default::default() };
        while let Some(row) = next {
            next =
                self.host.read(|cell| page.add(cell, usize::try_from(row).unwrap_or(usize::MAX)));
            tokio::task::yield_now().await;
        }
        Ok(Response::new(page.answer))
    }
}

/// A page of machines that is being made.
struct MachinesPage {
    selector: LabelSelector,
    room: Room,
    answer: proto::ListMachinesResponse,
}

impl MachinesPage {
    /// Adds machines from this row on. Returns the first row that was not examined; `None` if the page is complete.
    fn add(&mut self, cell: &Cell, row: usize) -> Option<u64> {
        self.answer.version = cell.version().0;
        for (looked, state) in cell.machines_from(row).enumerate() {
            let slot = u64::from(state.id.slot);
            if looked == MACHINES_AT_ONCE {
                return Some(slot);
            }
            if !self.selector.matches(&state.machine.labels) {
                continue;
            }
            if self.room.is_full() {
                self.answer.next_page_token = page_token(slot);
                return None;
            }
            self.answer.machines.push(self.room.take(responses::machine(&state)));
        }
        None
    }
}

/// The selector of a request. Its size is bounded, because it is compared with all machines.
fn label_selector(labels: Vec<proto::Requirement>) -> Result<LabelSelector, ApiError> {
    let bounds = [
        ("requirements of a list of machines", labels.len(), RULES_PER_GROUP_MAX),
        (
            "values in the requirements of a list of machines",
            labels.iter().map(|requirement| requirement.values.len()).sum(),
            RESERVED_VALUES_MAX,
        ),
    ];
    for (what, given, max) in bounds {
        if given > max {
            let (given, max) = (given as u64, max as u64);
            return Err((&Rejection::TooMany { what: what.into(), given, max }).into());
        }
    }
    let requirements = labels.into_iter().map(Requirement::try_from);
    let requirements = requirements.collect::<Result<_, _>>().map_err(ApiError::from)?;
    Ok(LabelSelector { requirements })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::identity;
    use omega_cellstate::SharedCell;
    use omega_core::{Amounts, Kinds};

    fn exists(key: &str) -> proto::Requirement {
        let operator = proto::Operator::Exists.into();
        proto::Requirement { key: key.into(), operator, ..Default::default() }
    }

    #[test]
    fn a_page_is_made_with_a_bounded_number_of_machines_per_lock() {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        let count = 2 * MACHINES_AT_ONCE + 1;
        for number in 0..count {
            let machine = Machine::new(format!("m{number}"), Amounts::new([1]));
            let is_last = number + 1 == count;
            let machine = if is_last { machine.with_label("rack", "a") } else { machine };
            cell.apply(Command::RegisterMachine(machine)).unwrap();
        }
        let selector = label_selector(vec![exists("rack")]).unwrap();
        let room = Room::of_page(1);
        let mut page = MachinesPage { selector, room, answer: Default::default() };
        let mut rows = vec![0];
        while let Some(row) = cell.read(|cell| page.add(cell, rows[rows.len() - 1] as usize)) {
            rows.push(row);
        }
        assert_eq!(rows, [0, MACHINES_AT_ONCE as u64, 2 * MACHINES_AT_ONCE as u64]);
        assert_eq!((page.answer.machines.len(), &*page.answer.next_page_token), (1, ""));
    }

    #[test]
    fn selectors_of_lists_are_bounded() {
        let requirements = |count: usize| vec![exists("rack"); count];
        assert!(label_selector(requirements(RULES_PER_GROUP_MAX)).is_ok());
        let error = label_selector(requirements(RULES_PER_GROUP_MAX + 1)).unwrap_err();
        assert_eq!(error.code, ErrorCode::TooMany);
        let operator = proto::Operator::In.into();
        let values = vec!["a".to_owned(); RESERVED_VALUES_MAX + 1];
        let error = label_selector(vec![proto::Requirement { key: "k".into(), operator, values }]);
        assert_eq!(error.unwrap_err().code, ErrorCode::TooMany);
    }

    #[test]
    fn a_reservation_names_only_visible_tenants() {
        let reservation = Reservation {
            name: "demo".into(),
            machines: MachineSelector::label("rack", "a"),
            tenants: vec!["bank".into(), "shop".into()],
            from_ms: 1,
            until_ms: 2,
        };
        let tenants = |uri: &str| {
            let role = identity::read(uri, "c").unwrap();
            let seen = seen_by(&Caller { name: uri.into(), role }, &reservation);
            assert_eq!((&*seen.name, seen.from_ms, seen.until_ms), ("demo", 1, 2));
            seen.tenants
        };
        assert_eq!(tenants("omega://c/operator/x"), ["bank", "shop"]);
        assert_eq!(tenants("omega://c/reader/x"), ["bank", "shop"]);
        assert_eq!(tenants("omega://c/reader/x?tenant=bank"), ["bank"]);
        assert_eq!(tenants("omega://c/submitter/x?tenant=shop"), ["shop"]);
        assert!(tenants("omega://c/application/x?tenant=film").is_empty());
    }
}
