//! Machines: `/api/v1/machines` lists them in pages, and `/api/v1/machine` shows one with its tasks.

use super::Shown;
use super::response::{JsonResult, ListShape, OneParams, Params, check_state, json, page_size};
use super::task::{TaskShape, task};
use crate::service::{page_start, page_token};
use axum::extract::State;
use omega_cellstate::{Cell, MachineState, MachineStatus};
use omega_client::agent::machine_state;
use omega_client::{ApiError, ErrorCode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of machines that are read per lock of the cell.
const AT_ONCE: usize = 1000;

/// States of machines.
const STATES: [&str; 3] = ["up", "draining", "unreachable"];

#[derive(Deserialize)]
pub(super) struct ListParams {
    /// Text that the names of the machines contain.
    name: Option<String>,
    /// State of the machines, one of [`STATES`].
    state: Option<String>,
    /// Label of the machines: its key, or `KEY=VALUE`.
    label: Option<String>,
    limit: Option<usize>,
    /// Last machine on the previous page.
    page: Option<String>,
}

#[derive(Serialize)]
struct OneShape {
    version: u64,
    machine: MachineShape,
    tasks: Vec<TaskShape>,
    next_page: Option<String>,
}

#[derive(Serialize)]
struct MachineShape {
    name: String,
    id: String,
    /// `up`, `draining` or `unreachable`.
    status: &'static str,
    tasks: usize,
    devices: u8,
    /// Cores for exclusive use, by NUMA node.
    numa: Vec<u16>,
    sequence: u64,
    resources: BTreeMap<String, AmountShape>,
    labels: BTreeMap<String, String>,
    taints: Vec<String>,
}

#[derive(Serialize)]
struct AmountShape {
    capacity: u64,
    claimable: u64,
    claimed: u64,
    /// Measured usage by the machine's tasks; `null` without a report.
    used: Option<u64>,
}

fn status(state: &MachineState<'_>) -> &'static str {
    machine_state(state.machine, state.status == MachineStatus::Draining)
}

impl ListParams {
    fn matches(&self, state: &MachineState<'_>) -> bool {
        let machine = state.machine;
        let has_label = |label: &str| match label.split_once('=') {
            None => machine.labels.get(label).is_some(),
            Some((key, value)) => machine.labels.get(key).is_some_and(|own| **own == *value),
        };
        self.name.as_ref().is_none_or(|part| machine.name.contains(part.as_str()))
            && self
                .state
                .as_ref()
                .is_none_or(|wanted| wanted.is_empty() || status(state) == *wanted)
            && self.label.as_deref().is_none_or(has_label)
    }
}

fn shape(cell: &Cell, state: &MachineState<'_>) -> MachineShape {
    let amounts = cell.kinds().iter().map(|(id, kind)| {
        let claimable = state.claimable[id.index()].max(0);
        let amount = AmountShape {
            capacity: state.machine.capacity.get(id),
            claimable: claimable as u64,
            claimed: (claimable - state.free[id.index()]).max(0) as u64,
            used: state.load.map(|report| report.used.get(id)),
        };
        (kind.name.clone(), amount)
    });
    let taint = |taint: &omega_core::Taint| {
        let effect = format!("{:?}", taint.effect).to_lowercase();
        format!("{}={}:{effect}", taint.key, taint.value)
    };
    MachineShape {
        resources: amounts.collect(),
        name: state.machine.name.to_string(),
        id: state.id.to_string(),
        status: status(state),
        tasks: state.tasks.len(),
        devices: state.machine.devices,
        numa: state.machine.numa.as_slice().to_vec(),
        sequence: state.sequence.0,
        labels: state.machine.labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        taints: state.machine.taints.iter().map(taint).collect(),
    }
}

pub(super) async fn list(
    State(shown): State<Shown>,
    Params(params): Params<ListParams>,
) -> JsonResult {
    check_state(params.state.as_deref(), &STATES)?;
    let size = page_size(params.limit)?;
    let mut row = usize::try_from(page_start(params.page.as_deref().unwrap_or_default())?)
        .unwrap_or(usize::MAX);
    let mut list = ListShape { version: 0, items: Vec::new(), next_page: None };
    // The lock is released after a number of machines, even if few of them match.
    loop {
        let next = shown.web.host.read(|cell| {
            list.version = cell.version().0;
            for (read_count, state) in cell.machines_from(row).enumerate() {
                let slot = state.id.slot as usize;
                if list.items.len() == size || read_count == AT_ONCE {
                    return Some(slot);
                }
                if params.matches(&state) {
                    list.items.push(shape(cell, &state));
                }
            }
            None
        });
        match next {
            Some(next) if list.items.len() < size => row = next,
            next => {
                list.next_page = next.map(|next| page_token(next as u64));
                return Ok(json(&list));
            }
        }
    }
}

pub(super) async fn one(
    State(shown): State<Shown>,
    Params(params): Params<OneParams>,
) -> JsonResult {
    let size = page_size(params.limit)?;
    let start = usize::try_from(page_start(params.page.as_deref().unwrap_or_default())?)
        .unwrap_or(usize::MAX);
    let response = shown.web.host.read(|cell| {
        let state = cell.machine(cell.machine_by_name(&params.name)?)?;
        let mut ids = state.tasks.to_vec();
        ids.sort_unstable();
        let page = ids.iter().skip(start).take(size);
        Some(OneShape {
            version: cell.version().0,
            machine: shape(cell, &state),
            tasks: page.filter_map(|id| task(cell, *id)).collect(),
            next_page: (ids.len() > start.saturating_add(size))
                .then(|| page_token((start + size) as u64)),
        })
    });
    let missing = || {
        ApiError::new(ErrorCode::UnknownMachine, format!("there is no machine {:?}", params.name))
    };
    Ok(json(&response.ok_or_else(missing)?))
}
