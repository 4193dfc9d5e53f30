//! The times at which the load of the machine is reported.

use omega_core::Amounts;
use std::time::{Duration, Instant};

/// Maximum age of the last report, so that the cell does not take an unchanged load for an old one.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// The last reported load, and its time.
#[derive(Debug, Default)]
pub(crate) struct LoadReports(Option<(Amounts, Instant)>);

impl LoadReports {
    /// Whether a load is to be reported now, because it has changed, or because the last report is old. A load that is
    /// due counts as reported.
    pub(crate) fn is_due(&mut self, load: &Amounts, now: Instant) -> bool {
        let is_known = self.0.as_ref().is_some_and(|(last, at)| {
            last == load && now.saturating_duration_since(*at) < REPORT_EVERY
        });
        if !is_known {
            self.0 = Some((load.clone(), now));
        }
        !is_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_load_is_reported_once_a_minute() {
        let (mut reports, began) = (LoadReports::default(), Instant::now());
        let mut due = |second: u64, cpu: u64| {
            reports.is_due(&Amounts::new([cpu]), began + Duration::from_secs(second))
        };
        let seconds: Vec<u64> = (0..=180).step_by(10).filter(|second| due(*second, 50)).collect();
        assert_eq!(seconds, [0, 60, 120, 180]);
        assert!(due(190, 100), "it has changed");
        assert!(!due(240, 100) && due(250, 100), "a change is a report");
    }
}
