//! Transactions that are outdated or violate settings of an operator or a job, and descriptions that are too large or
//! have unknown values. Each test checks the error, and that the hash of the state is unchanged. `bad_requests.rs`
//! lists all tests of bad input.

use crate::callers::bad_requests::Cell;
use crate::kit::process::{folder, run_omega};
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_client::proto::tenant_service_client::TenantServiceClient;
use omega_client::proto::{self, machine_ref};
use omega_client::{ApiError, ErrorCode};
use omega_core::limits::{LABELS_MAX, REPLIES_PER_SCHEDULER};
use omega_core::{Amounts, Job, Machine, Precedence, TaskGroup};

impl Cell {
    fn add_machine(&self, machine: proto::Machine) -> Result<(), ErrorCode> {
        let request = proto::RegisterMachineRequest { machine: Some(machine) };
        let mut client = MachineServiceClient::new(self.channel());
        let answer = self.runtime.block_on(client.register_machine(request));
        answer.map(drop).map_err(|status| ApiError::from(status).code)
    }

    fn remove_machine(&self, name: &str) {
        let machine = machine_ref::Machine::Name(name.to_owned());
        let machine = Some(proto::MachineRef { machine: Some(machine) });
        let mut client = MachineServiceClient::new(self.channel());
        let request = proto::RemoveMachineRequest { machine };
        self.runtime.block_on(client.remove_machine(request)).unwrap();
    }

    /// Answer to a job with this description.
    fn offer(&self, job: proto::Job) -> Option<ErrorCode> {
        let mut client = JobServiceClient::new(self.channel());
        let request = proto::SubmitJobRequest { job: Some(job) };
        let answer = self.runtime.block_on(client.submit_job(request));
        answer.err().map(|status| ApiError::from(status).code)
    }

    /// Commits an invalid transaction, and checks that only the recorded result was changed. If the transaction is
    /// repeated, nothing is changed.
    fn refused(&self, what: &str, expected: &str, request: proto::CommitRequest) {
        let version = self.version();
        let needs_a_check = !request.evictions.is_empty() || request.claim_jobs.len() > 1;
        let before = self.hash();
        assert_eq!(self.commit(request.clone()), expected, "{what}");
        let after = self.hash();
        assert_eq!(self.version(), version, "{what}");
        assert!(needs_a_check || after == before, "{what}: {after:?} is not {before:?}");
        assert_eq!(self.commit(request), expected, "{what}");
        assert_eq!((self.version(), self.hash()), (version, after), "{what}");
    }
}

#[test]
fn what_came_in_between_is_a_conflict() {
    let cell = Cell::start();
    let decided = cell.claims(cell.next, &[(0, 0)]);
    cell.remove_machine("m");
    cell.refused("a machine that was removed", "MACHINE_GONE", decided);
    // Another machine now has the row of the removed one, but not its id.
    cell.add_machine((&Machine::new("other", Amounts::new([4000, 8 << 30]))).into()).unwrap();
    let mut decided = cell.claims(cell.next + 1, &[(0, 0)]);
    decided.claim_incarnations = vec![0];
    cell.refused("a machine that was replaced", "MACHINE_GONE", decided.clone());
    decided.number += 1;
    decided.claim_incarnations = vec![1];
    assert_eq!(cell.commit(decided), "");
}

#[test]
fn nobody_is_evicted_for_what_is_not_more_important() {
    let cell = Cell::start();
    let four: Vec<(u32, u32)> = (0..4).map(|index| (index, 0)).collect();
    assert_eq!(cell.commit(cell.claims(cell.next, &four)), "");
    for (precedence, number) in [(0, 1), (-1, 2)] {
        let job = Job::batch(format!("p{precedence}"), TaskGroup::new(1, Amounts::new([1000, 1])));
        let job = cell.submit(&Job { precedence: Precedence(precedence), ..job }).unwrap();
        let mut claims = cell.claims(cell.next + number, &[(0, 0)]);
        claims.claim_jobs = vec![job];
        claims.evictions = vec![proto::TaskId { job: cell.job, index: 0 }];
        let expected = "PRECEDENCE_TOO_LOW NO_ROOM";
        cell.refused(&format!("precedence {precedence}"), expected, claims);
    }
}

#[test]
fn quotas_and_gangs_are_kept() {
    let cell = Cell::start();
    let quota = proto::Quota { limit: vec![2000, 1 << 40] };
    let request = proto::SetQuotaRequest { tenant: "default".to_owned(), quota: Some(quota) };
    let mut tenants = TenantServiceClient::new(cell.channel());
    cell.runtime.block_on(tenants.set_quota(request)).unwrap();
    assert_eq!(cell.commit(cell.claims(cell.next, &[(0, 0), (1, 0)])), "");
    let third = cell.claims(cell.next + 1, &[(2, 0)]);
    cell.refused("more than the quota", "QUOTA_EXCEEDED", third);
    let free = proto::SetQuotaRequest { tenant: "default".to_owned(), quota: None };
    cell.runtime.block_on(tenants.set_quota(free)).unwrap();
    // Two of the gang's three tasks would fit.
    let gang = Job::batch("gang", TaskGroup::new(3, Amounts::new([1000, 1])));
    let gang = cell.submit(&Job { gang_min: Some(3), ..gang }).unwrap();
    let mut claims = cell.claims(cell.next + 2, &[(0, 0), (1, 0), (2, 0)]);
    claims.claim_jobs = vec![gang; 3];
    cell.refused(
        "a gang of which one finds no room",
        "GANG_INCOMPLETE GANG_INCOMPLETE NO_ROOM",
        claims,
    );
}

