//! A job: groups of identical tasks, and the rules for where they may run.

use crate::amounts::Amounts;
use crate::cores::CoreRequest;
use crate::demand_profile::DemandProfile;
use crate::ids::{MachineId, Precedence};
use crate::machine::{Labels, Toleration, TopologyLevel};
use crate::run::{Payload, Run};
use crate::selector::{MachineSelector, TaskSelector};
use crate::text::Text;
use crate::update::UpdateRules;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Type of a job: service or batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// A job without a planned end.
    Service,
    /// A job that runs to its end.
    Batch,
}

/// Whether the tasks of a job may preempt tasks of other jobs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Preemption {
    /// The tasks may preempt tasks of lower precedence.
    #[default]
    LowerPrecedence,
    /// The tasks preempt no other tasks. Their precedence only orders the queue and protects them from preemption.
    /// (Kubernetes' `preemptionPolicy: Never`.)
    Never,
}

/// A job: a request to run tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Name of the job, unique among the jobs of which the cell has a record.
    pub name: Text,
    /// Tenant that owns the job, and whose quota its tasks use.
    pub tenant: Text,
    /// Name of the scheduler that places the job. A scheduler places only jobs with its name.
    pub scheduler: Text,
    /// Precedence of the tasks. It decides which other tasks they may preempt.
    pub precedence: Precedence,
    /// Whether the tasks may preempt others. Only schedulers respect this; the cell checks precedence alone.
    pub preemption: Preemption,
    /// Whether the job is a service or a batch job.
    pub kind: JobKind,
    /// Groups of identical tasks.
    pub groups: Vec<TaskGroup>,
    /// If the job is a gang: the minimum number of its tasks, over all groups, that are placed together.
    ///
    /// If fewer tasks than this are unfinished, the minimum is the number of unfinished tasks. So the last tasks of a
    /// gang can be placed again.
    pub gang_min: Option<u32>,
    /// Gang timeout, in milliseconds of [`Command::Expire`](crate::Command::Expire). Without it, one transaction must
    /// place the gang.
    ///
    /// With a timeout, several transactions may place the gang. Until the gang is complete, its placed tasks keep their
    /// machines but do not run. After the timeout, the cell takes all of them off their machines.
    pub gang_timeout_ms: Option<u32>,
    /// Expected run time of a task in milliseconds, if known.
    pub runtime_estimate_ms: Option<u64>,
    /// Deadline: time at which the job should have ended, in milliseconds of
    /// [`Command::Expire`](crate::Command::Expire). An order plugin may sort the queue by deadline. The cell neither
    /// rejects nor ends a job because of its deadline.
    pub deadline_ms: Option<u64>,
    /// Rules for updates of a service; `None` means the default rules.
    pub update: Option<UpdateRules>,
}

impl Job {
    /// A batch job of one group for the scheduler `default`, with precedence 0.
    pub fn batch(name: impl Into<Text>, group: TaskGroup) -> Job {
        Job {
            name: name.into(),
            tenant: "default".into(),
            scheduler: "default".into(),
            precedence: Precedence(0),
            preemption: Preemption::default(),
            kind: JobKind::Batch,
            groups: vec![group],
            gang_min: None,
            gang_timeout_ms: None,
            runtime_estimate_ms: None,
            deadline_ms: None,
            update: None,
        }
    }

    /// Number of tasks in all groups together.
    #[must_use]
    pub fn task_count(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.count)).sum()
    }

    /// Whether the job is a gang that one transaction must place.
    #[must_use]
    pub fn is_placed_at_once(&self) -> bool {
        self.gang_min.is_some() && self.gang_timeout_ms.is_none()
    }
}

