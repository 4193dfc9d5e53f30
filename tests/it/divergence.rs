//! A replica whose state is not that of its leader stops at the next entry.

use omega_cellstate::Cell;
use omega_core::{Amounts, Command, Job, Kinds, Machine, TaskGroup};
use omega_store::log::{HardState, ReplicaId, Term};
use omega_store::membership::Membership;
use omega_store::node;
use omega_store::replica::{Ask, FIRST, Remedy, Replica, Settings, Start, Stop};

fn start(id: u64, cell: Cell) -> Replica {
    let node = node::Start {
        id: ReplicaId(id),
        base: FIRST,
        membership: Membership::founding([1, 2].map(ReplicaId)),
        hard_state: HardState { term: Term(1), vote: None, commit: FIRST.index },
        entries: Vec::new(),
        doubt: None,
    };
    Replica::new(Start { node, cell, fingerprint: 0 }, Settings::default())
}

fn settle(replicas: &mut [Replica; 2]) {
    loop {
        let mut messages = Vec::new();
        for replica in replicas.iter_mut() {
            let from = replica.node().id();
            let output = replica.proceed();
            output.writes.iter().for_each(|write| replica.persisted(write.number));
            messages.extend(output.messages.into_iter().map(|(to, message)| (from, to, message)));
        }
        if messages.is_empty() {
            return;
        }
        for (from, to, message) in messages {
            replicas[to.0 as usize - 1].receive(from, message);
        }
    }
}

#[test]
fn a_replica_with_another_state_than_its_leader_stops() {
    let job = |name: &str| {
        let group = TaskGroup::new(1, Amounts::new([1]));
        Ask::Command(Command::SubmitJob(Job::batch(name, group)))
    };
    for same in [true, false] {
        let mut cells = [(); 2].map(|()| Cell::new(Kinds::standard()));
        if !same {
            // It has what no entry has told of.
            let machine = Machine::new("m", Amounts::new([1000, 1 << 30]));
            cells[1].apply(Command::RegisterMachine(machine)).unwrap();
        }
        let [one, two] = cells;
        let mut replicas = [start(1, one), start(2, two)];
        while !replicas[0].node().leads_with_all() {
            replicas[0].tick();
            settle(&mut replicas);
        }
        for name in ["a", "b", "c"] {
            replicas[0].ask(job(name));
            settle(&mut replicas);
        }
        assert!(replicas[0].stopped().is_none(), "the leader goes on");
        match (same, replicas[1].stopped()) {
            (true, None) => {}
            (false, Some(stop @ Stop::Diverged { .. })) => {
                assert_eq!(stop.remedy(), Remedy::Operator);
            }
            (_, stopped) => panic!("same: {same}, {stopped:?}"),
        }
    }
}
