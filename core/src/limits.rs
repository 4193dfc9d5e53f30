//! Bounds of the cell, with the reason for each value.
//!
//! Input is checked against these bounds before it changes any state.

/// Resource kinds in a cell. Kubernetes nodes with huge pages and several kinds of accelerators have ten.
pub const KINDS_MAX: usize = 16;

/// Largest amount of one resource on one machine or in one request: 2^50, in bytes a pebibyte. Sums over 8,192 tasks or
/// machines then fit in 63 bits, and every amount is exact as a double-precision number, which the vectorised scores
/// use.
pub const AMOUNT_MAX: u64 = 1 << 50;

/// Largest capacity of a cluster resource, limit and guarantee; it also means unlimited. The sum of all claims within
/// it, plus one more claim, fits in 63 bits.
pub const QUOTA_MAX: u64 = i64::MAX as u64 / 2;

/// Machines in a cell: ten times the largest cell that Borg reports.
pub const MACHINES_MAX: usize = 1 << 20;

/// Accelerator devices of one machine. A set of devices is a 32-bit mask.
pub const DEVICES_MAX: u8 = 32;

/// Capacity of one accelerator device, in thousandths of a device.
pub const DEVICE_MILLI: u32 = 1000;

/// NUMA nodes of one machine: enough for two sockets of four nodes each.
pub const NUMA_NODES_MAX: usize = 8;

/// Cores of one NUMA node: twice the hardware threads of the largest socket. The cores of all nodes of a machine are
/// below 2^16.
pub const CORES_PER_NODE_MAX: u16 = 1024;

/// Tasks that one job may ever have, including ended ones.
pub const TASKS_PER_JOB_MAX: u32 = 1 << 20;

/// Jobs that a cell may ever number: enough for 34 years at a thousand jobs a second.
pub const JOBS_MAX: u64 = 1 << 40;

/// Task groups in one job.
pub const GROUPS_PER_JOB_MAX: usize = 256;

/// Versions of a job that a cell keeps, including the present one. With daily updates, each version of the last week
/// can be restored.
pub const VERSIONS_PER_JOB: usize = 8;

/// Rules, ports or terms in one list of a task group.
pub const RULES_PER_GROUP_MAX: usize = 64;

/// Largest weight of a preference about other tasks, positive or negative.
pub const WEIGHT_MAX: u32 = 100;

/// Largest weight of a tenant: ratios of weights go up to a thousand to one.
pub const TENANT_WEIGHT_MAX: u32 = 1000;

/// Depth of the tenant tree: more levels than companies have, and few enough for every claim to check all of them.
pub const TENANT_DEPTH_MAX: usize = 8;

/// Schedulers that may ever register in a cell.
pub const SCHEDULERS_MAX: usize = 4096;

/// Claims, releases, evictions and resizes in one transaction, together. A scheduler places identical tasks in one
/// transaction; with more items, a transaction would keep the cell's lock for milliseconds.
pub const TRANSACTION_ITEMS_MAX: usize = 10_000;

/// Results of transactions that the cell keeps for each scheduler, to answer retries.
pub const ANSWERS_PER_SCHEDULER: usize = 1024;

/// Numbers of transactions that are skipped when a scheduler's name gets a new owner. They are more than the last owner
/// can have in flight, because it keeps all of those in memory, and allow four billion changes of the owner.
pub const NUMBERS_SKIPPED: u64 = 1 << 32;

/// Bound of a transaction's number above its scheduler's next number. Transactions that the pre-check rejects leave no
/// record, so a scheduler's numbers may be ahead of the cell's record, but only hours of rejections bring them this
/// far. With this bound, using up the numbers of a name takes 2^40 transactions.
pub const NUMBERS_AHEAD_MAX: u64 = 1 << 24;

/// Shortest lease of a scheduler's name: it outlasts several elections and their retries.
pub const LEASE_MS_MIN: u32 = 1000;

/// Longest lease. An operator who waits longer revokes it by hand.
pub const LEASE_MS_MAX: u32 = 60_000;

/// Changes that the cell records for deltas. A view that lacks more changes gets a snapshot, which is then cheaper than
/// a delta, even for a large cell.
pub const CHANGES_MAX: usize = 1 << 18;

