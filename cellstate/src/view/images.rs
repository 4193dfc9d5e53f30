//! Container images on machines, for scores that prefer machines with a task's image.

use crate::state::map::FastMap;
use crate::view::View;
use omega_core::{Machine, Text};

/// A machine that has an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImageHolder {
    /// Row of the machine.
    pub row: u32,
    /// Size of the image on the machine.
    pub bytes: u64,
}

/// The machines that have each image, ascending by row.
#[derive(Debug, Default)]
pub(super) struct Images {
    holders: FastMap<Text, Vec<ImageHolder>>,
}

impl Images {
    /// Updates the images after the machine in a row was added, changed or removed.
    pub(super) fn set_machine(&mut self, row: u32, old: Option<&Machine>, new: Option<&Machine>) {
        let images = |machine: Option<&Machine>| machine.map_or(&[][..], |m| &m.images).to_vec();
        if old.map(|machine| &machine.images) == new.map(|machine| &machine.images) {
            return;
        }
        for image in images(old) {
            if let Some(holders) = self.holders.get_mut(&image.name) {
                holders.retain(|holder| holder.row != row);
                if holders.is_empty() {
                    self.holders.remove(&image.name);
                }
            }
        }
        for image in images(new) {
            let holders = self.holders.entry(image.name).or_default();
            if let Err(at) = holders.binary_search_by_key(&row, |holder| holder.row) {
                holders.insert(at, ImageHolder { row, bytes: image.bytes });
            }
        }
    }

    pub(super) fn of(&self, name: &str) -> &[ImageHolder] {
        self.holders.get(name).map_or(&[], Vec::as_slice)
    }
}

impl View {
    /// The machines that have an image of this name, ascending by row.
    #[must_use]
    pub fn image_holders(&self, name: &str) -> &[ImageHolder] {
        self.images.of(name)
    }

    /// The number of machines.
    #[must_use]
    pub fn machine_count(&self) -> usize {
        self.machine_index.sets.present_count()
    }
}
