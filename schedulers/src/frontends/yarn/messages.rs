//! Messages between a frontend and its applications.

use crate::place::Placement;
use crate::queue::Nanos;
use omega_core::{Amounts, JobId, MachineId, TaskId, Text};

/// Priority of a request: the lowest number is served first, as in YARN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u32);

/// Preferred place of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// On the machine of this name. If there is no such machine, the request waits for it.
    Machine(Text),
    /// On a machine in this rack, by the label [`Settings::rack`].
    Rack(Text),
    /// On any machine. This request has the total number of containers: without it, the requests for other places have
    /// no effect.
    Anywhere,
}

/// Whether a container may be farther away than requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Relax {
    /// Allowed after a wait.
    #[default]
    Allowed,
    /// Never allowed. For a rack, only its requested machines are used; for anywhere, only requested machines and
    /// racks. Without effect for a machine.
    Forbidden,
}

/// A request for a number of containers at one place. It replaces the previous request with the same priority, group
/// and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Priority of the request.
    pub priority: Priority,
    /// Size of the containers, as the name of a group of the application's job.
    pub group: Text,
    /// Place of the containers.
    pub at: Place,
    /// Number of containers; 0 withdraws the request.
    pub containers: u32,
    /// Whether the containers may be farther away.
    pub relax: Relax,
}

impl Ask {
    /// A request of priority 0 for containers of a group at a place, or farther away after a wait.
    pub fn new(group: impl Into<Text>, at: Place, containers: u32) -> Ask {
        let (priority, relax) = (Priority::default(), Relax::Allowed);
        Ask { priority, group: group.into(), at, containers, relax }
    }

    /// The three requests for containers on one machine: for the machine, for its rack, and for the total.
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
    /// Containers that the application gives back. Their tasks are pending again.
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

/// Distance of a container from its requested place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locality {
    /// On a requested machine.
    Machine,
    /// In a requested rack.
    Rack,
    /// Elsewhere, because no nearer place was requested, or the wait has ended.
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
    /// The application gave the container back.
    Released,
    /// The container lost its machine: the machine was removed, or the task was evicted or failed with restarts left.
    /// It is placed again only on request.
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

/// Requested containers for which the job has no tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Name of the group.
    pub group: Text,
    /// Number of missing tasks. To get them, add them to the group's count.
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
         scheduler, then call step"
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
    /// The job has not joined, or has ended. Join it first.
    #[error("job {0} has not joined, or has ended: join it first")]
    UnknownApplication(JobId),
    /// The job has no group of this name.
    #[error("the job has no group {0:?}")]
    NoGroup(Text),
    /// Containers are requested at places without a total. Add a request for `Anywhere`, which may forbid relaxing.
    #[error("containers of group {group:?} are requested at places, but without a total number: \
         add a request for `Anywhere`", group = .group)]
    NoTotal {
        /// The priority.
        priority: Priority,
        /// Name of the group.
        group: Text,
    },
    /// Two requests have one priority, group and place: merge them.
    #[error("the heartbeat has two requests for {0:?}: merge them")]
    Twice(Box<Ask>),
    /// The task is not, or no longer, a container of this application. Leave it out.
    #[error(
        "task {0} is not a container of this application, or was released before: leave it \
         out"
    )]
    NotAContainer(TaskId),
    /// The heartbeat names more places than allowed. Request fewer.
    #[error("{lines} places are requested or blacklisted: at most {max} are allowed", max = super::LINES_MAX)]
    TooMany {
        /// Number of places with the heartbeat's requests.
        lines: usize,
    },
}

/// Settings of a request frontend.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the frontend. Jobs that name it as their scheduler may join.
    pub name: Text,
    /// Label with the rack of a machine.
    pub rack: Text,
    /// Number of rounds in which a request skips other machines while no requested one has room.
    /// (YARN's `node-locality-delay`, which counts heartbeats of machines.)
    pub machine_delay: u32,
    /// Number of further rounds in which a request skips machines of other racks. (YARN's
    /// `rack-locality-additional-delay`.)
    pub rack_delay: u32,
    /// Time without a heartbeat after which an application gets no containers until its next heartbeat. If its job has
    /// ended, the application is removed. `None`: no limit.
    pub silence_max: Option<Nanos>,
    /// Settings of the search for requests that accept any machine.
    pub placement: Placement,
    /// Maximum number of containers allocated in a step.
    pub claims_max: usize,
    /// Seed for the machines at which searches start.
    pub seed: u64,
}

impl Settings {
    /// Settings with racks by the label `rack`, a wait of 40 rounds for a machine, which is YARN's default in
    /// heartbeats, and as many again for a rack, and ten minutes without a heartbeat, as in YARN.
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
    /// Heartbeats that were turned down.
    pub errors: u64,
    /// Containers on requested machines.
    pub on_machine: u64,
    /// Containers in requested racks.
    pub in_rack: u64,
    /// Containers elsewhere, because no place was requested, or after the wait.
    pub elsewhere: u64,
    /// Claims that the cell rejected. They are retried.
    pub conflicts: u64,
    /// Containers that applications gave back.
    pub released: u64,
    /// Containers that have ended in any way.
    pub completed: u64,
    /// Rounds in which a request skipped room elsewhere.
    pub passed_up: u64,
    /// Total waiting time of containers, in nanoseconds of the caller's clock. A wait begins with the application's
    /// first request for the group and priority.
    pub waited: Nanos,
    /// Longest wait of a container, in nanoseconds.
    pub waited_max: Nanos,
}

impl Counters {
    /// Containers that were allocated.
    #[must_use]
    pub fn allocated(&self) -> u64 {
        self.on_machine + self.in_rack + self.elsewhere
    }
}
