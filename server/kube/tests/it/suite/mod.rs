//! Behaviours of the program that need neither faults nor an audit log. Each runs on the double, and also on a real API
//! server if `OMEGA_KUBE_SERVER` is the name of a context in a kubeconfig, or `current` for the current one.

mod cluster;
mod placement;
mod preemption;
mod processes;
mod storage;

/// Declares the tests of behaviours.
macro_rules! behaviours {
    ($($module:ident: $($name:ident),*;)*) => {
        mod on_the_double {
            $($(#[test]
            fn $name() {
                super::cluster::on_the_double(super::$module::$name);
            })*)*
        }

        mod on_a_real_server {
            $($(#[test]
            fn $name() {
                super::cluster::on_a_real_server(super::$module::$name);
            })*)*
        }
    };
}

behaviours! {
    placement:
        pods_go_to_nodes_that_admit_them,
        a_pod_without_a_node_has_a_condition_that_says_why,
        a_gated_pod_waits_until_its_gates_are_removed,
        a_pod_that_is_created_again_is_bound_again,
        no_pod_goes_to_a_deleted_node,
        a_pod_that_another_scheduler_binds_uses_room,
        workers_with_more_pods_than_slots_overcommit_no_node,
        a_group_of_pods_waits_until_it_is_complete;
    preemption:
        a_pod_of_higher_priority_takes_the_room_of_its_victim,
        a_pod_with_a_disruption_budget_is_spared;
    processes:
        a_second_process_takes_over_the_lease,
        pods_are_not_bound_twice_after_a_restart,
        events_tell_the_outcome,
        explanations_are_those_of_the_cluster,
        a_dry_run_writes_nothing;
    storage:
        a_claim_names_the_node_for_which_its_volume_is_made,
        a_pod_goes_to_the_node_of_a_free_volume;
}
