//! Random jobs with every kind of rule.

use super::Generator;
use crate::reference::Reference;
use omega_core::{
    Amounts, Command, DemandProfile, DeviceRequest, Groups, Job, JobKind, LabelSelector, Labels,
    MachineSelector, Near, Operator, Port, Precedence, Protocol, Requirement, Spread, TaskGroup,
    TaskRule, TaskSelector, Tenants, Toleration, TolerationOperator, TopologyLevel,
    WhenUnsatisfiable,
};

impl Generator {
    pub(super) fn submit_job(&mut self, reference: &Reference) -> Command {
        let name = if self.dice.chance(4) {
            reference.jobs().values().next().map_or("first".into(), |j| j.spec.name.clone())
        } else {
            self.fresh_name("job")
        };
        let groups = 1 + usize::from(self.dice.chance(30));
        let groups: Groups = (0..groups).map(|i| self.group(i).into()).collect();
        let mut job = Job::batch(name, TaskGroup::new(0, Default::default()));
        job.tenant = self.tenant();
        job.scheduler = (*self.dice.pick(&["first", "second"])).into();
        job.precedence = Precedence(self.dice.below(4) as i32);
        job.kind = *self.dice.pick(&[JobKind::Batch, JobKind::Service]);
        job.groups = groups;
        if self.dice.chance(25) {
            job.gang_min = Some(self.dice.below(5) as u32);
            if self.dice.chance(50) {
                job.gang_timeout_ms = Some(self.dice.below(20) as u32);
            }
        }
        Command::SubmitJob(job)
    }

    pub(super) fn resize_group(&mut self, reference: &Reference) -> Command {
        let job = self.some_job(reference);
        let group = (*self.dice.pick(&["g0", "g0", "g0", "g1"])).into();
        Command::ResizeGroup { job, group, count: self.dice.below(6) as u32 }
    }

    fn group(&mut self, index: usize) -> TaskGroup {
        let count = self.dice.below(5) as u32;
        let request = self.amounts(3);
        let mut group = TaskGroup::new(count, request);
        group.name = format!("g{}", if self.dice.chance(2) { 0 } else { index }).into();
        if self.dice.chance(60) {
            group.labels = Labels::new([("app", *self.dice.pick(&["web", "db"]))]);
        }
        group.restarts = self.dice.below(3) as u32;
        if self.dice.chance(20) {
            group.grace_ms = *self.dice.pick(&[1, 30_000, 3_600_000, 3_600_001]);
        }
        if self.demand_profiles.chance(20) {
            group.demand_profiles = self.demand_profiles_of(&group.request);
        }
        if self.dice.chance(20) {
            let milli_each = *self.dice.pick(&[1000, 500, 400, 1000, 500, 0]);
            group.devices = Some(DeviceRequest { count: 1 + self.dice.below(2) as u8, milli_each });
        }
        if self.dice.chance(12) {
            let terms = (0..self.dice.below(3)).map(|_| self.machine_selector()).collect();
            group.rules.affinity.required = Some(terms);
        }
        if self.dice.chance(5) {
            group.rules.machine = Some(format!("m{}", 1 + self.dice.below(6)).into());
        }
        group.images = (0..self.dice.below(2)).map(|_| "image".into()).collect();
        if self.dice.chance(10) {
            group.volumes = (0..self.dice.below(3)).map(|i| format!("data-{i}").into()).collect();
        }
        group.rules.tolerations = (0..self.dice.below(3)).map(|_| self.toleration()).collect();
        if self.dice.chance(25) {
            group.rules.ports = (0..1 + self.dice.below(2)).map(|_| self.port()).collect();
        }
        if self.dice.chance(50) {
            group.rules.tasks = (0..1 + self.dice.below(2)).map(|_| self.task_rule()).collect();
        }
        self.want(&mut group);
        self.need_cores(&mut group);
        self.claim_of_cell(&mut group);
        self.need_any_ports(&mut group);
        self.run_program(&mut group);
        group
    }

    /// Demand profiles for some of the requested kinds; occasionally an invalid one.
    fn demand_profiles_of(&mut self, request: &Amounts) -> Vec<DemandProfile> {
        let mut demand_profiles = Vec::new();
        for (kind, amount) in request.iter() {
            if self.demand_profiles.chance(30) || amount > 100 {
                continue;
            }
            let count = *self.demand_profiles.pick(&[1, 2, 3, 4, 24, 48, 9, 32, 288]);
            let count = if self.demand_profiles.chance(2) { 5 } else { count };
            let mut points: Vec<u64> = (0..count)
                .map(|_| self.demand_profiles.below(amount as usize + 1) as u64)
                .collect();
            if !self.demand_profiles.chance(2) {
                points[self.demand_profiles.below(count)] = amount;
            }
            demand_profiles.push(DemandProfile { kind, points });
        }
        if self.demand_profiles.chance(2) {
            demand_profiles.reverse();
        }
        demand_profiles
    }

