//! The runtime of a library's network thread.
//!
//! The libraries block, but programs may also call them in tasks of a runtime of their own. There, `tokio` panics if
//! another runtime blocks the thread or is dropped with its tasks. So futures are polled on the calling thread without
//! `tokio`, while the network thread drives their connections and timers; and the runtime ends in the background.

use crate::{ApiError, ErrorCode};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use tokio::runtime::{Handle, Runtime};

/// A runtime with one thread, which may be used and dropped on any thread.
#[derive(Debug)]
pub(crate) struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    /// Starts the network thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(name: &str) -> Result<OwnRuntime, ApiError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(name)
            .enable_all()
            .build()
            .map_err(|error| ApiError::new(ErrorCode::Internal, format!("no thread: {error}")))?;
        Ok(OwnRuntime(Some(runtime)))
    }

    /// The handle with which tasks are started.
    pub(crate) fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it is there until this is dropped").handle()
    }

    /// Blocks the calling thread until a future is ready. See [`block_on`].
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(self.handle(), future)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Blocks the calling thread until a future is ready. The threads of `runtime` drive the future's connections and
/// timers. In a task of another runtime, the other tasks of the thread stop meanwhile.
pub(crate) fn block_on<F: Future>(runtime: &Handle, future: F) -> F::Output {
    let _entered = runtime.enter();
    // A task of another runtime may yield only a number of times before it must return to that runtime, which this
    // thread cannot do meanwhile.
    let mut future = pin!(tokio::task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Waits for two hundred messages and a timer, more than a task may wait for before it yields.
    fn wait(runtime: &OwnRuntime) {
        let (to, mut from) = tokio::sync::mpsc::channel(1);
        runtime.handle().spawn(async move {
            for number in 0..200 {
                to.send(number).await.unwrap();
            }
        });
        let sum = runtime.block_on(async {
            let mut sum = 0;
            while let Some(number) = from.recv().await {
                sum += number;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            sum
        });
        assert_eq!(sum, 199 * 100);
    }

    #[test]
    fn a_thread_may_wait() {
        wait(&OwnRuntime::start("test").unwrap());
    }

    #[tokio::test]
    async fn a_task_of_another_runtime_may_wait_and_drop_the_runtime() {
        wait(&OwnRuntime::start("test").unwrap());
    }
}
