//! Mirror of a list of objects. The objects are listed once, and then watched from the version of the list, without
//! end.
//!
//! | event | step |
//! |---|---|
//! | the server offers WatchList | the list comes as events of the watch, so the server holds no page in memory |
//! | the watch ends, breaks or takes too long | watch again from the version of the last event or bookmark |
//! | the watch ends at once, without an event | the same, after a growing delay |
//! | 410, as a status or as an ERROR event | list again, after a growing delay |
//! | the list exceeds the limit of objects or bytes | list again, after a growing delay; the mirror stays as it was |
//! | a line that is longer than an object can be | leave the line out; the mirror keeps the object's last form |
//! | 429, 5xx, no connection | the same step again, after `Retry-After` or a growing delay |

mod list;
mod long;
pub mod partial;
mod stream;

use self::partial::{Object, read};
use crate::client::{CallError, Client};
use omega_workload::kube::api::Metadata;
use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

/// An event of a watched list.
#[derive(Debug)]
pub enum Event<T> {
    /// All objects, and the version of the list. Objects that are not in the list are gone.
    Listed(Vec<T>, String),
    /// An object that is new or has changed.
    Changed(T),
    /// An object that was deleted, in its last form.
    Deleted(T),
}

impl<T> Event<T> {
    /// Converts the objects of the event.
    pub fn map<U>(self, convert: impl Fn(T) -> U) -> Event<U> {
        match self {
            Event::Listed(all, at) => Event::Listed(all.into_iter().map(convert).collect(), at),
            Event::Changed(object) => Event::Changed(convert(object)),
            Event::Deleted(object) => Event::Deleted(convert(object)),
        }
    }
}

/// A resource.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// The path of the list of the resource's objects in all namespaces.
    pub path: &'static str,
    /// Field selector of the objects; empty for all objects.
    pub fields: &'static str,
}

/// Settings of watches.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Time after which the server should end a watch.
    pub timeout: Duration,
    /// Duration below which a watch without events counts as failed. Without such a bound, a server that ends each
    /// watch would be asked without a pause.
    pub short: Duration,
    /// Maximum number of objects in a page.
    pub page: usize,
    /// Maximum number of objects in a list.
    pub objects: usize,
    /// Maximum size of a list in bytes.
    pub bytes: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            timeout: Duration::from_secs(300),
            // As in Kubernetes' own clients.
            short: Duration::from_secs(1),
            page: 1000,
            // More than three times the 150,000 pods with which Kubernetes is tested.
            objects: 500_000,
            bytes: 8 << 30,
        }
    }
}

/// A reason to list again, or to wait.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The version is no longer available. List again.
    #[error("the version of the watch has expired")]
    Expired,
    /// The watch ended at once, without an event. Watch again, but not at once, because this may repeat.
    #[error("the API server ended the watch at once")]
    Ended,
    /// The server does not support WatchList. List in pages.
    #[error("the API server does not support WatchList")]
    NoWatchList,
    /// Another error status, with the delay that the server requested. Try again after the delay.
    #[error("the API server answered with status {0}: {2}")]
    Status(u16, Option<u64>, String),
    /// There was no answer. Try again.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The answer cannot be parsed. Try again.
    #[error("the response of the API server cannot be parsed: {0}")]
    Json(String),
    /// The list has more objects than this limit.
    #[error(
        "the list of this resource has more than {0} objects, the maximum for omega-kube: delete \
         some"
    )]
    Objects(usize),
    /// The list is longer than this limit in bytes.
    #[error(
        "the list of this resource is longer than {0} bytes, the maximum for omega-kube: delete \
         some of its objects"
    )]
    Bytes(usize),
    /// The receiver accepts no more events.
    #[error("the receiver of the events is closed")]
    Closed,
}

impl Failure {
    /// Returns the server's message if the server refuses the request. Returns `None` if the request may succeed when
    /// it is sent again without any change of the server: with new credentials, or later.
    fn refusal(&self) -> Option<&String> {
        match self {
            Failure::Status(401 | 408 | 410 | 429, ..) => None,
            Failure::Status(400..=499, _, message) => Some(message),
            _ => None,
        }
    }
}

/// A receiver of events.
pub trait Sink<T>: Send {
    /// Handles an event. Returns `false` if the receiver accepts no more events.
    fn take(&mut self, event: Event<T>) -> impl Future<Output = bool> + Send;

