//! Bodies of calls in progress: incomplete messages, and unread replies.
//!
//! Each message must be complete within a time limit. The limit counts from the call's first frame, or, in a stream of
//! messages, from the message's own first byte. So a client that sends only a part of a message cannot keep its slot
//! and memory for longer.
//!
//! Replies are passed to the transport in small parts, whenever the transport has room. The transport buffers these
//! parts until the client reads, and does not report how much it has buffered.

use crate::access::roles::CallKind;
use crate::overload::limits::CallPermit;
use crate::overload::memory_accounts::{CallerAccount, MemoryCharge};
use crate::overload::slots::InProgress;
use crate::overload::weight::Weight;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use omega_client::{ApiError, ErrorCode};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;

type Bytes = <Body as http_body::Body>::Data;

/// Bytes passed to the transport at once: an HTTP/2 frame.
const PART_BYTES: usize = 16 << 10;

/// Bytes before each gRPC message: a compression flag, and the length.
const HEADER_BYTES: usize = 5;

/// Maximum size of a message in memory, estimated from its bytes.
const MEMORY_MAX: usize = 64 << 20;

/// Size in memory up to which the last part of a message is always accepted.
const SMALL_BYTES: usize = 256 << 10;

/// Number of messages in a call, and their time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Messages {
    /// One message. The message and the end of the body must arrive by this time.
    One(Instant),
    /// Many messages, each of which must be complete within this time of its start.
    Many(Duration),
}

/// The body of a request.
pub(crate) struct Incoming {
    body: Body,
    messages: Messages,
    framing: Framing,
    /// Deadline of the message that has begun.
    until: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
    charge: Arc<Mutex<MemoryCharge>>,
}

impl Incoming {
    /// Wraps a body, and counts its bytes in `charge`. If the call has a single message, the gate releases the bytes
    /// after the call.
    pub(crate) fn new(
        body: Body,
        messages: Messages,
        charge: Arc<Mutex<MemoryCharge>>,
        weight: Weight,
    ) -> Incoming {
        let until = match messages {
            Messages::One(until) => Some(until),
            Messages::Many(_) => None,
        };
        Incoming { body, messages, framing: Framing::new(weight), until, alarm: None, charge }
    }

    /// Counts received bytes. Fails if the caller's share of memory is full, or if a message is too large in memory.
    fn count_received(&mut self, data: &Bytes) -> Result<(), ApiError> {
        let before = self.framing.weight.bytes();
        self.framing.feed(data);
        let in_memory = self.framing.weight.bytes().saturating_sub(before).max(data.len());
        if self.framing.message_bytes() > MEMORY_MAX {
            let message = format!(
                "nothing was done: the request would take more than {MEMORY_MAX} bytes of memory: \
                 divide it, or remove empty parts"
            );
            return Err(ApiError::new(ErrorCode::Malformed, message));
        }
        let is_whole = !self.framing.is_within();
        // The last part of a message is accepted if it is small, so that a small message that arrives in one part, such
        // as a lease renewal, is never rejected.
        let is_free = is_whole && in_memory <= SMALL_BYTES;
        let is_accepted = is_free || self.charge.lock().try_add(in_memory);
        if let Messages::Many(allowed) = self.messages {
            if is_whole {
                self.until = None;
                self.charge.lock().clear();
            } else {
                self.until.get_or_insert_with(|| Instant::now() + allowed);
            }
        }
        if is_accepted { Ok(()) } else { Err(full()) }
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = self.until else { return Poll::Pending };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if alarm.deadline() != until {
            alarm.as_mut().reset(until);
        }
        alarm.as_mut().poll(cx)
    }
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending => {
                ready!(self.poll_late(cx));
                let message = "nothing was done: the request did not arrive completely before the \
                     deadline: send it again";
                Poll::Ready(Some(Err(ApiError::new(ErrorCode::Late, message).into())))
            }
            Poll::Ready(Some(Ok(frame))) => {
                let counted = frame.data_ref().map_or(Ok(()), |data| self.count_received(data));
                Poll::Ready(Some(counted.map(|()| frame).map_err(Status::from)))
            }
            ended => ended,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Boundaries of the messages in a body, and their sizes in memory.
#[derive(Debug)]
struct Framing {
    header: [u8; HEADER_BYTES],
    /// Number of header bytes received.
    header_bytes: usize,
    /// Number of message bytes that are missing.
    left: usize,
    weight: Weight,
    /// Bytes in memory of all messages before the present one.
    earlier_bytes: usize,
}

impl Framing {
    fn new(weight: Weight) -> Framing {
        let header = [0; HEADER_BYTES];
        Framing { header, header_bytes: 0, left: 0, weight, earlier_bytes: 0 }
    }

