//! The thread that calls callbacks, one after the other, and passes events on. The thread has no lock during a
//! callback, so callbacks may use the application freely.

use super::state::{Item, Network, Slot, State};
use super::types::{Change, Completed, ContainerState, Event};
use super::{Application, Container};
use omega_core::{Text, Version};
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

/// Starts the thread, which ends with the application.
pub(super) fn start(state: &Arc<State>, network: &Arc<Network>) -> io::Result<()> {
    let dispatch =
        Dispatch { state: state.clone(), network: Arc::downgrade(network), version: Version(0) };
    let builder = std::thread::Builder::new().name("omega-callbacks".to_owned());
    builder.spawn(move || dispatch.run()).map(drop)
}

struct Dispatch {
    state: Arc<State>,
    network: Weak<Network>,
    /// Version of the last event.
    version: Version,
}

impl Dispatch {
    fn run(mut self) {
        while let Some(item) = self.state.next_item() {
            match item {
                // The container has ended and will not run again. So the callback is dropped, with everything that it
                // refers to.
                Item::OnRunning(slot, _) if matches!(slot.state(), ContainerState::Ended(_)) => {}
                Item::OnRunning(slot, call) => {
                    slot.callbacks.lock().on_running = Some(call);
                    if let ContainerState::Running(machine) = slot.state() {
                        self.running(&slot, &machine);
                    }
                }
                Item::OnCompleted(slot, call) => {
                    slot.callbacks.lock().on_completed = Some(call);
                    if let ContainerState::Ended(completed) = slot.state() {
                        self.completed(&slot, &completed);
                    }
                }
                Item::Event(event, slot) => {
                    self.version = event.version;
                    self.hand_out(event.clone());
                    if let Some(slot) = slot {
                        self.changed(&slot, event.change);
                    }
                }
            }
        }
    }

    fn changed(&self, slot: &Arc<Slot>, change: Change) {
        match change {
            Change::Placed(machine) => slot.set_state(ContainerState::Placed(machine)),
            Change::Displaced(_) => slot.set_state(ContainerState::Waiting),
            Change::Running(machine) => {
                slot.set_state(ContainerState::Running(machine.clone()));
                self.running(slot, &machine);
            }
            Change::Ended(completed) => {
                slot.set_state(ContainerState::Ended(completed.clone()));
                self.completed(slot, &completed);
            }
            // A recovered container was created with this state. The other two changes do not affect the state.
            Change::Recovered(_) | Change::NotReleased(_) | Change::CallbackPanicked(_) => {}
        }
    }

    fn running(&self, slot: &Arc<Slot>, machine: &Text) {
        let Some(mut call) = slot.callbacks.lock().on_running.take() else { return };
        let was_called = self.call(slot, |container| call(container, machine));
        let mut callbacks = slot.callbacks.lock();
        // If the callback has set a new callback, the new one is kept.
        if was_called && callbacks.on_running.is_none() {
            callbacks.on_running = Some(call);
        }
    }

    fn completed(&self, slot: &Arc<Slot>, completed: &Completed) {
        let call = {
            let mut callbacks = slot.callbacks.lock();
            callbacks.on_running = None;
            callbacks.on_completed.take()
        };
        if let Some(call) = call {
            self.call(slot, |container| call(container, completed));
        }
    }

    /// Calls a callback. Returns `false` if it panicked.
    fn call(&self, slot: &Arc<Slot>, call: impl FnOnce(&Container)) -> bool {
        let Some(network) = self.network.upgrade() else { return false };
        let application = Application { state: self.state.clone(), network };
        let container = Container { slot: slot.clone(), application };
        // A callback that panicked is not called again, because its state may be broken.
        let called = catch_unwind(AssertUnwindSafe(|| call(&container)));
        if let Err(panic) = &called {
            let change = Change::CallbackPanicked(message(&**panic));
            let container = slot.name.clone();
            self.hand_out(Event { version: self.version, container, change });
        }
        called.is_ok()
    }

    fn hand_out(&self, event: Event) {
        let Some(listener) = self.state.listener() else { return };
        if listener.send(event).is_err() {
            self.state.forget_listener();
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "something that is no text".to_owned())
}
