//! Metrics of tenants: usage, limits and guarantees. Each tenant is a series, so only the first tenants are reported,
//! together with the number of all tenants.

use crate::observe::openmetrics::{Figure, MetricWriter};
use omega_cellstate::Cell;
use omega_core::limits::QUOTA_MAX;
use omega_core::{Kinds, Text};
use std::fmt;

/// Maximum number of tenants with series of their own.
const TENANTS_MAX: usize = 200;

/// A tenant's values, by resource kind.
#[derive(Debug)]
struct TenantValues {
    name: Text,
    used: Vec<u64>,
    limit: Option<Vec<u64>>,
    guaranteed: Vec<u64>,
    requested: Vec<u64>,
    request_limit: Vec<u64>,
}

/// Values of all tenants.
#[derive(Debug)]
pub(super) struct TenantFigures {
    kinds: Kinds,
    count: usize,
    tenants: Vec<TenantValues>,
}

impl TenantFigures {
    /// The values of a cell.
    pub(super) fn of(cell: &Cell) -> TenantFigures {
        let kinds = cell.kinds().clone();
        let amounts = |amounts: &omega_core::Amounts| {
            kinds.iter().map(|(kind, _)| amounts.get(kind)).collect::<Vec<u64>>()
        };
        let tenants = cell.tenants().take(TENANTS_MAX).map(|(name, limit, used)| TenantValues {
            name: name.clone(),
            used: used.iter().map(|used| (*used).max(0).cast_unsigned()).collect(),
            limit: limit.map(amounts),
            guaranteed: cell
                .tenant_config(name)
                .map(|s| amounts(&s.guaranteed))
                .unwrap_or_default(),
            requested: cell.requested(name).unwrap_or_default(),
            request_limit: cell.admission(name).map(amounts).unwrap_or_default(),
        });
        let tenants = tenants.collect();
        TenantFigures { count: cell.tenants().count(), tenants, kinds }
    }

    pub(super) fn write(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let help = "Tenants that ever had a job, a quota or a configuration; the first 200 have series of their own";
        pen.gauge(Figure::new("tenants", help), self.count as f64)?;
        let help =
            "Claims of the tasks of a tenant and of all tenants below it, in each kind's unit";
        pen.gauges(Figure::new("tenant_used", help), self.series(|tenant| &tenant.used))?;
        let help =
            "Limit of the claims of a tenant and of all tenants below it, where there is one";
        let limits = self.limits(|tenant| tenant.limit.as_deref().unwrap_or_default());
        pen.gauges(Figure::new("tenant_limit", help), limits)?;
        let help = "Requests of the jobs of a tenant and of all tenants below it, pending or placed; only in cells with a request limit";
        pen.gauges(Figure::new("tenant_requested", help), self.series(|tenant| &tenant.requested))?;
        let help = "Request limit of a tenant and of all tenants below it, where there is one";
        pen.gauges(
            Figure::new("tenant_request_limit", help),
            self.limits(|tenant| &tenant.request_limit),
        )?;
        let help = "Guarantee of a tenant; usage above it is borrowed";
        let sure =
            self.series(|tenant| &tenant.guaranteed).into_iter().filter(|(_, sure)| *sure > 0.0);
        pen.gauges(Figure::new("tenant_guaranteed", help), sure)
    }

    /// Writes the limits, for kinds that have one.
    fn limits<'a>(
        &'a self,
        of: impl Fn(&'a TenantValues) -> &'a [u64],
    ) -> impl Iterator<Item = ([(&'static str, &'a str); 2], f64)> {
        self.series(of).into_iter().filter(|(_, most)| *most < QUOTA_MAX as f64)
    }

    fn series<'a>(
        &'a self,
        of: impl Fn(&'a TenantValues) -> &'a [u64],
    ) -> Vec<([(&'static str, &'a str); 2], f64)> {
        let mut series = Vec::new();
        for tenant in &self.tenants {
            for ((_, kind), value) in self.kinds.iter().zip(of(tenant)) {
                series.push(([("tenant", &*tenant.name), ("kind", &*kind.name)], *value as f64));
            }
        }
        series
    }
}
