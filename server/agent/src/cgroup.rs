//! Control groups, version 2: a group for each task, below the group of the agent or another group.
//!
//! ```text
//!   ROOT/                       the agent's own group (systemd: Delegate=yes), or one that its operator names
//!     agent/                    the agent's process, moved here if ROOT was its group, because a group whose children
//!                               have controllers must have no processes
//!     tasks/                    tasks without exclusive cores; cpuset.cpus has the cores that no task has exclusively
//!       JOB-TASK/               cpu.weight, cpu.max, memory.max, memory.swap.max, pids.max
//!     exclusive/                tasks with exclusive cores
//!       JOB-TASK/               the same files, and cpuset.cpus
//! ```
//!
//! Podman creates two groups below the group of a container's task: `runtime` for its own processes, and
//! `libpod-payload-ID` for the container. Podman sets the limits of `libpod-payload-ID`, except its cores. So the
//! memory of Podman's own processes does not count towards the task's limit.

use crate::machine::parse_cores;
use crate::spec::{Limits, TaskSpec};
use rustix::fs::FlockOperation;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Folder of the root of all groups.
const MOUNT: &str = "/sys/fs/cgroup";

/// Controllers that limit the resources of tasks.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// The controller that exclusive cores need.
const CPUSET: &str = "cpuset";

/// File with the limit of the swap that a group uses in addition to its memory.
const SWAP: &str = "memory.swap.max";

/// File with the cores that the processes of a group may use.
const CORES: &str = "cpuset.cpus";

/// File with the setting whether the kernel kills all processes of a group together.
const OOM_GROUP: &str = "memory.oom.group";

/// File with the controllers that the groups below a group have.
const SUBTREE: &str = "cgroup.subtree_control";

/// Start of the name of a group that Podman creates for a container.
const PAYLOAD: &str = "libpod-payload-";

/// The length of a period of `cpu.max`, in microseconds.
const PERIOD_US: u64 = 100_000;

/// The groups below which the groups of tasks are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupRoot {
    tasks: PathBuf,
    exclusive: PathBuf,
}

/// The group of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    folder: PathBuf,
}

/// Reason why groups cannot be created. Start the agent with more rights, or without limits.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The machine has control groups of version 1, or none.
    #[error(
        "{0} is not a control group of version 2: boot with \
         systemd.unified_cgroup_hierarchy=1"
    )]
    NotVersion2(PathBuf),
    /// The group lacks a controller that the limits of tasks need.
    #[error(
        "{folder} has no controller {controller:?}: set Delegate=yes in the agent's systemd \
         service, or enable the controller in the kernel (cgroup_enable={controller})"
    )]
    NoController {
        /// Folder of the group.
        folder: PathBuf,
        /// Name of the controller.
        controller: &'static str,
    },
    /// The group has processes, so it cannot have controllers for the groups of tasks.
    #[error(
        "other processes are in the control group {0}: as root, use `--cgroup omega`; in a \
         systemd service, set Delegate=yes; in a container, use `--no-limits`"
    )]
    Busy(PathBuf),
    /// Another agent uses the group.
    #[error(
        "another agent uses the control group {0}: give each agent of a machine its own --cgroup"
    )]
    InUse(PathBuf),
    /// The agent may not write a file or folder.
    #[error("{path}: {why}: start the agent as root, or as a systemd service with Delegate=yes")]
    Refused {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        why: io::Error,
    },
}

fn write(folder: &Path, file: &str, value: &str) -> Result<(), CgroupError> {
    let path = folder.join(file);
    fs::write(&path, value).map_err(|why| CgroupError::Refused { path, why })
}

fn make(path: PathBuf) -> Result<PathBuf, CgroupError> {
    match fs::create_dir_all(&path) {
        Ok(()) => Ok(path),
        Err(why) => Err(CgroupError::Refused { path, why }),
    }
}

/// The group of this process, according to `/proc/self/cgroup`.
fn own(mount: &Path, table: &str) -> Option<PathBuf> {
    let path = table.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(mount.join(path.trim_start_matches('/')))
}

/// Controllers to enable in a group, in the form of `cgroup.subtree_control`.
///
/// # Errors
/// The group lacks a controller that the limits of tasks need.
fn controllers(folder: &Path) -> Result<String, CgroupError> {
    let listed = fs::read_to_string(folder.join("cgroup.controllers"))
        .map_err(|_| CgroupError::NotVersion2(folder.to_owned()))?;
    let has = |controller: &str| listed.split_whitespace().any(|one| one == controller);
    if let Some(controller) = CONTROLLERS.into_iter().find(|controller| !has(controller)) {
        return Err(CgroupError::NoController { folder: folder.to_owned(), controller });
    }
    let optional = has(CPUSET).then_some(CPUSET);
    let names = CONTROLLERS.into_iter().chain(optional).map(|name| format!("+{name}"));
    Ok(names.collect::<Vec<_>>().join(" "))
}

