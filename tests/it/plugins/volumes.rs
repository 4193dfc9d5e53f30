//! Tasks with volumes, placed by schedulers that share a list of them.

use crate::cell::small::{
    self, LONG, add_machine, amounts, assert_settled, placed, report, rows, run, submit, task,
};
use omega_cellstate::{Cell, SharedCell};
use omega_core::{Job, Kinds, LabelSelector, Labels, Machine, MachineSelector, TaskReport, Text};
use omega_schedulers::config::{Profiles, Registry};
use omega_schedulers::explain::describe_obstacle;
use omega_schedulers::volumes::{
    AccessModes, BindingTime, Provisioning, Reach, StorageClass, Volume, VolumeClaim, VolumeMode,
};
use omega_schedulers::{Profile, Scheduler, Search, Settings, Volumes};
use omega_tests::faulty::FaultyCell;
use std::collections::BTreeSet;
use std::sync::Barrier;

/// A cell with machines of four cores in each of these zones.
fn cell_of(zones: &[&str], each: usize) -> SharedCell {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for (i, zone) in zones.iter().flat_map(|zone| vec![zone; each]).enumerate() {
        let mut machine = Machine::new(format!("m{i}"), amounts(4));
        machine.labels = Labels::new([("zone", *zone)]);
        add_machine(&cell, machine);
    }
    cell
}

fn class(name: &str, binding: BindingTime) -> StorageClass {
    StorageClass { name: name.into(), driver: "disk".into(), binding, provisions: None }
}

fn in_zone(zone: &str) -> Reach {
    Reach::Matching(vec![MachineSelector::label("zone", zone)])
}

fn volume(name: &str, bytes: u64, reach: Reach) -> Volume {
    Volume {
        name: name.into(),
        labels: Labels::default(),
        class: "late".into(),
        driver: "disk".into(),
        bytes,
        modes: AccessModes::ONE_MACHINE | AccessModes::ONE_TASK | AccessModes::MANY_WRITERS,
        mode: VolumeMode::Filesystem,
        reach,
        claim: None,
    }
}

fn claim(name: &str) -> VolumeClaim {
    VolumeClaim {
        name: name.into(),
        class: "late".into(),
        bytes: 10,
        modes: AccessModes::ONE_MACHINE,
        mode: VolumeMode::Filesystem,
        selector: LabelSelector::default(),
        volume: None,
        is_ending: false,
    }
}

fn volumes() -> Volumes {
    let volumes = Volumes::default();
    volumes.put_class(class("late", BindingTime::Late));
    volumes.put_class(class("early", BindingTime::Early));
    volumes
}

/// A job of tasks of one core, each with these claims.
fn job(name: &str, tasks: u32, claims: &[&str]) -> Job {
    let mut job = small::job(name, tasks, 1);
    job.groups[0].volumes = claims.iter().map(|claim| Text::from(*claim)).collect();
    job
}

fn profile(volumes: &Volumes) -> Profile {
    Profile::first_fit().with_volumes(volumes)
}

fn scheduler(cell: &SharedCell, volumes: &Volumes) -> Scheduler {
    let settings = Settings::new("default").with_search(Search::Full);
    Scheduler::new(cell, profile(volumes), settings).unwrap()
}

/// A cell, a list of volumes and a scheduler.
struct Stage {
    cell: SharedCell,
    volumes: Volumes,
    scheduler: Scheduler,
    now: u64,
}

impl Stage {
    fn new(zones: &[&str], each: usize) -> Stage {
        let (cell, volumes) = (cell_of(zones, each), volumes());
        let scheduler = scheduler(&cell, &volumes);
        Stage { cell, volumes, scheduler, now: 0 }
    }

    /// Steps until there is no work. The time is after every backoff, but before jobs are retried without an event.
    fn run(&mut self) -> usize {
        self.now += LONG;
        run(&mut self.scheduler, &self.cell, self.now)
    }

