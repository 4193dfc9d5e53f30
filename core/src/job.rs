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

/// Whether the tasks of a job may displace others.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Preemption {
    /// The job may preempt tasks of lower precedence.
    #[default]
    LowerPrecedence,
    /// None: its precedence only orders the queue, and protects it. (Kubernetes'
    /// `preemptionPolicy: Never`.)
    Never,
}

/// A job: a request to run tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its name; no two jobs of a cell share one while both are known.
    pub name: Text,
    /// Tenant that pays: quotas count by tenant.
    pub tenant: Text,
    /// The name of the job's scheduler. A scheduler places only jobs with its name.
    pub scheduler: Text,
    /// Tasks that its tasks may preempt.
    pub precedence: Precedence,
    /// Whether its tasks may preempt others. Schedulers respect it; the cell checks precedence
    /// alone.
    pub preemption: Preemption,
    /// Service or batch.
    pub kind: JobKind,
    /// Its tasks.
    pub groups: Vec<TaskGroup>,
    /// Minimum number of tasks of a gang (over all groups) that are placed together. If fewer have
    /// not ended, the minimum is their number, so that the last tasks of a gang can be placed
    /// again.
    pub gang_min: Option<u32>,
    /// Gang timeout in milliseconds of [`Command::Expire`](crate::Command::Expire). With it,
    /// several transactions may place the gang: until it is complete, its tasks keep their places
    /// and do not run; after the timeout, the cell takes all of them off their machines. Without
    /// it, one transaction places the gang.
    pub gang_timeout_ms: Option<u32>,
    /// Expected run time of a task in milliseconds, if known.
    pub runtime_estimate_ms: Option<u64>,
    /// Deadline for the end of the job, if any, in milliseconds of
    /// [`Command::Expire`](crate::Command::Expire). A queue may be ordered by it; nothing is
    /// rejected or ended because of it.
    pub deadline_ms: Option<u64>,
    /// The rules of its updates, for a service; `None`: the default ones.
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

    /// Number of tasks of all groups.
    #[must_use]
    pub fn task_count(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.count)).sum()
    }

    /// Whether it is a gang that one transaction must place.
    #[must_use]
    pub fn is_placed_at_once(&self) -> bool {
        self.gang_min.is_some() && self.gang_timeout_ms.is_none()
    }
}

/// Identical tasks of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskGroup {
    /// Name, unique in the job.
    pub name: Text,
    /// Number of tasks.
    pub count: u32,
    /// Resources that each task claims.
    pub request: Amounts,
    /// Accelerator devices that each task needs. They are counted in `request` too.
    pub devices: Option<DeviceRequest>,
    /// Labels of the tasks, by which rules of other jobs select them.
    pub labels: Labels,
    /// Restarts of a failed task before it counts as failed; above 65,535, unlimited.
    pub restarts: u32,
    /// Images of its containers: tasks start sooner on machines that have them.
    pub images: Vec<Text>,
    /// Placement rules of the tasks.
    pub rules: PlacementRules,
    /// The volume claims that each of its tasks uses, by name. The cell has no volumes: schedulers
    /// look the names up. Tasks with different claims need different groups.
    #[serde(default)]
    pub volumes: Vec<Text>,
    /// Grace period of a task after a stop, in milliseconds; then its machine kills it. The cell
    /// gives its room to the next task at once, which waits on the machine. 0: it is killed at
    /// once.
    pub grace_ms: u32,
    /// Demand that varies over the day, ascending by kind: `request` has the highest point of each.
    pub demand_profiles: Vec<DemandProfile>,
    /// Optional resources of each task, added to the request where they are free.
    pub optional: Option<OptionalResources>,
    /// Exclusive cores of each task. They are counted in `request` as `cpu`, too.
    pub cores: Option<CoreRequest>,
    /// Cluster resources of each placed task: licences, addresses, volumes of a cloud. Their
    /// capacity is set by [`Command::SetClusterCapacity`](crate::Command::SetClusterCapacity). Zero
    /// for nearly all tasks.
    pub cluster_request: Amounts,
    /// The program of each task; `None` if agents get it in another way.
    pub run: Option<Arc<Run>>,
    /// Opaque bytes for agents of one's own, up to 64 KiB.
    pub payload: Payload,
    /// Version of the job that the group came with. The cell sets it; 0 in a submission.
    pub version: u32,
    /// Whether it has one task on each machine where such a task may run, on new ones too: a
    /// controller sets its count.
    pub per_machine: bool,
}

impl TaskGroup {
    /// `count` tasks with this request and no rules.
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
        }
    }

    /// Request of each task, of its machine and of the cell.
    pub fn asks(&self) -> impl Iterator<Item = &Amounts> {
        [&self.request, &self.cluster_request].into_iter()
    }

    /// Returns the group with its optional resources requested; `None` if it has none.
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

