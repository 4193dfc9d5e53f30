//! State of a list that mirrors another system: selected machines, free space of drivers, and attachments.

use super::free::Free;
use super::objects::Reach;
use omega_core::Text;
use std::collections::{BTreeMap, BTreeSet};

/// Free space of a driver for volumes of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The class.
    pub class: Text,
    /// Size of the largest volume that can be provisioned.
    pub bytes: u64,
    /// Machines that can reach volumes in this space.
    pub reach: Reach,
}

/// State that only a mirror has.
#[derive(Debug, Default)]
pub(super) struct Mirrored {
    /// For each claim, the machine for which a controller provisions its volume.
    pub(super) selected: BTreeMap<Text, Text>,
    /// Drivers that report their free space.
    pub(super) measured: BTreeSet<Text>,
    pub(super) spaces: BTreeMap<Text, Space>,
    /// The reports of free space for each class, indexed like free volumes.
    pub(super) of_class: BTreeMap<Text, Free>,
    /// Machine and volume of each attachment, by the attachment's name.
    pub(super) attachments: BTreeMap<Text, (Text, Text)>,
}

impl Mirrored {
    /// Records a report of free space by its name; `None` means that the report was removed.
    pub(super) fn set_space(&mut self, name: Text, space: Option<Space>) {
        let old = match &space {
            Some(space) => self.spaces.insert(name.clone(), space.clone()),
            None => self.spaces.remove(&name),
        };
        if let Some(Space { class, bytes, reach }) = old
            && let Some(of_class) = self.of_class.get_mut(&class)
        {
            of_class.remove(&name, bytes, &reach);
        }
        if let Some(Space { class, bytes, reach }) = space {
            self.of_class.entry(class).or_default().insert(&name, bytes, &reach);
        }
    }
}
