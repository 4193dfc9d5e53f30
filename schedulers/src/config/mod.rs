//! Profile files: an operator's choice of the plugins that a scheduler uses.
//!
//! ```text
//!   file ──parse──▶ Profiles ──bind to the cell's kinds──▶ Profile, Settings
//!          ▲                        ▲
//!          └── Registry: name, aliases, arguments, constructor of each plugin
//! ```
//!
//! Reading has two steps, because a file is not written for a particular cell. [`Profiles::parse`]
//! finds errors in the file itself; [`ProfileSpec::bind`] finds what does not match a cell, such as
//! an unknown resource kind. Each error is one line with the place and the field. The parser turns
//! arguments into the plugin's own type.
//!
//! Your own plugin is another entry in the [`Registry`]:
//!
//! ```
//! use omega_core::{KindId, Kinds};
//! use omega_schedulers::config::{KindName, Plugin, Profiles, Registry};
//! use omega_schedulers::{MachineRef, MachineScore, PerMachine, Tasks};
//!
//! #[derive(serde::Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct SnugArguments { kind: KindName }
//!
//! struct Snug(KindId);
//! impl MachineScore for Snug {
//!     fn name(&self) -> &'static str { "snug" }
//!     fn score(&self, _: &Tasks<'_>, machine: MachineRef<'_>) -> i32 {
//!         10_000 - (machine.free(self.0) >> 30) as i32
//!     }
//! }
//!
//! let snug = Plugin::score("snug", |arguments: &SnugArguments, kinds: &Kinds| {
//!     Ok(PerMachine(Snug(arguments.kind.find("kind", kinds)?)))
//! });
//! let registry = Registry::built_in().with(snug)?;
//! let file = r#"
//!     [[profile]]
//!     name = "web"
//!     base = "service"
//!     disable = ["balanced"]
//!     [[profile.score]]
//!     plugin = "snug"
//!     weight = 2
//!     args = { kind = "memory" }
//! "#;
//! let profiles = Profiles::parse(file, &registry)?;
//! let web = profiles.get("web").expect("it is in the file");
//! let profile = web.bind(&Kinds::standard())?;
//! assert!(profile.evaluator().weights().any(|(name, weight)| (name, weight) == ("snug", 2)));
//!
//! let typo = Profiles::parse(&file.replace("\"snug\"", "\"smug\""), &registry).unwrap_err();
//! assert!(typo.to_string().starts_with("7:14: profile[0].score[0].plugin: there is no score"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: `registry.rs`, `built_in.rs`, `kube.rs`, `preemption.rs`, `arguments.rs`,
//! `file.rs`, `parse.rs`, `profiles.rs`, `error.rs`, `schema.rs`. `docs/profiles.md` explains the
//! files for operators.

mod arguments;
mod backfill;
mod built_in;
mod delay;
mod describe;
mod described;
mod devices;
mod error;
mod field_path;
mod file;
mod kube;
mod kube_old;
mod load;
#[cfg(feature = "rebalance")]
mod objectives;
mod parse;
mod preemption;
mod profiles;
mod registry;
#[cfg(feature = "schema")]
mod schema;
mod spec;
mod time;

pub use arguments::{ArgumentError, KindName};
pub use describe::Described;
pub use error::{ConfigError, Fault};
pub use field_path::field_path;
pub use file::Base;
pub use profiles::Profiles;
pub use registry::{NameTaken, Plugin, Point, Presence, Registry};
#[cfg(feature = "schema")]
pub use schema::schema;
pub use spec::ProfileSpec;
