//! Leader election by a Lease, as in Kubernetes' own controllers.
//!
//! A leader renews its lease often. It may write for two thirds of the lease's duration after its last successful
//! renewal. Another process takes over when it has seen no renewal for the whole duration. Before it writes, it also
//! waits for the timeout of a request, because a request of the old leader may still be in flight. So two processes
//! never write at the same time.

use super::fence::Fence;
use crate::client::{Call, CallError, Client, Response, time};
use http::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime};

/// Number of further attempts to release the lease after a conflict.
const RELEASES_MAX: u32 = 3;

/// A lease, and the process that tries to acquire it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// The identity of this process.
    pub identity: String,
    /// Time for which the lease stays valid after a renewal.
    pub duration: Duration,
}

impl Candidate {
    /// Returns how long the leader may write after a renewal.
    fn deadline(&self) -> Duration {
        self.duration * 2 / 3
    }

    /// Returns the interval of renewals and of attempts to acquire the lease.
    fn interval(&self) -> Duration {
        self.duration * 2 / 15
    }
}

/// The lease as last read.
struct ObservedLease {
    record: Value,
    at: Instant,
}

/// The result of an attempt to acquire or renew the lease.
enum Attempt {
    /// This process acquired the lease from another process that had not released it.
    TakenOver {
        /// Time for which the other process may still send requests.
        writes_for: Duration,
    },
    /// This process has the lease.
    Held,
    /// Another process has the lease, or the attempt failed.
    Not,
}

/// The election of one candidate.
pub struct Election {
    client: Client,
    candidate: Candidate,
    fence: Fence,
    observed: Option<ObservedLease>,
    /// The time at which the last successful write of the lease was sent. The fence closes a deadline later.
    renewed: Instant,
}

fn text<'a>(lease: &'a Value, field: &str) -> &'a str {
    lease["spec"][field].as_str().unwrap_or_default()
}

impl Election {
    /// Creates the election of a candidate. The election opens and closes `fence`.
    #[must_use]
    pub fn new(client: Client, candidate: Candidate, fence: Fence) -> Election {
        Election { client, candidate, fence, observed: None, renewed: Instant::now() }
    }

    fn path(&self) -> String {
        let namespace = &self.candidate.namespace;
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
    }

    /// Waits until this process is the leader, and then opens the fence.
    pub async fn win(&mut self) {
        loop {
            let sent = Instant::now();
            match self.attempt().await {
                Ok(Attempt::Held) => {
                    self.open(sent);
                    return;
                }
                Ok(Attempt::TakenOver { writes_for }) => {
                    // The old leader may have sent a request shortly before its time was over, and the request may
                    // still arrive.
                    let wait_until = Instant::now() + writes_for + self.client.timeout();
                    if self.renew_until(wait_until).await {
                        return;
                    }
                }
                Ok(Attempt::Not) => {}
                Err(why) if why.is_no_answer() => {}
                Err(why) => tracing::warn!(%why, "the lease cannot be read or written"),
            }
            tokio::time::sleep(self.candidate.interval()).await;
        }
    }

    /// Opens the fence after a write of the lease that was sent at this time.
    fn open(&mut self, sent: Instant) {
        self.renewed = sent;
        self.fence.open_until(sent + self.candidate.deadline());
    }

    /// Renews the lease until `end`, and then opens the fence. Returns `false` if the lease is lost before `end`.
    async fn renew_until(&mut self, end: Instant) -> bool {
        let mut renewed = Instant::now();
        while Instant::now() < end {
            tokio::time::sleep(
                self.candidate.interval().min(end.saturating_duration_since(Instant::now())),
            )
            .await;
            let sent = Instant::now();
            match self.attempt().await {
                Ok(Attempt::Held) => renewed = sent,
                Ok(_) => return false,
                Err(why) => tracing::warn!(%why, "the lease was not renewed"),
            }
            if renewed.elapsed() > self.candidate.deadline() {
                return false;
            }
        }
        self.open(renewed);
        true
    }

    /// Renews the lease until it is lost, and then closes the fence.
    pub async fn keep(&mut self) {
        // The answer to the last write may have come late, so the time of this call does not count. Otherwise, the
        // fence could close and open again, and the requests in between would be lost.
        let mut pause = self.candidate.interval();
        while self.renewed.elapsed() < self.candidate.deadline() {
            tokio::time::sleep(pause).await;
            pause = self.candidate.interval();
            let sent = Instant::now();
            let left = self.candidate.deadline().saturating_sub(self.renewed.elapsed());
            // There is time for a second attempt, on a new connection.
            let limit = left.min(self.candidate.deadline() / 2);
            match tokio::time::timeout(limit, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => self.open(sent),
                Ok(Ok(_)) => {
                    if self.is_held_by_another() {
                        break;
                    }
                }
                Ok(Err(why)) => tracing::warn!(%why, "the lease was not renewed"),
                Err(_) => {
                    tracing::warn!(?limit, "the lease was not renewed in time");
                    self.client.drop_idle();
                    pause = Duration::ZERO;
                }
            }
        }
        self.fence.close();
    }

