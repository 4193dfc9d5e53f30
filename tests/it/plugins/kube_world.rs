//! Random cells with everything that the plugins of kube-scheduler read.
//!
//! Tasks are placed without a check, so machines may be overfull and rules violated.

use crate::cell::small;
use omega_cellstate::{Cell, CellHandle, GroupRef, Interest, SharedCell, View};
use omega_core::{
    Amounts, Command, Image, Job, KindId, Kinds, LabelSelector, Labels, Machine, MachineSelector,
    Near, Operator, Port, Preferred, Requirement, ResourceKind, Spread, Taint, TaintEffect,
    TaskGroup, TaskRule, TaskSelector, Tenants, Toleration, TolerationOperator, TopologyLevel,
    Unit, WhenUnsatisfiable,
};
use omega_schedulers::Profile;
use omega_tests::random::Dice;

/// The resource kinds of the cells, in order.
pub(crate) const KINDS: [&str; 6] =
    ["cpu", "memory", "example.com/fpga", "pods", "cpu (nominal)", "memory (nominal)"];

/// The largest amount.
const AMOUNT_MAX: u64 = omega_core::limits::AMOUNT_MAX;

pub(crate) fn kinds() -> Kinds {
    let kind = |name: &&str| ResourceKind {
        name: (*name).to_owned(),
        unit: Unit::Count,
        compressible: false,
    };
    Kinds::new(KINDS.iter().map(kind).collect()).unwrap()
}

/// A cell, with its tasks by row.
pub(crate) struct World {
    pub(crate) cell: SharedCell,
    pub(crate) view: View,
    pub(crate) dice: Dice,
    pub(crate) machines: Vec<Machine>,
    pub(crate) placed: Vec<(usize, TaskGroup)>,
    jobs: usize,
}

impl World {
    pub(crate) fn new(seed: u64, machines: usize, profile: &Profile) -> World {
        let mut dice = Dice::new(seed);
        let cell = SharedCell::new(Cell::new(kinds()));
        let machines: Vec<_> = (0..machines).map(|i| random_machine(&mut dice, i)).collect();
        for machine in &machines {
            small::add_machine(&cell, machine.clone());
        }
        let (id, number) = cell.register("s".into()).unwrap();
        let mut view = View::new(id, number).with_interest(Interest::AllJobs);
        view.sync(&cell).unwrap();
        profile.prepare(&mut view);
        World { cell, view, dice, machines, placed: Vec::new(), jobs: 0 }
    }

    /// Places a task on a random machine, or changes a machine.
    pub(crate) fn step(&mut self) {
        let row = self.dice.below(self.machines.len());
        let id = self.view.machine_id(row);
        if self.dice.chance(15) {
            let machine = random_machine(&mut self.dice, row);
            self.machines[row] = machine.clone();
            self.cell.apply(Command::UpdateMachine { id, machine }).unwrap();
        } else {
            let group = random_group(&mut self.dice, self.machines.len());
            let job = self.submit(group.clone());
            let task = small::task(job, 0);
            self.cell.apply(Command::AdoptTask { task, machine: id }).unwrap();
            self.placed.push((row, group));
        }
        self.view.sync(&self.cell).unwrap();
    }

    fn submit(&mut self, group: TaskGroup) -> omega_core::JobId {
        self.jobs += 1;
        small::submit(&self.cell, Job::batch(format!("j{}", self.jobs), group))
    }

    /// Compiles a group to be placed.
    pub(crate) fn compile(&mut self, group: &TaskGroup) -> GroupRef {
        let id = self.submit(group.clone());
        self.view.sync(&self.cell).unwrap();
        let job = self.cell.read(|cell| cell.job(id).unwrap().clone());
        self.view.compile(id, &job, 0)
    }
}

/// A random amount: one of the ordinary ones, or an extreme value.
fn amount(dice: &mut Dice, ordinary: &[u64]) -> u64 {
    match dice.below(12) {
        0 => 0,
        1 => 1,
        2 => AMOUNT_MAX,
        _ => *dice.pick(ordinary),
    }
}

fn random_machine(dice: &mut Dice, index: usize) -> Machine {
    let capacity = [
        amount(dice, &[1000, 3920, 4000, 64_000]),
        amount(dice, &[3_000_000_000, 4 << 30, 137_438_965_817]),
        *dice.pick(&[0, 1, 4]),
        *dice.pick(&[0, 3, 30]),
        AMOUNT_MAX,
        AMOUNT_MAX,
    ];
    let mut machine = Machine::new(format!("m{index}"), Amounts::new(capacity));
    let mut labels = vec![("disk", *dice.pick(&["ssd", "hdd"]))];
    for (key, values) in [("zone", &["z0", "z1", "z2"]), ("rack", &["r0", "r1", "r2"])] {
        if dice.chance(85) {
            labels.push((key, *dice.pick(values)));
        }
    }
    machine.labels = Labels::new(labels);
    let taints = dice.below(4).saturating_sub(1);
    machine.taints = (0..taints).map(|_| random_taint(dice)).collect();
    let images = ["a", "b", "c"].into_iter().filter(|_| dice.chance(40)).collect::<Vec<_>>();
    let bytes = |dice: &mut Dice| *dice.pick(&[1 << 20, 200 << 20, 3 << 30]);
    machine.images =
        images.into_iter().map(|name| Image { name: name.into(), bytes: bytes(dice) }).collect();
    machine
}

