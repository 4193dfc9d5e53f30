//! Messages between a frontend and its applications.

use crate::queue::Nanos;
use crate::scheduler::Placement;
use omega_core::{Amounts, JobId, MachineId, TaskId, Text};

/// Priority of a request: requests with the lowest number are served first, as in YARN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u32);

/// Preferred location of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// On the machine of this name. If the cell has no such machine, the request waits until it has one.
    Machine(Text),
    /// On a machine in this rack, by the label with the key [`Settings::rack`].
    Rack(Text),
    /// On any machine. The count of this request is the total number of containers. Without it, requests for machines
    /// and racks are invalid.
    Anywhere,
}

/// Whether a container may be farther away than requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Relax {
    /// Allowed, after the request has waited for the requested location.
    #[default]
    Allowed,
    /// Never allowed. In a request for a rack, this setting excludes machines of the rack that are not requested by
    /// name. In a request for [`Place::Anywhere`], it excludes machines and racks that are not requested. In a request
    /// for a machine, it has no effect.
    Forbidden,
}

/// A request for a number of containers at one location. It replaces the previous request with the same priority, group
/// and location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Priority of the request.
    pub priority: Priority,
    /// Size of the containers, as the name of a group of the application's job.
    pub group: Text,
    /// Location of the containers.
    pub at: Place,
    /// Number of containers; 0 withdraws the request.
    pub containers: u32,
    /// Whether the containers may be farther away than requested.
    pub relax: Relax,
}

impl Ask {
    /// Returns a request of priority 0 for containers of a group at a location. After a wait, the containers may be
    /// farther away.
    pub fn new(group: impl Into<Text>, at: Place, containers: u32) -> Ask {
        let (priority, relax) = (Priority::default(), Relax::Allowed);
        Ask { priority, group: group.into(), at, containers, relax }
    }

    /// Returns three requests for containers on one machine: one for the machine, one for its rack, and one for the
    /// total.
    pub fn near(group: &str, machine: &str, rack: &str, containers: u32) -> [Ask; 3] {
        let places = [Place::Machine(machine.into()), Place::Rack(rack.into()), Place::Anywhere];
        places.map(|at| Ask::new(group, at, containers))
    }
}

/// Heartbeat of an application. All lists may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Requests that are new or changed.
    pub asks: Vec<Ask>,
    /// Containers that the application releases. Their tasks become pending again.
    pub releases: Vec<TaskId>,
    /// Machines to blacklist, by name.
    pub refuse: Vec<Text>,
    /// Machines to remove from the blacklist.
    pub readmit: Vec<Text>,
}

impl Heartbeat {
    /// A heartbeat that contains only requests.
    pub fn asking(asks: impl IntoIterator<Item = Ask>) -> Heartbeat {
        Heartbeat { asks: asks.into_iter().collect(), ..Heartbeat::default() }
    }
}

/// Distance of a container from its requested location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locality {
    /// On a requested machine.
    Machine,
    /// In a requested rack.
    Rack,
    /// On another machine, because no location was requested or the wait has ended.
    Elsewhere,
}

/// A container that was allocated to an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Task that runs in the container.
    pub task: TaskId,
    /// Priority of the container's request.
    pub priority: Priority,
    /// Group of the container's task, which gives its size.
    pub group: Text,
    /// Machine of the container.
    pub machine: MachineId,
    /// The machine's name.
    pub machine_name: Text,
    /// Locality of the container.
    pub locality: Locality,
}

/// Cause of a container's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// The container's task has finished.
    Finished,
    /// The container's task failed and is not retried.
    Failed,
    /// The container's task was killed because the group was made smaller.
    Killed,
    /// The application released the container.
    Released,
    /// The container lost its machine: the machine was removed, the task was evicted, or the task failed with restarts
    /// left. The task is placed again only if the application requests it.
    Displaced,
    /// The job has ended.
    JobOver,
}

/// A container that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Task that ran in the container.
    pub task: TaskId,
    /// Machine that the container had.
    pub machine: MachineId,
    /// Cause of the end.
    pub how: How,
}

/// Requested containers for which a group of the job has no pending tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Name of the group.
    pub group: Text,
    /// Number of missing tasks. To get the containers, increase the group's count by this number.
    pub tasks: u64,
}

/// Reply to a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Containers that were allocated since the last heartbeat.
    pub allocated: Vec<Container>,
    /// Containers that have ended since the last heartbeat.
    pub completed: Vec<Completed>,
    /// Free resources of all machines that accept tasks, as of the last step.
    pub headroom: Amounts,
    /// Groups with fewer pending tasks than requested containers.
    pub missing: Vec<Missing>,
    /// Whether the job has ended. If so, this is the last reply.
    pub is_over: bool,
}

