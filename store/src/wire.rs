//! The encoding of messages between replicas.
//!
//! ```text
//!   ┌─────────┬──────────────────────────────┐
//!   │ version │ the message, in bincode       │
//!   │ 1 byte  │ (standard: variable integers) │
//!   └─────────┴──────────────────────────────┘
//! ```
//!
//! This version is independent of the version of commands. Messages are exchanged only between versions of this program
//! that run during an upgrade, whereas a log may be read years later. The golden test `tests/it/replicas/wire.rs`
//! detects changes of the bytes. A decoded message is well-formed; the receiving replica checks whether it is possible.

use crate::codec::{self, CodecError, EncodeError};
use crate::replica::PeerMessage;

/// The version of the bytes that [`encode`] writes.
pub const VERSION: u8 = 1;

/// Maximum bytes of a message. The largest message has a mebibyte of entries plus one entry of maximum size.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Appends the encoding of a message to `out`.
///
/// # Errors
/// The message is too large. `out` is unchanged then.
pub fn encode(message: &PeerMessage, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    out.push(VERSION);
    codec::append(message, out);
    let bytes = out.len() - start;
    if bytes > MESSAGE_BYTES_MAX {
        out.truncate(start);
        return Err(EncodeError::TooLarge { bytes, max: MESSAGE_BYTES_MAX });
    }
    Ok(())
}

/// Decodes a message, with memory in proportion to the number of bytes.
///
/// # Errors
/// The bytes are not exactly one message of a known version.
pub fn decode(bytes: &[u8]) -> Result<PeerMessage, CodecError> {
    let Some((&found, body)) = bytes.split_first() else { return Err(CodecError::Empty) };
    if found != VERSION {
        return Err(CodecError::UnknownVersion { found, oldest: VERSION, known: VERSION });
    }
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(CodecError::TooLarge { bytes: bytes.len(), max: MESSAGE_BYTES_MAX });
    }
    match codec::part(body)? {
        (message, used) if used == body.len() => Ok(message),
        (_, used) => Err(CodecError::Trailing { bytes: body.len() - used }),
    }
}
