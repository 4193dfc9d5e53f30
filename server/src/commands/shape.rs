//! The values that commands print. Their fields do not change incompatibly, and docs/cli.md describes them.
//!
//! Amounts are maps from a kind's name to an integer in the kind's smallest unit. No key is ever left out.

use crate::commands::CommandError;
use crate::commands::files::pairs::taint_text;
use crate::commands::run_end::EndShape;
use omega_client::agent::machine_state;
use omega_client::convert::{self, Malformed};
use omega_client::proto;
use omega_core::limits::QUOTA_MAX;
use omega_core::{
    Amounts, CorePlace, Job, JobKind, KindId, Kinds, Labels, Machine, MachineId, Mount, Preemption,
    ResourceKind, Run, TaskGroup, TenantConfig, Text, UpdateResult,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Values by the name of a resource kind.
pub(in crate::commands) type ByKind<T> = BTreeMap<String, T>;

/// A list of machines, jobs, tasks or tenants.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct ListShape<T> {
    pub(in crate::commands) version: u64,
    /// Whether `--limit` excluded some items.
    pub(in crate::commands) more: bool,
    pub(in crate::commands) items: Vec<T>,
}

/// Change made by a command, and the cell's version at which it was made.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct DoneShape {
    pub(in crate::commands) name: String,
    pub(in crate::commands) done: &'static str,
    pub(in crate::commands) version: u64,
}

/// A changed setting of some machines, with the current number of these machines.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct DoneForShape {
    #[serde(flatten)]
    pub(in crate::commands) done: DoneShape,
    /// Number of machines; `null` if the server is older and does not report it.
    pub(in crate::commands) machines: Option<u32>,
}

/// A machine that was added.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct MadeShape {
    pub(in crate::commands) name: String,
    pub(in crate::commands) id: String,
}

/// A machine with its free resources.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct MachineShape {
    pub(in crate::commands) name: String,
    pub(in crate::commands) id: String,
    /// `up`, `draining` or `unreachable`.
    pub(in crate::commands) status: &'static str,
    pub(in crate::commands) tasks: u32,
    pub(in crate::commands) devices: u8,
    /// Number of cores of each NUMA node that tasks may use exclusively.
    pub(in crate::commands) numa: Vec<u16>,
    /// Number of cores of each node that are free.
    pub(in crate::commands) cores_left: Vec<u32>,
    /// Range from which the cell chooses ports, or `none`.
    pub(in crate::commands) ports: String,
    pub(in crate::commands) sequence: u64,
    pub(in crate::commands) resources: ByKind<ResourceShape>,
    /// Time of the load report, in milliseconds since 1970; 0 without a report.
    pub(in crate::commands) load_at_ms: u64,
    pub(in crate::commands) labels: BTreeMap<String, String>,
    pub(in crate::commands) taints: Vec<String>,
}

/// Amounts of one kind on a machine.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(in crate::commands) struct ResourceShape {
    pub(in crate::commands) capacity: u64,
    pub(in crate::commands) claimable: u64,
    pub(in crate::commands) claimed: i64,
    pub(in crate::commands) free: i64,
    /// Measured usage of the machine's tasks, as last reported.
    pub(in crate::commands) load: u64,
}

/// A job and its progress.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct JobShape {
    pub(in crate::commands) name: String,
    pub(in crate::commands) id: String,
    pub(in crate::commands) tenant: String,
    pub(in crate::commands) scheduler: String,
    /// `service` or `batch`.
    pub(in crate::commands) kind: &'static str,
    pub(in crate::commands) precedence: i32,
    /// `lower_precedence` or `never`.
    pub(in crate::commands) preemption: &'static str,
    pub(in crate::commands) gang_min: Option<u32>,
    pub(in crate::commands) gang_timeout_ms: Option<u32>,
    pub(in crate::commands) runtime_estimate_ms: Option<u64>,
    /// Deadline, in milliseconds since 1970.
    pub(in crate::commands) deadline_ms: Option<u64>,
    /// State of an incomplete gang that keeps places.
    pub(in crate::commands) gang_wait: Option<GangWaitShape>,
    pub(in crate::commands) tasks: TasksShape,
    /// Whether the job is a service without tasks that may be resized again.
    pub(in crate::commands) scaled_to_zero: bool,
    /// Number of failures of the job's tasks after which the tasks were placed again.
    pub(in crate::commands) failures: u32,
    /// Time since the job was submitted.
    pub(in crate::commands) age_ms: u64,
    /// Version of the job; 0 if it was never updated.
    pub(in crate::commands) version: u32,
    /// Result of the update to this version: `complete` or `failed`; `null` if it has none yet.
    pub(in crate::commands) update: Option<&'static str>,
    /// Number of tasks of older versions that have not ended.
    pub(in crate::commands) outdated: u32,
    /// Groups of the job's tasks, including groups of older versions.
    pub(in crate::commands) groups: Vec<GroupShape>,
    /// Number of tasks that the current version of the job wants.
    #[serde(skip)]
    wanted: u32,
}

