//! Suite `taint_toleration`: TaintToleration, NodeUnschedulable and NodeName, which are replayed one after the other.

use crate::oracle::case::Node;
use crate::oracle::difference::Found;
use crate::oracle::expect::{Expect, Scoring};
use crate::oracle::plugins::plugin::{Case, NoArgs};
use omega_schedulers::plugins::{NodeName, NodeUnschedulable, TaintToleration};
use serde::Deserialize;

/// Recorded results of each of the plugins.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::oracle) struct Expects {
    node_unschedulable: Expect,
    taint_toleration: Expect,
    node_name: Expect,
}

/// Compares the results of the filters and the score with the recorded ones.
pub(in crate::oracle) fn replay(case: &Case<NoArgs, Expects>) -> Found {
    let mut found = case.replay(|found, world, group| {
        let Expects { node_unschedulable, node_name, .. } = &case.expect;
        node_name.compare_filter(found, world, (&NodeName, group));
        node_unschedulable.compare_filter(found, world, (&NodeUnschedulable::default(), group));
        node_name.compare_no_scores(found);
        node_unschedulable.compare_no_scores(found);
        Ok(())
    });
    // In the cell a cordon is a taint, because the controller of a real cluster adds one. Recordings have no
    // controller, so TaintToleration must not get the cordons.
    let open = |node: &Node| Node { unschedulable: false, ..node.clone() };
    let nodes: Vec<Node> = case.nodes.iter().map(open).collect();
    found.append(case.replay_on(&nodes, |found, world, group| {
        let expect = &case.expect.taint_toleration;
        expect.compare_filter(found, world, (&TaintToleration, group));
        expect.compare_scores(found, world, (Scoring::Relative(&TaintToleration), group));
        Ok(())
    }));
    found
}