fn random_taint(dice: &mut Dice) -> Taint {
    let effects =
        [TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule, TaintEffect::PreferNoSchedule];
    if dice.chance(15) {
        let key = "node.kubernetes.io/unschedulable".into();
        return Taint { key, value: "".into(), effect: TaintEffect::NoSchedule };
    }
    let key = (*dice.pick(&["old", "spot"])).into();
    Taint { key, value: (*dice.pick(&["", "x"])).into(), effect: *dice.pick(&effects) }
}

fn random_toleration(dice: &mut Dice) -> Toleration {
    let effects = [None, Some(TaintEffect::NoSchedule), Some(TaintEffect::PreferNoSchedule)];
    let keys = ["old", "spot", "node.kubernetes.io/unschedulable"];
    Toleration {
        key: dice.chance(80).then(|| (*dice.pick(&keys)).into()),
        operator: *dice.pick(&[TolerationOperator::Exists, TolerationOperator::Equal]),
        value: (*dice.pick(&["", "x"])).into(),
        effect: *dice.pick(&effects),
    }
}

/// A group of one task.
pub(crate) fn random_group(dice: &mut Dice, machines: usize) -> TaskGroup {
    let (cpu, memory) = (amount(dice, &[0, 100, 333, 2000]), amount(dice, &[0, 1 << 28, 1 << 30]));
    let (cpu, memory) =
        if dice.chance(90) { (cpu.min(64_000), memory.min(1 << 34)) } else { (cpu, memory) };
    let fpga = if dice.chance(25) { 1 } else { 0 };
    let nominal = [cpu.max(*dice.pick(&[0, 100])), memory.max(*dice.pick(&[0, 200 << 20]))];
    let request = Amounts::new([cpu, memory, fpga, 1, nominal[0], nominal[1]]);
    let mut group = TaskGroup::new(1, request);
    group.labels = Labels::new([("app", *dice.pick(&["a", "b", "c"]))]);
    let images = dice.below(3);
    group.images = (0..images).map(|_| (*dice.pick(&["a", "b", "d"])).into()).collect();
    let rules = &mut group.rules;
    if dice.chance(5) {
        rules.machine = Some(format!("m{}", dice.below(machines)).into());
    }
    if dice.chance(15) {
        rules.affinity.required = Some(vec![MachineSelector::label("disk", "ssd")]);
    }
    for (zone, weight) in [("z0", 3), ("z1", 100)] {
        if dice.chance(25) {
            let machines = MachineSelector::label("zone", zone);
            rules.affinity.preferred.push(Preferred { weight, machines });
        }
    }
    while dice.chance(45) {
        rules.tolerations.push(random_toleration(dice));
    }
    if dice.chance(15) {
        let address = dice.chance(50).then(|| (*dice.pick(&["10.0.0.1", "10.0.0.2"])).into());
        rules.ports.push(Port { address, ..Port::tcp(*dice.pick(&[80, 443])) });
    }
    while dice.chance(40) {
        let rule = random_rule(dice);
        group.rules.tasks.push(rule);
    }
    group
}

fn random_tasks(dice: &mut Dice) -> TaskSelector {
    let values = vec![(*dice.pick(&["a", "b", "c"])).into()];
    let operator = *dice.pick(&[Operator::In, Operator::In, Operator::NotIn]);
    let requirements = vec![Requirement { key: "app".into(), operator, values }];
    TaskSelector::Labels { tenants: Tenants::Any, labels: LabelSelector { requirements } }
}

fn random_level(dice: &mut Dice) -> TopologyLevel {
    match dice.below(3) {
        0 => TopologyLevel::Machine,
        1 => TopologyLevel::Label("rack".into()),
        _ => TopologyLevel::Label("zone".into()),
    }
}

fn random_rule(dice: &mut Dice) -> TaskRule {
    let (tasks, level) = (random_tasks(dice), random_level(dice));
    match dice.below(9) {
        0 => TaskRule::AntiAffinity { from: tasks, level },
        1 => {
            let near = Near { tasks, level };
            let other = Near { tasks: random_tasks(dice), level: random_level(dice) };
            TaskRule::Affinity(if dice.chance(70) { vec![near] } else { vec![near, other] })
        }
        2..5 => {
            let weight = *dice.pick(&[-100, -7, 1, 50]);
            TaskRule::Prefer { near: Near { tasks, level }, weight }
        }
        _ => TaskRule::Spread(Spread {
            of: tasks,
            level,
            skew_max: 1 + dice.below(3) as u32,
            domains_min: dice.below(4) as u32,
            when: if dice.chance(40) {
                WhenUnsatisfiable::DoNotSchedule
            } else {
                WhenUnsatisfiable::ScheduleAnyway
            },
            counts_itself: dice.chance(70),
            honors_affinity: dice.chance(70),
            honors_taints: dice.chance(30),
        }),
    }
}

/// The amount of the kind with this name.
pub(crate) fn of(amounts: &Amounts, name: &str) -> i64 {
    let kind = KINDS.iter().position(|known| *known == name);
    kind.map_or(0, |kind| amounts.get(KindId(kind as u8)) as i64)
}