/// State of a gang that does not have all the places that it needs.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in crate::commands) struct GangWaitShape {
    pub(in crate::commands) have: u32,
    pub(in crate::commands) needs: u32,
    /// Time of the gang timeout, in milliseconds since 1970; `null` if it is not known yet.
    pub(in crate::commands) until_ms: Option<u64>,
}

/// Number of tasks of a job that are in each state.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(in crate::commands) struct TasksShape {
    pub(in crate::commands) pending: u32,
    pub(in crate::commands) placed: u32,
    pub(in crate::commands) running: u32,
    pub(in crate::commands) finished: u32,
    pub(in crate::commands) failed: u32,
    pub(in crate::commands) killed: u32,
}

/// Identical tasks of a job.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct GroupShape {
    pub(in crate::commands) name: String,
    /// The version of the job with which the group was added.
    pub(in crate::commands) version: u32,
    /// Whether the present version of the job has this group. The tasks of other groups are replaced.
    pub(in crate::commands) current: bool,
    pub(in crate::commands) count: u32,
    /// Whether the group has one task on each machine.
    pub(in crate::commands) per_machine: bool,
    pub(in crate::commands) request: ByKind<u64>,
    /// Optional resources of each task; `null` if it has none.
    pub(in crate::commands) optional: Option<ByKind<u64>>,
    /// Exclusive cores of each task; `null` if it has none.
    pub(in crate::commands) cores: Option<CoresShape>,
    /// Number of optional devices.
    pub(in crate::commands) optional_devices: u8,
    /// Demand profiles by resource kind: amounts for equally long parts of the day.
    pub(in crate::commands) demand_profiles: ByKind<Vec<u64>>,
    /// Cluster resources that each task claims.
    pub(in crate::commands) cluster_request: ByKind<u64>,
    pub(in crate::commands) labels: BTreeMap<String, String>,
    pub(in crate::commands) restarts: u32,
    pub(in crate::commands) grace_ms: u32,
    /// Names of the ports that the cell chooses for each task.
    pub(in crate::commands) any_ports: Vec<String>,
    /// The program of each task; `null` if there is none, or if the caller may not see it.
    pub(in crate::commands) run: Option<RunShape>,
    /// Bytes of the payload.
    pub(in crate::commands) payload_bytes: usize,
}

/// A program.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct RunShape {
    pub(in crate::commands) command: String,
    pub(in crate::commands) args: Vec<String>,
    pub(in crate::commands) env: BTreeMap<String, String>,
    pub(in crate::commands) image: Option<String>,
    pub(in crate::commands) mounts: Vec<MountShape>,
    pub(in crate::commands) working_dir: Option<String>,
    pub(in crate::commands) user: Option<String>,
}

impl From<&Run> for RunShape {
    fn from(run: &Run) -> RunShape {
        let optional = |text: &Option<Text>| text.as_deref().map(str::to_owned);
        RunShape {
            command: run.command.to_string(),
            args: run.args.iter().map(ToString::to_string).collect(),
            env: run.env.iter().map(|one| (one.name.to_string(), one.value.to_string())).collect(),
            image: optional(&run.image),
            mounts: run.mounts.iter().map(MountShape::from).collect(),
            working_dir: optional(&run.working_dir),
            user: optional(&run.user),
        }
    }
}

/// A file or folder of the machine that a container has.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct MountShape {
    pub(in crate::commands) source: String,
    pub(in crate::commands) target: String,
    pub(in crate::commands) read_only: bool,
}

impl From<&Mount> for MountShape {
    fn from(mount: &Mount) -> MountShape {
        MountShape {
            source: mount.source.to_string(),
            target: mount.target.to_string(),
            read_only: mount.is_read_only,
        }
    }
}

/// Exclusive cores of a task.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in crate::commands) struct CoresShape {
    pub(in crate::commands) count: u16,
    /// `any_nodes` or `one_node`.
    pub(in crate::commands) place: &'static str,
}

