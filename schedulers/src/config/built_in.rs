//! The built-in plugins, one entry each, in the order of the docs.

use super::arguments::{NoArguments, Resources};
use super::described::score;
use super::registry::{Plugin, Point, Registry};
use crate::framework::profile::Profile;
use crate::plugins::{
    AvoidMarked, Balanced, FairShare, LeastAllocated, MostAllocated, PackedDevices,
    PreferredAffinity, Reclaim, SpreadWishes, Throttle,
};

impl Registry {
    /// The plugins of this library, with their own names and those of kube-scheduler.
    #[must_use]
    pub fn built_in() -> Registry {
        Registry::of(plugins())
    }
}

fn plugins() -> Vec<Plugin> {
    let own = cells_own().into_iter().chain(scores());
    let kube = super::kube::filters().into_iter().chain(super::kube::volumes());
    let kube = kube.chain(super::kube::scores()).chain(super::preemption::post_filters());
    let old = super::kube_old::filters().into_iter().chain(super::kube_old::scores());
    own.chain(tenants())
        .chain([throttle()])
        .chain(super::load::plugins())
        .chain(objectives())
        .chain([super::delay::plugin(), super::backfill::plugin(), super::devices::plugin()])
        .chain(super::time::plugins())
        .chain(kube)
        .chain(old)
        .collect()
}

/// The filters that the cell itself applies at commit, in the order of their calls.
fn cells_own() -> [Plugin; 12] {
    [
        Plugin::always("cluster_resources").about(
            "Enough of each cluster resource that the task claims, such as licences, is left.",
        ),
        Plugin::always("quota").about(
            "The claim stays within the limits of the task's tenant and of the tenants above it.",
        ),
        Plugin::always("schedulable")
            .about("The machine is not draining, and has fewer tasks than a machine may have."),
        Plugin::always("node_name")
            .alias("NodeName")
            .about("The task names this machine, or none."),
        Plugin::always("machine_affinity").about("The machine matches the required affinity."),
        Plugin::always("taints")
            .about("The task tolerates the machine's `NoSchedule` and `NoExecute` taints."),
        Plugin::always("reservations")
            .about("No reservation for other tenants begins before the task is expected to end."),
        Plugin::always("peak_hours")
            .about("With the task, batch stays within its share of the machine at this hour."),
        Plugin::always("tasks_per_machine")
            .about("The machine has fewer tasks of the tenant than its maximum."),
        Plugin::always("resources_fit")
            .about("The machine has enough of every requested kind, devices and exclusive cores."),
        Plugin::always("task_rules")
            .about("No affinity, anti-affinity, spread or port rule rejects the machine."),
        Plugin::always("task_limits")
            .about("The task's maximum in the machine's domains is not reached."),
    ]
}

fn scores() -> [Plugin; 7] {
    [
        score("least_allocated", |resources: &Resources, kinds| {
            Ok(LeastAllocated::new(&resources.find(kinds)?))
        })
        .alias("NodeResourcesLeastAllocated")
        .about("Prefers machines with more free resources, to spread load."),
        score("most_allocated", |resources: &Resources, kinds| {
            Ok(MostAllocated::new(&resources.find(kinds)?))
        })
        .alias("NodeResourcesMostAllocated")
        .about("Prefers machines with fewer free resources, to pack tasks."),
        score("balanced", |_: &NoArguments, _| Ok(Balanced))
            .about("Prefers machines where equal shares of processor and memory stay free."),
        score("packed_devices", |_: &NoArguments, _| Ok(PackedDevices))
            .about("Tasks with devices prefer machines with few free devices. Other tasks prefer machines without devices."),
        score("preferred_affinity", |_: &NoArguments, _| Ok(PreferredAffinity))
            .about("Prefers machines that match the task's preferred affinity."),
        score("spread_wishes", |_: &NoArguments, _| Ok(SpreadWishes))
            .about("Prefers domains with few tasks of the kind that the new task's soft spreads select."),
        score("avoid_marked", |_: &NoArguments, _| Ok(AvoidMarked))
            .about("Avoids machines with `PreferNoSchedule` taints that the task does not tolerate."),
    ]
}

