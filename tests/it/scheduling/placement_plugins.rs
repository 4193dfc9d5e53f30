//! User-defined plugins: plugins for one machine and columnar plugins decide alike, and no plugin is called without
//! need.

use crate::scheduling::placement::{check_counts, claimed, how, rng};
use crate::scheduling::placement_world::World;
use omega_cellstate::{BLOCK, Block, Cell, SharedCell};
use omega_core::{Amounts, Command, Job, JobId, KindId, Kinds, Machine, TaskGroup, TaskReport};
use omega_schedulers::{
    Filter, GroupPlacement, MachineFilter, MachineRef, MachineScore, PerMachine, Placer, Profile,
    Reads, SCORE_MAX, Scheduler, Score, Search, Settings, Tasks, Unobserved, explain,
};
use proptest::prelude::*;

/// A filter that does not apply, and must not be called.
pub(crate) struct Silent;

impl Filter for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn applies(&self, _: &Tasks<'_>) -> bool {
        false
    }

    fn filter(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }
}

/// Filter that accepts odd machines with two cores left.
struct Odd;

impl MachineFilter for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    fn allows(&self, _: &Tasks<'_>, machine: MachineRef<'_>) -> bool {
        machine.id().slot % 2 == 1 && machine.free(KindId::CPU) >= 2000
    }
}

impl Filter for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS | Reads::DESCRIPTION
    }

    fn filter(&self, _: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let cpu = block.free(KindId::CPU).iter().enumerate();
        let enough =
            cpu.filter(|(_, free)| **free >= 2000).fold(0, |word, (lane, _)| word | 1 << lane);
        among & enough & 0xAAAA_AAAA_AAAA_AAAA
    }
}

/// Score that prefers free memory. Some of its values exceed the bounds.
struct Roomy;

fn roomy(memory: i64) -> i32 {
    (memory >> 30) as i32 * 300 - 500
}

impl MachineScore for Roomy {
    fn name(&self) -> &'static str {
        "roomy"
    }

    fn score(&self, _: &Tasks<'_>, machine: MachineRef<'_>) -> i32 {
        roomy(machine.free(KindId::MEMORY))
    }
}

impl Score for Roomy {
    fn name(&self) -> &'static str {
        "roomy"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS
    }

    fn score(&self, _: &Tasks<'_>, block: Block<'_>, _: u64, scores: &mut [i32; BLOCK]) {
        for (score, free) in scores.iter_mut().zip(block.free(KindId::MEMORY)) {
            *score = roomy(*free).clamp(0, SCORE_MAX);
        }
    }
}

/// (e) Checks that a plugin for one machine decides like the columnar plugin.
fn check_forms(seed: u64, machines: usize, count: u32) {
    let mut world = World::new(seed, machines).with_reservations(seed);
    (0..10).for_each(|_| world.churn());
    let mut group = world.random_group();
    group.count = count;
    let group = world.submit(group);
    let tasks = world.tasks(count);
    let columnar = Profile::batch().with_filter(Odd).with_score(Roomy, 2);
    let simple = Profile::batch().with_filter(PerMachine(Odd)).with_score(PerMachine(Roomy), 2);
    let mut place = |profile: &Profile| {
        let wanted = GroupPlacement { profile, placement: how(Search::Full), group };
        Placer::default().place(&mut world.view, wanted, &tasks, &mut rng(seed));
        claimed(&mut world.view)
    };
    let rows = place(&columnar);
    assert_eq!(rows, place(&simple));
    assert!(rows.iter().all(|row| row % 2 == 1));
    let explanation = explain(&world.view, &columnar, group);
    assert_eq!(explanation, explain(&world.view, &simple, group));
    check_counts(&explanation);
    assert_eq!(explanation.feasible == 0, rows.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn a_plugin_about_one_machine_decides_as_a_columnar_one(
        seed in any::<u64>(), machines in 1usize..200, count in 1u32..40,
    ) {
        check_forms(seed, machines, count);
    }
}

/// A filter that allows two tasks of a job on each machine.
struct TwoOfEachJob;

impl MachineFilter for TwoOfEachJob {
    fn name(&self) -> &'static str {
        "two_of_each_job"
    }

    fn allows(&self, tasks: &Tasks<'_>, machine: MachineRef<'_>) -> bool {
        let placed = machine.tasks().iter().filter(|task| task.id.job == tasks.id).count();
        placed + machine.claims().filter(|claim| claim.id.job == tasks.id).count() < 2
    }
}

/// Tasks are counted whether they were placed before, in this step, or in an earlier transaction of this step.
#[test]
fn a_filter_may_count_the_tasks_on_a_machine() {
    for claims_max in [1, 2, 3, 100] {
        let cell = SharedCell::new(Cell::new(Kinds::standard()));
        for name in ["a", "b", "c"] {
            let machine = Machine::new(name, Amounts::new([64_000, 64 << 30]));
            cell.apply(Command::RegisterMachine(machine)).unwrap();
        }
        for name in ["one", "two"] {
            let job = Job::batch(name, TaskGroup::new(10, Amounts::new([100])));
            cell.apply(Command::SubmitJob(job)).unwrap();
        }
        let profile = Profile::batch().with_placements().with_filter(PerMachine(TwoOfEachJob));
        let settings = Settings { claims_max, commits_in_flight: 2, ..Settings::new("default") };
        let mut scheduler = Scheduler::new(&cell, profile, settings).unwrap();
        let mut steps = 0;
        let mut place = || {
            let ten = 0..10;
            let placed = ten.map(|_| {
                steps += 1;
                scheduler.step(&cell, steps * 10_000_000_000, &mut Unobserved).unwrap().placed
            });
            placed.sum::<usize>()
        };
        assert_eq!(place(), 2 * 3 * 2);
        let on = cell.read(|cell| {
            let tasks = cell.machines().map(|machine| (machine.id, machine.tasks.to_vec()));
            tasks.collect::<Vec<_>>()
        });
        let of = |job: u64, tasks: &[omega_core::TaskId]| {
            tasks.iter().filter(|task| task.job == JobId(job)).count()
        };
        assert!(on.iter().all(|(_, tasks)| of(0, tasks) == 2 && of(1, tasks) == 2));
        let (machine, task) = (on[0].0, on[0].1[0]);
        let report = TaskReport::Finished;
        cell.apply(Command::ReportTask { task, machine, placed_ms: 0, report }).unwrap();
        assert_eq!(place(), 1, "on the machine of the task that ended");
    }
}