/// A task, and its machine.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct TaskShape {
    pub(in crate::commands) task: String,
    pub(in crate::commands) group: String,
    pub(in crate::commands) state: &'static str,
    pub(in crate::commands) machine: Option<String>,
    pub(in crate::commands) devices: Vec<u32>,
    /// Exclusive cores by NUMA node.
    pub(in crate::commands) cores: Vec<u32>,
    /// Ports that have a name: those that the cell chose, and those that the group requests.
    pub(in crate::commands) ports: BTreeMap<String, u32>,
    /// Allocation of the task on its machine; `null` if it equals the request of the task's group.
    pub(in crate::commands) allocated: Option<ByKind<u64>>,
    /// Number of failures after which the task was placed again, plus number of restarts on the same machine. Losses of
    /// the task's supervisor count, too.
    pub(in crate::commands) restarts: u32,
    /// Time at which the task got its machine, in milliseconds since 1970; 0 for a task without a machine.
    pub(in crate::commands) placed_ms: u64,
    /// The last end of the task's program; `null` if none was reported, or the cell no longer keeps it.
    pub(in crate::commands) last_end: Option<EndShape>,
}

/// A tenant with its limits and usage.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct TenantShape {
    pub(in crate::commands) name: String,
    /// Limits by kind; `null` if there are none. A kind with `null` has no limit.
    pub(in crate::commands) limit: Option<ByKind<Option<u64>>>,
    /// Claims of the tenant and of all tenants below it.
    pub(in crate::commands) used: ByKind<u64>,
    /// Name of the parent tenant; `null` if there is none.
    pub(in crate::commands) parent: Option<String>,
    pub(in crate::commands) guaranteed: ByKind<u64>,
    pub(in crate::commands) weight: u32,
    /// Maximum number of the tenant's own tasks on one machine; `null` if there is no limit.
    pub(in crate::commands) tasks_per_machine_max: Option<u32>,
    /// Limit on the total request of the tenant's jobs, whether placed or not. `limit` is the limit on their claims.
    pub(in crate::commands) request_limit: Option<ByKind<Option<u64>>>,
    /// Total request of the tenant's jobs; 0 while no tenant has a request limit.
    pub(in crate::commands) requested: ByKind<u64>,
}

/// A replica of the cell.
#[derive(Debug, Serialize)]
pub(in crate::commands) struct MemberShape {
    pub(in crate::commands) replica: u64,
    /// `voter`, `learner` or `outgoing`.
    pub(in crate::commands) role: &'static str,
    pub(in crate::commands) leads: bool,
    /// Time since the leader last had contact with the replica; `null` if it never had, or if the leader did not
    /// answer.
    pub(in crate::commands) silent_ms: Option<u64>,
    /// Whether the disk of the replica's log is full; `null` if that is not known.
    pub(in crate::commands) disk_full: Option<bool>,
    /// Address of the replica for other replicas; `null` if the other replicas take it from their own settings.
    pub(in crate::commands) peer_address: Option<String>,
}

/// Amounts by the names of their kinds.
pub(in crate::commands) fn by_kind(kinds: &Kinds, amounts: &Amounts) -> ByKind<u64> {
    kinds.iter().map(|(id, kind)| (kind.name.clone(), amounts.get(id))).collect()
}

/// Amounts as text, such as `2 cpu, 4.0 GiB memory`. Kinds with an amount of 0 are omitted.
pub(in crate::commands) fn listed(kinds: &Kinds, amounts: &ByKind<u64>) -> String {
    let amount = |(id, kind): (KindId, &ResourceKind)| {
        let amount = amounts[&kind.name];
        (amount > 0).then(|| format!("{} {}", kinds.display(id, amount), kind.name))
    };
    kinds.iter().filter_map(amount).collect::<Vec<_>>().join(", ")
}

fn texts(labels: &Labels) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

impl MachineShape {
    pub(in crate::commands) fn new(
        kinds: &Kinds,
        response: proto::MachineStatus,
    ) -> Result<MachineShape, CommandError> {
        let machine = Machine::try_from(response.machine.ok_or(Malformed::Missing("machine"))?)?;
        let id = MachineId::from(response.id.ok_or(Malformed::Missing("machine.id"))?);
        let resource = |(kind, spec): (KindId, &omega_core::ResourceKind)| {
            let claimable = response.claimable.get(kind.index()).copied().unwrap_or_default();
            let free = response.free.get(kind.index()).copied().unwrap_or_default();
            let resource = ResourceShape {
                capacity: machine.capacity.get(kind),
                claimable,
                claimed: claimable as i64 - free,
                free,
                load: response.load.get(kind.index()).copied().unwrap_or_default(),
            };
            (spec.name.clone(), resource)
        };
        Ok(MachineShape {
            id: id.to_string(),
            status: machine_state(&machine, response.draining),
            tasks: response.tasks,
            devices: machine.devices,
            numa: machine.numa.as_slice().to_vec(),
            cores_left: response.cores_left,
            ports: machine.ports.to_string(),
            sequence: response.sequence,
            resources: kinds.iter().map(resource).collect(),
            load_at_ms: response.load_at_ms,
            labels: texts(&machine.labels),
            taints: machine.taints.iter().map(taint_text).collect(),
            name: machine.name.to_string(),
        })
    }
}

