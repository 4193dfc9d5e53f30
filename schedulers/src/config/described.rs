//! Constructors of registry entries for plugins whose arguments are described in the schema of profile files.

use super::arguments::ArgumentError;
use super::describe::Described;
use super::registry::Plugin;
use crate::framework::plugin::{Filter, Score};
use crate::framework::relative::RelativeScore;
use omega_core::Kinds;
use serde::de::DeserializeOwned;

/// A filter with a description of its arguments.
pub(super) fn filter<A, F>(name: &str, make: fn(&A, &Kinds) -> Result<F, ArgumentError>) -> Plugin
where
    A: DeserializeOwned + Described + Send + Sync + 'static,
    F: Filter + 'static,
{
    Plugin::filter(name, make).describe::<A>()
}

/// A relative score with a description of its arguments.
pub(super) fn relative<A, S>(name: &str, make: fn(&A, &Kinds) -> Result<S, ArgumentError>) -> Plugin
where
    A: DeserializeOwned + Described + Send + Sync + 'static,
    S: RelativeScore + 'static,
{
    Plugin::relative(name, make).describe::<A>()
}

/// A score with a description of its arguments.
pub(super) fn score<A, S>(name: &str, make: fn(&A, &Kinds) -> Result<S, ArgumentError>) -> Plugin
where
    A: DeserializeOwned + Described + Send + Sync + 'static,
    S: Score + 'static,
{
    Plugin::score(name, make).describe::<A>()
}
