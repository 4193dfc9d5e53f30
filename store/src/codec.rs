//! The encoding of commands, in logs and between versions of this program.
//!
//! ```text
//!   ┌─────────┬──────────────────────────────┐
//!   │ version │ the command, in bincode       │
//!   │ 1 byte  │ (standard: variable integers) │
//!   └─────────┴──────────────────────────────┘
//! ```
//!
//! The types of `omega-core` are encoded directly, so a change of a type changes the bytes. The golden test
//! `tests/it/storage/codec.rs` detects such a change. The author of the change must then raise [`VERSION`], keep the
//! previous types in a separate file, and convert them to the present types. A variant added at the end of an enum
//! changes no bytes. No other file uses bincode.
//!
//! Decoding does not trust its input: memory is reserved in proportion to the number of bytes present, not to the
//! lengths that the bytes contain.

use crate::log::LogIndex;
use bincode::config;
use omega_core::limits::{COMMAND_BYTES_MAX, ENTRY_BYTES_MAX};
use omega_core::{Command, Kinds, ResourceKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// The version of the bytes that [`encode`] writes.
pub const VERSION: u8 = 1;

/// The oldest version that can be read.
pub const OLDEST_READABLE: u8 = 1;

/// Error of encoding a command or a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The command has more bytes than can be decoded. Split it.
    #[error("the command has {bytes} bytes: at most {max} are allowed, so split it")]
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
    /// There are no bytes, so the framing around them is wrong.
    #[error("there are no bytes, so the version of the encoding is missing")]
    Empty,
    /// Another version of this program wrote the bytes. Read them with that version.
    #[error(
        "the bytes have version {found}, but this program reads {}: use a program that reads \
         version {found}",
        versions(*.oldest, *.known)
    )]
    UnknownVersion {
        /// Version of the bytes.
        found: u8,
        /// The oldest readable version.
        oldest: u8,
        /// The newest readable version.
        known: u8,
    },
    /// There are more bytes than any encoded object has, so they are from another source.
    #[error("the encoded data has {bytes} bytes: at most {max} are allowed")]
    TooLarge {
        /// Number of bytes.
        bytes: usize,
        /// Maximum number of bytes.
        max: usize,
    },
    /// The bytes were damaged, or are from another source.
    #[error("the encoded data is damaged: {0}")]
    Malformed(Malformed),
    /// More bytes follow the command, so the data is damaged, or its framing is wrong.
    #[error("the encoded data is damaged: it has {bytes} bytes after its end")]
    Trailing {
        /// Number of bytes that follow.
        bytes: usize,
    },
}

/// Human-readable description of malformed bytes.
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

/// A range of versions, in words.
fn versions(oldest: u8, newest: u8) -> String {
    if oldest == newest {
        format!("version {newest}")
    } else {
        format!("versions {oldest} to {newest}")
    }
}

/// Appends the encoding of a command to `out`.
///
/// # Errors
/// The command is too large. `out` is unchanged then.
pub fn encode(command: &Command, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    put(command, out)
}

/// Decodes a command.
///
/// # Errors
/// The bytes are not exactly one command of a readable version.
pub fn decode(bytes: &[u8]) -> Result<Command, CodecError> {
    take(bytes)
}

/// Appends the encoding of a cell's resource kinds.
pub(crate) fn encode_kinds(kinds: &Kinds, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    put(kinds, out)
}

/// Decodes and validates a cell's resource kinds.
pub(crate) fn decode_kinds(bytes: &[u8]) -> Result<Kinds, CodecError> {
    let kinds: Vec<ResourceKind> = take(bytes)?;
    Kinds::new(kinds).map_err(|error| CodecError::Malformed(Malformed(Cause::Kinds(error))))
}

/// The state that a leader had applied when it proposed an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Index of the last applied entry.
    pub(crate) applied: LogIndex,
    /// The fingerprint after that entry.
    pub(crate) fingerprint: u64,
}

/// Writes the head of an entry, which any number of commands may follow.
pub(crate) fn begin_entry(head: Head, entry: &mut Vec<u8>) {
    entry.push(VERSION);
    entry.extend(head.applied.0.to_le_bytes());
    entry.extend(head.fingerprint.to_le_bytes());
}

/// Appends a command to an entry.
///
/// # Errors
/// The command is too large. `entry` is unchanged then.
pub(crate) fn push_command(command: &Command, entry: &mut Vec<u8>) -> Result<(), EncodeError> {
    put_body(command, entry)
}

/// The encoded commands of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a>(&'a [u8]);

/// Splits an entry into its leader's head and its commands. An empty entry has no head and no commands.
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

/// Decodes consecutive commands.
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

/// Decodes the commands of an entry, in order.
///
/// # Errors
/// The bytes are not an entry of a readable version.
pub fn decode_entry(bytes: &[u8]) -> Result<Vec<Command>, CodecError> {
    let (_, body) = entry_head(bytes)?;
    decode_commands(body)
}

/// Encodes a value that is certainly within the size limit, together with the version.
pub(crate) fn encode_small(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, &mut out).expect("it has few bytes");
    out
}

/// Decodes a value that [`encode_small`] has encoded.
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

/// Appends a part of a larger object, without a version. The larger object has a version of its own.
pub(crate) fn append(part: &impl Serialize, out: &mut Vec<u8>) {
    bincode::serde::encode_into_std_write(part, out, config::standard())
        .expect("a vector takes all bytes, and our types know their lengths");
}

/// Decodes the part at the start of `bytes`. Returns the part, and its number of bytes.
pub(crate) fn part<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, usize), CodecError> {
    decode_within(bytes).map_err(|error| CodecError::Malformed(Malformed(Cause::Bytes(error))))
}

/// Decodes bytes that have a version and one value.
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

/// The bytes after the leading version.
fn after_version(bytes: &[u8]) -> Result<&[u8], CodecError> {
    let Some((&found, body)) = bytes.split_first() else { return Err(CodecError::Empty) };
    if found == VERSION {
        return Ok(body);
    }
    Err(CodecError::UnknownVersion { found, oldest: OLDEST_READABLE, known: VERSION })
}

/// Decodes a value, with memory in proportion to the number of bytes.
///
/// The limit bounds bytes in memory: one encoded byte becomes at most eight (in a small `u64`). bincode takes the limit
/// as a constant at compile time, so inputs are divided into classes by size, and small inputs get a small limit.
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
