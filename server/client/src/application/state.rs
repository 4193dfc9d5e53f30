//! State that the threads of an application share: the core, and the events to be reported.
//!
//! One lock protects both. It is never taken during a callback or a send that may block. A callback must be able to
//! create containers, so nothing in this file waits for space in the list of events. Instead, the stream is read only
//! while the list has space. So the number of pending events is at most the sum of the list's size, the number of calls
//! in flight, and the number of containers.

use super::core::{Call, Core, Found, Reply};
use super::types::{Change, Completed, ContainerSpec, ContainerState, Event};
use super::{Container, EVENTS_MAX};
use crate::connect::Connections;
use crate::own_runtime::OwnRuntime;
use crate::{ApiError, ErrorCode, proto};
use omega_core::Text;
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;
use tokio::sync::Notify;

pub(super) type OnRunning = Box<dyn FnMut(&Container, &str) + Send>;
pub(super) type OnCompleted = Box<dyn FnOnce(&Container, &Completed) + Send>;

/// State that all handles of a container share.
pub(super) struct Slot {
    pub(super) name: Text,
    /// The state that was last passed to callbacks.
    state: Mutex<ContainerState>,
    /// Locked by the thread that calls callbacks, and when the application is closed.
    pub(super) callbacks: Mutex<Callbacks>,
}

/// The callbacks of a container.
#[derive(Default)]
pub(super) struct Callbacks {
    pub(super) on_running: Option<OnRunning>,
    pub(super) on_completed: Option<OnCompleted>,
}

impl Slot {
    fn new(name: Text, state: ContainerState) -> Arc<Slot> {
        Arc::new(Slot { name, state: Mutex::new(state), callbacks: Mutex::default() })
    }

    pub(super) fn state(&self) -> ContainerState {
        self.state.lock().clone()
    }

    pub(super) fn set_state(&self, state: ContainerState) {
        *self.state.lock() = state;
    }
}

/// A job for the thread that calls callbacks.
pub(super) enum Item {
    /// A change, with the container if handles of the container may exist.
    Event(Event, Option<Arc<Slot>>),
    OnRunning(Arc<Slot>, OnRunning),
    OnCompleted(Arc<Slot>, OnCompleted),
}

/// State of an application. See the module documentation.
pub(super) struct State {
    inner: Mutex<Inner>,
    /// Signals that items are pending, or that the registration has progressed.
    filled: Condvar,
    /// Signals that there is space for events of the stream.
    drained: Notify,
    /// Signals that calls may have to be made.
    pub(super) planned: Notify,
    began: Instant,
}

struct Inner {
    core: Core,
    slots: HashMap<Text, Arc<Slot>>,
    items: VecDeque<Item>,
    listener: Option<SyncSender<Event>>,
    found: Option<Vec<Arc<Slot>>>,
    /// The error that delays the registration.
    failure: Option<(ApiError, IsFinal)>,
    is_closed: bool,
}