    /// Records that a change of an object was left out, because it is too long to be read.
    fn left_out(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Records that the server refuses the list or watch with this path. It is tried again, because rights can change.
    fn refused(&mut self, _path: &'static str, _why: String) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// Maximum number of objects that are remembered as already named in the log.
const TOLD_MAX: usize = 1000;

/// Keeps one list up to date.
pub(crate) struct Keeper<'a, S> {
    client: &'a Client,
    resource: Resource,
    settings: Settings,
    sink: S,
    version: String,
    watch_list: bool,
    /// The number of objects in the mirror, and the bytes of the list that is being read.
    held: Held,
    /// Namespaces and names of unreadable objects that the log already names.
    told: BTreeSet<(String, String)>,
}

/// Counts of the objects and bytes of a list, which must stay below the limits.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    objects: usize,
    bytes: usize,
}

impl<S> Keeper<'_, S> {
    /// Reads an object. If only a part of it can be read, writes this to the log once.
    fn read<T: Object>(&mut self, text: &str) -> Option<T> {
        let mut object = read::<T>(text)?;
        let Metadata { namespace, name, unreadable, .. } = object.metadata();
        let key = (namespace.clone(), name.clone());
        match unreadable {
            None => {
                self.told.remove(&key);
            }
            Some(why) if self.is_news(&key) => {
                let resource = self.resource.path;
                tracing::error!(resource, namespace, name, %why, "an object has fields that omega-kube does \
                     not understand: only the others are read");
            }
            Some(_) => {}
        }
        Some(object)
    }

    /// Returns whether an unreadable object was not logged yet, and records that it is logged now.
    fn is_news(&mut self, key: &(String, String)) -> bool {
        if self.told.len() >= TOLD_MAX {
            self.told.clear();
        }
        self.told.insert(key.clone())
    }

    /// Counts objects that were read, and their bytes.
    fn count(&mut self, objects: usize, bytes: usize) -> Result<(), Failure> {
        self.held.objects += objects;
        self.held.bytes += bytes;
        if self.held.objects > self.settings.objects {
            return Err(Failure::Objects(self.settings.objects));
        }
        if self.held.bytes > self.settings.bytes {
            return Err(Failure::Bytes(self.settings.bytes));
        }
        Ok(())
    }
}

/// Keeps a list up to date until the receiver accepts no more events.
pub async fn keep<T, S>(client: &Client, resource: Resource, settings: Settings, sink: S)
where
    T: Object,
    S: Sink<T>,
{
    let (version, watch_list) = (String::new(), true);
    let (held, told) = (Held::default(), BTreeSet::new());
    let mut keeper = Keeper { client, resource, settings, sink, version, watch_list, held, told };
    let mut failures = 0;
    loop {
        let listed = !keeper.version.is_empty();
        let done =
            if listed || keeper.watch_list { keeper.watch().await } else { keeper.list().await };
        match done {
            // A list does not end a series of failures: the watch after it may fail again and again.
            Ok(()) => failures = if listed { 0 } else { failures },
            Err(Failure::Closed) => return,
            Err(why @ Failure::Expired) => {
                tracing::info!(
                    resource = resource.path,
                    "the version of a watch has expired: \
                     listing again"
                );
                keeper.version.clear();
                tokio::time::sleep(delay(&why, failures)).await;
                failures += 1;
            }
            Err(Failure::NoWatchList) => keeper.watch_list = false,
            Err(why @ Failure::Objects(_)) => {
                // The list exceeds its limit. Only a new list can show that there are fewer objects again.
                keeper.version.clear();
                tracing::error!(resource = resource.path, %why, "not all objects are known");
                tokio::time::sleep(delay(&why, failures)).await;
                failures += 1;
            }
            Err(why) => {
                match &why {
                    // Usually, the other watches fail, too, so they report this together.
                    Failure::Call(why) if why.is_no_answer() => client.note_lost(why),
                    _ => tracing::warn!(resource = resource.path, %why, "list or watch failed"),
                }
                if let Some(message) = why.refusal() {
                    keeper.sink.refused(resource.path, message.clone()).await;
                }
                tokio::time::sleep(delay(&why, failures)).await;
                failures += 1;
            }
        }
    }
}

/// Returns the time to wait after a failure.
fn delay(why: &Failure, failures: u32) -> Duration {
    if let Failure::Status(_, Some(seconds), _) = why {
        return Duration::from_secs(*seconds);
    }
    Duration::from_millis((200 << failures.min(6)).min(10_000))
}
