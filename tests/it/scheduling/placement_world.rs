//! Random cells for tests of placement: machines of a few sizes, partly filled.

use crate::cell::small;
use omega_cellstate::{CellHandle, GroupRef, Interest, SharedCell, View};
use omega_core::{
    Amounts, Command, CoreRequest, DAY_MS, DeviceRequest, Image, JobId, KindId, KindShare, Kinds,
    LabelSelector, Labels, Machine, MachineSelector, Near, NodeCores, Operator, Peak, PeakCalendar,
    Port, Preferred, Requirement, Reservation, SchedulerId, Spread, Taint, TaintEffect, TaskGroup,
    TaskId, TaskRule, TaskSelector, Tenants, Text, Toleration, TolerationOperator, TopologyLevel,
    WhenUnsatisfiable,
};
use omega_schedulers::Profile;
use omega_tests::random::Dice;

/// The built-in profiles.
pub(crate) const PROFILES: [fn() -> Profile; 4] =
    [Profile::first_fit, Profile::service, Profile::batch, || Profile::kube(&Kinds::standard())];

/// A cell of random machines, partly filled, with a view of it.
pub(crate) struct World {
    pub(crate) cell: SharedCell,
    pub(crate) view: View,
    pub(crate) dice: Dice,
    jobs: Vec<JobId>,
    /// A separate random generator for reservations and run times.
    planner: Option<Dice>,
}

impl World {
    pub(crate) fn new(seed: u64, machines: usize) -> World {
        let mut dice = Dice::new(seed);
        let cell = small::cell(&[]);
        for i in 0..machines {
            small::add_machine(&cell, random_machine(&mut dice, i));
        }
        let (id, number) = cell.register("s".into()).unwrap();
        let mut view = View::new(id, number);
        view.sync(&cell).unwrap();
        for profile in PROFILES {
            profile().prepare(&mut view);
        }
        World { cell, view, dice, jobs: Vec::new(), planner: None }
    }

    /// Submits a job, and compiles it in the view.
    pub(crate) fn submit(&mut self, group: TaskGroup) -> GroupRef {
        let name = format!("j{}", self.jobs.len());
        let mut job = omega_core::Job::batch(name, group);
        if let Some(dice) = &mut self.planner {
            job.tenant = (*dice.pick(&["red", "blue"])).into();
            job.runtime_estimate_ms = dice.chance(50).then(|| dice.below(20) as u64);
        }
        let id = small::submit(&self.cell, job);
        self.jobs.push(id);
        self.view.sync(&self.cell).unwrap();
        let job = self.cell.read(|cell| cell.job(id).unwrap().clone());
        self.view.compile(id, &job, 0)
    }

    /// A new view of the cell for a profile. Compiles a group that equals this one.
    pub(crate) fn fresh_view(&self, profile: &Profile, group: GroupRef) -> (View, GroupRef) {
        let mut view = View::new(SchedulerId(1), 0).with_interest(Interest::Machines);
        view.sync(&self.cell).unwrap();
        profile.prepare(&mut view);
        let (job, index) = self.view.job(group);
        let group = view.compile(self.view.job_id(group), job, index);
        (view, group)
    }

    pub(crate) fn tasks(&self, count: u32) -> Vec<TaskId> {
        let job = *self.jobs.last().expect("a job was submitted");
        (0..count).map(|index| small::task(job, index)).collect()
    }

    /// Commits the claims, all of which must be accepted.
    pub(crate) fn commit(&mut self) {
        if self.view.open_claims() == 0 {
            return;
        }
        let txn = self.view.take_transaction();
        let commit = self.cell.commit(&txn).unwrap();
        assert_eq!(commit.conflicts, [], "the cell is quiet");
        self.view.settle(&txn, &commit);
        self.view.sync(&self.cell).unwrap();
        self.cell.read(|cell| cell.audit_no_overcommit()).expect("the cell is right");
    }

    /// Occasionally changes reservations from now on.
    pub(crate) fn with_reservations(mut self, seed: u64) -> World {
        self.planner = Some(Dice::new(seed ^ 0xB00C));
        self
    }

