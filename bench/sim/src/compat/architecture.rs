//! Names of architectures in reference files.

use crate::engine::{CommitMode, Granularity};
use omega_core::ConflictCheck;

/// Scheduler architecture of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// One scheduler for everything.
    Monolithic,
    /// Resource offers, one at a time.
    TwoLevel,
    /// Each scheduler decides on its own copy of the whole cell.
    SharedState(CommitMode),
}

/// Names of the architectures.
const NAMES: [(&str, Architecture); 6] = [
    ("mono", Architecture::Monolithic),
    ("mesos", Architecture::TwoLevel),
    ("omega-fine-inc", shared(ConflictCheck::ResourceFit, Granularity::Incremental)),
    ("omega-fine-aon", shared(ConflictCheck::ResourceFit, Granularity::AllOrNothing)),
    ("omega-coarse-inc", shared(ConflictCheck::SequenceNumber, Granularity::Incremental)),
    ("omega-coarse-aon", shared(ConflictCheck::SequenceNumber, Granularity::AllOrNothing)),
];

const fn shared(check: ConflictCheck, granularity: Granularity) -> Architecture {
    Architecture::SharedState(CommitMode { check, granularity })
}

impl Architecture {
    /// Returns the architecture with this name.
    ///
    /// # Errors
    /// If there is no such architecture; the text lists the names.
    pub fn named(name: &str) -> Result<Architecture, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, architecture)| *architecture).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
            format!(
                "there is no architecture {name:?}; the architectures are: {}",
                names.join(", ")
            )
        })
    }

    /// Name of the architecture in a reference file.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}
