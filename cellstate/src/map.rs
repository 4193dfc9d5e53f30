//! Hash tables for the commit path.

use std::collections::HashMap;

/// A hash table with a fast hasher of fixed seed. Its order must not affect any result, so entries must be sorted
/// before use.
pub(crate) type FastMap<K, V> = HashMap<K, V, foldhash::fast::FixedState>;