    fn machine_selector(&mut self) -> MachineSelector {
        match self.dice.below(5) {
            0 => MachineSelector::default(),
            1 => MachineSelector {
                labels: Vec::new(),
                names: vec![Requirement {
                    key: "".into(),
                    operator: Operator::NotIn,
                    values: vec!["m1".into()],
                }],
            },
            2 => MachineSelector::label("zone", "z0"),
            3 => MachineSelector {
                labels: vec![Requirement {
                    key: "zone".into(),
                    operator: Operator::NotIn,
                    values: vec!["z1".into()],
                }],
                names: Vec::new(),
            },
            _ => MachineSelector::label("disk", *self.dice.pick(&["ssd", "hdd"])),
        }
    }

    fn toleration(&mut self) -> Toleration {
        use TolerationOperator::{Equal, Exists};
        let keys = [None, Some("old".into()), Some("special".into())];
        Toleration {
            key: self.dice.pick(&keys).clone(),
            operator: *self.dice.pick(&[Equal, Exists]),
            value: (*self.dice.pick(&["", "yes"])).into(),
            effect: None,
        }
    }

    fn port(&mut self) -> Port {
        let addresses = [None, None, Some("10.0.0.1".into()), Some("10.0.0.2".into())];
        Port {
            address: self.dice.pick(&addresses).clone(),
            protocol: *self.dice.pick(&[Protocol::Tcp, Protocol::Tcp, Protocol::Udp]),
            number: *self.dice.pick(&[80, 443]),
        }
    }

    fn task_rule(&mut self) -> TaskRule {
        let level = self.level();
        let tasks = self.task_selector();
        match self.dice.below(16) {
            12 | 13 => {
                let count = self.dice.below(9).min(3) as u32;
                TaskRule::MaxColocated { of: tasks, level, count }
            }
            14 | 15 if self.dice.chance(10) => TaskRule::RuntimeAffinity(Near { tasks, level }),
            14 | 15 => TaskRule::RuntimeAffinity(Near { tasks: self.labelled_tasks(), level }),
            0 | 1 => TaskRule::AntiAffinity { from: tasks, level },
            2 | 3 => self.affinity(Near { tasks, level }),
            4 => TaskRule::MaxPerDomain { of: tasks, level, count: self.dice.below(3) as u32 },
            5 => TaskRule::MaxShare { level, percent: *self.dice.pick(&[0, 30, 50, 100]) },
            6 | 7 => {
                let weight = self.dice.below(12) as i32 * 20 - 110;
                TaskRule::Prefer { near: Near { tasks, level }, weight }
            }
            _ => TaskRule::Spread(Spread {
                domains_min: self.dice.below(4) as u32,
                when: if self.dice.chance(75) {
                    WhenUnsatisfiable::DoNotSchedule
                } else {
                    WhenUnsatisfiable::ScheduleAnyway
                },
                counts_itself: self.dice.chance(80),
                honors_affinity: self.dice.chance(70),
                honors_taints: self.dice.chance(40),
                ..Spread::new(tasks, level, self.dice.below(3) as u32)
            }),
        }
    }

    /// Makes an affinity, mostly with one term, and occasionally with two or none.
    fn affinity(&mut self, first: Near) -> TaskRule {
        let mut terms = vec![first];
        match self.dice.below(20) {
            0 => terms.clear(),
            1..7 => terms.push(Near { tasks: self.task_selector(), level: self.level() }),
            _ => {}
        }
        TaskRule::Affinity(terms)
    }

    fn level(&mut self) -> TopologyLevel {
        match self.dice.below(5) {
            0 | 1 => TopologyLevel::Machine,
            2 | 3 => TopologyLevel::Label("zone".into()),
            _ => TopologyLevel::Label("rack".into()),
        }
    }

    fn task_selector(&mut self) -> TaskSelector {
        if self.dice.chance(50) {
            return if self.dice.chance(50) {
                TaskSelector::SameGroup
            } else {
                TaskSelector::SameJob
            };
        }
        self.labelled_tasks()
    }

    fn labelled_tasks(&mut self) -> TaskSelector {
        let tenants = match self.dice.below(4) {
            0 => Tenants::Own,
            1 => Tenants::Named(vec!["red".into()]),
            _ => Tenants::Any,
        };
        let requirements = if self.dice.chance(10) {
            Vec::new()
        } else {
            vec![Requirement::equals("app", *self.dice.pick(&["web", "db"]))]
        };
        TaskSelector::Labels { tenants, labels: LabelSelector { requirements } }
    }
}