/// The points of a demand profile, with the name of its kind.
fn by_name(
    kinds: &Kinds,
    demand_profile: &omega_core::DemandProfile,
) -> Option<(String, Vec<u64>)> {
    Some((kinds.get(demand_profile.kind)?.name.clone(), demand_profile.points.clone()))
}

impl JobShape {
    pub(in crate::commands) fn new(
        kinds: &Kinds,
        status: proto::JobStatus,
    ) -> Result<JobShape, CommandError> {
        let update = update_result(status.update()).map(update_result_name);
        let job = Job::try_from(status.job.ok_or(Malformed::Missing("job"))?)?;
        let target = status.target.map(Job::try_from).transpose()?;
        let is_current = |group: &TaskGroup| target.as_ref().is_none_or(|job| has(job, group));
        let shown = job.groups.iter().filter(|group| group.count > 0 || is_current(group));
        let group = |group: &TaskGroup| GroupShape {
            current: is_current(group),
            ..GroupShape::new(kinds, group)
        };
        let wanted =
            target.as_ref().unwrap_or(&job).groups.iter().map(|group| {
                if group.per_machine { present(&job, &group.name) } else { group.count }
            });
        Ok(JobShape {
            wanted: wanted.sum(),
            name: job.name.to_string(),
            id: omega_core::JobId(status.id).to_string(),
            tenant: job.tenant.to_string(),
            scheduler: job.scheduler.to_string(),
            kind: match job.kind {
                JobKind::Service => "service",
                JobKind::Batch => "batch",
            },
            precedence: job.precedence.0,
            preemption: match job.preemption {
                Preemption::LowerPrecedence => "lower_precedence",
                Preemption::Never => "never",
            },
            gang_min: job.gang_min,
            gang_timeout_ms: job.gang_timeout_ms,
            gang_wait: status.gang_wait.map(|hold| GangWaitShape {
                have: hold.have,
                needs: hold.needs,
                until_ms: hold.until_ms,
            }),
            runtime_estimate_ms: job.runtime_estimate_ms,
            deadline_ms: job.deadline_ms,
            tasks: TasksShape {
                pending: status.pending,
                placed: status.placed,
                running: status.running,
                finished: status.finished,
                failed: status.failed,
                killed: status.killed,
            },
            scaled_to_zero: status.scaled_to_zero,
            failures: status.failures,
            version: status.version,
            update,
            outdated: status.outdated,
            age_ms: status.age_ms,
            groups: shown.map(|shown| group(shown)).collect(),
        })
    }
}

/// Number of tasks of the groups with this name, over all versions with tasks.
fn present(job: &Job, name: &str) -> u32 {
    job.groups.iter().filter(|group| *group.name == *name).map(|group| group.count).sum()
}

/// The result of an update.
pub(in crate::commands) fn update_result(result: proto::UpdateResult) -> Option<UpdateResult> {
    match result {
        proto::UpdateResult::Unspecified => None,
        proto::UpdateResult::Complete => Some(UpdateResult::Complete),
        proto::UpdateResult::Failed => Some(UpdateResult::Failed),
    }
}

/// The name of the result of an update.
pub(in crate::commands) fn update_result_name(result: UpdateResult) -> &'static str {
    match result {
        UpdateResult::Complete => "complete",
        UpdateResult::Failed => "failed",
    }
}

impl GroupShape {
    /// A group of the present version.
    fn new(kinds: &Kinds, group: &TaskGroup) -> GroupShape {
        GroupShape {
            name: group.name.to_string(),
            version: group.version,
            current: true,
            count: group.count,
            per_machine: group.per_machine,
            request: by_kind(kinds, &group.request),
            optional: group.optional.as_ref().map(|optional| by_kind(kinds, &optional.amounts)),
            cores: group.cores.map(|cores| CoresShape {
                count: cores.count,
                place: match cores.place {
                    CorePlace::AnyNodes => "any_nodes",
                    CorePlace::OneNode => "one_node",
                },
            }),
            optional_devices: group
                .optional
                .as_ref()
                .and_then(|w| w.devices)
                .map_or(0, |devices| devices.count),
            demand_profiles: group
                .demand_profiles
                .iter()
                .filter_map(|demand_profile| by_name(kinds, demand_profile))
                .collect(),
            cluster_request: by_kind(kinds, &group.cluster_request),
            labels: texts(&group.labels),
            restarts: group.restarts,
            grace_ms: group.grace_ms,
            any_ports: group.any_ports.iter().map(ToString::to_string).collect(),
            run: group.run.as_deref().map(RunShape::from),
            payload_bytes: group.payload.as_bytes().len(),
        }
    }
}

