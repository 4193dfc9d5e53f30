//! Taints and tolerations. (Kubernetes' TaintToleration.)

use crate::framework::plugin::{CellChecks, Filter, Reads, SCORE_MAX, Tasks, lanes};
use crate::framework::relative::{Feasible, Ranking, RelativeScore, Stance};
use crate::plugins::kube::normalize::less_is_better;
use crate::plugins::taints::Taints;
use omega_cellstate::{BLOCK, Block};
use omega_core::TaintEffect;

/// Filter: the task tolerates the machine's `NoSchedule` and `NoExecute` taints. Score: prefers machines with few
/// `PreferNoSchedule` taints that the task does not tolerate.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaintToleration;

impl Filter for TaintToleration {
    fn name(&self) -> &'static str {
        "taint_toleration"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        Taints.applies(tasks)
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        Taints.filter(tasks, block, among)
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn covers(&self) -> CellChecks {
        CellChecks::TAINTS
    }
}

impl RelativeScore for TaintToleration {
    fn name(&self) -> &'static str {
        "taint_toleration"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, tasks: &Tasks<'_>) -> Stance {
        if tasks.view.any_marked() { Stance::Ranks } else { Stance::Same(SCORE_MAX) }
    }

    fn prepare<'a>(&'a self, tasks: Tasks<'a>, _: Feasible<'a>) -> Option<Box<dyn Ranking + 'a>> {
        Some(Box::new(Unwelcome(tasks)))
    }
}

/// Number of untolerated `PreferNoSchedule` taints.
struct Unwelcome<'a>(Tasks<'a>);

impl Ranking for Unwelcome<'_> {
    fn raw(&self, block: Block<'_>, among: u64, raw: &mut [i64; BLOCK]) {
        let Tasks { need, group, .. } = self.0;
        let tolerations = &group.rules.tolerations;
        let unmarked = need.unmarked.map_or(0, |set| block.set(set));
        *raw = [0; BLOCK];
        for lane in lanes(among & !unmarked) {
            let taints = block.machine(lane).map_or(&[][..], |machine| &machine.taints);
            let unwelcome = taints.iter().filter(|taint| {
                taint.effect == TaintEffect::PreferNoSchedule
                    && !tolerations.iter().any(|toleration| toleration.covers(taint))
            });
            raw[lane] = unwelcome.count() as i64;
        }
    }

    fn normalize(&self, raw: &[i64], scores: &mut [i32]) {
        less_is_better(raw, scores);
    }
}
