//! Samples of a run over the workload's time.

use crate::counts::Counts;
use crate::report::Sample;
use omega_cellstate::Cell;

/// Number of samples of a run over the workload's time.
const SAMPLES: u64 = 240;

/// The samples so far.
pub(super) struct Samples {
    series: Vec<Sample>,
    /// The workload's time at the end of the workload.
    span_ms: u64,
}

/// The time of a sample.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// The workload's time.
    pub(super) now_ms: u64,
    pub(super) wall_s: f64,
}

impl Samples {
    /// Creates an empty list of samples, for a workload that ends at this time.
    pub(super) fn new(span_ms: u64) -> Samples {
        Samples { series: Vec::new(), span_ms }
    }

    /// Whether another sample is due.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.taken() * self.span_ms < now_ms * SAMPLES
    }

    fn taken(&self) -> u64 {
        self.series.len() as u64
    }

    /// Takes a sample.
    pub(super) fn take(&mut self, moment: Moment, cell: &Cell, counts: &Counts) {
        let at_ms = match self.span_ms {
            0 => 0,
            span => (self.taken() * span / SAMPLES).min(moment.now_ms),
        };
        let (used, running) = used_shares(cell);
        self.series.push(Sample {
            workload_s: at_ms as f64 / 1000.0,
            wall_s: moment.wall_s,
            pending: counts.unfinished(running),
            running,
            placements: counts.placements,
            conflicts: counts.conflicts,
            used,
        });
    }

    /// All samples.
    pub(super) fn into_series(self) -> Vec<Sample> {
        self.series
    }
}

/// The claimed share of the cell's capacity by kind, and the number of placed tasks.
pub(super) fn used_shares(cell: &Cell) -> (Vec<f64>, usize) {
    let count = cell.kinds().count();
    let (mut used, mut capacity) = (vec![0i128; count], vec![0u128; count]);
    let mut running = 0;
    for machine in cell.machines() {
        running += machine.tasks.len();
        for (kind, _) in cell.kinds().iter() {
            let i = kind.index();
            used[i] += i128::from(machine.claimable[i]) - i128::from(machine.free[i]);
            capacity[i] += u128::from(machine.machine.capacity.get(kind));
        }
    }
    let share = |(used, capacity): (&i128, &u128)| match capacity {
        0 => 0.0,
        capacity => *used as f64 / *capacity as f64,
    };
    (used.iter().zip(&capacity).map(share).collect(), running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::limits::AMOUNT_MAX;
    use omega_core::{Amounts, Command, Job, JobId, Kinds, Machine, Outcome, TaskGroup, TaskId};

    #[test]
    fn sums_over_the_largest_machines_do_not_overflow() {
        // Each tenant's tasks claim less than 2^63 bytes; all together claim more than 2^64.
        let (tenants, tasks) = (3, 7000);
        let mut cell = Cell::new(Kinds::standard());
        let full = Amounts::new([1000, AMOUNT_MAX]);
        let place = |cell: &mut Cell, job: JobId, index| {
            let machine = Machine::new(format!("m{}-{index}", job.0), full.clone());
            let added = cell.apply(Command::RegisterMachine(machine));
            let Ok(Outcome::Machine(machine)) = added else { panic!("{added:?}") };
            let task = TaskId { job, index };
            cell.apply(Command::AdoptTask { task, machine }).unwrap();
        };
        for tenant in 0..tenants {
            let job = Job::batch(format!("j{tenant}"), TaskGroup::new(tasks, full.clone()));
            let job = Job { tenant: format!("t{tenant}").into(), ..job };
            let added = cell.apply(Command::SubmitJob(job));
            let Ok(Outcome::Job(job)) = added else { panic!("{added:?}") };
            (0..tasks).for_each(|index| place(&mut cell, job, index));
        }
        assert_eq!(used_shares(&cell), (vec![1.0, 1.0, 0.0, 0.0], (tenants * tasks) as usize));
    }
}
