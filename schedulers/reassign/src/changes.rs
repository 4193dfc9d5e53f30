//! Changes of the cost, computed before tasks move, and checks for room on the machines.

use crate::problem::{LANE, Lane};
use crate::state::{State, product, sum};

/// Displacement: `task` moves to the machine of the task `other`, and `other` moves to the machine `to`. If `to` is the
/// machine that `task` leaves, this is an exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Displacement {
    pub(crate) task: usize,
    pub(crate) other: usize,
    pub(crate) to: usize,
}

impl State<'_> {
    /// Change of the cost if a task moved to a machine; `None` if a rule forbids it.
    #[must_use]
    pub fn change_by_move(&self, task: usize, to: usize) -> Option<i64> {
        if self.at[task] as usize == to {
            return Some(0);
        }
        let may = self.fits(task, to) && self.may_move(task, to);
        may.then(|| self.change_by_shift(task, to) as i64)
    }

    /// Change of the cost if two tasks exchanged machines; `None` if a rule forbids it.
    #[must_use]
    pub fn change_by_exchange(&self, a: usize, b: usize) -> Option<i64> {
        if self.at[a] == self.at[b] {
            return Some(0);
        }
        let exchange = Displacement { task: a, other: b, to: self.at[a] as usize };
        let may = self.has_room_for(exchange) && self.may_displace(a, b, exchange.to);
        may.then(|| self.change_by(exchange) as i64)
    }

    /// Returns the load and balance cost that a machine would have if its use grew by `more`.
    #[inline]
    pub(crate) fn cost_with(&self, machine: usize, more: impl Fn(usize) -> Lane) -> f64 {
        let problem = self.problem;
        let slack = self.slack(machine);
        let mut sums = [0.0; LANE];
        for (at, (slack, weight)) in slack.iter().zip(&problem.load_weight).enumerate() {
            let more = more(at);
            for kind in 0..LANE {
                let above = more[kind] - slack[kind];
                sums[kind] += weight[kind] * if above > 0.0 { above } else { 0.0 };
            }
        }
        let mut cost = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        let base = machine * problem.lanes;
        for balance in &problem.balances {
            let free = |kind: usize| {
                let (lane, kind) = (kind / LANE, kind % LANE);
                let unsafe_part =
                    problem.capacity[base + lane][kind] - problem.safety[base + lane][kind];
                slack[lane][kind] + unsafe_part - more(lane)[kind]
            };
            let missing = balance.target * free(balance.first) - balance.per * free(balance.second);
            cost += balance.weight * if missing > 0.0 { missing } else { 0.0 };
        }
        cost
    }

    /// Returns by how much the load and balance cost of a task's machine would fall if the task left.
    #[inline]
    pub(crate) fn saving(&self, task: usize) -> f64 {
        let (machine, request) = (self.at[task] as usize, self.problem.request(task));
        self.machine_cost[machine] - self.cost_with(machine, |lane| negative(request[lane]))
    }

    /// Returns by how much the load and balance cost of a machine would rise if the task arrived.
    #[inline]
    pub(crate) fn increase(&self, task: usize, machine: usize) -> f64 {
        let request = self.problem.request(task);
        self.cost_with(machine, |lane| request[lane]) - self.machine_cost[machine]
    }

    /// Returns the change of the cost by a move, without checking rules or room.
    #[inline]
    pub(crate) fn change_by_shift(&self, task: usize, to: usize) -> f64 {
        self.increase(task, to) - self.saving(task) + self.moving(task, to)
    }

    /// Returns the change of the cost by a displacement, without checking rules or room.
    #[inline]
    pub(crate) fn change_by(&self, displacement: Displacement) -> f64 {
        let Displacement { task, other, to } = displacement;
        let problem = self.problem;
        let (from, place) = (self.at[task] as usize, self.at[other] as usize);
        let (request, gone) = (problem.request(task), problem.request(other));
        let there = self.cost_with(place, |lane| difference(request[lane], gone[lane]))
            - self.machine_cost[place];
        let elsewhere = if to == from {
            self.cost_with(from, |lane| difference(gone[lane], request[lane]))
                - self.machine_cost[from]
        } else {
            self.increase(other, to) - self.saving(task)
        };
        let change = there + elsewhere + self.move_costs(task, place) + self.move_costs(other, to);
        match (self.more_moved(task, place), self.more_moved(other, to)) {
            (0, 0) => change,
            (more, more_other) => {
                let changes = [(problem.job[task], more), (problem.job[other], more_other)];
                change + self.of_job_moves(changes)
            }
        }
    }

    /// Whether a machine has room for a task.
    #[inline]
    pub(crate) fn fits(&self, task: usize, machine: usize) -> bool {
        let problem = self.problem;
        let kinds = problem.request(task).iter().zip(problem.occupied(task, machine));
        are_free(kinds.zip(self.free(machine)).map(|((request, occupied), free)| {
            let more = product(*request, *occupied);
            difference(*free, more)
        }))
    }

    /// Whether `machine` would have room for `task` if the task `other` left.
    #[inline]
    pub(crate) fn fits_instead(&self, task: usize, other: usize, machine: usize) -> bool {
        let problem = self.problem;
        let more = problem.request(task).iter().zip(problem.occupied(task, machine));
        let less = problem.request(other).iter().zip(problem.occupied(other, machine));
        are_free(more.zip(less).zip(self.free(machine)).map(|((more, less), free)| {
            let (more, less) = (product(*more.0, *more.1), product(*less.0, *less.1));
            difference(*free, difference(more, less))
        }))
    }

    /// Whether both machines have room for a displacement.
    #[inline]
    pub(crate) fn has_room_for(&self, displacement: Displacement) -> bool {
        let Displacement { task, other, to } = displacement;
        self.fits_instead(task, other, self.at[other] as usize)
            && if to == self.at[task] as usize {
                self.fits_instead(other, task, to)
            } else {
                self.fits(other, to)
            }
    }

    /// Whether the use of a machine is within its capacity.
    #[inline]
    pub(crate) fn has_room(&self, machine: usize) -> bool {
        are_free(self.free(machine).iter().copied())
    }

    /// Whether the use of a machine would be within its capacity without one of its tasks.
    #[inline]
    pub(crate) fn has_room_without(&self, other: usize, machine: usize) -> bool {
        let problem = self.problem;
        let kinds = problem.request(other).iter().zip(problem.occupied(other, machine));
        are_free(kinds.zip(self.free(machine)).map(|((request, occupied), free)| {
            let gone = product(*request, *occupied);
            sum(*free, gone)
        }))
    }

    /// Returns the change of the cost of moves, without load and balance, if a task moved to the machine `to`.
    #[inline]
    pub(crate) fn moving(&self, task: usize, to: usize) -> f64 {
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
    fn move_costs(&self, task: usize, to: usize) -> f64 {
        self.problem.moving(task, to) - self.problem.moving(task, self.at[task] as usize)
    }

    /// Returns the change of the number of moved tasks by a move: 1 if the task leaves its initial machine, -1 if it
    /// returns to it, else 0.
    #[inline]
    pub(crate) fn more_moved(&self, task: usize, to: usize) -> i32 {
        let initial = self.problem.initial[task];
        i32::from(self.at[task] == initial) - i32::from(to == initial as usize)
    }

    /// Returns the change of the job-move cost, which depends on the largest number of moved tasks in one job. Each
    /// entry of `changes` is a job and the change of its number of moved tasks.
    fn of_job_moves(&self, changes: [(u32, i32); 2]) -> f64 {
        let weight = self.problem.job_move;
        if weight == 0.0 {
            return 0.0;
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
        weight * (f64::from(most) - f64::from(self.most_moved))
    }
}

/// Whether all free amounts are 0 or more. The least amounts are found without branches, so that the compiler uses
/// vector instructions.
#[inline]
fn are_free(lanes: impl Iterator<Item = Lane>) -> bool {
    let lesser = |a: f64, b: f64| if a < b { a } else { b };
    let mut least = [f64::INFINITY; LANE];
    for lane in lanes {
        for kind in 0..LANE {
            least[kind] = lesser(lane[kind], least[kind]);
        }
    }
    lesser(lesser(least[0], least[2]), lesser(least[1], least[3])) >= 0.0
}

#[inline]
fn negative(lane: Lane) -> Lane {
    lane.map(|amount| -amount)
}

#[inline]
fn difference(a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|kind| a[kind] - b[kind])
}
