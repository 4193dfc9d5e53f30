//! Examples of each policy in a program that embeds a cell. All of them are compiled and run as tests.
//!
//! The pages in `docs/` explain the policies; the examples here show their types and calls.
//!
//! # Gangs
//!
//! A gang that is placed in one transaction, and a gang that keeps its places until its timeout.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, Job, Kinds, Machine, TaskGroup};
//! use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! cell.apply(Command::RegisterMachine(Machine::new("a", Amounts::new([2000]))))?;
//! let gang = |name, timeout| Job {
//!     gang_min: Some(3),
//!     gang_timeout_ms: timeout,
//!     ..Job::batch(name, TaskGroup::new(3, Amounts::new([1000])))
//! };
//! let mut scheduler = Scheduler::new(&cell, Profile::batch(), Settings::new("default"))?;
//! let mut placed = |minute: u64| -> Result<u64, Box<dyn std::error::Error>> {
//!     Ok(scheduler.step(&cell, minute * 60_000_000_000, &mut Unobserved)?.placed as u64)
//! };
//! cell.apply(Command::SubmitJob(gang("one-transaction", None)))?;
//! assert_eq!(placed(0)?, 0); // room for two of three tasks: nothing is placed
//! cell.apply(Command::SubmitJob(gang("with-timeout", Some(3_600_000))))?;
//! assert_eq!(placed(1)?, 2); // two tasks keep places and do not start yet
//! cell.apply(Command::RegisterMachine(Machine::new("b", Amounts::new([1000]))))?;
//! assert_eq!(placed(2)?, 1); // the gang is complete and starts
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Preemption with bands
//!
//! A task evicts tasks outside its precedence band, but none within the band.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Band, Command, Job, JobId, Kinds, Machine, Policy, Precedence, TaskGroup, TaskId};
//! use omega_schedulers::plugins::DefaultPreemption;
//! use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! let bands = vec![Band { from: Precedence(100), to: Precedence(199) }];
//! cell.apply(Command::SetPolicy(Policy { bands, ..Policy::default() }))?;
//! cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([4000]))))?;
//! let profile = Profile::batch().with_post_filter(DefaultPreemption::default());
//! let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default"))?;
//! // Precedence 150 evicts precedence 0. 180 does not evict 150, because both are in one band.
//! for (number, precedence, runs) in [(0, 0, 0), (1, 150, 1), (2, 180, 1)] {
//!     let job = Job::batch(format!("job-{number}"), TaskGroup::new(1, Amounts::new([4000])));
//!     cell.apply(Command::SubmitJob(Job { precedence: Precedence(precedence), ..job }))?;
//!     while !scheduler.step(&cell, number * 1_000_000_000, &mut Unobserved)?.idle {}
//!     let task = TaskId { job: JobId(runs), index: 0 };
//!     assert!(cell.read(|cell| cell.task_allocation(task).is_some()));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Fair shares and guarantees
//!
//! Two tenants with guarantees: one borrows idle cores, the other reclaims them.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, Job, Kinds, Machine, TenantConfig, TaskGroup};
//! use omega_schedulers::plugins::{FairShare, Reclaim};
//! use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([8000, 32 << 30]))))?;
//! for (tenant, cores) in [("research", 3), ("shop", 5)] {
//!     let tenant_config = TenantConfig { guaranteed: Amounts::new([cores * 1000]), ..TenantConfig::default() };
//!     cell.apply(Command::SetTenant { tenant: tenant.into(), tenant_config })?;
//! }
//! let profile = Profile::batch().with_order(FairShare).with_post_filter(Reclaim::default());
//! let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default"))?;
//! let cores = |name| cell.read(|cell| cell.tenant_used(name).map_or(0, |used| used[0] / 1000));
//! for (hour, tenant, has) in [(0, "research", 8), (1, "shop", 5)] {
//!     let job = Job::batch(tenant, TaskGroup::new(8, Amounts::new([1000])));
//!     cell.apply(Command::SubmitJob(Job { tenant: tenant.into(), ..job }))?;
//!     while !scheduler.step(&cell, hour * 3_600_000_000_000, &mut Unobserved)?.idle {}
//!     assert_eq!(cores(tenant), has);
//! }
//! assert_eq!(cores("research"), 3); // the borrowed cores were reclaimed
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Placement by measured load
//!
//! An overcommitted machine takes more tasks once a load report shows that little is in use.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, Job, KindId, Kinds, Machine, Overcommit, Outcome, Policy, TaskGroup};
//! use omega_schedulers::plugins::{HalfLife, Limit, LoadLimit};
//! use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! let overcommit_max = Overcommit::none().with(KindId::CPU, 200);
//! cell.apply(Command::SetPolicy(Policy { overcommit_max, ..Policy::default() }))?;
//! let overcommit = Overcommit::none().with(KindId::CPU, 200);
//! let machine = Machine { overcommit, ..Machine::new("a", Amounts::new([4000])) };
//! let Outcome::Machine(id) = cell.apply(Command::RegisterMachine(machine))? else { unreachable!() };
//!
//! let limit = Limit { kind: KindId::CPU, service_percent: 65, batch_percent: 100 };
//! let profile = Profile::batch().with_filter(LoadLimit::new(HalfLife::seconds(300), &[limit]));
//! let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default"))?;
//! cell.apply(Command::SubmitJob(Job::batch("job", TaskGroup::new(8, Amounts::new([1000])))))?;
//! // Without a load report, all claimed resources count as in use.
//! assert_eq!(scheduler.step(&cell, 0, &mut Unobserved)?.placed, 4);
//! // The four tasks use one core together, so three more tasks fit below the limit.
//! cell.apply(Command::ReportLoad { id, load: Amounts::new([1000]) })?;
//! assert_eq!(scheduler.step(&cell, 1_000_000_000, &mut Unobserved)?.placed, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Backfill
//!
//! A wide gang has a plan. A short job runs before the gang starts, and a long job waits.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, Job, JobId, Kinds, Machine, TaskGroup};
//! use omega_schedulers::{Backfill, Profile, Scheduler, Settings, Unobserved};
//!
//! const MINUTE: u64 = 60_000;
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! for name in ["a", "b"] {
//!     cell.apply(Command::RegisterMachine(Machine::new(name, Amounts::new([4000]))))?;
//! }
//! let profile = Profile::batch().with_backfill(Backfill::new(1));
//! let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default"))?;
//! // `first` runs on one machine for 30 minutes, and the gang `wide` needs both machines.
//! // Until the gang starts, only a job of at most 30 minutes may use the other machine.
//! let jobs = [("first", 1, 30, 1), ("wide", 2, 60, 0), ("long", 1, 31, 0), ("short", 1, 30, 1)];
//! for (name, tasks, minutes, placed) in jobs {
//!     let job = Job::batch(name, TaskGroup::new(tasks, Amounts::new([4000])));
//!     let runtime_estimate_ms = Some(minutes * MINUTE);
//!     let job = Job { gang_min: Some(tasks), runtime_estimate_ms, ..job };
//!     cell.apply(Command::SubmitJob(job))?;
//!     assert_eq!(scheduler.step(&cell, 0, &mut Unobserved)?.placed, placed, "{name}");
//! }
//! assert_eq!(scheduler.planned(), [(JobId(1), 30 * MINUTE)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Delay scheduling
//!
//! The second task waits 30 ms for the machine with its data, then takes another machine.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, Job, Kinds, Labels, Machine, MachineSelector, Preferred, TaskGroup};
//! use omega_schedulers::{Delay, Profile, Scheduler, Settings, Unobserved};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! for (name, data) in [("a", "users"), ("b", "")] {
//!     let labels = Labels::new([("data", data)]);
//!     cell.apply(Command::RegisterMachine(Machine { labels, ..Machine::new(name, Amounts::new([1000])) }))?;
//! }
//! let mut group = TaskGroup::new(1, Amounts::new([1000]));
//! let machines = MachineSelector::label("data", "users");
//! group.rules.affinity.preferred = vec![Preferred { weight: 1, machines }];
//! cell.apply(Command::SubmitJob(Job::batch("first", group.clone())))?;
//! cell.apply(Command::SubmitJob(Job::batch("second", group)))?;
//!
//! const MS: u64 = 1_000_000;
//! let profile = Profile::batch().with_delay(Delay::new(30 * MS, None));
//! let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default"))?;
//! // The first task takes the preferred machine. The second task skips the free room on the other machine.
//! assert_eq!(scheduler.step(&cell, 0, &mut Unobserved)?.placed, 1);
//! assert_eq!(scheduler.step(&cell, 29 * MS, &mut Unobserved)?.placed, 0);
//! assert_eq!(scheduler.step(&cell, 30 * MS, &mut Unobserved)?.placed, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reservations
//!
//! Before a reservation starts, its machines accept only tasks that end by then, and tasks of the reservation's
//! tenants.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, Job, Kinds, Machine, MachineSelector, Requirement, Reservation, TaskGroup};
//! use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([4000]))))?;
//! let machines = MachineSelector { names: vec![Requirement::equals("", "m")], ..MachineSelector::default() };
//! cell.apply(Command::Reserve(Reservation {
//!     name: "demo".into(),
//!     machines,
//!     tenants: vec!["show".into()],
//!     from_ms: 60_000,
//!     until_ms: 120_000,
//! }))?;
//! let mut scheduler = Scheduler::new(&cell, Profile::batch(), Settings::new("default"))?;
//! for (name, tenant, run_ms, placed) in [("a", "us", 60_000, 1), ("b", "us", 60_001, 0), ("c", "show", 90_000, 1)] {
//!     let job = Job::batch(name, TaskGroup::new(1, Amounts::new([1000])));
//!     let job = Job { tenant: tenant.into(), runtime_estimate_ms: Some(run_ms), ..job };
//!     cell.apply(Command::SubmitJob(job))?;
//!     assert_eq!(scheduler.step(&cell, 0, &mut Unobserved)?.placed, placed);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Queues by deadline and run time
//!
//! Three jobs, placed under two queue orders.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, Job, JobId, Kinds, Machine, TaskGroup};
//! use omega_schedulers::plugins::{LeastSlack, ShortestFirst};
//! use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
//!
//! const MINUTE: u64 = 60_000;
//! let by_slack = Profile::batch().with_order(LeastSlack);
//! let by_length = Profile::batch().with_order(ShortestFirst::default());
//! for (profile, first) in [(by_slack, 1), (by_length, 2)] {
//!     let cell = SharedCell::new(Cell::new(Kinds::standard()));
//!     cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([1000]))))?;
//!     for (name, run, due) in [("old", 50, None), ("urgent", 30, Some(40)), ("short", 1, Some(60))] {
//!         let job = Job::batch(name, TaskGroup::new(1, Amounts::new([1000])));
//!         let (runtime_estimate_ms, deadline_ms) = (Some(run * MINUTE), due.map(|due| due * MINUTE));
//!         cell.apply(Command::SubmitJob(Job { runtime_estimate_ms, deadline_ms, ..job }))?;
//!     }
//!     let mut scheduler = Scheduler::new(&cell, profile, Settings::new("default"))?;
//!     scheduler.step(&cell, 0, &mut Unobserved)?;
//!     let placed = |id| cell.read(|cell| cell.tasks(JobId(id)).any(|(_, task)| task.machine().is_some()));
//!     assert_eq!([0, 1, 2].map(placed), [0, 1, 2].map(|id| id == first));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Optional resources
//!
//! The task on the large machine gets its optional resources. The other task gets only its request.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, Job, JobId, Kinds, Machine, TaskGroup, TaskId, OptionalResources};
//! use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! for (name, cores) in [("large", 4), ("small", 2)] {
//!     cell.apply(Command::RegisterMachine(Machine::new(name, Amounts::new([cores * 1000]))))?;
//! }
//! let mut group = TaskGroup::new(2, Amounts::new([2000]));
//! group.optional = Some(OptionalResources { amounts: Amounts::new([2000]), devices: None });
//! cell.apply(Command::SubmitJob(Job::batch("web", group)))?;
//!
//! let mut scheduler = Scheduler::new(&cell, Profile::batch(), Settings::new("default"))?;
//! assert_eq!(scheduler.step(&cell, 0, &mut Unobserved)?.placed, 2);
//! let allocated = |index| cell.read(|cell| cell.task_allocation(TaskId { job: JobId(0), index }));
//! assert_eq!(allocated(0), Some(Amounts::new([4000])));
//! assert_eq!(allocated(1), Some(Amounts::new([2000])));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Exclusive cores
//!
//! Three ranks that each request five cores of one NUMA node, on a machine with two nodes of eight cores each.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, CoreRequest, Job, JobId, Kinds, Machine, NodeCores, TaskGroup, TaskId};
//! use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! let mut machine = Machine::new("m", Amounts::new([16_000]));
//! machine.numa = NodeCores::new(&[8, 8]).expect("there are two nodes");
//! cell.apply(Command::RegisterMachine(machine))?;
//! let mut group = TaskGroup::new(3, Amounts::new([5000]));
//! group.cores = Some(CoreRequest::on_one_node(5));
//! cell.apply(Command::SubmitJob(Job::batch("ranks", group)))?;
//!
//! let mut scheduler = Scheduler::new(&cell, Profile::batch(), Settings::new("default"))?;
//! // Six cores are left, three on each node, so the third rank stays pending.
//! assert_eq!(scheduler.step(&cell, 0, &mut Unobserved)?.placed, 2);
//! let cores = |index| cell.read(|cell| cell.task_cores(TaskId { job: JobId(0), index }));
//! assert_eq!(cores(0).as_slice(), [5]);
//! assert_eq!(cores(1).as_slice(), [0, 5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cluster resources
//!
//! Three licences limit the number of running tasks to three. A fourth licence lets one more task start.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, Job, Kinds, KindId, Machine, ResourceKind, TaskGroup, Unit};
//! use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
//!
//! let kind = |name: &str, unit| ResourceKind { name: name.into(), unit, compressible: false };
//! let kinds = Kinds::new(vec![kind("cpu", Unit::Milli), kind("licence", Unit::Count)])?;
//! let licence = KindId(1);
//! let cell = SharedCell::new(Cell::new(kinds));
//! cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([64_000]))))?;
//! cell.apply(Command::SetClusterCapacity { kind: licence, amount: 3 })?;
//!
//! let mut group = TaskGroup::new(5, Amounts::new([1000]));
//! group.cluster_request = Amounts::zero().with(licence, 1);
//! cell.apply(Command::SubmitJob(Job::batch("solve", group)))?;
//! let mut scheduler = Scheduler::new(&cell, Profile::batch(), Settings::new("default"))?;
//! assert_eq!(scheduler.step(&cell, 0, &mut Unobserved)?.placed, 3);
//! assert_eq!(cell.read(|cell| cell.resources().claimed.get(licence)), 3);
//!
//! cell.apply(Command::SetClusterCapacity { kind: licence, amount: 4 })?;
//! assert_eq!(scheduler.step(&cell, 1_000_000_000, &mut Unobserved)?.placed, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Peak hours
//!
//! A peak controller throttles batch tasks when a peak begins, and restores them after it.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell};
//! use omega_core::{Amounts, Command, DAY_MS, Job, KindId, KindShare, Kinds, Machine, MachineSelector};
//! use omega_core::{Peak, PeakCalendar, Requirement, TaskGroup, OptionalResources};
//! use omega_schedulers::peaks::{PeakController, Settings as ControllerSettings};
//! use omega_schedulers::{Profile, Scheduler, Settings, Unobserved};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([10_000]))))?;
//! let machines = MachineSelector { names: vec![Requirement::equals("", "m")], ..MachineSelector::default() };
//! let batch_max = vec![KindShare { kind: KindId::CPU, percent: 30 }];
//! let peaks = vec![Peak { from_ms: DAY_MS / 3, until_ms: DAY_MS / 2, batch_max }];
//! cell.apply(Command::SetPeaks(PeakCalendar { name: "web".into(), machines, peaks }))?;
//!
//! let mut group = TaskGroup::new(2, Amounts::new([1000]));
//! group.optional = Some(OptionalResources { amounts: Amounts::new([3000]), devices: None });
//! cell.apply(Command::SubmitJob(Job::batch("night", group)))?;
//! let mut scheduler = Scheduler::new(&cell, Profile::batch(), Settings::new("default"))?;
//! assert_eq!(scheduler.step(&cell, 0, &mut Unobserved)?.placed, 2); // with their optional resources
//!
//! let mut controller = PeakController::new(&cell, ControllerSettings::new())?;
//! cell.apply(Command::Expire { now_ms: u64::from(DAY_MS / 3) })?;
//! assert_eq!(controller.step(&cell)?.throttled, 2); // from 8 of 10 cores to 2, within the 30 % of batch tasks
//! cell.apply(Command::Expire { now_ms: u64::from(DAY_MS / 2) })?;
//! assert_eq!(controller.step(&cell)?.restored, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Demand profiles
//!
//! Two jobs with peaks at opposite times of day share one machine.
//!
//! ```
//! use omega_cellstate::{Cell, SharedCell, View, CellHandle};
//! use omega_core::{Amounts, Command, DemandProfile, Job, JobId, KindId, Kinds, Machine, TaskGroup, TaskId};
//!
//! let cell = SharedCell::new(Cell::new(Kinds::standard()));
//! cell.apply(Command::RegisterMachine(Machine::new("m", Amounts::new([4000]))))?;
//! let (me, number) = cell.register("mine".into())?;
//! let mut view = View::new(me, number);
//! view.sync(&cell)?;
//!
//! let mut fits = |id: u64, points: Vec<u64>| {
//!     let demand_profile = DemandProfile { kind: KindId::CPU, points };
//!     let request = Amounts::new([demand_profile.peak()]);
//!     let group = TaskGroup { demand_profiles: vec![demand_profile], ..TaskGroup::new(1, request) };
//!     let job = Job::batch(format!("job-{id}"), group).into();
//!     let group = view.compile(JobId(id), &job, 0);
//!     let task = TaskId { job: JobId(id), index: 0 };
//!     view.claim(task, view.machine_id(0), group).is_ok()
//! };
//! assert!(fits(0, vec![3000, 1000]), "busy by day");
//! assert!(fits(1, vec![1000, 3000]), "busy by night");
//! assert!(!fits(2, vec![1000, 0]), "by day all four cores are claimed");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
