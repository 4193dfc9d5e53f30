//! Watches, which may begin with the list of all objects (WatchList).

use super::long;
use super::partial::{Object, read};
use super::{Event, Failure, Keeper, ListSize, Sink};
use crate::client::{Call, CallError, Line as Received, RETRY_AFTER_MAX, Response, Stream, escape};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The annotation of the bookmark after the initial events.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// A line with an event. Its object is parsed when the event's type is known.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Versioned {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    message: String,
    details: Option<Details>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Details {
    #[serde(default)]
    retry_after_seconds: u64,
}

impl Status {
    /// The delay that the server requests, in seconds.
    fn retry_after(&self) -> Option<u64> {
        let seconds = self.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then_some(seconds.min(RETRY_AFTER_MAX))
    }
}

/// The objects of the initial list, collected until the bookmark that ends it. `None` if the list is complete or was
/// not requested.
struct Initial<T>(Option<BTreeMap<(String, String), T>>);

impl<S> Keeper<'_, S> {
    /// Watches until the server ends the watch. Starts at the last version; if there is none, the watch begins with all
    /// objects.
    pub(super) async fn watch<T>(&mut self) -> Result<(), Failure>
    where
        T: Object,
        S: Sink<T>,
    {
        let from_start = self.version.is_empty();
        // The server should end the watch before this time. If it does not, the client closes the stream.
        let longest = self.settings.timeout + Duration::from_secs(30);
        let call = Call::get(self.watch_path());
        let (began, mut is_empty) = (Instant::now(), true);
        let Stream { status, retry_after, mut lines } = self.client.stream(&call, longest).await?;
        if status != 200 {
            let body = match lines.next().await? {
                Some(Received::Whole(text)) => text,
                Some(Received::Long(..)) | None => Bytes::new(),
            };
            let message = Response { status, retry_after, body }.message();
            return Err(match status {
                410 => Failure::Expired,
                // 400 and 422 mean that the server does not know the parameter, or that the feature is disabled.
                400 | 422 if from_start => Failure::NoWatchList,
                _ => Failure::Status(status, retry_after, message),
            });
        }
        let mut initial = Initial(from_start.then(BTreeMap::new));
        if from_start {
            self.list_size = ListSize::default();
        } else {
            self.sink.progressed(self.resource.path);
        }
        let quiet = self.settings.quiet;
        loop {
            // A server that hangs keeps its connections, so only the missing bookmarks show this.
            let line = tokio::time::timeout(quiet, lines.next()).await;
            let line = match line.unwrap_or(Err(CallError::Timeout(quiet))) {
                Err(CallError::Timeout(_)) if initial.0.is_none() => return Ok(()),
                line => line?,
            };
            is_empty &= line.is_none();
            match line {
                None => break,
                Some(Received::Whole(line)) if line.is_empty() => {}
                Some(Received::Whole(line)) => self.line(&line, &mut initial).await?,
                Some(Received::Long(start, length)) => {
                    self.leave_out(&long::head(&start), length, &mut initial).await?;
                }
            }
        }
        // A server without WatchList starts an ordinary watch, which never sends the bookmark that ends the list.
        if initial.0.is_some() {
            return Err(Failure::NoWatchList);
        }
        let has_failed = is_empty && began.elapsed() < self.settings.short;
        if has_failed { Err(Failure::Ended) } else { Ok(()) }
    }

    /// Skips an event that is too long to be read. The mirror keeps the object's last form, unless the object was
    /// deleted.
    async fn leave_out<T>(
        &mut self,
        head: &long::Head,
        length: usize,
        initial: &mut Initial<T>,
    ) -> Result<(), Failure>
    where
        T: Object,
        S: Sink<T>,
    {
        let long::Head { kind, namespace, name, version } = head;
        let key = (namespace.clone(), name.clone());
        if self.is_unlogged(&key) {
            let resource = self.resource.path;
            tracing::error!(
                resource,
                ?namespace,
                ?name,
                length,
                "an object is longer than any object can be, and \
                 is left out: shorten it, or delete it"
            );
        }
        self.sink.left_out().await;
        let is_deleted = kind == "DELETED";
        match &mut initial.0 {
            Some(items) if is_deleted => drop(items.remove(&key)),
            Some(_) => {}
            None => {
                if !version.is_empty() {
                    self.advance(version);
                }
                let text = json!({"metadata": {"namespace": namespace, "name": name, "resourceVersion": version}});
                let gone = is_deleted.then(|| read(&text.to_string())).flatten();
                if let Some(gone) = gone
                    && !self.sink.take(Event::Deleted(gone)).await
                {
                    return Err(Failure::Closed);
                }
            }
        }
        Ok(())
    }

    /// The path of a watch from the version that was seen last, or from the start if there is none.
    fn watch_path(&self) -> String {
        let seconds = self.settings.timeout.as_secs().max(1);
        let mut path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}",
            self.resource.path
        );
        if self.version.is_empty() {
            path += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=";
        } else {
            path += &format!("&resourceVersion={}", escape(&self.version));
        }
        if !self.resource.fields.is_empty() {
            path += &format!("&fieldSelector={}", escape(self.resource.fields));
        }
        path
    }

    async fn line<T>(&mut self, line: &[u8], initial: &mut Initial<T>) -> Result<(), Failure>
    where
        T: Object,
        S: Sink<T>,
    {
        let wrong = |why: serde_json::Error| Failure::Json(why.to_string());
        let line: Line<'_> = serde_json::from_slice(line).map_err(wrong)?;
        let text = line.object.get();
        if line.kind == "ERROR" {
            let status: Status = serde_json::from_str(text).map_err(wrong)?;
            return Err(match status.code {
                410 => Failure::Expired,
                429 => Failure::Status(429, status.retry_after(), status.message),
                code => Failure::Event(code, status.retry_after(), status.message),
            });
        }
        match line.kind.as_ref() {
            "ADDED" => self.count(1, if initial.0.is_some() { text.len() } else { 0 })?,
            "DELETED" => self.list_size.objects = self.list_size.objects.saturating_sub(1),
            _ => {}
        }
        let head: Versioned = serde_json::from_str(text).map_err(wrong)?;
        let version = head.metadata.resource_version;
        let key = (head.metadata.namespace, head.metadata.name);
        let event = match (line.kind.as_ref(), &mut initial.0) {
            ("BOOKMARK", Some(items)) if head.metadata.annotations.contains_key(INITIAL_END) => {
                let items = std::mem::take(items).into_values().collect();
                initial.0 = None;
                return self.pass_list(items, version).await;
            }
            ("BOOKMARK", _) => None,
            ("ADDED" | "MODIFIED", Some(items)) => {
                items.extend(self.read(text).map(|object| (key, object)));
                None
            }
            ("DELETED", Some(items)) => {
                items.remove(&key);
                None
            }
            ("ADDED" | "MODIFIED", None) => self.read(text).map(Event::Changed),
            ("DELETED", None) => read(text).map(Event::Deleted),
            (kind, _) => return Err(Failure::Json(format!("event of type {kind:?}"))),
        };
        if initial.0.is_none() {
            if let Some(now) = version.parse().ok().filter(|now| *now < self.newest) {
                return Err(Failure::Backwards(self.newest, now));
            }
            self.advance(&version);
            self.sink.progressed(self.resource.path);
        }
        match event {
            Some(event) => {
                if self.sink.take(event).await {
                    Ok(())
                } else {
                    Err(Failure::Closed)
                }
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::client::config::Config;
    use crate::watch::{Resource, Settings};
    use omega_workload::kube::api::Node;
    use std::collections::BTreeSet;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    struct Ignore;

    impl Sink<Node> for Ignore {
        async fn take(&mut self, _: Event<Node>) -> bool {
            true
        }
    }

    fn keeper(client: &Client, settings: Settings) -> Keeper<'_, Ignore> {
        Keeper {
            client,
            resource: Resource { path: "/api/v1/nodes", fields: "" },
            settings,
            sink: Ignore,
            version: "7".into(),
            newest: 7,
            watch_list: true,
            list_size: ListSize::default(),
            logged: BTreeSet::new(),
        }
    }

    /// The failure of a watch that gets this answer.
    fn failure(answer: &'static str) -> Failure {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let client = Client::new(Config::plain(&url), Duration::from_secs(300)).unwrap();
        let settings = Settings { short: Duration::from_secs(300), ..Settings::default() };
        let mut keeper = keeper(&client, settings);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let failure = runtime.block_on(keeper.watch::<Node>()).unwrap_err();
        server.join().unwrap();
        failure
    }

    #[test]
    fn a_rejected_watch_waits_as_long_as_the_server_asks() {
        let rejected = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 9\r\n\r\ntoo many\n";
        let failed = failure(rejected);
        assert!(
            matches!(&failed, Failure::Status(429, Some(7), why) if why == "too many"),
            "{failed}"
        );
        let broken = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"type\":\"ERROR\",\"object\":\
            {\"code\":500,\"message\":\"busy\",\"details\":{\"retryAfterSeconds\":900}}}\n";
        let failed = failure(broken);
        assert!(
            matches!(&failed, Failure::Event(500, Some(300), why) if why == "busy"),
            "{failed}"
        );
    }

    #[test]
    fn a_watch_of_a_server_that_hangs_is_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
            // The connection stays open until the client closes it.
            let _ = stream.read(&mut request);
        });
        let client = Client::new(Config::plain(&url), Duration::from_secs(300)).unwrap();
        let mut keeper = keeper(&client, Settings { quiet: Duration::ZERO, ..Settings::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(keeper.watch::<Node>()).unwrap();
        drop(runtime);
        server.join().unwrap();
    }

    #[test]
    fn a_watch_that_ends_at_once_has_failed() {
        let failed = failure("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        assert!(matches!(failed, Failure::Ended), "{failed}");
    }
}
