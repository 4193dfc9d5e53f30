//! Problem: an instance as columns, with everything that stays fixed during a search.
//!
//! Amounts of a machine or a task are rows of [`Lane`]s, four kinds each. A row is padded with kinds of amount zero,
//! which always fit and cost nothing, so loops over kinds have no remainder and no bounds checks.
//!
//! Amounts and costs are whole numbers below 2^53, stored as floating point. So sums and products are exact in any
//! order, and a processor can compute several of them at once.

use crate::instance::{Balance, Instance, MoveLimits, Sharing, Transience};
use crate::tables::Rows;

/// Amounts of four kinds, a part of a row.
pub(crate) type Lane = [f64; 4];

/// Kinds in a lane.
pub(crate) const LANE: usize = 4;

/// Greatest total cost that any assignment may have. Up to this cost, sums and differences of two costs are exact in
/// floating point.
const COST_MAX: i128 = 1 << 52;

/// Maximum number of entries of a table with a row for each job, and a column for each machine, location or
/// neighbourhood.
const TABLE_MAX: usize = 1 << 30;

/// Error in an instance, shown to the user on one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// A list has the wrong length. Make it as long as expected.
    #[error("{list} has {given} entries: must have {expected}")]
    Length {
        /// Name of the list.
        list: String,
        /// Length of the list.
        given: usize,
        /// Length that the rest of the instance implies.
        expected: usize,
    },
    /// A field refers to an entry that does not exist. Use a number below the count.
    #[error("{field} is {given}: must be below {count}")]
    Position {
        /// Name of the field.
        field: String,
        /// Value of the field.
        given: u32,
        /// Number of entries to which the field may refer.
        count: usize,
    },
    /// The cost of an assignment could be too large for exact sums. Use larger units or smaller weights.
    #[error("the cost of an assignment could exceed 2^52: use smaller weights or larger units")]
    Costs,
    /// A table would be too large. Split the problem into smaller ones.
    #[error(
        "the table of {jobs} jobs by {columns} {of} would have more than {TABLE_MAX} entries: \
         split the problem into smaller ones"
    )]
    Table {
        /// Number of jobs.
        jobs: usize,
        /// Number of columns.
        columns: usize,
        /// Plural noun for the columns, such as "machines".
        of: &'static str,
    },
    /// The initial assignment breaks a rule. Start from one that obeys the rules.
    #[error("the initial assignment breaks a rule: {0}")]
    Infeasible(String),
}

/// Lists of different lengths, stored one after the other in a single vector.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    fn new(lists: impl Iterator<Item = Vec<u32>>) -> Lists {
        let mut all = Lists { starts: vec![0], items: Vec::new() };
        for list in lists {
            all.items.extend(list);
            all.starts.push(all.items.len() as u32);
        }
        all
    }

    pub(crate) fn of(&self, index: usize) -> &[u32] {
        &self.items[self.starts[index] as usize..self.starts[index + 1] as usize]
    }
}

/// A checked instance as columns. It does not change during a search.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) instance: Instance,
    /// Number of [`Lane`]s in a row.
    pub(crate) lanes: usize,
    pub(crate) location: Vec<u32>,
    pub(crate) neighbourhood: Vec<u32>,
    /// Rows of the jobs whose tasks may not share a machine. In this table, columns are machines.
    pub(crate) apart: Rows,
    /// Rows of the jobs that must be spread. In this table, columns are locations.
    pub(crate) spreading: Rows,
    /// Rows of the jobs with dependencies or dependents. In this table, columns are neighbourhoods.
    pub(crate) depending: Rows,
    /// Weight of each kind's load.
    pub(crate) load_weight: Vec<Lane>,
    pub(crate) capacity: Vec<Lane>,
    pub(crate) safety: Vec<Lane>,
    /// Amounts that each task uses.
    requests: Vec<Lane>,
    /// Two rows of ones and zeros; a one marks a kind that an arriving task newly occupies.
    ///
    /// The first row is for a machine other than the task's initial one: all kinds. The second row is for the initial
    /// machine: all kinds except the transient ones, which the task has occupied there throughout.
    occupied: Vec<Lane>,
    pub(crate) job: Vec<u32>,
    pub(crate) initial: Vec<u32>,
    pub(crate) move_cost: Vec<f64>,
    /// Weighted cost of a move between two machines, one row for each machine of departure. Empty if all these costs
    /// are zero.
    pub(crate) machine_move: Vec<f64>,
    /// Weight of the largest number of moved tasks of any job.
    pub(crate) job_move: f64,
    pub(crate) spread: Vec<u32>,
    pub(crate) depends_on: Lists,
    pub(crate) dependents: Lists,
    pub(crate) balances: Vec<Proportion>,
    /// Number of the set of machines to which each task may move, or [`ANYWHERE`]. Empty if all tasks may move
    /// anywhere.
    allowed: Vec<u32>,
    /// Flags of all sets of machines, one set after the other.
    sets: Vec<bool>,
    pub(crate) limits: MoveLimits,
}

