//! State of a search: which task runs where, with running sums that make a change cost O(kinds).
//!
//! A task that is moved away from its initial machine leaves its use of transient kinds there; a move back needs none of
//! them. Both follow from [`Problem::hold`]: `free` falls by it on arrival and rises by it on departure.

use crate::problem::{LANE, Lane, Problem, ProblemError};

/// Weighted costs of an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Use above safety levels.
    pub load: i64,
    /// Free amounts of one kind without another.
    pub balance: i64,
    /// Moved tasks.
    pub task_moves: i64,
    /// Moved tasks of the job with the most.
    pub job_moves: i64,
    /// Moves between machines.
    pub machine_moves: i64,
}

impl Costs {
    /// Their sum.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.load + self.balance + self.task_moves + self.job_moves + self.machine_moves
    }
}

/// See the head of the file.
#[derive(Clone, Debug)]
pub struct State<'p> {
    pub(crate) problem: &'p Problem,
    /// Machine of each task.
    pub(crate) at: Vec<u32>,
    /// Tasks of each machine, and the position of each task there.
    pub(crate) on: Vec<Vec<u32>>,
    seat: Vec<u32>,
    /// Rows of amounts that are free, with transient kinds occupied by tasks that were moved away.
    free: Vec<Lane>,
    /// Rows of amounts below the safety level.
    slack: Vec<Lane>,
    /// Load and balance cost of each machine.
    machine_cost: Vec<i64>,
    /// Tasks of a job by machine, by location and by neighbourhood.
    on_machine: Vec<u16>,
    in_location: Vec<u16>,
    in_neighbourhood: Vec<u16>,
    /// Locations of each job.
    spread: Vec<u32>,
    /// Moved tasks of each job; the number of jobs with so many; the most.
    moved: Vec<u32>,
    jobs_with: Vec<u32>,
    most_moved: u32,
    pub(crate) cost: i64,
}

