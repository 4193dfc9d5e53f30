//! Distributions of single quantities, for comparing the generated trace with the original.

use super::draft::Draft;
use crate::trace::info::{ValueUnit, ValuesInfo};
use crate::trace::values::Values;
use omega_core::{KindId, Kinds};

/// The distributions of quantities over rows.
pub(super) struct Marginals {
    gaps: Values,
    counts: Values,
    runs: Values,
    requests: Vec<Values>,
    last_ms: Option<u64>,
}

/// One distribution, in the original and in the generated trace.
#[derive(Debug, serde::Serialize)]
pub struct Pair {
    /// Values of the original trace.
    pub original: ValuesInfo,
    /// Values of the generated trace.
    pub made: ValuesInfo,
    /// Kolmogorov-Smirnov distance of the two distributions.
    pub distance: f64,
}

impl Marginals {
    pub(super) fn new(kinds: &Kinds) -> Marginals {
        let requests = (0..kinds.count()).map(|_| Values::default()).collect();
        Marginals {
            gaps: Values::default(),
            counts: Values::default(),
            runs: Values::default(),
            requests,
            last_ms: None,
        }
    }

    /// Counts a row with its time of arrival.
    pub(super) fn add(&mut self, at_ms: u64, row: &Draft) {
        if at_ms > 0 {
            if let Some(last_ms) = self.last_ms {
                self.gaps.add(at_ms - last_ms, 1);
            }
            self.last_ms = Some(at_ms);
        }
        self.counts.add(u64::from(row.count), 1);
        row.run_ms.into_iter().for_each(|run_ms| self.runs.add(run_ms, 1));
        for (kind, values) in (0..).map(KindId).zip(&mut self.requests) {
            values.add(row.request.get(kind), 1);
        }
    }

    /// Pairs the distributions of two traces.
    pub(super) fn beside(&self, made: &Marginals, kinds: &Kinds) -> Vec<Pair> {
        let pair = |what: &str, unit, a: &Values, b: &Values| Pair {
            original: ValuesInfo::new(what, unit, a),
            made: ValuesInfo::new(what, unit, b),
            distance: a.distance(b),
        };
        let mut pairs = vec![
            pair("time between rows", ValueUnit::Ms, &self.gaps, &made.gaps),
            pair("tasks", ValueUnit::Count, &self.counts, &made.counts),
            pair("run time", ValueUnit::Ms, &self.runs, &made.runs),
        ];
        for ((kind, named), (a, b)) in kinds.iter().zip(self.requests.iter().zip(&made.requests)) {
            if a.largest() > 0 {
                pairs.push(pair(&named.name, ValueUnit::Kind(kind.0), a, b));
            }
        }
        pairs
    }
}