    fn why(&mut self, job: omega_core::JobId) -> String {
        let diagnosis = self.scheduler.diagnose(job, 0).unwrap();
        let obstacles = diagnosis.nearest.iter().flat_map(|miss| &miss.obstacles);
        obstacles.map(|obstacle| describe_obstacle(obstacle, &Kinds::standard()) + "; ").collect()
    }
}

#[test]
fn a_late_claim_takes_the_smallest_volume_that_the_machine_reaches() {
    let mut stage = Stage::new(&["a", "b"], 1);
    for (name, bytes) in [("small", 9), ("large", 30), ("fits", 20)] {
        stage.volumes.put_volume(volume(name, bytes, in_zone("b"))).unwrap();
    }
    stage.volumes.put_claim(claim("c")).unwrap();
    let id = submit(&stage.cell, job("j", 1, &["c"]));
    assert_eq!(stage.run(), 1);
    assert_eq!(rows(&stage.cell, id), [Some(1)]);
    let state = stage.volumes.claim("c").unwrap();
    assert_eq!((state.volume.as_deref(), state.is_final), (Some("fits"), true));
    assert_eq!(state.users, [task(id, 0)]);
    assert_eq!(stage.volumes.attached("m1"), ["fits".into()]);
    // An ended task no longer uses the volume, but its claim is still bound to it.
    report(&stage.cell, task(id, 0), TaskReport::Finished);
    stage.run();
    let state = stage.volumes.claim("c").unwrap();
    assert_eq!((state.volume.as_deref(), state.users.len()), (Some("fits"), 0));
    assert!(stage.volumes.attached("m1").is_empty());
}

#[test]
fn a_class_makes_what_there_is_not_where_it_may() {
    let mut stage = Stage::new(&["a", "b"], 2);
    let provisions = Some(Provisioning { within: in_zone("b"), by: vec!["zone".into()] });
    stage.volumes.put_class(StorageClass { provisions, ..class("late", BindingTime::Late) });
    stage.volumes.put_claim(claim("c")).unwrap();
    let id = submit(&stage.cell, job("j", 1, &["c"]));
    assert_eq!(stage.run(), 1);
    assert_eq!(rows(&stage.cell, id), [Some(2)]);
    let made = stage.volumes.claim("c").unwrap().volume.unwrap();
    let made = stage.volumes.volume(&made).unwrap();
    assert_eq!((made.bytes, made.reach), (10, in_zone("b")));
}