/// Enables controllers for the groups below a group.
fn enable(folder: &Path, controllers: &str) -> Result<(), CgroupError> {
    match write(folder, SUBTREE, controllers) {
        Err(CgroupError::Refused { why, .. }) if why.kind() == io::ErrorKind::ResourceBusy => {
            Err(CgroupError::Busy(folder.to_owned()))
        }
        enabled => enabled,
    }
}

impl CgroupRoot {
    /// Prepares the group of this process for tasks. This process is moved into a group below it.
    ///
    /// # Errors
    /// There are no control groups of version 2, or the agent may not change its group, or other processes are in it.
    pub fn of_this_process() -> Result<CgroupRoot, CgroupError> {
        let mount = Path::new(MOUNT);
        let table = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own(mount, &table).ok_or_else(|| CgroupError::NotVersion2(mount.to_owned()))?;
        // If the agent was restarted in its service, it may already be in the group below.
        let is_below = own.file_name().is_some_and(|name| name == "agent");
        let root = own.parent().filter(|_| is_below).unwrap_or(&own);
        CgroupRoot::prepare(root)
    }

    /// Prepares the group with this path below `/sys/fs/cgroup` for tasks, and creates it if it is missing. This
    /// process remains in its group, so that systemd can restart it there while tasks run.
    ///
    /// # Errors
    /// There are no control groups of version 2, the agent may not change the group, or processes are in it.
    pub fn at(path: &Path) -> Result<CgroupRoot, CgroupError> {
        CgroupRoot::below(Path::new(MOUNT), path)
    }

    fn below(mount: &Path, path: &Path) -> Result<CgroupRoot, CgroupError> {
        let controllers = controllers(mount)?;
        let mut folder = mount.to_owned();
        for part in path.components().filter(|part| matches!(part, Component::Normal(_))) {
            enable(&folder, &controllers)?;
            folder = make(folder.join(part))?;
        }
        CgroupRoot::with_tasks(&folder, &controllers)
    }

    /// Prepares a group for tasks. This process is moved into a group below it.
    ///
    /// # Errors
    /// The folder is no control group of version 2, the agent may not change it, or other processes are in it.
    pub fn prepare(root: &Path) -> Result<CgroupRoot, CgroupError> {
        let controllers = controllers(root)?;
        let agent = make(root.join("agent"))?;
        write(&agent, "cgroup.procs", "0")?;
        let prepared = CgroupRoot::with_tasks(root, &controllers);
        if prepared.is_err() {
            // This process goes back, so that the group does not stay behind.
            let _ = write(root, "cgroup.procs", "0");
            let _ = fs::remove_dir(&agent);
        }
        prepared
    }

    /// Prepares a group without processes for tasks.
    fn with_tasks(root: &Path, controllers: &str) -> Result<CgroupRoot, CgroupError> {
        enable(root, controllers)?;
        let (tasks, exclusive) = (make(root.join("tasks"))?, make(root.join("exclusive"))?);
        enable(&tasks, controllers)?;
        enable(&exclusive, controllers)?;
        Ok(CgroupRoot { tasks, exclusive })
    }

