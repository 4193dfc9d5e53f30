//! Bounds of the cell, with the reason for each value.
//!
//! Input is checked against these bounds before it changes any state.

/// Maximum number of resource kinds in a cell. Kubernetes nodes with huge pages and several types of accelerators have
/// ten.
pub const KINDS_MAX: usize = 16;

/// Largest amount of one resource on one machine or in one request: 2^50, which is a pebibyte for amounts in bytes.
///
/// Sums over 8,192 tasks or machines then fit in 63 bits. Every amount is also exact as a double-precision number,
/// which the vectorised scores use.
pub const AMOUNT_MAX: u64 = 1 << 50;

/// Largest capacity of a cluster resource, and largest limit or guarantee of a tenant. This value also means unlimited.
/// The sum of all claims up to this value, plus one more claim, fits in 63 bits.
pub const QUOTA_MAX: u64 = i64::MAX as u64 / 2;

/// Maximum number of machines in a cell: ten times as many as in the largest cell that Borg reports.
pub const MACHINES_MAX: usize = 1 << 20;

/// Maximum number of accelerator devices of one machine, because a set of devices is a 32-bit mask.
pub const DEVICES_MAX: u8 = 32;

/// Maximum number of tasks on one machine: each process of a task has a number of its own, and Linux starts with 2^15 to
/// 2^22 of them. A lost machine changes all its tasks with one command.
pub const TASKS_PER_MACHINE_MAX: usize = 1 << 16;

/// Capacity of one accelerator device, in thousandths of a device.
pub const DEVICE_MILLI: u32 = 1000;

/// Maximum number of NUMA nodes of one machine: enough for two sockets of four nodes each.
pub const NUMA_NODES_MAX: usize = 8;

/// Maximum number of cores of one NUMA node: twice the hardware threads of the largest socket. The number of cores of
/// all nodes of a machine stays below 2^16.
pub const CORES_PER_NODE_MAX: u16 = 1024;

/// Maximum number of tasks that one job may ever have, including ended ones.
pub const TASKS_PER_JOB_MAX: u32 = 1 << 20;

/// Maximum number of jobs that a cell may ever accept: enough for 34 years at a thousand jobs a second.
pub const JOBS_MAX: u64 = 1 << 40;

/// Maximum number of ended jobs that one `Expire` removes. So an `Expire` keeps the cell's lock for milliseconds, even
/// if the TTL of millions of jobs is over.
pub const REMOVED_JOBS_MAX: usize = 4096;

/// Number of tasks of removed jobs after which an `Expire` removes no further job.
pub const REMOVED_TASKS: usize = 1 << 16;

/// Maximum number of task groups in one job.
pub const GROUPS_PER_JOB_MAX: usize = 256;

/// Number of versions of a job whose groups, rules and ports the cell keeps together, each within the bounds of one
/// version. So an update may replace all groups.
pub const VERSIONS_TOGETHER: usize = 2;

/// Number of versions of a job that a cell keeps, including the present one. With daily updates, each version of the
/// last week can be restored.
pub const VERSIONS_PER_JOB: usize = 8;

/// Maximum number of rules, ports or terms in one list of a task group. Each term of an affinity counts as a rule.
pub const RULES_PER_GROUP_MAX: usize = 64;

/// Maximum number of different counters that the rules and fixed ports of a job need: a few for each group of the
/// largest job.
pub const COUNTERS_PER_JOB_MAX: usize = 1024;

/// Maximum number of these counters that count the tasks of one group. A placement changes all of them, so for the
/// rules of its own job, the largest transaction makes about a million changes. The rules of other jobs come on top.
pub const COUNTERS_PER_GROUP_MAX: usize = 128;

/// Maximum number of labels that the rules of a job use as topology levels. Machines have a few such labels, from the
/// rack to the region.
pub const LEVELS_PER_JOB_MAX: usize = 16;

/// Maximum number of labels that the rules of all jobs use as topology levels. The cell keeps four bytes for each
/// machine and level, and updates all levels when a machine changes.
pub const LEVELS_MAX: usize = 128;