impl<'p> State<'p> {
    /// The initial assignment.
    ///
    /// # Errors
    /// If it breaks a rule.
    pub fn new(problem: &'p Problem) -> Result<State<'p>, ProblemError> {
        let (jobs, machines) = (problem.jobs(), problem.machines());
        let mut state = State {
            problem,
            at: problem.initial.clone(),
            on: vec![Vec::new(); machines],
            seat: vec![0; problem.tasks()],
            free: problem.capacity.clone(),
            slack: problem.safety.clone(),
            machine_cost: vec![0; machines],
            on_machine: vec![0; jobs * machines],
            in_location: vec![0; jobs * problem.locations],
            in_neighbourhood: vec![0; jobs * problem.neighbourhoods],
            spread: vec![0; jobs],
            moved: vec![0; jobs],
            jobs_with: vec![0; problem.tasks() + 1],
            most_moved: 0,
            cost: 0,
        };
        state.jobs_with[0] = jobs as u32;
        for task in 0..problem.tasks() {
            let machine = problem.initial[task] as usize;
            let request = problem.request(task);
            let range = machine * problem.lanes..(machine + 1) * problem.lanes;
            subtract(&mut state.free[range.clone()], request);
            subtract(&mut state.slack[range], request);
            state.enter(task, machine);
        }
        for machine in 0..machines {
            state.machine_cost[machine] = state.cost_with(machine, |_| [0; LANE]);
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
        self.cost
    }

    /// Parts of the cost.
    #[must_use]
    pub fn costs(&self) -> Costs {
        let problem = self.problem;
        let load_of = |slack: &[Lane]| -> i64 {
            let kinds = slack.iter().flatten().zip(problem.load_weight.iter().flatten());
            kinds.map(|(slack, weight)| weight * (-slack).max(0)).sum()
        };
        let load = self.slack.chunks(problem.lanes).map(load_of).sum();
        let moved = || (0..problem.tasks()).filter(|task| self.at[*task] != problem.initial[*task]);
        let task_moves = moved().map(|task| problem.move_cost[task]).sum();
        let all: i64 = moved().map(|task| problem.moving(task, self.at[task] as usize)).sum();
        Costs {
            load,
            balance: self.machine_cost.iter().sum::<i64>() - load,
            task_moves,
            job_moves: i64::from(self.most_moved) * problem.instance.weights.job,
            machine_moves: all - task_moves,
        }
    }

    /// Change of the cost if a task moved to a machine; `None` if a rule forbids it.
    #[must_use]
    pub fn change_by_move(&self, task: usize, to: usize) -> Option<i64> {
        if self.at[task] as usize == to {
            return Some(0);
        }
        self.shift(task, to, self.saving(task))
    }

    /// Change of the cost if two tasks on two machines took each other's place; `None` if a rule forbids it.
    #[must_use]
    pub fn change_by_exchange(&self, a: usize, b: usize) -> Option<i64> {
        if self.at[a] == self.at[b] {
            return Some(0);
        }
        self.may_swap(a, b).then(|| self.swap(a, b))
    }

    /// Checks all rules of all tasks.
    fn check(&self) -> Result<(), String> {
        for (machine, free) in self.free.chunks(self.problem.lanes).enumerate() {
            if free.iter().flatten().any(|amount| *amount < 0) {
                return Err(format!("machine {machine} is used beyond its capacity"));
            }
        }
        for task in 0..self.problem.tasks() {
            if !self.is_legal(task) {
                let (job, machine) = (self.problem.job[task], self.at[task]);
                return Err(format!(
                    "task {task} of job {job} on machine {machine}: two of a job on a machine, too few locations, or no \
                     task of a job that it depends on in its neighbourhood"
                ));
            }
        }
        Ok(())
    }

    /// Cost of a machine if its use grew by `more`.
    #[inline]
    fn cost_with(&self, machine: usize, more: impl Fn(usize) -> Lane) -> i64 {
        let problem = self.problem;
        let base = machine * problem.lanes;
        let slack = &self.slack[base..base + problem.lanes];
        let mut cost = 0;
        for (at, (slack, weight)) in slack.iter().zip(&problem.load_weight).enumerate() {
            let more = more(at);
            for kind in 0..LANE {
                cost += weight[kind] * (more[kind] - slack[kind]).max(0);
            }
        }
        for balance in &problem.balances {
            let free = |kind: u32| {
                let (lane, kind) = (kind as usize / LANE, kind as usize % LANE);
                let unsafe_part =
                    problem.capacity[base + lane][kind] - problem.safety[base + lane][kind];
                slack[lane][kind] + unsafe_part - more(lane)[kind]
            };
            let missing = balance.target * free(balance.first) - free(balance.second);
            cost += balance.weight * missing.max(0);
        }
        cost
    }

    /// Saving of a task's departure from its machine, in load and balance.
    #[inline]
    pub(crate) fn saving(&self, task: usize) -> i64 {
        let (machine, request) = (self.at[task] as usize, self.problem.request(task));
        self.machine_cost[machine] - self.cost_with(machine, |lane| negative(request[lane]))
    }

    /// Whether a machine has room for a task.
    #[inline]
    pub(crate) fn fits(&self, task: usize, machine: usize) -> bool {
        let base = machine * self.problem.lanes;
        let hold = self.problem.hold(task, machine);
        let free = &self.free[base..base + hold.len()];
        free.iter().zip(hold).all(|(free, hold)| (0..LANE).all(|kind| hold[kind] <= free[kind]))
    }

    /// Whether a machine has room for `task` in place of `other`.
    #[inline]
    fn fits_instead(&self, task: usize, other: usize, machine: usize) -> bool {
        let base = machine * self.problem.lanes;
        let (hold, gone) = (self.problem.hold(task, machine), self.problem.hold(other, machine));
        let free = &self.free[base..base + hold.len()];
        free.iter()
            .zip(hold.iter().zip(gone))
            .all(|(free, (hold, gone))| (0..LANE).all(|kind| hold[kind] - gone[kind] <= free[kind]))
    }

    /// Change of the cost of moves if a task were on a machine instead of where it is.
    #[inline]
    pub(crate) fn moving(&self, task: usize, to: usize) -> i64 {
        let change = self.move_costs(task, to);
        match self.more_moved(task, to) {
            0 => change,
            more => {
                let job = self.problem.job[task];
                change + self.of_job_moves([(job, more), (job, 0)])
            }
        }
    }

    #[inline]
    fn move_costs(&self, task: usize, to: usize) -> i64 {
        self.problem.moving(task, to) - self.problem.moving(task, self.at[task] as usize)
    }

    /// 1 if a task leaves its initial machine by a move, -1 if it returns there.
    #[inline]
    fn more_moved(&self, task: usize, to: usize) -> i32 {
        let initial = self.problem.initial[task];
        i32::from(self.at[task] == initial) - i32::from(to == initial as usize)
    }

    /// Change of the cost of the job with the most moved tasks, if the moved tasks of two jobs change.
    fn of_job_moves(&self, changes: [(u32, i32); 2]) -> i64 {
        let weight = self.problem.instance.weights.job;
        if weight == 0 {
            return 0;
        }
        let [(a, more_a), (b, more_b)] = changes;
        let is_one_job = a == b;
        let of = |job: u32, more: i32| (self.moved[job as usize], more);
        let (old_a, more_a) = of(a, if is_one_job { more_a + more_b } else { more_a });
        let (old_b, more_b) = if is_one_job { (old_a, more_a) } else { of(b, more_b) };
        let changed =
            |count: u32| u32::from(old_a == count) + u32::from(!is_one_job && old_b == count);
        let mut others = self.most_moved;
        while others > 0 && self.jobs_with[others as usize] == changed(others) {
            others -= 1;
        }
        let new = |old: u32, more: i32| old.saturating_add_signed(more);
        let most = others.max(new(old_a, more_a)).max(new(old_b, more_b));
        weight * (i64::from(most) - i64::from(self.most_moved))
    }

    /// Whether no rule about other tasks forbids a task on another machine.
    #[inline]
    pub(crate) fn may_move(&self, task: usize, to: usize) -> bool {
        let problem = self.problem;
        let job = problem.job[task] as usize;
        self.on_machine[job * problem.machines() + to] == 0 && self.may_change_domain(task, to)
    }

    #[inline]
    fn may_change_domain(&self, task: usize, to: usize) -> bool {
        let problem = self.problem;
        let (job, from) = (problem.job[task] as usize, self.at[task] as usize);
        let (old, new) = (problem.location[from] as usize, problem.location[to] as usize);
        if old != new && problem.spread[job] > 1 {
            let row = &self.in_location[job * problem.locations..(job + 1) * problem.locations];
            let spread = self.spread[job] + u32::from(row[new] == 0) - u32::from(row[old] == 1);
            if spread < problem.spread[job] {
                return false;
            }
        }
        let (old, new) = (problem.neighbourhood[from] as usize, problem.neighbourhood[to] as usize);
        old == new || self.may_change_neighbourhood(job, old, new)
    }

    #[inline]
    fn may_change_neighbourhood(&self, job: usize, old: usize, new: usize) -> bool {
        let problem = self.problem;
        let has = |job: u32, domain: usize| self.count_in(job as usize, domain) > 0;
        let others = |jobs: &'p [u32]| jobs.iter().filter(move |other| **other as usize != job);
        others(problem.depends_on.of(job)).all(|on| has(*on, new))
            && (self.count_in(job, old) > 1
                || others(problem.dependents.of(job)).all(|dependent| !has(*dependent, old)))
    }

    /// Tasks of a job in a neighbourhood.
    #[inline]
    pub(crate) fn count_in(&self, job: usize, neighbourhood: usize) -> u16 {
        self.in_neighbourhood[job * self.problem.neighbourhoods + neighbourhood]
    }

    /// Change of the cost by a move; `None` if it is not possible. `saving` is that of the task.
    #[inline]
    pub(crate) fn shift(&self, task: usize, to: usize, saving: i64) -> Option<i64> {
        if !self.fits(task, to) || !self.may_move(task, to) {
            return None;
        }
        let request = self.problem.request(task);
        let arrival = self.cost_with(to, |lane| request[lane]) - self.machine_cost[to];
        Some(arrival - saving + self.moving(task, to))
    }

    /// Whether two tasks on two machines may take each other's place.
    pub(crate) fn may_swap(&self, a: usize, b: usize) -> bool {
        let problem = self.problem;
        let (at_a, at_b) = (self.at[a] as usize, self.at[b] as usize);
        let (job_a, job_b) = (problem.job[a] as usize, problem.job[b] as usize);
        if !self.fits_instead(a, b, at_b) || !self.fits_instead(b, a, at_a) {
            return false;
        }
        if job_a == job_b {
            return true;
        }
        self.may_move(a, at_b) && self.may_move(b, at_a) && {
            let same = problem.neighbourhood[at_a] == problem.neighbourhood[at_b];
            same || !self.are_dependent(job_a, job_b)
        }
    }

    fn are_dependent(&self, a: usize, b: usize) -> bool {
        let depends =
            |on: usize, job: usize| self.problem.depends_on.of(job).contains(&(on as u32));
        depends(a, b) || depends(b, a)
    }

    /// Change of the cost by an exchange; only if [`State::may_swap`].
    #[inline]
    pub(crate) fn swap(&self, a: usize, b: usize) -> i64 {
        let problem = self.problem;
        let (at_a, at_b) = (self.at[a] as usize, self.at[b] as usize);
        let (request_a, request_b) = (problem.request(a), problem.request(b));
        let there = self.cost_with(at_b, |lane| difference(request_a[lane], request_b[lane]));
        let here = self.cost_with(at_a, |lane| difference(request_b[lane], request_a[lane]));
        let change = there + here - self.machine_cost[at_a] - self.machine_cost[at_b]
            + self.move_costs(a, at_b)
            + self.move_costs(b, at_a);
        match (self.more_moved(a, at_b), self.more_moved(b, at_a)) {
            (0, 0) => change,
            (more_a, more_b) => {
                change + self.of_job_moves([(problem.job[a], more_a), (problem.job[b], more_b)])
            }
        }
    }

    /// Puts a task on another machine, whatever the rules say. The cost follows.
    pub fn put(&mut self, task: usize, to: usize) {
        let problem = self.problem;
        let from = self.at[task] as usize;
        if from == to {
            return;
        }
        self.cost += self.moving(task, to) - self.machine_cost[from] - self.machine_cost[to];
        self.count_job_move(task, from, to);
        let lanes = problem.lanes;
        let (old, new) = (from * lanes..(from + 1) * lanes, to * lanes..(to + 1) * lanes);
        add(&mut self.free[old.clone()], problem.hold(task, from));
        add(&mut self.slack[old], problem.request(task));
        subtract(&mut self.free[new.clone()], problem.hold(task, to));
        subtract(&mut self.slack[new], problem.request(task));
        self.leave(task, from);
        self.enter(task, to);
        for machine in [from, to] {
            self.machine_cost[machine] = self.cost_with(machine, |_| [0; LANE]);
            self.cost += self.machine_cost[machine];
        }
    }

    fn count_job_move(&mut self, task: usize, from: usize, to: usize) {
        let (job, initial) = (self.problem.job[task] as usize, self.problem.initial[task] as usize);
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
        self.on_machine[job * problem.machines() + machine] += 1;
        let locations =
            &mut self.in_location[job * problem.locations + problem.location[machine] as usize];
        *locations += 1;
        self.spread[job] += u32::from(*locations == 1);
        let domain = problem.neighbourhood[machine] as usize;
        self.in_neighbourhood[job * problem.neighbourhoods + domain] += 1;
        self.at[task] = machine as u32;
        self.seat[task] = self.on[machine].len() as u32;
        self.on[machine].push(task as u32);
    }

    fn leave(&mut self, task: usize, machine: usize) {
        let problem = self.problem;
        let job = problem.job[task] as usize;
        self.on_machine[job * problem.machines() + machine] -= 1;
        let locations =
            &mut self.in_location[job * problem.locations + problem.location[machine] as usize];
        *locations -= 1;
        self.spread[job] -= u32::from(*locations == 0);
        let domain = problem.neighbourhood[machine] as usize;
        self.in_neighbourhood[job * problem.neighbourhoods + domain] -= 1;
        let seat = self.seat[task] as usize;
        self.on[machine].swap_remove(seat);
        if let Some(other) = self.on[machine].get(seat) {
            self.seat[*other as usize] = seat as u32;
        }
    }

    /// Whether a machine is not used beyond its capacity.
    pub(crate) fn has_room(&self, machine: usize) -> bool {
        let base = machine * self.problem.lanes;
        self.free[base..base + self.problem.lanes].iter().flatten().all(|amount| *amount >= 0)
    }

    /// Whether a task where it is breaks no rule about other tasks.
    pub(crate) fn is_legal(&self, task: usize) -> bool {
        let problem = self.problem;
        let (job, machine) = (problem.job[task] as usize, self.at[task] as usize);
        let domain = problem.neighbourhood[machine] as usize;
        self.on_machine[job * problem.machines() + machine] <= 1
            && self.spread[job] >= problem.spread[job]
            && self.has_dependencies(job, domain)
    }

    /// Whether a neighbourhood has a task of each job that a job depends on.
    pub(crate) fn has_dependencies(&self, job: usize, domain: usize) -> bool {
        self.problem.depends_on.of(job).iter().all(|on| self.count_in(*on as usize, domain) > 0)
    }

    /// Whether the tasks that depend on a job in a neighbourhood still have one, after some of it have left.
    pub(crate) fn serves_dependents(&self, job: usize, domain: usize) -> bool {
        self.count_in(job, domain) > 0
            || self
                .problem
                .dependents
                .of(job)
                .iter()
                .all(|dependent| self.count_in(*dependent as usize, domain) == 0)
    }
}

fn negative(lane: Lane) -> Lane {
    lane.map(|amount| -amount)
}

fn difference(a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|kind| a[kind] - b[kind])
}

fn add(row: &mut [Lane], more: &[Lane]) {
    for (row, more) in row.iter_mut().zip(more) {
        (0..LANE).for_each(|kind| row[kind] += more[kind]);
    }
}

fn subtract(row: &mut [Lane], less: &[Lane]) {
    for (row, less) in row.iter_mut().zip(less) {
        (0..LANE).for_each(|kind| row[kind] -= less[kind]);
    }
}
