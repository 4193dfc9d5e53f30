//! State of a search: the machine of each task, with running sums that make a change cost O(kinds).
//!
//! A task that moves away from its initial machine still occupies its transient kinds there. So it needs no further
//! room for these kinds when it moves back. [`Problem::occupied`] returns the kinds whose free amounts change when a
//! task arrives or departs.

use crate::problem::{LANE, Lane, Problem, ProblemError};

/// Weighted costs of an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Cost of use above safety levels.
    pub load: i64,
    /// Cost of imbalance: the free amount of one kind is too small in proportion to that of another kind.
    pub balance: i64,
    /// Cost of moves that depends on the task: the move costs of the moved tasks.
    pub task_moves: i64,
    /// Cost of the largest number of moved tasks of any job.
    pub job_moves: i64,
    /// Cost of moves that depends on the old and new machines of the moved tasks.
    pub machine_moves: i64,
}

impl Costs {
    /// Sum of all costs.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.load + self.balance + self.task_moves + self.job_moves + self.machine_moves
    }
}

/// Value in `place_away` for a task that is on its initial machine.
const NOT_MOVED: u32 = u32::MAX;

/// An assignment during a search, with running sums.
#[derive(Clone, Debug)]
pub struct State<'p> {
    pub(crate) problem: &'p Problem,
    /// Machine of each task.
    pub(crate) at: Vec<u32>,
    /// Tasks on each machine; `place_on` is the position of each task in its machine's list.
    pub(crate) on: Vec<Vec<u32>>,
    place_on: Vec<u32>,
    /// Tasks that are not on their initial machines; `place_away` is the position of each task in this list.
    pub(crate) away: Vec<u32>,
    place_away: Vec<u32>,
    /// Two rows for each machine. The first row has the free amounts; transient kinds that moved tasks still occupy are
    /// not free. The second row has the amounts left below the safety level.
    rooms: Vec<Lane>,
    /// Load and balance cost of each machine.
    pub(crate) machine_cost: Vec<f64>,
    /// Number of tasks of each job on each machine, in each location and in each neighbourhood. The rows are those of
    /// [`Problem::apart`], [`Problem::spreading`] and [`Problem::depending`].
    pub(crate) on_machine: Vec<u16>,
    pub(crate) in_location: Vec<u16>,
    pub(crate) in_neighbourhood: Vec<u16>,
    /// Number of locations with tasks of each job, counted only for jobs that must be spread.
    pub(crate) spread: Vec<u32>,
    /// `moved`: number of moved tasks of each job. `jobs_with`: number of jobs for each number of moved tasks.
    /// `most_moved`: the maximum of `moved`.
    pub(crate) moved: Vec<u32>,
    pub(crate) jobs_with: Vec<u32>,
    pub(crate) most_moved: u32,
    pub(crate) cost: f64,
}