/// Optional resources of a task, such as a device that makes it faster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OptionalResources {
    /// Amount of each kind.
    pub amounts: Amounts,
    /// Optional devices, counted in `amounts` too. Only for tasks that request none.
    pub devices: Option<DeviceRequest>,
}

// Snapshots contain the hash of the cell's state. To keep the hashes of older versions valid,
// fields added later are hashed only if they are set.

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
    }
}

/// Devices that one task needs, all on its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceRequest {
    /// The number.
    pub count: u8,
    /// Amount of each, in thousandths: 1000 is a whole device.
    pub milli_each: u16,
}

/// Placement rules of a group: requirements and preferences.
///
/// All except the preferences and spreads of [`WhenUnsatisfiable::ScheduleAnyway`] are *hard*: the
/// cell rejects a claim that breaks them, from any scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlacementRules {
    /// The name of the only machine, if there is only one. (Kubernetes' `nodeName`.)
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
    /// The machine must match at least one of these selectors, if any is given.
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
    /// No selected task runs in the same domain, neither before nor after this one.
    AntiAffinity {
        /// Selector of the tasks to keep away from.
        from: TaskSelector,
        /// Domain level of the rule.
        level: TopologyLevel,
    },
    /// For each term, a task that *all* terms select runs in the same domain already; or no such
    /// task runs anywhere, and this task is one of them. (Kubernetes' required pod affinity: its
    /// terms belong together, so two separate rules have another meaning.)
    Affinity(Vec<Near>),
    /// The nearer to selected tasks the better, or with a negative weight the farther.
    Prefer {
        /// The tasks, and the level at which they are near.
        near: Near,
        /// Weight of each selected task in the domain, -100 to 100.
        weight: i32,
    },
    /// A domain has at most `count` selected tasks, this one included.
    MaxPerDomain {
        /// Selector of the counted tasks.
        of: TaskSelector,
        /// Definition of a domain.
        level: TopologyLevel,
        /// The number.
        count: u32,
    },
    /// A domain has at most this share of the group's tasks, but may always have one.
    MaxShare {
        /// Definition of a domain.
        level: TopologyLevel,
        /// The share in percent of the group's count, rounded down.
        percent: u8,
    },
    /// The selected tasks are spread evenly over the domains.
    Spread(Spread),
    /// In a domain with a task of this group, at most `count` selected tasks run (with this one, if
    /// selected), in whatever order they were placed. With 0 it is [`TaskRule::AntiAffinity`].
    MaxColocated {
        /// Selector of the counted tasks.
        of: TaskSelector,
        /// Definition of a domain.
        level: TopologyLevel,
        /// Number, at least 1.
        count: u32,
    },
    /// Another selected task runs in the same domain, as long as this one does. The cell rejects
    /// the placement without one, and releases and evictions that would leave this task alone.
    /// Ends, failures, kills and lost machines are not prevented.
    RuntimeAffinity(Near),
}

/// Selected tasks, and a topology level.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Near {
    /// Selector of the tasks.
    pub tasks: TaskSelector,
    /// Topology level of the domain.
    pub level: TopologyLevel,
}

/// An even spread over domains. (Kubernetes' topology spread constraint.)
/// A machine counts only if it has a domain at the level of every spread of the group that is as hard as this one, and
/// if the fields below do not exclude it. Domains and tasks of other machines are ignored.
/// tasks elsewhere are not seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spread {
    /// Selector of the counted tasks.
    pub of: TaskSelector,
    /// Definition of a domain.
    pub level: TopologyLevel,
    /// Number of tasks, this one included, by which a domain may exceed the domain with the fewest.
    pub skew_max: u32,
    /// Least number of domains: with fewer, the smallest count is 0. 0 and 1 have no effect.
    pub domains_min: u32,
    /// Whether the spread is hard or soft.
    pub when: WhenUnsatisfiable,
    /// Whether the task to be placed counts itself, because the selector selects it.
    pub counts_itself: bool,
    /// Whether only machines count that meet the group's required affinity.
    pub honors_affinity: bool,
    /// Whether only machines whose taints the group tolerates count.
    pub honors_taints: bool,
}

impl Spread {
    /// A hard spread of the group's own tasks with a maximum skew, over the machines that meet the
    /// group's required affinity.
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

/// Treatment of a task whose spread cannot be satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenUnsatisfiable {
    /// Leave it pending.
    DoNotSchedule,
    /// Place it where it disturbs the spread least.
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
    /// The number.
    pub number: u16,
}

impl Port {
    /// This TCP port on every address.
    #[must_use]
    pub fn tcp(number: u16) -> Port {
        Port { address: None, protocol: Protocol::Tcp, number }
    }

    /// Whether these ports conflict on one machine.
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
    /// A commit gave it a machine.
    Placed(MachineId),
    /// Its machine reported that it runs.
    Running(MachineId),
    /// The task has finished.
    Finished,
    /// The task failed more often than it may.
    Failed,
    /// Its job was killed or shrunk.
    Killed,
}

impl TaskState {
    /// The machine that it has.
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