    /// Occasionally reserves a few machines, or ends a reservation.
    fn plan(&mut self) {
        let rows = self.view.rows();
        let Some(dice) = self.planner.as_mut().filter(|_| rows > 0) else { return };
        if !dice.chance(20) {
            return;
        }
        let name: Text = (*dice.pick(&["one", "two"])).into();
        let row = dice.below(rows);
        let names = (0..3).map(|more| format!("m{}", row + more).as_str().into()).collect();
        let names = Requirement { key: "".into(), operator: Operator::In, values: names };
        let machines = MachineSelector { labels: Vec::new(), names: vec![names] };
        let command = match dice.below(10) {
            0..4 => Command::Reserve(Reservation {
                name,
                machines,
                tenants: vec![(*dice.pick(&["red", "blue"])).into()],
                from_ms: dice.below(20) as u64,
                until_ms: 20 + dice.below(20) as u64,
            }),
            4..7 => Command::Unreserve { name },
            7..9 => {
                let percent = *dice.pick(&[0, 30, 60]);
                let batch_max = vec![KindShare { kind: KindId::CPU, percent }];
                let peaks = vec![Peak { from_ms: 0, until_ms: DAY_MS, batch_max }];
                Command::SetPeaks(PeakCalendar { name, machines, peaks })
            }
            _ => Command::RemovePeaks { name },
        };
        // If the reservation does not exist, the command is rejected, which makes no difference.
        drop(self.cell.apply(command));
        self.view.sync(&self.cell).unwrap();
    }

    /// Places some tasks on any machines, and ends some others.
    pub(crate) fn churn(&mut self) {
        self.plan();
        let mut group = self.random_group();
        group.count = 1 + self.dice.below(8) as u32;
        let tasks = group.count;
        let group = self.submit(group);
        for task in self.tasks(tasks) {
            let machine = self.view.machine_id(self.dice.below(self.view.rows()));
            let _ = self.view.claim(task, machine, group);
        }
        self.commit();
        if self.dice.chance(30) {
            let job = *self.dice.pick(&self.jobs);
            self.cell.apply(Command::KillJob { job }).unwrap();
            self.view.sync(&self.cell).unwrap();
        }
    }

    /// Removes all taints and devices. When a machine gets one again, plugins for taints or devices apply to the cell
    /// again.
    pub(crate) fn make_plain(&mut self) {
        for row in 0..self.view.rows() {
            let machine = Machine::clone(self.view.machine(row).expect("no machine has left yet"));
            let machine = Machine { taints: [].into(), devices: 0, ..machine };
            let id = self.view.machine_id(row);
            self.cell.apply(Command::UpdateMachine { id, machine }).expect("it is there");
        }
        self.view.sync(&self.cell).unwrap();
    }

    /// Drains, removes or changes a machine.
    pub(crate) fn change_a_machine(&mut self) {
        let row = self.dice.below(self.view.rows());
        let Some(old) = self.view.machine(row).cloned() else { return };
        let id = self.view.machine_id(row);
        let command = match self.dice.below(8) {
            0 => Command::RemoveMachine { id },
            1..4 => Command::DrainMachine { id, draining: self.dice.chance(50) },
            _ => {
                let mut machine = random_machine(&mut self.dice, row);
                // The capacity never shrinks, so every accepted claim still fits.
                machine.capacity = old.capacity.clone();
                machine.name = old.name.clone();
                machine.devices = if old.devices == 0 { machine.devices } else { old.devices };
                machine.numa = old.numa;
                Command::UpdateMachine { id, machine }
            }
        };
        self.cell.apply(command).expect("the machine is there");
        self.view.sync(&self.cell).unwrap();
    }

    /// A random group without rules about other tasks.
    pub(crate) fn random_group(&mut self) -> TaskGroup {
        random_group(&mut self.dice)
    }

    /// A random group with one or two rules about other tasks.
    pub(crate) fn ruled_group(&mut self) -> TaskGroup {
        ruled_group(&mut self.dice)
    }
}