/// Bands of precedence: Borg has four.
pub const BANDS_MAX: usize = 16;

/// Largest number of evictions in an eviction limit. A larger one would limit nothing in practice.
pub const EVICTION_CAP_MAX: u32 = 1 << 20;

/// Longest time span of an eviction limit: a day.
pub const EVICTION_SPAN_MS_MAX: u32 = 86_400_000;

/// Longest grace period. The next task on the machine may have to wait as long.
pub const GRACE_MS_MAX: u32 = 3_600_000;

/// Longest gang timeout. For longer, the room that an incomplete gang keeps costs other jobs more than the gang is
/// worth.
pub const GANG_TIMEOUT_MS_MAX: u32 = 3_600_000;

/// Bytes of a group's payload. Larger payloads belong in a file store.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// Bytes of one argument, or of one environment variable's value: a quarter of Linux's limit.
pub const RUN_TEXT_BYTES_MAX: usize = 32 << 10;

/// Number of a program's arguments, and of its environment variables.
pub const RUN_TEXTS_MAX: usize = 1024;

/// Bytes of a program with its arguments and environment. The programs of all tasks of a full machine must fit into
/// messages to its agent.
pub const RUN_BYTES_MAX: usize = 64 << 10;

/// Longest time between two tests of a health check, and longest delay before a restart on the same machine.
pub const HEALTH_MS_MAX: u32 = 3_600_000;

/// Number of reservations. A claim is compared with all reservations that its task may overlap. One for every day of a
/// quarter is below this limit.
pub const RESERVATIONS_MAX: usize = 256;

/// Values in the requirements of one reservation or calendar of peak hours: enough to name each machine of a few racks.
pub const RESERVED_VALUES_MAX: usize = 1024;

/// Tenants that one reservation names. The name of a parent tenant includes all tenants below it.
pub const RESERVATION_TENANTS_MAX: usize = 64;

/// Calendars of peak hours: more than the kinds of machines that services and batch share in one cell.
pub const PEAK_CALENDARS_MAX: usize = 64;

/// Peaks in one calendar: one for each hour of the day.
pub const PEAKS_MAX: usize = 24;

/// Points in a demand profile: one for every five minutes, as fine as load is measured over days. The number has many
/// divisors, so that all usual parts of a day are possible.
pub const DEMAND_POINTS_MAX: usize = 288;

/// Labels of one machine or one task group.
pub const LABELS_MAX: usize = 256;

/// Bytes in a name, or in a label's key or value.
pub const TEXT_BYTES_MAX: usize = 512;

/// Bytes of one job, counted by [`bytes_at_most`](crate::bytes_at_most): as much as the largest jobs in Nomad and the
/// largest objects in Kubernetes may have. It is a quarter of an API message, so that an accepted job fits into a
/// message to its scheduler, with all else that such a message contains.
pub const JOB_BYTES_MAX: usize = 1 << 20;

/// Bytes of one machine as a message. A view receives each machine in one message.
pub const MACHINE_BYTES_MAX: usize = 1 << 20;

/// Bytes of all reservations together, counted by [`bytes_at_most`](crate::bytes_at_most). A view receives all
/// reservations in one message.
pub const RESERVATIONS_BYTES_MAX: usize = 1 << 20;

/// Bytes of all calendars of peak hours together. A view receives all calendars in one message.
pub const PEAKS_BYTES_MAX: usize = 1 << 20;

/// Bytes of one command, in a message or a log. The largest transaction has 400 kB; the largest job is below
/// [`JOB_BYTES_MAX`].
pub const COMMAND_BYTES_MAX: usize = 4 << 20;

/// Bytes of one entry of a replicated log. Commands are added to an entry until it has [`BATCH_BYTES`], and the last
/// command may be of the largest size.
pub const ENTRY_BYTES_MAX: usize = COMMAND_BYTES_MAX + BATCH_BYTES;

/// Bytes of commands after which an entry is full: about a thousand transactions of ten claims. Larger entries make
/// commands no cheaper.
pub const BATCH_BYTES: usize = 256 << 10;

/// The largest overcommit factor of a compressible kind, in percent.
pub const OVERCOMMIT_PERCENT_MAX: u32 = 1000;