    /// Locks the group for this agent until the returned file is dropped.
    ///
    /// # Errors
    /// Another agent has locked the group.
    pub fn lock(&self) -> Result<File, CgroupError> {
        let in_use = || CgroupError::InUse(self.tasks.clone());
        let refused = |why| CgroupError::Refused { path: self.tasks.clone(), why };
        // Tasks of other users must not be able to open the folder, and so to lock it.
        let rights = fs::Permissions::from_mode(0o711);
        fs::set_permissions(&self.tasks, rights).map_err(refused)?;
        let folder = File::open(&self.tasks).map_err(refused)?;
        let locked = rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive);
        locked.map_err(|_| in_use())?;
        Ok(folder)
    }

    /// Keeps all tasks without exclusive cores off these cores, except if no other core is left.
    ///
    /// # Errors
    /// The agent lacks the rights to change the group.
    pub fn keep_off(&self, cores: &BTreeSet<u32>) -> Result<(), CgroupError> {
        let all = fs::read_to_string(self.exclusive.join("cpuset.cpus.effective"));
        // Without this file, no task can have exclusive cores.
        let Ok(all) = all else { return Ok(()) };
        let others: Vec<u32> =
            parse_cores(all.trim()).into_iter().filter(|core| !cores.contains(core)).collect();
        let is_restricted = !cores.is_empty() && !others.is_empty();
        // An empty line removes the restriction.
        let list = if is_restricted { core_list(&others) } else { "\n".to_owned() };
        write(&self.tasks, CORES, &list)
    }

    /// Creates the group of a task, with its limits. The limits of a container are set by Podman.
    ///
    /// # Errors
    /// The agent lacks the rights to create or change the group.
    pub fn make(&self, spec: &TaskSpec) -> Result<PathBuf, CgroupError> {
        let shares_cores = spec.limits.cores.is_empty();
        let above = if shares_cores { &self.tasks } else { &self.exclusive };
        let folder = make(above.join(&spec.id))?;
        let group = Cgroup::at(&folder);
        // An earlier run of the task may have left it.
        group.clear();
        group.limit(spec)?;
        Ok(folder)
    }
}

impl Cgroup {
    pub(crate) fn at(folder: &Path) -> Cgroup {
        Cgroup { folder: folder.to_owned() }
    }

    /// Sets or changes the limits of a task, except those that Podman sets.
    pub(crate) fn limit(&self, spec: &TaskSpec) -> Result<(), CgroupError> {
        let Limits { cpu_millis, cores, .. } = &spec.limits;
        write(&self.folder, "cpu.weight", &weight(*cpu_millis).to_string())?;
        if !cores.is_empty() {
            write(&self.folder, CORES, &core_list(cores))?;
        }
        if spec.container.is_none() { self.bound(&spec.limits) } else { Ok(()) }
    }

    /// Sets or changes the limits of processor time, memory and processes.
    fn bound(&self, limits: &Limits) -> Result<(), CgroupError> {
        let Limits { cpu_millis, memory_bytes, pids, .. } = limits;
        let bound = |amount: &u64| match amount {
            0 => "max".to_owned(),
            amount => amount.to_string(),
        };
        let folder = &self.folder;
        let quota = cpu_millis.saturating_mul(PERIOD_US) / 1000;
        // The kernel's minimum is a millisecond, which is 1000 microseconds.
        let quota = if quota == 0 { 0 } else { quota.max(1000) };
        write(folder, "cpu.max", &format!("{} {PERIOD_US}", bound(&quota)))?;
        write(folder, "memory.max", &bound(memory_bytes))?;
        // Without this, a task at its limit would fill the machine's swap. The file exists if the kernel counts swap.
        if folder.join(SWAP).exists() {
            write(folder, SWAP, if *memory_bytes == 0 { "max" } else { "0" })?;
        }
        write(folder, OOM_GROUP, "1")?;
        write(folder, "pids.max", &bound(pids))
    }

    /// Makes the kernel kill all processes of a container together if they exceed the limit of memory.
    pub(crate) fn end_container_as_one(&self) {
        for container in self.below().iter().filter(|group| group.has_prefix(PAYLOAD)) {
            // Without this, the kernel kills one process, whose end may not end the container.
            let _ = write(&container.folder, OOM_GROUP, "1");
        }
    }

    fn has_prefix(&self, prefix: &str) -> bool {
        let name = self.folder.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(prefix))
    }

    /// Moves this process into the group.
    pub(crate) fn enter(&self) -> io::Result<()> {
        // 0 means the process that writes.
        fs::write(self.folder.join("cgroup.procs"), "0")
    }

    /// Kills all processes of the group. If the group no longer exists, it has no processes.
    pub(crate) fn kill(&self) {
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }

    /// Pids of the processes in the group and the groups below it, including processes that are still exiting.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let own = self.read("cgroup.procs");
        let own = own.lines().filter_map(|pid| pid.trim().parse().ok());
        own.chain(self.below().iter().flat_map(Cgroup::pids)).collect()
    }

    /// Removes the group and the groups below it, which must have no processes.
    pub(crate) fn remove(&self) {
        self.below().iter().for_each(Cgroup::remove);
        let _ = fs::remove_dir(&self.folder);
    }

    /// Removes the groups below this group, which its processes may have created. While these groups have controllers,
    /// the group cannot get processes.
    pub(crate) fn clear(&self) {
        self.below().iter().for_each(Cgroup::remove);
        let enabled = self.read(SUBTREE);
        if enabled.trim().is_empty() {
            return;
        }
        let off: Vec<String> = enabled.split_whitespace().map(|name| format!("-{name}")).collect();
        // If this fails, the next start of the program fails, and tells the reason.
        let _ = fs::write(self.folder.join(SUBTREE), off.join(" "));
    }

    /// The groups directly below this group.
    fn below(&self) -> Vec<Cgroup> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_group = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        entries.filter(is_group).map(|entry| Cgroup { folder: entry.path() }).collect()
    }

    /// Number of the group's processes that the kernel has killed because of the memory limit.
    pub(crate) fn out_of_memory(&self) -> u64 {
        field(&self.read("memory.events"), "oom_kill")
    }

    /// Processor time that the group has used, in microseconds.
    pub(crate) fn cpu_us(&self) -> u64 {
        field(&self.read("cpu.stat"), "usage_usec")
    }

    /// Bytes of memory that the group uses.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.read("memory.current").trim().parse().unwrap_or_default()
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap_or_default()
    }
}

