//! Notes on properties that could not be converted: one sentence for each property, with the number of objects.

use crate::text::words::plural;
use std::collections::{BTreeMap, BTreeSet};

/// The unsupported properties of one object, each listed once.
pub(super) type Remarks = BTreeSet<&'static str>;

/// Counts objects by remark.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pods: BTreeMap<&'static str, u64>,
    nodes: BTreeMap<&'static str, u64>,
    sentences: Vec<String>,
}

impl Notes {
    /// Counts remarks about one pod.
    pub(super) fn pod(&mut self, remarks: impl IntoIterator<Item = &'static str>) {
        for remark in remarks {
            *self.pods.entry(remark).or_default() += 1;
        }
    }

    /// Counts remarks about one node.
    pub(super) fn node(&mut self, remarks: impl IntoIterator<Item = &'static str>) {
        for remark in remarks {
            *self.nodes.entry(remark).or_default() += 1;
        }
    }

    /// Adds a note without a count.
    pub(super) fn sentence(&mut self, sentence: impl Into<String>) {
        self.sentences.push(sentence.into());
    }

    /// The notes as text: first sentences without counts, then notes about nodes, then notes about pods.
    pub(super) fn into_sentences(self) -> Vec<String> {
        let counted = |counts: BTreeMap<&'static str, u64>, thing: &'static str| {
            counts.into_iter().map(move |(what, count)| format!("{what}: {}", plural(count, thing)))
        };
        let mut sentences = self.sentences;
        sentences.extend(counted(self.nodes, "node"));
        sentences.extend(counted(self.pods, "pod"));
        sentences
    }
}
