//! Event log on standard error, for all processes that run for a long time.

use clap::Args;
use serde::Deserialize;
use std::io;
use std::str::FromStr;
use tracing_subscriber::EnvFilter;

/// Level and format of events.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LogArgs {
    /// Level of events on standard error: error, warn, info, debug or trace, also by module, such
    /// as warn,omega_service=debug [default: RUST_LOG, or warn].
    #[arg(long, env = "OMEGA_LOG_LEVEL", value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Text lines, or one JSON object for each event [default: text].
    #[arg(long, env = "OMEGA_LOG_FORMAT", value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
}

/// Level of events.
///
/// Invariant: it can be parsed as a filter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct LogLevel(String);

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<LogLevel, String> {
        let wrong = |what: &dyn std::fmt::Display| {
            format!("{text:?} is not like debug or warn,omega_service=debug: {what}")
        };
        EnvFilter::try_new(text).map_err(|error| wrong(&error))?;
        // Without this check, a misspelt level would be read as the name of a module.
        let is_level = |word: &str| word.parse::<tracing::Level>().is_ok() || word == "off";
        let mut words = text.split(',').filter(|word| !word.contains(['=', '[']));
        match words.find(|word| !is_level(word)) {
            Some(word) => Err(wrong(&format!("{word:?} is no level"))),
            None => Ok(LogLevel(text.to_owned())),
        }
    }
}

impl TryFrom<String> for LogLevel {
    type Error = String;

    fn try_from(text: String) -> Result<LogLevel, String> {
        text.parse()
    }
}

/// Format of log events: text or JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// Lines for people.
    Text,
    /// An object for each event.
    Json,
}

impl LogArgs {
    /// Starts the logger. Only the first call in a process has an effect.
    pub(crate) fn show(&self) {
        let filter = match &self.log_level {
            Some(LogLevel(level)) => EnvFilter::try_new(level),
            None => EnvFilter::try_from_default_env().or_else(|_| EnvFilter::try_new("warn")),
        };
        let filter = filter.expect("a level was checked when it was read");
        let shown = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
        let begun = match self.log_format {
            Some(LogFormat::Json) => shown.json().flatten_event(true).try_init(),
            Some(LogFormat::Text) | None => shown.try_init(),
        };
        // An error means that the logger was started before.
        drop(begun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_none_is_no_name_of_a_part() {
        for level in ["warn", "debug", "off", "warn,omega_service=debug", "omega_store=trace,info"]
        {
            assert!(level.parse::<LogLevel>().is_ok(), "{level}");
        }
        for level in ["", "loud", "warn,loud", "omega_service=loud", "debug,"] {
            assert!(level.parse::<LogLevel>().is_err(), "{level}");
        }
    }
}
