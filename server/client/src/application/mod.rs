//! The application library, for programs that request containers one by one and leave scheduling to the cell's
//! schedulers.
//!
//! ```text
//!   your application ── create, release ──▶ Application ── SubmitJob, KillJob ──▶ any replica
//!        ▲    ▲                                 │  core: the wanted and the present state of each container
//!        │    └── callbacks, one thread ◀───────┤
//!        └─────── events ◀──────────────────────┘ ◀════════ WatchJobs ═══════════ any replica
//! ```
//!
//! A container is a job with one task, named `APPLICATION.NAME`. So a repeated creation has no further effect, and
//! releasing a container ends only that container. Schedulers place it like any other job.
//!
//! [`Application::register`] first reads the application's jobs from the cell. Containers of a former process are
//! returned ([`Recover::Previous`]) or ended ([`Recover::Drop`]). After that, every change is reported once: to the
//! container's callbacks, and as an [`Event`]. A stream breaks, for example, when a replica or the cell restarts. The
//! first state of the next stream is compared with the recorded state, and only differences are reported. A call whose
//! reply is lost is repeated with an unchanged name.
//!
//! ```no_run
//! use omega_client::Address;
//! use omega_client::application::{Application, ApplicationSettings, ContainerSpec, Recover};
//! use omega_core::Amounts;
//!
//! let address = Address::plain(["127.0.0.1:7600"]);
//! let settings = ApplicationSettings::new("render");
//! let registered = Application::register(&address, settings, Recover::Previous)?;
//! let frame = ContainerSpec::new(Amounts::new([1000, 1 << 30]));
//! registered
//!     .application
//!     .create("frame-1", &frame)?
//!     .on_running(|container, machine| println!("{} runs on {machine}", container.name()))
//!     .on_completed(|container, completed| println!("{}: {completed}", container.name()));
//! for event in registered.events {
//!     println!("{event}");
//! }
//! # Ok::<(), omega_client::ApiError>(())
//! ```
//!
//! In reading order: this file, `types.rs`, `task_state.rs`, `core.rs`, `state.rs`, `driver.rs`, `dispatch.rs`.

mod core;
mod dispatch;
mod driver;
#[cfg(test)]
mod histories_tests;
mod machines;
mod state;
mod task_state;
mod types;

pub use machines::MachineSnapshot;
pub use types::{
    ApplicationSettings, Change, Completed, ContainerSpec, ContainerState, Ended, Event, Recover,
};

use self::core::Core;
use crate::connect::{Address, Connections};
use crate::own_runtime::OwnRuntime;
use crate::{ApiError, ErrorCode};
use driver::{Calls, Watch};
use omega_core::Text;
use state::{Item, Network, Slot, State};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// Time limit for a cell that does not answer, enough for many elections.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum number of events that wait for the reader.
const EVENTS_MAX: usize = 1024;

/// Handle of an application in one process. Clones refer to one application. When the last clone is dropped, the
/// containers continue, and another process may recover them.
///
/// Only one process should use a name at a time.
#[derive(Clone, Debug)]
pub struct Application {
    state: Arc<State>,
    network: Arc<Network>,
}

/// Result of registering an application.
#[derive(Debug)]
pub struct Registered {
    /// The application.
    pub application: Application,
    /// Containers that already exist in the cell, by name; none after [`Recover::Drop`]. Callbacks that are set on them
    /// are called for their present states.
    pub recovered: Vec<Container>,
    /// All changes after the registration. Drop this list if you do not read it, because callbacks and the stream wait
    /// while it is full.
    pub events: Events,
}

/// Stream of changes. The changes of each container come in the cell's order. The stream ends with the application.
#[derive(Debug)]
pub struct Events {
    receiver: Receiver<Event>,
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.receiver.recv().ok()
    }
}

impl Events {
    /// Returns the next event; `None` if no event arrives within `time`.
    pub fn next_within(&mut self, time: Duration) -> Option<Event> {
        self.receiver.recv_timeout(time).ok()
    }
}

