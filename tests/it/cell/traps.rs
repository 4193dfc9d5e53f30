//! Edge cases that scripts cannot express: hashes, bounds, and extreme numbers.

use omega_cellstate::{Cell, SharedCell, View};
use omega_core::limits::{
    LEASE_MS_MIN, NUMBERS_AHEAD_MAX, REMOVED_JOBS_MAX, TENANTS_MAX, TRANSACTION_ITEMS_MAX,
};
use omega_core::{
    Amounts, Claim, Command, Commit, HolderId, Image, Job, JobId, KindId, Kinds, LabelSelector,
    Labels, Machine, MachineId, MachineSelector, Near, Outcome, Policy, Port, Preferred, Rejection,
    Requirement, SchedulerId, Taint, TaintEffect, TaskGroup, TaskId, TaskReport, TaskRule,
    TaskSelector, TaskState, TenantConfig, Tenants, Text, Toleration, TolerationOperator,
    TopologyLevel, Transaction, TransactionError, TransactionId, Version,
};
use omega_tests::reference::Reference;

fn task(job: u64, index: u32) -> TaskId {
    TaskId { job: JobId(job), index }
}

fn machine(name: &str, cpu: u64) -> Command {
    Command::RegisterMachine(Machine::new(name, Amounts::new([cpu])))
}

/// A cell after these commands, all of which must be accepted.
fn cell(commands: impl IntoIterator<Item = Command>) -> Cell {
    let mut cell = Cell::new(Kinds::standard());
    cell.apply(Command::RegisterScheduler { name: "me".into() }).unwrap();
    for command in commands {
        cell.apply(command.clone()).unwrap_or_else(|refused| panic!("{command:?}: {refused}"));
    }
    cell
}

fn transaction(number: u64, claims: &[(TaskId, MachineId)]) -> Transaction {
    let id = TransactionId { scheduler: SchedulerId(0), number };
    let claim =
        |(task, machine): &(TaskId, MachineId)| Claim::new(*task, *machine, Default::default());
    Transaction::new(id, Version(0), claims.iter().map(claim).collect())
}

fn commit(cell: &mut Cell, txn: &Transaction) -> Commit {
    match cell.apply(Command::Commit(txn.clone())) {
        Ok(Outcome::Commit(commit)) => commit,
        other => panic!("not checked: {other:?}"),
    }
}

#[test]
fn cells_that_differ_in_a_rule_have_different_hashes() {
    let plain = Job::batch("a", TaskGroup::new(1, Amounts::new([1])));
    let mut jobs = vec![plain; 5];
    jobs[1].groups[0].rules.ports.push(Port::tcp(80));
    jobs[2].gang_min = Some(1);
    jobs[3].groups[0].restarts = 1;
    jobs[4].scheduler = "another".into();
    let mut hashes: Vec<u64> =
        jobs.into_iter().map(|job| cell([Command::SubmitJob(job)]).state_hash()).collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 5);
}

#[test]
fn cells_that_would_use_rows_in_another_order_have_different_hashes() {
    let remove = |slot| Command::RemoveMachine { id: MachineId::first(slot) };
    let machines = || [machine("a", 1), machine("b", 1)];
    let one = cell(machines().into_iter().chain([remove(0), remove(1)]));
    let other = cell(machines().into_iter().chain([remove(1), remove(0)]));
    assert_ne!(one.state_hash(), other.state_hash());
}

/// A text that is not a valid name.
fn bad() -> Text {
    Text::from("a\u{202e}b")
}