#[test]
fn an_answer_that_was_forgotten_is_not_given_as_another() {
    let cell = Cell::start();
    assert_eq!(cell.commit(cell.claims(cell.next, &[(0, 0)])), "");
    // Results of accepted transactions are recorded, up to this number.
    let count = REPLIES_PER_SCHEDULER as u64;
    for number in cell.next + 1..=cell.next + count {
        let mut moved = cell.claims(number, &[(0, 0)]);
        moved.releases = vec![proto::TaskId { job: cell.job, index: 0 }];
        assert_eq!(cell.commit(moved), "");
    }
    let again = proto::CommitRequest { retry: true, ..cell.claims(cell.next, &[(0, 0)]) };
    let before = (cell.version(), cell.hash());
    assert_eq!(cell.commit(again), "OutOfRange ANSWER_EXPIRED");
    assert_eq!((cell.version(), cell.hash()), before);
}

#[test]
fn descriptions_with_too_many_labels_or_unknown_words_are_refused() {
    let cell = Cell::start();
    let before = (cell.version(), cell.hash());
    // The order is the worst one for a sorted list: each label is before all earlier ones.
    let label = |at: usize| proto::Label { key: format!("k{at:06}"), value: String::new() };
    let many = |count: usize| (0..count).rev().map(label).collect::<Vec<_>>();
    let machine = proto::Machine::from(&Machine::new("labelled", Amounts::new([1])));
    let job = proto::Job::from(&Job::batch("labelled", TaskGroup::new(1, Amounts::new([1]))));
    for count in [LABELS_MAX + 1, 10_000, 200_000] {
        let labelled = proto::Machine { labels: many(count), ..machine.clone() };
        assert_eq!(cell.add_machine(labelled), Err(ErrorCode::TooMany), "{count} labels");
        let mut labelled = job.clone();
        labelled.groups[0].labels = many(count);
        assert_eq!(cell.offer(labelled), Some(ErrorCode::TooMany), "{count} labels");
    }
    for (what, unknown) in [
        ("a kind", proto::Job { kind: 77, ..job.clone() }),
        ("a preemption", proto::Job { preemption: -1, ..job.clone() }),
    ] {
        assert_eq!(cell.offer(unknown), Some(ErrorCode::Malformed), "{what}");
    }
    let check = proto::CommitRequest { check: 9, ..cell.claims(cell.next, &[(0, 0)]) };
    assert_eq!(cell.commit(check), "InvalidArgument MALFORMED");
    assert_eq!((cell.version(), cell.hash()), before);
    // If two labels have the same key, the later one is used.
    let twice =
        ["first", "second"].map(|value| proto::Label { value: value.to_owned(), ..label(0) });
    cell.add_machine(proto::Machine { labels: twice.to_vec(), ..machine }).unwrap();
    let request = proto::ListMachinesRequest::default();
    let mut client = MachineServiceClient::new(cell.channel());
    let response = cell.runtime.block_on(client.list_machines(request)).unwrap().into_inner();
    let labels = response.machines.into_iter().filter_map(|status| status.machine);
    let labels: Vec<proto::Label> = labels.flat_map(|machine| machine.labels).collect();
    assert_eq!(labels, [proto::Label { value: "second".to_owned(), ..label(0) }]);
}

/// The API has neither negative amounts nor fractions, but people can write these in files and flags.
#[test]
fn amounts_that_are_no_amounts_are_told_by_name() {
    let dir = folder(&[]);
    for amount in ["-1", "nan", "inf", "1e400", "\"-1\""] {
        let text = format!("[[machine]]\nname = \"m\"\ncapacity = {{ cpu = {amount} }}\n");
        std::fs::write(dir.path().join("machines.toml"), text).unwrap();
        let output = run_omega(dir.path(), &["machine", "add", "-f", "machines.toml"]);
        assert_eq!(output.code, Some(2), "{amount}: {}", output.stderr);
        assert!(output.stderr.contains("machines.toml"), "{amount}: {}", output.stderr);
        if amount == "1e400" {
            // The text is a number; whether it is within the cell's limits is checked by the cell.
            continue;
        }
        let flag = format!("--cpu={}", amount.trim_matches('"'));
        let output = run_omega(dir.path(), &["job", "submit", "j", &flag]);
        assert_eq!(output.code, Some(2), "{amount}: {}", output.stderr);
    }
}
