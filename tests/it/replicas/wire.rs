//! Encoding of messages between replicas: round trips, bytes that are stable across versions, and rejection of invalid
//! bytes.

use crate::cell::histories::seeds;
use omega_store::CodecError;
use omega_store::replica::PeerMessage;
use omega_store::wire::{MESSAGE_BYTES_MAX, VERSION, decode, encode};
use omega_tests::fuzz::random_message;
use std::fmt::Write as _;
use std::path::Path;

/// Compares with the recorded bytes. If this fails, replicas of two versions cannot communicate. Then raise
/// [`VERSION`], and read and write both versions until the older one is no longer used.
#[test]
fn the_bytes_of_a_version_never_change() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/messages-v{VERSION}.txt"));
    let mut lines = String::new();
    for seed in 0..120 {
        let mut bytes = Vec::new();
        encode(&random_message(seed), &mut bytes).unwrap();
        bytes.iter().for_each(|byte| write!(lines, "{byte:02x}").unwrap());
        lines.push('\n');
    }
    if std::env::var_os("OMEGA_BLESS").is_some() {
        std::fs::write(&path, &lines).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), lines);
}

/// A probe is newer than the recorded messages: its kind comes after theirs.
#[test]
fn a_probe_is_a_kind_of_its_own() {
    let mut bytes = Vec::new();
    encode(&PeerMessage::Probe, &mut bytes).unwrap();
    assert_eq!(bytes, [VERSION, 8]);
    assert_eq!(decode(&bytes).unwrap(), PeerMessage::Probe);
}

#[test]
fn every_message_comes_back_whole_or_not_at_all() {
    for seed in seeds(500) {
        let message = random_message(seed);
        let mut bytes = Vec::new();
        encode(&message, &mut bytes).unwrap();
        assert_eq!(decode(&bytes).unwrap(), message, "seed {seed}");
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "seed {seed}, {length} bytes");
        }
        bytes.extend([0, 0]);
        assert!(matches!(decode(&bytes), Err(CodecError::Trailing { bytes: 2 })), "seed {seed}");
        bytes[0] = VERSION + 1;
        assert!(matches!(decode(&bytes), Err(CodecError::UnknownVersion { .. })));
    }
    let large = vec![VERSION; MESSAGE_BYTES_MAX + 1];
    assert!(matches!(decode(&large), Err(CodecError::TooLarge { .. })));
}
