//! Random commands for small cells: most are valid, so that the cell fills and its rules apply; some are stale,
//! repeated, unknown or invalid.
//!
//! Small numbers are intended: a few machines, labels and ports, and small amounts, interact often.

mod allocations;
mod cluster_resources;
mod cores;
mod dice;
mod jobs;
mod leases;
mod machines;
mod peaks;
mod ports;
mod programs;
mod reservations;
mod transactions;
mod updates;

pub use dice::Dice;

use crate::reference::Reference;
use omega_core::{
    Amounts, Band, Command, EvictionCap, JobId, KindId, Kinds, MachineId, Overcommit, Policy,
    Precedence, ResourceKind, SchedulerId, TaskId, TaskReport, TenantConfig, Text, Transaction,
    Unit,
};
use std::collections::BTreeMap;

/// A generator of the commands of one history.
#[derive(Debug)]
pub struct Generator {
    dice: Dice,
    kinds: Kinds,
    machines_max: usize,
    names: u64,
    sent: Vec<Transaction>,
    numbers: BTreeMap<SchedulerId, u64>,
    reserved: Vec<SchedulerId>,
    /// Separate generator for owners of names; if it is not used, histories do not change.
    holders: Option<Dice>,
    /// Separate generator for reservations.
    planner: Option<Dice>,
    /// Separate generator for demand profiles, which changes no other choice.
    demand_profiles: Dice,
    /// Separate generator for programs and payloads.
    programs: Dice,
    /// Separate generator for containers of programs.
    containers: Dice,
    /// Separate generator for ports that the cell chooses.
    ports: Dice,
    /// Separate generator for ends of programs and restarts.
    ends: Dice,
    /// Separate generator for allocations that differ from the group's request.
    allocations: Option<Dice>,
    /// Separate generator for exclusive cores.
    cores: Option<Dice>,
    /// Separate generator for cluster resources.
    licences: Option<Dice>,
    /// Separate generator for peak calendars.
    peaks: Option<Dice>,
    /// Separate generator for deletions and updates of jobs.
    updates: Option<Dice>,
    /// Separate generator for results of updates, and for taints.
    results: Option<Dice>,
    /// Separate generator for reports of use.
    uses: Option<Dice>,
}

