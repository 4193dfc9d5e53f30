//! The bytes of commands: what a log holds, and what two versions of us agree on.
//!
//! ```text
//!   ┌─────────┬──────────────────────────────┐
//!   │ version │ the command, in bincode       │
//!   │ 1 byte  │ (standard: variable integers) │
//!   └─────────┴──────────────────────────────┘
//! ```
//!
//! The types of `omega-core` are written as they are, so a change to one of them changes the bytes.
//! The golden test `tests/it/codec.rs` notices; then [`VERSION`] rises, and the types as they were are kept in
//! a file of their own, from which the present ones are made. A variant that an enum gains at its end changes no
//! bytes. Nothing else names bincode.
//!
//! What is read is not trusted: a length that the bytes claim reserves memory in proportion to the
//! bytes that are there, and never more.

use crate::log::LogIndex;
use crate::replica::Head;
use bincode::config;
use omega_core::limits::{COMMAND_BYTES_MAX, ENTRY_BYTES_MAX};
use omega_core::{Command, Kinds, ResourceKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// The version of the bytes that [`encode`] writes.
pub const VERSION: u8 = 1;

/// The oldest version of bytes that is read.
pub const OLDEST_READABLE: u8 = 1;

/// Error of encoding a command or a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Ask for less in one command: nobody could read it again.
    #[error("it has {bytes} bytes, at most {max} are allowed: split it")]
    TooLarge {
        /// Actual number of bytes.
        bytes: usize,
        /// Maximum number of bytes.
        max: usize,
    },
}

/// Error of decoding a command or a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// There is not even a version: whatever framed the bytes lost them.
    #[error("there are no bytes, the version is missing")]
    Empty,
    /// Another version of this program wrote them: read them with that one.
    #[error(
        "the bytes have version {found}, this program reads {}: use one that reads version {found}",
        versions(*.oldest, *.known)
    )]
    UnknownVersion {
        /// The version of the bytes.
        found: u8,
        /// The oldest version that is read here.
        oldest: u8,
        /// The newest version that is read here.
        known: u8,
    },
    /// Encoded objects are never that large: the bytes are from another source.
    #[error("{bytes} bytes, at most {max} are allowed")]
    TooLarge {
        /// Their number.
        bytes: usize,
        /// Their number.
        max: usize,
    },
    /// The bytes were damaged, or are from another source.
    #[error("the bytes are invalid: {0}")]
    Malformed(Malformed),
    /// A whole command, and more: the bytes were damaged, or framed wrongly.
    #[error("{bytes} bytes follow the end")]
    Trailing {
        /// Number of bytes that follow.
        bytes: usize,
    },
}

/// Description of malformed bytes; for people to read.
#[derive(Debug)]
pub struct Malformed(Cause);

#[derive(Debug)]
enum Cause {
    Bytes(bincode::error::DecodeError),
    Kinds(omega_core::KindsError),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Bytes(error) => error.fmt(f),
            Cause::Kinds(error) => error.fmt(f),
        }
    }
}

/// Versions, in words.
fn versions(oldest: u8, newest: u8) -> String {
    match oldest == newest {
        true => format!("version {newest}"),
        false => format!("versions {oldest} to {newest}"),
    }
}

/// Appends the bytes of a command to `out`.
///
/// # Errors
/// If there are too many; then `out` is as it was.
pub fn encode(command: &Command, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    put(command, out)
}

/// Reads a command back.
///
/// # Errors
/// If the bytes are not exactly one command of a known version.
pub fn decode(bytes: &[u8]) -> Result<Command, CodecError> {
    take(bytes)
}

/// Appends the bytes of a cell's resource kinds.
pub(crate) fn encode_kinds(kinds: &Kinds, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    put(kinds, out)
}

/// Reads a cell's resource kinds back, and checks them.
pub(crate) fn decode_kinds(bytes: &[u8]) -> Result<Kinds, CodecError> {
    let kinds: Vec<ResourceKind> = take(bytes)?;
    Kinds::new(kinds).map_err(|error| CodecError::Malformed(Malformed(Cause::Kinds(error))))
}

/// Writes the head of an entry, which has any number of commands.
pub(crate) fn begin_entry(head: Head, entry: &mut Vec<u8>) {
    entry.push(VERSION);
    entry.extend(head.applied.0.to_le_bytes());
    entry.extend(head.fingerprint.to_le_bytes());
}

/// Appends a command to the bytes of an entry.
///
/// # Errors
/// If it has too many bytes; then `entry` is as it was.
pub(crate) fn push_command(command: &Command, entry: &mut Vec<u8>) -> Result<(), EncodeError> {
    put_body(command, entry)
}

/// The bytes of the commands of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a>(&'a [u8]);