/// Commands with this text in each place of a machine or a job, except in task groups.
fn bad_machines_and_jobs() -> Vec<Command> {
    let job = |change: &dyn Fn(&mut Job)| {
        let mut job = Job::batch("j", TaskGroup::new(1, Amounts::new([1])));
        change(&mut job);
        Command::SubmitJob(job)
    };
    let of = |change: &dyn Fn(&mut Machine)| {
        let mut machine = Machine::new("m", Amounts::new([1]));
        change(&mut machine);
        Command::RegisterMachine(machine)
    };
    let taint = |key, value| Taint { key, value, effect: TaintEffect::NoSchedule };
    vec![
        Command::RegisterScheduler { name: bad() },
        Command::SetQuota { tenant: bad(), limit: None },
        job(&|job| job.name = bad()),
        job(&|job| job.tenant = bad()),
        job(&|job| job.scheduler = bad()),
        of(&|machine| machine.name = bad()),
        of(&|machine| machine.labels = Labels::new([(bad(), Text::from("v"))])),
        of(&|machine| machine.labels = Labels::new([(Text::from("k"), bad())])),
        of(&|machine| machine.images = [Image { name: bad(), bytes: 1 }].into()),
        of(&|machine| machine.taints = [taint(bad(), "".into())].into()),
        of(&|machine| machine.taints = [taint("k".into(), bad())].into()),
    ]
}

/// Jobs with this text in each place of a task group.
fn bad_groups() -> Vec<Command> {
    let near = |tasks, level| Near { tasks, level };
    let group = |change: &dyn Fn(&mut TaskGroup)| {
        let mut group = TaskGroup::new(1, Amounts::new([1]));
        change(&mut group);
        Command::SubmitJob(Job::batch("j", group))
    };
    let tolerated =
        |key, value| Toleration { key, operator: TolerationOperator::Equal, value, effect: None };
    let labelled = |tenants, requirements| TaskSelector::Labels {
        tenants,
        labels: LabelSelector { requirements },
    };
    vec![
        group(&|group| group.name = bad()),
        group(&|group| group.images = vec![bad()]),
        group(&|group| group.volumes = vec![bad()]),
        group(&|group| group.labels = Labels::new([(Text::from("k"), bad())])),
        group(&|group| group.rules.machine = Some(bad())),
        group(&|group| group.rules.tolerations = vec![tolerated(Some(bad()), "".into())]),
        group(&|group| group.rules.tolerations = vec![tolerated(None, bad())]),
        group(&|group| group.rules.ports = vec![Port { address: Some(bad()), ..Port::tcp(80) }]),
        group(&|group| {
            group.rules.affinity.required = Some(vec![MachineSelector::label("k", bad())]);
        }),
        group(&|group| {
            let machines = MachineSelector::label(bad(), "v");
            group.rules.affinity.preferred = vec![Preferred { weight: 1, machines }];
        }),
        group(&|group| {
            let level = TopologyLevel::Label(bad());
            group.rules.tasks = vec![TaskRule::AntiAffinity { from: TaskSelector::SameJob, level }];
        }),
        group(&|group| {
            let tasks = labelled(Tenants::Own, vec![Requirement::equals("k", bad())]);
            group.rules.tasks =
                vec![TaskRule::RuntimeAffinity(near(tasks, TopologyLevel::Machine))];
        }),
        group(&|group| {
            let tasks = labelled(Tenants::Named(vec![bad()]), Vec::new());
            let near = near(tasks, TopologyLevel::Machine);
            group.rules.tasks = vec![TaskRule::Prefer { near, weight: 1 }];
        }),
    ]
}

/// The rule for names applies to each text of machines and jobs.
#[test]
fn no_text_has_characters_that_are_not_shown() {
    let mut cell = cell([]);
    for command in bad_machines_and_jobs().into_iter().chain(bad_groups()) {
        match cell.apply(command.clone()) {
            Err(Rejection::BadName(why)) => {
                assert!(why.contains("has the invisible character U+202E"), "{why}");
                assert!(why.contains("\"a\\u{202e}b\"") && !why.contains('\u{202e}'), "{why}");
            }
            other => panic!("{command:?}: {other:?}"),
        }
    }
}

