//! Lines of a stream, such as the events of a watch.

use super::connection::Sender;
use super::error::CallError;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum length of a line in bytes. Etcd accepts objects of 1.5 MiB, and JSON escapes make them longer.
const LINE_MAX: usize = 16 << 20;

/// Number of bytes that are kept from the start of a longer line, to find the object that the line is about.
const HEAD_MAX: usize = 64 << 10;

/// Maximum number of skipped bytes of one line. If the line is even longer, the stream is given up.
const SKIPPED_MAX: usize = 64 << 20;

/// A line without its newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A whole line.
    Whole(Bytes),
    /// The start of a line that is longer than any object can be, and the length of the line in bytes.
    Long(Bytes, usize),
}

/// A stream of lines. Dropping it closes its connection.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    _connection: Sender,
    buffer: BytesMut,
    /// Number of bytes at the start of the buffer that were already searched for the end of a line.
    searched: usize,
    /// While a line is skipped: its start, and the number of its bytes that are no longer in the buffer.
    skipped: Option<(Bytes, usize)>,
    longest: Duration,
    end: Instant,
}

impl Lines {
    pub(super) fn new(body: Incoming, connection: Sender, longest: Duration) -> Lines {
        let (buffer, end) = (BytesMut::new(), Instant::now() + longest);
        Lines { body, _connection: connection, buffer, searched: 0, skipped: None, longest, end }
    }

    /// Returns the next line; `None` at the end of the stream.
    ///
    /// # Errors
    /// If the connection breaks, the maximum duration of the stream is over, or a line is too long to be skipped.
    pub async fn next(&mut self) -> Result<Option<Line>, CallError> {
        loop {
            let fresh = &self.buffer[self.searched..];
            if let Some(at) = fresh.iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(self.searched + at + 1);
                line.truncate(line.len() - 1);
                return Ok(Some(self.ended(line.freeze())));
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_MAX || self.skipped.is_some() {
                self.skip()?;
            }
            let frame = tokio::time::timeout_at(self.end, self.body.frame()).await;
            match frame.map_err(|_| CallError::Timeout(self.longest))? {
                None if self.buffer.is_empty() && self.skipped.is_none() => return Ok(None),
                None => {
                    let line = self.buffer.split().freeze();
                    return Ok(Some(self.ended(line)));
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

    /// Returns the line whose last bytes are `rest`.
    fn ended(&mut self, rest: Bytes) -> Line {
        self.searched = 0;
        match self.skipped.take() {
            Some((head, length)) => Line::Long(head, length + rest.len()),
            None => Line::Whole(rest),
        }
    }

    /// Drops the buffer, which is a part of a line that is too long.
    fn skip(&mut self) -> Result<(), CallError> {
        let buffer = std::mem::take(&mut self.buffer);
        self.searched = 0;
        let (_, length) = self.skipped.get_or_insert_with(|| {
            (Bytes::copy_from_slice(&buffer[..HEAD_MAX.min(buffer.len())]), 0)
        });
        *length += buffer.len();
        if *length > SKIPPED_MAX { Err(CallError::Line(SKIPPED_MAX)) } else { Ok(()) }
    }
}
