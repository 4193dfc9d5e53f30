//! Suite `balanced_allocation`: NodeResourcesBalancedAllocation, the balance of used resources.

use crate::oracle::difference::Found;
use crate::oracle::expect::Scoring;
use crate::oracle::plugins::fit::Resource;
use crate::oracle::plugins::plugin::Case;
use omega_schedulers::plugins::BalancedAllocation;
use omega_workload::kube::kinds::kind_name;
use serde::Deserialize;

/// The plugin's arguments.
#[derive(Deserialize)]
#[serde(default)]
pub(in crate::oracle) struct Args {
    /// Resources to balance. Their weights are ignored.
    resources: Vec<Resource>,
}

impl Default for Args {
    fn default() -> Args {
        let resource = |name: &str| Resource { name: name.to_owned(), weight: 1 };
        Args { resources: vec![resource("cpu"), resource("memory")] }
    }
}

/// Compares the results of the score with the recorded ones.
pub(in crate::oracle) fn replay(case: &Case<Args>) -> Found {
    let resources = case.args.resources.iter();
    let names: Vec<&str> = resources.map(|resource| kind_name(&resource.name)).collect();
    case.replay(|found, world, group| {
        let plugin = BalancedAllocation::new(&names, &world.kinds());
        case.expect.compare_no_filter(found, world);
        case.expect.compare_scores(found, world, (Scoring::Local(&plugin), group));
        Ok(())
    })
}