/// Value in `allowed` for a task that may move to any machine.
const ANYWHERE: u32 = u32::MAX;

/// Balance objective, with numbers in the types of the columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proportion {
    pub(crate) first: usize,
    pub(crate) second: usize,
    pub(crate) target: f64,
    pub(crate) per: f64,
    pub(crate) weight: f64,
}

impl From<&Balance> for Proportion {
    fn from(balance: &Balance) -> Proportion {
        Proportion {
            first: balance.first as usize,
            second: balance.second as usize,
            target: balance.target as f64,
            per: balance.per as f64,
            weight: balance.weight as f64,
        }
    }
}

impl Problem {
    /// Builds the problem of an instance.
    ///
    /// # Errors
    /// If lists do not have matching lengths, costs could overflow, or the initial assignment breaks a rule.
    pub fn new(instance: Instance) -> Result<Problem, ProblemError> {
        check_lists(&instance)?;
        check_costs(&instance)?;
        let lanes = instance.kinds.len().div_ceil(LANE).max(1);
        let (location, locations) =
            numbered(instance.machines.iter().map(|machine| machine.location));
        let (neighbourhood, neighbourhoods) =
            numbered(instance.machines.iter().map(|machine| machine.neighbourhood));
        let jobs = instance.jobs.len();
        let rows = |amounts: fn(&crate::instance::Machine) -> &[i64]| -> Vec<Lane> {
            instance.machines.iter().flat_map(|m| row(amounts(m), lanes)).collect()
        };
        let (capacity, safety) = (rows(|m| &m.capacity), rows(|m| &m.safety));
        let mut dependents = vec![Vec::new(); jobs];
        for (job, entry) in (0..).zip(&instance.jobs) {
            entry.depends_on.iter().for_each(|on| dependents[*on as usize].push(job));
        }
        let [apart, spreading, depending] = tables(&instance, [locations, neighbourhoods]);
        check_table(&apart, "machines")?;
        check_table(&spreading, "locations")?;
        check_table(&depending, "neighbourhoods")?;
        let weights: Vec<i64> = instance.kinds.iter().map(|kind| kind.load_weight).collect();
        let tasks = &instance.tasks;
        Ok(Problem {
            lanes,
            location,
            neighbourhood,
            apart,
            spreading,
            depending,
            load_weight: row(&weights, lanes),
            capacity,
            safety,
            requests: tasks.iter().flat_map(|task| row(&task.request, lanes)).collect(),
            occupied: occupied(&instance, lanes),
            job: tasks.iter().map(|task| task.job).collect(),
            initial: instance.initial.clone(),
            move_cost: tasks
                .iter()
                .map(|task| (task.move_cost * instance.weights.task) as f64)
                .collect(),
            machine_move: machine_moves(&instance),
            spread: instance.jobs.iter().map(|job| job.spread).collect(),
            depends_on: Lists::new(instance.jobs.iter().map(|job| job.depends_on.clone())),
            dependents: Lists::new(dependents.into_iter()),
            job_move: instance.weights.job as f64,
            balances: instance.balances.iter().map(Proportion::from).collect(),
            allowed: allowed(&instance),
            sets: instance.allowed.concat(),
            limits: instance.limits,
            instance,
        })
    }

    /// The instance.
    #[must_use]
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    pub(crate) fn machines(&self) -> usize {
        self.location.len()
    }

    pub(crate) fn tasks(&self) -> usize {
        self.job.len()
    }

    pub(crate) fn jobs(&self) -> usize {
        self.spread.len()
    }

