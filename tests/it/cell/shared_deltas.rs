//! Shared deltas: a sync with a cell that has many readers gives the changes that the cell itself gives.
//!
//! `OMEGA_SEED=7 cargo test -p omega-tests shared_deltas` runs a single history.

use crate::cell::histories::seeds;
use crate::cell::views::{PROBE, World, assert_equal_views};
use omega_cellstate::{Delta, Interest, Share, TenantDelta, View};
use omega_core::{JobId, Text};
use omega_tests::random::Dice;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Number of readers. Shared deltas are made for more than eight.
const READERS: usize = 12;

struct Reader {
    interest: Interest,
    /// The last delta that the reader received.
    delta: Delta,
    /// All tenants of its deltas.
    tenants: BTreeMap<Text, TenantDelta>,
}

impl Reader {
    fn new(number: usize) -> Reader {
        let share = Share { index: number as u32 % 2, of: 2 };
        let interest = match number % 4 {
            0 => Interest::Machines,
            1 => Interest::AllJobs,
            2 => Interest::JobsOf("second".into(), share),
            _ => Interest::JobsOf("default".into(), share),
        };
        Reader { interest, delta: Delta::default(), tenants: BTreeMap::new() }
    }

    /// Syncs with the shared cell, and compares the delta with one of the cell itself. Returns whether the sync used
    /// shared deltas.
    fn sync(&mut self, world: &World) -> bool {
        let (since, interest) = (self.delta.to, &self.interest);
        let mut own = Delta { lineage: self.delta.lineage, ..Delta::default() };
        world.cell.read(|cell| cell.delta_since(since, interest, &mut own));
        let pending = world.cell.begin_sync(since, interest, &mut self.delta);
        let shared = pending.is_incomplete();
        pending.finish(&mut self.delta);
        assert_eq!((self.delta.to, self.delta.full), (own.to, own.full), "seed {}", world.seed);
        if self.delta.full {
            self.tenants.clear();
        }
        let tenants = self.delta.tenants.iter();
        self.tenants.extend(tenants.map(|tenant| (tenant.terms.name.clone(), tenant.clone())));
        for tenant in &own.tenants {
            let known = self.tenants.get(&tenant.terms.name);
            assert_eq!(known, Some(tenant), "seed {}", world.seed);
        }
        assert_same_effect(&self.delta, &own, world.seed);
        shared
    }
}

/// Compares a delta with one of the cell itself. The caller compares tenants.
fn assert_same_effect(shared: &Delta, own: &Delta, seed: u64) {
    let (shared, own) = (last_values(shared), last_values(own));
    for key in shared.keys().chain(own.keys()) {
        assert_eq!(shared.get(key), own.get(key), "seed {seed}: {key}");
    }
}

/// The effect of a delta: of each list, the last value of each object, as text.
fn last_values(delta: &Delta) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    let mut add = |key: String, value: &dyn Debug| {
        values.insert(key, format!("{value:?}"));
    };
    add("head".into(), &(delta.from, delta.lineage, delta.full, &delta.kinds));
    add("now".into(), &(delta.now_ms, delta.rows, &delta.overcommit_max, &delta.bands));
    add("evictions".into(), &(delta.evictions_left, delta.quotas));
    add("policies".into(), &delta.policies);
    let kinds = delta.free.len().checked_div(delta.slots.len()).unwrap_or(0);
    for (at, row) in delta.slots.iter().enumerate() {
        let free = &delta.free[at * kinds..][..kinds];
        add(format!("row {row}"), &(delta.sequences[at], free));
    }
    delta.machines.iter().for_each(|machine| add(format!("machine {}", machine.slot), machine));
    delta.devices.iter().for_each(|(row, devices)| add(format!("devices {row}"), devices));
    delta.cores.iter().for_each(|(row, cores)| add(format!("cores {row}"), cores));
    delta.loads.iter().for_each(|(row, load)| add(format!("load {row}"), load));
    delta.demand_profiles.iter().for_each(|(row, sum)| add(format!("profiles {row}"), sum));
    let mut trackers = BTreeMap::new();
    for (id, key) in &delta.trackers {
        trackers.insert(*id, key.is_some());
        add(format!("tracker {id:?}"), key);
    }
    let removed = |id| trackers.get(id) == Some(&false);
    for (id, domain, count) in delta.counts.iter().filter(|(id, ..)| !removed(id)) {
        add(format!("count {id:?} {domain:?}"), count);
    }
    let mut ended: BTreeMap<JobId, bool> = BTreeMap::new();
    for job in &delta.jobs {
        ended.insert(job.id, job.job.is_none());
        add(format!("job {:?}", job.id), job);
    }
    for holding in delta.tasks_with_allocations() {
        if ended.get(&holding.task.id.job) != Some(&true) {
            add(format!("task {:?}", holding.task.id), &holding);
        }
    }
    values
}

