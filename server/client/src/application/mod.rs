//! The application library: for programs that request containers one by one and leave scheduling to
//! the cell's schedulers.
//!
//! ```text
//!   your application ── create, release ──▶ Application ── SubmitJob, KillJob ──▶ any replica
//!        ▲    ▲                                 │  core: what each container should be, and is
//!        │    └── callbacks, one thread ◀───────┤
//!        └─────── events ◀──────────────────────┘ ◀════════ WatchJobs ═══════════ any replica
//! ```
//!
//! A container is a job with one task, named `APPLICATION.NAME`. So a repeated creation has no
//! further effect, and releasing it ends only this container. Schedulers place it like any other
//! job.
//!
//! [`Application::register`] first reads the application's jobs from the cell. Containers of a
//! former process are returned ([`Recover::Previous`]) or ended ([`Recover::Drop`]). From then on
//! every change is reported once: to the container's callbacks, and as an [`Event`]. After a break
//! of the stream, or a restart of a replica or the cell, the first state is compared with the known
//! one, and only differences are reported. A call whose answer is lost is repeated with the same
//! name.
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
//! In reading order: this file, `words.rs`, `heard.rs`, `core.rs`, `state.rs`, `driver.rs`, `dispatch.rs`.

mod core;
mod dispatch;
mod driver;
mod heard;
#[cfg(test)]
mod histories;
mod machines;
mod state;
mod words;

pub use machines::MachineSnapshot;
pub use words::{
    ApplicationSettings, Change, Completed, ContainerSpec, ContainerState, Ended, Event, Recover,
};

use self::core::Core;
use crate::connect::{Address, Connections};
use crate::{ApiError, ErrorCode};
use driver::{Calls, Watch};
use omega_core::Text;
use state::{Item, Network, Slot, State};
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// Time to wait for a cell that does not answer: enough for many elections.
const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum number of events kept for the reader.
const EVENTS_MAX: usize = 1024;

/// Handle of an application in one process. Clones share it. When the last one is dropped, the
/// containers continue, and another process may recover them.
///
/// Only one process should use a name at a time.
#[derive(Clone, Debug)]
pub struct Application {
    state: Arc<State>,
    network: Arc<Network>,
}

/// Result of registering.
#[derive(Debug)]
pub struct Registered {
    /// The application.
    pub application: Application,
    /// Containers that already exist in the cell, by name; none after [`Recover::Drop`]. Callbacks
    /// set on them are called for their current states.
    pub recovered: Vec<Container>,
    /// All later changes. Drop this if you do not read it: while it is full, callbacks and the
    /// stream wait.
    pub events: Events,
}

/// Stream of changes, in the cell's order for each container. It ends with the application.
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
    /// Returns the next event within a time.
    pub fn next_within(&mut self, time: Duration) -> Option<Event> {
        self.receiver.recv_timeout(time).ok()
    }
}

impl Application {
    /// Registers an application, and receives its state from the cell.
    ///
    /// # Errors
    /// If the address or the name is none, this role may not, or no replica answers for half a minute.
    pub fn register(
        address: &Address,
        settings: ApplicationSettings,
        recover: Recover,
    ) -> Result<Registered, ApiError> {
        let name = settings.name.clone();
        if name.is_empty() || name.contains(['#', '.']) {
            let say = format!("an application's name has no dot and no #, unlike {name:?}");
            return Err(ApiError::new(ErrorCode::BadName, say));
        }
        let internal = |why| ApiError::new(ErrorCode::Internal, format!("no thread: {why}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("omega-application")
            .enable_all()
            .build()
            .map_err(internal)?;
        let connections = runtime.block_on(async { Connections::new(address) })?;
        let (to, receiver) = sync_channel(EVENTS_MAX);
        let state = Arc::new(State::new(Core::new(settings, recover), to));
        let watch = Watch { state: state.clone(), connections: connections.clone() };
        runtime.spawn(watch.run());
        runtime.spawn(Calls { state: state.clone(), connections: connections.clone() }.run());
        let network =
            Arc::new(Network { runtime: Some(runtime), state: state.clone(), connections });
        dispatch::start(&state, &network).map_err(internal)?;
        let application = Application { state, network };
        let recovered = application.state.await_recovered(Instant::now() + PATIENCE)?;
        let recovered = recovered.into_iter().map(|slot| application.handle(slot)).collect();
        Ok(Registered { application, recovered, events: Events { receiver } })
    }

    /// Requests a container, and returns at once. Changes are reported later; a rejection by the
    /// cell completes the container with [`Ended::Refused`].
    ///
    /// # Errors
    /// If a container of this name has not ended, the name has a `#`, or there are as many
    /// containers as the settings allow.
    pub fn create(&self, name: &str, spec: &ContainerSpec) -> Result<Container, ApiError> {
        self.state.create(name.into(), spec).map(|slot| self.handle(slot))
    }

    /// A container that has not ended.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<Container> {
        self.state.find(name).map(|slot| self.handle(slot))
    }

    /// Returns the machines of the cell.
    ///
    /// # Errors
    /// If no replica answers for half a minute, or this role may not look.
    pub fn machines(&self) -> Result<Vec<MachineSnapshot>, ApiError> {
        self.network.runtime().block_on(machines::list(&self.network.connections, PATIENCE))
    }

    fn handle(&self, slot: Arc<Slot>) -> Container {
        Container { slot, application: self.clone() }
    }
}

/// Handle of a container. Clones refer to the same one.
#[derive(Clone)]
pub struct Container {
    slot: Arc<Slot>,
    application: Application,
}

impl Container {
    /// Its name, without the application's.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.slot.name
    }

    /// The application that it is of.
    #[must_use]
    pub fn application(&self) -> &Application {
        &self.application
    }

    /// The state last passed to callbacks and events.
    #[must_use]
    pub fn state(&self) -> ContainerState {
        self.slot.state()
    }

    /// Registers a callback, which gets the machine's name each time the container starts to run;
    /// it is also called if the container runs already. It replaces the earlier callback.
    ///
    /// All callbacks are called one after the other on one thread, without locks, and may use the
    /// application freely. A callback that panics is reported as [`Change::CallbackPanicked`] and
    /// not called again.
    #[must_use = "it is the same container, for the next callback: drop it if there is none"]
    pub fn on_running(self, call: impl FnMut(&Container, &str) + Send + 'static) -> Container {
        self.application.state.push(Item::OnRunning(self.slot.clone(), Box::new(call)));
        self
    }

    /// Registers a callback for its end; if it has ended, it is called soon. As for
    /// [`Container::on_running`].
    pub fn on_completed(
        self,
        call: impl FnOnce(&Container, &Completed) + Send + 'static,
    ) -> Container {
        self.application.state.push(Item::OnCompleted(self.slot.clone(), Box::new(call)));
        self
    }

    /// Ends the container, and returns at once: it is completed when it has ended. Of a container that
    /// has ended, nothing.
    pub fn release(&self) {
        self.application.state.release(&self.slot);
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("name", &self.slot.name).finish_non_exhaustive()
    }
}

/// The beginning of the names of an application's jobs.
fn prefix(name: &Text) -> String {
    format!("{name}.")
}