    /// Returns the size of each task: the sum, over all kinds, of the task's share of the total capacity of all
    /// machines.
    pub(crate) fn sizes(&self) -> Vec<f64> {
        let mut total = vec![[0.0; LANE]; self.lanes];
        for row in self.capacity.chunks(self.lanes) {
            for (total, amounts) in total.iter_mut().zip(row) {
                (0..LANE).for_each(|kind| total[kind] += amounts[kind]);
            }
        }
        let share = |(amount, total): (&f64, &f64)| if *total > 0.0 { amount / total } else { 0.0 };
        let size = |task: usize| -> f64 {
            let request = self.request(task).iter().flatten();
            request.zip(total.iter().flatten()).map(share).sum()
        };
        (0..self.tasks()).map(size).collect()
    }

    /// Returns ones for the kinds that a task newly occupies when it arrives on a machine, and zeros for the other
    /// kinds.
    #[inline]
    pub(crate) fn occupied(&self, task: usize, machine: usize) -> &[Lane] {
        let row = usize::from(self.initial[task] as usize == machine);
        &self.occupied[row * self.lanes..(row + 1) * self.lanes]
    }

    /// Amounts that a task uses.
    #[inline]
    pub(crate) fn request(&self, task: usize) -> &[Lane] {
        &self.requests[task * self.lanes..(task + 1) * self.lanes]
    }

    /// Whether a task may run on a machine: its initial machine, or a machine of its allowed set.
    #[inline]
    pub(crate) fn is_allowed(&self, task: usize, machine: usize) -> bool {
        match self.allowed.get(task) {
            None | Some(&ANYWHERE) => true,
            Some(set) => {
                self.sets[*set as usize * self.machines() + machine]
                    || self.initial[task] as usize == machine
            }
        }
    }

    /// Returns the weighted cost of moving a task from its initial machine to `machine`. The cost that depends on the
    /// number of moved tasks of its job is not included.
    pub(crate) fn moving(&self, task: usize, machine: usize) -> f64 {
        let initial = self.initial[task] as usize;
        if initial == machine {
            return 0.0;
        }
        let between = self.machine_move.get(initial * self.machines() + machine);
        self.move_cost[task] + between.copied().unwrap_or(0.0)
    }
}

fn row(amounts: &[i64], lanes: usize) -> Vec<Lane> {
    let mut row = vec![[0.0; LANE]; lanes];
    for (at, amount) in amounts.iter().enumerate() {
        row[at / LANE][at % LANE] = *amount as f64;
    }
    row
}

fn occupied(instance: &Instance, lanes: usize) -> Vec<Lane> {
    let by_return = instance.kinds.iter().map(|kind| match kind.use_while_moving {
        Transience::Both => 0,
        Transience::New => 1,
    });
    let mut rows = row(&vec![1; instance.kinds.len()], lanes);
    rows.extend(row(&by_return.collect::<Vec<_>>(), lanes));
    rows
}

fn allowed(instance: &Instance) -> Vec<u32> {
    if instance.allowed.is_empty() {
        return Vec::new();
    }
    instance.tasks.iter().map(|task| task.allowed.unwrap_or(ANYWHERE)).collect()
}

/// Returns the rows of three tables, for the rules about sharing, spread and dependencies.
fn tables(instance: &Instance, [locations, neighbourhoods]: [usize; 2]) -> [Rows; 3] {
    let jobs = &instance.jobs;
    let mut tasks = vec![0_u32; jobs.len()];
    instance.tasks.iter().for_each(|task| tasks[task.job as usize] += 1);
    let is_apart =
        |(job, tasks): (&crate::instance::Job, &u32)| job.sharing == Sharing::Apart && *tasks > 1;
    let mut depends = vec![false; jobs.len()];
    for (at, job) in jobs.iter().enumerate() {
        depends[at] |= !job.depends_on.is_empty();
        job.depends_on.iter().for_each(|on| depends[*on as usize] = true);
    }
    [
        Rows::new(jobs.iter().zip(&tasks).map(is_apart), instance.machines.len()),
        Rows::new(jobs.iter().map(|job| job.spread > 1), locations),
        Rows::new(depends.into_iter(), neighbourhoods),
    ]
}

fn machine_moves(instance: &Instance) -> Vec<f64> {
    let weight = instance.weights.machine;
    let all = || instance.machines.iter().flat_map(|machine| &machine.move_costs);
    if weight == 0 || all().all(|cost| *cost == 0) {
        return Vec::new();
    }
    all().map(|cost| (cost * weight) as f64).collect()
}

/// Renumbers values: returns a number from 0 for each value, equal for equal values, and the count of distinct values.
fn numbered(values: impl Iterator<Item = u32> + Clone) -> (Vec<u32>, usize) {
    let mut distinct: Vec<u32> = values.clone().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let number = |value| distinct.partition_point(|other| *other < value) as u32;
    (values.map(number).collect(), distinct.len())
}

