//! A pool of schedulers on threads, which are woken when there may be work.
//!
//! Each worker runs its own scheduler, and workers share nothing but the cell. An idle worker sleeps on its channel.
//! The owner of the pool can wake the worker early, and so can a cell that reports changes ([`CellHandle::watch`]).
//! When the channels are closed, the workers end.
//!
//! If a decision panics, its job is set aside, and the scheduler continues with other jobs: [`Scheduler::recover`]. A
//! panic elsewhere ends the worker, and [`Pool::running`] no longer counts it.

use crate::queue::Nanos;
use crate::scheduler::{Observer, Scheduler, Step};
use omega_cellstate::{CellHandle, HandleError, Wake};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

/// Clock of a pool, provided by the caller, since the library reads no clock.
pub trait Clock: Send + Sync {
    /// Nanoseconds since any fixed moment; never decreases.
    fn now(&self) -> Nanos;
}

/// Longest sleep of an idle worker whose cell does not wake it. After the sleep, the worker syncs, and retries jobs
/// whose backoff has ended.
const IDLE: Duration = Duration::from_millis(1);

/// Longest sleep of an idle worker whose cell wakes it for changes. After the sleep, the worker checks whether the cell
/// still answers.
const WATCHED: Duration = Duration::from_millis(250);

/// Running workers. Dropping the pool, or [`Pool::stop`], ends them after their current step.
#[derive(Debug)]
pub struct Pool<'scope, O> {
    workers: Vec<ScopedJoinHandle<'scope, Worker<O>>>,
    /// The only owners of the channels. Once they are dropped, the workers end.
    wakers: Vec<Arc<SyncSender<()>>>,
}

/// A worker: a scheduler and its observer.
#[derive(Debug)]
pub struct Worker<O> {
    /// The scheduler, with the last state of its queue and view.
    pub scheduler: Scheduler,
    /// Observer of the scheduler, with its measurements.
    pub observer: O,
    /// Error that ended the worker early, if there was one.
    pub error: Option<HandleError>,
}

impl<'scope, O: Observer + Send + 'scope> Pool<'scope, O> {
    /// Starts a thread for each scheduler.
    pub fn start<'env, C: CellHandle + 'env>(
        scope: &'scope Scope<'scope, 'env>,
        cell: &'env C,
        clock: &'env dyn Clock,
        schedulers: Vec<(Scheduler, O)>,
    ) -> Pool<'scope, O> {
        let with_cell =
            schedulers.into_iter().map(|(scheduler, observer)| (cell, scheduler, observer));
        Pool::start_each(scope, clock, with_cell)
    }

    /// Starts a pool in which each scheduler has its own cell handle, for example each to a different replica.
    pub fn start_each<'env, C: CellHandle + 'env>(
        scope: &'scope Scope<'scope, 'env>,
        clock: &'env dyn Clock,
        schedulers: impl IntoIterator<Item = (&'env C, Scheduler, O)>,
    ) -> Pool<'scope, O> {
        let mut pool = Pool { workers: Vec::new(), wakers: Vec::new() };
        for (cell, scheduler, observer) in schedulers {
            let (waker, sleep) = sync_channel(1);
            let worker = Worker { scheduler, observer, error: None };
            let waker = Arc::new(waker);
            let is_woken = worker.scheduler.watch(cell, wake(&waker));
            let idle = if is_woken { WATCHED } else { IDLE };
            pool.wakers.push(waker);
            let sleep = Sleep { woken: sleep, idle };
            pool.workers.push(scope.spawn(move || run(worker, cell, clock, &sleep)));
        }
        pool
    }

    /// Wakes sleeping workers. Call it when there are new jobs or free resources.
    pub fn wake(&self) {
        for waker in &self.wakers {
            // A full channel means that the worker has a pending wake-up, and looks for work anyway.
            match waker.try_send(()) {
                Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => {}
            }
        }
    }

    /// Number of workers that have not ended. A worker ends early if the cell rejects its scheduler permanently, or if
    /// the worker panics outside of a decision.
    #[must_use]
    pub fn running(&self) -> usize {
        self.workers.iter().filter(|worker| !worker.is_finished()).count()
    }

    /// Stops the workers and returns them.
    ///
    /// # Panics
    /// If a worker panicked.
    pub fn stop(self) -> Vec<Worker<O>> {
        drop(self.wakers);
        let join = |worker: ScopedJoinHandle<'_, Worker<O>>| match worker.join() {
            Ok(worker) => worker,
            Err(panic) => resume_unwind(panic),
        };
        self.workers.into_iter().map(join).collect()
    }
}

/// Returns a callback that wakes a worker. Once the pool is dropped, the callback does nothing.
fn wake(waker: &Arc<SyncSender<()>>) -> Wake {
    let waker = Arc::downgrade(waker);
    Arc::new(move || {
        // A full channel means that the worker has a pending wake-up, and looks for work anyway.
        _ = waker.upgrade().map(|waker| waker.try_send(()));
    })
}

/// Sleep of a worker without work.
struct Sleep {
    woken: Receiver<()>,
    /// Longest time of the sleep.
    idle: Duration,
}

fn run<O: Observer>(
    mut worker: Worker<O>,
    cell: &impl CellHandle,
    clock: &dyn Clock,
    sleep: &Sleep,
) -> Worker<O> {
    loop {
        let now = clock.now();
        let step = guarded(&mut worker, |scheduler, observer| scheduler.go_on(cell, now, observer));
        let nap = match step {
            Ok(step) if step.idle => Some(step.until.map_or(sleep.idle, |until| {
                sleep.idle.min(Duration::from_nanos(until.saturating_sub(now)))
            })),
            Ok(_) => None,
            Err(HandleError::Unavailable | HandleError::Full | HandleError::Unknown) => Some(IDLE),
            Err(error) => {
                worker.error = Some(error);
                return worker;
            }
        };
        let received = match nap {
            Some(nap) => sleep.woken.recv_timeout(nap),
            None => sleep.woken.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
        };
        if received == Err(RecvTimeoutError::Disconnected) {
            return worker;
        }
    }
}

/// Runs a part of a worker's step. If the scheduler panics on a job, the job is set aside.
pub(crate) fn guarded<O: Observer>(
    worker: &mut Worker<O>,
    part: impl FnOnce(&mut Scheduler, &mut O) -> Result<Step, HandleError>,
) -> Result<Step, HandleError> {
    let Worker { scheduler, observer, .. } = worker;
    let done = catch_unwind(AssertUnwindSafe(|| part(scheduler, observer)));
    done.unwrap_or_else(|panic| {
        let Some(job) = scheduler.recover() else { resume_unwind(panic) };
        observer.set_aside(job, message(&*panic));
        Ok(Step::default())
    })
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
