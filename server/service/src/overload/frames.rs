//! Budgets of HTTP/2 frames. Window updates, pings, settings, resets and frames of unknown types belong to no call that a
//! limit counts, and handling them costs processor time. So a connection with more of these *control frames* than a
//! client needs is closed.
//!
//! A client acknowledges what it has read by window updates, and gRPC for Go measures the connection by a ping for each
//! reply. So the budget grows with the calls and with the bytes written to the connection, and slowly with time.
//!
//! Calls beyond the allowed number of streams are refused by a short frame before a limit counts them. So the beginnings
//! of calls have a budget, too, which grows with the written bytes: a reply has more of them than such a frame.

use std::io;
use std::time::Instant;

/// Control frames, and calls, that a connection may send at once.
const BURST: u64 = 20_000;

/// Control frames per second that a connection may send at any time.
const PER_SECOND: u64 = 2000;

/// Calls per second that a connection may send at any time: more than the usual limit of a caller, so that short replies
/// and cancelled calls end no connection.
const CALLS_PER_SECOND: u64 = 8000;

/// Control frames that a connection may send for each call.
const PER_CALL: u64 = 4;

/// Bytes written to the connection for which it may send one control frame more.
const BYTES_PER_FRAME: u64 = 64;

/// Bytes written to the connection for which it may send one call more. The shortest reply with a message has 37 bytes:
/// the headers of three frames, a few indexed fields, and the length of the message. The frame that refuses a stream has
/// 13 bytes.
const BYTES_PER_CALL: u64 = 32;

/// Bytes of a control frame's payload that count as one frame. Usual control frames are shorter. Each long one fills a
/// new read buffer of the connection, and small frames of data between them would keep these buffers in memory.
const PAYLOAD_PER_FRAME: u64 = 64;

/// Length of a frame's header.
const HEADER: usize = 9;

/// Types and a flag of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;

/// The budgets of one connection, and its position in the stream of frames.
#[derive(Debug)]
pub(crate) struct Frames {
    /// The header of the next frame, of which `filled` bytes have been read.
    header: [u8; HEADER],
    filled: usize,
    /// Bytes of the present frame's payload that have not been read yet.
    payload: usize,
    control: Budget,
    calls: Budget,
}

impl Frames {
    pub(crate) fn new(now: Instant) -> Frames {
        let header = [0; HEADER];
        let control = Budget::new(PER_SECOND, BYTES_PER_FRAME, now);
        let calls = Budget::new(CALLS_PER_SECOND, BYTES_PER_CALL, now);
        Frames { header, filled: 0, payload: 0, control, calls }
    }

    /// Adds bytes that were written to the connection.
    pub(crate) fn written(&mut self, bytes: usize) {
        self.control.written = self.control.written.saturating_add(bytes as u64);
        self.calls.written = self.calls.written.saturating_add(bytes as u64);
    }

    /// Counts the frames in bytes that were read from the connection, in any pieces.
    ///
    /// # Errors
    /// A budget is used up.
    pub(crate) fn read(&mut self, mut bytes: &[u8], now: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            let passed = self.payload.min(bytes.len());
            (self.payload, bytes) = (self.payload - passed, &bytes[passed..]);
            let taken = (HEADER - self.filled).min(bytes.len());
            self.header[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            (self.filled, bytes) = (self.filled + taken, &bytes[taken..]);
            if self.filled < HEADER {
                return Ok(());
            }
            let [a, b, c, kind, flags, ..] = self.header;
            (self.filled, self.payload) = (0, u32::from_be_bytes([0, a, b, c]) as usize);
            match kind {
                HEADERS => {
                    self.calls.take(1, now)?;
                    self.control.left = (self.control.left + PER_CALL).min(BURST);
                }
                CONTINUATION => {}
                DATA if self.payload > 0 || flags & END_STREAM != 0 => {}
                _ => {
                    let frames = 1 + self.payload.saturating_sub(1) as u64 / PAYLOAD_PER_FRAME;
                    self.control.take(frames, now)?;
                }
            }
        }
        Ok(())
    }
}

/// A number of frames that a connection may still send. It grows with the time and with the bytes that were written to
/// the connection.
#[derive(Debug)]
struct Budget {
    left: u64,
    refilled: Instant,
    /// Written bytes that have not been added to the budget.
    written: u64,
    per_second: u64,
    /// Written bytes for which the connection may send one frame more.
    bytes_each: u64,
}

impl Budget {
    fn new(per_second: u64, bytes_each: u64, now: Instant) -> Budget {
        Budget { left: BURST, refilled: now, written: 0, per_second, bytes_each }
    }

    fn take(&mut self, frames: u64, now: Instant) -> io::Result<()> {
        if self.left < frames {
            self.refill(now);
        }
        let used_up = || io::Error::new(io::ErrorKind::InvalidData, "too many HTTP/2 frames");
        self.left = self.left.checked_sub(frames).ok_or_else(used_up)?;
        Ok(())
    }

