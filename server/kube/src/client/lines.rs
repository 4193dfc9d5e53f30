//! Lines of a stream, such as the events of a watch.

use super::CallError;
use super::connection::Sender;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum length of a line in bytes. Etcd accepts objects of 1.5 MiB, and JSON escapes make them longer.
const LINE_MAX: usize = 16 << 20;

/// A stream of lines. Dropping it closes its connection.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    _connection: Sender,
    buffer: BytesMut,
    /// Length of the beginning of the buffer that was already searched for the end of a line.
    searched: usize,
    longest: Duration,
    end: Instant,
}

impl Lines {
    pub(super) fn new(body: Incoming, connection: Sender, longest: Duration) -> Lines {
        let (buffer, end) = (BytesMut::new(), Instant::now() + longest);
        Lines { body, _connection: connection, buffer, searched: 0, longest, end }
    }

    /// Returns the next line, without its end; `None` at the end of the stream.
    ///
    /// # Errors
    /// If the connection breaks, or nothing arrives for too long.
    pub async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            let fresh = &self.buffer[self.searched..];
            if let Some(at) = fresh.iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(self.searched + at + 1);
                line.truncate(line.len() - 1);
                self.searched = 0;
                return Ok(Some(line.freeze()));
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_MAX {
                return Err(CallError::Line(LINE_MAX));
            }
            let frame = tokio::time::timeout_at(self.end, self.body.frame()).await;
            match frame.map_err(|_| CallError::Timeout(self.longest))? {
                None if self.buffer.is_empty() => return Ok(None),
                None => {
                    self.searched = 0;
                    return Ok(Some(self.buffer.split().freeze()));
                }
                Some(Err(why)) => return Err(CallError::Broken(why.to_string())),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}
