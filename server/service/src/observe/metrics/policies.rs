//! Metrics of cell-wide rules: incomplete gangs, evictions, moves, reservations, peaks, resizes and optional resources,
//! exclusive cores, deadlines, and cluster resources.
//!
//! Every replica applies every command, so all replicas report the same values, except that a restarted replica counts
//! from its newest snapshot.

use crate::observe::openmetrics::{Figure, MetricWriter};
use omega_cellstate::{
    AllocationCounts, Cell, ClusterResources, CoreCounts, DeadlineCounts, EvictionCounts,
    GangCounts, PeakCounts,
};
use omega_core::{Amounts, Kinds};
use std::fmt;

/// Values of the metrics of cell-wide rules.
#[derive(Debug)]
pub(super) struct PolicyFigures {
    holding: usize,
    gangs: GangCounts,
    evictions: EvictionCounts,
    evictions_left: Option<u32>,
    moves: u64,
    reservations: usize,
    over_peak: usize,
    peaks: PeakCounts,
    held: AllocationCounts,
    cores: CoreCounts,
    resources: ClusterResources,
    kinds: Kinds,
    due: DeadlineCounts,
}

impl PolicyFigures {
    /// The figures of a cell.
    pub(super) fn of(cell: &Cell) -> PolicyFigures {
        PolicyFigures {
            holding: cell.waiting_gangs().len(),
            gangs: cell.gang_counts(),
            evictions: cell.eviction_counts(),
            evictions_left: cell.evictions_left(),
            moves: cell.moves(),
            reservations: cell.reservations().count(),
            over_peak: cell.machines_over_peak(),
            peaks: cell.peak_counts(),
            held: cell.allocation_counts(),
            cores: cell.core_counts(),
            resources: cell.resources().clone(),
            kinds: cell.kinds().clone(),
            due: cell.deadline_counts(),
        }
    }

    pub(super) fn write(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let help = "Incomplete gangs that keep machines until their timeout";
        pen.gauge(Figure::new("gangs_holding", help), self.holding as f64)?;
        let GangCounts { begun, completed, timed_out } = self.gangs;
        let holds = [
            ([("result", "begun")], begun as f64),
            ([("result", "completed")], completed as f64),
            ([("result", "timed_out")], timed_out as f64),
        ];
        let help = "Events of incomplete gangs, by kind: began to keep machines, completed or \
             timed out";
        pen.counters(Figure::new("gang_timeouts", help), holds)?;
        let causes = [
            ([("cause", "precedence")], self.evictions.by_precedence as f64),
            ([("cause", "guarantee")], self.evictions.by_guarantee as f64),
        ];
        let help = "Committed evictions, by cause";
        pen.counters(Figure::new("cell_evictions", help), causes)?;
        let help = "Evictions left in the rate limit; -1 without a limit";
        let left = self.evictions_left.map_or(-1.0, f64::from);
        pen.gauge(Figure::new("evictions_left", help), left)?;
        let help = "Tasks that a single transaction removed from one machine and placed on \
             another, as `omega rebalance` does";
        pen.counter(Figure::new("moves", help), self.moves as f64)?;
        let help = "Reservations that have not ended";
        pen.gauge(Figure::new("reservations", help), self.reservations as f64)?;
        let help = "Machines on which batch tasks exceed their share at this time of day";
        pen.gauge(Figure::new("machines_over_peak", help), self.over_peak as f64)?;
        let PeakCounts { throttled, released, restored } = self.peaks;
        let changes = [
            ([("change", "throttled")], throttled as f64),
            ([("change", "released")], released as f64),
            ([("change", "restored")], restored as f64),
        ];
        let help = "Batch tasks throttled or released on machines over their peak share, or restored again";
        pen.counters(Figure::new("peak_changes", help), changes)?;
        let AllocationCounts { resized, resizes_refused, optional_met, optional_missed } =
            self.held;
        let resizes = [
            ([("result", "committed")], resized as f64),
            ([("result", "refused")], resizes_refused as f64),
        ];
        let help = "Resizes of running tasks, by result";
        pen.counters(Figure::new("task_resizes", help), resizes)?;
        let optional = [
            ([("result", "met")], optional_met as f64),
            ([("result", "missed")], optional_missed as f64),
        ];
        let help = "Placed tasks with optional resources, by whether they got them";
        pen.counters(Figure::new("task_optional_resources", help), optional)?;
        let CoreCounts { all, taken } = self.cores;
        let help = "Cores that tasks can have exclusively";
        pen.gauge(Figure::new("exclusive_cores", help), all as f64)?;
        let help = "Exclusive cores in use";
        pen.gauge(Figure::new("exclusive_cores_taken", help), taken as f64)?;
        self.write_resources(pen)
    }

    /// Writes the figures of cluster resources that exist or are claimed.
    fn write_resources(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let ClusterResources { capacity, claimed } = &self.resources;
        let known: Vec<_> = self
            .kinds
            .iter()
            .filter(|(id, _)| capacity.get(*id) > 0 || claimed.get(*id) > 0)
            .map(|(id, kind)| (id, kind.name.as_str()))
            .collect();
        let of = |amounts: &Amounts| -> Vec<_> {
            let figure = |(id, name)| ([("kind", name)], amounts.get(id) as f64);
            known.iter().copied().map(figure).collect()
        };
        let help = "Capacity of each cluster resource, in its unit";
        pen.gauges(Figure::new("cluster_resource_capacity", help), of(capacity))?;
        let help = "Claims on each cluster resource, in its unit";
        pen.gauges(Figure::new("cluster_resource_claimed", help), of(claimed))?;
        self.write_due(pen)
    }

    fn write_due(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
        let DeadlineCounts { in_time, late, late_ms } = self.due;
        let help = "Jobs that ended by their deadline";
        pen.counter(Figure::new("jobs_in_time", help), in_time as f64)?;
        let help = "Jobs that ended after their deadline";
        pen.counter(Figure::new("jobs_late", help), late as f64)?;
        let help = "Sum of the times by which jobs missed their deadline";
        pen.counter(Figure::seconds("jobs_late", help), late_ms as f64 / 1000.0)
    }
}
