//! Maps of a few entries, such as labels and amounts. A `BTreeMap` allocates a node for eleven entries, and a cluster
//! has several maps per pod.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// A map whose keys are ascending. Of several values of a key, the last one is used.
#[derive(Clone, Debug)]
pub struct Map<V>(Vec<(String, V)>);

impl<V> Default for Map<V> {
    fn default() -> Map<V> {
        Map(Vec::new())
    }
}

impl<V> Map<V> {
    /// Position of a key, or the position at which it would be inserted.
    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.as_str().cmp(key))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&V> {
        self.position(key).ok().map(|at| &self.0[at].1)
    }

    /// The value of a key. If there is none, the default value is inserted.
    pub(super) fn get_or_default(&mut self, key: &str) -> &mut V
    where
        V: Default,
    {
        let at = self.position(key).unwrap_or_else(|at| {
            self.0.insert(at, (key.to_owned(), V::default()));
            at
        });
        &mut self.0[at].1
    }

    /// Removes the entries of other keys.
    pub(super) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.0.retain(|(key, _)| keeps(key));
    }

    /// The entries, by ascending key.
    pub fn iter(&self) -> std::slice::Iter<'_, (String, V)> {
        self.0.iter()
    }

    /// Whether the map has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the map has a value of this key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

impl<'a, V> IntoIterator for &'a Map<V> {
    type Item = &'a (String, V);
    type IntoIter = std::slice::Iter<'a, (String, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<V> FromIterator<(String, V)> for Map<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(pairs: I) -> Map<V> {
        let mut pairs: Vec<(String, V)> = pairs.into_iter().collect();
        // A stable sort keeps the order of equal keys. Sorting takes little time even if an object has very many
        // entries.
        pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        pairs.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
        pairs.shrink_to_fit();
        Map(pairs)
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Map<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Map<V>, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
    type Value = Map<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Map<V>, A::Error> {
        std::iter::from_fn(|| entries.next_entry().transpose()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Map;

    #[test]
    fn keys_are_ascending_and_the_last_value_of_a_key_counts() {
        let map: Map<u32> = serde_json::from_str(r#"{"b": 1, "a": 2, "b": 3, "c": 4}"#).unwrap();
        let pairs: Vec<(&str, u32)> =
            map.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        assert_eq!(pairs, [("a", 2), ("b", 3), ("c", 4)]);
        assert_eq!(map.get("b"), Some(&3));
        assert!(!map.contains_key("d"));
        let refused = serde_json::from_str::<Map<u32>>("[1]").unwrap_err().to_string();
        assert!(refused.starts_with("invalid type: sequence, expected a map"), "{refused}");
    }
}
