//! Conversion of a cell to an instance of machine reassignment, which annealing solves. The tasks then move towards the
//! solution, and each of these moves is checked like any other move of a pass.
//!
//! The instance has the cell's load, balance and move costs, its capacities, the limits on moves, and the machines that
//! each task may use. An instance can also express that tasks of a job must not share a machine. Tasks with any other
//! rule of the cell or of the objectives stay on their machines; so do tasks with devices, exclusive cores, demand
//! profiles or cluster resources.
//!
//! Amounts are rounded to a millionth of a mean machine, up for tasks and down for machines. So every assignment of the
//! instance fits in the cell.

use super::account::Proposed;
use super::objective::{Pair, Ratio};
use super::search::{Search, step, suits};
use foldhash::fast::FixedState;
use omega_cellstate::{PlacedTask, SetId};
use omega_core::{KindId, TaskGroup, TaskRule, TaskSelector, TopologyLevel};
use omega_reassign as reassign;
use std::collections::{BTreeMap, HashMap};

/// Base-2 logarithm of the number of units in a mean machine: the instance counts each kind in such units.
const UNIT_BITS: u32 = 20;

/// Cost in the instance for a millionth of a mean machine. It is so large that rounding hardly changes the ratios
/// between the costs of different kinds.
const SCALE: f64 = 1600.0;

/// Factor of the two numbers of a balance's ratio. [`SCALE`] divided by this factor multiplies the weight of the
/// balance.
const RATIO: f64 = 16.0;

/// Maximum number of machines for which the instance has a cost for each pair of machines between which a task may
/// move.
const BETWEEN_MAX: usize = 2048;

/// A cell as an instance of machine reassignment. `tasks` has the row and the task for each task of the instance.
pub(super) struct Dense {
    instance: reassign::Instance,
    tasks: Vec<(usize, PlacedTask)>,
}

impl Dense {
    /// Converts a cell. Returns `None` if an instance cannot express the cell's objectives.
    pub(super) fn new(search: &mut Search<'_>) -> Option<Dense> {
        let objectives = &search.settings.objectives;
        let other_terms = [objectives.fragments, objectives.in_use, objectives.crowding];
        let is_load_plain = objectives.curves.is_empty() && objectives.demand.is_empty();
        if other_terms != [0; 3] || !is_load_plain || !search.misplaced.is_empty() {
            return None;
        }
        let is_between = search.account.has_costs_between();
        if is_between && search.view.rows() > BETWEEN_MAX {
            return None;
        }
        let tasks = movable(search);
        let units = Units::of(search);
        let mut instance = reassign::Instance {
            kinds: units.kinds(search),
            machines: machines(search, &units, &tasks),
            balances: units.balances(search),
            limits: reassign::MoveLimits {
                total: u32::try_from(search.settings.bounds.moves).unwrap_or(u32::MAX),
                per_job: search.settings.bounds.moves_per_job,
            },
            weights: reassign::MoveWeights {
                task: 1,
                job: super::objective::MOVE * i64::from(objectives.job_moves) * SCALE as i64,
                machine: i64::from(is_between),
            },
            initial: tasks.iter().map(|(row, _)| *row as u32).collect(),
            ..reassign::Instance::default()
        };
        add_tasks(search, &mut instance, &units, &tasks);
        Some(Dense { instance, tasks })
    }

    /// Searches for an assignment. Returns the moves to the best assignment, and the number of changes that the search
    /// tried.
    pub(super) fn solve(
        self,
        settings: reassign::Settings,
        watch: &dyn reassign::Watch,
    ) -> Result<(Vec<Proposed>, u64), reassign::ProblemError> {
        let problem = reassign::Problem::new(self.instance)?;
        let found = reassign::search(&problem, settings, watch)?;
        let both = self.tasks.into_iter().zip(&found.assignment);
        let moves = both.map(|((from, task), to)| Proposed { task, from, to: *to as usize });
        Ok((moves.filter(|m| m.from != m.to).collect(), found.steps))
    }
}

/// Makes those moves that are possible and reduce the objective. A move is first tried alone, and then together with a
/// move of another task off the target machine of the first move.
pub(super) fn follow(search: &mut Search<'_>, mut left: Vec<Proposed>) {
    loop {
        let before = left.len();
        left = once(search, left);
        if left.len() == before && !(search.awaits && search.next_wave()) {
            break;
        }
    }
}