impl Generator {
    /// A generator of the history with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Generator {
        let mut dice = Dice::new(seed);
        let kinds = random_kinds(&mut dice);
        let machines_max = 1 + dice.below(8);
        Generator {
            dice,
            kinds,
            machines_max,
            names: 0,
            sent: Vec::new(),
            numbers: BTreeMap::new(),
            reserved: Vec::new(),
            holders: None,
            planner: None,
            demand_profiles: Dice::new(seed ^ 0xC42E),
            programs: Dice::new(seed ^ 0x9206),
            containers: Dice::new(seed ^ 0xC0A7),
            ports: Dice::new(seed ^ 0x9084),
            ends: Dice::new(seed ^ 0xE4D5),
            allocations: None,
            cores: None,
            licences: None,
            peaks: None,
            updates: None,
            results: None,
            uses: None,
        }
    }

    /// Creates a history in which scheduler names occasionally change owners.
    #[must_use]
    pub fn with_holders(seed: u64) -> Generator {
        let holders = Some(Dice::new(seed ^ 0x401D));
        Generator { holders, ..Generator::new(seed) }
    }

    /// Creates a history in which tasks claim optional resources, and are resized.
    #[must_use]
    pub fn with_held(self, seed: u64) -> Generator {
        Generator { allocations: Some(Dice::new(seed ^ 0x8E1D)), ..self }
    }

    /// The resource kinds of the cell.
    #[must_use]
    pub fn kinds(&self) -> Kinds {
        self.kinds.clone()
    }

    /// Excludes a scheduler from generated transactions.
    pub fn reserve(&mut self, scheduler: SchedulerId) {
        self.reserved.push(scheduler);
    }

    /// The next command for the state of a reference model.
    pub fn next(&mut self, reference: &Reference) -> Command {
        let command = self.next_of_any(reference);
        self.time(command)
    }

    fn next_of_any(&mut self, reference: &Reference) -> Command {
        if reference.schedulers() == 0 {
            return Command::RegisterScheduler { name: "first".into() };
        }
        if let Some(command) = self.change_hands(reference) {
            return command;
        }
        if let Some(command) = self.plan(reference) {
            return command;
        }
        if let Some(command) = self.license() {
            return command;
        }
        if let Some(command) = self.peak(reference) {
            return command;
        }
        if let Some(command) = self.update(reference) {
            return command;
        }
        if let Some(command) = self.result(reference) {
            return command;
        }
        if let Some(command) = self.report_use(reference) {
            return command;
        }
        let machines = reference.rows().iter().filter(|row| row.machine.is_some()).count();
        match self.dice.below(100) {
            _ if machines == 0 => self.register_machine(),
            0..10 if machines < self.machines_max => self.register_machine(),
            0..14 => self.update_machine(reference),
            14..17 => {
                let draining = self.dice.chance(40);
                Command::DrainMachine { id: self.some_machine(reference), draining }
            }
            17..19 => Command::RemoveMachine { id: self.some_machine(reference) },
            19..21 => {
                Command::ReportLoad { id: self.some_machine(reference), load: self.amounts(5) }
            }
            21..38 => self.submit_job(reference),
            38..41 => self.resize_group(reference),
            41..42 => Command::KillJob { job: self.some_job(reference) },
            42..55 => self.report_task(reference),
            55..57 => self.set_quota(),
            57..58 => self.set_tenant(),
            58..60 => self.set_policy(),
            60..63 => Command::Expire { now_ms: self.dice.below(60) as u64 },
            63..65 => Command::RegisterScheduler { name: self.scheduler_name() },
            65..68 => Command::AdoptTask {
                task: self.some_task(reference),
                machine: self.some_machine(reference),
            },
            _ => Command::Commit(self.transaction(reference)),
        }
    }

    fn scheduler_name(&mut self) -> Text {
        (*self.dice.pick(&["first", "second", "third", "", "with\ttab"])).into()
    }

    pub(crate) fn fresh_name(&mut self, prefix: &str) -> Text {
        self.names += 1;
        format!("{prefix}{}", self.names).into()
    }

    /// Random amounts up to `most` of each kind; occasionally of an unknown kind, or far too large.
    fn amounts(&mut self, most: usize) -> Amounts {
        let mut amounts = Amounts::zero();
        for kind in 0..self.kinds.count() {
            amounts.set(KindId(kind as u8), self.dice.below(most + 1) as u64);
        }
        if self.dice.chance(1) {
            amounts.set(KindId(self.kinds.count() as u8), 1);
        }
        if self.dice.chance(1) {
            amounts.set(KindId(0), omega_core::limits::AMOUNT_MAX + self.dice.below(2) as u64);
        }
        amounts
    }

    /// Id of a machine of the cell; occasionally of a removed or unknown one.
    fn some_machine(&mut self, reference: &Reference) -> MachineId {
        let rows = reference.rows().len();
        if rows == 0 || self.dice.chance(4) {
            return MachineId {
                slot: self.dice.below(10) as u32,
                incarnation: self.dice.below(3) as u32,
            };
        }
        let mut id = reference.machine_id(self.dice.below(rows));
        if self.dice.chance(4) {
            id.incarnation = id.incarnation.saturating_sub(1);
        }
        id
    }

    fn some_job(&mut self, reference: &Reference) -> JobId {
        let known: Vec<JobId> = reference.jobs().keys().copied().collect();
        if known.is_empty() || self.dice.chance(5) {
            JobId(self.dice.below(12) as u64)
        } else {
            *self.dice.pick(&known)
        }
    }

    fn some_task(&mut self, reference: &Reference) -> TaskId {
        let job = self.some_job(reference);
        let tasks = reference.jobs().get(&job).map_or(1, |job| job.tasks.len());
        let beyond = usize::from(self.dice.chance(3));
        TaskId { job, index: self.dice.below(tasks + beyond) as u32 }
    }

    fn placed_task(&mut self, reference: &Reference) -> TaskId {
        let placed: Vec<TaskId> = reference.placed().map(|(id, ..)| id).collect();
        if placed.is_empty() || self.dice.chance(8) {
            self.some_task(reference)
        } else {
            *self.dice.pick(&placed)
        }
    }

    fn report_task(&mut self, reference: &Reference) -> Command {
        use TaskReport::{Failed, Finished, Lost, Started};
        let task = self.placed_task(reference);
        let at = reference.task(task).and_then(|(_, task)| task.state.machine());
        let machine = match at {
            Some(machine) if !self.dice.chance(8) => machine,
            _ => self.some_machine(reference),
        };
        let report = *self.dice.pick(&[Started, Started, Finished, Failed, Failed, Lost]);
        // Some reports are about an earlier run, and some do not name the run. No number is drawn for that, so that
        // seeds keep their histories.
        let placed_ms = reference.task(task).map_or(0, |(_, task)| task.placed_ms);
        let placed_ms = match (u64::from(task.index) + placed_ms) % 8 {
            5 => placed_ms.saturating_sub(1),
            6 => 0,
            _ => placed_ms,
        };
        self.report((task, machine), placed_ms, report)
    }

    fn set_quota(&mut self) -> Command {
        let tenant = self.tenant();
        let limit = (!self.dice.chance(30)).then(|| self.amounts(12));
        if self.dice.chance(30) {
            // Jobs may request much more than they get.
            let limit = limit.filter(|_| self.dice.chance(50)).map(|_| self.amounts(60));
            Command::SetAdmission { tenant, limit }
        } else {
            Command::SetQuota { tenant, limit }
        }
    }

    fn set_tenant(&mut self) -> Command {
        let mut names = ["red", "blue", "all", "half", ""].map(Text::from).to_vec();
        if !self.dice.chance(5) {
            names.pop();
        }
        let tenant = self.dice.pick(&names).clone();
        let parent = self.dice.chance(60).then(|| self.dice.pick(&names).clone());
        let guaranteed = if self.dice.chance(30) { Amounts::zero() } else { self.amounts(12) };
        let weight = self.dice.below(5) as u32;
        let tasks_per_machine_max = self.dice.chance(40).then(|| self.dice.below(4) as u32);
        let tenant_config = TenantConfig { parent, guaranteed, weight, tasks_per_machine_max };
        Command::SetTenant { tenant, tenant_config }
    }

    fn tenant(&mut self) -> Text {
        if self.dice.chance(1) { "".into() } else { (*self.dice.pick(&["red", "blue"])).into() }
    }

    fn set_policy(&mut self) -> Command {
        let overcommit_max = self.overcommit();
        let mut bands: Vec<Band> = Vec::new();
        let mut at = -1;
        while self.dice.chance(65) && bands.len() < 4 {
            // Occasionally, a band overlaps the one before, or ends before it begins.
            let from = at + self.dice.below(3) as i32;
            let to = from + self.dice.below(3) as i32 - i32::from(self.dice.chance(3));
            bands.push(Band { from: Precedence(from), to: Precedence(to) });
            at = to + i32::from(!self.dice.chance(3));
        }
        let cap = EvictionCap {
            count: self.dice.below(4) as u32,
            per_ms: 1 + self.dice.below(20) as u32,
        };
        let eviction_cap = self.dice.chance(50).then_some(cap);
        let ttl_after_finished_ms = self.dice.below(30) as u64;
        Command::SetPolicy(Policy { overcommit_max, ttl_after_finished_ms, bands, eviction_cap })
    }

    fn overcommit(&mut self) -> Overcommit {
        let mut overcommit = Overcommit::none();
        for kind in 0..self.dice.below(self.kinds.count() + 1) {
            let percent = *self.dice.pick(&[50, 100, 130, 200, 300, 0]);
            overcommit = overcommit.with(KindId(kind as u8), percent);
        }
        overcommit
    }
}

fn random_kinds(dice: &mut Dice) -> Kinds {
    let count = 1 + dice.below(4);
    let kind = |i| ResourceKind {
        name: format!("kind{i}"),
        unit: Unit::Count,
        compressible: dice.chance(50),
    };
    Kinds::new((0..count).map(kind).collect()).expect("one to four kinds with different names")
}
