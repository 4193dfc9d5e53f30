//! Format of a generated trace.

/// Format of the written tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Uncompressed text.
    Plain,
    /// Compressed with gzip.
    Gzip,
}