/// Tries each move once, and returns those that were not made.
fn once(search: &mut Search<'_>, moves: Vec<Proposed>) -> Vec<Proposed> {
    let mut leaving: HashMap<usize, Vec<usize>, FixedState> = HashMap::default();
    moves.iter().enumerate().for_each(|(at, m)| leaving.entry(m.from).or_default().push(at));
    let mut made = vec![false; moves.len()];
    for at in 0..moves.len() {
        if made[at] {
            continue;
        }
        made[at] = is_made(search, &[moves[at]]);
        let others = leaving.get(&moves[at].to).into_iter().flatten();
        for other in others.take(PARTNERS) {
            if !made[at] && !made[*other] && is_made(search, &[moves[*other], moves[at]]) {
                (made[at], made[*other]) = (true, true);
            }
        }
    }
    moves.into_iter().zip(made).filter(|(_, made)| !made).map(|(m, _)| m).collect()
}

/// Maximum number of other moves that are tried together with one move.
const PARTNERS: usize = 8;

/// Makes moves together if they are possible and reduce the objective. Returns whether they were made.
fn is_made(search: &mut Search<'_>, moves: &[Proposed]) -> bool {
    let mut known = Vec::with_capacity(moves.len());
    for m in moves {
        let Some(of_task) = search.know(m.task) else { return false };
        known.push((m.task, of_task));
    }
    if search.may_move(&known).is_err() || (moves.len() > 1 && search.hold.any()) {
        return false;
    }
    for (m, (_, known)) in moves.iter().zip(&known) {
        if !search.hold.fits(search.view, m.to, search.need(*known)) {
            search.awaits = true;
            return false;
        }
    }
    search.considered += 1;
    step(search, moves)
}

/// Returns the tasks that may move and whose rules an instance can express, each with its row.
fn movable(search: &mut Search<'_>) -> Vec<(usize, PlacedTask)> {
    let mut found = Vec::new();
    for row in 0..search.view.rows() {
        if !search.account.counts(row) {
            continue;
        }
        for task in search.unmoved(row) {
            if let Some(known) = search.know(task)
                && !search.stays_put(known)
                && !search.keep.concerns(task.id.job)
                && is_said(search, task, known)
            {
                found.push((row, task));
            }
        }
    }
    found
}

/// Whether an instance can express all rules of a task.
fn is_said(search: &Search<'_>, task: PlacedTask, known: usize) -> bool {
    let need = search.need(known);
    let is_plain = need.devices.is_none()
        && need.cores.is_none()
        && need.demand_profiles.is_none()
        && need.cluster_request.is_none();
    let job = search.view.job_of(task.id);
    let group = job.and_then(|job| job.groups.get(usize::from(task.group)));
    is_plain
        && !search.view.may_be_runtime_affinity(need)
        && group.is_some_and(|group| {
            group.optional.is_none()
                && group.rules.ports.is_empty()
                && (group.rules.tasks.is_empty() || is_apart(group))
        })
}

/// Whether the group's only rule about other tasks is that no two tasks of the job share a machine.
fn is_apart(group: &TaskGroup) -> bool {
    matches!(
        &group.rules.tasks[..],
        [TaskRule::AntiAffinity { from: TaskSelector::SameJob, level: TopologyLevel::Machine }]
    )
}

/// The unit of each kind in the instance (`unit`), and its size in millionths of a mean machine (`millionths`).
struct Units {
    unit: Vec<i64>,
    millionths: Vec<f64>,
}

impl Units {
    fn of(search: &Search<'_>) -> Units {
        let means = search.account.objective().means;
        let unit: Vec<i64> = means.iter().map(|mean| ((mean >> UNIT_BITS) as i64).max(1)).collect();
        let part = |(unit, mean): (&i64, &u64)| {
            *unit as f64 * super::objective::MACHINE as f64 / *mean as f64
        };
        let millionths = unit.iter().zip(means).map(part).collect();
        Units { unit, millionths }
    }

    fn up(&self, kind: usize, amount: i64) -> i64 {
        (amount.max(0) + self.unit[kind] - 1) / self.unit[kind]
    }

    fn down(&self, kind: usize, amount: i64) -> i64 {
        amount.div_euclid(self.unit[kind])
    }

    fn kinds(&self, search: &Search<'_>) -> Vec<reassign::Kind> {
        let objectives = &search.settings.objectives;
        let kind = |(kind, millionths): (u8, &f64)| {
            let weight = f64::from(objectives.safety(KindId(kind)).weight);
            reassign::Kind {
                use_while_moving: reassign::Transience::New,
                load_weight: (weight * millionths * SCALE).round() as i64,
            }
        };
        (0..).zip(&self.millionths).map(kind).collect()
    }

