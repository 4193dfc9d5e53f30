//! `omega demo`: demonstrates conflicts in four short scenes on a small cell in this process.
//!
//! Two schedulers read the same state, decide, and commit one after the other, as if they were concurrent processes.
//! All figures come from real commits. Nothing is random, so the output is always the same.

use crate::output::{self, OutputError};
use clap::Args;
use omega_cellstate::{Cell, CellHandle, HandleError, Interest, SharedCell, View};
use omega_core::{
    Amounts, Command, ConflictCheck, Job, JobId, KindId, Kinds, Machine, Outcome, Reason,
    Rejection, TaskGroup, TaskId,
};
use omega_workload::words::plural;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

/// Number of machines in the cell, and number of cores of each machine.
const MACHINES: u32 = 6;
const CORES: u64 = 4;
/// Number of tasks in each job. Each requests one core.
const TASKS: u32 = 8;

/// Options of the demonstration.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  omega demo --pause")]
pub(crate) struct DemoArgs {
    /// Wait for the Enter key after each scene.
    #[arg(long)]
    pause: bool,
}

/// Error of the demonstration: either a defect of Omega, or a closed output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// The cell rejected a machine or a job.
    #[error("the cell rejected a command, which is a bug in Omega, please report it: {0}")]
    Rejected(#[from] Rejection),
    /// The cell did not answer.
    #[error("the cell did not answer, which is a bug in Omega, please report it: {0}")]
    Cell(#[from] HandleError),
    /// See the error.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Runs the scenes.
pub(crate) fn run(args: &DemoArgs) -> Result<(), DemoError> {
    let mut conflicts = Vec::new();
    for scene in [alone, together, apart, coarse] {
        let scene = scene()?;
        output::print(&scene.text)?;
        conflicts.push(scene.conflicts.to_string());
        if args.pause && io::stdin().is_terminal() {
            let mut line = String::new();
            io::stdin().read_line(&mut line).map_err(OutputError::Stdout)?;
        }
    }
    output::print(&format!(
        "\nConflicts of the last scheduler, scene by scene: {}.\n\nA larger cell: `omega --synthetic 2000`. A served one: `omega dev`. The \
         paper's figures: `omega-sim paper`.\n",
        conflicts.join(", ")
    ))?;
    Ok(())
}

/// Result of a scene: its text, and the number of claims that the second scheduler lost at its first commit.
struct Scene {
    text: String,
    conflicts: usize,
}

/// The machines that a scheduler tries first.
#[derive(Clone, Copy)]
enum Start {
    First,
    Last,
}

/// A scheduler: its private copy of the cell, and its pending tasks.
struct Decider {
    view: View,
    job: JobId,
    spec: Arc<Job>,
    pending: Vec<TaskId>,
    start: Start,
}

/// Result of a commit.
struct Attempt {
    claims: usize,
    reasons: BTreeMap<String, usize>,
}

impl Attempt {
    fn conflicts(&self) -> usize {
        self.reasons.values().sum()
    }
}

impl Decider {
    fn new(cell: &SharedCell, name: &str, start: Start) -> Result<Decider, DemoError> {
        let group = TaskGroup::new(TASKS, Amounts::new([1000]));
        let spec = Arc::new(Job::batch(name, group).with_scheduler(name));
        let Outcome::Job(job) = cell.apply(Command::SubmitJob((*spec).clone()))? else {
            unreachable!("a submitted job has an id")
        };
        let (id, next) = cell.register(name.into())?;
        let view = View::new(id, next).with_interest(Interest::AllJobs);
        let pending = (0..TASKS).map(|index| TaskId { job, index }).collect();
        Ok(Decider { view, job, spec, pending, start })
    }

    /// Claims the first machine that fits for each pending task, on the private copy.
    fn decide(&mut self, cell: &SharedCell) -> Result<(), DemoError> {
        self.view.sync(cell)?;
        let group = self.view.compile(self.job, &self.spec, 0);
        let mut rows: Vec<usize> = (0..self.view.rows()).collect();
        if matches!(self.start, Start::Last) {
            rows.reverse();
        }
        for task in &self.pending {
            let fits = rows.iter().find(|row| self.view.check_fit(**row, group).is_ok());
            if let Some(row) = fits {
                // The claim was just checked on this copy, so it cannot fail.
                let _ = self.view.claim(*task, self.view.machine_id(*row), group);
            }
        }
        Ok(())
    }

    fn commit(&mut self, cell: &SharedCell, check: ConflictCheck) -> Result<Attempt, DemoError> {
        let mut transaction = self.view.take_transaction();
        transaction.check = check;
        let commit = cell.commit(&transaction)?;
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        self.pending.clear();
        for (at, claim) in transaction.claims.iter().enumerate() {
            if let Some(reason) = commit.conflict_of_claim(at) {
                *reasons.entry(text(reason)).or_default() += 1;
                self.pending.push(claim.task);
            }
        }
        self.view.settle(&transaction, &commit);
        Ok(Attempt { claims: transaction.claims.len(), reasons })
    }
}

fn text(reason: Reason) -> String {
    reason.text(&Kinds::standard())
}

fn new_cell() -> Result<SharedCell, DemoError> {
    let cell = SharedCell::new(Cell::new(Kinds::standard()));
    for number in 1..=MACHINES {
        let machine = Machine::new(format!("m{number}"), Amounts::new([CORES * 1000]));
        cell.apply(Command::RegisterMachine(machine))?;
    }
    Ok(cell)
}

/// The machines, with a character for each core: the first letter of the job that has the core, or a dot.
fn picture(cell: &SharedCell) -> String {
    let mut text = String::new();
    for number in 1..=MACHINES {
        let name = format!("m{number}");
        let used = cell.read(|cell| {
            let machine = cell.machine(cell.machine_by_name(&name)?)?;
            let letter = |task: &TaskId| cell.job(task.job)?.name.chars().next();
            Some(machine.tasks.iter().filter_map(letter).collect::<String>())
        });
        let free = cell.read(|cell| {
            let machine = cell.machine(cell.machine_by_name(&name)?)?;
            machine.free.get(KindId::CPU.index()).map(|free| (*free / 1000) as usize)
        });
        let _ = write!(
            text,
            "   {name} [{}{}]",
            used.unwrap_or_default(),
            ".".repeat(free.unwrap_or(0))
        );
    }
    text + "\n"
}

fn line(text: &mut String, who: &str, attempt: &Attempt) {
    let accepted = attempt.claims - attempt.conflicts();
    let _ =
        write!(text, "   {who}: {}, {accepted} accepted", plural(attempt.claims as u64, "claim"));
    for (reason, count) in &attempt.reasons {
        let _ = write!(text, ", {count} rejected: {reason}");
    }
    text.push('\n');
}

/// A scheduler that is alone never has conflicts.
fn alone() -> Result<Scene, DemoError> {
    let cell = new_cell()?;
    let mut text = format!(
        "\n1. One scheduler\n\n   {MACHINES} machines with {CORES} cores each. The scheduler copies the cell's state, decides for {TASKS} tasks \
         with a core each\n   on its copy, and commits all claims as one transaction.\n\n"
    );
    let mut ads = Decider::new(&cell, "ads", Start::First)?;
    ads.decide(&cell)?;
    let attempt = ads.commit(&cell, ConflictCheck::ResourceFit)?;
    line(&mut text, "ads", &attempt);
    text += &picture(&cell);
    Ok(Scene { text, conflicts: attempt.conflicts() })
}

/// Lets `ads` and `web` decide on the same state and commit one after the other. Returns web's attempt.
fn race(cell: &SharedCell, web: &mut Decider, text: &mut String) -> Result<Attempt, DemoError> {
    let mut ads = Decider::new(cell, "ads", Start::First)?;
    ads.decide(cell)?;
    web.decide(cell)?;
    line(text, "ads", &ads.commit(cell, ConflictCheck::ResourceFit)?);
    let attempt = web.commit(cell, ConflictCheck::ResourceFit)?;
    line(text, "web", &attempt);
    *text += &picture(cell);
    Ok(attempt)
}

/// Two schedulers claim the same machines at the same time.
fn together() -> Result<Scene, DemoError> {
    let cell = new_cell()?;
    let mut text = "\n2. A second scheduler\n\n   Both decide at the same time, on copies of the same state, and prefer the same machines. The cell \
                    checks each claim\n   at commit: it accepts what still fits and rejects what conflicts.\n\n"
        .to_owned();
    let mut web = Decider::new(&cell, "web", Start::First)?;
    let first = race(&cell, &mut web, &mut text)?;
    text += "\n   A conflict costs a second decision, no more: web syncs its copy, and tries again.\n\n";
    web.decide(&cell)?;
    line(&mut text, "web", &web.commit(&cell, ConflictCheck::ResourceFit)?);
    text += &picture(&cell);
    Ok(Scene { text, conflicts: first.conflicts() })
}

/// Schedulers that begin at different machines rarely conflict.
fn apart() -> Result<Scene, DemoError> {
    let cell = new_cell()?;
    let mut text = "\n3. Fewer conflicts\n\n   The same, but web begins at the other end. Omega's schedulers begin at random machines, and choose \
                    among more of\n   the best ones while many claims conflict.\n\n"
        .to_owned();
    let mut web = Decider::new(&cell, "web", Start::Last)?;
    let first = race(&cell, &mut web, &mut text)?;
    Ok(Scene { text, conflicts: first.conflicts() })
}

/// A check by sequence numbers rejects claims that would fit.
fn coarse() -> Result<Scene, DemoError> {
    let cell = new_cell()?;
    let mut text = "\n4. A coarse check\n\n   The last scene, but with twice the machines' cores and a check by sequence number: a claim conflicts if its \
                    machine\n   changed at all since it was seen, even where there is room for both.\n\n"
        .to_owned();
    for number in 1..=MACHINES {
        let found = cell.read(|cell| cell.machine_by_name(&format!("m{number}")));
        if let Some(id) = found {
            let machine = Machine::new(format!("m{number}"), Amounts::new([2 * CORES * 1000]));
            cell.apply(Command::UpdateMachine { id, machine })?;
        }
    }
    let mut conflicts = 0;
    for check in [ConflictCheck::ResourceFit, ConflictCheck::SequenceNumber] {
        let mut ads = Decider::new(&cell, &format!("ads, {}", name(check)), Start::First)?;
        let mut web = Decider::new(&cell, &format!("web, {}", name(check)), Start::First)?;
        // Each scheduler claims half of a machine's cores at a time, so that both fit.
        ads.pending.truncate(CORES as usize / 2);
        web.pending.truncate(CORES as usize / 2);
        ads.decide(&cell)?;
        web.decide(&cell)?;
        line(&mut text, &format!("ads, check by {}", name(check)), &ads.commit(&cell, check)?);
        let first = web.commit(&cell, check)?;
        line(&mut text, &format!("web, check by {}", name(check)), &first);
        conflicts = first.conflicts();
    }
    text += &picture(&cell);
    Ok(Scene { text, conflicts })
}

fn name(check: ConflictCheck) -> &'static str {
    match check {
        ConflictCheck::ResourceFit => "fit",
        ConflictCheck::SequenceNumber => "sequence number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_schedulers_that_meet_conflict() {
        assert_eq!(alone().unwrap().conflicts, 0);
        assert_eq!(together().unwrap().conflicts, TASKS as usize);
        assert_eq!(apart().unwrap().conflicts, 0);
    }

    #[test]
    fn the_loser_finds_room_in_the_second_attempt() {
        let text = together().unwrap().text;
        assert!(
            text.contains("web: 8 claims, 0 accepted, 8 rejected: too little cpu left"),
            "{text}"
        );
        assert!(text.contains("web: 8 claims, 8 accepted\n"), "{text}");
        assert!(text.ends_with("m4 [wwww]   m5 [....]   m6 [....]\n"), "{text}");
    }

    #[test]
    fn a_coarse_check_rejects_what_fits() {
        let scene = coarse().unwrap();
        assert!(scene.text.contains("web, check by fit: 2 claims, 2 accepted\n"), "{}", scene.text);
        assert_eq!(scene.conflicts, 2);
        assert!(
            scene.text.contains("2 rejected: changed since the scheduler saw it"),
            "{}",
            scene.text
        );
    }
}
