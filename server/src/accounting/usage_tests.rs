//! The usage of random histories, compared with sums over the whole cell before and after each command.

use super::*;
use omega_tests::random::Generator;
use omega_tests::reference::Reference;

/// Length of an hour in these tests, in milliseconds. It is short, because random histories are short.
const HOUR_MS: u64 = 40;

/// State, failures and allocation of each task.
type Tasks = BTreeMap<TaskId, (TaskState, u32, Amounts)>;

fn tasks(cell: &Cell) -> Tasks {
    let all = cell.jobs().flat_map(|(job, _)| cell.tasks(job));
    let task = |(id, state): (TaskId, TaskState)| {
        (id, (state, cell.task_failures(id), cell.task_holds(id).unwrap_or_default()))
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
fn compare(seed: u64, window: Range<u64>) -> BTreeMap<Key, Sums> {
    let generator = Generator::with_holders(seed).with_held(seed).with_updates(seed);
    let mut generator = generator.with_reservations(seed).with_peaks(seed);
    let mut reference = Reference::new(generator.kinds());
    let mut cell = Cell::new(generator.kinds());
    let mut usage = Usage { hour_ms: HOUR_MS, ..Usage::within(window.clone()) };
    let mut naive = BTreeMap::new();
    usage.observe(&cell);
    let (mut old, mut then) = (tasks(&cell), cell.now_ms());
    for step in 0..200 {
        // Random histories rarely advance the time, so every third step does.
        let command = match step % 3 {
            0 => omega_core::Command::Expire { now_ms: then + seed % 23 },
            _ => generator.next(&reference),
        };
        drop(reference.apply(command.clone()));
        drop(cell.apply(command));
        usage.observe(&cell);
        let (new, now) = (tasks(&cell), cell.now_ms());
        add_time(&mut naive, &old, then.max(window.start)..now.min(window.end));
        if window.contains(&now) {
            add_counts(&mut naive, &old, &new, now);
        }
        (old, then) = (new, now);
    }
    let Totals { rows, owners } = usage.finish();
    assert_eq!(rows, naive, "seed {seed}");
    assert!(rows.keys().all(|key| owners.contains_key(&key.job)), "seed {seed}");
    naive
}

#[test]
fn usage_is_the_sum_over_every_millisecond_of_random_histories() {
    let mut all = Sums::default();
    for seed in 0..100 {
        compare(seed, 0..5_000).values().for_each(|row| all.add(row));
        compare(seed, 100..350).values().for_each(|row| all.add(row));
    }
    let counts = [all.started, all.finished, all.failed];
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
    assert!(all.allocated.iter().all(|sum| *sum > 0), "{:?}", all.allocated);
}
