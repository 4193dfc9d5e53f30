//! The double over HTTP, with faults that a test switches on and off.

use super::hostile::Hostile;
use super::query::Query;
use super::{Double, Response, Target};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// Faults of the server. A count is the number of calls that the fault still affects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Bindings that get the answer 429 with plain text.
    pub(crate) throttled: u32,
    /// Bindings that are carried out, but whose answer is lost.
    pub(crate) lost_answers: u32,
    /// Bindings that are lost before they are carried out.
    pub(crate) lost_requests: u32,
    /// Bindings that get the answer 500, and are not carried out.
    pub(crate) failing: u32,
    /// Bindings that get a conflict and are not carried out, so that a later GET shows the pod unbound.
    pub(crate) conflicting: u32,
    /// Time from the receipt of a binding until it is carried out.
    pub(crate) binding_delay: Duration,
    /// Minimum delay of the events of watches.
    pub(crate) watch_delay: Duration,
    /// Rights that the client lacks, such as `patch pods/status`.
    pub(crate) forbidden: Vec<&'static str>,
    /// Whether WatchList is rejected, as by an old server.
    pub(crate) no_watch_list: bool,
    /// The answer to lists and watches of pods.
    pub(crate) hostile: Option<Hostile>,
}

/// A call that was received, for checks at the end of a test.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) agent: String,
}

struct Shared {
    double: Mutex<Double>,
    faults: Mutex<Faults>,
    calls: Mutex<Vec<Called>>,
    /// Counts changes, so that watches wake.
    changed: watch::Sender<u64>,
    /// Number of requests to close all watches.
    closed: watch::Sender<u64>,
    /// Number of open connections at the server's address.
    open: watch::Sender<usize>,
}

/// An open connection, which is counted until this value is dropped.
struct Connected(watch::Sender<usize>);

impl Connected {
    fn count(open: &watch::Sender<usize>) -> Connected {
        open.send_modify(|count| *count += 1);
        Connected(open.clone())
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// A double that listens on a port. Clones share it.
#[derive(Clone)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
}

/// A response body that is sent in pieces.
pub(super) struct Stream(mpsc::Receiver<Bytes>);

impl Stream {
    pub(super) fn of(pieces: mpsc::Receiver<Bytes>) -> Stream {
        Stream(pieces)
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|next| next.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Server {
    /// Starts a server on the current runtime.
    pub(crate) async fn start(double: Double, address: SocketAddr) -> Server {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            double: Mutex::new(double),
            faults: Mutex::default(),
            calls: Mutex::default(),
            changed: watch::Sender::new(0),
            closed: watch::Sender::new(0),
            open: watch::Sender::new(0),
        });
        let server = Server { shared, address };
        tokio::spawn(server.clone().accept(listener, server.shared.open.clone()));
        server
    }

