//! Version of the program, with its commit and features: `0.1.0 (commit 3f2a91c04d7e; features serve)`.
//!
//! `-V` prints only the release. `.ci/dist` sets the commit in the variable `OMEGA_COMMIT`; other builds have no
//! commit.

use std::sync::LazyLock;

static LONG: LazyLock<String> = LazyLock::new(|| {
    let features = [("serve", cfg!(feature = "serve")), ("rocksdb", cfg!(feature = "rocksdb"))];
    let on: Vec<&str> = features.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    let features = if on.is_empty() { "none".to_owned() } else { on.join(", ") };
    let commit = option_env!("OMEGA_COMMIT").unwrap_or("unknown");
    format!("{} (commit {commit}; features {features})", env!("CARGO_PKG_VERSION"))
});

/// Release, commit and features in one line.
pub(crate) fn long() -> &'static str {
    &LONG
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_line_begins_with_the_release_and_names_the_features() {
        let line = super::long();
        assert!(line.starts_with(concat!(env!("CARGO_PKG_VERSION"), " (commit ")), "{line}");
        assert_eq!(line.contains("serve"), cfg!(feature = "serve"), "{line}");
    }
}
