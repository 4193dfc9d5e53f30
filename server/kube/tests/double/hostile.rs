//! Answers of a broken or hostile server to lists and watches of pods.

use super::http::{Stream, respond};
use bytes::Bytes;
use http::header::{HeaderValue, RETRY_AFTER};
use tokio::sync::mpsc;

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hostile {
    /// A watch with a line that has no end.
    EndlessLine,
    /// A list whose body has no end.
    EndlessBody,
    /// Pages of pods, each with a token for the next.
    EndlessPages,
    /// A watch that reports new pods without end.
    EndlessPods,
    /// Bytes that are no JSON.
    Garbage,
    /// A watch whose first and last events are longer than an object can be: a new pod `long`, and its deletion.
    LongLines,
    /// An object that is nested 200,000 deep, and an object with a label that is nested as deep.
    Nested,
    /// Status 429 with a `Retry-After` of 2^64 - 1 seconds.
    Throttled,
}

impl Hostile {
    pub(super) fn answer(self) -> http::Response<Stream> {
        let repeated = "a".repeat(1 << 16);
        match self {
            Hostile::EndlessLine => {
                let head = r#"{"type":"ADDED","object":{"metadata":{"name":""#;
                endless(head.to_owned(), move |_| repeated.clone())
            }
            Hostile::EndlessBody => {
                let item = format!(r#"{{"metadata":{{"name":"{repeated}"}}}},"#);
                endless(r#"{"metadata":{},"items":["#.to_owned(), move |_| item.clone())
            }
            Hostile::EndlessPages => {
                let items: Vec<String> = (0..100).map(pod).collect();
                let metadata = r#"{"resourceVersion":"1","continue":"on"}"#;
                let items = items.join(",");
                respond(200, format!(r#"{{"metadata":{metadata},"items":[{items}]}}"#))
            }
            Hostile::EndlessPods => endless(String::new(), |index| {
                let lines = (0..100).map(|more| pod(index * 100 + more));
                lines.map(|pod| format!("{{\"type\":\"ADDED\",\"object\":{pod}}}\n")).collect()
            }),
            Hostile::Garbage => respond(200, "\u{1b}[2J}{\u{0}\n[[\n\"\n".into()),
            Hostile::LongLines => {
                let long = |kind| {
                    let metadata = format!(
                        r#"{{"name":"long","namespace":"t","resourceVersion":"2","annotations":{{"a":"{}"}}}}"#,
                        "a".repeat(17 << 20)
                    );
                    format!(r#"{{"type":"{kind}","object":{{"metadata":{metadata}}}}}"#)
                };
                let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1",
                    "annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
                let new = format!(r#"{{"type":"ADDED","object":{}}}"#, pod(1));
                let lines = [long("ADDED"), new, end.replace('\n', ""), long("DELETED")];
                respond(200, lines.join("\n") + "\n")
            }
            Hostile::Nested => {
                let deep = format!("{}1{}", r#"{"a":"#.repeat(200_000), "}".repeat(200_000));
                let label = format!(r#"{{"metadata":{{"name":"deep","labels":{{"a":{deep}}}}}}}"#);
                let line = |object: &str| format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
                respond(200, line(&deep) + &line(&label))
            }
            Hostile::Throttled => {
                let mut answer = respond(429, "not now".into());
                let never = HeaderValue::from_static("18446744073709551615");
                answer.headers_mut().insert(RETRY_AFTER, never);
                answer
            }
        }
    }
}

fn pod(index: u32) -> String {
    format!(r#"{{"metadata":{{"name":"p{index}","namespace":"t","resourceVersion":"{index}"}}}}"#)
}

/// Returns a body that begins with a text, and continues with numbered texts without end.
fn endless(
    head: String,
    mut next: impl FnMut(u32) -> String + Send + 'static,
) -> http::Response<Stream> {
    let (sender, receiver) = mpsc::channel::<Bytes>(4);
    tokio::spawn(async move {
        let mut piece = head;
        for index in 0.. {
            if sender.send(piece.into()).await.is_err() {
                return;
            }
            piece = next(index);
        }
    });
    http::Response::new(Stream::of(receiver))
}
