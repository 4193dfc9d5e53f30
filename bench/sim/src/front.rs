//! Several cells side by side: a front sends each job of a workload to one of the cells.
//!
//! ```text
//!   jobs ─▶ front ─┬▶ cell 0: the first part of the machines, schedulers of its own
//!                  ├▶ cell 1
//!                  └▶ ...
//! ```
//!
//! The front considers the capacity of each cell, and the requests of the jobs that it sent to the cell and
//! that have not ended. It has no data about where tasks run, so a job may wait in a cell although the free
//! amounts of all its machines together would suffice. A waiting job is not moved to another cell. The choices
//! of the front depend on the workload alone, so each cell is simulated separately, with the jobs that it gets.

use omega_core::{KindId, Machine, SharedGroup, Text};
use omega_workload::stream::{Event, Head, Stream};
use omega_workload::{Arrival, LoadError, MachineChange, RunTime};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Maximum number of cells.
pub const CELLS_MAX: u32 = 64;

/// The resource kinds that a front considers.
const KINDS: [KindId; 2] = [KindId::CPU, KindId::MEMORY];

/// Rule by which a front chooses the cell of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Front {
    /// Each cell in turn
    InTurn,
    /// Cell whose load would be lowest with the job added. The load of a cell is the share of its cpu or of its memory
    /// that its jobs request, whichever is higher
    Emptiest,
    /// First cell with enough free resources for the whole job; if there is none, the cell that `emptiest` chooses
    First,
}

/// Capacity of one cell, and the requests that the front has counted for the cell.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    capacity: [u128; 2],
    requested: [u128; 2],
}

impl Counted {
    /// Returns the higher of the two kinds' requested shares, in billionths, if `more` were requested in addition.
    fn share_with(&self, more: [u128; 2]) -> u128 {
        let share =
            |i: usize| (self.requested[i] + more[i]) * 1_000_000_000 / self.capacity[i].max(1);
        share(0).max(share(1))
    }
}

/// Cell of a machine, and the machine's present capacity, which is zero while the machine is removed.
#[derive(Clone, Copy, Debug)]
struct Home {
    cell: usize,
    capacity: [u128; 2],
}

/// A front, with the data by which it chooses the cell of a job.
struct Router {
    front: Front,
    cells: Vec<Counted>,
    /// The cell of each machine, by the machine's name. Removed machines stay in the map.
    homes: HashMap<Text, Home>,
    /// Ends of the tasks that were sent: time, cell, and total request of the tasks.
    ends: BinaryHeap<Reverse<(u64, usize, [u128; 2])>>,
    /// Number of jobs sent so far. The next field is the number of machines that were added after the start.
    sent: usize,
    joined: usize,
}

impl Router {
    /// Creates a front. Each cell gets consecutive machines, in equal parts, so that racks are not divided.
    fn new(machines: &[Machine], cells: usize, front: Front) -> Router {
        let mut router = Router {
            front,
            cells: vec![Counted::default(); cells],
            homes: HashMap::new(),
            ends: BinaryHeap::new(),
            sent: 0,
            joined: 0,
        };
        for (i, machine) in machines.iter().enumerate() {
            let cell = i * cells / machines.len();
            router.homes.insert(machine.name.clone(), Home { cell, capacity: [0; 2] });
            router.change(&machine.name, capacity(machine));
        }
        router
    }

    /// Records the change of a machine, and returns the machine's cell.
    fn home(&mut self, change: &MachineChange) -> usize {
        match change {
            MachineChange::Add(machine) => self.change(&machine.name, capacity(machine)),
            MachineChange::Remove(name) => self.change(name, [0; 2]),
        }
    }

    /// Changes the capacity of a machine and of its cell, and returns the cell. Each new machine is added to the next
    /// cell in turn. A machine that is removed and added again stays in its cell.
    fn change(&mut self, name: &Text, capacity: [u128; 2]) -> usize {
        let Router { homes, joined, cells, .. } = self;
        let home = homes.entry(name.clone()).or_insert_with(|| {
            let cell = *joined % cells.len();
            *joined += 1;
            Home { cell, capacity: [0; 2] }
        });
        let before = std::mem::replace(&mut home.capacity, capacity);
        let sums = &mut cells[home.cell].capacity;
        for (sum, (before, after)) in sums.iter_mut().zip(before.into_iter().zip(capacity)) {
            *sum = *sum - before + after;
        }
        home.cell
    }

