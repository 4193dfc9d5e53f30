//! The list of profiles that a profile file defines.

use super::error::ConfigError;
use super::parse;
use super::registry::Registry;
use super::spec::ProfileSpec;
use omega_core::Kinds;
use std::sync::Arc;

/// The profiles of a file, in its order.
///
/// Invariant: names are unique.
#[derive(Clone, Debug, Default)]
pub struct Profiles(Arc<[ProfileSpec]>);

impl Profiles {
    /// Reads the profiles of a file from its text.
    ///
    /// # Errors
    /// The first error in the file, of those that can be found without a cell.
    pub fn parse(text: &str, registry: &Registry) -> Result<Profiles, ConfigError> {
        parse::parse(text, registry).map(|profiles| Profiles(profiles.into()))
    }

    /// Returns the profile with this name, the scheduler name of its jobs; `None` if the file has no such profile.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ProfileSpec> {
        self.iter().find(|profile| profile.name() == name)
    }

    /// All profiles.
    pub fn iter(&self) -> impl Iterator<Item = &ProfileSpec> {
        self.0.iter()
    }

    /// Checks that each profile can be bound to a cell with these kinds.
    ///
    /// # Errors
    /// The error of [`ProfileSpec::bind`] for the first profile that cannot be bound.
    pub fn check(&self, kinds: &Kinds) -> Result<(), ConfigError> {
        self.iter().try_for_each(|profile| profile.bind(kinds).map(drop))
    }
}
