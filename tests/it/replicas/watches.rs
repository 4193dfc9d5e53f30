//! Watches of jobs, compared with the cell: a reader of the stream has the state of every task.

use crate::replicas::remote::Served;
use omega_client::convert;
use omega_client::proto::job_service_client::JobServiceClient;
use omega_client::proto::{self, WatchJobsResponse};
use omega_core::{
    Amounts, Claim, Command, Job, JobId, Machine, MachineId, Outcome, Policy, SchedulerId,
    SequenceNumber, TaskGroup, TaskId, TaskReport, Transaction, TransactionId, Version,
};
use std::collections::BTreeMap;
use tonic::Streaming;

/// The state of a reader: each job's description, and the phase and row of each task.
type Known = BTreeMap<u64, (proto::Job, BTreeMap<u32, (i32, Option<u32>)>)>;

/// The reader of a watch.
struct Reader {
    messages: Streaming<WatchJobsResponse>,
    known: Known,
    version: u64,
}

impl Reader {
    /// Reads until the reader has everything up to a version.
    async fn reach(&mut self, version: Version) {
        let mut more = self.version < version.0;
        while more {
            let message = self.messages.message().await.unwrap().unwrap();
            if message.whole {
                self.known.clear();
            }
            for job in message.jobs {
                let known = self.known.entry(job.id).or_default();
                if let Some(described) = job.job {
                    known.0 = described;
                }
                for task in job.tasks {
                    let slot = task.machine.map(|machine| machine.slot);
                    known.1.insert(task.task.unwrap().index, (task.phase, slot));
                }
            }
            self.version = message.version;
            more = message.more || self.version < version.0;
        }
    }
}

/// All jobs, read from the cell.
fn truth(served: &Served) -> Known {
    served.cell.read(|cell| {
        let phase = |(id, state): (TaskId, _)| {
            let (phase, machine) = convert::phase(state);
            (id.index, (phase.into(), machine.map(|machine| machine.slot)))
        };
        let job = |(id, job): (JobId, &std::sync::Arc<Job>)| {
            (id.0, (proto::Job::from(&**job), cell.tasks(id).map(phase).collect()))
        };
        cell.jobs().map(job).collect()
    })
}

fn submit(served: &Served, name: &str, tasks: u32) -> JobId {
    let job = Job::batch(name, TaskGroup::new(tasks, Amounts::new([1])));
    match served.apply(Command::SubmitJob(job)) {
        Outcome::Job(id) => id,
        other => panic!("{other:?}"),
    }
}

/// Places these tasks of a job on the only machine.
fn place(served: &Served, number: u64, tasks: impl Iterator<Item = TaskId>) {
    let claim = |task| Claim::new(task, MachineId::first(0), SequenceNumber(0));
    let id = TransactionId { scheduler: SchedulerId(0), number };
    let txn = Transaction::new(id, Version(0), tasks.map(claim).collect());
    match served.apply(Command::Commit(txn)) {
        Outcome::Commit(commit) => assert!(commit.is_complete()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_watch_tells_of_every_task() {
    let served = Served::start();
    let apply = |command| served.apply(command);
    // Ended jobs are not removed.
    apply(Command::SetPolicy(Policy { ttl_after_finished_ms: u64::MAX / 2, ..Policy::default() }));
    apply(Command::RegisterScheduler { name: "s".into() });
    apply(Command::RegisterMachine(Machine::new("m", Amounts::new([1 << 30]))));
    // There are more tasks and jobs than fit into one message.
    let large = submit(&served, "large", 2500);
    (0..150).for_each(|index| _ = submit(&served, &format!("small{index}"), 3));
    let url = format!("http://{}", served.address);
    let mut reader = served.runtime.block_on(async {
        let mut client = JobServiceClient::connect(url).await.unwrap();
        let request = proto::WatchJobsRequest { name_prefix: String::new() };
        let messages = client.watch_jobs(request).await.unwrap().into_inner();
        Reader { messages, known: Known::new(), version: 0 }
    });
    let mut compare = |what: &str| {
        let version = served.cell.read(omega_cellstate::Cell::version);
        served.runtime.block_on(reader.reach(version));
        assert!(reader.known == truth(&served), "after {what}");
    };
    compare("the beginning");
    place(&served, 0, (0..1200).map(|index| TaskId { job: large, index }));
    compare("tasks of a large job were placed");
    place(&served, 1, (1..100).map(|job| TaskId { job: JobId(job), index: 1 }));
    compare("tasks of many jobs were placed");
    for (index, report) in
        (0..).zip([TaskReport::Started, TaskReport::Finished, TaskReport::Failed])
    {
        let task = TaskId { job: large, index };
        apply(Command::ReportTask { task, machine: MachineId::first(0), placed_ms: 0, report });
    }
    compare("reports");
    apply(Command::ResizeGroup { job: large, group: "main".into(), count: 2600 });
    let new = submit(&served, "new", 4);
    place(&served, 2, (0..2).map(|index| TaskId { job: new, index }));
    compare("a job grew, and one came");
    apply(Command::KillJob { job: JobId(7) });
    apply(Command::KillJob { job: large });
    compare("jobs were killed");
}