#[test]
fn no_transaction_uses_up_the_numbers_of_a_scheduler() {
    let mut cell = cell([machine("a", 4)]);
    let txn = |number| transaction(number, &[(task(9, 0), MachineId::first(0))]);
    for number in [NUMBERS_AHEAD_MAX, u64::MAX - 2, u64::MAX - 1, u64::MAX] {
        let far = txn(number);
        let refused = TransactionError::NumberAhead(far.id);
        assert_eq!(cell.commit(&far), Err(refused));
        assert_eq!(cell.pre_check(&far), Some(Err(refused)));
    }
    let ahead = txn(NUMBERS_AHEAD_MAX - 1);
    let answer = cell.commit(&ahead);
    assert!(answer.is_ok());
    assert_eq!(cell.commit(&ahead), answer, "a retry gets the first answer");
    let skipped = txn(NUMBERS_AHEAD_MAX - 3);
    assert!(cell.commit(&skipped).is_ok(), "a number that was skipped may still come");
    let holder = HolderId(1);
    let hold = Command::GrantLease { name: "s".into(), holder, lease_ms: LEASE_MS_MIN };
    assert!(cell.apply(hold).is_ok(), "the name can still change hands");
}

#[test]
fn a_retry_gets_the_first_answer_until_it_is_forgotten() {
    let submit = Command::SubmitJob(Job::batch("a", TaskGroup::new(4, Amounts::new([1]))));
    let mut cell = cell([machine("a", 4), submit]);
    let first = transaction(0, &[(task(0, 0), MachineId::first(0))]);
    let answer = commit(&mut cell, &first);
    assert!(answer.is_complete());
    for number in 1..=1023 {
        commit(&mut cell, &transaction(number, &[(task(9, 0), MachineId::first(0))]));
    }
    assert_eq!(cell.commit(&first).as_ref(), Ok(&answer));
    commit(&mut cell, &transaction(1024, &[(task(9, 0), MachineId::first(0))]));
    assert_eq!(cell.commit(&first), Err(TransactionError::AnswerExpired(first.id)));
}

#[test]
fn results_with_many_conflicts_are_forgotten_early() {
    let commands = [machine("a", 4), Command::RegisterScheduler { name: "s".into() }];
    let mut cell = Cell::new(Kinds::standard());
    let mut reference = Reference::new(Kinds::standard());
    for command in commands {
        cell.apply(command.clone()).unwrap();
        reference.apply(command).unwrap();
    }
    let claims: Vec<_> = (0..TRANSACTION_ITEMS_MAX as u32)
        .map(|index| (task(9, index), MachineId::first(0)))
        .collect();
    // A new owner of the name skips numbers.
    let skipped = omega_core::limits::NUMBERS_SKIPPED;
    let numbers = [0, 1, 2, skipped + 3, skipped + 4, skipped + 5];
    let transactions = numbers.map(|number| transaction(number, &claims));
    for (at, txn) in transactions.iter().enumerate() {
        if at == 3 {
            let holder = HolderId(1);
            let hold = Command::GrantLease { name: "s".into(), holder, lease_ms: LEASE_MS_MIN };
            assert_eq!(cell.apply(hold.clone()), reference.apply(hold));
        }
        let answer = cell.commit(txn);
        assert_eq!(answer, reference.commit(txn));
        assert_eq!(answer.unwrap().conflicts.len(), claims.len());
        // Of the results, three have few enough conflicts.
        for (earlier, txn) in transactions[..=at].iter().enumerate() {
            let again = cell.commit(txn);
            assert_eq!(again, reference.commit(txn));
            let expired = Err(TransactionError::AnswerExpired(txn.id));
            assert_eq!(again == expired, earlier + 3 <= at, "{earlier} of {at}");
        }
        let restored = Cell::from_snapshot_state(cell.snapshot_state()).unwrap();
        assert_eq!(restored.state_hash(), cell.state_hash());
    }
}

#[test]
fn a_task_may_fail_more_often_than_a_small_counter_holds() {
    let mut group = TaskGroup::new(1, Amounts::new([1]));
    group.restarts = u32::MAX;
    let mut cell = cell([machine("a", 4), Command::SubmitJob(Job::batch("a", group))]);
    let home = MachineId::first(0);
    for number in 0..70_000 {
        assert!(commit(&mut cell, &transaction(number, &[(task(0, 0), home)])).is_complete());
        let report = TaskReport::Failed;
        cell.apply(Command::ReportTask { task: task(0, 0), machine: home, placed_ms: 0, report })
            .unwrap();
    }
}

