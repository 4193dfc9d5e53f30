//! Leader election by a Lease, as in Kubernetes' own controllers.
//!
//! A leader renews its lease often. It may write for two thirds of the lease's duration after its last successful
//! renewal. Another process takes over when it has seen no renewal for the whole duration. Before it writes, it also
//! waits for the timeout of a request, because a request of the old leader may still be in flight. So two processes
//! never write at the same time.
//!
//! Duration and timeout may differ between the processes, for example during an update. So each waits for the longer of
//! its own and the old leader's, which are in the lease.

use super::fence::Fence;
use crate::client::{Call, CallError, Client, Response, time};
use http::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant, SystemTime};

/// Number of further attempts to release the lease after a conflict.
const RELEASES_MAX: u32 = 3;

/// The longest duration of a lease, and the longest timeout of a request, that the options of another process allow.
const OPTION_MAX: Duration = Duration::from_secs(300);

/// Annotation with the time in seconds for which requests may arrive after the holder has stopped to write.
const ARRIVAL: &str = "omega-kube/late-requests-seconds";

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

/// Returns how long the holder of a lease of this duration may write after a renewal.
fn deadline(duration: Duration) -> Duration {
    duration * 2 / 3
}

impl Candidate {
    fn deadline(&self) -> Duration {
        deadline(self.duration)
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
    TakenOver,
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
    /// Time for which requests of the old leader may still arrive after this process has acquired the lease; `None` if
    /// there is none, or after the wait.
    wait: Option<Duration>,
}

fn text<'a>(lease: &'a Value, field: &str) -> &'a str {
    lease["spec"][field].as_str().unwrap_or_default()
}