/// A list of cores in the kernel's format.
fn core_list(cores: &[u32]) -> String {
    let list: Vec<String> = cores.iter().map(u32::to_string).collect();
    list.join(",")
}

/// Returns the `cpu.weight` of a task for its requested processor time. One core gives 100, which is the default weight
/// of a group.
fn weight(cpu_millis: u64) -> u64 {
    (cpu_millis / 10).clamp(1, 10_000)
}

/// The number after a name, in a file with one name and number per line.
fn field(lines: &str, name: &str) -> u64 {
    let line = lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(controllers: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), controllers).unwrap();
        root
    }

    fn spec(id: &str, limits: Limits) -> TaskSpec {
        TaskSpec { id: id.to_owned(), limits, ..TaskSpec::default() }
    }

    fn content(folder: &Path, file: &str) -> String {
        fs::read_to_string(folder.join(file)).unwrap()
    }

    #[test]
    fn a_task_has_a_group_with_its_limits() {
        let root = root("cpuset cpu io memory pids\n");
        let prepared = CgroupRoot::prepare(root.path()).unwrap();
        assert_eq!(content(root.path(), "cgroup.subtree_control"), "+cpu +memory +pids +cpuset");
        assert_eq!(content(&root.path().join("agent"), "cgroup.procs"), "0");
        let limits = Limits {
            cpu_millis: 1500,
            memory_bytes: 1 << 30,
            cores: vec![2, 3],
            pids: 100,
            ..Limits::default()
        };
        let folder = root.path().join("exclusive/web-0");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(SWAP), "max").unwrap();
        assert_eq!(prepared.make(&spec("web-0", limits)).unwrap(), folder);
        let written = [
            ("cpu.weight", "150"),
            ("cpu.max", "150000 100000"),
            ("memory.max", "1073741824"),
            (SWAP, "0"),
            (OOM_GROUP, "1"),
            ("pids.max", "100"),
            ("cpuset.cpus", "2,3"),
        ];
        for (file, value) in written {
            assert_eq!(content(&folder, file), value, "{file}");
        }
        let group = Cgroup::at(&folder);
        let least = Limits { cpu_millis: 1, ..Limits::default() };
        group.limit(&spec("web-0", least)).unwrap();
        assert_eq!(content(&folder, "cpu.max"), "1000 100000", "the least that the kernel takes");
        group.limit(&spec("web-0", Limits::default())).unwrap();
        assert_eq!(content(&folder, "cpu.max"), "max 100000");
        assert_eq!(content(&folder, "memory.max"), "max");
        assert_eq!(content(&folder, SWAP), "max");
        group.kill();
        assert_eq!(content(&folder, "cgroup.kill"), "1");
    }

    #[test]
    fn tasks_are_kept_off_the_cores_of_others() {
        let root = root("cpuset cpu io memory pids\n");
        let prepared = CgroupRoot::prepare(root.path()).unwrap();
        let tasks = root.path().join("tasks");
        prepared.keep_off(&BTreeSet::from([1])).expect("nothing is done without the controller");
        assert!(!tasks.join(CORES).exists());
        fs::write(root.path().join("exclusive/cpuset.cpus.effective"), "0-3,8\n").unwrap();
        for (cores, others) in [(vec![1, 8], "0,2,3"), (vec![0, 1, 2, 3, 8], "\n"), (vec![], "\n")]
        {
            prepared.keep_off(&cores.iter().copied().collect()).unwrap();
            assert_eq!(content(&tasks, CORES), others, "{cores:?}");
        }
    }

    #[test]
    fn the_group_of_a_container_has_the_limits_that_podman_does_not_set() {
        let root = root("cpuset cpu io memory pids\n");
        let prepared = CgroupRoot::prepare(root.path()).unwrap();
        let limits = Limits {
            cpu_millis: 500,
            memory_bytes: 1 << 30,
            cores: vec![3],
            pids: 100,
            ..Limits::default()
        };
        let container = Some(crate::spec::Container::default());
        let folder = prepared.make(&TaskSpec { container, ..spec("db-0", limits) }).unwrap();
        assert_eq!(folder, root.path().join("exclusive/db-0"));
        assert_eq!((&*content(&folder, "cpu.weight"), &*content(&folder, CORES)), ("50", "3"));
        assert!(!folder.join("memory.max").exists() && !folder.join("cpu.max").exists());
        let payload = folder.join("libpod-payload-0123");
        fs::create_dir(&payload).unwrap();
        fs::create_dir(folder.join("runtime")).unwrap();
        Cgroup::at(&folder).end_container_as_one();
        assert_eq!(content(&payload, OOM_GROUP), "1");
        assert!(!folder.join("runtime").join(OOM_GROUP).exists());
    }

    #[test]
    fn a_group_of_its_own_leaves_the_process_where_it_is() {
        let mount = root("cpu io memory pids\n");
        let prepared = CgroupRoot::below(mount.path(), Path::new("/omega/one")).expect("a group");
        let uncounted = prepared.make(&spec("db-0", Limits::default())).expect("a group");
        assert!(!uncounted.join(SWAP).exists(), "this kernel does not count swap");
        for folder in ["", "omega", "omega/one", "omega/one/tasks"] {
            let controllers = content(&mount.path().join(folder), "cgroup.subtree_control");
            assert_eq!(controllers, "+cpu +memory +pids", "{folder}");
        }
        assert!(!mount.path().join("omega/one/agent").exists());
        let lock = prepared.lock().expect("no other agent uses it");
        let rights =
            mount.path().join("omega/one/tasks").metadata().expect("a group").permissions();
        assert_eq!(rights.mode() & 0o777, 0o711, "other users cannot lock it");
        let why = prepared.lock().expect_err("it is locked").to_string();
        assert!(why.contains("another agent uses the control group"), "{why}");
        drop(lock);
        prepared.lock().expect("it is free again");
    }

    #[test]
    fn groups_that_a_task_has_created_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let group = Cgroup::at(root.path());
        let deep = root.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(root.path().join("cgroup.procs"), "1\n2\n").unwrap();
        fs::write(deep.join("cgroup.procs"), "3\n").unwrap();
        assert_eq!(group.pids(), [1, 2, 3]);
        // The files of a real group vanish with it.
        fs::remove_file(deep.join("cgroup.procs")).unwrap();
        fs::write(root.path().join(SUBTREE), "memory pids\n").unwrap();
        group.clear();
        assert_eq!(content(root.path(), SUBTREE), "-memory -pids");
        assert!(!root.path().join("a").exists() && group.below().is_empty());
    }

    #[test]
    fn figures_of_a_group_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        let group = Cgroup::at(folder.path());
        assert_eq!((group.out_of_memory(), group.cpu_us(), group.memory_bytes()), (0, 0, 0));
        put("memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n");
        put("cpu.stat", "usage_usec 123456\nuser_usec 1\n");
        put("memory.current", "8192\n");
        assert_eq!(
            (group.out_of_memory(), group.cpu_us(), group.memory_bytes()),
            (3, 123_456, 8192)
        );
    }

    #[test]
    fn a_machine_without_groups_is_told_so() {
        let none = tempfile::tempdir().unwrap();
        let why = CgroupRoot::prepare(none.path()).unwrap_err().to_string();
        assert!(why.contains("is not a control group of version 2"), "{why}");
        let few = root("cpu pids\n");
        let why = CgroupRoot::prepare(few.path()).unwrap_err().to_string();
        assert!(why.contains("no controller \"memory\""), "{why}");
    }

    #[test]
    fn the_group_of_a_process_is_in_the_line_of_version_2() {
        let mount = Path::new("/sys/fs/cgroup");
        let two = own(mount, "0::/system.slice/omega.service\n");
        assert_eq!(two, Some(mount.join("system.slice/omega.service")));
        assert_eq!(own(mount, "4:memory:/a\n1:name=systemd:/b\n"), None);
    }
}
