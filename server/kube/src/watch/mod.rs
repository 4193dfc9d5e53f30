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
//! | no line and no bookmark for 90 seconds | watch again from the version of the last event or bookmark |
//! | 504, an ERROR event other than 429, a line that is not JSON | list again, after a growing delay |
//! | other failures, three times without an event or bookmark | list again, after a growing delay |
//! | 429, 5xx, no connection | the same step again, after `Retry-After` or a growing delay |
//! | the new list is older than the last version | all known versions are void, and the new list replaces the mirror |

mod list;
mod long;
pub mod partial;
pub mod progress;
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
    /// Duration without a line or bookmark after which the client ends a watch.
    pub quiet: Duration,
    /// Time limit of a page or of a list in one piece, which takes longer than other requests. The client's time limit
    /// applies if it is longer.
    pub patience: Duration,
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
            // The API server sends a bookmark about once a minute.
            quiet: Duration::from_secs(90),
            patience: Duration::from_secs(60),
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
    /// The watch ended with an ERROR event of this status. List again, as Kubernetes' own clients do.
    #[error("the API server ended the watch with status {0}: {2}")]
    Event(u16, Option<u64>, String),
    /// The watch sent an older version than its own, such as after a restoration from a backup. List again.
    #[error("the API server's versions went back from {0} to {1}")]
    Backwards(u64, u64),
    /// There was no answer. Try again.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The answer cannot be parsed. List again.
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

    /// Whether another watch from the present version would probably fail, too, so that only a new list helps.
    fn needs_list(&self) -> bool {
        // Status 504 is the answer to a version that the server does not have yet, such as after its restoration from
        // a backup.
        matches!(
            self,
            Failure::Expired
                | Failure::Objects(_)
                | Failure::Event(..)
                | Failure::Backwards(..)
                | Failure::Json(_)
                | Failure::Status(504, ..)
        )
    }

    /// Whether the failure may depend on the version of the watch. A server that is down or overloaded gets no lists.
    fn may_need_list(&self) -> bool {
        let is_down = matches!(self, Failure::Call(CallError::Connect(..) | CallError::Timeout(_)));
        !is_down && !matches!(self, Failure::Status(429, ..))
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

    /// Records that the list with this path is up to date.
    fn progressed(&mut self, _path: &'static str) {}

    /// Records that a list or watch with this path failed. It is tried again.
    fn failed(&mut self, _path: &'static str, _why: String) {}

    /// Records that the server's versions went back, such as by a restoration from a backup: all known versions of
    /// objects are void. The list that follows is the truth.
    fn reset(&mut self, _path: &'static str) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Records that the server refuses the list or watch with this path. It is tried again, because rights can change.
    fn refused(&mut self, _path: &'static str, _why: String) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// Maximum number of objects that are remembered as already named in the log.
const LOGGED_MAX: usize = 1000;

/// Number of failures in a row, without an event or bookmark, after which the objects are listed again.
const STUCK_MAX: u32 = 3;

/// Keeps one list up to date.
pub(crate) struct Keeper<'a, S> {
    client: &'a Client,
    resource: Resource,
    settings: Settings,
    sink: S,
    version: String,
    /// The version of the last list, event or bookmark, even after `version` was cleared.
    newest: u64,
    watch_list: bool,
    /// The number of objects in the mirror, and the bytes of the list that is being read.
    list_size: ListSize,
    /// Namespaces and names of unreadable objects that the log already names.
    logged: BTreeSet<(String, String)>,
}

/// Counts of the objects and bytes of a list, which must stay below the limits.
#[derive(Clone, Copy, Debug, Default)]
struct ListSize {
    objects: usize,
    bytes: usize,
}

impl<S> Keeper<'_, S> {
    /// Records the version up to which the mirror is complete.
    fn advance(&mut self, version: &str) {
        self.version.clear();
        self.version.push_str(version);
        self.newest = version.parse().unwrap_or(self.newest);
    }

    /// Passes a complete list to the receiver.
    async fn pass_list<T>(&mut self, items: Vec<T>, version: String) -> Result<(), Failure>
    where
        T: Object,
        S: Sink<T>,
    {
        let path = self.resource.path;
        if version.parse().is_ok_and(|version: u64| version < self.newest) {
            let before = self.newest;
            tracing::error!(resource = path, before, now = %version, "the API server's versions went back, as after its \
                 restoration from a backup: the new list replaces what is known");
            self.sink.reset(path).await;
        }
        self.advance(&version);
        if !self.sink.take(Event::Listed(items, version)).await {
            return Err(Failure::Closed);
        }
        self.sink.progressed(path);
        Ok(())
    }

    /// Reports a failure of a list or watch.
    async fn report<T>(&mut self, why: &Failure)
    where
        S: Sink<T>,
    {
        let resource = self.resource.path;
        self.sink.failed(resource, why.to_string());
        match why {
            Failure::Expired => {
                tracing::info!(resource, "the version of a watch has expired: listing again");
            }
            Failure::Objects(_) => tracing::error!(resource, %why, "not all objects are known"),
            // Usually, the other watches fail, too, so they report this together.
            Failure::Call(why) if why.is_no_answer() => self.client.log_lost(why),
            _ => tracing::warn!(resource, %why, "list or watch failed"),
        }
        if let Some(message) = why.refusal() {
            self.sink.refused(resource, message.clone()).await;
        }
    }

    /// Reads an object. If only a part of it can be read, writes this to the log once.
    fn read<T: Object>(&mut self, text: &str) -> Option<T> {
        let mut object = read::<T>(text)?;
        let Metadata { namespace, name, unreadable, .. } = object.metadata();
        let key = (namespace.clone(), name.clone());
        match unreadable {
            None => {
                self.logged.remove(&key);
            }
            Some(why) if self.is_unlogged(&key) => {
                let resource = self.resource.path;
                tracing::error!(resource, namespace, name, %why, "an object has fields that omega-kube does \
                     not understand: only the others are read");
            }
            Some(_) => {}
        }
        Some(object)
    }

    /// Returns whether an unreadable object was not logged yet, and records that it is logged now.
    fn is_unlogged(&mut self, key: &(String, String)) -> bool {
        if self.logged.len() >= LOGGED_MAX {
            self.logged.clear();
        }
        self.logged.insert(key.clone())
    }

    /// Counts objects that were read, and their bytes.
    fn count(&mut self, objects: usize, bytes: usize) -> Result<(), Failure> {
        self.list_size.objects += objects;
        self.list_size.bytes += bytes;
        if self.list_size.objects > self.settings.objects {
            return Err(Failure::Objects(self.settings.objects));
        }
        if self.list_size.bytes > self.settings.bytes {
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
    let (version, newest, watch_list) = (String::new(), 0, true);
    let (list_size, logged) = (ListSize::default(), BTreeSet::new());
    let mut keeper =
        Keeper { client, resource, settings, sink, version, newest, watch_list, list_size, logged };
    let (mut failures, mut stuck) = (0, 0);
    loop {
        let before = keeper.version.clone();
        let listed = !before.is_empty();
        let done =
            if listed || keeper.watch_list { keeper.watch().await } else { keeper.list().await };
        if keeper.version != before {
            stuck = 0;
        }
        let why = match done {
            Ok(()) => {
                // A list does not end a series of failures: the watch after it may fail again and again.
                (failures, stuck) = (if listed { 0 } else { failures }, 0);
                continue;
            }
            Err(Failure::Closed) => return,
            Err(Failure::NoWatchList) => {
                keeper.watch_list = false;
                continue;
            }
            Err(why) => why,
        };
        keeper.report::<T>(&why).await;
        stuck += u32::from(why.may_need_list());
        if why.needs_list() || stuck >= STUCK_MAX {
            keeper.version.clear();
            stuck = 0;
        }
        tokio::time::sleep(delay(&why, failures)).await;
        failures += 1;
    }
}

/// Returns the time to wait after a failure.
fn delay(why: &Failure, failures: u32) -> Duration {
    if let Failure::Status(_, Some(seconds), _) | Failure::Event(_, Some(seconds), _) = why {
        return Duration::from_secs(*seconds);
    }
    Duration::from_millis((200 << failures.min(6)).min(10_000))
}
