//! Scripts: behaviour over several steps, as text.
//!
//! ```text
//! # two_schedulers_want_the_last_cores
//! machine m cpu=2
//! job web tasks=2 cpu=2
//! a: sync
//! b: sync
//! a: claim web/0 m
//! b: claim web/1 m
//! a: commit
//! b: commit
//! ---
//! a: taken at v5
//! b: v5, refused: claim 0 NoRoom(cpu)
//! ===
//! # the next script, with a cell of its own
//! ```
//!
//! The resource kinds are `cpu`, which may be overcommitted, and `mem`, which may not. Commands:
//!
//! | command | does |
//! |---|---|
//! | `machine M cpu=4 mem=8 zone=z1 taint=old devices=2 over=cpu:150` | other keys are labels |
//! | `update M ...`, `drain M`, `resume M`, `remove M` | |
//! | `policy over=cpu:200 band=0..9 evictions=2/100`, `quota T cpu=4`, `quota T none` | |
//! | `tenant T parent=all cpu=4 weight=2 per-machine=3` | amounts are guaranteed |
//! | `reserve R rack=a for=T,U from=10 until=20`, `unreserve R` | other keys are labels; `name` is a machine's name |
//! | `job J tasks=2 cpu=1 ...` | see `parse.rs` for its keys |
//! | `resize J 3`, `kill J`, `report J/0 finished`, `expire 100` | |
//! | `a: sync` | scheduler `a` looks at the cell |
//! | `a: claim J/0 M`, `a: claim J/0 M with-wants` | puts it into `a`'s next transaction |
//! | `a: release J/0`, `a: evict J/0`, `a: resize J/0 cpu=2` | puts it into `a`'s next transaction |
//! | `a: commit`, with `all-or-nothing` and `sequence` | submits it |
//! | `a: retry`, `a: retry other` | submits the last one again, or another with its number |
//! | `show` | prints the machines and their tasks |
//!
//! A rejection is printed; an accepted command prints nothing.

mod parse;

use omega_cellstate::{CellHandle, SharedCell, View};
use omega_core::{
    Amounts, Claim, Command, Commit, ConflictCheck, Granularity, KindId, MachineId, Outcome,
    Resize, Take, TaskId, TaskReport, Transaction,
};
use parse::kinds;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Runs every script of a file. Returns the file with the scripts' output.
///
/// # Panics
/// If a line is invalid; the message names the line.
#[must_use]
pub fn run_file(text: &str) -> String {
    let scripts = text.split("===\n").map(|script| {
        let commands = script.split("---\n").next().unwrap_or_default();
        format!("{commands}---\n{}", run(commands))
    });
    scripts.collect::<Vec<_>>().join("===\n")
}

fn run(commands: &str) -> String {
    let mut world = World::new();
    for line in commands.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        world.line(line);
    }
    world.cell.read(|cell| cell.audit().expect("a script leaves a cell that is right"));
    world.printed
}

/// A scheduler of a script.
struct Scheduler {
    view: View,
    next: Transaction,
    last: Option<Transaction>,
}

struct World {
    cell: SharedCell,
    schedulers: BTreeMap<String, Scheduler>,
    printed: String,
}

impl World {
    fn new() -> World {
        let cell = SharedCell::new(omega_cellstate::Cell::new(kinds()));
        World { cell, schedulers: BTreeMap::new(), printed: String::new() }
    }

    fn print(&mut self, line: impl std::fmt::Display) {
        let _ = writeln!(self.printed, "{line}");
    }

    fn line(&mut self, line: &str) {
        match line.split_once(": ") {
            Some((name, rest)) => self.scheduler_line(name, rest),
            None if line == "show" => self.show(),
            None => {
                let command = self.command(line);
                if let Err(refused) = self.cell.apply(command) {
                    self.print(format!("refused: {refused}"));
                }
            }
        }
    }

