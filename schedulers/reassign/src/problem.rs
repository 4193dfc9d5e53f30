//! Problem: an instance as columns of integers, with everything that stays fixed during a search.
//!
//! Amounts of a machine or a task are rows of [`Lane`]s, four kinds each; a row is padded with zeros, which always fit
//! and cost nothing. So the loops over kinds have no remainder and no bounds checks.

use crate::instance::{Balance, Instance, Transience};

/// Four kinds of a row.
pub(crate) type Lane = [i64; 4];

/// Kinds in a lane.
pub(crate) const LANE: usize = 4;

/// Greatest total cost of any assignment: sums and differences of two stay in 64 bits.
const COST_MAX: i128 = 1 << 61;

/// Most entries of a table with a row per job and a column per machine, location or neighbourhood.
const TABLE_MAX: usize = 1 << 30;

/// Error in an instance. One line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// Give each list of the instance its length.
    #[error("{list} has {given} entries, and must have {expected}")]
    Length {
        /// Name of the list.
        list: String,
        /// Its length.
        given: usize,
        /// Length that the rest of the instance implies.
        expected: usize,
    },
    /// Name an existing entry.
    #[error("{field} is {given}, and must be below {count}")]
    Position {
        /// Name of the field.
        field: String,
        /// Its value.
        given: u32,
        /// Number of entries that it may name.
        count: usize,
    },
    /// Use a smaller unit or smaller weights.
    #[error("the cost of some assignment could exceed 2^61; use smaller weights or larger units")]
    Costs,
    /// Split the instance.
    #[error(
        "{jobs} jobs times {columns} {of} exceed {TABLE_MAX} table entries; split the instance"
    )]
    Table {
        /// Number of jobs.
        jobs: usize,
        /// Number of columns.
        columns: usize,
        /// Meaning of the columns.
        of: &'static str,
    },
    /// Start from an assignment that obeys the rules.
    #[error("the initial assignment breaks a rule: {0}")]
    Infeasible(String),
}

/// Lists of variable length, end to end.
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

/// See the head of the file.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) instance: Instance,
    /// Lanes of a row.
    pub(crate) lanes: usize,
    pub(crate) locations: usize,
    pub(crate) neighbourhoods: usize,
    pub(crate) location: Vec<u32>,
    pub(crate) neighbourhood: Vec<u32>,
    /// Weight of each kind's load.
    pub(crate) load_weight: Vec<Lane>,
    pub(crate) capacity: Vec<Lane>,
    pub(crate) safety: Vec<Lane>,
    /// Two rows for each task: all that it uses, and the part that it uses only where it ends.
    pub(crate) holds: Vec<Lane>,
    pub(crate) job: Vec<u32>,
    pub(crate) initial: Vec<u32>,
    pub(crate) move_cost: Vec<i64>,
    /// Weighted cost of a move from machine to machine, by row of the first; empty if all are zero.
    pub(crate) machine_move: Vec<i64>,
    pub(crate) spread: Vec<u32>,
    pub(crate) depends_on: Lists,
    pub(crate) dependents: Lists,
    pub(crate) balances: Vec<Balance>,
}