    /// Chooses the cell of a job.
    fn route(&mut self, arrival: &Arrival) -> usize {
        while let Some(Reverse((at_ms, cell, requests))) = self.ends.peek().copied()
            && at_ms <= arrival.at_ms
        {
            self.ends.pop();
            let sums = self.cells[cell].requested.iter_mut().zip(requests);
            sums.for_each(|(sum, request)| *sum -= request);
        }
        let more = requests(arrival);
        let emptiest = || {
            let shares = self.cells.iter().map(|cell| cell.share_with(more)).enumerate();
            shares.min_by_key(|(cell, share)| (*share, *cell)).map_or(0, |(cell, _)| cell)
        };
        let fits = |cell: &Counted| cell.share_with(more) <= 1_000_000_000;
        let cell = match self.front {
            Front::InTurn => self.sent % self.cells.len(),
            Front::Emptiest => emptiest(),
            Front::First => self.cells.iter().position(fits).unwrap_or_else(emptiest),
        };
        self.sent += 1;
        self.count(cell, arrival);
        cell
    }

    /// Adds a job's requests to those of a cell until its tasks end. Tasks are assumed to start when the job arrives.
    fn count(&mut self, cell: usize, arrival: &Arrival) {
        let mut task = 0;
        for group in &arrival.job.groups {
            let request = KINDS.map(|kind| u128::from(group.request.get(kind)));
            let alike =
                if matches!(arrival.run, RunTime::Each(_)) { 1 } else { group.count.max(1) };
            let end = task + group.count;
            while task < end {
                let requests = request.map(|one| one * u128::from(alike));
                let sums = self.cells[cell].requested.iter_mut().zip(requests);
                sums.for_each(|(sum, request)| *sum += request);
                if let Some(run_ms) = arrival.run.of(task) {
                    let end_ms = arrival.at_ms.saturating_add(run_ms);
                    self.ends.push(Reverse((end_ms, cell, requests)));
                }
                task += alike;
            }
        }
    }
}

/// Capacity of a machine.
fn capacity(machine: &Machine) -> [u128; 2] {
    KINDS.map(|kind| u128::from(machine.capacity.get(kind)))
}

/// Total request of a job.
fn requests(arrival: &Arrival) -> [u128; 2] {
    KINDS.map(|kind| {
        let of =
            |group: &SharedGroup| u128::from(group.request.get(kind)) * u128::from(group.count);
        arrival.job.groups.iter().map(of).sum()
    })
}

/// The workload of one of several cells.
pub struct OneOf {
    inner: Box<dyn Stream>,
    head: Head,
    router: Router,
    number: usize,
}

impl OneOf {
    /// Creates the part of a workload that a front sends to the cell with this number.
    #[must_use]
    pub fn new(inner: Box<dyn Stream>, (cells, front): (u32, Front), number: u32) -> OneOf {
        let whole = inner.head();
        let number = number as usize;
        let router = Router::new(&whole.machines, cells.max(1) as usize, front);
        let own = |machine: &&Machine| {
            router.homes.get(&machine.name).is_some_and(|home| home.cell == number)
        };
        let machines = whole.machines.iter().filter(own).cloned().collect();
        let head = Head { machines, ..whole.clone() };
        OneOf { inner, head, router, number }
    }

    /// The processors of the cell, in thousandths of a core.
    #[must_use]
    pub fn cpu_millis(&self) -> u128 {
        self.router.cells[self.number].capacity[0]
    }
}

