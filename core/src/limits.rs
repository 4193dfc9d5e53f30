//! Bounds of the cell, with the reason for each value.
//!
//! Input is checked against these bounds before it changes any state.

/// Resource kinds in a cell. Kubernetes nodes with huge pages and several accelerators have ten.
pub const KINDS_MAX: usize = 16;

/// The largest amount of one resource on one machine or in one request: 2^50, a pebibyte in bytes.
/// With it a sum over 8,192 tasks or machines still fits in 63 bits, and every amount is exact in a
/// double-precision number, which the vectorised scores use.
pub const AMOUNT_MAX: u64 = 1 << 50;

/// Largest capacity of a cluster resource, limit and guarantee, which also means unlimited: sums of
/// claims, and one more, stay within 63 bits below it.
pub const QUOTA_MAX: u64 = i64::MAX as u64 / 2;

/// Machines in a cell: ten times the largest cell that Borg reports.
pub const MACHINES_MAX: usize = 1 << 20;

/// Accelerator devices in one machine; a set of them is a 32-bit mask.
pub const DEVICES_MAX: u8 = 32;

/// Capacity of one accelerator device, in thousandths of a device.
pub const DEVICE_MILLI: u32 = 1000;

/// NUMA nodes of one machine: two sockets of four nodes each.
pub const NUMA_NODES_MAX: usize = 8;

/// Cores of one NUMA node: twice the hardware threads of the largest socket. The total of a machine
/// fits 16 bits.
pub const CORES_PER_NODE_MAX: u16 = 1024;

/// Tasks in one job over its life.
pub const TASKS_PER_JOB_MAX: u32 = 1 << 20;

/// Jobs that a cell ever numbers: at a thousand a second they last for 34 years.
pub const JOBS_MAX: u64 = 1 << 40;

/// Task groups in one job.
pub const GROUPS_PER_JOB_MAX: usize = 256;

/// Versions of a job that a cell keeps, the present one included: a week of daily updates to go back to.
pub const VERSIONS_PER_JOB: usize = 8;

/// Rules, ports or terms in one list of a task group.
pub const RULES_PER_GROUP_MAX: usize = 64;

/// Largest weight of a preference about tasks, positive or negative.
pub const WEIGHT_MAX: u32 = 100;

/// Largest weight of a tenant: operators use ratios up to a thousand to one.
pub const TENANT_WEIGHT_MAX: u32 = 1000;

/// Depth of the tenant tree: more levels than companies have, and few enough to walk for each claim.
pub const TENANT_DEPTH_MAX: usize = 8;

/// Schedulers that may ever register in a cell.
pub const SCHEDULERS_MAX: usize = 4096;

/// Claims, releases and evictions in one transaction, together. Identical tasks are placed in one
/// transaction; a larger one would hold the lock for milliseconds.
pub const TRANSACTION_ITEMS_MAX: usize = 10_000;

/// Results kept for each scheduler, so that a retry gets the result of the first attempt.
pub const ANSWERS_PER_SCHEDULER: usize = 1024;

/// Numbers that are skipped when a scheduler's name gets a new owner. They are more than the last
/// owner can have in flight, because it has all of those in memory, and few enough for four billion
/// changes of the owner.
pub const NUMBERS_SKIPPED: u64 = 1 << 32;

/// Bound of a transaction's number above its scheduler's next one. Transactions that the pre-check
/// rejects leave no record, so a scheduler may be ahead of the record, but by this many only after
/// hours of rejections. With this bound it takes 2^40 transactions to exhaust a name's numbers.
pub const NUMBERS_AHEAD_MAX: u64 = 1 << 24;

/// The shortest lease of a scheduler's name: several elections and their retries.
pub const LEASE_MS_MIN: u32 = 1000;

/// Longest lease: as long as an operator waits before revoking it by hand.
pub const LEASE_MS_MAX: u32 = 60_000;

/// Changes kept for deltas. A view that is further behind gets a snapshot: at this many changes a
/// snapshot of a large cell is the cheaper of the two.
pub const CHANGES_MAX: usize = 1 << 18;

