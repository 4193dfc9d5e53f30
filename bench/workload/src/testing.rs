//! Fixtures of the readers' tests: folders of small files, errors of one line, and the real data.

use crate::LoadError;
use flate2::Compression;
use flate2::write::GzEncoder;
use omega_core::{Amounts, Machine};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

/// A folder with these files; those named `.gz` or `.zst` are compressed.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let bytes = match name.rsplit('.').next() {
            Some("gz") => gzip(content),
            Some("zst") => zstd(content),
            _ => content.as_bytes().into(),
        };
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

pub(crate) fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(content: &str) -> Vec<u8> {
    compress_to_vec(content.as_bytes(), CompressionLevel::Fastest)
}

/// The error message, without the path of the folder.
pub(crate) fn message<T>(dir: &Path, result: Result<T, LoadError>) -> String {
    let error = result.err().expect("an error").to_string();
    assert!(!error.contains('\n'), "{error:?} is more than a line");
    error.replace(&format!("{}/", dir.display()), "")
}

/// Total capacity of the machines.
pub(crate) fn capacity(machines: &[Machine]) -> Amounts {
    machines.iter().fold(Amounts::zero(), |sum, machine| {
        sum.checked_add(&machine.capacity).expect("a cell's capacity fits in 64 bits")
    })
}