    /// Accepts connections, and counts those that are open.
    async fn accept(self, listener: TcpListener, open: watch::Sender<usize>) {
        while let Ok((socket, _)) = listener.accept().await {
            let (server, connected) = (self.clone(), Connected::count(&open));
            tokio::spawn(async move {
                let answer = service_fn(move |request| {
                    let server = server.clone();
                    async move { server.answer(request).await.ok_or("the answer is lost") }
                });
                let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), answer).await;
                drop(connected);
            });
        }
    }

    /// Listens at another address, too, for clients that [`Server::until_unused`] does not wait for. Returns it.
    pub(crate) async fn second_url(&self) -> String {
        let listener = TcpListener::bind((self.address.ip(), 0)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(self.clone().accept(listener, watch::Sender::new(0)));
        format!("http://{address}")
    }

    /// Waits until the last connection at the server's address is closed. Then no request of a killed program will be
    /// carried out.
    pub(crate) async fn until_unused(&self) {
        // Connections are accepted in their order: when this one is answered, earlier ones are counted.
        let last = TcpStream::connect(self.address).await.expect("the server listens");
        last.writable().await.expect("it is connected");
        let request = b"GET /version HTTP/1.1\r\nHost: double\r\nConnection: close\r\n\r\n";
        assert_eq!(last.try_write(request).expect("it is connected"), request.len());
        last.readable().await.expect("an answer");
        drop(last);
        let mut open = self.shared.open.subscribe();
        open.wait_for(|count| *count == 0).await.expect("the server lives");
    }

    /// The server's address with the scheme.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Locks the state. To report changes to the watches, the guard is passed to [`Server::changed`].
    pub(crate) fn lock(&self) -> MutexGuard<'_, Double> {
        self.shared.double.lock().expect("no panic with it")
    }

    /// Changes the state, and reports the change to the watches.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Double) -> T) -> T {
        let done = change(&mut self.lock());
        self.shared.changed.send_modify(|count| *count += 1);
        done
    }

    /// Changes the faults.
    pub(crate) fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.shared.faults.lock().expect("no panic with it"));
    }

    /// Closes all watches.
    pub(crate) fn close_watches(&self) {
        self.shared.closed.send_modify(|count| *count += 1);
    }

    /// The calls received so far.
    pub(crate) fn calls(&self) -> Vec<Called> {
        self.shared.calls.lock().expect("no panic with it").clone()
    }

    /// Waits until the state fulfils a condition.
    pub(crate) async fn until(&self, wanted: impl Fn(&Double) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if wanted(&self.lock()) {
                return;
            }
            changed.changed().await.expect("the server lives");
        }
    }

    async fn answer(&self, request: http::Request<Incoming>) -> Option<http::Response<Stream>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.uri.to_string();
        let query = Query::parse(head.uri.query().unwrap_or_default());
        if let Some(answer) = self.hostile(&head, &query) {
            return Some(answer);
        }
        let method = head.method.as_str();
        if let Some(answer) = self.forbidden(method, head.uri.path(), &query) {
            return Some(answer);
        }
        if query.has("watch")
            && let Some(target) = Target::of(head.uri.path())
        {
            return Some(self.watch(target, &query));
        }
        let is_binding = method == "POST" && path.ends_with("/binding");
        let content = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content = content.unwrap_or_default();
        let agent = head.headers.get("user-agent").and_then(|agent| agent.to_str().ok());
        let answer = if is_binding {
            let delay = self.shared.faults.lock().expect("no panic with it").binding_delay;
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            self.binding(&path, &body)
        } else {
            Some(self.plain(method, &path, content, &body))
        };
        let called = Called {
            method: method.to_owned(),
            path,
            status: answer.as_ref().map_or(0, |answer| answer.status().as_u16()),
            agent: agent.unwrap_or_default().to_owned(),
        };
        self.shared.calls.lock().expect("no panic with it").push(called);
        self.shared.changed.send_modify(|count| *count += 1);
        answer
    }

    /// Returns the hostile answer to a list or watch of pods. Calls that get it are recorded with the agent `struck`.
    fn hostile(
        &self,
        head: &http::request::Parts,
        query: &Query,
    ) -> Option<http::Response<Stream>> {
        let faults = self.shared.faults.lock().expect("no panic with it").clone();
        let hostile = faults.hostile.filter(|_| head.uri.path() == super::PODS)?;
        if query.has("watch") && faults.no_watch_list {
            return None;
        }
        let answer = hostile.answer();
        let (method, path) = (head.method.to_string(), head.uri.to_string());
        let status = answer.status().as_u16();
        let called = Called { method, path, status, agent: "struck".into() };
        self.shared.calls.lock().expect("no panic with it").push(called);
        self.shared.changed.send_modify(|count| *count += 1);
        Some(answer)
    }

    /// Returns the rejection of a call for which the client lacks the right.
    fn forbidden(&self, method: &str, path: &str, query: &Query) -> Option<http::Response<Stream>> {
        let forbidden = self.shared.faults.lock().expect("no panic with it").forbidden.clone();
        let refusal = super::forbid::refusal(&forbidden, method, &Target::of(path)?, query)?;
        let called = Called {
            method: method.to_owned(),
            path: path.to_owned(),
            status: refusal.status,
            agent: "forbidden".into(),
        };
        self.shared.calls.lock().expect("no panic with it").push(called);
        self.shared.changed.send_modify(|count| *count += 1);
        Some(whole(&refusal))
    }

    fn plain(
        &self,
        method: &str,
        path: &str,
        content: &str,
        body: &Value,
    ) -> http::Response<Stream> {
        whole(&self.with(|double| double.call_as(method, path, content, body)))
    }

    /// Answers a binding, subject to the faults.
    fn binding(&self, path: &str, body: &Value) -> Option<http::Response<Stream>> {
        let struck = |pick: fn(&mut Faults) -> &mut u32| {
            let mut faults = self.shared.faults.lock().expect("no panic with it");
            let left = pick(&mut faults);
            let strikes = *left > 0;
            *left = left.saturating_sub(1);
            strikes
        };
        if struck(|faults| &mut faults.throttled) {
            let mut answer = respond(429, "Too many requests, please try again later.\n".into());
            let plain = HeaderValue::from_static("text/plain; charset=utf-8");
            answer.headers_mut().insert(CONTENT_TYPE, plain);
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return Some(answer);
        }
        if struck(|faults| &mut faults.lost_requests) {
            return None;
        }
        if struck(|faults| &mut faults.failing) {
            return Some(whole(&super::failure(500, Some("InternalError"), "injected".into())));
        }
        if struck(|faults| &mut faults.conflicting) {
            return Some(whole(&super::conflict("pods/binding", "it", "injected")));
        }
        let lost = struck(|faults| &mut faults.lost_answers);
        let answer = self.plain("POST", path, "application/json", body);
        if lost { None } else { Some(answer) }
    }

    fn watch(&self, target: Target, query: &Query) -> http::Response<Stream> {
        let old = self.shared.faults.lock().expect("no panic with it").no_watch_list;
        if old && query.has("sendInitialEvents") {
            let message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            return whole(&super::failure(422, Some("Invalid"), message.into()));
        }
        let opened = self.with(|double| {
            double.watches += 1;
            double.watch(target, query)
        });
        let mut opened = match opened {
            Ok(opened) => opened,
            Err(refusal) => return whole(&refusal),
        };
        let seconds = query.number("timeoutSeconds").unwrap_or(1800);
        let (sender, receiver) = mpsc::channel::<Bytes>(64);
        let server = self.clone();
        tokio::spawn(async move {
            let mut changed = server.shared.changed.subscribe();
            let mut closed = server.shared.closed.subscribe();
            let end = tokio::time::sleep(Duration::from_secs(seconds));
            tokio::pin!(end);
            loop {
                changed.borrow_and_update();
                let events = server.lock().events(&mut opened);
                let delay = server.shared.faults.lock().expect("no panic with it").watch_delay;
                tokio::time::sleep(delay).await;
                for event in events {
                    let ends = event["type"] == "ERROR";
                    if sender.send(format!("{event}\n").into()).await.is_err() || ends {
                        return;
                    }
                }
                tokio::select! {
                    _ = changed.changed() => {}
                    _ = closed.changed() => return,
                    () = &mut end => break,
                }
            }
            if opened.wants_bookmarks() {
                let bookmark = server.lock().bookmark(&opened);
                let _ = sender.send(format!("{bookmark}\n").into()).await;
            }
        });
        let mut response = http::Response::new(Stream(receiver));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

pub(super) fn respond(status: u16, body: String) -> http::Response<Stream> {
    let (sender, receiver) = mpsc::channel(1);
    let _ = sender.try_send(body.into());
    let mut response = http::Response::new(Stream(receiver));
    *response.status_mut() = http::StatusCode::from_u16(status).expect("a status");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn whole(answer: &Response) -> http::Response<Stream> {
    respond(answer.status, answer.body.to_string())
}