/// Maximum number of these labels that no machine has. The rest is left for the labels of machines.
pub const LEVELS_WITHOUT_MACHINES_MAX: usize = 64;

/// Maximum number of different rules of a job about tasks of other jobs. The cell counts the tasks that each of these
/// rules selects, when the job begins and ends, and at each placement.
pub const RULES_ABOUT_OTHERS_MAX: usize = 64;

/// Maximum number of different selectors of machines and lists of tolerations in a job. The cell keeps a bit for each
/// machine and selector or list.
pub const MACHINE_SELECTORS_PER_JOB_MAX: usize = 128;

/// Maximum number of requirements in all different selectors of a job. The cell evaluates them for each machine when
/// the job is submitted, and for each machine that changes.
pub const REQUIREMENTS_PER_JOB_MAX: usize = 1024;

/// Maximum number of values in these requirements.
pub const SELECTOR_VALUES_PER_JOB_MAX: usize = 4096;

/// Largest weight of a preference about other tasks, positive or negative.
pub const WEIGHT_MAX: u32 = 100;

/// Largest weight of a tenant. The ratio of two weights is thus at most a thousand to one.
pub const TENANT_WEIGHT_MAX: u32 = 1000;

/// Maximum depth of the tenant tree. Companies have fewer levels, and a claim can be checked quickly against so few.
pub const TENANT_DEPTH_MAX: usize = 8;

/// Maximum number of tenants that a cell may ever have, because it never forgets a name. It is enough for one tenant
/// for each person of a large company.
pub const TENANTS_MAX: usize = 1 << 16;

/// Maximum number of schedulers that may ever register in a cell.
pub const SCHEDULERS_MAX: usize = 4096;

/// Maximum number of items in one transaction: claims, releases, evictions and resizes together.
///
/// A scheduler places identical tasks in one transaction. With more items, a transaction would keep the cell's lock for
/// milliseconds.
pub const TRANSACTION_ITEMS_MAX: usize = 10_000;

/// Number of results of transactions that the cell keeps for each scheduler, to answer retries.
pub const REPLIES_PER_SCHEDULER: usize = 1024;

/// Maximum number of conflicts in the results that the cell keeps for each scheduler. Beyond it, the results of the
/// oldest transactions are forgotten. Most transactions have few conflicts, so this only bounds the memory of a
/// scheduler whose claims are nearly all rejected.
pub const CONFLICTS_PER_SCHEDULER: usize = 32_768;

/// Number of transaction numbers that are skipped when a scheduler's name gets a new owner.
///
/// An owner keeps all its transactions in flight in memory, so they are fewer than the skipped numbers. Even so, a name
/// can change its owner four billion times.
pub const NUMBERS_SKIPPED: u64 = 1 << 32;

/// Maximum distance of a transaction's number from its scheduler's next number in the cell's record.
///
/// Transactions that the pre-check rejects leave no record. So a scheduler's numbers may be ahead of the record, but
/// only hours of rejections bring them this far. With this bound, it takes at least 2^40 transactions to use up the
/// 2^64 numbers of a name.
pub const NUMBERS_AHEAD_MAX: u64 = 1 << 24;

/// Shortest lease of a scheduler's name: longer than several elections and their retries take.
pub const LEASE_MS_MIN: u32 = 1000;

/// Longest lease of a scheduler's name. An operator who does not want to wait this long can revoke the lease by hand.
pub const LEASE_MS_MAX: u32 = 60_000;

/// Number of changes that the cell records for deltas. A view that lacks more changes gets a snapshot instead, which is
/// then cheaper than a delta even for a large cell.
pub const CHANGES_MAX: usize = 1 << 18;

/// Maximum number of bands of precedence. Borg has four bands.
pub const BANDS_MAX: usize = 16;

/// Largest number of evictions in an eviction limit. A larger number would not limit anything in practice.
pub const EVICTION_CAP_MAX: u32 = 1 << 20;

/// Longest time span of an eviction limit: a day.
pub const EVICTION_SPAN_MS_MAX: u32 = 86_400_000;

