//! Hash tables for the commit path.

use std::collections::HashMap;

/// A hash table with a fast hasher of fixed seed. Its order must never be seen: whoever walks one
/// and shows the result sorts it first.
pub(crate) type FastMap<K, V> = HashMap<K, V, foldhash::fast::FixedState>;
