//! Rebalancing of a cell, and the report on it. The cell is a workload's cell at the start or at the end of a run, a
//! durable cell, or a served cell.

use crate::cell::RunCell;
use crate::driver::feeder::submitted;
use crate::report::rebalanced::{
    Applied, AppliedOn, FactLine, MoveLine, ReasonLine, RebalanceReport, StuckLine, TermLine,
};
use crate::{Progress, RunError, RunOptions, run_to_the_end};
use omega_cellstate::{BLOCK, Cell, CellHandle, HandleError, View};
use omega_core::{Command, KindId, Kinds, MachineId, Outcome, TaskId, TopologyLevel};
use omega_schedulers::explain::describe;
use omega_schedulers::rebalance::objective::{MACHINE, MOVE, PAIR};
use omega_schedulers::rebalance::{
    Annealing, Ended, Fate, Hindrance, Objectives, Plan, Pursued, Pursuit, Rebalancer, Settings,
    Stuck, Term, Why,
};
use omega_workload::kube::kinds::is_nominal;
use omega_workload::{RunTime, Workload};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum number of misplaced groups for which the report explains why no machine accepts them. Each explanation
/// checks every machine.
const EXPLAINED_MAX: usize = 50;

/// Maximum number of plans after the first one, for steps that conflicted.
const REPLANS: usize = 3;

/// Number of consecutive failures to reach the cell after which the pass ends. The next constant is the wait after the
/// first failure; all waits together are half a minute.
const FAILURES: usize = 8;
const FIRST_WAIT: Duration = Duration::from_millis(125);

/// Time at which the cell of a workload is rebalanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At the start, with the tasks that run then.
    Start,
    /// At the end of a run.
    End,
    /// At the end of a run in which no task ends by itself.
    EndOfAll,
}

impl Moment {
    /// Returns the start if tasks run then, and else the end.
    #[must_use]
    pub fn of(workload: &Workload) -> Moment {
        let runs = |arrival: &omega_workload::Arrival| !arrival.placed.is_empty();
        if workload.arrivals.iter().any(runs) { Moment::Start } else { Moment::End }
    }
}

/// Options of a rebalancing pass.
pub struct Pass<'a> {
    /// Settings of the rebalancer.
    pub settings: Settings,
    /// Machines to drain, by name.
    pub drain: Vec<String>,
    /// Annealing that is done before the search for other moves.
    pub annealing: Option<Annealing<'a>>,
    /// Returns whether there is time to continue.
    pub go_on: &'a mut dyn FnMut() -> bool,
    /// Whether the plan is applied.
    pub carry: Carry,
}

/// Whether a plan is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// The plan is reported, and not applied.
    PlanOnly,
    /// Each wave is applied to the cell as soon as the one before it is done.
    Out,
    /// Like [`Carry::Out`], but on a copy of the cell in this process, to check the plan.
    OnCopy,
}

