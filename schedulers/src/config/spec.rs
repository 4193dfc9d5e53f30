//! A profile that was read from a file. It names plugins, and becomes a [`Profile`] when it is bound to a cell.

use super::error::{ConfigError, Fault, Source};
use super::file::Base;
use super::registry::Add;
use crate::framework::profile::Profile;
use crate::placing::search::Search;
use crate::scheduler::Settings;
use crate::volumes::Volumes;
use omega_core::Kinds;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A profile of a file. It can be bound to any number of cells and workers.
pub struct ProfileSpec {
    pub(super) name: String,
    /// Position of the profile's name in the file.
    pub(super) place: (usize, usize),
    pub(super) base: Base,
    /// Scores and post-filters of the base that are left out or replaced.
    pub(super) without: Vec<String>,
    pub(super) plugins: Vec<Entry>,
    pub(super) search: Option<Search>,
    pub(super) near_best: Option<u32>,
    pub(super) text: Arc<str>,
}

/// A plugin that a profile adds.
pub(super) struct Entry {
    pub(super) weight: i32,
    pub(super) add: Box<Add>,
    /// Path of the plugin's arguments in the file; `place` is their byte range.
    pub(super) field: String,
    pub(super) place: Range<usize>,
}

impl fmt::Debug for ProfileSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfileSpec").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ProfileSpec {
    /// The scheduler name of the jobs that the profile is for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The line and column of the profile's name in the file, from 1.
    #[must_use]
    pub fn place(&self) -> (usize, usize) {
        self.place
    }

    /// Number of machines to search, if given in the file.
    #[must_use]
    pub fn search(&self) -> Option<Search> {
        self.search
    }

    /// Returns the profile for a cell with these kinds.
    ///
    /// # Errors
    /// If an argument names something that the cell does not have.
    pub fn bind(&self, kinds: &Kinds) -> Result<Profile, ConfigError> {
        self.complete(self.base.profile(kinds), kinds, &Volumes::default())
    }

    /// Binds the profile for a cell whose tasks may have volumes: the base `kube` then includes the filters for
    /// volumes.
    ///
    /// A profile of [`ProfileSpec::bind`] has no such filters, and places tasks without regard to their volume claims.
    ///
    /// # Errors
    /// As for [`ProfileSpec::bind`].
    pub fn bind_with(&self, kinds: &Kinds, volumes: &Volumes) -> Result<Profile, ConfigError> {
        let profile = self.base.profile(kinds);
        let profile = if self.base == Base::Kube { profile.with_volumes(volumes) } else { profile };
        self.complete(profile, kinds, volumes)
    }

    /// Returns `profile`, made from the base, with the changes of the file.
    fn complete(
        &self,
        mut profile: Profile,
        kinds: &Kinds,
        volumes: &Volumes,
    ) -> Result<Profile, ConfigError> {
        profile.volumes = volumes.clone();
        for name in &self.without {
            profile = profile.without_score(name).without_post_filter(name);
        }
        for entry in &self.plugins {
            profile = (entry.add)(profile, kinds, entry.weight).map_err(|error| {
                let place = error.place().unwrap_or_else(|| entry.place.clone());
                let field = format!("{}.{}", entry.field, error.argument);
                Source(&self.text).error(&place, field, Fault::Argument(error.to_string()))
            })?;
        }
        Ok(profile)
    }

    /// Returns the settings with the file's values of `search` and `near_best`, as far as the file gives them.
    #[must_use]
    pub fn apply(&self, mut settings: Settings) -> Settings {
        let placement = &mut settings.placement;
        placement.search = self.search.unwrap_or(placement.search);
        placement.near_best = self.near_best.unwrap_or(placement.near_best);
        settings
    }
}