/// Number of worlds, and of syncs that used shared deltas.
#[derive(Default)]
struct Used {
    worlds: usize,
    syncs: usize,
}

impl Used {
    fn count(&mut self, shared: bool) {
        self.syncs += usize::from(shared);
    }

    /// A single world may have too few changes for shared deltas.
    fn check(&self) {
        let Used { worlds, syncs } = *self;
        assert!(worlds == 1 || syncs > worlds, "{syncs} syncs in {worlds} worlds");
    }
}

/// Worlds of a test.
fn worlds(count: u64) -> impl Iterator<Item = World> {
    seeds(count).map(World::plain)
}

#[test]
fn many_readers_get_the_changes_of_the_cell() {
    let mut used = Used::default();
    for mut world in worlds(40) {
        let mut readers: Vec<Reader> = (0..READERS).map(Reader::new).collect();
        let mut dice = Dice::new(world.seed ^ 0x5EED);
        for _ in 0..80 {
            for reader in &mut readers {
                (0..dice.below(3)).for_each(|_| world.step());
                if dice.chance(90) {
                    used.count(reader.sync(&world));
                }
            }
        }
        used.worlds += 1;
    }
    used.check();
}

#[test]
fn views_of_many_readers_equal_new_ones() {
    let mut used = Used::default();
    for mut world in worlds(20) {
        let mut views: Vec<View> = (0..READERS).map(|_| View::new(PROBE, 0)).collect();
        // Views do not tell whether they used shared deltas, but this reader does.
        let mut reader = Reader::new(1);
        for _ in 0..80 {
            for view in &mut views {
                (0..world.dice.below(3)).for_each(|_| world.step());
                view.sync(&world.cell).unwrap();
            }
            let view = world.dice.below(READERS);
            let view = &mut views[view];
            view.sync(&world.cell).unwrap();
            assert_equal_views(&world, view);
            used.count(reader.sync(&world));
        }
        used.worlds += 1;
    }
    used.check();
}

/// Syncs that are finished only after the shared deltas that they copy were dropped from the cell.
#[test]
fn a_slow_reader_keeps_what_it_began_to_read() {
    let mut used = Used::default();
    for mut world in worlds(4) {
        let mut readers: Vec<Reader> = (0..READERS).map(|_| Reader::new(1)).collect();
        let mut slow = Vec::new();
        for round in 0..200 {
            for reader in &mut readers {
                world.step();
                reader.sync(&world);
            }
            if round % 5 == 0 {
                let (version, lineage) = (readers[5].delta.to, readers[5].delta.lineage);
                let mut delta = Delta { lineage, ..Delta::default() };
                let mut own = delta.clone();
                let interest = Interest::AllJobs;
                world.cell.read(|cell| cell.delta_since(version, &interest, &mut own));
                let pending = world.cell.begin_sync(version, &interest, &mut delta);
                slow.push((delta, own, pending));
            }
        }
        for (mut delta, own, pending) in slow {
            used.count(pending.is_incomplete());
            pending.finish(&mut delta);
            assert_same_effect(&delta, &own, world.seed);
        }
        used.worlds += 1;
    }
    used.check();
}