/// Bands of precedence: Borg has four.
pub const BANDS_MAX: usize = 16;

/// Largest count of an eviction limit: a larger one is no useful limit.
pub const EVICTION_CAP_MAX: u32 = 1 << 20;

/// Longest time span of an eviction limit: a day.
pub const EVICTION_SPAN_MS_MAX: u32 = 86_400_000;

/// Longest grace period: the next task on the machine waits as long.
pub const GRACE_MS_MAX: u32 = 3_600_000;

/// Maximum gang timeout. Beyond it, the reserved room costs others more than the gang is worth.
pub const GANG_TIMEOUT_MS_MAX: u32 = 3_600_000;

/// Bytes of a group's payload. Larger payloads belong in a file store.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// Bytes of one argument, or of one environment variable's value: a quarter of Linux's limit.
pub const RUN_TEXT_BYTES_MAX: usize = 32 << 10;

/// Arguments of a program, and its environment variables.
pub const RUN_TEXTS_MAX: usize = 1024;

/// Bytes of a program with its arguments and environment, so that the tasks of a full machine can be sent to its agent.
pub const RUN_BYTES_MAX: usize = 64 << 10;

/// The longest time between two tests of a health check, and the longest delay before a restart in place.
pub const HEALTH_MS_MAX: u32 = 3_600_000;

/// Number of reservations. Each is tested for claims of tasks that may overlap it; one for every
/// day of a season is still below this limit.
pub const RESERVATIONS_MAX: usize = 256;

/// Values in the requirements of one reservation or calendar of peaks, so that one can name each machine of a few
/// racks.
pub const RESERVED_VALUES_MAX: usize = 1024;

/// Tenants of one reservation. A parent tenant covers all its children with one name.
pub const RESERVATION_TENANTS_MAX: usize = 64;

/// Calendars of peaks: more than a cell has kinds of machines that services and batch share.
pub const PEAK_CALENDARS_MAX: usize = 64;

/// Peaks in one calendar: one for each hour of the day.
pub const PEAKS_MAX: usize = 24;

/// Points in a demand profile: five minutes each, as fine as load is measured over days. It has
/// many divisors, for all usual parts of a day.
pub const DEMAND_POINTS_MAX: usize = 288;

/// Labels on one machine or one task group.
pub const LABELS_MAX: usize = 256;

/// Bytes in a name, a label's key or its value.
pub const TEXT_BYTES_MAX: usize = 512;

/// Bytes of one job, counted by [`bytes_at_most`](crate::bytes_at_most): the limit of the largest
/// jobs in Nomad and objects in Kubernetes. It is a quarter of an API message, so that an accepted
/// job fits into a message to its scheduler with whatever else that contains.
pub const JOB_BYTES_MAX: usize = 1 << 20;

/// Bytes of one machine as a message; a view receives a machine in one message.
pub const MACHINE_BYTES_MAX: usize = 1 << 20;

/// Bytes of all reservations together, counted in the same way: a view receives all of them in one
/// message.
pub const RESERVATIONS_BYTES_MAX: usize = 1 << 20;

/// Bytes of all calendars of peaks together, for the same reason.
pub const PEAKS_BYTES_MAX: usize = 1 << 20;

/// Bytes of one command, in a message or a log. The largest transaction has 400 kB; a larger job is
/// an error.
pub const COMMAND_BYTES_MAX: usize = 4 << 20;

/// Bytes of one entry of a replicated log: commands are put together until they have
/// [`BATCH_BYTES`], and the last one may be large.
pub const ENTRY_BYTES_MAX: usize = COMMAND_BYTES_MAX + BATCH_BYTES;

/// Bytes of commands after which an entry is full: a thousand transactions of ten claims, beyond
/// which a further entry costs nothing measurable.
pub const BATCH_BYTES: usize = 256 << 10;

/// The largest overcommit factor of a compressible kind, in percent.
pub const OVERCOMMIT_PERCENT_MAX: u32 = 1000;
