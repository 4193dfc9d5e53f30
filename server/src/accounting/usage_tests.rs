//! The usage of random histories, compared with sums over the whole cell before and after each command.

use super::*;
use omega_core::Command;
use omega_tests::random::Generator;
use omega_tests::reference::Reference;

/// Length of an hour in these tests, in milliseconds. It is short, because random histories are short.
const HOUR_MS: u64 = 40;

/// State, failures and allocation of each task.
type Tasks = BTreeMap<TaskId, (TaskState, u32, Amounts)>;

/// Numbers of reports of use from the latest machine, the machine before it, and other machines.
type Met = [u32; 3];

/// All machines that each task has had, without repetitions in a row.
type Places = BTreeMap<TaskId, Vec<MachineId>>;

fn tasks(cell: &Cell) -> Tasks {
    let all = cell.jobs().flat_map(|(job, _)| cell.tasks(job));
    let task = |(id, state): (TaskId, TaskState)| {
        (id, (state, cell.task_failures(id), cell.task_allocation(id).unwrap_or_default()))
    };
    all.map(task).collect()
}

/// Adds one millisecond at a time.
fn add_time(rows: &mut BTreeMap<Key, Sums>, tasks: &Tasks, times: Range<u64>) {
    for ms in times {
        for (id, (state, _, amounts)) in tasks.iter() {
            if state.machine().is_some() {
                let key = Key { hour: ms / HOUR_MS, job: id.job };
                rows.entry(key).or_default().add_allocation(amounts, 1);
            }
        }
    }
}

/// Records the machines of all tasks, and forgets the tasks of deleted jobs.
fn note_places(places: &mut Places, now: &Tasks) {
    places.retain(|id, _| now.contains_key(id));
    for (id, (state, ..)) in now {
        if let Some(machine) = state.machine() {
            let all = places.entry(*id).or_default();
            if all.last() != Some(&machine) {
                all.push(machine);
            }
        }
    }
}

/// Adds an accepted report of use, for tasks whose latest machine, or the one before it, is the reporting one. Counts
/// these two cases, and the tasks of other machines.
fn add_use(rows: &mut BTreeMap<Key, Sums>, places: &Places, command: &Command, now_ms: u64) -> Met {
    let mut met = Met::default();
    let Command::ReportUse { machine, used } = command else { return met };
    for used in used {
        let all = places.get(&used.task).map_or(&[][..], Vec::as_slice);
        let case = all.iter().rev().take(2).position(|at| at == machine);
        met[case.unwrap_or(2)] += 1;
        if case.is_some() {
            let row = rows.entry(Key { hour: now_ms / HOUR_MS, job: used.task.job }).or_default();
            row.used_cpu_us += u128::from(used.cpu_us);
            row.used_byte_seconds += u128::from(used.memory_byte_seconds);
        }
    }
    met
}

/// Adds the differences of two states.
fn add_counts(rows: &mut BTreeMap<Key, Sums>, old: &Tasks, new: &Tasks, now_ms: u64) {
    for (id, (state, failures, _)) in new {
        let (was, failed_before) =
            old.get(id).map_or((None, 0), |(state, failures, _)| (Some(*state), *failures));
        if was == Some(*state) {
            continue;
        }
        let key = Key { hour: now_ms / HOUR_MS, job: id.job };
        let known = rows.remove(&key);
        let is_known = known.is_some();
        let mut row = known.unwrap_or_default();
        match state {
            TaskState::Running(_) => row.started += 1,
            TaskState::Finished => row.finished += 1,
            TaskState::Failed => row.failed += 1,
            _ => row.failed += u64::from(*failures > failed_before),
        }
        // Tasks that request nothing have a row without amounts.
        if is_known || row != Sums::default() {
            rows.insert(key, row);
        }
    }
}