/// Whether a job has a group, with any number of tasks.
fn has(job: &Job, group: &TaskGroup) -> bool {
    let TaskGroup { count, version, .. } = *group;
    job.groups.iter().any(|own| *group == TaskGroup { count, version, ..TaskGroup::clone(own) })
}

impl JobShape {
    /// Number of tasks that the current version wants. Tasks that were replaced do not count.
    pub(in crate::commands) fn wanted_tasks(&self) -> u32 {
        self.wanted
    }

    /// Number of wanted tasks that have ended and are not replaced.
    pub(in crate::commands) fn ended_tasks(&self) -> u32 {
        let TasksShape { pending, placed, running, finished, failed, killed } = self.tasks;
        let missing = self.wanted.saturating_sub(pending + placed + running);
        missing.min(finished + failed + killed)
    }
}

impl TaskShape {
    pub(in crate::commands) fn new(kinds: &Kinds, status: proto::TaskStatus) -> TaskShape {
        let task = status.task.map(omega_core::TaskId::from).map(|id| match &*status.job_name {
            "" => id.to_string(),
            job => format!("{job}/{}", id.index),
        });
        let state = state(status.phase());
        let allocated = (!status.allocated.is_empty()).then(|| convert::amounts(status.allocated));
        TaskShape {
            task: task.unwrap_or_default(),
            state,
            group: status.group,
            machine: (!status.machine_name.is_empty()).then_some(status.machine_name),
            devices: status.devices,
            cores: status.cores,
            ports: status.ports.into_iter().map(|port| (port.name, port.number)).collect(),
            allocated: allocated.map(|amounts| by_kind(kinds, &amounts)),
            restarts: status.restarts,
            placed_ms: status.placed_ms,
            last_end: status.last_end.as_ref().and_then(EndShape::new),
        }
    }
}

/// The name of a task's state.
pub(in crate::commands) fn state(phase: proto::TaskPhase) -> &'static str {
    match phase {
        proto::TaskPhase::Unspecified => "unknown",
        proto::TaskPhase::Pending => "pending",
        proto::TaskPhase::Placed => "placed",
        proto::TaskPhase::Running => "running",
        proto::TaskPhase::Finished => "finished",
        proto::TaskPhase::Failed => "failed",
        proto::TaskPhase::Killed => "killed",
    }
}

impl TenantShape {
    pub(in crate::commands) fn new(kinds: &Kinds, status: proto::TenantStatus) -> TenantShape {
        let limit = |quota: proto::Quota| {
            let limit = by_kind(kinds, &convert::amounts(quota.limit));
            // `QUOTA_MAX` means that the kind has no limit.
            let status = |(kind, most)| (kind, (most < QUOTA_MAX).then_some(most));
            limit.into_iter().map(status).collect()
        };
        let (limit, request_limit) = (status.quota.map(limit), status.admission.map(limit));
        let requested = by_kind(kinds, &convert::amounts(status.requested));
        let used = by_kind(kinds, &convert::amounts(status.used));
        let TenantConfig { parent, guaranteed, weight, tasks_per_machine_max } =
            convert::tenant_config(status.config);
        let parent = parent.map(|parent| parent.to_string());
        let guaranteed = by_kind(kinds, &guaranteed);
        TenantShape {
            name: status.name,
            limit,
            used,
            parent,
            guaranteed,
            weight,
            tasks_per_machine_max,
            request_limit,
            requested,
        }
    }
}

/// The members of a cell.
pub(in crate::commands) fn members(response: &proto::Members) -> Vec<MemberShape> {
    let one = |member: &proto::Member| MemberShape {
        replica: member.replica,
        role: role(member.role()),
        leads: member.replica == response.leader,
        silent_ms: member.silent_ms,
        disk_full: member.silent_ms.map(|_| member.disk_full),
        peer_address: Some(member.peer_address.clone()).filter(|address| !address.is_empty()),
    };
    response.all.iter().map(one).collect()
}

/// The name of a replica's role.
pub(in crate::commands) fn role(role: proto::MemberRole) -> &'static str {
    match role {
        proto::MemberRole::Unspecified => "unknown",
        proto::MemberRole::Voter => "voter",
        proto::MemberRole::Learner => "learner",
        proto::MemberRole::Outgoing => "outgoing",
    }
}