/// Identical tasks of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskGroup {
    /// Name of the group, unique in the job.
    pub name: Text,
    /// Number of tasks.
    pub count: u32,
    /// Amounts that each task requests.
    pub request: Amounts,
    /// Accelerator devices that each task needs. `request` includes the matching amount.
    pub devices: Option<DeviceRequest>,
    /// Labels of the tasks. The rules of any job can select tasks by these labels.
    pub labels: Labels,
    /// Number of times that a failed task is restarted before its failure is final. A number above 65,535 means no
    /// limit.
    pub restarts: u32,
    /// Container images of the tasks. Tasks start sooner on machines that already have these images.
    pub images: Vec<Text>,
    /// Placement rules of the tasks.
    pub rules: PlacementRules,
    /// Names of the volume claims that each task uses. The cell has no record of volumes; schedulers look up the names.
    /// Tasks with different volume claims need different groups.
    #[serde(default)]
    pub volumes: Vec<Text>,
    /// Grace period, in milliseconds: the time from a task's stop until its machine kills it, in which the task can end
    /// by itself. With 0, a stopped task is killed at once.
    ///
    /// The cell gives the task's resources to the next task at once. That task then waits on the machine until the
    /// resources are free.
    pub grace_ms: u32,
    /// Demand profiles for amounts that vary over the day, ascending by kind. For each kind with a profile, `request`
    /// must equal the highest point of the profile.
    pub demand_profiles: Vec<DemandProfile>,
    /// Optional resources of each task. They are claimed in addition to the request on a machine where they are free.
    pub optional: Option<OptionalResources>,
    /// Exclusive cores of each task. The `cpu` of `request` includes them.
    pub cores: Option<CoreRequest>,
    /// Cluster resources that each placed task claims, such as licences, addresses or volumes of a cloud provider.
    /// Nearly all tasks claim none. [`Command::SetClusterCapacity`](crate::Command::SetClusterCapacity) sets the
    /// capacity.
    pub cluster_request: Amounts,
    /// Program of each task; `None` if the agents get the program in another way.
    pub run: Option<Arc<Run>>,
    /// Opaque bytes for agents other than Omega's own, at most 64 KiB.
    pub payload: Payload,
    /// Version of the job that last changed the group's description. The cell sets it; a submitted job has 0.
    pub version: u32,
    /// Whether the group has one task on each machine that may run it, including machines that are added later. If so,
    /// a controller sets `count`.
    pub per_machine: bool,
    /// Names of the ports that the cell chooses for each task, from the range of its machine
    /// ([`Machine::ports`](crate::Machine::ports)). A task keeps them while it has its machine.
    pub any_ports: Vec<Text>,
}

impl TaskGroup {
    /// A group of `count` tasks with this request and without rules.
    #[must_use]
    pub fn new(count: u32, request: Amounts) -> TaskGroup {
        TaskGroup {
            name: "main".into(),
            count,
            request,
            devices: None,
            labels: Labels::default(),
            restarts: 0,
            images: Vec::new(),
            rules: PlacementRules::default(),
            volumes: Vec::new(),
            grace_ms: 0,
            demand_profiles: Vec::new(),
            optional: None,
            cores: None,
            cluster_request: Amounts::zero(),
            run: None,
            payload: Payload::default(),
            version: 0,
            per_machine: false,
            any_ports: Vec::new(),
        }
    }

    /// Returns the amounts that each task requests: first those of its machine, then those of cluster resources.
    pub fn asks(&self) -> impl Iterator<Item = &Amounts> {
        [&self.request, &self.cluster_request].into_iter()
    }

    /// Returns the group with its optional resources added to its request; `None` if it has no optional resources.
    #[must_use]
    pub fn with_optional(&self) -> Option<TaskGroup> {
        let optional = self.optional.as_ref()?;
        let request = self.request.checked_add(&optional.amounts)?;
        Some(TaskGroup {
            request,
            devices: self.devices.or(optional.devices),
            optional: None,
            ..self.clone()
        })
    }
}

/// Optional resources of a task, such as a device that lets it run faster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OptionalResources {
    /// Amount of each kind.
    pub amounts: Amounts,
    /// Optional devices. `amounts` includes the matching amount. Only allowed if the task requests no devices.
    pub devices: Option<DeviceRequest>,
}

// Snapshots contain the hash of the cell's state. Fields that were added later are hashed only if they are set, so that
// the hashes in older snapshots stay valid.

impl Hash for Job {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Job { name, tenant, scheduler, precedence, preemption, kind, .. } = self;
        let Job {
            groups, gang_min, runtime_estimate_ms, gang_timeout_ms, deadline_ms, update, ..
        } = self;
        (name, tenant, scheduler, precedence, preemption, kind).hash(state);
        (groups, gang_min, runtime_estimate_ms).hash(state);
        if let Some(hold) = gang_timeout_ms {
            ("gang hold", hold).hash(state);
        }
        if let Some(due) = deadline_ms {
            ("due", due).hash(state);
        }
        if let Some(update) = update {
            ("update", update).hash(state);
        }
    }
}