/// A report may arrive when the next run of the task is already placed on the machine.
#[test]
fn a_report_about_an_earlier_run_is_rejected() {
    let mut group = TaskGroup::new(1, Amounts::new([1]));
    group.restarts = 9;
    let mut cell = cell([machine("a", 4), Command::SubmitJob(Job::batch("a", group))]);
    let (task, home) = (task(0, 0), MachineId::first(0));
    let failed = |placed_ms| {
        let report = TaskReport::Failed;
        Command::ReportTask { task, machine: home, placed_ms, report }
    };
    for (number, now_ms) in [(0, 0), (1, 7), (2, 8), (3, 9)] {
        cell.apply(Command::Expire { now_ms }).unwrap();
        assert!(commit(&mut cell, &transaction(number, &[(task, home)])).is_complete());
        let version = cell.version();
        let rejected = Err(Rejection::TaskNotThere(task, home));
        // The time of the first run is unknown to the cell, and that of the last run to the agent.
        if (7..9).contains(&now_ms) {
            assert_eq!(cell.apply(failed(now_ms - 1)), rejected);
            assert_eq!(cell.apply(failed(now_ms + 1)), rejected);
        }
        assert_eq!(cell.version(), version);
        cell.apply(failed(if now_ms == 9 { 0 } else { now_ms })).unwrap();
        assert_eq!(cell.task(task), Some(TaskState::Pending));
        assert_eq!(cell.apply(failed(now_ms)), rejected, "the same report again");
    }
}

#[test]
fn a_cell_has_a_bounded_number_of_tenants() {
    let tenant = |number: usize| Text::from(format!("t{number}"));
    let quota = |number| {
        let limit = Some(Amounts::new([1]));
        Command::SetQuota { tenant: tenant(number), limit }
    };
    let parent = |of, number| {
        let tenant_config = TenantConfig { parent: Some(tenant(number)), ..Default::default() };
        Command::SetTenant { tenant: tenant(of), tenant_config }
    };
    let mut cell = cell((1..TENANTS_MAX).map(quota));
    let mut job = Job::batch("a", TaskGroup::new(1, Amounts::new([1])));
    job.tenant = tenant(TENANTS_MAX);
    let new = |number| Command::SetAdmission { tenant: tenant(number), limit: None };
    let refused = cell.apply(parent(TENANTS_MAX, TENANTS_MAX + 1));
    let (given, max) = (TENANTS_MAX as u64 + 1, TENANTS_MAX as u64);
    let too_many = Err(Rejection::TooMany { what: "tenants".into(), given, max });
    assert_eq!(refused, too_many, "two new tenants");
    cell.apply(quota(0)).unwrap();
    for command in [
        Command::SubmitJob(job.clone()),
        quota(TENANTS_MAX),
        new(TENANTS_MAX),
        parent(TENANTS_MAX, 1),
        parent(1, TENANTS_MAX),
    ] {
        assert_eq!(cell.apply(command.clone()), too_many, "{command:?}");
    }
    job.tenant = tenant(7);
    for command in [Command::SubmitJob(job), quota(7), new(7), parent(7, 8)] {
        cell.apply(command).unwrap();
    }
}