/// Whether an error is final, so that trying again does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsFinal {
    Yes,
    No,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl State {
    pub(super) fn new(core: Core, listener: SyncSender<Event>) -> State {
        let inner = Inner {
            core,
            slots: HashMap::new(),
            items: VecDeque::new(),
            listener: Some(listener),
            found: None,
            failure: None,
            is_closed: false,
        };
        State {
            inner: Mutex::new(inner),
            filled: Condvar::new(),
            drained: Notify::new(),
            planned: Notify::new(),
            began: Instant::now(),
        }
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    pub(super) fn name(&self) -> Text {
        self.inner.lock().core.name().clone()
    }

    pub(super) fn create(&self, name: Text, spec: &ContainerSpec) -> Result<Arc<Slot>, ApiError> {
        let mut inner = self.inner.lock();
        inner.core.create(&name, spec, self.now_ms())?;
        let slot = Slot::new(name.clone(), ContainerState::Waiting);
        inner.slots.insert(name, slot.clone());
        self.planned.notify_one();
        Ok(slot)
    }

    pub(super) fn find(&self, name: &str) -> Option<Arc<Slot>> {
        self.inner.lock().slots.get(name).cloned()
    }

    /// Ends this container. A later container with this name is not affected.
    pub(super) fn release(&self, slot: &Arc<Slot>) {
        let mut inner = self.inner.lock();
        if inner.slots.get(&slot.name).is_some_and(|record| Arc::ptr_eq(record, slot)) {
            inner.core.release(&slot.name, self.now_ms());
            self.planned.notify_one();
        }
    }

    pub(super) fn push(&self, item: Item) {
        self.inner.lock().items.push_back(item);
        self.filled.notify_all();
    }

    /// Takes the calls that must be made now. Also returns the time of the next check.
    pub(super) fn calls(&self) -> (Vec<Call>, Option<u64>) {
        let mut inner = self.inner.lock();
        (inner.core.calls(self.now_ms()), inner.core.next_due_ms())
    }

    pub(super) fn handle_reply(&self, call: &Call, reply: Result<Reply, ApiError>) {
        let mut inner = self.inner.lock();
        inner.core.on_reply(call, reply, self.now_ms());
        self.pass_on(&mut inner);
    }

    pub(super) fn open(&self) {
        self.inner.lock().core.open();
    }

    pub(super) fn handle_update(&self, update: proto::WatchJobsResponse) {
        let mut inner = self.inner.lock();
        if let Some(found) = inner.core.handle_update(update, self.now_ms()) {
            let slots = found.into_iter().map(|Found { name, state }| Slot::new(name, state));
            let slots: Vec<Arc<Slot>> = slots.collect();
            for slot in &slots {
                if !matches!(slot.state(), ContainerState::Ended(_)) {
                    inner.slots.insert(slot.name.clone(), slot.clone());
                }
            }
            inner.found = Some(slots);
        }
        self.pass_on(&mut inner);
    }

    /// Passes new events to the thread that calls callbacks.
    fn pass_on(&self, inner: &mut Inner) {
        for event in inner.core.take_events() {
            let slot = match event.change {
                Change::Ended(_) => inner.slots.remove(&event.container),
                Change::Recovered(ref state) => {
                    let slot = Slot::new(event.container.clone(), state.clone());
                    inner.slots.insert(event.container.clone(), slot.clone());
                    Some(slot)
                }
                _ => inner.slots.get(&event.container).cloned(),
            };
            inner.items.push_back(Item::Event(event, slot));
        }
        self.filled.notify_all();
        self.planned.notify_one();
    }

    /// Waits until there is space for events of the stream.
    pub(super) async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            if self.inner.lock().items.len() < EVENTS_MAX {
                return;
            }
            drained.await;
        }
    }

    /// Waits for the next item; `None` once the application is dropped.
    pub(super) fn next_item(&self) -> Option<Item> {
        let mut inner = self.inner.lock();
        loop {
            if inner.is_closed {
                return None;
            }
            if let Some(item) = inner.items.pop_front() {
                self.drained.notify_one();
                return Some(item);
            }
            self.filled.wait(&mut inner);
        }
    }

    pub(super) fn listener(&self) -> Option<SyncSender<Event>> {
        self.inner.lock().listener.clone()
    }

    /// Records that events are no longer read.
    pub(super) fn forget_listener(&self) {
        self.inner.lock().listener = None;
    }

    /// Records an error of opening the stream. A caller that waits for the registration gets this error.
    pub(super) fn fail(&self, error: ApiError, is_final: IsFinal) {
        self.inner.lock().failure = Some((error, is_final));
        self.filled.notify_all();
    }

    /// Waits until the cell has sent its state, and until the containers of a former process that are to be dropped
    /// have ended. Returns the recovered containers.
    pub(super) fn await_recovered(&self, until: Instant) -> Result<Vec<Arc<Slot>>, ApiError> {
        let mut inner = self.inner.lock();
        loop {
            if inner.core.is_recovered()
                && let Some(found) = inner.found.take()
            {
                return Ok(found);
            }
            let is_final = matches!(inner.failure, Some((_, IsFinal::Yes)));
            if is_final || self.filled.wait_until(&mut inner, until).timed_out() {
                let message = "no replica answers, or containers of an earlier process do not end";
                let nobody = || ApiError::new(ErrorCode::NoLeader, message);
                return Err(inner.failure.take().map_or_else(nobody, |(error, _)| error));
            }
        }
    }

    fn close(&self) {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        inner.listener = None;
        // A callback may own a handle of its own container. Dropping the items here breaks this reference cycle.
        let items = std::mem::take(&mut inner.items);
        let slots = std::mem::take(&mut inner.slots);
        drop(inner);
        drop(items);
        for slot in slots.into_values() {
            if let Some(mut callbacks) = slot.callbacks.try_lock() {
                *callbacks = Callbacks::default();
            }
        }
        self.filled.notify_all();
    }
}

/// Threads of an application, which end with its last handle.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) runtime: OwnRuntime,
    pub(super) state: Arc<State>,
    pub(super) connections: Connections,
}

impl Drop for Network {
    fn drop(&mut self) {
        self.state.close();
    }
}