/// Longest grace period. The next task on the machine may have to wait for this long.
pub const GRACE_MS_MAX: u32 = 3_600_000;

/// Longest gang timeout. An incomplete gang that keeps its room for longer costs other jobs more than it is worth.
pub const GANG_TIMEOUT_MS_MAX: u32 = 3_600_000;

/// Maximum number of bytes of a group's payload. Larger payloads belong in a file store.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// Maximum number of bytes of one argument, or of an environment variable's value: a quarter of Linux's limit.
pub const RUN_TEXT_BYTES_MAX: usize = 32 << 10;

/// Maximum number of a program's arguments, and also of its environment variables.
pub const RUN_TEXTS_MAX: usize = 1024;

/// Maximum number of files and folders of the machine that a container has.
pub const RUN_MOUNTS_MAX: usize = 64;

/// Maximum number of bytes of a program with its arguments and environment. The programs of all tasks of a full machine
/// must fit into messages to its agent.
pub const RUN_BYTES_MAX: usize = 64 << 10;

/// Longest time between two tests of a health check, and longest delay before a restart on the same machine.
pub const HEALTH_MS_MAX: u32 = 3_600_000;

/// Maximum number of reservations: more than one for every day of a quarter. A claim is compared with all reservations
/// that its task may overlap.
pub const RESERVATIONS_MAX: usize = 256;

/// Maximum number of values in the requirements of one reservation, or of one calendar of peak hours. This is enough to
/// name each machine of a few racks.
pub const RESERVED_VALUES_MAX: usize = 1024;

/// Maximum number of tenants that one reservation names. Naming a parent tenant includes all tenants below it.
pub const RESERVATION_TENANTS_MAX: usize = 64;

/// Maximum number of calendars of peak hours: more than the types of machines that services and batch jobs share in one
/// cell.
pub const PEAK_CALENDARS_MAX: usize = 64;

/// Maximum number of peaks in one calendar: one for each hour of the day.
pub const PEAKS_MAX: usize = 24;

/// Maximum number of points in a demand profile: one for every five minutes, the usual interval of load measurements
/// over several days. This number has many divisors, so that a profile can have any usual number of points.
pub const DEMAND_POINTS_MAX: usize = 288;

/// Maximum number of labels of one machine or one task group.
pub const LABELS_MAX: usize = 256;

/// Maximum number of bytes in a name, or in a label's key or value.
pub const TEXT_BYTES_MAX: usize = 512;

/// Maximum number of bytes of one job, counted by [`bytes_at_most`](crate::bytes_at_most). The largest jobs in Nomad
/// and the largest objects in Kubernetes have this size.
///
/// This is a quarter of an API message. So an accepted job fits into a message to its scheduler, together with the
/// other contents of that message.
pub const JOB_BYTES_MAX: usize = 1 << 20;

/// Maximum number of bytes of one machine as a message. A view receives each machine in one message.
pub const MACHINE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of bytes of all reservations together, counted by [`bytes_at_most`](crate::bytes_at_most). A view
/// receives all reservations in one message.
pub const RESERVATIONS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of bytes of all calendars of peak hours together. A view receives all calendars in one message.
pub const PEAKS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of bytes of one command, in a message or a log. The largest transaction has 400 kB; the largest job
/// is below [`JOB_BYTES_MAX`].
pub const COMMAND_BYTES_MAX: usize = 4 << 20;

/// Maximum number of bytes of one entry of a replicated log. Commands are added to an entry until it has
/// [`BATCH_BYTES`], and the last of these commands may have the largest size.
pub const ENTRY_BYTES_MAX: usize = COMMAND_BYTES_MAX + BATCH_BYTES;

/// Number of bytes at which a log entry is full: about a thousand transactions of ten claims. Larger entries would not
/// reduce the cost of a command.
pub const BATCH_BYTES: usize = 256 << 10;

/// The largest overcommit factor of a compressible kind, in percent.
pub const OVERCOMMIT_PERCENT_MAX: u32 = 1000;
