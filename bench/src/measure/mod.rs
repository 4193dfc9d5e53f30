//! The table of figures: costs of the released code, compared with bare loops measured in the same run.
//!
//! Question: how far is each figure from its target, and from what the hardware allows? Each row has Omega's figure:
//! processor time, as the median of several runs, and wall time. It also has the figure of a bare loop over arrays with
//! the minimum of necessary work, the best figure of prototypes, and the target. The bare loop is measured in the same
//! process, between runs of Omega, so that a slow or shared computer slows both. The ratio of the two figures can be
//! compared between computers.
//!
//! Each group of rows has a file; `cells` makes the measured cells, and `bare` has the bare loops.

mod api;
mod bare;
mod cells;
mod clock;
mod commit;
mod decide;
mod forms;
mod fronts;
mod kube;
mod levers;
mod log;
pub(crate) mod memory;
pub(crate) mod model;
mod options;
mod policies;
mod replicate;
mod restart;
mod runs;
mod scaling;
mod scan;
mod show;
mod sim;
mod sizes;
mod snapshot;
mod sync;
mod whole;
mod workers;

pub(crate) use options::Options;

use options::SEED;
use show::Row;

/// A group of rows that are measured together.
struct Group {
    name: &'static str,
    /// Description of the measured workload, for the heading.
    workload: &'static str,
    measure: fn(&Options) -> Vec<Row>,
}

const GROUPS: [Group; 31] = [
    Group { name: "scan", workload: scan::WORKLOAD, measure: scan::rows },
    Group { name: "sync", workload: sync::WORKLOAD, measure: sync::rows },
    Group { name: "commit", workload: commit::WORKLOAD, measure: commit::rows },
    Group { name: "whole", workload: whole::WORKLOAD, measure: whole::rows },
    Group { name: "decide", workload: decide::WORKLOAD, measure: decide::rows },
    Group {
        name: "preempt",
        workload: policies::preempt::WORKLOAD,
        measure: policies::preempt::rows,
    },
    Group {
        name: "rebalance",
        workload: policies::rebalance::WORKLOAD,
        measure: policies::rebalance::rows,
    },
    Group { name: "kube", workload: kube::WORKLOAD, measure: kube::rows },
    Group { name: "levers", workload: levers::WORKLOAD, measure: levers::rows },
    Group {
        name: "reservations",
        workload: policies::reservations::WORKLOAD,
        measure: policies::reservations::rows,
    },
    Group {
        name: "cluster_resources",
        workload: policies::cluster_resources::WORKLOAD,
        measure: policies::cluster_resources::rows,
    },
    Group { name: "peaks", workload: policies::peaks::WORKLOAD, measure: policies::peaks::rows },
    Group {
        name: "backfill",
        workload: policies::backfill::WORKLOAD,
        measure: policies::backfill::rows,
    },
    Group {
        name: "tenants",
        workload: policies::tenants::WORKLOAD,
        measure: policies::tenants::rows,
    },
    Group {
        name: "runtime_affinity",
        workload: policies::runtime_affinity::WORKLOAD,
        measure: policies::runtime_affinity::rows,
    },
    Group { name: "waits", workload: policies::waits::WORKLOAD, measure: policies::waits::rows },
    Group { name: "gangs", workload: policies::gangs::WORKLOAD, measure: policies::gangs::rows },
    Group {
        name: "demand_profiles",
        workload: policies::demand_profiles::WORKLOAD,
        measure: policies::demand_profiles::rows,
    },
    Group { name: "cores", workload: policies::cores::WORKLOAD, measure: policies::cores::rows },
    Group { name: "fronts", workload: fronts::WORKLOAD, measure: fronts::rows },
    Group { name: "workers", workload: workers::WORKLOAD, measure: workers::rows },
    Group { name: "scaling", workload: scaling::WORKLOAD, measure: scaling::rows },
    Group { name: "runs", workload: runs::WORKLOAD, measure: runs::rows },
    Group { name: "sizes", workload: sizes::WORKLOAD, measure: sizes::rows },
    Group { name: "memory", workload: memory::WORKLOAD, measure: memory::rows },
    Group { name: "snapshot", workload: snapshot::WORKLOAD, measure: snapshot::rows },
    Group { name: "log", workload: log::WORKLOAD, measure: log::rows },
    Group { name: "replicate", workload: replicate::WORKLOAD, measure: replicate::rows },
    Group { name: "api", workload: api::WORKLOAD, measure: api::rows },
    Group { name: "sim", workload: sim::WORKLOAD, measure: sim::rows },
    Group { name: "matrix", workload: whole::WORKLOAD, measure: whole::matrix },
];

/// Measures the table and prints it. Ends early if the reader has closed the output.
pub(crate) fn table(options: &Options) {
    let wanted =
        |group: &&Group| options.only.as_deref().is_none_or(|pattern| group.name.contains(pattern));
    let print = |group: &Group| {
        let rows = (group.measure)(options);
        show::group(options, group.name, group.workload, &rows)
    };
    if show::head(options, SEED) {
        // The first group that is not written is the last one to be measured.
        GROUPS.iter().filter(wanted).all(print);
    }
}
