//! The score `objectives`, whose argument names a file.
//!
//! This crate opens no files, so a program gives the registry a function that reads an objectives file.

use super::arguments::ArgumentError;
use super::registry::{Plugin, Registry};
use crate::rebalance::{Objectives, ObjectivesScore};
use omega_core::Kinds;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `objectives`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct FileArgument {
    /// Path of an objectives file, as for `omega rebalance`. A relative path begins at the folder of the profile file.
    /// Without a file, the objectives are those of the purpose `balance`.
    file: Option<String>,
}

/// Name of the plugin.
const NAME: &str = "objectives";

pub(super) fn plugin() -> Plugin {
    reading(|_, _| Err("cannot be read: this program reads no objectives files".to_owned()))
}

/// The plugin with a function that reads the named file for a cell with these kinds.
fn reading(
    read: impl Fn(&str, &Kinds) -> Result<Objectives, String> + Send + Sync + 'static,
) -> Plugin {
    Plugin::score(NAME, move |args: &FileArgument, kinds| {
        let wrong = |why| ArgumentError::new("file", why);
        let file = args.file.as_deref().map(|file| read(file, kinds));
        let objectives = file.transpose().map_err(wrong)?.unwrap_or_else(Objectives::balance);
        Ok(ObjectivesScore::new(&objectives, kinds))
    })
    .describe::<FileArgument>()
    .about(
        "Prefers the machine on which the task raises the objectives of `omega rebalance` least.",
    )
}

impl Registry {
    /// Returns `self` with a function that reads the file of the score `objectives` for a cell with these resource
    /// kinds. Without it, profiles with this score cannot be bound. An error names the reason.
    #[must_use]
    pub fn reading_objectives(
        self,
        read: impl Fn(&str, &Kinds) -> Result<Objectives, String> + Send + Sync + 'static,
    ) -> Registry {
        self.replaced(reading(read))
    }
}