impl Hash for TaskGroup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let TaskGroup { name, count, request, devices, labels, restarts, images, .. } = self;
        let TaskGroup {
            rules,
            volumes,
            grace_ms,
            demand_profiles,
            optional,
            cores,
            cluster_request,
            run,
            payload,
            version,
            per_machine,
            any_ports,
            ..
        } = self;
        (name, count, request, devices, labels, restarts, images).hash(state);
        (rules, volumes).hash(state);
        if *grace_ms > 0 {
            ("grace", grace_ms).hash(state);
        }
        if !demand_profiles.is_empty() {
            ("demand_profiles", demand_profiles).hash(state);
        }
        if let Some(optional) = optional {
            ("optional", optional).hash(state);
        }
        if let Some(cores) = cores {
            ("cores", cores).hash(state);
        }
        if !cluster_request.is_zero() {
            ("cluster resources", cluster_request).hash(state);
        }
        if let Some(run) = run {
            ("run", run).hash(state);
        }
        if !payload.is_empty() {
            ("payload", payload).hash(state);
        }
        if *version > 0 {
            ("version", version).hash(state);
        }
        if *per_machine {
            "per machine".hash(state);
        }
        if !any_ports.is_empty() {
            ("any ports", any_ports).hash(state);
        }
    }
}

/// Devices that one task needs, all on its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceRequest {
    /// Number of devices.
    pub count: u8,
    /// Amount of each device that the task uses, in thousandths. 1000 is a whole device.
    pub milli_each: u16,
}

/// Placement rules of a group: requirements and preferences.
///
/// All rules are *hard* except preferences and spreads with [`WhenUnsatisfiable::ScheduleAnyway`]: the cell rejects
/// every claim that breaks a hard rule, whichever scheduler submits it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlacementRules {
    /// Name of the only machine that may run the tasks, if any. (Kubernetes' `nodeName`.)
    pub machine: Option<Text>,
    /// Required and preferred machines.
    pub affinity: Affinity,
    /// Tolerated taints.
    pub tolerations: Vec<Toleration>,
    /// Rules about other tasks.
    pub tasks: Vec<TaskRule>,
    /// Ports of the machine that each task uses exclusively.
    pub ports: Vec<Port>,
}

/// Required and preferred machines of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Affinity {
    /// Selectors of required machines. If there are any, the machine must match at least one.
    pub required: Option<Vec<MachineSelector>>,
    /// Selectors of preferred machines.
    pub preferred: Vec<Preferred>,
}

/// A preference for machines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Preferred {
    /// Weight of a match, 1 to 100.
    pub weight: u32,
    /// Selector of the machines.
    pub machines: MachineSelector,
}

/// Rule that relates a task to other tasks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskRule {
    /// No selected task may be in the task's domain, whether placed before or after it.
    AntiAffinity {
        /// Selector of the tasks to avoid.
        from: TaskSelector,
        /// Level of the domains.
        level: TopologyLevel,
    },
    /// For each term, the task's domain already has a task that *all* terms select.
    ///
    /// The rule is also met if all terms select this task itself, and no task that they all select is placed anywhere.
    /// (Kubernetes: required pod affinity. The terms of one rule belong together; two separate rules are evaluated
    /// independently.)
    Affinity(Vec<Near>),
    /// Domains with more selected tasks are preferred. With a negative weight, domains with fewer selected tasks are
    /// preferred.
    Prefer {
        /// The selected tasks, and the level of the domains.
        near: Near,
        /// Weight of each selected task in the domain, from -100 to 100.
        weight: i32,
    },
    /// A domain may have at most `count` selected tasks, including this one.
    MaxPerDomain {
        /// Selector of the counted tasks.
        of: TaskSelector,
        /// Level of the domains.
        level: TopologyLevel,
        /// Maximum number of tasks.
        count: u32,
    },
    /// A domain may have at most this share of the group's tasks, but always at least one task.
    MaxShare {
        /// Level of the domains.
        level: TopologyLevel,
        /// Maximum share in percent of the group's count, rounded down.
        percent: u8,
    },
    /// The selected tasks are spread evenly over the domains.
    Spread(Spread),
    /// In a domain with a task of this group, at most `count` selected tasks may be placed. The order in which tasks
    /// are placed does not matter.
    ///
    /// This task counts if it is selected. A count of 0 is rejected; use [`TaskRule::AntiAffinity`] instead.
    MaxColocated {
        /// Selector of the counted tasks.
        of: TaskSelector,
        /// Level of the domains.
        level: TopologyLevel,
        /// Maximum number of tasks, at least 1.
        count: u32,
    },
    /// As long as this task is placed, another selected task must be in its domain.
    ///
    /// The cell rejects a placement in a domain without such a task. It also rejects releases and evictions that would
    /// leave this task in the domain without such a task. The selected tasks may still end, fail, be killed, or be lost
    /// with their machine.
    RuntimeAffinity(Near),
}

