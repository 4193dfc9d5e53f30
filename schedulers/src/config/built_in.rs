//! The table of the plugins that come with the library: one entry each, in the order of the docs.

use super::arguments::{ArgumentError, NoArguments, Resources};
use super::registry::Plugin;
use crate::plugin::Score;
use crate::plugins::{
    AvoidMarked, Balanced, LeastAllocated, MostAllocated, PackedCards, PreferredAffinity,
    SpreadWishes,
};
use omega_core::Kinds;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

pub(super) fn plugins() -> Vec<Plugin> {
    cells_own().into_iter().chain(scores()).collect()
}

/// The filters that the cell judges by, in the order in which they are asked.
fn cells_own() -> [Plugin; 5] {
    [
        Plugin::always("schedulable")
            .alias("NodeUnschedulable")
            .about("The machine takes tasks: it is not draining."),
        Plugin::always("machine_affinity")
            .alias("NodeAffinity")
            .alias("NodeName")
            .about("The machine matches the required affinity."),
        Plugin::always("taints")
            .alias("TaintToleration")
            .about("The task tolerates every taint that keeps tasks off."),
        Plugin::always("resources_fit")
            .alias("NodeResourcesFit")
            .about("The machine has what the task requests of every kind, and the cards."),
        Plugin::always("task_rules")
            .alias("InterPodAffinity")
            .alias("PodTopologySpread")
            .alias("NodePorts")
            .about("No rule about other tasks forbids the machine: affinity, spread, ports."),
    ]
}

fn scores() -> [Plugin; 7] {
    [
        score("least_allocated", |resources: &Resources, kinds| {
            Ok(LeastAllocated::new(&resources.find(kinds)?))
        })
        .alias("NodeResourcesFit")
        .alias("NodeResourcesLeastAllocated")
        .about("The more is left of the machine, the better: spreads load."),
        score("most_allocated", |resources: &Resources, kinds| {
            Ok(MostAllocated::new(&resources.find(kinds)?))
        })
        .alias("NodeResourcesMostAllocated")
        .about("The less is left of the machine, the better: packs."),
        score("balanced", |_: &NoArguments, _| Ok(Balanced))
            .alias("NodeResourcesBalancedAllocation")
            .about("Processor and memory are left in equal shares."),
        score("packed_cards", |_: &NoArguments, _| Ok(PackedCards))
            .about("Tasks with cards go where few are left, all others where there are none."),
        score("preferred_affinity", |_: &NoArguments, _| Ok(PreferredAffinity))
            .alias("NodeAffinity")
            .about("The machine matches what the task would rather have."),
        score("spread_wishes", |_: &NoArguments, _| Ok(SpreadWishes))
            .alias("PodTopologySpread")
            .about("Few tasks of the wished spread are in the machine's domains."),
        score("avoid_marked", |_: &NoArguments, _| Ok(AvoidMarked))
            .alias("TaintToleration")
            .about("The machine has no `PreferNoSchedule` taint that the task does not tolerate."),
    ]
}

/// A score whose arguments are described.
fn score<A, S>(name: &str, make: fn(&A, &Kinds) -> Result<S, ArgumentError>) -> Plugin
where
    A: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    S: Score + 'static,
{
    Plugin::score(name, make).describe::<A>()
}

#[cfg(test)]
mod tests {
    use crate::config::{Point, Presence, Profiles, Registry};
    use crate::profile::Profile;
    use omega_core::Kinds;

    #[test]
    fn the_cells_own_filters_are_those_of_every_profile() {
        let registry = Registry::built_in();
        let always = registry.at(Point::Filter).filter(|p| p.presence() == Presence::Always);
        let names: Vec<&str> = always.map(|plugin| plugin.name()).collect();
        let profile = Profile::first_fit();
        assert_eq!(names, profile.filters().map(|filter| filter.name()).collect::<Vec<_>>());
    }

    #[test]
    fn every_plugin_is_made_without_arguments_and_bears_its_name() {
        for plugin in Registry::built_in().at(Point::Score) {
            for name in plugin.names() {
                let file = format!(
                    "[[profile]]\nname = 'p'\nbase = 'empty'\n[[profile.score]]\nplugin = '{name}'"
                );
                let profiles = Profiles::parse(&file, &Registry::built_in()).unwrap();
                let profile = profiles.get("p").unwrap().bind(&Kinds::standard()).unwrap();
                let made: Vec<(&str, i32)> = profile.scores().collect();
                assert_eq!(made, [(plugin.name(), 1)], "{name}");
            }
        }
    }

    #[test]
    fn every_plugin_refuses_arguments_that_it_does_not_have() {
        for plugin in Registry::built_in().at(Point::Score) {
            let file = format!(
                "[[profile]]\nname = 'p'\nbase = 'empty'\n[[profile.score]]\nplugin = '{}'\n\
                 args.nonsense = 1",
                plugin.name()
            );
            let error = Profiles::parse(&file, &Registry::built_in()).unwrap_err().to_string();
            let expected = "6:6: profile[0].score[0].args.nonsense: unknown field `nonsense`";
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn every_plugin_of_a_ready_made_profile_is_registered() {
        let registry = Registry::built_in();
        for profile in [Profile::service(), Profile::batch()] {
            for (name, _) in profile.scores() {
                assert!(registry.find(Point::Score, name).is_some(), "{name}");
            }
        }
    }
}
