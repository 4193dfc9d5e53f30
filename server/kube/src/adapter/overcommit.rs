//! Nodes that other schedulers overcommit. The API server accepts a binding even to a full node.

use super::{Adapter, Effect, PodName, Remark, State};
use omega_cellstate::{Cell, MachineState};
use omega_core::{JobId, KindId, MachineId};

impl Adapter {
    /// Counts and reports another scheduler's binding, if the node's pods now request more than the node has.
    pub(super) fn note_overcommit(&mut self, name: &PodName) {
        let Some(State::Bound(node)) = self.state(name) else { return };
        let Some(id) = self.nodes.get(node).copied() else { return };
        let node = node.clone();
        let rooms = self.kept_on(id);
        let over =
            self.cell.read(|cell| cell.machine(id).map(|machine| excess(cell, &machine, &rooms)));
        let Some(resources) = over.filter(|over| !over.is_empty()) else { return };
        self.counters.overcommits += 1;
        tracing::warn!(pod = %name, %node, %resources, "another scheduler has overcommitted the node");
        let remark = Remark::Overcommitted { node, resources };
        self.effects.push(Effect::Tell(name.clone(), remark));
    }

    /// Returns the nodes whose pods request more than the node has, whichever scheduler bound the pods.
    #[must_use]
    pub fn overcommitted_nodes(&self) -> Vec<&String> {
        let suspects: Vec<MachineId> = self.cell.read(|cell| {
            let over = cell.machines().filter(|machine| !excess(cell, machine, &[]).is_empty());
            over.map(|machine| machine.id).collect()
        });
        let over = suspects.iter().filter(|id| {
            let rooms = self.kept_on(**id);
            let excess =
                |cell: &Cell| cell.machine(**id).map(|machine| excess(cell, &machine, &rooms));
            self.cell.read(excess).is_some_and(|excess| !excess.is_empty())
        });
        over.filter_map(|id| self.names.get(id)).collect()
    }
}

/// Returns the overcommitted resources of a machine, such as `cpu 4500 of 4000`; empty if there are none. `rooms` are
/// jobs on the machine that are not pods, and are left out.
fn excess(cell: &Cell, machine: &MachineState<'_>, rooms: &[JobId]) -> String {
    if machine.free.iter().all(|free| *free >= 0) {
        return String::new();
    }
    let kept = |kind: u8| -> i64 {
        let requests =
            rooms.iter().filter_map(|room| Some(&cell.job(*room)?.groups.first()?.request));
        requests.map(|request| i64::try_from(request.get(KindId(kind))).unwrap_or(i64::MAX)).sum()
    };
    let free = (0..).zip(machine.free).map(|(kind, free)| (kind, free + kept(kind)));
    let short = free.zip(&machine.claimable).filter(|((_, free), _)| *free < 0);
    let texts = short.map(|((kind, free), has)| {
        let name = cell.kinds().get(KindId(kind)).map_or("a resource", |kind| kind.name.as_str());
        format!("{name} {} of {has}", has - free)
    });
    texts.collect::<Vec<_>>().join(", ")
}