    /// Releases the lease, so that the next process need not wait. Call this only when no request is in flight any
    /// more.
    pub async fn give_back(&mut self) {
        self.fence.close();
        let Some(ObservedLease { record, .. }) = self.observed.take() else { return };
        let path = format!("{}/{}", self.path(), self.candidate.name);
        let mut done = self.release(record, &path).await;
        // A renewal in flight may be carried out after the last read, so the lease has a newer version.
        for _ in 0..RELEASES_MAX {
            if !matches!(&done, Some(Ok(response)) if response.status == 409) {
                break;
            }
            done = match self.client.call(&Call::get(&path)).await {
                Ok(found) if found.status == 200 => {
                    let lease = serde_json::from_slice(&found.body).unwrap_or_default();
                    self.release(lease, &path).await
                }
                other => Some(other),
            };
        }
        match done {
            Some(Ok(response)) if response.status != 200 => {
                let (status, message) = (response.status, response.message());
                tracing::warn!(status, message, "the lease was not released: it expires");
            }
            Some(Err(why)) => tracing::warn!(%why, "the lease was not released: it expires"),
            Some(Ok(_)) | None => {}
        }
    }

    /// Writes a lease without a holder. Returns `None` if another process holds the lease.
    async fn release(&self, mut lease: Value, path: &str) -> Option<Result<Response, CallError>> {
        if text(&lease, "holderIdentity") != self.candidate.identity {
            return None;
        }
        lease["spec"]["holderIdentity"] = "".into();
        lease["spec"]["leaseDurationSeconds"] = 1.into();
        lease["spec"]["renewTime"] = time::micros(SystemTime::now()).into();
        Some(self.client.call(&Call::json(Method::PUT, path, &lease)).await)
    }

    fn is_held_by_another(&self) -> bool {
        let observed = self.observed.as_ref();
        observed.is_some_and(|observed| {
            text(&observed.record, "holderIdentity") != self.candidate.identity
        })
    }

    async fn attempt(&mut self) -> Result<Attempt, CallError> {
        let path = format!("{}/{}", self.path(), self.candidate.name);
        let found = self.client.call(&Call::get(&path)).await?;
        match found.status {
            404 => self.create().await,
            200 => {
                let Ok(lease) = serde_json::from_slice::<Value>(&found.body) else {
                    return Ok(Attempt::Not);
                };
                self.update(lease, path).await
            }
            status => {
                tracing::warn!(status, message = %found.message(), "the lease cannot be read");
                Ok(Attempt::Not)
            }
        }
    }

    fn spec(&self, acquired: &str, transitions: u64) -> Value {
        json!({"holderIdentity": self.candidate.identity, "leaseTransitions": transitions,
            "leaseDurationSeconds": self.candidate.duration.as_secs(), "acquireTime": acquired,
            "renewTime": time::micros(SystemTime::now())})
    }