/// Returns the cell of a workload at a moment.
///
/// # Errors
/// If the cell rejects a part of the workload.
pub fn cell_of(
    mut workload: Workload,
    moment: Moment,
    options: &RunOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Cell, RunError> {
    if moment == Moment::Start {
        return at_start(workload);
    }
    if moment == Moment::EndOfAll {
        workload.arrivals.iter_mut().for_each(|arrival| arrival.run = RunTime::Forever);
    }
    let ended = run_to_the_end(workload, options, progress)?;
    Ok(ended.fed.cell.read(Cell::clone))
}

/// The cell at the start, with the tasks that run then.
fn at_start(workload: Workload) -> Result<Cell, RunError> {
    let mut cell = Cell::new(workload.kinds);
    let policy = Command::SetPolicy(workload.policy);
    cell.apply(policy).map_err(|why| RunError::Job { name: "policy".into(), why })?;
    let mut machines = Vec::new();
    for machine in workload.machines {
        let name = machine.name.clone();
        match cell.apply(Command::RegisterMachine(machine)) {
            Ok(Outcome::Machine(id)) => machines.push(id),
            Ok(_) => unreachable!("a machine that is registered has an id"),
            Err(why) => return Err(RunError::Machine { name, why }),
        }
    }
    for arrival in workload.arrivals.into_iter().take_while(|arrival| arrival.at_ms == 0) {
        let name = arrival.job.name.clone();
        let job = submitted(name, cell.apply(Command::SubmitJob(arrival.job)))?;
        for (index, machine) in arrival.placed {
            // The cell rejects a task for which the machine has no devices, and the task stays pending.
            let (task, machine) = (TaskId { job, index }, machines[machine as usize]);
            drop(cell.apply(Command::AdoptTask { task, machine }));
        }
    }
    Ok(cell)
}

/// Drains machines of a cell in this process, rebalances the cell and audits it.
///
/// # Errors
/// If a machine to drain does not exist, or the audit finds an error, which is a defect of Omega.
pub fn rebalance_cell(
    mut cell: Cell,
    name: String,
    pass: Pass<'_>,
) -> Result<RebalanceReport, RunError> {
    for machine in &pass.drain {
        let id = cell.machine_by_name(machine);
        let id = id.ok_or_else(|| RunError::NoMachine { name: machine.as_str().into() })?;
        let drain = Command::DrainMachine { id, draining: true };
        cell.apply(drain)
            .map_err(|why| RunError::Machine { name: machine.as_str().into(), why })?;
    }
    let cell = RunCell::memory(cell);
    let report = rebalance_at(&cell, name, pass)?;
    cell.read(Cell::audit)?;
    Ok(report)
}

/// Rebalances the cell behind a handle. Machines to drain must be draining already.
///
/// # Errors
/// If the cell does not answer.
pub fn rebalance_at(
    cell: &impl CellHandle,
    name: String,
    pass: Pass<'_>,
) -> Result<RebalanceReport, RunError> {
    let failed = |why: HandleError| RunError::Scheduler { name: "rebalance".into(), why };
    let mut rebalancer = Rebalancer::new(cell, pass.settings).map_err(failed)?;
    let began = Instant::now();
    let plan = match pass.annealing {
        Some(annealing) => rebalancer.plan_annealed(cell, annealing, pass.go_on),
        None => rebalancer.plan(cell, pass.go_on),
    };
    let plan = plan.map_err(failed)?;
    let seconds = began.elapsed().as_secs_f64();
    let mut report = report(&mut rebalancer, &plan, name);
    report.seconds = seconds;
    let on = match pass.carry {
        Carry::PlanOnly => None,
        Carry::Out => Some(AppliedOn::Cell),
        Carry::OnCopy => Some(AppliedOn::Copy),
    };
    if let Some(on) = on {
        let pursuit = Pursuit { replans: REPLANS, wait: &mut wait };
        let pursued = rebalancer.pursue(cell, &plan, pursuit);
        report.applied = Some(applied(&pursued, on, rebalancer.view().kinds()));
    }
    Ok(report)
}

fn report(rebalancer: &mut Rebalancer, plan: &Plan, name: String) -> RebalanceReport {
    let stuck = stuck(rebalancer, plan);
    let view = rebalancer.view();
    let kinds = view.kinds();
    RebalanceReport {
        name,
        machines: plan.pictures[0].machines,
        tasks: plan.tasks,
        misplaced: plan.misplaced,
        terms: terms(plan, kinds),
        before: plan.before.total(&plan.objectives),
        after: plan.after.total(&plan.objectives),
        facts: facts(plan, view),
        reasons: reasons(plan, kinds),
        moves: moves(plan, view),
        stuck,
        hindered: plan.hindered.iter().map(|(why, n)| (why.describe().to_owned(), *n)).collect(),
        considered: plan.considered,
        ended: ended(plan.ended).to_owned(),
        ..RebalanceReport::default()
    }
}

fn ended(why: Ended) -> &'static str {
    match why {
        Ended::NothingBetter => "nothing better was found",
        Ended::Moves => "the maximum number of moves is reached",
        Ended::Waves => "the maximum number of waves is reached",
        Ended::Steps => "the maximum number of examined moves is reached",
        Ended::Told => "the time is used up",
    }
}