impl Problem {
    /// Compiles an instance.
    ///
    /// # Errors
    /// If lists do not belong together, costs could overflow, or the initial assignment breaks a rule.
    pub fn new(instance: Instance) -> Result<Problem, ProblemError> {
        check_lists(&instance)?;
        check_costs(&instance)?;
        let lanes = instance.kinds.len().div_ceil(LANE).max(1);
        let (location, locations) =
            numbered(instance.machines.iter().map(|machine| machine.location));
        let (neighbourhood, neighbourhoods) =
            numbered(instance.machines.iter().map(|machine| machine.neighbourhood));
        let jobs = instance.jobs.len();
        check_table(jobs, instance.machines.len(), "machines")?;
        let rows = |amounts: fn(&crate::instance::Machine) -> &[i64]| -> Vec<Lane> {
            instance.machines.iter().flat_map(|m| row(amounts(m), lanes)).collect()
        };
        let (capacity, safety) = (rows(|m| &m.capacity), rows(|m| &m.safety));
        let mut dependents = vec![Vec::new(); jobs];
        for (job, entry) in (0..).zip(&instance.jobs) {
            entry.depends_on.iter().for_each(|on| dependents[*on as usize].push(job));
        }
        let weights: Vec<i64> = instance.kinds.iter().map(|kind| kind.load_weight).collect();
        let tasks = &instance.tasks;
        Ok(Problem {
            lanes,
            locations,
            neighbourhoods,
            location,
            neighbourhood,
            load_weight: row(&weights, lanes),
            capacity,
            safety,
            holds: holds(&instance, lanes),
            job: tasks.iter().map(|task| task.job).collect(),
            initial: instance.initial.clone(),
            move_cost: tasks.iter().map(|task| task.move_cost * instance.weights.task).collect(),
            machine_move: machine_moves(&instance),
            spread: instance.jobs.iter().map(|job| job.spread).collect(),
            depends_on: Lists::new(instance.jobs.iter().map(|job| job.depends_on.clone())),
            dependents: Lists::new(dependents.into_iter()),
            balances: instance.balances.clone(),
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

    /// Amounts that a task occupies on a machine beside those that stay occupied there anyway while it moves.
    pub(crate) fn hold(&self, task: usize, machine: usize) -> &[Lane] {
        let row = task * 2 + usize::from(self.initial[task] as usize == machine);
        &self.holds[row * self.lanes..(row + 1) * self.lanes]
    }

    /// All that a task uses.
    pub(crate) fn request(&self, task: usize) -> &[Lane] {
        &self.holds[task * 2 * self.lanes..(task * 2 + 1) * self.lanes]
    }

    /// Weighted cost of moving a task to a machine from where it is initially, without that of its job.
    pub(crate) fn moving(&self, task: usize, machine: usize) -> i64 {
        let initial = self.initial[task] as usize;
        if initial == machine {
            return 0;
        }
        let between = self.machine_move.get(initial * self.machines() + machine);
        self.move_cost[task] + between.copied().unwrap_or(0)
    }
}

fn row(amounts: &[i64], lanes: usize) -> Vec<Lane> {
    let mut row = vec![[0; LANE]; lanes];
    for (at, amount) in amounts.iter().enumerate() {
        row[at / LANE][at % LANE] = *amount;
    }
    row
}

fn holds(instance: &Instance, lanes: usize) -> Vec<Lane> {
    let mut holds = Vec::with_capacity(instance.tasks.len() * 2 * lanes);
    for task in &instance.tasks {
        holds.extend(row(&task.request, lanes));
        let kinds = instance.kinds.iter().zip(&task.request);
        let only_new: Vec<i64> = kinds
            .map(|(kind, amount)| match kind.use_while_moving {
                Transience::Both => 0,
                Transience::New => *amount,
            })
            .collect();
        holds.extend(row(&only_new, lanes));
    }
    holds
}

fn machine_moves(instance: &Instance) -> Vec<i64> {
    let weight = instance.weights.machine;
    let all = || instance.machines.iter().flat_map(|machine| &machine.move_costs);
    if weight == 0 || all().all(|cost| *cost == 0) {
        return Vec::new();
    }
    all().map(|cost| cost * weight).collect()
}

/// Numbers from 0 for the distinct values, and how many there are.
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

fn check_table(jobs: usize, columns: usize, of: &'static str) -> Result<(), ProblemError> {
    if jobs.saturating_mul(columns) <= TABLE_MAX {
        return Ok(());
    }
    Err(ProblemError::Table { jobs, columns, of })
}

fn check_lists(instance: &Instance) -> Result<(), ProblemError> {
    let Instance { kinds, machines, jobs, tasks, balances, initial, .. } = instance;
    for (at, machine) in machines.iter().enumerate() {
        check_length(format!("machine {at}: capacity"), machine.capacity.len(), kinds.len())?;
        check_length(format!("machine {at}: safety"), machine.safety.len(), kinds.len())?;
        if instance.machines.iter().any(|machine| !machine.move_costs.is_empty()) {
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
    }
    for (at, balance) in balances.iter().enumerate() {
        check_position(|| format!("balance {at}: first kind"), balance.first, kinds.len())?;
        check_position(|| format!("balance {at}: second kind"), balance.second, kinds.len())?;
    }
    Ok(())
}

/// Bounds the cost of every assignment: all use on one machine, and all machines free.
fn check_costs(instance: &Instance) -> Result<(), ProblemError> {
    let wide = |value: i64| i128::from(value);
    let mut most = 0_i128;
    let capacity = |kind: usize| -> i128 {
        instance.machines.iter().map(|machine| wide(machine.capacity[kind])).sum()
    };
    let use_of =
        |kind: usize| -> i128 { instance.tasks.iter().map(|task| wide(task.request[kind])).sum() };
    for (at, kind) in instance.kinds.iter().enumerate() {
        most += wide(kind.load_weight) * use_of(at) + capacity(at);
    }
    for balance in &instance.balances {
        let (first, second) = (balance.first as usize, balance.second as usize);
        let missing = wide(balance.target) * (capacity(first) + use_of(first)) + capacity(second);
        most += wide(balance.weight) * (missing + use_of(second));
    }
    let costs = instance.tasks.iter().map(|task| wide(task.move_cost));
    most += wide(instance.weights.task) * costs.sum::<i128>();
    let dearest = instance.machines.iter().flat_map(|machine| &machine.move_costs).max();
    let each = wide(instance.weights.machine) * wide(dearest.copied().unwrap_or(0));
    most += (each + wide(instance.weights.job)) * instance.tasks.len() as i128;
    if most <= COST_MAX { Ok(()) } else { Err(ProblemError::Costs) }
}