impl<'p> State<'p> {
    /// Returns the state of the initial assignment.
    ///
    /// # Errors
    /// If the initial assignment breaks a rule.
    pub fn new(problem: &'p Problem) -> Result<State<'p>, ProblemError> {
        let (jobs, machines) = (problem.jobs(), problem.machines());
        let lanes = problem.lanes;
        let rows = problem.capacity.chunks(lanes).zip(problem.safety.chunks(lanes));
        let mut state = State {
            problem,
            at: problem.initial.clone(),
            on: vec![Vec::new(); machines],
            place_on: vec![0; problem.tasks()],
            away: Vec::new(),
            place_away: vec![NOT_MOVED; problem.tasks()],
            rooms: rows.flat_map(|(capacity, safety)| [capacity, safety].concat()).collect(),
            machine_cost: vec![0.0; machines],
            on_machine: problem.apart.zeros(),
            in_location: problem.spreading.zeros(),
            in_neighbourhood: problem.depending.zeros(),
            spread: vec![0; jobs],
            moved: vec![0; jobs],
            jobs_with: vec![0; problem.tasks() + 1],
            most_moved: 0,
            cost: 0.0,
        };
        state.jobs_with[0] = jobs as u32;
        for task in 0..problem.tasks() {
            let machine = problem.initial[task] as usize;
            let request = problem.request(task);
            let row = &mut state.rooms[machine * 2 * lanes..(machine + 1) * 2 * lanes];
            let (free, slack) = row.split_at_mut(lanes);
            subtract(free, request);
            subtract(slack, request);
            state.enter(task, machine);
        }
        for machine in 0..machines {
            state.machine_cost[machine] = state.cost_with(machine, |_| [0.0; LANE]);
            state.cost += state.machine_cost[machine];
        }
        state.check().map_err(ProblemError::Infeasible)?;
        Ok(state)
    }

    /// Machine of each task.
    #[must_use]
    pub fn assignment(&self) -> &[u32] {
        &self.at
    }

    /// Cost of the assignment.
    #[must_use]
    pub fn cost(&self) -> i64 {
        self.cost as i64
    }

    /// Returns the parts of the cost, computed from the assignment.
    #[must_use]
    pub fn costs(&self) -> Costs {
        let problem = self.problem;
        let load_of = |machine| -> f64 {
            let kinds =
                self.slack(machine).iter().flatten().zip(problem.load_weight.iter().flatten());
            kinds.map(|(slack, weight)| weight * (-slack).max(0.0)).sum()
        };
        let load: f64 = (0..problem.machines()).map(load_of).sum();
        let moved = || self.away.iter().map(|task| *task as usize);
        let task_moves: f64 = moved().map(|task| problem.move_cost[task]).sum();
        let all: f64 = moved().map(|task| problem.moving(task, self.at[task] as usize)).sum();
        Costs {
            load: load as i64,
            balance: (self.machine_cost.iter().sum::<f64>() - load) as i64,
            task_moves: task_moves as i64,
            job_moves: i64::from(self.most_moved) * problem.instance.weights.job,
            machine_moves: (all - task_moves) as i64,
        }
    }

    /// Amounts of a machine that are free.
    #[inline]
    pub(crate) fn free(&self, machine: usize) -> &[Lane] {
        let lanes = self.problem.lanes;
        &self.rooms[machine * 2 * lanes..][..lanes]
    }

    /// Returns the amounts of a machine that are left below its safety level; negative above it.
    #[inline]
    pub(crate) fn slack(&self, machine: usize) -> &[Lane] {
        let lanes = self.problem.lanes;
        &self.rooms[(machine * 2 + 1) * lanes..][..lanes]
    }

    /// Moves a task to a machine without checking rules, and updates all sums.
    pub fn put(&mut self, task: usize, to: usize) {
        let from = self.at[task] as usize;
        if from == to {
            return;
        }
        self.cost += self.moving(task, to) - self.machine_cost[from] - self.machine_cost[to];
        self.count_move(task, from, to);
        self.occupy(task, from, 1.0);
        self.occupy(task, to, -1.0);
        self.leave(task, from);
        self.enter(task, to);
        for machine in [from, to] {
            self.machine_cost[machine] = self.cost_with(machine, |_| [0.0; LANE]);
            self.cost += self.machine_cost[machine];
        }
    }

    /// Updates the free amounts of a machine: `sign` is 1 after a task's departure, and -1 after its arrival.
    fn occupy(&mut self, task: usize, machine: usize, sign: f64) {
        let problem = self.problem;
        let lanes = problem.lanes;
        let row = &mut self.rooms[machine * 2 * lanes..(machine + 1) * 2 * lanes];
        let (free, slack) = row.split_at_mut(lanes);
        let kinds = problem.request(task).iter().zip(problem.occupied(task, machine));
        for ((request, occupied), (free, slack)) in kinds.zip(free.iter_mut().zip(slack)) {
            let change = request.map(|amount| sign * amount);
            *slack = sum(*slack, change);
            *free = sum(*free, product(change, *occupied));
        }
    }

    fn count_move(&mut self, task: usize, from: usize, to: usize) {
        let (job, initial) = (self.problem.job[task] as usize, self.problem.initial[task] as usize);
        if from == initial {
            self.place_away[task] = self.away.len() as u32;
            self.away.push(task as u32);
        } else if to == initial {
            let place = self.place_away[task] as usize;
            self.away.swap_remove(place);
            if let Some(other) = self.away.get(place) {
                self.place_away[*other as usize] = place as u32;
            }
            self.place_away[task] = NOT_MOVED;
        } else {
            return;
        }
        let old = self.moved[job];
        let new = old + u32::from(from == initial) - u32::from(to == initial);
        self.moved[job] = new;
        self.jobs_with[old as usize] -= 1;
        self.jobs_with[new as usize] += 1;
        self.most_moved = self.most_moved.max(new);
        if self.jobs_with[self.most_moved as usize] == 0 {
            self.most_moved -= 1;
        }
    }

    fn enter(&mut self, task: usize, machine: usize) {
        let problem = self.problem;
        let job = problem.job[task] as usize;
        if let Some(cell) = problem.apart.cell(job, machine) {
            self.on_machine[cell] += 1;
        }
        if let Some(cell) = problem.spreading.cell(job, problem.location[machine] as usize) {
            self.in_location[cell] += 1;
            self.spread[job] += u32::from(self.in_location[cell] == 1);
        }
        if let Some(cell) = problem.depending.cell(job, problem.neighbourhood[machine] as usize) {
            self.in_neighbourhood[cell] += 1;
        }
        self.at[task] = machine as u32;
        self.place_on[task] = self.on[machine].len() as u32;
        self.on[machine].push(task as u32);
    }

    fn leave(&mut self, task: usize, machine: usize) {
        let problem = self.problem;
        let job = problem.job[task] as usize;
        if let Some(cell) = problem.apart.cell(job, machine) {
            self.on_machine[cell] -= 1;
        }
        if let Some(cell) = problem.spreading.cell(job, problem.location[machine] as usize) {
            self.in_location[cell] -= 1;
            self.spread[job] -= u32::from(self.in_location[cell] == 0);
        }
        if let Some(cell) = problem.depending.cell(job, problem.neighbourhood[machine] as usize) {
            self.in_neighbourhood[cell] -= 1;
        }
        let place = self.place_on[task] as usize;
        self.on[machine].swap_remove(place);
        if let Some(other) = self.on[machine].get(place) {
            self.place_on[*other as usize] = place as u32;
        }
    }
}

#[inline]
pub(crate) fn product(a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|kind| a[kind] * b[kind])
}

#[inline]
pub(crate) fn sum(a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|kind| a[kind] + b[kind])
}

fn subtract(row: &mut [Lane], less: &[Lane]) {
    for (row, less) in row.iter_mut().zip(less) {
        (0..LANE).for_each(|kind| row[kind] -= less[kind]);
    }
}