/// A selector of tasks, and a topology level.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Near {
    /// Selector of the tasks.
    pub tasks: TaskSelector,
    /// Topology level of the domain.
    pub level: TopologyLevel,
}

/// An even spread of tasks over domains. (Kubernetes: topology spread constraint.)
///
/// The spread considers only machines that the fields below do not exclude. They must also have a domain at the level
/// of each of the group's spreads of this type, hard or soft. Other machines, with their domains and tasks, are
/// ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spread {
    /// Selector of the counted tasks.
    pub of: TaskSelector,
    /// Level of the domains.
    pub level: TopologyLevel,
    /// Maximum skew: how many more selected tasks a domain may have than the domain with the fewest. The task to be
    /// placed counts.
    pub skew_max: u32,
    /// Minimum number of domains. If there are fewer domains, the domain with the fewest tasks is taken to have 0
    /// tasks. The values 0 and 1 have no effect.
    pub domains_min: u32,
    /// Whether the spread is hard or soft.
    pub when: WhenUnsatisfiable,
    /// Whether the task to be placed counts as a selected task, because the selector matches it.
    pub counts_itself: bool,
    /// Whether machines that do not meet the group's required affinity are ignored.
    pub honors_affinity: bool,
    /// Whether machines with taints that the group does not tolerate are ignored.
    pub honors_taints: bool,
}

impl Spread {
    /// Returns a hard spread with a maximum skew, over the machines that meet the group's required affinity. Use it
    /// only for a group whose own tasks match the selector `of`.
    #[must_use]
    pub fn new(of: TaskSelector, level: TopologyLevel, skew_max: u32) -> Spread {
        Spread {
            of,
            level,
            skew_max,
            domains_min: 0,
            when: WhenUnsatisfiable::DoNotSchedule,
            counts_itself: true,
            honors_affinity: true,
            honors_taints: false,
        }
    }
}

/// Treatment of a task whose placement would violate a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenUnsatisfiable {
    /// The task stays pending.
    DoNotSchedule,
    /// The task is placed where it violates the spread least.
    ScheduleAnyway,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port of a machine that one task uses exclusively.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Port {
    /// Address of the port; `None` means every address of the machine.
    pub address: Option<Text>,
    /// The protocol.
    pub protocol: Protocol,
    /// Number of the port.
    pub number: u16,
}

impl Port {
    /// The TCP port with this number on every address.
    #[must_use]
    pub fn tcp(number: u16) -> Port {
        Port { address: None, protocol: Protocol::Tcp, number }
    }

    /// Whether two tasks, one with each of these ports, cannot share a machine.
    #[must_use]
    pub fn collides(&self, other: &Port) -> bool {
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address.is_none() || other.address.is_none() || self.address == other.address)
    }
}

/// State of a task.
///
/// ```text
///            commit          started          finished, failed
/// Pending ──────────▶ Placed ───────▶ Running ───────────────▶ Finished | Failed
///    ▲  ▲               │                │
///    │  └── evicted, released, lost, failed with restarts left
///    └── killed (from any state before the end) ──▶ Killed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// The task waits for a machine.
    Pending,
    /// A commit placed the task on this machine.
    Placed(MachineId),
    /// The task's machine reported that the task runs.
    Running(MachineId),
    /// The task has finished.
    Finished,
    /// The task failed and has no restarts left.
    Failed,
    /// The task's job was killed, or its group shrank.
    Killed,
}

impl TaskState {
    /// The machine that the task is placed on, if any.
    #[must_use]
    pub fn machine(self) -> Option<MachineId> {
        match self {
            TaskState::Placed(machine) | TaskState::Running(machine) => Some(machine),
            TaskState::Pending | TaskState::Finished | TaskState::Failed | TaskState::Killed => {
                None
            }
        }
    }

    /// Whether the state is final.
    #[must_use]
    pub fn ended(self) -> bool {
        matches!(self, TaskState::Finished | TaskState::Failed | TaskState::Killed)
    }
}
