//! Small clusters.
