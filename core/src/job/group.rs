//! A task group: identical tasks of a job.

use crate::amounts::Amounts;
use crate::cores::CoreRequest;
use crate::job::demand_profile::DemandProfile;
use crate::job::run::{Payload, Run};
use crate::machine::Labels;
use crate::rules::PlacementRules;
use crate::text::Text;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

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
    /// ([`Machine::ports`](crate::Machine::ports)). A task keeps its ports while it is on its machine.
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
    pub fn requests(&self) -> impl Iterator<Item = &Amounts> {
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

/// Devices that one task needs, all on its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeviceRequest {
    /// Number of devices.
    pub count: u8,
    /// Amount of each device that the task uses, in thousandths. 1000 is a whole device.
    pub milli_each: u16,
}

// Snapshots contain the hash of the cell's state. Fields that were added later are hashed only if they are set, so that
// the hashes in older snapshots stay valid.

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