/// The terms of the objective that the report shows.
fn terms(plan: &Plan, kinds: &Kinds) -> Vec<TermLine> {
    let is_shown = |term: Term| match term {
        Term::Load(kind) => kinds.get(kind).is_none_or(|kind| !is_nominal(&kind.name)),
        _ => true,
    };
    let both = plan.before.terms().zip(plan.after.terms()).filter(|((term, _), _)| is_shown(*term));
    let lines = both.map(|((term, before), (_, after))| TermLine {
        term: term.name(kinds),
        weight: plan.objectives.weight(term),
        before,
        after,
        what: what(plan, term, (before, after), kinds),
    });
    lines.filter(|line| line.weight > 0).collect()
}

/// Describes a term in words.
fn what(plan: &Plan, term: Term, (before, after): (i128, i128), kinds: &Kinds) -> String {
    let name = |kind| kinds.get(kind).map_or("?", |kind| kind.name.as_str());
    match term {
        Term::Misplaced => {
            let of = |cost: i128| cost / i128::from(MACHINE);
            format!("tasks: {}, then {}", of(before), of(after))
        }
        Term::Load(kind) if plan.objectives.curves.contains_key(&kind) => {
            format!("{} by its curve", name(kind))
        }
        Term::Load(kind) => {
            format!("{} above {}", name(kind), level(&plan.objectives, kind))
        }
        Term::Balance => "free of one kind without the other".to_owned(),
        Term::Fragments => "neither full nor empty".to_owned(),
        Term::InUse => "machines on which something is claimed".to_owned(),
        Term::MachineMoves => "moves by their two machines".to_owned(),
        Term::Crowding => {
            let of = |cost: i128| cost / i128::from(PAIR);
            let place = match &plan.objectives.level {
                TopologyLevel::Machine => "on one machine".to_owned(),
                TopologyLevel::Label(key) => format!("in one {key}"),
            };
            format!("pairs of a job {place}: {}, then {}", of(before), of(after))
        }
        Term::Moves => match plan.moves().count() {
            1 => "1 move".to_owned(),
            moves => format!("{moves} moves"),
        },
        Term::JobMoves => {
            format!("{} of one job at most", after / i128::from(MOVE))
        }
    }
}

/// The safety level of a kind in words.
fn level(objectives: &Objectives, kind: KindId) -> String {
    if objectives.machines.iter().any(|aims| aims.safety.contains_key(&kind)) {
        "their level of".to_owned()
    } else {
        format!("{} %", objectives.safety(kind).percent)
    }
}

fn facts(plan: &Plan, view: &View) -> Vec<FactLine> {
    let [first, last] = &plan.pictures;
    let kinds = view.kinds();
    let line = |fact: String, before: u64, after: u64| FactLine { fact, before, after };
    let (before, after) = in_use_without_new_tasks(plan, view);
    let in_use = [first.in_use + before, last.in_use + after].map(|machines| machines as u64);
    let mut lines = vec![line("machines in use".to_owned(), in_use[0], in_use[1])];
    for (id, kind) in kinds.iter() {
        let at = id.index();
        if is_nominal(&kind.name) || (first.fullest[at] == 0 && last.fullest[at] == 0) {
            continue;
        }
        let above = format!("machines above {} {}", level(&plan.objectives, id), kind.name);
        lines.push(line(above, first.above[at] as u64, last.above[at] as u64));
        let fullest = format!("% of {} claimed of the fullest", kind.name);
        lines.push(line(fullest, first.fullest[at].into(), last.fullest[at].into()));
    }
    lines
}

/// Numbers of machines that accept no tasks but have some, before and after the plan. The statistics of a plan leave
/// out these machines.
fn in_use_without_new_tasks(plan: &Plan, view: &View) -> (usize, usize) {
    let mut moved: BTreeMap<usize, usize> = BTreeMap::new();
    for from in plan.steps().flat_map(|step| &step.moves).map(|m| m.from) {
        *moved.entry(from.row()).or_default() += 1;
    }
    let accepts = |row: usize| view.block(row / BLOCK).schedulable() >> (row % BLOCK) & 1 == 1;
    let tasks = |row: &usize| view.tasks_on(*row).len();
    let rows = (0..view.rows()).filter(|row| !accepts(*row) && tasks(row) > 0);
    let is_kept = |row: &usize| tasks(row) > moved.get(row).copied().unwrap_or(0);
    let (kept, left): (Vec<usize>, Vec<usize>) = rows.partition(is_kept);
    (kept.len() + left.len(), kept.len())
}