impl Application {
    /// Registers an application, and receives its state from the cell.
    ///
    /// # Errors
    /// The address or the name is invalid, the role of the caller does not permit it, or no replica answers for half a
    /// minute.
    pub fn register(
        address: &Address,
        settings: ApplicationSettings,
        recover: Recover,
    ) -> Result<Registered, ApiError> {
        let name = settings.name.clone();
        if name.is_empty() || name.contains(['#', '.']) {
            let message = format!(
                "{name:?} is the name of an application: it must not be empty, or contain . or #"
            );
            return Err(ApiError::new(ErrorCode::BadName, message));
        }
        let internal = |why| ApiError::new(ErrorCode::Internal, format!("no thread: {why}"));
        let runtime = OwnRuntime::start("omega-application")?;
        let connections = runtime.block_on(async { Connections::new(address) })?;
        let (to, receiver) = sync_channel(EVENTS_MAX);
        let state = Arc::new(State::new(Core::new(settings, recover), to));
        let watch = Watch { state: state.clone(), connections: connections.clone() };
        runtime.handle().spawn(watch.run());
        let calls = Calls { state: state.clone(), connections: connections.clone() };
        runtime.handle().spawn(calls.run());
        let network = Arc::new(Network { runtime, state: state.clone(), connections });
        dispatch::start(&state, &network).map_err(internal)?;
        let application = Application { state, network };
        let recovered = application.state.await_recovered(Instant::now() + PATIENCE)?;
        let recovered = recovered.into_iter().map(|slot| application.handle(slot)).collect();
        Ok(Registered { application, recovered, events: Events { receiver } })
    }

    /// Requests a container, and returns at once. Changes are reported later. If the cell rejects the container, it
    /// ends with [`Ended::Refused`].
    ///
    /// # Errors
    /// A container of this name has not ended, the name contains a `#`, or there are as many containers as the settings
    /// allow.
    pub fn create(&self, name: &str, spec: &ContainerSpec) -> Result<Container, ApiError> {
        self.state.create(name.into(), spec).map(|slot| self.handle(slot))
    }

    /// The container of this name, if it has not ended.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<Container> {
        self.state.find(name).map(|slot| self.handle(slot))
    }

    /// Returns the machines of the cell.
    ///
    /// # Errors
    /// No replica answers for half a minute, or the role of the caller does not permit it.
    pub fn machines(&self) -> Result<Vec<MachineSnapshot>, ApiError> {
        self.network.runtime.block_on(machines::list(&self.network.connections, PATIENCE))
    }

    fn handle(&self, slot: Arc<Slot>) -> Container {
        Container { slot, application: self.clone() }
    }
}

/// Handle of a container. Clones refer to one container.
#[derive(Clone)]
pub struct Container {
    slot: Arc<Slot>,
    application: Application,
}

impl Container {
    /// Name of the container, without the application's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.slot.name
    }

    /// The application to which the container belongs.
    #[must_use]
    pub fn application(&self) -> &Application {
        &self.application
    }

    /// The state that was last passed to callbacks and events.
    #[must_use]
    pub fn state(&self) -> ContainerState {
        self.slot.state()
    }

    /// Registers a callback, which gets the machine's name each time the container starts to run. If the container runs
    /// already, the callback is called soon. A new callback replaces the earlier one.
    ///
    /// All callbacks are called one after the other on one thread, without locks, and may use the application freely. A
    /// callback that panics is reported as [`Change::CallbackPanicked`], and not called again.
    #[must_use = "the handle is of a container for the next callback: drop the handle if there is \
         none"]
    pub fn on_running(self, call: impl FnMut(&Container, &str) + Send + 'static) -> Container {
        self.application.state.push(Item::OnRunning(self.slot.clone(), Box::new(call)));
        self
    }

    /// Registers a callback for the container's end. If the container has ended already, the callback is called soon.
    /// Otherwise it works like [`Container::on_running`].
    pub fn on_completed(
        self,
        call: impl FnOnce(&Container, &Completed) + Send + 'static,
    ) -> Container {
        self.application.state.push(Item::OnCompleted(self.slot.clone(), Box::new(call)));
        self
    }

    /// Ends the container, and returns at once. The end is reported as soon as the container has ended. If the
    /// container has ended already, nothing happens.
    pub fn release(&self) {
        self.application.state.release(&self.slot);
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("name", &self.slot.name).finish_non_exhaustive()
    }
}

/// The prefix of the names of an application's jobs.
fn prefix(name: &Text) -> String {
    format!("{name}.")
}

#[cfg(test)]
mod tests {
    use super::{Change, Event, Events};
    use omega_core::Version;
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;

    #[test]
    fn the_next_event_within_a_time_is_none_without_events_and_after_the_end() {
        let (to, receiver) = sync_channel(1);
        let mut events = Events { receiver };
        assert_eq!(events.next_within(Duration::ZERO), None, "there is no event yet");
        let change = Change::Running("m".into());
        let event = Event { version: Version(1), container: "c".into(), change };
        to.send(event.clone()).expect("there is a reader");
        assert_eq!(events.next_within(Duration::ZERO), Some(event));
        drop(to);
        assert_eq!(events.next_within(Duration::from_secs(3600)), None, "the stream has ended");
    }
}
