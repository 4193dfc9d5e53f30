//! The public data, which tests of several crates read.

use std::path::{Path, PathBuf};

/// Returns a file or folder of the public data; prints a message and returns `None` if it is missing.
///
/// The environment variable `OMEGA_DATA` names the folder of all data; by default it is `shared/data` next to the
/// workspace.
#[must_use]
pub fn public_data(name: &str) -> Option<PathBuf> {
    let base = std::env::var_os("OMEGA_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = base.join(name);
    if !path.exists() {
        println!("skipped: {} not found", path.display());
        return None;
    }
    Some(path)
}
