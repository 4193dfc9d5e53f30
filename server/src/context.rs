//! Contexts: named cells in a file of the user, so that commands need no `--cell`.
//!
//! ```toml
//! current = "prod"
//!
//! [contexts.prod]
//! cell = ["10.0.0.1:7600", "10.0.0.2:7600"]
//! tls-ca = "/etc/omega/ca.pem"
//! tls-cert = "/etc/omega/ada.pem"
//! tls-key = "/etc/omega/ada.key"
//! ```
//!
//! The file is `$OMEGA_CONFIG`, or else `omega/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`.

use omega_workload::file::{self, FileError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The contexts of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The default context of commands.
    #[serde(default)]
    pub(crate) current: Option<String>,
    /// All contexts, by name.
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// A cell, and the user's certificate files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Context {
    /// Addresses of the cell's replicas.
    pub(crate) cell: Vec<String>,
    /// Certificate of the authority that signed the replicas' certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The certificate of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the user's certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// Error in the file of contexts, or in one context.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContextError {
    /// The file of contexts is invalid. Correct it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file of contexts cannot be written. Make room on the disk, or name another file in OMEGA_CONFIG.
    #[error("{}: cannot be written: {why}", file.display())]
    Write {
        /// The file of contexts.
        file: PathBuf,
        /// Underlying error.
        why: io::Error,
    },
    /// The flags name a cell twice. Give one of them.
    #[error("--cell and --context cannot be given together: give the one that names the cell")]
    TwoCells,
    /// There is no context of this name. Name an existing one.
    #[error("{}: there is no context {name:?}: run `omega context list` to see the existing \
         ones", file.display())]
    Unknown {
        /// The file of contexts.
        file: PathBuf,
        /// The given name.
        name: String,
    },
    /// A context is invalid. Correct its entry, or set it again.
    #[error("{}: context {name:?}: {why}", file.display())]
    Entry {
        /// The file of contexts.
        file: PathBuf,
        /// Name of the context.
        name: String,
        /// The error.
        why: String,
    },
    /// The path of the file of contexts is unknown, because none of the variables in the message is set. Set one of
    /// them.
    #[error(
        "the path of the file of contexts is unknown: set OMEGA_CONFIG, XDG_CONFIG_HOME or HOME"
    )]
    NoHome,
}

/// Path of the contexts file, if the environment determines it.
pub(crate) fn path() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    if let Some(file) = named("OMEGA_CONFIG") {
        return Some(file.into());
    }
    let config = named("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(Path::new(&named("HOME")?).join(".config")));
    config.map(|config| config.join("omega").join("config.toml"))
}

/// Reads the contexts. If the file does not exist, there are none.
pub(crate) fn read(file: &Path) -> Result<Contexts, ContextError> {
    if file.exists() { Ok(file::read(file)?) } else { Ok(Contexts::default()) }
}

/// Replaces the file of contexts as a whole, so that after a crash there is either the old or the new file.
pub(crate) fn write(file: &Path, contexts: &Contexts) -> Result<(), ContextError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(contexts.text().as_bytes())?;
        temporary.persist(file)?;
        Ok(())
    });
    written.map_err(|why| ContextError::Write { file: file.to_owned(), why })
}

/// Returns a context and its name: the context with the given name, or else the current context. Returns `None` if no
/// name is given and there is no current context.
pub(crate) fn chosen(name: Option<&str>) -> Result<Option<(String, Context)>, ContextError> {
    let Some(file) = path() else {
        return name.map_or(Ok(None), |_| Err(ContextError::NoHome));
    };
    let contexts = read(&file)?;
    let Some(name) = name.map(str::to_owned).or(contexts.current) else {
        return Ok(None);
    };
    match contexts.contexts.get(&name) {
        Some(context) => Ok(Some((name, context.clone()))),
        None => Err(ContextError::Unknown { file, name }),
    }
}

impl Contexts {
    /// The text of the file, as TOML.
    fn text(&self) -> String {
        // A JSON string is also a valid basic string in TOML.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut text = String::new();
        if let Some(current) = &self.current {
            text += &format!("current = {}\n", quoted(current));
        }
        for (name, context) in &self.contexts {
            let cell: Vec<String> = context.cell.iter().map(|address| quoted(address)).collect();
            text += &format!("\n[contexts.{}]\ncell = [{}]\n", quoted(name), cell.join(", "));
            let files = [
                ("tls-ca", &context.tls_ca),
                ("tls-cert", &context.tls_cert),
                ("tls-key", &context.tls_key),
            ];
            for (key, file) in files {
                if let Some(file) = file {
                    text += &format!("{key} = {}\n", quoted(&file.to_string_lossy()));
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_context() -> impl Strategy<Value = Context> {
        let file = || proptest::option::of("[ -~\u{e9}]{1,20}".prop_map(PathBuf::from));
        let cell = proptest::collection::vec("[ -~\n\t]{0,20}", 0..4);
        (cell, file(), file(), file()).prop_map(|(cell, tls_ca, tls_cert, tls_key)| Context {
            cell,
            tls_ca,
            tls_cert,
            tls_key,
        })
    }

    proptest! {
        /// A file that was written is read back as the same value, whatever characters it has.
        #[test]
        fn what_is_written_is_read(
            current in proptest::option::of("[ -~\u{1}\n]{0,9}"),
            contexts in proptest::collection::btree_map("[ -~\u{e9}\n]{0,9}", any_context(), 0..4),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("below").join("config.toml");
            let contexts = Contexts { current, contexts };
            write(&file, &contexts).unwrap();
            prop_assert_eq!(read(&file).unwrap(), contexts);
        }
    }
}