/// A group without rules about other tasks.
pub(crate) fn random_group(dice: &mut Dice) -> TaskGroup {
    let request = [500 * dice.below(9) as u64, (dice.below(9) as u64) << 30];
    let mut group = TaskGroup::new(1, Amounts::new(request));
    if dice.chance(25) {
        let milli_each = *dice.pick(&[1000, 300, 500]);
        group.devices = Some(DeviceRequest { count: 1, milli_each });
    }
    // The cores depend on the request; about every fifth group needs exclusive cores.
    let count = (request[0] / 1000) as u16;
    group.cores = match request[1] >> 30 {
        2 if count > 0 => Some(CoreRequest::any(count)),
        3 if count > 0 => Some(CoreRequest::on_one_node(count)),
        _ => None,
    };
    if dice.chance(25) {
        group.rules.affinity.required = Some(vec![MachineSelector::label("disk", "ssd")]);
    }
    if dice.chance(5) {
        group.rules.machine = Some(format!("m{}", dice.below(20)).into());
    }
    for (zone, weight) in [("z0", 3), ("z1", 1)] {
        if dice.chance(25) {
            let machines = MachineSelector::label("zone", zone);
            group.rules.affinity.preferred.push(Preferred { weight, machines });
        }
    }
    if dice.chance(25) {
        group.images = vec!["i".into()];
    }
    if dice.chance(40) {
        group.rules.tolerations.push(Toleration {
            key: None,
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect: None,
        });
    }
    group
}

/// A group with one or two rules about other tasks.
pub(crate) fn ruled_group(dice: &mut Dice) -> TaskGroup {
    let mut group = random_group(dice);
    group.count = 1 + dice.below(12) as u32;
    group.labels = Labels::new([("app", *dice.pick(&["a", "b"]))]);
    for _ in 0..1 + dice.below(2) {
        let rule = random_rule(dice);
        group.rules.tasks.push(rule);
    }
    if dice.chance(25) {
        group.rules.ports.push(Port::tcp(80));
    }
    group
}

/// A machine of one of a few sizes, so that scores are often equal.
pub(crate) fn random_machine(dice: &mut Dice, index: usize) -> Machine {
    let cores = *dice.pick(&[1, 4, 4, 8, 16]);
    let gib = *dice.pick(&[4, 16, 16, 64]);
    let mut machine = Machine::new(format!("m{index}"), Amounts::new([cores * 1000, gib << 30]));
    machine.labels = Labels::new([
        ("zone", *dice.pick(&["z0", "z1", "z2"])),
        ("disk", *dice.pick(&["ssd", "hdd"])),
    ]);
    machine.devices = *dice.pick(&[0, 0, 1, 4]);
    if !index.is_multiple_of(3) && cores > 1 {
        let half = cores as u16 / 2;
        machine.numa = NodeCores::new(&[half, half - 1]).expect("two nodes");
    }
    if dice.chance(30) {
        machine.images = [Image { name: "i".into(), bytes: 900 << 20 }].into();
    }
    if dice.chance(20) {
        let effect = *dice.pick(&[TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule]);
        machine.taints = [Taint { key: "old".into(), value: "".into(), effect }].into();
    }
    machine
}

fn random_rule(dice: &mut Dice) -> TaskRule {
    let requirements = vec![Requirement::equals("app", *dice.pick(&["a", "b"]))];
    let labels = LabelSelector { requirements };
    let of = match dice.below(3) {
        0 => TaskSelector::SameGroup,
        _ => TaskSelector::Labels { tenants: Tenants::Any, labels },
    };
    let level =
        if dice.chance(50) { TopologyLevel::Machine } else { TopologyLevel::Label("zone".into()) };
    match dice.below(8) {
        6 => TaskRule::MaxColocated { of, level, count: 1 + dice.below(3) as u32 },
        7 if of != TaskSelector::SameGroup => TaskRule::RuntimeAffinity(Near { tasks: of, level }),
        0 => TaskRule::AntiAffinity { from: of, level },
        1 => TaskRule::Affinity(vec![Near { tasks: of, level }]),
        2 => TaskRule::MaxPerDomain { of, level, count: 1 + dice.below(3) as u32 },
        3 => TaskRule::MaxShare { level, percent: 50 },
        _ => TaskRule::Spread(Spread {
            when: if dice.chance(60) {
                WhenUnsatisfiable::DoNotSchedule
            } else {
                WhenUnsatisfiable::ScheduleAnyway
            },
            honors_taints: dice.chance(30),
            ..Spread::new(of, level, 1 + dice.below(2) as u32)
        }),
    }
}
