//! Suite `fit`: NodeResourcesFit, as filter and as score.

use crate::oracle::difference::Found;
use crate::oracle::expect::Scoring;
use crate::oracle::plugins::plugin::Case;
use omega_schedulers::plugins::{FitArgs, NodeResourcesFit, ShapePoint, Strategy};
use omega_workload::kube::api::or_default;
use omega_workload::kube::kinds::kind_name;
use serde::Deserialize;

/// The plugin's arguments.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::oracle) struct Args {
    scoring_strategy: StrategyName,
    resources: Option<Vec<Resource>>,
    #[serde(deserialize_with = "or_default")]
    shape: Vec<Point>,
    #[serde(deserialize_with = "or_default")]
    ignored_resources: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    ignored_resource_groups: Vec<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
enum StrategyName {
    #[default]
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio,
}

/// A resource with its weight in a score.
#[derive(Deserialize)]
pub(in crate::oracle) struct Resource {
    pub(in crate::oracle) name: String,
    /// Weight of the resource; 1 if missing.
    #[serde(default)]
    pub(in crate::oracle) weight: u32,
}

/// A point of the shape.
#[derive(Clone, Copy, Deserialize)]
struct Point {
    utilization: u8,
    score: u8,
}

/// Compares the results of filter and score with the recorded ones.
pub(in crate::oracle) fn replay(case: &Case<Args>) -> Found {
    case.replay(|found, world, group| {
        let plugin = NodeResourcesFit::new(&case.args.fit(), &world.kinds());
        case.expect.compare_filter(found, world, (&plugin, group));
        case.expect.compare_scores(found, world, (Scoring::Local(&plugin), group));
        Ok(())
    })
}

impl Args {
    fn fit(&self) -> FitArgs {
        let points = self.shape.iter();
        let points = points.map(|p| ShapePoint { percent: p.utilization, score: p.score });
        let default = FitArgs::default();
        FitArgs {
            ignored: self.ignored_resources.clone(),
            ignored_groups: self.ignored_resource_groups.clone(),
            strategy: match self.scoring_strategy {
                StrategyName::LeastAllocated => Strategy::LeastAllocated,
                StrategyName::MostAllocated => Strategy::MostAllocated,
                StrategyName::RequestedToCapacityRatio => {
                    Strategy::RequestedToCapacityRatio(points.collect())
                }
            },
            resources: match &self.resources {
                None => default.resources,
                Some(resources) => {
                    let own = resources.iter();
                    own.map(|r| (kind_name(&r.name).to_owned(), r.weight.max(1))).collect()
                }
            },
        }
    }
}