    /// Bytes in memory of the present message.
    fn message_bytes(&self) -> usize {
        self.weight.bytes().saturating_sub(self.earlier_bytes)
    }

    fn feed(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(data.len());
                self.left -= taken;
                self.weight.feed(&data[..taken]);
                data = &data[taken..];
                continue;
            }
            let taken = (HEADER_BYTES - self.header_bytes).min(data.len());
            self.header[self.header_bytes..self.header_bytes + taken]
                .copy_from_slice(&data[..taken]);
            self.header_bytes += taken;
            data = &data[taken..];
            if self.header_bytes == HEADER_BYTES {
                let [_, length @ ..] = self.header;
                (self.left, self.header_bytes) = (u32::from_be_bytes(length) as usize, 0);
                self.earlier_bytes = self.weight.bytes();
                self.weight.begin(self.left);
            }
        }
    }

    /// Whether a message has begun and is not yet complete.
    fn is_within(&self) -> bool {
        self.header_bytes > 0 || self.left > 0
    }
}

/// The body of a reply.
pub(crate) struct Outgoing {
    body: Body,
    /// Bytes read from the body and not yet given to the transport.
    rest: Bytes,
    charge: MemoryCharge,
    /// Account of a stream's reader. The stream makes its next message only when the account has room. `None` for a
    /// complete reply.
    waits: Option<CallerAccount>,
    /// The call's slot, which streams keep until they end.
    _permit: Option<CallPermit>,
    /// Until the body ends, its connection counts as used.
    _call: InProgress,
}

impl Outgoing {
    /// The body of a stream. The stream keeps its slot until it ends.
    pub(crate) fn stream(
        body: Body,
        holder: CallerAccount,
        permit: CallPermit,
        call: InProgress,
    ) -> Outgoing {
        let (rest, charge) = (Bytes::new(), holder.nothing());
        Outgoing { body, rest, charge, waits: Some(holder), _permit: Some(permit), _call: call }
    }

    /// Wraps a complete reply, so that its bytes are counted until the client has read them. The reply does not keep
    /// the call's slot.
    ///
    /// # Errors
    /// If the call only reads, and unread replies fill the caller's share of memory. The reply to a write is always
    /// sent.
    pub(crate) async fn reply(
        response: Response<Body>,
        holder: &CallerAccount,
        nature: CallKind,
        call: InProgress,
    ) -> Result<Response<Body>, ApiError> {
        let (head, mut body) = response.into_parts();
        let mut charge = holder.nothing();
        if body.is_end_stream() {
            return Ok(Response::from_parts(head, body));
        }
        let rest = match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => data,
                // The body has only trailers.
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    return Ok(Response::from_parts(head, Body::new(Ended(Some(trailers)))));
                }
            },
            Some(Err(status)) => return Ok(status.into_http()),
            None => Bytes::new(),
        };
        if nature == CallKind::Read && !holder.has_room() {
            return Err(full());
        }
        charge.add(rest.len());
        let answer = Outgoing { body, rest, charge, waits: None, _permit: None, _call: call };
        Ok(Response::from_parts(head, Body::new(answer)))
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.rest.is_empty() {
            this.charge.clear();
            if let Some(holder) = &this.waits {
                ready!(holder.poll_room(cx));
            }
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(data) => {
                    this.charge.add(data.len());
                    this.rest = data;
                }
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        let part = this.rest.len().min(PART_BYTES);
        Poll::Ready(Some(Ok(Frame::data(this.rest.split_to(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
}

/// The trailers of a call without a reply message.
struct Ended(Option<http::HeaderMap>);

impl http_body::Body for Ended {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }
}

/// Error for a caller that has used up its share of memory.
pub(crate) fn full() -> ApiError {
    const PAUSE: Duration = Duration::from_millis(100);
    let message = "nothing was done: this replica buffers the maximum number of bytes for this \
         caller: read the responses, and end calls and streams that are not needed";
    ApiError::new(ErrorCode::Limit, message).retry_after(PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Complete messages are recognised wherever the bytes are split.
        #[test]
        fn messages_are_found_in_any_cuts(
            lengths in proptest::collection::vec(0..40_u32, 1..20),
            cuts in proptest::collection::vec(1..30_usize, 1..200),
        ) {
            let mut bytes = Vec::new();
            let mut ends = vec![0];
            for length in lengths {
                bytes.push(0);
                bytes.extend(length.to_be_bytes());
                bytes.extend(std::iter::repeat_n(7, length as usize));
                ends.push(bytes.len());
            }
            let (mut framing, mut at) = (Framing::new(Weight::of("none")), 0);
            for cut in cuts {
                let next = (at + cut).min(bytes.len());
                framing.feed(&bytes[at..next]);
                at = next;
                prop_assert_eq!(framing.is_within(), !ends.contains(&at), "after {} bytes", at);
            }
        }
    }
}