fn why(why: Why, kinds: &Kinds) -> String {
    match why {
        Why::Gain(term) => term.name(kinds),
        Why::MakesRoom => "makes room for the next step".to_owned(),
    }
}

fn reasons(plan: &Plan, kinds: &Kinds) -> Vec<ReasonLine> {
    let mut by_reason: BTreeMap<Why, (usize, i128)> = BTreeMap::new();
    for step in plan.steps() {
        let (moves, gain) = by_reason.entry(step.why).or_default();
        *moves += step.moves.len();
        *gain += step.gain;
    }
    let line = |(reason, (moves, gain))| ReasonLine { reason: why(reason, kinds), moves, gain };
    let mut lines: Vec<ReasonLine> = by_reason.into_iter().map(line).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.gain));
    lines
}

fn moves(plan: &Plan, view: &View) -> Vec<MoveLine> {
    let mut lines = Vec::new();
    let mut number = 0;
    for (wave, steps) in plan.waves.iter().enumerate() {
        for step in steps {
            number += 1;
            lines.extend(step.moves.iter().map(|m| MoveLine {
                wave: wave + 1,
                step: number,
                job: job_name(view, m.task),
                task: m.task.index,
                from: machine_name(view, m.from),
                to: machine_name(view, m.to),
                why: why(step.why, view.kinds()),
                gain: step.gain,
            }));
        }
    }
    lines
}

fn job_name(view: &View, task: TaskId) -> String {
    view.job_of(task).map_or_else(String::new, |job| job.name.to_string())
}

fn machine_name(view: &View, machine: MachineId) -> String {
    view.machine(machine.row()).map_or_else(String::new, |machine| machine.name.to_string())
}

fn stuck(rebalancer: &mut Rebalancer, plan: &Plan) -> Vec<StuckLine> {
    let mut known: BTreeMap<(TaskId, u16), Vec<(String, usize)>> = BTreeMap::new();
    let mut lines = Vec::new();
    for stuck in &plan.stuck {
        let of_group = (TaskId { index: 0, ..stuck.task }, stuck.group);
        let asks = stuck.why == Hindrance::NoMachine && known.len() < EXPLAINED_MAX;
        if asks && !known.contains_key(&of_group) {
            known.insert(of_group, keeps_off(rebalancer, stuck));
        }
        let is_known = stuck.why == Hindrance::NoMachine;
        let reasons = known.get(&of_group).filter(|_| is_known).cloned().unwrap_or_default();
        let view = rebalancer.view();
        lines.push(StuckLine {
            job: job_name(view, stuck.task),
            task: stuck.task.index,
            machine: machine_name(view, stuck.machine),
            why: stuck.why.describe().to_owned(),
            reasons,
        });
    }
    lines
}

fn keeps_off(rebalancer: &mut Rebalancer, stuck: &Stuck) -> Vec<(String, usize)> {
    let Some(explanation) = rebalancer.explain(stuck) else { return Vec::new() };
    let kinds = rebalancer.view().kinds();
    let judged = explanation.refused.iter().map(|(why, n)| (describe(*why, kinds), *n));
    let filters = explanation.filtered.iter();
    let filters = filters.map(|(name, n)| (format!("removed by the filter {name}"), *n));
    judged.chain(filters).collect()
}

/// Waits, longer after each failure. Returns whether to try again.
fn wait(failures: usize) -> bool {
    if failures > FAILURES {
        return false;
    }
    std::thread::sleep(FIRST_WAIT * (1 << (failures - 1)));
    true
}

fn applied(pursued: &Pursued, on: AppliedOn, kinds: &Kinds) -> Applied {
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    for fate in &pursued.left {
        let reason = match fate {
            Fate::Refused(reason) => describe(*reason, kinds),
            Fate::Forbidden => "a rule of the objectives".to_owned(),
            Fate::Moved | Fate::Stale => continue,
        };
        *refused.entry(reason).or_default() += 1;
    }
    Applied {
        on,
        committed: pursued.moved,
        stale: pursued.left.iter().filter(|fate| **fate == Fate::Stale).count(),
        refused: refused.into_iter().collect(),
        replans: pursued.replans,
        untried: pursued.untried,
        failed: pursued.failed.as_ref().map(ToString::to_string),
    }
}