fn check_length(list: String, given: usize, expected: usize) -> Result<(), ProblemError> {
    if given == expected {
        return Ok(());
    }
    Err(ProblemError::Length { list, given, expected })
}

fn check_position(
    field: impl Fn() -> String,
    given: u32,
    count: usize,
) -> Result<(), ProblemError> {
    if (given as usize) < count {
        return Ok(());
    }
    Err(ProblemError::Position { field: field(), given, count })
}

fn check_table(rows: &Rows, of: &'static str) -> Result<(), ProblemError> {
    if rows.count.saturating_mul(rows.columns) <= TABLE_MAX {
        return Ok(());
    }
    Err(ProblemError::Table { jobs: rows.count, columns: rows.columns, of })
}

fn check_lists(instance: &Instance) -> Result<(), ProblemError> {
    let Instance { kinds, machines, jobs, tasks, balances, initial, .. } = instance;
    let have_move_costs = machines.iter().any(|machine| !machine.move_costs.is_empty());
    for (at, machine) in machines.iter().enumerate() {
        check_length(format!("machine {at}: capacity"), machine.capacity.len(), kinds.len())?;
        check_length(format!("machine {at}: safety"), machine.safety.len(), kinds.len())?;
        if have_move_costs {
            let given = machine.move_costs.len();
            check_length(format!("machine {at}: move costs"), given, machines.len())?;
        }
    }
    for (at, job) in jobs.iter().enumerate() {
        for on in &job.depends_on {
            check_position(|| format!("job {at}: dependency"), *on, jobs.len())?;
        }
    }
    check_length("the initial assignment".into(), initial.len(), tasks.len())?;
    for (at, (task, machine)) in tasks.iter().zip(initial).enumerate() {
        check_position(|| format!("task {at}: job"), task.job, jobs.len())?;
        check_length(format!("task {at}: request"), task.request.len(), kinds.len())?;
        check_position(|| format!("task {at}: machine"), *machine, machines.len())?;
        let sets = instance.allowed.len();
        task.allowed.map_or(Ok(()), |set| {
            check_position(|| format!("task {at}: set of allowed machines"), set, sets)
        })?;
    }
    for (at, set) in instance.allowed.iter().enumerate() {
        check_length(format!("set {at} of allowed machines"), set.len(), machines.len())?;
    }
    for (at, balance) in balances.iter().enumerate() {
        check_position(|| format!("balance {at}: first kind"), balance.first, kinds.len())?;
        check_position(|| format!("balance {at}: second kind"), balance.second, kinds.len())?;
    }
    Ok(())
}

/// Checks that no assignment can cost more than [`COST_MAX`].
///
/// The bound adds up three worst cases: one machine has all use, all machines are free, and all tasks are moved.
fn check_costs(instance: &Instance) -> Result<(), ProblemError> {
    let wide = |value: i64| i128::from(value);
    let mut most = 0_i128;
    let capacity = |kind: usize| -> i128 {
        instance.machines.iter().map(|machine| wide(machine.capacity[kind])).sum()
    };
    let use_of =
        |kind: usize| -> i128 { instance.tasks.iter().map(|task| wide(task.request[kind])).sum() };
    for (at, kind) in instance.kinds.iter().enumerate() {
        let unsafe_before: i128 =
            instance.machines.iter().map(|machine| wide(machine.safety[at].min(0).abs())).sum();
        most += wide(kind.load_weight) * (use_of(at) + unsafe_before) + capacity(at);
    }
    for balance in &instance.balances {
        let (first, second) = (balance.first as usize, balance.second as usize);
        let missing = wide(balance.target) * (capacity(first) + use_of(first));
        let other = wide(balance.per) * (capacity(second) + use_of(second));
        most += wide(balance.weight) * (missing + other);
    }
    let costs = instance.tasks.iter().map(|task| wide(task.move_cost));
    most += wide(instance.weights.task) * costs.sum::<i128>();
    let dearest = instance.machines.iter().flat_map(|machine| &machine.move_costs).max();
    let each = wide(instance.weights.machine) * wide(dearest.copied().unwrap_or(0));
    most += (each + wide(instance.weights.job)) * instance.tasks.len() as i128;
    if most <= COST_MAX { Ok(()) } else { Err(ProblemError::Costs) }
}