    /// Adds the frames allowed since the last refill.
    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.refilled).as_micros();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let frames = passed.saturating_mul(self.per_second) / 1_000_000;
        let more = frames.saturating_add(self.written / self.bytes_each);
        self.left = self.left.saturating_add(more).min(BURST);
        (self.refilled, self.written) = (now, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const WINDOW_UPDATE: u8 = 8;
    const UNKNOWN: u8 = 0xee;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [_, a, b, c] = (payload as u32).to_be_bytes();
        let header = [a, b, c, kind, flags, 0, 0, 0, 1];
        // The bytes of a payload look like headers of control frames.
        header.into_iter().chain(std::iter::repeat_n(WINDOW_UPDATE, payload)).collect()
    }

    proptest! {
        /// The pieces in which bytes arrive do not matter.
        #[test]
        fn control_frames_are_counted_in_any_pieces(
            frames in prop::collection::vec(
                (prop::sample::select(vec![DATA, HEADERS, 3, 4, 6, WINDOW_UPDATE, CONTINUATION, UNKNOWN]),
                0..2_u8, 0..300_usize), 0..60),
            piece in 1..700_usize,
        ) {
            let after = |left: u64, (kind, flags, payload): &(u8, u8, usize)| match *kind {
                HEADERS => (left + PER_CALL).min(BURST),
                CONTINUATION => left,
                DATA if *payload > 0 || *flags > 0 => left,
                _ => left - 1 - payload.saturating_sub(1) as u64 / PAYLOAD_PER_FRAME,
            };
            let left = frames.iter().fold(BURST, after);
            let bytes: Vec<u8> = frames
                .iter()
                .flat_map(|(kind, flags, payload)| frame(*kind, *flags, *payload))
                .collect();
            let now = Instant::now();
            let mut budget = Frames::new(now);
            for bytes in bytes.chunks(piece) {
                budget.read(bytes, now).unwrap();
            }
            prop_assert_eq!(budget.control.left, left);
            prop_assert_eq!((budget.filled, budget.payload), (0, 0));
        }
    }

    #[test]
    fn a_flood_ends_and_a_reader_goes_on() {
        let update = frame(WINDOW_UPDATE, 0, 4);
        let now = Instant::now();
        let mut flood = Frames::new(now);
        let sent = (0..2 * BURST).take_while(|_| flood.read(&update, now).is_ok()).count() as u64;
        assert_eq!(sent, BURST);
        let mut reader = Frames::new(now);
        for _ in 0..10 * BURST {
            reader.written(4096);
            reader.read(&update, now).unwrap();
        }
        // Small calls one after the other, each with a window update and a ping.
        let call = [frame(HEADERS, 4, 30), frame(DATA, 1, 20), update.clone(), frame(6, 0, 8)];
        let mut caller = Frames::new(now);
        for _ in 0..10 * BURST {
            caller.written(200);
            caller.read(&call.concat(), now).unwrap();
        }
        let mut long = Frames::new(now);
        let junk = frame(UNKNOWN, 0, 16 << 10);
        assert_eq!((0..1000).take_while(|_| long.read(&junk, now).is_ok()).count(), 78);
        let mut slow = Budget::new(PER_SECOND, BYTES_PER_FRAME, now);
        slow.left = 0;
        slow.refill(now + Duration::from_millis(100));
        assert_eq!(slow.left, PER_SECOND / 10);
        slow.refill(now + Duration::from_secs(1000));
        assert_eq!(slow.left, BURST);
    }

    #[test]
    fn calls_that_get_no_reply_are_bounded() {
        let begin = frame(HEADERS, 5, 6);
        let now = Instant::now();
        // The other side refuses each stream by a frame of 13 bytes.
        let is_accepted = |flood: &mut Frames, at: Instant| {
            flood.written(13);
            flood.read(&begin, at).is_ok()
        };
        let mut flood = Frames::new(now);
        let accepted = (0..10 * BURST).take_while(|_| is_accepted(&mut flood, now)).count() as u64;
        assert!((BURST..2 * BURST).contains(&accepted), "{accepted}");
        let mut flood = Frames::new(now);
        (flood.calls.left, flood.calls.refilled) = (0, now);
        let later = now + Duration::from_secs(1);
        let accepted =
            (0..10 * BURST).take_while(|_| is_accepted(&mut flood, later)).count() as u64;
        assert!((CALLS_PER_SECOND..2 * CALLS_PER_SECOND).contains(&accepted), "{accepted}");
        let mut caller = Frames::new(now);
        for _ in 0..10 * BURST {
            caller.written(37);
            caller.read(&begin, now).unwrap();
        }
        // Equal errors are as short as refused streams: 5,000 a second are allowed for any time.
        let mut fails = Frames::new(now);
        for call in 0..u32::try_from(10 * BURST).unwrap() {
            fails.written(15);
            fails.read(&begin, now + Duration::from_micros(200) * call).unwrap();
        }
    }
}
