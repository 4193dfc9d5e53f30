//! Event log on standard error, for all processes that run for a long time.

use clap::Args;
use serde::Deserialize;
use std::io;
use std::str::FromStr;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// Level and format of events.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LogArgs {
    /// Level of log events on standard error: off, error, warn, info, debug or trace. Modules may have their own
    /// levels: warn,omega_service=debug [default: the variable RUST_LOG, or warn if it is not set].
    #[arg(long, env = "OMEGA_LOG_LEVEL", value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Format of log events [default: text].
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
            format!("{text:?} must be such as debug or warn,omega_service=debug: {what}")
        };
        text.parse::<Targets>().map_err(|error| wrong(&error))?;
        // Without this check, a misspelt level would be read as the name of a module.
        let is_level = |word: &str| word.parse::<tracing::Level>().is_ok() || word == "off";
        let mut words = text.split(',').filter(|word| !word.contains(['=', '[']));
        match words.find(|word| !is_level(word)) {
            Some(word) => Err(wrong(&format!("{word:?} is not a level"))),
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
    /// One line of text for each event.
    Text,
    /// One JSON object, on one line, for each event.
    Json,
}

impl LogArgs {
    /// Starts the logger. Only the first call in a process has an effect.
    pub(crate) fn show(&self) {
        let given = self.log_level.as_ref().map(|LogLevel(level)| level.clone());
        let named = given.or_else(|| std::env::var("RUST_LOG").ok());
        let targets = named.and_then(|level| level.parse().ok());
        let targets = targets.unwrap_or_else(|| {
            // Clients cause the warnings of the HTTP/2 library, and could fill the log with them.
            let quiet = ("h2", tracing::Level::ERROR);
            Targets::new().with_default(tracing::Level::WARN).with_targets([quiet])
        });
        let text = tracing_subscriber::fmt::layer().with_writer(io::stderr);
        let begun = match self.log_format {
            Some(LogFormat::Json) => {
                let json = text.json().flatten_event(true);
                tracing_subscriber::registry().with(json).with(targets).try_init()
            }
            Some(LogFormat::Text) | None => {
                tracing_subscriber::registry().with(text).with(targets).try_init()
            }
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
