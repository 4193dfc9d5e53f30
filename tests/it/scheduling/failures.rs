//! The cache of unschedulable classes. After a task failed, no search is made for equal tasks, but only as long as the
//! reason for the failure lasts.

use crate::cell::small;
use omega_cellstate::{Block, SharedCell};
use omega_core::{Command, Job, Labels, Machine, Text};
use omega_schedulers::{Filter, Profile, Reads, Scheduler, Settings, Tasks};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Accepts machines with a label, and counts its calls.
struct Labelled(Arc<AtomicUsize>);

impl Filter for Labelled {
    fn name(&self) -> &'static str {
        "labelled"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn filter(&self, _: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        let labelled = |lane: &usize| {
            let machine = (among >> lane & 1 == 1).then(|| block.machine(*lane)).flatten();
            machine.is_some_and(|machine| machine.labels.get("chosen").is_some())
        };
        (0..64).filter(labelled).fold(0, |word, lane| word | 1 << lane)
    }
}

/// A cell of 200 machines, none of which has the label, and 300 jobs of equal tasks.
fn cell() -> SharedCell {
    let cell = small::cell_that_remembers(10_000, &[8; 200]);
    for index in 0..JOBS {
        let mut job = small::job(&format!("j{index}"), 1, 1);
        // The group's name does not affect the class.
        job.groups[0].name = format!("g{index}").into();
        small::submit(&cell, job);
    }
    cell
}

const JOBS: u64 = 300;

/// Creates a scheduler, and a counter of the calls of its filter.
fn scheduler(cell: &SharedCell, failures: bool) -> (Scheduler, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let profile = Profile::first_fit().with_filter(Labelled(asked.clone()));
    let mut settings = Settings { failures, ..Settings::new("default") };
    settings.placement.reuse = false;
    (Scheduler::new(cell, profile, settings).unwrap(), asked)
}

fn label(cell: &SharedCell, name: &str, key: &str) {
    let (id, machine) = cell.read(|cell| {
        let state = cell.machines().find(|state| *state.machine.name == *name).unwrap();
        (state.id, Machine::clone(state.machine))
    });
    let machine = Machine { labels: Labels::new([(key, "yes")]), ..machine };
    cell.apply(Command::UpdateMachine { id, machine }).unwrap();
}

#[test]
fn one_search_is_enough_for_a_class_that_finds_nothing() {
    let asked = [true, false].map(|failures| {
        let cell = cell();
        let (mut scheduler, asked) = scheduler(&cell, failures);
        small::run(&mut scheduler, &cell, 0);
        asked.load(Ordering::Relaxed)
    });
    // The 200 machines are 4 blocks.
    assert!(asked[0] <= 8, "the filter was asked {} times", asked[0]);
    assert!(asked[1] >= JOBS as usize * 4, "without it, {} times", asked[1]);
}

#[test]
fn a_change_that_helps_is_noticed() {
    let cell = cell();
    let (mut scheduler, _) = scheduler(&cell, true);
    assert_eq!(small::run(&mut scheduler, &cell, 0), 0);
    label(&cell, "m150", "other");
    assert_eq!(small::run(&mut scheduler, &cell, small::LONG), 0);
    label(&cell, "m150", "chosen");
    assert_eq!(small::run(&mut scheduler, &cell, 2 * small::LONG), 8, "as many as it takes");
    label(&cell, "m7", "chosen");
    assert_eq!(small::run(&mut scheduler, &cell, 3 * small::LONG), 8);
}

/// A rejected claim frees its resources, so a job that failed while they were claimed is not unschedulable.
#[test]
fn room_that_comes_back_is_noticed() {
    let cell = small::cell(&[8]);
    let tenant = Text::from("poor");
    cell.apply(Command::SetQuota { tenant: tenant.clone(), limit: Some(small::amounts(1)) })
        .unwrap();
    let mut scheduler = small::scheduler(&cell, "default");
    let refused = small::submit(&cell, Job { tenant, ..small::job("refused", 1, 8) });
    let missed = small::submit(&cell, small::job("missed", 1, 8));
    small::run(&mut scheduler, &cell, 0);
    assert_eq!((small::placed(&cell, refused), small::placed(&cell, missed)), (0, 1));
}