impl Stream for OneOf {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next_event(&mut self) -> Result<Option<Event>, LoadError> {
        while let Some(event) = self.inner.next_event()? {
            let cell = match &event {
                Event::Machine(event) => self.router.home(&event.change),
                Event::Job(job) if !job.arrival.placed.is_empty() => {
                    let message = "has tasks that run at the start, so it cannot be divided into \
                         several cells: leave out --cells";
                    return Err(LoadError {
                        line: job.line,
                        field: Some(job.arrival.job.name.to_string()),
                        ..LoadError::new(&self.head.jobs_at.file, message)
                    });
                }
                Event::Job(job) => self.router.route(&job.arrival),
            };
            if cell == self.number {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    fn notes(&self) -> Vec<String> {
        self.inner.notes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::Amounts;
    use omega_workload::synth::{self, SynthOptions};
    use std::collections::BTreeSet;

    fn workload() -> Box<dyn Stream> {
        let options = SynthOptions { machines: 200, span_hours: 2, ..SynthOptions::default() };
        Box::new(synth::open(&options))
    }

    /// Names of the jobs that a front sends to each cell.
    fn jobs(cells: u32, front: Front) -> Vec<Vec<String>> {
        let of = |number| {
            let mut one = OneOf::new(workload(), (cells, front), number);
            let mut names = Vec::new();
            while let Some(event) = one.next_event().unwrap() {
                let Event::Job(job) = event else { continue };
                names.push(job.arrival.job.name.to_string());
            }
            names
        };
        (0..cells).map(of).collect()
    }

    #[test]
    fn each_job_and_machine_goes_to_one_cell() {
        let mut whole = BTreeSet::new();
        let mut all = workload();
        while let Some(Event::Job(job)) = all.next_event().unwrap() {
            whole.insert(job.arrival.job.name.to_string());
        }
        for front in [Front::InTurn, Front::Emptiest, Front::First] {
            for cells in [1, 3, 16] {
                let parts = jobs(cells, front);
                let count: usize = parts.iter().map(Vec::len).sum();
                let union: BTreeSet<String> = parts.into_iter().flatten().collect();
                assert_eq!((count, &union), (whole.len(), &whole), "{front:?} {cells}");
            }
        }
        let machines = |number| OneOf::new(workload(), (3, Front::InTurn), number).head.machines;
        let names: BTreeSet<Text> = (0..3).flat_map(machines).map(|machine| machine.name).collect();
        assert_eq!(names.len(), 200);
    }

    #[test]
    fn a_cell_has_the_capacity_of_its_present_machines() {
        let machine =
            |name: &str, cores: u64| Machine::new(name, Amounts::new([cores, 10 * cores]));
        let machines = ["a", "b", "c", "d"].map(|name| machine(name, 4));
        let mut router = Router::new(&machines, 2, Front::Emptiest);
        let add = |name, cores| MachineChange::Add(machine(name, cores));
        let remove = |name: &str| MachineChange::Remove(name.into());
        let steps: [(MachineChange, usize, [u128; 2]); 7] = [
            (remove("a"), 0, [4, 8]),
            (remove("a"), 0, [4, 8]),
            (add("a", 6), 0, [10, 8]),
            (add("d", 1), 1, [10, 5]),
            (add("e", 3), 0, [13, 5]),
            (add("f", 2), 1, [13, 7]),
            (remove("c"), 1, [13, 3]),
        ];
        for (change, home, cores) in steps {
            assert_eq!(router.home(&change), home, "{change:?}");
            let sums = [0_usize, 1].map(|cell| router.cells[cell].capacity);
            assert_eq!(sums, cores.map(|cores| [cores, 10 * cores]), "{change:?}");
        }
    }

    /// For each job, the naive front adds up the requests of all earlier jobs that still run.
    #[test]
    fn fronts_choose_as_a_naive_sum_does() {
        for front in [Front::Emptiest, Front::First] {
            let mut stream = workload();
            let mut router = Router::new(&stream.head().machines, 4, front);
            let mut sent: Vec<(usize, u64, [u128; 2])> = Vec::new();
            while let Some(Event::Job(job)) = stream.next_event().unwrap() {
                let arrival = job.arrival;
                let share = |cell: usize| {
                    let here = sent.iter().filter(|(c, end, _)| *c == cell && *end > arrival.at_ms);
                    let mut sums = requests(&arrival);
                    here.for_each(|(_, _, more)| (0..2).for_each(|i| sums[i] += more[i]));
                    let of = |i: usize| sums[i] * 1_000_000_000 / router.cells[cell].capacity[i];
                    of(0).max(of(1))
                };
                let shares: Vec<u128> = (0..4).map(share).collect();
                let emptiest = (0..4).min_by_key(|cell| shares[*cell]).unwrap();
                let first = (0..4).find(|cell| shares[*cell] <= 1_000_000_000).unwrap_or(emptiest);
                let chosen = router.route(&arrival);
                let expected = if front == Front::First { first } else { emptiest };
                assert_eq!(chosen, expected, "{front:?}: {}", arrival.job.name);
                let end_ms = arrival.run.of(0).map_or(u64::MAX, |run_ms| arrival.at_ms + run_ms);
                sent.push((chosen, end_ms, requests(&arrival)));
            }
        }
    }
}
