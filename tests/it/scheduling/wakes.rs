//! Waking only the jobs that an event may help: no job that could be placed may stay unscheduled.
//!
//! A scheduler follows a random history. After each of its steps, a new scheduler, for which every job is new, tries
//! all jobs on a copy of the cell. The new scheduler must place none.

use crate::cell::histories::seeds;
use crate::cell::small;
use crate::scheduling::placement_world::{random_group, random_machine, ruled_group};
use omega_cellstate::{Cell, SharedCell};
use omega_core::{
    Amounts, Command, Job, JobId, KindId, Machine, Outcome, Precedence, Preemption, TaskId,
    TaskReport, TaskState,
};
use omega_schedulers::{
    Backoff, Events, MachineFilter, MachineRef, Nanos, Observer, PerMachine, Profile, Scheduler,
    Search, Settings, Tasks,
};
use omega_tests::random::Dice;

/// Filter that rejects machines with little usage, so that only more usage makes a machine feasible.
struct Used;

impl MachineFilter for Used {
    fn name(&self) -> &'static str {
        "used"
    }

    fn allows(&self, tasks: &Tasks<'_>, machine: MachineRef<'_>) -> bool {
        let capacity = machine.machine().capacity.get(KindId::CPU) as i64;
        tasks.job.precedence != Precedence(2) || machine.free(KindId::CPU) < capacity
    }
}

/// Filter that rejects machines which report load.
struct Calm;

impl MachineFilter for Calm {
    fn name(&self) -> &'static str {
        "calm"
    }

    fn allows(&self, tasks: &Tasks<'_>, machine: MachineRef<'_>) -> bool {
        let calm = machine.load(KindId::CPU).is_none_or(|load| load < 1000);
        tasks.job.precedence != Precedence(1) || calm
    }

    fn wakes_on(&self) -> Events {
        Events::LOAD_REPORTED | Events::MACHINE_ADDED
    }
}

/// A random history of a cell.
pub(crate) struct History {
    cell: SharedCell,
    dice: Dice,
    jobs: u64,
    machines: usize,
}

impl History {
    pub(crate) fn new(cell: &SharedCell, seed: u64) -> History {
        let cell = cell.clone();
        let mut history = History { cell, dice: Dice::new(seed), jobs: 0, machines: 0 };
        for _ in 0..6 {
            let machine = history.machine();
            history.apply(Command::RegisterMachine(machine));
        }
        history
    }

    fn apply(&mut self, command: Command) {
        let outcome = self.cell.apply(command);
        self.jobs += u64::from(matches!(outcome, Ok(Outcome::Job(_))));
    }

    fn machine(&mut self) -> Machine {
        self.machines += 1;
        random_machine(&mut self.dice, self.machines)
    }

    fn job(&mut self) -> Job {
        let group = if self.dice.chance(50) {
            ruled_group(&mut self.dice)
        } else {
            random_group(&mut self.dice)
        };
        let mut job = Job::batch(format!("j{}", self.jobs), group);
        job.groups[0].count = 1 + self.dice.below(4) as u32;
        if self.dice.chance(25) {
            let mut other = ruled_group(&mut self.dice);
            other.name = "other".into();
            other.count = 1 + self.dice.below(2) as u32;
            job.groups.push(other.into());
        }
        if self.dice.chance(20) {
            job.gang_min = Some(1 + self.dice.below(job.task_count() as usize) as u32);
        }
        job.precedence = Precedence(self.dice.below(3) as i32);
        if self.dice.chance(10) {
            job.preemption = Preemption::Never;
        }
        job.scheduler = (*self.dice.pick(&["default", "default", "other"])).into();
        job
    }

    pub(crate) fn step(&mut self) {
        let ids: Vec<_> =
            self.cell.read(|cell| cell.machines().map(|machine| machine.id).collect());
        let some = (!ids.is_empty()).then(|| *self.dice.pick(&ids));
        let job = JobId(self.dice.below(self.jobs.max(1) as usize) as u64);
        let command = match (self.dice.below(20), some) {
            (0, _) | (_, None) => Command::RegisterMachine(self.machine()),
            (1, Some(id)) if ids.len() > 2 => Command::RemoveMachine { id },
            (2 | 3, Some(id)) => {
                let old = self.cell.read(|cell| cell.machine(id).unwrap().machine.clone());
                let machine = Machine { name: old.name.clone(), ..self.machine() };
                Command::UpdateMachine { id, machine: Machine { devices: old.devices, ..machine } }
            }
            (4 | 5, Some(id)) => Command::DrainMachine { id, draining: self.dice.chance(50) },
            (6 | 7, Some(id)) => {
                let load = Amounts::new([*self.dice.pick(&[10, 2000])]);
                Command::ReportLoad { id, load }
            }
            (8, _) => Command::KillJob { job },
            (9, _) => {
                let group = (*self.dice.pick(&["main", "other"])).into();
                Command::ResizeGroup { job, group, count: self.dice.below(5) as u32 }
            }
            (10..14, _) => Command::SubmitJob(self.job()),
            _ => {
                let tasks: Vec<_> = self.cell.read(|cell| cell.tasks(job).collect());
                let placed = |(task, state): (_, TaskState)| Some((task, state.machine()?));
                let placed: Vec<_> = tasks.into_iter().filter_map(placed).collect();
                if placed.is_empty() {
                    return;
                }
                let (task, machine) = *self.dice.pick(&placed);
                let report = *self.dice.pick(&[TaskReport::Finished, TaskReport::Lost]);
                Command::ReportTask { task, machine, placed_ms: 0, report }
            }
        };
        self.apply(command);
    }
}

