//! Rules about tasks: one task of a job on a machine, spread over locations, dependencies within neighbourhoods,
//! allowed machines, limits on moves. The checks of capacity are in `changes.rs`.

use crate::instance::MoveLimits;
use crate::state::State;

impl State<'_> {
    /// Checks the capacity of all machines, and the rules for all tasks.
    pub(crate) fn check(&self) -> Result<(), String> {
        for machine in 0..self.problem.machines() {
            if !self.has_room(machine) {
                let free = self.free(machine).as_flattened().iter();
                let kind = free.take_while(|free| **free >= 0.0).count();
                let over = -self.free(machine).as_flattened()[kind];
                return Err(format!(
                    "the tasks on machine {machine} use {over} more of resource {kind} than it has"
                ));
            }
        }
        for task in 0..self.problem.tasks() {
            if !self.is_legal(task) {
                let (job, machine) = (self.problem.job[task], self.at[task]);
                let rule = self.broken_rule(task);
                return Err(format!("task {task} of job {job} on machine {machine}: {rule}"));
            }
        }
        Ok(())
    }

    /// Whether all rules except capacity allow a task to move to a machine.
    #[inline]
    pub(crate) fn may_move(&self, task: usize, to: usize) -> bool {
        self.may_enter(task, to) && self.is_within_limits(&[(task, to)])
    }

    /// Whether all rules except capacity and the limits on moves allow a task to move to a machine.
    #[inline]
    fn may_enter(&self, task: usize, to: usize) -> bool {
        let problem = self.problem;
        let job = problem.job[task] as usize;
        self.count_on(job, to) == 0
            && self.may_change_domain(job, self.at[task] as usize, to)
            && problem.is_allowed(task, to)
    }

    /// Whether the limits on moves allow these moves together. A move is a task and its new machine.
    #[inline]
    fn is_within_limits(&self, moves: &[(usize, usize)]) -> bool {
        let (limits, job) = (self.problem.limits, &self.problem.job);
        if limits == MoveLimits::default() {
            return true;
        }
        let more = |(task, to): &(usize, usize)| self.more_moved(*task, *to);
        let total = self.away.len() as i64 + moves.iter().map(more).map(i64::from).sum::<i64>();
        let of_job = |task: usize| {
            let of_it = moves.iter().filter(|(other, _)| job[*other] == job[task]);
            i64::from(self.moved[job[task] as usize]) + of_it.map(more).map(i64::from).sum::<i64>()
        };
        total <= i64::from(limits.total)
            && moves.iter().all(|(task, _)| of_job(*task) <= i64::from(limits.per_job))
    }

    /// Number of tasks of a job on a machine; 0 for jobs whose tasks may share machines.
    #[inline]
    fn count_on(&self, job: usize, machine: usize) -> u16 {
        self.problem.apart.cell(job, machine).map_or(0, |cell| self.on_machine[cell])
    }

    /// Whether spread and dependencies allow a task of the job to move between two machines.
    #[inline]
    fn may_change_domain(&self, job: usize, from: usize, to: usize) -> bool {
        let problem = self.problem;
        let (old, new) = (problem.location[from] as usize, problem.location[to] as usize);
        if let (Some(old), Some(new)) =
            (problem.spreading.cell(job, old), problem.spreading.cell(job, new))
            && old != new
        {
            let more = u32::from(self.in_location[new] == 0);
            let less = u32::from(self.in_location[old] == 1);
            if self.spread[job] + more - less < problem.spread[job] {
                return false;
            }
        }
        let (old, new) = (problem.neighbourhood[from] as usize, problem.neighbourhood[to] as usize);
        old == new || self.may_change_neighbourhood(job, old, new)
    }

    #[inline]
    fn may_change_neighbourhood(&self, job: usize, old: usize, new: usize) -> bool {
        let problem = self.problem;
        let has = |other: &u32, domain: usize| {
            *other as usize == job || self.count_in(*other as usize, domain) > 0
        };
        problem.depends_on.of(job).iter().all(|on| has(on, new))
            && (self.count_in(job, old) > 1
                || problem.dependents.of(job).iter().all(|dependent| {
                    *dependent as usize == job || self.count_in(*dependent as usize, old) == 0
                }))
    }

    /// Number of tasks of a job in a neighbourhood; 0 if no dependency concerns the job.
    #[inline]
    pub(crate) fn count_in(&self, job: usize, neighbourhood: usize) -> u16 {
        let cell = self.problem.depending.cell(job, neighbourhood);
        cell.map_or(0, |cell| self.in_neighbourhood[cell])
    }

    /// Whether all rules except capacity allow a displacement. `task` moves to the machine of `other`, and `other`
    /// moves to the machine `to`, which may be the old machine of `task`.
    #[inline]
    pub(crate) fn may_displace(&self, task: usize, other: usize, to: usize) -> bool {
        let problem = self.problem;
        let (from, place) = (self.at[task] as usize, self.at[other] as usize);
        let (job, other_job) = (problem.job[task] as usize, problem.job[other] as usize);
        if !self.is_within_limits(&[(task, place), (other, to)]) {
            return false;
        }
        if job == other_job {
            return from == to && problem.is_allowed(task, place) && problem.is_allowed(other, to)
                || self.count_on(job, to) == 0
                    && self.may_change_domain(job, from, to)
                    && problem.is_allowed(task, place)
                    && problem.is_allowed(other, to);
        }
        self.may_enter(task, place) && self.may_enter(other, to) && {
            let domain = |machine: usize| problem.neighbourhood[machine];
            domain(from) == domain(place)
                || domain(place) == domain(to)
                || !self.are_dependent(job, other_job)
        }
    }

    fn are_dependent(&self, a: usize, b: usize) -> bool {
        let depends =
            |on: usize, job: usize| self.problem.depends_on.of(job).contains(&(on as u32));
        depends(a, b) || depends(b, a)
    }

    /// Whether a task breaks no rule except capacity on its present machine.
    pub(crate) fn is_legal(&self, task: usize) -> bool {
        let problem = self.problem;
        let (job, machine) = (problem.job[task] as usize, self.at[task] as usize);
        let domain = problem.neighbourhood[machine] as usize;
        self.count_on(job, machine) <= 1
            && (self.spread[job] >= problem.spread[job] || problem.spread[job] <= 1)
            && problem.is_allowed(task, machine)
            && self.moved[job] <= problem.limits.per_job
            && self.away.len() as u64 <= u64::from(problem.limits.total)
            && self.has_dependencies(job, domain)
    }

    /// The rule that a task breaks on its present machine.
    fn broken_rule(&self, task: usize) -> String {
        let problem = self.problem;
        let (job, machine) = (problem.job[task] as usize, self.at[task] as usize);
        let domain = problem.neighbourhood[machine] as usize;
        let lacks = |on: &&u32| self.count_in(**on as usize, domain) == 0;
        if self.count_on(job, machine) > 1 {
            "another task of the job is on this machine".into()
        } else if self.spread[job] < problem.spread[job] {
            let (has, wanted) = (self.spread[job], problem.spread[job]);
            format!("the job's tasks are at {has} locations, but {wanted} are required")
        } else if let Some(on) = problem.depends_on.of(job).iter().find(lacks) {
            format!("the job depends on job {on}, which has no task in neighbourhood {domain}")
        } else if !problem.is_allowed(task, machine) {
            "the task is not allowed on this machine".into()
        } else {
            "more tasks were moved than the limits allow".into()
        }
    }

    /// Whether a neighbourhood has a task of each of the jobs on which `job` depends.
    pub(crate) fn has_dependencies(&self, job: usize, domain: usize) -> bool {
        self.problem.depends_on.of(job).iter().all(|on| self.count_in(*on as usize, domain) > 0)
    }

    /// Whether a neighbourhood has a task of the job, or has no task of any job that depends on it.
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