#[test]
fn a_claim_that_no_scheduler_can_help_is_told_of_and_wakes_its_job() {
    let mut stage = Stage::new(&["a"], 2);
    let id = submit(&stage.cell, job("j", 1, &["c"]));
    assert_eq!(stage.run(), 0);
    assert!(stage.why(id).contains(r#"the claim "c""#), "{}", stage.why(id));
    stage.volumes.put_claim(VolumeClaim { class: "early".into(), ..claim("c") }).unwrap();
    assert_eq!(stage.run(), 0);
    assert!(stage.why(id).contains("has no volume yet"), "{}", stage.why(id));
    stage.volumes.put_volume(volume("v", 10, Reach::Everywhere)).unwrap();
    assert_eq!(stage.run(), 0, "who keeps the volumes binds it, not we");
    let bound = VolumeClaim { class: "early".into(), volume: Some("v".into()), ..claim("c") };
    stage.volumes.put_claim(bound).unwrap();
    assert_eq!(stage.run(), 1);
    assert_settled(&mut stage.scheduler, &stage.cell, stage.now);
}

#[test]
fn nothing_but_an_event_of_volumes_wakes_a_job_that_lacks_one() {
    let mut stage = Stage::new(&["a"], 2);
    stage.volumes.put_claim(claim("c")).unwrap();
    submit(&stage.cell, job("j", 1, &["c"]));
    let other = submit(&stage.cell, job("other", 1, &[]));
    assert_eq!(stage.run(), 1);
    report(&stage.cell, task(other, 0), TaskReport::Finished);
    stage.now += LONG;
    let step = small::step(&mut stage.scheduler, &stage.cell, stage.now);
    assert!(step.idle && stage.scheduler.queue().active_jobs() == 0, "freed room is no volume");
    stage.volumes.put_volume(volume("v", 10, Reach::Everywhere)).unwrap();
    assert_eq!(stage.run(), 1);
}

#[test]
fn one_task_at_a_time_uses_what_is_for_one() {
    let mut stage = Stage::new(&["a"], 3);
    stage.volumes.put_volume(volume("v", 10, Reach::Everywhere)).unwrap();
    stage.volumes.put_claim(VolumeClaim { modes: AccessModes::ONE_TASK, ..claim("c") }).unwrap();
    // The decisions for both tasks are made before the first is reserved.
    let id = submit(&stage.cell, job("j", 2, &["c"]));
    assert_eq!(stage.run(), 1);
    assert_eq!(stage.run(), 0);
    let first = rows(&stage.cell, id).iter().position(Option::is_some).unwrap() as u32;
    report(&stage.cell, task(id, first), TaskReport::Finished);
    assert_eq!(stage.run(), 1);
    assert_settled(&mut stage.scheduler, &stage.cell, stage.now);
}

#[test]
fn what_is_for_one_machine_stays_there() {
    let mut stage = Stage::new(&["a"], 3);
    stage.volumes.put_volume(volume("v", 10, Reach::Everywhere)).unwrap();
    stage.volumes.put_claim(claim("c")).unwrap();
    let id = submit(&stage.cell, job("j", 6, &["c"]));
    while stage.run() > 0 {}
    let on: BTreeSet<u32> = rows(&stage.cell, id).into_iter().flatten().collect();
    assert_eq!((placed(&stage.cell, id), on.len()), (4, 1), "a machine holds four");
    let shared = VolumeClaim { modes: AccessModes::MANY_WRITERS, ..claim("c") };
    stage.volumes.put_claim(shared).unwrap();
    while stage.run() > 0 {}
    assert_eq!(placed(&stage.cell, id), 6);
}

#[test]
fn a_machine_takes_as_many_volumes_as_it_can_and_shared_ones_once() {
    let mut stage = Stage::new(&["a"], 2);
    for i in 0..4 {
        stage.volumes.put_volume(volume(&format!("v{i}"), 10, Reach::Everywhere)).unwrap();
        stage.volumes.put_claim(claim(&format!("c{i}"))).unwrap();
    }
    stage.volumes.set_limit("m0", "disk", Some(1));
    stage.volumes.set_limit("m1", "disk", Some(2));
    stage.volumes.set_limit("m1", "other", Some(0));
    let jobs = ["c0", "c1", "c2", "c3"].map(|name| submit(&stage.cell, job(name, 1, &[name])));
    assert_eq!(stage.run(), 3);
    assert_eq!(stage.volumes.attached("m0").len(), 1);
    assert_eq!(stage.volumes.attached("m1").len(), 2);
    let waits = *jobs.iter().find(|id| placed(&stage.cell, **id) == 0).unwrap();
    assert!(stage.why(waits).contains("one more volume"), "{}", stage.why(waits));
    let on_m0 = jobs.iter().position(|id| rows(&stage.cell, *id) == [Some(0)]).unwrap();
    submit(&stage.cell, job("again", 1, &[["c0", "c1", "c2", "c3"][on_m0]]));
    assert_eq!(stage.run(), 1, "what is attached is attached");
    stage.volumes.set_limit("m0", "disk", None);
    assert_eq!(stage.run(), 1);
}

#[test]
fn a_gang_that_stays_too_small_gives_its_volumes_back() {
    let mut stage = Stage::new(&["a"], 2);
    stage.volumes.put_volume(volume("v", 10, Reach::Everywhere)).unwrap();
    stage.volumes.put_claim(VolumeClaim { modes: AccessModes::ONE_TASK, ..claim("c") }).unwrap();
    let mut gang = job("gang", 2, &["c"]);
    gang.gang_min = Some(2);
    submit(&stage.cell, gang);
    assert_eq!(stage.run(), 0);
    let state = stage.volumes.claim("c").unwrap();
    assert_eq!((state.volume, state.users.len()), (None, 0));
    assert!(stage.volumes.volume("v").unwrap().claim.is_none());
}

#[test]
fn what_runs_already_counts() {
    let mut stage = Stage::new(&["a", "b"], 1);
    stage.volumes.put_volume(volume("v", 10, Reach::Everywhere)).unwrap();
    stage.volumes.put_claim(VolumeClaim { volume: Some("v".into()), ..claim("c") }).unwrap();
    let id = submit(&stage.cell, job("runs", 1, &["c"]));
    let machine = stage.cell.read(|cell| cell.machine_by_name("m1")).unwrap();
    let adopt = omega_core::Command::AdoptTask { task: task(id, 0), machine };
    stage.cell.apply(adopt).unwrap();
    let second = submit(&stage.cell, job("second", 1, &["c"]));
    assert_eq!(stage.run(), 1);
    assert_eq!(rows(&stage.cell, second), [Some(1)], "where the first is");
    stage.cell.apply(omega_core::Command::KillJob { job: id }).unwrap();
    stage.cell.apply(omega_core::Command::KillJob { job: second }).unwrap();
    stage.run();
    assert!(stage.volumes.claim("c").unwrap().users.is_empty());
}

#[test]
fn a_file_names_the_filters_for_volumes() {
    let (cell, volumes) = (cell_of(&["a", "b"], 1), volumes());
    volumes.put_volume(volume("v", 10, in_zone("b"))).unwrap();
    volumes.put_claim(claim("c")).unwrap();
    let names = ["VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"];
    let filters = names.map(|name| format!("[[profile.filter]]\nplugin = '{name}'\n")).concat();
    let file = format!("[[profile]]\nname = 'default'\nbase = 'empty'\n{filters}");
    let profiles = Profiles::parse(&file, &Registry::built_in()).unwrap();
    let spec = profiles.get("default").unwrap();
    let profile = spec.bind_with(&Kinds::standard(), &volumes).unwrap();
    let settings = Settings::new("default").with_search(Search::Full);
    let mut scheduler = Scheduler::new(&cell, profile, settings).unwrap();
    let id = submit(&cell, job("j", 1, &["c"]));
    assert_eq!(run(&mut scheduler, &cell, 0), 1);
    assert_eq!(rows(&cell, id), [Some(1)]);
    assert!(volumes.claim("c").unwrap().is_final);
}

#[test]
fn of_threads_that_want_one_volume_one_gets_it() {
    const THREADS: u32 = 4;
    for _ in 0..200 {
        let volumes = volumes();
        volumes.put_volume(volume("v", 10, Reach::Everywhere)).unwrap();
        let machine = Machine::new("m", amounts(1));
        let start = Barrier::new(THREADS as usize);
        let won: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|i| {
                    let (volumes, machine, start) = (volumes.clone(), &machine, &start);
                    let name: Text = format!("c{i}").into();
                    volumes.put_claim(claim(&name)).unwrap();
                    scope.spawn(move || {
                        start.wait();
                        let task = task(omega_core::JobId(1), i);
                        volumes.reserve(task, &[name], machine).is_ok()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
        });
        assert_eq!(won, 1);
        let owner = volumes.volume("v").unwrap().claim.unwrap();
        assert_eq!(volumes.claim(&owner).unwrap().volume.as_deref(), Some("v"));
    }
}

/// Schedulers on their own threads, over connections that break, with fewer volumes than claims.
#[test]
fn schedulers_that_race_for_volumes_share_them_out() {
    const VOLUMES: usize = 12;
    let (cell, volumes) = (cell_of(&["a", "b", "c"], 8), volumes());
    for i in 0..VOLUMES {
        let zone = ["a", "b", "c"][i % 3];
        volumes.put_volume(volume(&format!("v{i}"), 10, in_zone(zone))).unwrap();
    }
    let jobs: Vec<_> = (0..20)
        .map(|i| {
            volumes.put_claim(claim(&format!("c{i}"))).unwrap();
            let mut job = job(&format!("j{i}"), 1, &[&format!("c{i}")]);
            job.scheduler = format!("s{}", i % 4).into();
            (submit(&cell, job), format!("c{i}"))
        })
        .collect();
    std::thread::scope(|scope| {
        for i in 0..4u64 {
            let (cell, volumes) = (&cell, &volumes);
            scope.spawn(move || {
                let handle = FaultyCell::new(cell, i, 10);
                let settings = Settings { seed: i, ..Settings::new(format!("s{i}")) };
                let mut scheduler = loop {
                    match Scheduler::new(&handle, profile(volumes), settings.clone()) {
                        Ok(scheduler) => break scheduler,
                        Err(_) => continue,
                    }
                };
                for round in 0..400 {
                    let now = round * LONG;
                    let _ = scheduler.step(&handle, now, &mut omega_schedulers::Unobserved);
                }
            });
        }
    });
    let mut owners = BTreeSet::new();
    for (id, claim) in &jobs {
        let state = volumes.claim(claim).unwrap();
        if placed(&cell, *id) == 1 {
            let volume = volumes.volume(&state.volume.unwrap()).unwrap();
            assert_eq!(volume.claim.as_deref(), Some(claim.as_str()));
            let row = rows(&cell, *id)[0].unwrap();
            let machine =
                cell.read(|cell| cell.machines().nth(row as usize).unwrap().machine.clone());
            assert!(volume.reach.includes(&machine), "{volume:?} {machine:?}");
            assert!(owners.insert(volume.name), "two have one volume");
        }
    }
    assert_eq!(owners.len(), VOLUMES);
}

#[test]
fn a_claim_chooses_by_labels_and_by_what_it_is_to_find() {
    let mut stage = Stage::new(&["a"], 1);
    let fast: Labels = [("tier", "fast")].into_iter().collect();
    let block = |name: &str| Volume { mode: VolumeMode::Block, ..volume(name, 10, in_zone("a")) };
    let slow = volume("a-slow", 10, in_zone("a"));
    let volumes = [slow, Volume { labels: fast.clone(), ..block("b-block") }];
    volumes.into_iter().for_each(|volume| stage.volumes.put_volume(volume).unwrap());
    let selector = MachineSelector::label("tier", "fast").labels;
    let selector = LabelSelector { requirements: selector };
    stage.volumes.put_claim(VolumeClaim { selector, ..claim("c") }).unwrap();
    submit(&stage.cell, job("j", 1, &["c"]));
    assert_eq!(stage.run(), 0);
    let volume = Volume { labels: fast, ..volume("c-fast", 10, in_zone("a")) };
    stage.volumes.put_volume(volume).unwrap();
    assert_eq!(stage.run(), 1);
    assert_eq!(stage.volumes.claim("c").unwrap().volume.as_deref(), Some("c-fast"));
}

#[test]
fn of_volumes_kept_for_a_claim_it_takes_the_one_within_reach() {
    let mut stage = Stage::new(&["a"], 1);
    for (name, zone) in [("far", "b"), ("near", "a"), ("worst", "c")] {
        let claim = Some("c".into());
        let volume = Volume { claim, ..volume(name, 10, in_zone(zone)) };
        stage.volumes.put_volume(volume).unwrap();
    }
    stage.volumes.put_claim(claim("c")).unwrap();
    stage.volumes.remove_volume("worst").unwrap();
    submit(&stage.cell, job("j", 1, &["c"]));
    assert_eq!(stage.run(), 1);
    assert_eq!(stage.volumes.claim("c").unwrap().volume.as_deref(), Some("near"));
}

#[test]
fn a_claim_that_is_being_deleted_takes_no_task() {
    let mut stage = Stage::new(&["a"], 1);
    stage.volumes.put_volume(volume("v", 10, in_zone("a"))).unwrap();
    stage.volumes.put_claim(VolumeClaim { is_ending: true, ..claim("c") }).unwrap();
    let job = submit(&stage.cell, job("j", 1, &["c"]));
    assert_eq!(stage.run(), 0);
    assert!(stage.why(job).contains("is being deleted"), "{}", stage.why(job));
}
