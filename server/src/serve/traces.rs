//! Tracing of commits: settings of an OpenTelemetry collector, if one is named.

use omega_service::TraceSettings;
use serde::Deserialize;
use std::str::FromStr;

/// Standard OTLP variable, which is one setting for all programs of a machine.
const COMMON: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Default fraction: one transaction in a hundred. This is enough to show in which stages time is spent, at no
/// noticeable cost.
const FRACTION: f64 = 0.01;

/// Address of a collector.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Collector(String);

impl FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Collector, String> {
        let rest = text.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let is_good = rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['/', ' ', '@']));
        if is_good {
            Ok(Collector(text.to_owned()))
        } else {
            Err(format!(
                "{text:?} must be http:// and an address of this machine, such as \
                 http://127.0.0.1:4317: to reach a collector elsewhere, run one on this machine that forwards to it"
            ))
        }
    }
}

impl TryFrom<String> for Collector {
    type Error = String;

    fn try_from(text: String) -> Result<Collector, String> {
        text.parse()
    }
}

/// A part of the whole, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub(crate) struct Fraction(f64);

impl FromStr for Fraction {
    type Err = String;

    fn from_str(text: &str) -> Result<Fraction, String> {
        let number: f64 = text.parse().map_err(|_| format!("{text:?} must be a number"))?;
        number.try_into()
    }
}

impl TryFrom<f64> for Fraction {
    type Error = String;

    fn try_from(number: f64) -> Result<Fraction, String> {
        if (0.0..=1.0).contains(&number) {
            Ok(Fraction(number))
        } else {
            Err(format!("{number} must be from 0 to 1"))
        }
    }
}

/// Settings of traces, from this program's own settings, or else from the variable for all programs of the machine.
///
/// # Errors
/// If the variable is not the address of a collector.
pub(super) fn settings(
    collector: Option<Collector>,
    fraction: Option<Fraction>,
) -> Result<Option<TraceSettings>, String> {
    let common = || std::env::var(COMMON).ok().filter(|text| !text.is_empty());
    let collector = match collector {
        Some(collector) => Some(collector),
        None => {
            let read = common().map(|text| text.parse().map_err(|why| format!("{COMMON}: {why}")));
            read.transpose()?
        }
    };
    let fraction = fraction.map_or(FRACTION, |Fraction(fraction)| fraction);
    Ok(collector.map(|Collector(endpoint)| TraceSettings { endpoint, fraction }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_reached_without_tls_and_a_fraction_is_a_part() {
        for good in ["http://127.0.0.1:4317", "http://collector:4317/", "http://[::1]:4317"] {
            assert!(good.parse::<Collector>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "http://",
            "https://a:1",
            "127.0.0.1:4317",
            "http://a/v1",
            "http://a b",
            "http://u@a",
        ] {
            assert!(bad.parse::<Collector>().is_err(), "{bad}");
        }
        for bad in ["-0.1", "1.1", "NaN", "all", ""] {
            assert!(bad.parse::<Fraction>().is_err(), "{bad}");
        }
        assert!("0".parse::<Fraction>().is_ok() && "1".parse::<Fraction>().is_ok());
    }
}
