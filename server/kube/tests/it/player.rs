//! A player of recorded answers: an HTTP server that sends the answers of a transcript byte for byte.

use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Bytes of an answer, after which the connection is closed. Without bytes, the request is lost.
#[derive(Debug, Default)]
pub(crate) struct Play(Vec<u8>);

/// A request that the player received.
#[derive(Debug)]
pub(crate) struct ReceivedRequest {
    /// Method and path without the query.
    pub(crate) call: String,
    pub(crate) query: String,
    pub(crate) token: String,
    pub(crate) body: Value,
}

/// Whether a played stream ends as one of a killed server: in the middle of its body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Whole,
    Cut,
}

fn head(call: &Value) -> String {
    let answer = &call["response"];
    let mut head = format!("HTTP/1.1 {} recorded\r\nConnection: close\r\n", answer["status"]);
    for (name, value) in answer["headers"].as_object().into_iter().flatten() {
        // The player sets the headers of the transfer itself.
        if name != "content-length" && name != "transfer-encoding" {
            head += &format!("{name}: {}\r\n", value.as_str().unwrap_or_default());
        }
    }
    head
}

/// Returns the recorded answer of a call.
pub(crate) fn answer(call: &Value) -> Play {
    let body = &call["response"]["body"];
    let body = body.as_str().map_or_else(|| format!("{body}\n"), str::to_owned);
    Play(format!("{}Content-Length: {}\r\n\r\n{body}", head(call), body.len()).into_bytes())
}

/// Returns the head of a recorded answer, with these events of a watch.
pub(crate) fn stream(call: &Value, events: &[Value], ending: Ending) -> Play {
    let mut text = format!("{}Transfer-Encoding: chunked\r\n\r\n", head(call));
    for event in events {
        let line = format!("{event}\n");
        text += &format!("{:x}\r\n{line}\r\n", line.len());
    }
    if ending == Ending::Whole {
        text += "0\r\n\r\n";
    }
    Play(text.into_bytes())
}

/// Returns the recorded events of a watch.
pub(crate) fn events(call: &Value) -> Vec<Value> {
    let events = call["response"]["stream"].as_array().expect("a stream");
    events.iter().map(|event| event["event"].clone()).collect()
}

/// Returns a recorded list as the initial events of a watch that starts with the list.
pub(crate) fn initial(call: &Value) -> Play {
    let list = &call["response"]["body"];
    let items = list["items"].as_array().expect("objects").iter();
    let mut events: Vec<_> =
        items.map(|item| json!({"type": "ADDED", "object": item.clone()})).collect();
    let end = json!({"k8s.io/initial-events-end": "true"});
    let metadata =
        json!({"resourceVersion": list["metadata"]["resourceVersion"], "annotations": end});
    events.push(json!({"type": "BOOKMARK", "object": {"metadata": metadata}}));
    stream(call, &events, Ending::Whole)
}

/// Starts a player of answers, which are taken in order for each method and path. A request without an answer is left
/// open. Returns the address of the player, and its requests.
pub(crate) fn play(answers: Vec<(String, Play)>) -> (String, UnboundedReceiver<ReceivedRequest>) {
    let mut left = BTreeMap::<String, VecDeque<Play>>::new();
    answers.into_iter().for_each(|(call, play)| left.entry(call).or_default().push_back(play));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (reported, requests) = unbounded_channel();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        while let Ok((mut socket, _)) = listener.accept() {
            let Some(request) = receive(&socket) else { continue };
            let play = left.get_mut(&request.call).and_then(VecDeque::pop_front);
            if reported.send(request).is_err() {
                return;
            }
            match play {
                Some(Play(bytes)) => drop(socket.write_all(&bytes)),
                None => open.push(socket),
            }
        }
    });
    (url, requests)
}

fn receive(socket: &TcpStream) -> Option<ReceivedRequest> {
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?, words.next()?);
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let (call, query) = (format!("{method} {path}"), query.to_owned());
    let (mut token, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "authorization" => value.clone_into(&mut token),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(ReceivedRequest {
        call,
        query,
        token,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}