/// Splits the bytes of an entry: its leader's head, and its commands. An empty entry has neither.
pub(crate) fn entry_head(bytes: &[u8]) -> Result<(Option<Head>, Body<'_>), CodecError> {
    if bytes.is_empty() {
        return Ok((None, Body(bytes)));
    }
    let body = after_version(bytes)?;
    let Some((head, body)) = body.split_first_chunk::<16>() else { return Err(CodecError::Empty) };
    let word = |at: usize| {
        let word = head[at..].first_chunk().expect("there are 16 bytes");
        u64::from_le_bytes(*word)
    };
    let head = Head { applied: LogIndex(word(0)), fingerprint: word(8) };
    Ok((Some(head), Body(body)))
}

/// Reads commands, one after another.
pub(crate) fn decode_commands(body: Body<'_>) -> Result<Vec<Command>, CodecError> {
    let Body(mut bytes) = body;
    if bytes.len() > ENTRY_BYTES_MAX {
        return Err(CodecError::TooLarge { bytes: bytes.len(), max: ENTRY_BYTES_MAX });
    }
    let mut commands = Vec::new();
    while !bytes.is_empty() {
        let (command, used) = part(bytes)?;
        commands.push(command);
        bytes = &bytes[used..];
    }
    Ok(commands)
}

/// Reads the commands of an entry, in order.
///
/// # Errors
/// If the bytes are no entry of a known version.
pub fn decode_entry(bytes: &[u8]) -> Result<Vec<Command>, CodecError> {
    let (_, body) = entry_head(bytes)?;
    decode_commands(body)
}

/// The bytes of a value that is known to be small.
pub(crate) fn encode_small(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, &mut out).expect("it has few bytes");
    out
}

/// Reads it back.
pub(crate) fn decode_small<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    take(bytes)
}

fn put(value: &impl Serialize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    out.push(VERSION);
    put_body(value, out).inspect_err(|_| out.truncate(start))
}

fn put_body(value: &impl Serialize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    append(value, out);
    let bytes = out.len() - start;
    if bytes > COMMAND_BYTES_MAX {
        out.truncate(start);
        return Err(EncodeError::TooLarge { bytes, max: COMMAND_BYTES_MAX });
    }
    Ok(())
}

/// Appends a part of a larger whole, which has a version of its own.
pub(crate) fn append(part: &impl Serialize, out: &mut Vec<u8>) {
    bincode::serde::encode_into_std_write(part, out, config::standard())
        .expect("a vector takes all bytes, and our types know their lengths");
}

/// Reads a part that `bytes` begin with. With it comes how many bytes it has.
pub(crate) fn part<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, usize), CodecError> {
    decode_within(bytes).map_err(|error| CodecError::Malformed(Malformed(Cause::Bytes(error))))
}

/// Reads something that bytes with a version are, and nothing else.
fn take<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let body = after_version(bytes)?;
    if bytes.len() > COMMAND_BYTES_MAX {
        return Err(CodecError::TooLarge { bytes: bytes.len(), max: COMMAND_BYTES_MAX });
    }
    match part(body)? {
        (value, used) if used == body.len() => Ok(value),
        (_, used) => Err(CodecError::Trailing { bytes: body.len() - used }),
    }
}

/// The bytes after the version that they begin with.
fn after_version(bytes: &[u8]) -> Result<&[u8], CodecError> {
    let Some((&found, body)) = bytes.split_first() else { return Err(CodecError::Empty) };
    if found == VERSION {
        return Ok(body);
    }
    Err(CodecError::UnknownVersion { found, oldest: OLDEST_READABLE, known: VERSION })
}

/// Reads a value, and takes memory in proportion to the bytes.
///
/// A limit counts bytes in memory, of which one encoded byte makes at most eight (a small `u64`).
/// It must be a constant, so inputs are classed by size, and a small one gets a small limit.
fn decode_within<T: DeserializeOwned>(
    bytes: &[u8],
) -> Result<(T, usize), bincode::error::DecodeError> {
    match bytes.len() {
        ..=0x200 => take_within::<T, { 8 * 0x200 }>(bytes),
        0x201..=0x4000 => take_within::<T, { 8 * 0x4000 }>(bytes),
        0x4001..=0x2_0000 => take_within::<T, { 8 * 0x2_0000 }>(bytes),
        0x2_0001..=COMMAND_BYTES_MAX => take_within::<T, { 8 * COMMAND_BYTES_MAX }>(bytes),
        _ => take_within::<T, { 32 * COMMAND_BYTES_MAX }>(bytes),
    }
}

fn take_within<T: DeserializeOwned, const LIMIT: usize>(
    body: &[u8],
) -> Result<(T, usize), bincode::error::DecodeError> {
    bincode::serde::decode_from_slice(body, config::standard().with_limit::<LIMIT>())
}