    fn command(&self, line: &str) -> Command {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["machine", name, keys @ ..] => Command::RegisterMachine(parse::machine(name, keys)),
            ["update", name, keys @ ..] => Command::UpdateMachine {
                id: self.machine(name),
                machine: parse::machine(name, keys),
            },
            ["drain", name] => Command::DrainMachine { id: self.machine(name), draining: true },
            ["resume", name] => Command::DrainMachine { id: self.machine(name), draining: false },
            ["remove", name] => Command::RemoveMachine { id: self.machine(name) },
            ["policy", keys @ ..] => Command::SetPolicy(parse::policy(keys)),
            ["quota", tenant, "none"] => {
                Command::SetQuota { tenant: (*tenant).into(), limit: None }
            }
            ["quota", tenant, keys @ ..] => {
                let mut limit = Amounts::zero();
                keys.iter().for_each(|key| parse::amount(key, &mut limit));
                Command::SetQuota { tenant: (*tenant).into(), limit: Some(limit) }
            }
            ["admit", tenant, "all"] => {
                Command::SetAdmission { tenant: (*tenant).into(), limit: None }
            }
            ["admit", tenant, keys @ ..] => {
                let mut limit = Amounts::zero();
                keys.iter().for_each(|key| parse::amount(key, &mut limit));
                Command::SetAdmission { tenant: (*tenant).into(), limit: Some(limit) }
            }
            ["tenant", tenant, keys @ ..] => Command::SetTenant {
                tenant: (*tenant).into(),
                tenant_config: parse::tenant_config(keys),
            },
            ["capacity", key] => {
                let mut amounts = Amounts::zero();
                parse::amount(key, &mut amounts);
                let (kind, amount) = amounts.iter().next().unwrap_or((KindId(0), 0));
                Command::SetClusterCapacity { kind, amount }
            }
            ["reserve", name, keys @ ..] => Command::Reserve(parse::reservation(name, keys)),
            ["unreserve", name] => Command::Unreserve { name: (*name).into() },
            ["job", name, keys @ ..] => Command::SubmitJob(parse::job(name, keys)),
            ["resize", job, count] => Command::ResizeGroup {
                job: self.task(&format!("{job}/0")).job,
                group: "main".into(),
                count: parse::number(count),
            },
            ["kill", job] => Command::KillJob { job: self.task(&format!("{job}/0")).job },
            ["report", task, report] => self.report(self.task(task), report),
            ["expire", now] => Command::Expire { now_ms: parse::number(now) },
            _ => panic!("no command: {line}"),
        }
    }

    fn report(&self, task: TaskId, report: &str) -> Command {
        let state = self.cell.read(|cell| cell.task(task));
        let machine = state.and_then(|state| state.machine()).unwrap_or_default();
        let report = match report {
            "started" => TaskReport::Started,
            "finished" => TaskReport::Finished,
            "failed" => TaskReport::Failed,
            "lost" => TaskReport::Lost,
            "restarted" => TaskReport::Restarted,
            other => panic!("no report: {other}"),
        };
        Command::ReportTask { task, machine, placed_ms: 0, report }
    }

    fn machine(&self, name: &str) -> MachineId {
        let found = self.cell.read(|cell| cell.machine_by_name(name));
        found.unwrap_or(MachineId::first(u32::MAX))
    }

    fn task(&self, text: &str) -> TaskId {
        let (job, index) = text.split_once('/').expect("a task is written job/number");
        let job = self.cell.read(|cell| cell.job_by_name(job));
        TaskId { job: job.unwrap_or(omega_core::JobId(u64::MAX)), index: parse::number(index) }
    }

    fn scheduler_line(&mut self, name: &str, rest: &str) {
        let mut scheduler = self.schedulers.remove(name).unwrap_or_else(|| self.register(name));
        let words: Vec<&str> = rest.split_whitespace().collect();
        match words.as_slice() {
            ["sync"] => scheduler.view.sync(&self.cell).expect("the cell is here"),
            ["claim", task, machine, how @ ..] => {
                let task = self.task(task);
                let machine = scheduler.view.machine_by_name(machine).unwrap_or_default();
                let known = machine.row() < scheduler.view.rows();
                let seen = known.then(|| scheduler.view.sequence(machine.row()));
                let seen = seen.unwrap_or_default();
                let mut claim = Claim::new(task, machine, seen);
                if *how == ["with-wants"] {
                    claim.take = Take::WithOptional;
                }
                scheduler.next.claims.push(claim);
            }
            ["release", task] => scheduler.next.releases.push(self.task(task)),
            ["resize", task, keys @ ..] => {
                let mut to = Amounts::zero();
                keys.iter().for_each(|key| parse::amount(key, &mut to));
                scheduler.next.resizes.push(Resize { task: self.task(task), to });
            }
            ["evict", task] => scheduler.next.evictions.push(self.task(task)),
            ["commit", how @ ..] => self.commit(name, &mut scheduler, how),
            ["retry"] => self.submit(name, scheduler.last.clone()),
            ["retry", "other"] => {
                let mut other = scheduler.last.clone();
                other.iter_mut().for_each(|txn| txn.claims.push(txn.claims[0]));
                self.submit(name, other);
            }
            _ => panic!("no command of a scheduler: {rest}"),
        }
        self.schedulers.insert(name.to_owned(), scheduler);
    }

    fn register(&self, name: &str) -> Scheduler {
        let (id, number) = self.cell.register(name.into()).expect("a name");
        let mut view = View::new(id, number);
        let next = view.take_transaction();
        Scheduler { view, next, last: None }
    }

    fn commit(&mut self, name: &str, scheduler: &mut Scheduler, how: &[&str]) {
        let following = scheduler.view.take_transaction();
        let mut txn = std::mem::replace(&mut scheduler.next, following);
        txn.base = scheduler.view.version();
        for word in how {
            match *word {
                "all-or-nothing" => txn.granularity = Granularity::AllOrNothing,
                "sequence" => txn.check = ConflictCheck::SequenceNumber,
                other => panic!("no way to commit: {other}"),
            }
        }
        scheduler.last = Some(txn.clone());
        self.submit(name, Some(txn));
    }

    fn submit(&mut self, name: &str, txn: Option<Transaction>) {
        let txn = txn.expect("there is a transaction to retry");
        let line = match self.cell.apply(Command::Commit(txn)) {
            Ok(Outcome::Commit(commit)) => answer(&commit),
            Ok(other) => panic!("not the answer to a commit: {other:?}"),
            Err(refused) => format!("not judged: {refused}"),
        };
        self.print(format!("{name}: {line}"));
    }

    fn show(&mut self) {
        let lines: Vec<String> = self.cell.read(|cell| {
            let machine = |m: omega_cellstate::MachineState<'_>| {
                let mut tasks = m.tasks.to_vec();
                tasks.sort_unstable();
                let tasks = tasks.iter().map(|task| {
                    let job = cell.job(task.job).map_or("?", |job| &job.name);
                    let held = cell.gang_wait(task.job).map_or("", |_| " (held)");
                    let holds = cell.task_allocation(*task).unwrap_or_default();
                    let group = cell.task_group(*task).unwrap_or_default();
                    let same = cell.job(task.job).is_some_and(|j| j.groups[group].request == holds);
                    let [cpu, mem] = [0, 1].map(|kind| holds.get(KindId(kind)));
                    let holds = if same { String::new() } else { format!(" [{cpu} {mem}]") };
                    format!(" {job}/{}{held}{holds}", task.index)
                });
                let free = format!("cpu={} mem={}", m.free[0], m.free[1]);
                format!(
                    "{} {}: free {free};{}",
                    m.machine.name,
                    m.sequence,
                    tasks.collect::<String>()
                )
            };
            let version = std::iter::once(format!("the cell is at {}", cell.version()));
            version.chain(cell.machines().map(machine)).collect()
        });
        lines.into_iter().for_each(|line| self.print(line));
    }
}

/// Formats a result in words.
fn answer(commit: &Commit) -> String {
    if commit.is_complete() {
        return format!("taken at {}", commit.version);
    }
    let conflict = |conflict: &omega_core::Conflict| {
        let item = format!("{:?}", conflict.item).to_lowercase().replace(['(', ')'], " ");
        format!("{item}{:?}", conflict.reason)
    };
    let list: Vec<String> = commit.conflicts.iter().map(conflict).collect();
    let mut text = format!("{}, refused: {}", commit.version, list.join(", "));
    for (id, kind) in kinds().iter() {
        text = text.replace(&format!("{:?}", KindId(id.0)), &kind.name);
    }
    text
}