    fn balances(&self, search: &Search<'_>) -> Vec<reassign::Balance> {
        let objectives = &search.settings.objectives;
        let weight = i64::from(objectives.balance) * (SCALE / RATIO / 100.0) as i64;
        let kinds = self.unit.len();
        let pairs = objectives
            .pairs
            .iter()
            .filter(|pair| pair.free.index() < kinds && pair.beside.index() < kinds && weight > 0);
        let part = |share: f64, kind: KindId| {
            (share * self.millionths[kind.index()] * RATIO).round().max(1.0) as i64
        };
        let target = |pair: &Pair| match pair.ratio {
            Ratio::Percent(percent) => part(f64::from(percent), pair.free),
            Ratio::Amounts { want, per } => {
                let units =
                    self.unit[pair.free.index()] as f64 / self.unit[pair.beside.index()] as f64;
                part(100.0 * want as f64 / per.max(1) as f64 * units, pair.beside)
            }
        };
        pairs
            .map(|pair| reassign::Balance {
                first: u32::from(pair.free.0),
                second: u32::from(pair.beside.0),
                target: target(pair),
                per: part(100.0, pair.beside),
                weight,
            })
            .collect()
    }
}

/// Returns the machines, with the capacities that are not used by tasks that stay. A machine that accepts no tasks has
/// no capacity in the instance.
fn machines(
    search: &mut Search<'_>,
    units: &Units,
    tasks: &[(usize, PlacedTask)],
) -> Vec<reassign::Machine> {
    let kinds = units.unit.len();
    let mut used = vec![0; search.view.rows() * kinds];
    for (row, task) in tasks {
        let Some(known) = search.know(*task) else { continue };
        for (kind, amount) in search.need(known).request.iter().enumerate() {
            used[row * kinds + kind] += units.up(kind, *amount);
        }
    }
    let machine = |row: usize| {
        let amounts = |free: &dyn Fn(usize) -> i64| -> Vec<i64> {
            let of = |kind: usize| used[row * kinds + kind] + units.down(kind, free(kind));
            (0..kinds).map(of).collect()
        };
        let free = |kind: usize| search.view.free(row, KindId(kind as u8));
        let counts = search.account.counts(row);
        let of_kind = |kind: usize| if counts { free(kind).max(0) } else { 0 };
        let slack = |kind: usize| {
            if counts { free(kind) - search.account.unsafe_part(row, kind) } else { 0 }
        };
        reassign::Machine {
            neighbourhood: 0,
            location: 0,
            capacity: amounts(&of_kind),
            safety: amounts(&slack),
            move_costs: between(search, row),
        }
    };
    (0..search.view.rows()).map(machine).collect()
}

/// Returns the cost of a move from a row to each row; empty if the objectives give no such costs.
fn between(search: &Search<'_>, from: usize) -> Vec<i64> {
    if !search.account.has_costs_between() {
        return Vec::new();
    }
    let cost = |to: usize| search.account.between(from, to) * SCALE as i64;
    (0..search.view.rows()).map(|to| if to == from { 0 } else { cost(to) }).collect()
}

/// Key of the set of machines that a task may use: the machine that the task names, the machines that match its
/// affinity, and the machines whose taints it tolerates.
type SetKey = (Option<SetId>, Option<SetId>, SetId);

/// Adds the tasks to the instance, with their jobs and the sets of machines that they may use.
fn add_tasks(
    search: &mut Search<'_>,
    instance: &mut reassign::Instance,
    units: &Units,
    tasks: &[(usize, PlacedTask)],
) {
    let mut jobs = BTreeMap::new();
    let mut sets: HashMap<SetKey, u32, FixedState> = HashMap::default();
    let moves = f64::from(search.settings.objectives.moves) * SCALE;
    for (_, task) in tasks {
        let Some(known) = search.know(*task) else { continue };
        let apart = search.view.job_of(task.id).is_some_and(|job| {
            job.groups
                .get(usize::from(task.group))
                .is_some_and(|group| !group.rules.tasks.is_empty())
        });
        // The groups of a job that have anti-affinity become a separate job of the instance. The cell's limit on moves
        // per job still counts all groups of the job, because the limit is checked when moves are made.
        let next = jobs.len() as u32;
        let job = *jobs.entry((task.id.job, apart)).or_insert_with(|| {
            let sharing =
                if apart { reassign::Sharing::Apart } else { reassign::Sharing::Together };
            instance.jobs.push(reassign::Job { sharing, ..reassign::Job::default() });
            next
        });
        let need = search.need(known);
        let next = instance.allowed.len() as u32;
        let set = *sets.entry((need.machine, need.affinity, need.tolerated)).or_insert_with(|| {
            let rows = 0..search.view.rows();
            instance.allowed.push(rows.map(|row| suits(search.view, row, need)).collect());
            next
        });
        let request = need.request.iter().enumerate();
        let move_cost = search.account.of_move_alone(task.id.job, &need.request);
        instance.tasks.push(reassign::Task {
            job,
            request: request.map(|(kind, amount)| units.up(kind, *amount)).collect(),
            move_cost: (move_cost as f64 * moves) as i64,
            allowed: Some(set),
        });
    }
}
