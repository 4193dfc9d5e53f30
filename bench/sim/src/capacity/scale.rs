//! A workload scaled to another number of machines or jobs, without random choices: equal numbers give equal workloads,
//! and a larger load contains all jobs of a smaller one.

use crate::free_name::free_name;
use crate::golden_ratio::GOLDEN_RATIO;
use omega_core::{Amounts, Machine, Overcommit, Taint, Text};
use omega_workload::{Arrival, RunTime, Workload};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Largest delay of a copied job after its original, in milliseconds. It is long enough that schedulers treat the two
/// jobs separately, and too short to change the daily curve.
const SHIFT_MS: u64 = 300_000;

/// Properties that machines of one sort share.
#[derive(PartialEq, Eq, Hash)]
struct Sort<'a> {
    capacity: &'a Amounts,
    overcommit: &'a Overcommit,
    taints: &'a [Taint],
    devices: u8,
    /// Values of the labels that jobs require. Other labels only describe where a machine is.
    labels: Vec<Option<&'a Text>>,
}

/// Keys of the labels that jobs require.
fn required_keys(arrivals: &[Arrival]) -> BTreeSet<&Text> {
    let groups = arrivals.iter().flat_map(|arrival| &arrival.job.groups);
    let selectors = groups.flat_map(|group| group.rules.affinity.required.iter().flatten());
    selectors.flat_map(|selector| &selector.labels).map(|one| &one.key).collect()
}

/// Returns the workload with this number of machines, with the proportions of the sorts kept as nearly as possible.
///
/// If the number is smaller, machines of each sort are removed in proportion; if it is larger, copies are added. Tasks
/// of a removed machine are placed again.
#[must_use]
pub fn machines(workload: &Workload, count: usize) -> Workload {
    machines_moved(workload, count).0
}

/// Returns the scaled workload with the new position of each machine; `None` for removed ones.
#[must_use]
pub fn machines_moved(workload: &Workload, count: usize) -> (Workload, Vec<Option<u32>>) {
    let all = &workload.machines;
    if count == all.len() || all.is_empty() {
        return (workload.clone(), (0..all.len() as u32).map(Some).collect());
    }
    let sorts = sorts(all, &required_keys(&workload.arrivals));
    let mut taken: HashSet<Text> = all.iter().map(|machine| machine.name.clone()).collect();
    let mut kept: Vec<usize> = Vec::new();
    let mut copies: Vec<Machine> = Vec::new();
    for (members, wanted) in sorts.iter().zip(shares(&sorts, count, all.len())) {
        let own = wanted.min(members.len());
        kept.extend((0..own).map(|i| members[i * members.len() / own]));
        copies.extend((0..wanted - own).map(|i| {
            let like = &all[members[i % members.len()]];
            let name = name_of_copy(&like.name, 2 + i as u64 / members.len() as u64, &mut taken);
            Machine { name, ..like.clone() }
        }));
    }
    kept.sort_unstable();
    let mut place = vec![None; all.len()];
    for (new, old) in kept.iter().enumerate() {
        place[*old] = Some(new as u32);
    }
    let mut scaled = workload.clone();
    scaled.machines = kept.iter().map(|old| all[*old].clone()).chain(copies).collect();
    for arrival in &mut scaled.arrivals {
        moved(&mut arrival.placed, &place);
    }
    (scaled, place)
}

/// Moves tasks with their machines, and drops tasks of removed machines.
pub(crate) fn moved(placed: &mut Vec<(u32, u32)>, place: &[Option<u32>]) {
    placed.retain_mut(|(_, machine)| match place[*machine as usize] {
        Some(new) => {
            *machine = new;
            true
        }
        None => false,
    });
}

/// Returns the positions of the machines of each sort, in order of first appearance.
fn sorts(machines: &[Machine], keys: &BTreeSet<&Text>) -> Vec<Vec<usize>> {
    let mut number: HashMap<Sort<'_>, usize> = HashMap::new();
    let mut sorts: Vec<Vec<usize>> = Vec::new();
    for (position, machine) in machines.iter().enumerate() {
        let Machine { capacity, overcommit, taints, devices, .. } = machine;
        let labels = keys.iter().map(|key| machine.labels.get(key)).collect();
        let sort = Sort { capacity, overcommit, taints, devices: *devices, labels };
        let at = *number.entry(sort).or_insert(sorts.len());
        if at == sorts.len() {
            sorts.push(Vec::new());
        }
        sorts[at].push(position);
    }
    sorts
}