/// Observer that counts decisions.
#[derive(Default)]
struct Tries(usize);

impl Observer for Tries {
    fn deciding(&mut self) {
        self.0 += 1;
    }
}

/// Steps until there is no work. Returns the number of placed tasks.
fn run(scheduler: &mut Scheduler, cell: &SharedCell, now: Nanos, tries: &mut Tries) -> usize {
    let mut placed = 0;
    loop {
        let step = scheduler.step(cell, now, tries).unwrap();
        placed += step.placed;
        if step.idle {
            return placed;
        }
    }
}

fn scheduler(cell: &SharedCell, seed: u64, name: &str) -> Scheduler {
    let base = [Profile::first_fit, Profile::batch, Profile::service][(seed % 3) as usize];
    // If a filter reads the job, failures are not shared within a class.
    let profile = match seed % 2 {
        0 => base().with_filter(PerMachine(Used)).with_filter(PerMachine(Calm)),
        _ => base(),
    };
    let settings = Settings {
        takes: "default".into(),
        // The backoff is shorter than a step.
        backoff: Backoff { backoff_min: 1, backoff_max: 1, ..Backoff::default() },
        ..Settings::new(name)
    };
    Scheduler::new(cell, profile, settings.with_search(Search::Full)).unwrap()
}

#[test]
fn nobody_sleeps_who_would_be_placed_if_everybody_were_woken() {
    let (mut ours, mut naive, mut all) = (Tries::default(), Tries::default(), 0);
    for seed in seeds(300) {
        let cell = small::cell_that_remembers(if seed % 5 == 0 { 3 } else { 1000 }, &[]);
        let mut history = History::new(&cell, seed);
        let mut scheduler = self::scheduler(&cell, seed, "ours");
        // This scheduler gets nothing about the other scheduler's tasks except their claims and rules.
        let mut other = small::scheduler(&cell, "other");
        let mut now = 0;
        for round in 1..40 {
            (0..=history.dice.below(3)).for_each(|_| history.step());
            small::run(&mut other, &cell, round * small::LONG);
            // A step may process events that wake jobs which failed just before the event.
            for quiet in 0.. {
                now += 10;
                let placed = run(&mut scheduler, &cell, now, &mut ours);
                all += placed;
                if quiet > 0 && placed == 0 {
                    break;
                }
            }
            let copy = SharedCell::new(cell.read(Cell::clone));
            let mut fresh = self::scheduler(&copy, seed, "fresh");
            let placed = run(&mut fresh, &copy, now, &mut naive);
            assert_eq!(placed, 0, "seed {seed} round {round}: somebody sleeps who would fit");
        }
    }
    println!("{all} placed; decisions: {}, and {} if everybody is woken", ours.0, naive.0);
    assert!(all > 1000 && ours.0 < naive.0, "it saves decisions");
}

#[test]
fn freed_room_does_not_wake_jobs_that_empty_machines_could_not_hold() {
    let cell = small::cell(&[2, 2]);
    let large = small::submit(&cell, small::job("large", 1, 3));
    let gang = Job { gang_min: Some(5), ..small::job("wide", 5, 1) };
    let wide = small::submit(&cell, gang);
    let fits = small::submit(&cell, small::job("fits", 2, 2));
    let mut scheduler = scheduler(&cell, 3, "ours");
    let (mut tries, mut now) = (Tries::default(), 0);
    let mut settle = |tries: &mut Tries| {
        for _ in 0..3 {
            now += 10;
            run(&mut scheduler, &cell, now, tries);
        }
    };
    settle(&mut tries);
    let end = |index| {
        let task = TaskId { job: fits, index };
        let machine = cell.read(|cell| cell.task(task)).and_then(TaskState::machine).unwrap();
        cell.apply(Command::ReportTask {
            task,
            machine,
            placed_ms: 0,
            report: TaskReport::Finished,
        })
        .unwrap();
    };
    // The size of a job is examined at its second attempt.
    end(0);
    settle(&mut tries);
    let before = tries.0;
    end(1);
    settle(&mut tries);
    assert_eq!(tries.0, before, "no job is tried after the end of a task");

    small::add_machine(&cell, Machine::new("more", small::amounts(3)));
    settle(&mut tries);
    assert_eq!([large, wide].map(|job| small::placed(&cell, job)), [1, 0]);
    let machine = cell.read(|cell| cell.machine_by_name("m0")).unwrap();
    let more = Machine::new("m0", small::amounts(3));
    cell.apply(Command::UpdateMachine { id: machine, machine: more }).unwrap();
    settle(&mut tries);
    assert_eq!(small::placed(&cell, wide), 5, "the machines are large enough now");
}