/// Reason for which an application cannot join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The frontend has no job of this name: submit it with the frontend's name as its scheduler, then call `step`.
    #[error(
        "this frontend has no job {0:?}: submit the job with the frontend's name as its \
         scheduler, then call `step`"
    )]
    UnknownJob(Text),
    /// The job has already joined: continue with heartbeats.
    #[error("job {0} has already joined: continue with heartbeats")]
    Joined(JobId),
    /// The maximum number of applications has joined. Start another frontend, maybe on the same cell.
    #[error("{max} applications have joined, which is the maximum: start another frontend on the \
         same cell", max = super::APPLICATIONS_MAX)]
    TooMany,
}

/// Reason for which a heartbeat was rejected. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatError {
    /// The job has not joined, or has ended. Call [`Frontend::join`](super::Frontend::join) first.
    #[error(
        "job {0} has not joined, or has ended: call `join` before its first heartbeat, and send no \
         heartbeat after its end"
    )]
    UnknownApplication(JobId),
    /// The job has no group of this name.
    #[error("the job has no group {0:?}")]
    NoGroup(Text),
    /// Containers of the group are requested on machines or in racks, but their total number is not requested. Add a
    /// request for `Anywhere`, which may forbid relaxing.
    #[error("containers of group {group:?} are requested on machines or in racks, but their total \
         number is not: request this number for `Anywhere`", group = .group)]
    NoTotal {
        /// The priority.
        priority: Priority,
        /// Name of the group.
        group: Text,
    },
    /// Two requests have the same priority, group and location. Merge them.
    #[error("the heartbeat has two requests for {0:?}: merge them")]
    Twice(Box<Ask>),
    /// The task is not a container of this application, or was already released. Remove it from the releases.
    #[error(
        "task {0} is not a container of this application, or was released before: leave it \
         out"
    )]
    NotAContainer(TaskId),
    /// The application's requests and blacklist name more locations than allowed. Request fewer.
    #[error(
        "the requests and the blacklist together name {lines} places: at most {max} are allowed",
        max = super::LINES_MAX
    )]
    TooMany {
        /// Number of requested and blacklisted locations that the application would have with this heartbeat.
        lines: usize,
    },
}

/// Settings of a request frontend.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the frontend. Applications whose job has this name as its scheduler name may join.
    pub name: Text,
    /// Key of the label whose value is the rack of a machine.
    pub rack: Text,
    /// Number of rounds in which a request skips other machines while no requested machine has room. (YARN:
    /// `node-locality-delay`, which counts heartbeats of machines.)
    pub machine_delay: u32,
    /// Number of further rounds in which a request skips machines outside the requested racks. (YARN:
    /// `rack-locality-additional-delay`.)
    pub rack_delay: u32,
    /// Time without a heartbeat after which an application gets no containers until its next heartbeat; `None` means no
    /// limit. An application whose job has ended is removed after the same time without a heartbeat.
    pub silence_max: Option<Nanos>,
    /// Settings of the search for requests that accept any machine.
    pub placement: Placement,
    /// Maximum number of containers allocated in a step.
    pub claims_max: usize,
    /// Seed of the random choice of the machines at which searches start.
    pub seed: u64,
}

impl Settings {
    /// Returns settings in which the label `rack` names the rack of a machine, and an application may be silent for ten
    /// minutes, as in YARN.
    ///
    /// A request waits 40 rounds for a requested machine, and another 40 rounds for a requested rack. (YARN's default
    /// for the first wait is 40 heartbeats.)
    pub fn new(name: impl Into<Text>) -> Settings {
        Settings {
            name: name.into(),
            rack: "rack".into(),
            machine_delay: 40,
            rack_delay: 40,
            silence_max: Some(600_000_000_000),
            placement: Placement { reuse: true, ..Placement::default() },
            claims_max: 1000,
            seed: 0,
        }
    }
}

/// Counters since the frontend began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Steps that ended without an error.
    pub rounds: u64,
    /// Heartbeats that were answered.
    pub heartbeats: u64,
    /// Heartbeats that were rejected with an error.
    pub errors: u64,
    /// Containers that were allocated on requested machines.
    pub on_machine: u64,
    /// Containers that were allocated in requested racks.
    pub in_rack: u64,
    /// Containers that were allocated on other machines, because no location was requested or the wait had ended.
    pub elsewhere: u64,
    /// Claims that the cell rejected. Their containers are requested again.
    pub conflicts: u64,
    /// Containers that applications released.
    pub released: u64,
    /// Containers that have ended in any way.
    pub completed: u64,
    /// Rounds in which a request skipped machines that had room but were not requested, summed over all requests.
    pub passed_up: u64,
    /// Total waiting time of all allocated containers, in nanoseconds of the caller's clock. The wait of a container
    /// begins with the application's first request for its group and priority.
    pub waited: Nanos,
    /// Longest wait of a container, in nanoseconds.
    pub waited_max: Nanos,
}

impl Counters {
    /// Number of allocated containers.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        self.on_machine + self.in_rack + self.elsewhere
    }
}
