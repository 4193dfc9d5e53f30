//! Conversion of policies' columns in a delta. The code for both directions of a policy is in one place.

use super::rows::by_row;
use super::{Malformed, all, amounts, narrow, values};
use crate::proto;
use omega_cellstate::{
    ClusterResources, EvictionColumns, PeakColumns, PolicyColumns, PortColumns, ReservationColumns,
    TakenPorts, TenantCount, TenantCounts,
};
use std::mem::take;

/// Writes the columns of all policies into a message.
pub(super) fn put(policies: &PolicyColumns, message: &mut proto::Delta) {
    let PolicyColumns {
        evictions,
        reservations,
        cluster_resources,
        peaks,
        tasks_per_machine,
        ports,
    } = policies;
    message.refilled = evictions.refilled;
    let reservations = reservations.all.as_deref();
    message.reservations =
        reservations.map(|all| proto::Reservations { all: all.iter().map(Into::into).collect() });
    message.cluster_capacity = values(&cluster_resources.capacity);
    message.cluster_claimed = values(&cluster_resources.claimed);
    let calendars = peaks.calendars.as_deref();
    message.peaks =
        calendars.map(|all| proto::PeakCalendars { all: all.iter().map(Into::into).collect() });
    let batch = peaks.batch.iter();
    message.batch = batch
        .map(|(slot, held)| proto::BatchAllocated { slot: *slot, allocated: held.to_vec() })
        .collect();
    let count = |(slot, reported): &(u32, TenantCount)| proto::TenantCount {
        slot: *slot,
        tenant: reported.tenant.to_string(),
        count: reported.count,
    };
    message.tenant_counts = tasks_per_machine.counts.iter().map(count).collect();
    let wide = |ports: &[u16]| ports.iter().copied().map(u32::from).collect();
    let taken = |(slot, taken): &(u32, TakenPorts)| proto::TakenPorts {
        slot: *slot,
        fixed: wide(&taken.fixed),
        given: wide(&taken.chosen),
    };
    message.ports_counted = ports.counted;
    message.taken_ports = ports.taken.iter().map(taken).collect();
}

/// Takes the columns of all policies from the message of a delta with this number of rows.
///
/// # Errors
/// The columns are not valid.
pub(super) fn get(message: &mut proto::Delta, rows: usize) -> Result<PolicyColumns, Malformed> {
    let reservations = message.reservations.take().map(|given| all(given.all)).transpose()?;
    let calendars = message.peaks.take().map(|given| all(given.all)).transpose()?;
    let batch = by_row("batch.slot", rows, take(&mut message.batch), |one| {
        Ok((one.slot, one.allocated.into()))
    })?;
    let counts = by_row("tenant_counts.slot", rows, take(&mut message.tenant_counts), |one| {
        Ok((one.slot, TenantCount { tenant: one.tenant.into(), count: one.count }))
    })?;
    let taken = by_row("taken_ports.slot", rows, take(&mut message.taken_ports), |one| {
        let fixed = numbers(one.fixed, "taken_ports.fixed")?;
        Ok((one.slot, TakenPorts { fixed, chosen: numbers(one.given, "taken_ports.given")? }))
    })?;
    Ok(PolicyColumns {
        evictions: EvictionColumns { refilled: message.refilled },
        reservations: ReservationColumns { all: reservations },
        cluster_resources: ClusterResources {
            capacity: amounts(take(&mut message.cluster_capacity)),
            claimed: amounts(take(&mut message.cluster_claimed)),
        },
        peaks: PeakColumns { calendars, batch },
        tasks_per_machine: TenantCounts { counts },
        ports: PortColumns { counted: message.ports_counted, taken },
    })
}

/// Takes ascending numbers of ports.
fn numbers(ports: Vec<u32>, field: &'static str) -> Result<Vec<u16>, Malformed> {
    let narrowed = ports.into_iter().map(|port| narrow(port, u16::MAX, field));
    let mut ports = narrowed.collect::<Result<Vec<u16>, _>>()?;
    ports.sort_unstable();
    Ok(ports)
}
