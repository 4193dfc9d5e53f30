//! Conversion of policies' columns in a delta. Both directions of a policy are together.

use super::rows::by_row;
use super::{Malformed, all, amounts, values};
use crate::proto;
use omega_cellstate::{
    ClusterResources, EvictionColumns, PeakColumns, PolicyColumns, ReservationColumns, TenantCount,
    TenantCounts,
};
use std::mem::take;

/// Writes the columns of all policies into a message.
pub(super) fn put(policies: &PolicyColumns, message: &mut proto::Delta) {
    let PolicyColumns { evictions, reservations, cluster_resources, peaks, tasks_per_machine } =
        policies;
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
    let count = |(slot, told): &(u32, TenantCount)| proto::TenantCount {
        slot: *slot,
        tenant: told.tenant.to_string(),
        count: told.count,
    };
    message.tenant_counts = tasks_per_machine.counts.iter().map(count).collect();
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
    Ok(PolicyColumns {
        evictions: EvictionColumns { refilled: message.refilled },
        reservations: ReservationColumns { all: reservations },
        cluster_resources: ClusterResources {
            capacity: amounts(take(&mut message.cluster_capacity)),
            claimed: amounts(take(&mut message.cluster_claimed)),
        },
        peaks: PeakColumns { calendars, batch },
        tasks_per_machine: TenantCounts { counts },
    })
}