/// The score by the objectives of rebalancing.
#[cfg(feature = "rebalance")]
fn objectives() -> Option<Plugin> {
    Some(super::objectives::plugin())
}

#[cfg(not(feature = "rebalance"))]
fn objectives() -> Option<Plugin> {
    None
}

/// Plugin that makes room without evicting.
fn throttle() -> Plugin {
    Plugin::post_filter("throttle", |_: &NoArguments, _| Ok(Throttle::default()))
        .describe::<NoArguments>()
        .about("Shrinks tasks of lower precedence to their requests.")
}

/// Plugins for tenants that share a cell.
fn tenants() -> [Plugin; 2] {
    [
        Plugin::around(
            Point::Order,
            "fair_share",
            |_: &NoArguments, _| Ok(FairShare),
            Profile::with_order,
        )
        .describe::<NoArguments>()
        .about("The tenant with the smallest dominant share for its weight is first."),
        Plugin::post_filter("reclaim", |_: &NoArguments, _| Ok(Reclaim::default()))
            .describe::<NoArguments>()
            .about(
                "Evicts tasks of tenants beyond their guarantee, for a task within its tenant's guarantee.",
            ),
    ]
}

#[cfg(test)]
mod tests {
    use crate::config::{Plugin, Point, Presence, Profiles, Registry};
    use crate::framework::profile::Profile;
    use omega_core::Kinds;

    #[test]
    fn the_cells_own_filters_are_always_there() {
        let registry = Registry::built_in();
        for filter in Profile::first_fit().evaluator().filters() {
            let plugin = registry.find(Point::Filter, filter.name()).expect("it is registered");
            assert_eq!(plugin.presence(), Presence::Always, "{}", filter.name());
        }
    }

    /// Returns a profile file with one optional plugin, under the given name.
    fn file(plugin: &Plugin, name: &str) -> String {
        let point = plugin.point();
        format!("[[profile]]\nname = 'p'\nbase = 'empty'\n[[profile.{point}]]\nplugin = '{name}'\n")
    }

    fn optional(registry: &Registry) -> impl Iterator<Item = &Plugin> {
        registry.plugins().filter(|plugin| plugin.presence() == Presence::Optional)
    }

    #[test]
    fn every_plugin_is_made_without_arguments_and_bears_its_name() {
        let registry = Registry::built_in();
        for plugin in optional(&registry) {
            for name in plugin.names() {
                let profiles = Profiles::parse(&file(plugin, name), &registry).unwrap();
                let profile = profiles.get("p").unwrap().bind(&Kinds::standard()).unwrap();
                let made = match plugin.point() {
                    Point::Filter => {
                        profile.evaluator.filters().any(|made| made.name() == plugin.name())
                    }
                    Point::Score => {
                        profile.evaluator.weights().any(|made| made == (plugin.name(), 1))
                    }
                    Point::PostFilter => profile.post_filters().any(|made| made == plugin.name()),
                    Point::Order => format!("{profile:?}").contains(plugin.name()),
                    other => panic!("none of ours is asked at {other}"),
                };
                assert!(made, "{name}: {profile:?}");
            }
        }
    }

    #[test]
    fn every_plugin_refuses_arguments_that_it_does_not_have() {
        let registry = Registry::built_in();
        for plugin in optional(&registry) {
            let file = file(plugin, plugin.name()) + "args.nonsense = 1";
            let error = Profiles::parse(&file, &registry).unwrap_err().to_string();
            let point = plugin.point();
            let expected = format!("6:6: profile[0].{point}[0].args.nonsense: unknown field");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn every_plugin_of_a_built_in_profile_is_registered() {
        let registry = Registry::built_in();
        let kube = Profile::kube(&Kinds::standard());
        for profile in [Profile::service(), Profile::batch(), kube] {
            let scores = profile.evaluator.weights().map(|(name, _)| (Point::Score, name));
            let filters = profile.evaluator.filters().map(|filter| (Point::Filter, filter.name()));
            let post_filters = profile.post_filters().map(|name| (Point::PostFilter, name));
            for (point, name) in scores.chain(filters).chain(post_filters) {
                assert!(registry.find(point, name).is_some(), "{point} {name}");
            }
        }
    }
}