/// Compares the usage of a random history with naive sums, within a window. Returns the naive rows.
fn compare(seed: u64, window: Range<u64>, met: &mut Met) -> BTreeMap<Key, Sums> {
    let generator = Generator::with_holders(seed).with_held(seed).with_updates(seed);
    let mut generator = generator.with_reservations(seed).with_peaks(seed).with_uses(seed);
    let mut reference = Reference::new(generator.kinds());
    let mut cell = Cell::new(generator.kinds());
    let mut usage = Usage { hour_ms: HOUR_MS, ..Usage::within(window.clone()) };
    let mut naive = BTreeMap::new();
    usage.observe(&cell);
    let (mut old, mut then) = (tasks(&cell), cell.now_ms());
    let mut places = Places::new();
    for step in 0..200 {
        // Random histories rarely advance the time, so every third step does.
        let command = match step % 3 {
            0 => Command::Expire { now_ms: then + seed % 23 },
            _ => generator.next(&reference),
        };
        drop(reference.apply(command.clone()));
        if let Command::ReportUse { machine, used } = &command {
            usage.add_use(&cell, *machine, used);
        }
        let is_accepted = cell.apply(command.clone()).is_ok();
        if is_accepted && window.contains(&then) {
            let more = add_use(&mut naive, &places, &command, then);
            met.iter_mut().zip(more).for_each(|(met, more)| *met += more);
        }
        usage.observe(&cell);
        let (new, now) = (tasks(&cell), cell.now_ms());
        add_time(&mut naive, &old, then.max(window.start)..now.min(window.end));
        if window.contains(&now) {
            add_counts(&mut naive, &old, &new, now);
        }
        note_places(&mut places, &new);
        (old, then) = (new, now);
    }
    let Totals { rows, owners } = usage.finish();
    assert_eq!(rows, naive, "seed {seed}");
    assert!(rows.keys().all(|key| owners.contains_key(&key.job)), "seed {seed}");
    naive
}

#[test]
fn usage_is_the_sum_over_every_millisecond_of_random_histories() {
    let (mut all, mut met) = (Sums::default(), Met::default());
    for seed in 0..100 {
        compare(seed, 0..5_000, &mut met).values().for_each(|row| all.add(row));
        compare(seed, 100..350, &mut met).values().for_each(|row| all.add(row));
    }
    let counts = [all.started, all.finished, all.failed];
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
    assert!(met[0] > 0 && met[2] > 0, "{met:?}");
    assert!(all.allocated.iter().all(|sum| *sum > 0), "{:?}", all.allocated);
}

/// Use that is reported after a task has moved counts, but not that of other machines, or of machines that are unknown.
#[test]
fn the_last_two_machines_of_a_task_report_its_use() {
    let generator = Generator::new(0);
    let mut cell = Cell::new(generator.kinds());
    let mut usage = Usage::within(0..u64::MAX);
    usage.observe(&cell);
    let mut apply = |command: Command| {
        if let Command::ReportUse { machine, used } = &command {
            usage.add_use(&cell, *machine, used);
        }
        drop(cell.apply(command));
        usage.observe(&cell);
    };
    for name in ["a", "b", "c", "d"] {
        let capacity = Amounts::new([1000, 1000]);
        apply(Command::RegisterMachine(omega_core::Machine::new(name, capacity)));
    }
    let mut group = omega_core::TaskGroup::new(1, Amounts::zero());
    group.restarts = 9;
    apply(Command::SubmitJob(omega_core::Job::batch("job", group)));
    let task = TaskId { job: JobId(0), index: 0 };
    let machine = MachineId::first;
    for slot in 0..3 {
        apply(Command::AdoptTask { task, machine: machine(slot) });
        let report = omega_core::TaskReport::Lost;
        apply(Command::ReportTask { task, machine: machine(slot), placed_ms: 0, report });
    }
    for (slot, cpu_us) in [(0, 1), (1, 10), (2, 100), (3, 1000), (9, 10_000)] {
        let used = vec![TaskUse { task, cpu_us, memory_byte_seconds: 0 }];
        apply(Command::ReportUse { machine: machine(slot), used });
    }
    apply(Command::RemoveMachine { id: machine(2) });
    let used = vec![TaskUse { task, cpu_us: 100_000, memory_byte_seconds: 0 }];
    apply(Command::ReportUse { machine: machine(2), used });
    let rows = usage.finish().rows;
    assert_eq!(rows.values().map(|row| row.used_cpu_us).sum::<u128>(), 110);
}
