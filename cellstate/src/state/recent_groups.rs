//! Repeated task groups, which new jobs with equal groups share.
//!
//! Most jobs have groups equal to those of other jobs, but each job arrives with a group of its own. If the table has
//! an equal group, the job shares it, so a job of one task takes half the memory.
//!
//! A group is kept only if its hash occurs a second time. So groups that never repeat cost the hash and one look at the
//! table.

use omega_core::SharedGroup;
use std::hash::BuildHasher;

/// Number of groups that are kept.
const KEPT: usize = 1024;

/// A table of groups, each at the position that its hash determines. No outcome depends on the table.
#[derive(Clone, Debug, Default)]
pub struct RecentGroups(Vec<Recent>);

/// An entry of the table: the latest hash at this position, and the group with this hash.
#[derive(Clone, Debug, Default)]
struct Recent {
    hash: u64,
    /// The group, if its hash occurred twice.
    group: Option<SharedGroup>,
}

impl RecentGroups {
    /// Replaces a group by an equal group of the table, if there is one. Otherwise records the group's hash or, if the
    /// hash is already recorded, the group.
    pub fn share(&mut self, group: &mut SharedGroup) {
        if self.0.is_empty() {
            self.0.resize(KEPT, Recent::default());
        }
        let hash = hash_of(group);
        let recent = &mut self.0[hash as usize % KEPT];
        if recent.hash != hash {
            *recent = Recent { hash, group: None };
            return;
        }
        match &recent.group {
            Some(known) if known == group => *group = known.clone(),
            _ => recent.group = Some(group.clone()),
        }
    }
}

/// A hash of the fields in which groups usually differ.
fn hash_of(group: &SharedGroup) -> u64 {
    let differing = (&group.name, group.count, &group.request, &group.labels, &group.images);
    foldhash::fast::FixedState::default().hash_one(differing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_core::{Amounts, TaskGroup};

    #[test]
    fn equal_groups_become_the_same_and_others_do_not() {
        let mut recent = RecentGroups::default();
        let groups = [1, 1, 1, 2, 1].map(|cpu| {
            let mut group = SharedGroup::from(TaskGroup::new(1, Amounts::new([cpu])));
            recent.share(&mut group);
            group
        });
        assert!(!groups[0].is_same(&groups[1]), "a group is kept when its hash occurs again");
        assert!(groups[1].is_same(&groups[2]) && groups[1].is_same(&groups[4]));
        assert_eq!(groups[3].request, Amounts::new([2]));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut recent = RecentGroups::default();
        for cpu in 0..5000 {
            let mut group = SharedGroup::from(TaskGroup::new(1, Amounts::new([cpu])));
            recent.share(&mut group);
            assert_eq!(group.request, Amounts::new([cpu]));
        }
        assert_eq!(recent.0.len(), KEPT);
    }
}