/// Returns the new number of machines of each sort, by largest remainder.
fn shares(sorts: &[Vec<usize>], count: usize, all: usize) -> Vec<usize> {
    let wanted = |members: &Vec<usize>| members.len() as u128 * count as u128;
    let mut shares: Vec<usize> =
        sorts.iter().map(|members| (wanted(members) / all as u128) as usize).collect();
    let mut order: Vec<usize> = (0..sorts.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(wanted(&sorts[*at]) % all as u128));
    let left = count - shares.iter().sum::<usize>();
    for at in &order[..left] {
        shares[*at] += 1;
    }
    shares
}

/// Returns the workload with this many thousandths of its jobs. A smaller load leaves out jobs evenly over the list. A
/// larger load adds copies, which arrive up to five minutes after their originals, with all tasks pending. Copies of
/// jobs that are present from the start and never end are present from the start, too.
#[must_use]
pub fn load(workload: &Workload, thousandths: u64) -> Workload {
    let wanted = (u128::from(thousandths) << 32) / 1000;
    let mut arrivals: Vec<Arrival> = Vec::new();
    let names = workload.arrivals.iter().map(|arrival| arrival.job.name.clone());
    let mut taken: HashSet<Text> = names.collect();
    for (number, arrival) in workload.arrivals.iter().enumerate() {
        let at = (number as u64).wrapping_mul(GOLDEN_RATIO) >> 32;
        let repeats =
            (0..).take_while(|again| (u128::from(*again) << 32) + u128::from(at) < wanted);
        arrivals.extend(repeats.map(|again: u64| match again {
            0 => arrival.clone(),
            _ => repeated(arrival, number as u64, again, &mut taken),
        }));
    }
    arrivals.sort_by_key(|arrival| arrival.at_ms);
    let Workload { name, kinds, policy, machines, .. } = workload;
    Workload {
        name: name.clone(),
        kinds: kinds.clone(),
        policy: policy.clone(),
        machines: machines.clone(),
        // Changes of machines are dropped, because the number of machines is being searched.
        machine_events: Vec::new(),
        arrivals,
        volumes: workload.volumes.clone(),
        budgets: workload.budgets.clone(),
        notes: workload.notes.clone(),
    }
}

/// Copies the job with this number. `again` is 1 for the job's first copy.
fn repeated(arrival: &Arrival, number: u64, again: u64, taken: &mut HashSet<Text>) -> Arrival {
    let mut copy = arrival.clone();
    copy.job.name = name_of_copy(&arrival.job.name, again + 1, taken);
    copy.placed.clear();
    if arrival.at_ms > 0 || arrival.run != RunTime::Forever {
        let turn = (number.wrapping_add(again << 40)).wrapping_mul(GOLDEN_RATIO) >> 32;
        copy.at_ms += 1 + ((turn * (SHIFT_MS - 1)) >> 32);
    }
    copy
}

