//! Hash tables for the commit path.

use std::collections::HashMap;

/// A hash table with a fast hasher of fixed seed. Its order must not affect any result, so sort the entries before you
/// iterate over them.
pub type FastMap<K, V> = HashMap<K, V, foldhash::fast::FixedState>;
