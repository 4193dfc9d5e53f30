//! `omega peak run`: the controller that throttles batch tasks when a peak begins, and restores them after it.
//!
//! Without the controller, calendars still have an effect: during a peak the cell rejects claims of batch tasks beyond
//! their share. But tasks that run when the peak begins stay until they end or are moved.

use crate::connect::CellArgs;
use crate::duration::duration;
use crate::events::LogArgs;
use crate::output;
use crate::scheduler::{End, SchedulerError, acquire_name, lease, process_name};
use clap::Args;
use omega_cellstate::HandleError;
use omega_client::{LeaseSettings, RemoteCell};
use omega_core::TransactionError;
use omega_schedulers::peaks::{PeakController, Settings, StepCounts};
use std::time::Duration;

/// Options for peak calendars.
#[derive(Debug, Args)]
pub(crate) struct PeakRunArgs {
    #[command(flatten)]
    cell: CellArgs,
    /// Scheduler name under which the controller commits.
    #[arg(long, value_name = "NAME", default_value = "peaks")]
    name: String,
    /// Interval between passes of the controller, from 100ms to 1h.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = often)]
    every: Duration,
    /// Maximum number of tasks that one transaction of the controller changes.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    changes: u32,
    /// If another process owns the name, wait until the name is free and take it over, instead of failing.
    #[arg(long)]
    standby: bool,
    /// Duration of the lease on the scheduler name, from 1s to 60s. A standby takes over if the lease is not renewed in
    /// this time.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = lease)]
    lease: Duration,
    #[command(flatten)]
    log: LogArgs,
}

fn often(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        Ok(time)
    } else {
        Err(format!("{text} must be from 100ms to 1h"))
    }
}

/// Runs the peak controller until a signal, or until another process owns its name.
pub(crate) fn run(args: &PeakRunArgs) -> Result<(), SchedulerError> {
    args.log.show();
    let settings = LeaseSettings { lease: args.lease, process: process_name() };
    let cell = RemoteCell::with_leases(&args.cell.address()?, settings)?;
    let mut end = End::listen().map_err(SchedulerError::System)?;
    if !acquire_name((&args.name, args.standby), &cell, &mut end)? {
        return Ok(());
    }
    let kept = run_controller(args, &cell, &mut end);
    if cell.lease_loss().is_none() {
        // If the cell does not answer, the leases expire.
        drop(cell.end_leases());
    }
    kept
}

/// Wait before the next pass, if the controller's view does not yet include the controller's own commits.
const BEHIND: Duration = Duration::from_millis(20);

fn run_controller(
    args: &PeakRunArgs,
    cell: &RemoteCell,
    end: &mut End,
) -> Result<(), SchedulerError> {
    let settings = Settings {
        name: args.name.as_str().into(),
        changes_max: args.changes as usize,
        ..Settings::new()
    };
    let mut controller = PeakController::new(cell, settings)?;
    output::print(&format!("peak controller {} runs\n", args.name))?;
    let mut wait = Duration::ZERO;
    while !end.ended_within(wait) {
        if let Some(why) = cell.lease_loss() {
            return Err(SchedulerError::Lost(why));
        }
        wait = args.every;
        match controller.step(cell) {
            Ok(counts) => {
                let machines_over_share = counts.machines_over_share;
                if counts != (StepCounts { machines_over_share, ..StepCounts::default() }) {
                    output::print(&summary(counts))?;
                    // A transaction has a limited number of changes, so another transaction may be needed at once.
                    wait = Duration::ZERO;
                }
                if controller.is_behind() {
                    wait = BEHIND;
                }
            }
            Err(HandleError::Refused(why @ TransactionError::Fenced(_))) => {
                return Err(SchedulerError::Lost((&why).into()));
            }
            Err(why) => tracing::warn!(%why, "the cell does not answer; the controller tries \
                 again soon"),
        }
    }
    Ok(())
}

/// Summary of the changes, in a line.
fn summary(counts: StepCounts) -> String {
    let StepCounts { throttled, released, restored, rejected, machines_over_share } = counts;
    let parts = [
        (throttled, "throttled"),
        (released, "released"),
        (restored, "restored"),
        (rejected, "rejected"),
        (machines_over_share, "machines over their share"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
    parts.join(", ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_told_in_a_line() {
        let (throttled, released, machines_over_share) = (3, 1, 2);
        let counts =
            StepCounts { throttled, released, machines_over_share, ..StepCounts::default() };
        assert_eq!(summary(counts), "3 throttled, 1 released, 2 machines over their share\n");
    }
}