/// Returns the name of a copy of a job or machine, `NAME~COPY`, or a similar name that is not taken yet.
fn name_of_copy(name: &str, copy: u64, taken: &mut HashSet<Text>) -> Text {
    let free = free_name(name, &format!("~{copy}"), |name| taken.contains(name));
    taken.insert(free.clone());
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::limits::TEXT_BYTES_MAX;
    use omega_core::{Job, KindId, Kinds, Policy, TaskGroup};

    fn workload() -> Workload {
        let machine = |i: usize| {
            let cpu = if i.is_multiple_of(4) { 8000 } else { 2000 };
            Machine::new(format!("m{i}"), Amounts::new([cpu]))
        };
        let arrival = |i: u64| {
            let group = TaskGroup::new(1, Amounts::new([1000]));
            let job = Job::batch(format!("j{i}"), group);
            Arrival { at_ms: i * 1000, job, placed: vec![(0, i as u32)], run: RunTime::Same(5000) }
        };
        Workload {
            name: "small".into(),
            kinds: Kinds::standard(),
            policy: Policy::default(),
            machines: (0..8).map(machine).collect(),
            machine_events: Vec::new(),
            arrivals: (0..8).map(arrival).collect(),
            volumes: omega_workload::volumes::VolumesAtStart::default(),
            budgets: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn names(workload: &Workload) -> Vec<&str> {
        workload.machines.iter().map(|machine| &*machine.name).collect()
    }

    #[test]
    fn the_mix_of_machines_stays() {
        let large = |count| {
            let scaled = machines(&workload(), count);
            assert_eq!(scaled.machines.len(), count);
            let of = |machine: &&Machine| machine.capacity.get(KindId::CPU) == 8000;
            scaled.machines.iter().filter(of).count()
        };
        assert_eq!([1, 2, 4, 8, 12, 16, 40].map(large), [0, 1, 1, 2, 3, 4, 10]);
        assert_eq!(names(&machines(&workload(), 4)), ["m0", "m1", "m3", "m6"]);
        let twice = machines(&workload(), 16);
        assert_eq!(names(&twice)[..9], ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m0~2"]);
    }

    #[test]
    fn what_ran_follows_its_machine_or_waits() {
        let base = workload();
        let scaled = machines(&base, 3);
        for (before, after) in base.arrivals.iter().zip(&scaled.arrivals) {
            let machine = &base.machines[before.placed[0].1 as usize].name;
            let kept = names(&scaled).contains(&&**machine);
            assert_eq!(after.placed.len(), usize::from(kept));
            for (_, at) in &after.placed {
                assert_eq!(scaled.machines[*at as usize].name, *machine);
            }
        }
    }

    #[test]
    fn copies_have_names_of_their_own() {
        let mut base = workload();
        base.machines[1].name = "m0~2".into();
        base.arrivals[1].job.name = "j0~2".into();
        let unique = |names: Vec<&Text>| {
            let count = names.len();
            names.into_iter().collect::<BTreeSet<_>>().len() == count
        };
        for times in [2, 3, 5] {
            let larger = machines(&base, 8 * times);
            assert!(unique(larger.machines.iter().map(|machine| &machine.name).collect()));
            let larger = load(&base, 1000 * times as u64);
            assert!(unique(larger.arrivals.iter().map(|arrival| &arrival.job.name).collect()));
            assert!(larger.arrivals.iter().any(|arrival| &*arrival.job.name == "j0~2+"));
        }
        // A name that would be too long is shortened.
        let long: Text = "x".repeat(TEXT_BYTES_MAX).into();
        base.arrivals[0].job.name = long.clone();
        let larger = load(&base, 2000);
        let expected = format!("{}~2", &long[..TEXT_BYTES_MAX - 2]);
        assert!(larger.arrivals.iter().any(|arrival| *arrival.job.name == *expected));
    }

    #[test]
    fn a_larger_load_has_the_jobs_of_a_smaller_one() {
        let base = workload();
        assert_eq!(load(&base, 1000).arrivals.len(), 8);
        let mut before: Vec<(u64, String)> = Vec::new();
        for thousandths in [0, 100, 250, 500, 999, 1000, 1001, 1500, 2000, 3700] {
            let scaled = load(&base, thousandths);
            let jobs: Vec<(u64, String)> =
                scaled.arrivals.iter().map(|a| (a.at_ms, a.job.name.to_string())).collect();
            assert!(jobs.is_sorted_by_key(|job| job.0));
            assert!(before.iter().all(|job| jobs.contains(job)), "{thousandths}");
            let expected = 8.0 * thousandths as f64 / 1000.0;
            assert!((jobs.len() as f64 - expected).abs() <= 1.5, "{thousandths}: {}", jobs.len());
            before = jobs;
        }
        let copies = before.iter().filter(|job| job.1.contains('~')).count();
        assert_eq!(copies, before.len() - 8);
    }

    #[test]
    fn a_repeated_job_comes_soon_after_and_does_not_run_yet() {
        let twice = load(&workload(), 2000);
        for copy in twice.arrivals.iter().filter(|a| a.job.name.ends_with("~2")) {
            let of = copy.job.name.trim_end_matches("~2");
            let first = twice.arrivals.iter().find(|a| *a.job.name == *of).unwrap();
            let later = copy.at_ms - first.at_ms;
            assert!((1..=SHIFT_MS).contains(&later) && copy.placed.is_empty(), "{later}");
        }
    }
}
