//! Initial state of a run: few machines, schedulers, and a job for each.

use super::calls::Replicas;
use super::notes::Notes;
use crate::cluster::checker::Fate;
use omega_client::ApiError;
use omega_core::{
    Amounts, Command, Job, JobId, Machine, MachineId, Outcome, SchedulerId, TaskGroup,
};
use std::time::{Duration, Instant};

/// Number of machines, which is small so that transactions interfere.
const MACHINES: u32 = 4;

/// Number of tasks that fit on a machine.
const ROOM: u64 = 16;

/// Number of tasks of each job. With six schedulers, the jobs have three times as many tasks as fit.
const TASKS: u32 = 32;

/// Longest wait for a leader at the start; on a busy computer, an election takes long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A scheduler of the run with its job.
#[derive(Clone, Debug)]
pub struct Place {
    /// Id of the scheduler.
    pub scheduler: SchedulerId,
    /// Number of the scheduler's next transaction.
    pub next: u64,
    /// Id of the scheduler's job.
    pub job: JobId,
    /// Number of tasks of the job.
    pub tasks: u32,
    /// Machines on which the tasks may run.
    pub machines: Vec<MachineId>,
}

/// Creates machines, schedulers and jobs, and records the requests.
///
/// # Errors
/// If a request is rejected, or no replica answers for a long time.
pub fn make(notes: &Notes, replicas: &Replicas, schedulers: usize) -> Result<Vec<Place>, String> {
    let mut machines = Vec::new();
    for i in 0..MACHINES {
        let machine = Machine::new(format!("m{i}"), Amounts::new([ROOM * 1000, ROOM << 30]));
        let command = Command::RegisterMachine(machine.clone());
        let id = retry_until_done(
            notes,
            &command,
            |at| replicas.add_machine(at, &machine),
            |id| Outcome::Machine(*id),
        )?;
        machines.push(id);
    }
    let mut places = Vec::new();
    for i in 0..schedulers {
        let name = format!("scheduler-{i}");
        let command = Command::RegisterScheduler { name: name.as_str().into() };
        let (scheduler, next) = retry_until_done(
            notes,
            &command,
            |at| replicas.register(at, &name),
            |(id, next)| Outcome::Scheduler { id: *id, next_transaction: *next },
        )?;
        let group = TaskGroup::new(TASKS, Amounts::new([1000, 1 << 30]));
        let job = Job { scheduler: name.as_str().into(), ..Job::batch(format!("job-{i}"), group) };
        let command = Command::SubmitJob(job.clone());
        let job = retry_until_done(
            notes,
            &command,
            |at| replicas.submit(at, &job),
            |id| Outcome::Job(*id),
        )?;
        places.push(Place { scheduler, next, job, tasks: TASKS, machines: machines.clone() });
    }
    Ok(places)
}

/// Repeats a request until there is an answer.
fn retry_until_done<T>(
    notes: &Notes,
    command: &Command,
    ask: impl Fn(usize) -> Result<T, ApiError>,
    outcome: impl Fn(&T) -> Outcome,
) -> Result<T, String> {
    let began = Instant::now();
    for at in 0.. {
        let invoked = notes.now();
        match ask(at) {
            Ok(answer) => {
                notes.add_call(command.clone(), invoked, Fate::Answered(Ok(outcome(&answer))));
                return Ok(answer);
            }
            Err(error) if began.elapsed() > PATIENCE => return Err(format!("{error:?}")),
            Err(_) => notes.add_call(command.clone(), invoked, Fate::Unknown),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("nobody was asked".to_owned())
}