#[test]
fn one_command_removes_a_bounded_number_of_ended_jobs() {
    let job = |id| Job::batch(format!("j{id}"), TaskGroup::new(1, Amounts::new([1])));
    let jobs = REMOVED_JOBS_MAX as u64 + 10;
    let mut cell = cell((0..jobs).map(|id| Command::SubmitJob(job(id))));
    let ttl = |ttl_after_finished_ms| {
        Command::SetPolicy(Policy { ttl_after_finished_ms, ..Policy::default() })
    };
    cell.apply(ttl(1000)).unwrap();
    for job in (0..jobs).map(JobId) {
        cell.apply(Command::KillJob { job }).unwrap();
    }
    cell.apply(Command::Expire { now_ms: 1 }).unwrap();
    assert_eq!((cell.jobs().count() as u64, cell.waits_for_time()), (jobs, false));
    // The operator shortens the TTL.
    cell.apply(ttl(0)).unwrap();
    for (left, waits) in [(10, true), (0, false)] {
        assert!(cell.waits_for_time() && cell.job(JobId(jobs - 1)).is_some());
        cell.apply(Command::Expire { now_ms: 1 }).unwrap();
        assert_eq!((cell.jobs().count(), cell.waits_for_time()), (left, waits));
    }
}

#[test]
fn a_group_that_shrinks_ends_pending_then_placed_then_running_tasks() {
    let job = Job::batch("a", TaskGroup::new(5, Amounts::new([1])));
    let mut cell = cell([machine("a", 4), Command::SubmitJob(job)]);
    let home = MachineId::first(0);
    let claims: Vec<_> = (1..5).map(|index| (task(0, index), home)).collect();
    assert!(commit(&mut cell, &transaction(0, &claims)).is_complete());
    for index in [2, 4] {
        let report = TaskReport::Started;
        cell.apply(Command::ReportTask {
            task: task(0, index),
            machine: home,
            placed_ms: 0,
            report,
        })
        .unwrap();
    }
    for (count, ended) in (0..5).rev().zip([0, 3, 1, 4, 2]) {
        let group = "main".into();
        cell.apply(Command::ResizeGroup { job: JobId(0), group, count }).unwrap();
        assert_eq!(cell.task(task(0, ended)), Some(TaskState::Killed), "{count} tasks remain");
        assert_eq!(cell.task_counts(JobId(0)).unwrap().alive(), count);
    }
}

#[test]
#[ignore = "a million machines take seconds: cargo test -p omega-tests --release full_cell -- --ignored"]
fn a_full_cell_takes_a_machine_for_one_that_was_removed() {
    let most = omega_core::limits::MACHINES_MAX;
    let mut cell = cell((0..most).map(|i| machine(&format!("m{i}"), 1)));
    let refused = cell.apply(machine("one more", 1));
    assert!(matches!(refused, Err(Rejection::TooMany { .. })));
    cell.apply(Command::RemoveMachine { id: MachineId::first(7) }).unwrap();
    let replaced = MachineId { slot: 7, incarnation: 1 };
    assert_eq!(cell.apply(machine("one more", 1)), Ok(Outcome::Machine(replaced)));
}

/// One block of 64 machines has a negative free amount in a kind that the task does not request.
#[test]
fn a_kind_that_is_not_asked_for_never_hides_a_block() {
    let two = |cpu, memory| Amounts::new([cpu, memory]);
    let named = |i: u32, memory| Machine::new(format!("m{i}"), two(4, memory));
    let wide = Job::batch("wide", TaskGroup::new(64, two(1, 2)));
    let mut cell = cell([Command::SubmitJob(wide)]);
    for i in 0..64 {
        cell.apply(Command::RegisterMachine(named(i, 2))).unwrap();
    }
    let claims: Vec<_> = (0..64).map(|i| (task(0, i), MachineId::first(i))).collect();
    assert!(commit(&mut cell, &transaction(0, &claims)).is_complete());
    for i in 0..64 {
        let id = MachineId::first(i);
        cell.apply(Command::UpdateMachine { id, machine: named(i, 1) }).unwrap();
    }
    let cell = SharedCell::new(cell);
    let mut view = View::new(SchedulerId(0), 1);
    view.sync(&cell).unwrap();
    view.tighten_block(0);
    view.tighten_blocks(0);
    assert_eq!(view.free(0, KindId(1)), -1);
    let small = [1, 0, 0, 0];
    assert_eq!(view.block(0).fits(&small), u64::MAX);
    assert!(view.block_may_fit(0, &small) && view.blocks_may_fit(0, &small));
}