impl Election {
    /// Creates the election of a candidate. The election opens and closes `fence`.
    #[must_use]
    pub fn new(client: Client, candidate: Candidate, fence: Fence) -> Election {
        Election { client, candidate, fence, observed: None, renewed: Instant::now(), wait: None }
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
                // The answer to the write that took the lease over may have been lost, so the wait decides.
                Ok(Attempt::Held | Attempt::TakenOver) => match self.wait {
                    None => {
                        self.open(sent);
                        return;
                    }
                    Some(wait) => {
                        if self.renew_until(sent, Instant::now() + wait).await {
                            return;
                        }
                    }
                },
                Ok(Attempt::Not) => {}
                Err(why) if why.is_no_answer() => {}
                Err(why) => tracing::warn!(%why, "the lease cannot be read or written"),
            }
            tokio::time::sleep(self.candidate.interval()).await;
        }
    }

    /// Opens the fence after a write of the lease that was sent at this time.
    fn open(&mut self, sent: Instant) {
        (self.renewed, self.wait) = (sent, None);
        self.fence.open_until(sent + self.candidate.deadline());
    }

    /// Keeps the fence open after a renewal that was sent at this time. Returns `false` if the fence has closed, so
    /// that requests may have been lost.
    fn extend(&mut self, sent: Instant) -> bool {
        self.renewed = sent;
        self.fence.extend_until(sent + self.candidate.deadline())
    }

    /// Renews the lease until `end`, and then opens the fence. The last write was sent at `renewed`. Returns `false`
    /// if the lease is lost before `end`.
    async fn renew_until(&mut self, mut renewed: Instant, end: Instant) -> bool {
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
                // The answer may have come too late, for example because this process was suspended.
                Ok(Ok(Attempt::Held)) if self.wait.is_none() => {
                    if !self.extend(sent) {
                        break;
                    }
                }
                Ok(Ok(_)) => {
                    // If another process had the lease meanwhile, this process must wait like any other.
                    if self.is_held_by_another() || self.wait.is_some() {
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
        // While requests of the old leader may arrive, the next process must wait, too.
        let observed = self.observed.take().filter(|_| self.wait.is_none());
        let Some(ObservedLease { record, .. }) = observed else { return };
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
                let lease = serde_json::from_slice::<Value>(&found.body);
                match lease.ok().filter(Value::is_object) {
                    Some(lease) => self.update(lease, path).await,
                    None => Ok(Attempt::Not),
                }
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

    /// Returns the longer of this process's duration and the duration of an observed lease.
    fn longer_duration(&self, lease: &Value) -> Duration {
        let theirs = lease["spec"]["leaseDurationSeconds"].as_u64().map(Duration::from_secs);
        self.candidate.duration.max(theirs.unwrap_or_default().min(OPTION_MAX))
    }

    /// Returns the time for which requests of a lease's holder may arrive after it has stopped to write.
    fn arrival(&self, lease: &Value) -> Duration {
        let theirs = lease["metadata"]["annotations"][ARRIVAL].as_str();
        let theirs = theirs.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        self.client.timeout().max(theirs.unwrap_or_default().min(OPTION_MAX * 2))
    }

    /// Records the old holder of the lease that this process is about to write, and the wait that its requests need.
    fn note_holder(&mut self, holder: &str, wait: Duration) {
        if holder != self.candidate.identity {
            self.wait = (!holder.is_empty()).then_some(wait);
        }
    }

    /// Writes into a lease for how long requests may arrive after this process has stopped to write.
    fn annotate(&self, lease: &mut Value) {
        let seconds = self.wait.unwrap_or_default().max(self.client.timeout()).as_secs();
        let Some(metadata) = lease["metadata"].as_object_mut() else { return };
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[ARRIVAL] = seconds.to_string().into();
    }

    async fn create(&mut self) -> Result<Attempt, CallError> {
        // If the lease of another process was deleted, that process may write until its deadline.
        let old = self.observed.as_ref().map_or(Value::Null, |observed| observed.record.clone());
        let holder = text(&old, "holderIdentity");
        self.note_holder(holder, deadline(self.longer_duration(&old)) + self.arrival(&old));
        let Candidate { namespace, name, .. } = &self.candidate;
        let mut lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
            "spec": self.spec(&time::micros(SystemTime::now()), 0)});
        self.annotate(&mut lease);
        let answer = self.client.call(&Call::json(Method::POST, self.path(), &lease)).await?;
        Ok(if answer.status == 201 { self.written(&answer, holder) } else { Attempt::Not })
    }

    /// Handles the answer to a write of the lease, whose holder was `old`. An answer that is no object is not from the
    /// API server.
    fn written(&mut self, answer: &Response, old: &str) -> Attempt {
        if !answer.is_object() {
            return Attempt::Not;
        }
        if let Ok(record) = serde_json::from_slice(&answer.body) {
            self.observed = Some(ObservedLease { record, at: Instant::now() });
        }
        let was_free = old.is_empty() || old == self.candidate.identity;
        if was_free { Attempt::Held } else { Attempt::TakenOver }
    }

    async fn update(&mut self, mut lease: Value, path: String) -> Result<Attempt, CallError> {
        if self.observed.as_ref().is_none_or(|observed| observed.record["spec"] != lease["spec"]) {
            self.observed = Some(ObservedLease { record: lease.clone(), at: Instant::now() });
        }
        let holder = text(&lease, "holderIdentity").to_owned();
        let ours = holder == self.candidate.identity;
        let duration = self.longer_duration(&lease);
        let valid = self.observed.as_ref().is_some_and(|observed| observed.at.elapsed() < duration);
        if !ours && !holder.is_empty() && valid {
            return Ok(Attempt::Not);
        }
        // The other process has not renewed the lease, so its deadline is over.
        self.note_holder(&holder, self.arrival(&lease));
        let transitions = lease["spec"]["leaseTransitions"].as_u64().unwrap_or(0);
        let acquired = if ours {
            text(&lease, "acquireTime").to_owned()
        } else {
            time::micros(SystemTime::now())
        };
        lease["spec"] = self.spec(&acquired, transitions + u64::from(!ours));
        self.annotate(&mut lease);
        // The request contains the resource version, so the write fails if another process wrote first.
        let answer = self.client.call(&Call::json(Method::PUT, path, &lease)).await?;
        Ok(if answer.status == 200 { self.written(&answer, &holder) } else { Attempt::Not })
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

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(future)
    }

    const EMPTY: &str = r#"{"metadata":{}}"#;

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
    fn a_late_renewal_does_not_open_the_fence_again() {
        let ours = json!({"spec": {"holderIdentity": "us"}}).to_string();
        let (url, server) = serve(vec![("200 OK", ours), ("200 OK", EMPTY.to_owned())]);
        let fence = Fence::closed();
        let mut election = election(&url, &fence);
        // As if this process had been suspended during the renewal.
        election.open(Instant::now() + Duration::from_secs(600));
        fence.open_until(Instant::now());
        block_on(async {
            election.keep().await;
            assert!(!fence.is_open());
            let listener = server.join().unwrap();
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err(), "the lease was renewed again");
        });
    }

    #[test]
    fn a_lease_taken_over_is_lost_when_the_answer_came_after_its_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        // No renewal succeeds.
        drop(listener);
        let fence = Fence::closed();
        let mut election = election(&url, &fence);
        let sent = Instant::now() - election.candidate.deadline();
        let end = Instant::now() + Duration::from_millis(1);
        block_on(async { assert!(!election.renew_until(sent, end).await) });
        assert!(!fence.is_open());
    }

    /// A lease of another process with this duration, whose requests may arrive 900 seconds late.
    fn other(duration: u64) -> Value {
        json!({"kind": "Lease", "metadata": {"annotations": {ARRIVAL: "900"}},
            "spec": {"holderIdentity": "other", "leaseDurationSeconds": duration}})
    }

    #[test]
    fn a_deleted_lease_of_another_process_is_taken_over() {
        for (theirs, longer) in [(0, 3), (1, 3), (15, 15), (300, 300), (1_000_000, 300)] {
            let answers = vec![
                ("200 OK", other(theirs).to_string()),
                ("404 Not Found", EMPTY.to_owned()),
                ("201 Created", EMPTY.to_owned()),
            ];
            let (url, server) = serve(answers);
            let mut election = election(&url, &Fence::closed());
            block_on(async {
                assert!(matches!(election.attempt().await, Ok(Attempt::Not)));
                assert!(matches!(election.attempt().await, Ok(Attempt::TakenOver)));
            });
            let wait = Duration::from_secs(longer) * 2 / 3 + OPTION_MAX * 2;
            assert_eq!(election.wait, Some(wait), "{theirs}");
            server.join().unwrap();
        }
    }

    #[test]
    fn a_lease_is_taken_over_after_the_longer_duration() {
        for (ours, theirs, longer) in
            [(15, 300, 300), (300, 15, 300), (15, 0, 15), (15, 1_000_000, 300)]
        {
            let mut election = election("http://127.0.0.1:1", &Fence::closed());
            election.candidate.duration = Duration::from_secs(ours);
            assert_eq!(election.longer_duration(&other(theirs)), Duration::from_secs(longer));
            assert_eq!(election.longer_duration(&Value::Null), Duration::from_secs(ours));
        }
        for (theirs, is_over) in [(300, false), (0, true)] {
            let answers = vec![("200 OK", other(theirs).to_string()), ("200 OK", EMPTY.to_owned())];
            let (url, server) = serve(answers.into_iter().take(1 + usize::from(is_over)).collect());
            let mut election = election(&url, &Fence::closed());
            election.candidate.duration = Duration::ZERO;
            let attempt = block_on(election.attempt());
            assert_eq!(matches!(attempt, Ok(Attempt::TakenOver)), is_over, "{theirs}");
            assert_eq!(election.wait, is_over.then_some(OPTION_MAX * 2));
            server.join().unwrap();
        }
    }

    #[test]
    fn a_lost_answer_does_not_shorten_the_wait_for_the_old_leader() {
        let ours = json!({"kind": "Lease", "spec": {"holderIdentity": "us"}}).to_string();
        let (url, server) = serve(vec![("200 OK", ours), ("200 OK", EMPTY.to_owned())]);
        let mut election = election(&url, &Fence::closed());
        election.note_holder("other", OPTION_MAX);
        block_on(async {
            assert!(matches!(election.attempt().await, Ok(Attempt::Held)));
            assert_eq!(election.wait, Some(OPTION_MAX));
            // The lease is not released either, because the next process must wait, too.
            election.give_back().await;
        });
        server.join().unwrap();
        let mut lease = json!({"metadata": {}});
        election.annotate(&mut lease);
        assert_eq!(lease["metadata"]["annotations"][ARRIVAL], "300");
    }

    #[test]
    fn an_answer_that_is_no_object_is_no_lease() {
        for answers in [
            vec![("200 OK", "[]".to_owned())],
            vec![("404 Not Found", EMPTY.to_owned()), ("201 Created", "<html>".to_owned())],
            vec![("200 OK", json!({"metadata": "?"}).to_string()), ("200 OK", "{}".to_owned())],
        ] {
            let (url, server) = serve(answers);
            let mut election = election(&url, &Fence::closed());
            block_on(async { assert!(matches!(election.attempt().await, Ok(Attempt::Not))) });
            server.join().unwrap();
        }
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