    async fn create(&mut self) -> Result<Attempt, CallError> {
        // If the lease of another process was deleted, that process may write until its deadline.
        let holder =
            self.observed.as_ref().map_or("", |observed| text(&observed.record, "holderIdentity"));
        let is_free = holder.is_empty() || holder == self.candidate.identity;
        let Candidate { namespace, name, .. } = &self.candidate;
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
            "spec": self.spec(&time::micros(SystemTime::now()), 0)});
        let answer = self.client.call(&Call::json(Method::POST, self.path(), &lease)).await?;
        if answer.status != 201 {
            return Ok(Attempt::Not);
        }
        let _ = self.ours(&answer.body);
        let writes_for = self.candidate.deadline();
        Ok(if is_free { Attempt::Held } else { Attempt::TakenOver { writes_for } })
    }

    fn ours(&mut self, body: &[u8]) -> Attempt {
        if let Ok(record) = serde_json::from_slice(body) {
            self.observed = Some(ObservedLease { record, at: Instant::now() });
        }
        Attempt::Held
    }

    async fn update(&mut self, mut lease: Value, path: String) -> Result<Attempt, CallError> {
        if self.observed.as_ref().is_none_or(|observed| observed.record["spec"] != lease["spec"]) {
            self.observed = Some(ObservedLease { record: lease.clone(), at: Instant::now() });
        }
        let holder = text(&lease, "holderIdentity").to_owned();
        let ours = holder == self.candidate.identity;
        let valid = self
            .observed
            .as_ref()
            .is_some_and(|observed| observed.at.elapsed() < self.candidate.duration);
        if !ours && !holder.is_empty() && valid {
            return Ok(Attempt::Not);
        }
        let transitions = lease["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
        let acquired = if ours {
            text(&lease, "acquireTime").to_owned()
        } else {
            time::micros(SystemTime::now())
        };
        lease["spec"] = self.spec(&acquired, transitions + u64::from(!ours));
        // The request contains the resource version, so the write fails if another process wrote first.
        let answer = self.client.call(&Call::json(Method::PUT, path, &lease)).await?;
        if answer.status != 200 {
            return Ok(Attempt::Not);
        }
        let _ = self.ours(&answer.body);
        if ours || holder.is_empty() {
            return Ok(Attempt::Held);
        }
        // The other process has not renewed the lease, so its deadline is over.
        Ok(Attempt::TakenOver { writes_for: Duration::ZERO })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::config::Config;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    /// Starts a server that gives these answers, each on a connection of its own. Returns its listener after the last
    /// answer.
    fn serve(answers: Vec<(&'static str, String)>) -> (String, JoinHandle<TcpListener>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                // The client sends little, and writes it at once.
                let mut request = [0; 4096];
                assert!(stream.read(&mut request).unwrap() > 0, "the client has closed");
                let length = body.len();
                let head = format!("HTTP/1.1 {status}\r\nConnection: close");
                let answer = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).unwrap();
            }
            listener
        });
        (url, server)
    }

    fn election(url: &str, fence: &Fence) -> Election {
        let client = Client::new(Config::plain(url), Duration::from_secs(300)).unwrap();
        let name = String::from;
        let (namespace, lease, identity) = (name("n"), name("l"), name("us"));
        let duration = Duration::from_secs(3);
        let candidate = Candidate { namespace, name: lease, identity, duration };
        Election::new(client, candidate, fence.clone())
    }

    fn block_on(future: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future);
    }

    const EMPTY: &str = "{}";

    #[test]
    fn a_lease_is_kept_from_the_time_at_which_its_last_write_was_sent() {
        // The lease is read, and then created.
        let answers = [("404 Not Found", EMPTY), ("201 Created", EMPTY)];
        let (url, server) = serve(answers.map(|(status, body)| (status, body.to_owned())).into());
        let fence = Fence::closed();
        let mut election = election(&url, &fence);
        let deadline = election.candidate.deadline();
        block_on(async {
            election.win().await;
            assert!(fence.is_open());
            let listener = server.join().unwrap();
            // As if the answer had taken that long.
            election.renewed -= deadline;
            election.keep().await;
            assert!(!fence.is_open());
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err(), "the lease was renewed after the fence had closed");
        });
    }

    #[test]
    fn a_deleted_lease_of_another_process_is_taken_over() {
        let other = json!({"spec": {"holderIdentity": "other", "leaseDurationSeconds": 15}});
        let answers = vec![
            ("200 OK", other.to_string()),
            ("404 Not Found", EMPTY.to_owned()),
            ("201 Created", EMPTY.to_owned()),
        ];
        let (url, server) = serve(answers);
        let mut election = election(&url, &Fence::closed());
        block_on(async {
            assert!(matches!(election.attempt().await, Ok(Attempt::Not)));
            let Ok(Attempt::TakenOver { writes_for }) = election.attempt().await else {
                panic!("it is not taken over");
            };
            assert_eq!(writes_for, election.candidate.deadline());
        });
        server.join().unwrap();
    }

    #[test]
    fn a_lease_that_was_renewed_meanwhile_is_released() {
        let ours = |version: &str| json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": "us"}});
        let answers = vec![
            ("409 Conflict", EMPTY.to_owned()),
            ("200 OK", ours("8").to_string()),
            ("200 OK", EMPTY.to_owned()),
        ];
        let (url, server) = serve(answers);
        let mut election = election(&url, &Fence::closed());
        election.observed = Some(ObservedLease { record: ours("7"), at: Instant::now() });
        block_on(async {
            election.give_back().await;
            // The server ends after its last answer.
            server.join().unwrap();
        });
    }

    #[test]
    fn a_connection_without_answers_does_not_cost_the_lease() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let fence = Fence::closed();
        let mut election = election(&url, &fence);
        // The first connection gets no answer; the others show that another process has the lease.
        std::thread::spawn(move || {
            let (_silent, _) = listener.accept().unwrap();
            while let Ok((mut stream, _)) = listener.accept() {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let other = json!({"spec": {"holderIdentity": "other"}}).to_string();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", other.len());
                let _ = stream.write_all(format!("{head}{other}").as_bytes());
            }
        });
        // As if the lease were valid for long, so that the test does not depend on times.
        election.open(Instant::now() + Duration::from_secs(600));
        block_on(election.keep());
        assert!(election.is_held_by_another() && !fence.is_open());
    }
}
