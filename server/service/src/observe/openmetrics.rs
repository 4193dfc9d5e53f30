//! Writer of metrics in the OpenMetrics text format.
//!
//! The writer hides the encoding library from servers and schedulers, and applies the naming rules: a counter's name
//! ends with `_total`, and a unit follows the name.

use omega_store::replica::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelValue, LabelValueEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::{self, Write};

/// Content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

static SECONDS: Unit = Unit::Seconds;
static BYTES: Unit = Unit::Bytes;

/// Name and help text of a metric. The name is given without the prefix `omega_`, the unit, and the suffix `_total`.
#[derive(Clone, Debug)]
pub struct Figure {
    name: &'static str,
    help: &'static str,
    unit: Option<&'static Unit>,
}

impl Figure {
    /// A figure that is a count, without a unit.
    #[must_use]
    pub fn new(name: &'static str, help: &'static str) -> Figure {
        Figure { name, help, unit: None }
    }

    /// A figure in seconds.
    #[must_use]
    pub fn seconds(name: &'static str, help: &'static str) -> Figure {
        Figure { unit: Some(&SECONDS), ..Figure::new(name, help) }
    }

    /// A figure in bytes.
    #[must_use]
    pub fn bytes(name: &'static str, help: &'static str) -> Figure {
        Figure { unit: Some(&BYTES), ..Figure::new(name, help) }
    }
}

/// Names and values of the labels of one line.
pub type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// Writer of figures. Each figure is written once.
#[derive(Debug)]
pub struct MetricWriter<'a>(DescriptorEncoder<'a>);

impl MetricWriter<'_> {
    /// Writes a gauge.
    ///
    /// # Errors
    /// If the gauge cannot be written as text.
    pub fn gauge(&mut self, figure: Figure, value: f64) -> fmt::Result {
        self.begin(figure, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// Writes a gauge with one value for each of several label sets.
    ///
    /// # Errors
    /// As [`MetricWriter::gauge`].
    pub fn gauges<'a, const N: usize>(
        &mut self,
        figure: Figure,
        values: impl IntoIterator<Item = (Labels<'a, N>, f64)>,
    ) -> fmt::Result {
        let mut metric = self.begin(figure, MetricType::Gauge)?;
        let mut values = values.into_iter();
        values.try_for_each(|(labels, value)| {
            let labels = labels.map(escaped);
            metric.encode_family(&labels)?.encode_gauge(&value)
        })
    }

    /// Writes a counter, which never decreases.
    ///
    /// # Errors
    /// As [`MetricWriter::gauge`].
    pub fn counter(&mut self, figure: Figure, value: f64) -> fmt::Result {
        let mut metric = self.begin(figure, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, f64, f64>(&value, None)
    }

    /// Writes a counter with one value for each of several label sets.
    ///
    /// # Errors
    /// As [`MetricWriter::gauge`].
    pub fn counters<'a, const N: usize>(
        &mut self,
        figure: Figure,
        values: impl IntoIterator<Item = (Labels<'a, N>, f64)>,
    ) -> fmt::Result {
        let mut metric = self.begin(figure, MetricType::Counter)?;
        values.into_iter().try_for_each(|(labels, value)| {
            let labels = labels.map(escaped);
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, f64, f64>(&value, None)
        })
    }

    /// Writes a histogram of durations.
    ///
    /// # Errors
    /// As [`MetricWriter::gauge`].
    pub fn histogram(&mut self, figure: Figure, took: &Histogram) -> fmt::Result {
        encode(&mut self.begin(figure, MetricType::Histogram)?, took)
    }

    /// Writes a histogram with one series for each of several label sets.
    ///
    /// # Errors
    /// As [`MetricWriter::gauge`].
    pub fn histograms<'a, const N: usize>(
        &mut self,
        figure: Figure,
        all: impl IntoIterator<Item = (Labels<'a, N>, Histogram)>,
    ) -> fmt::Result {
        let mut metric = self.begin(figure, MetricType::Histogram)?;
        let mut all = all.into_iter();
        all.try_for_each(|(labels, took)| {
            let labels = labels.map(escaped);
            encode(&mut metric.encode_family(&labels)?, &took)
        })
    }

    fn begin(&mut self, figure: Figure, of: MetricType) -> Result<MetricEncoder<'_>, fmt::Error> {
        self.0.encode_descriptor(figure.name, figure.help, figure.unit, of)
    }
}

/// A label value with the format's escapes, which the library does not add. The escapes are needed because users choose
/// names.
struct Escaped<'a>(&'a str);

fn escaped<'a>((name, value): (&'static str, &'a str)) -> (&'static str, Escaped<'a>) {
    (name, Escaped(value))
}

impl EncodeLabelValue for Escaped<'_> {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => encoder.write_str("\\\\"),
            '"' => encoder.write_str("\\\""),
            '\n' => encoder.write_str("\\n"),
            c => encoder.write_char(c),
        })
    }
}

fn encode(metric: &mut MetricEncoder<'_>, took: &Histogram) -> fmt::Result {
    let count = took.counts.iter().map(|(_, count)| count).sum();
    metric.encode_histogram::<NoLabelSet>(took.sum, count, &took.counts, None)
}

/// A source of metrics.
pub trait Figures: Send + Sync + fmt::Debug + 'static {
    /// Writes the metrics.
    ///
    /// # Errors
    /// If they cannot be written as text.
    fn write(&self, pen: &mut MetricWriter<'_>) -> fmt::Result;
}

/// A metric in the form that the registry needs.
#[derive(Debug)]
struct Written<F>(F);

impl<F: Figures> Collector for Written<F> {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.write(&mut MetricWriter(encoder))
    }
}

/// Returns the metrics as text.
///
/// # Errors
/// If a metric cannot be written as text.
pub fn text(figures: impl Figures) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("omega");
    registry.register_collector(Box::new(Written(figures)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use omega_store::replica::Durations;
    use std::time::Duration;

    #[derive(Debug)]
    struct Example;

    impl Figures for Example {
        fn write(&self, pen: &mut MetricWriter<'_>) -> fmt::Result {
            pen.counters(Figure::new("things", "Things"), [([("of", "a\"b\\c\nd")], 3.0)])?;
            pen.gauge(Figure::bytes("size", "Size"), 1.5)?;
            let took = Durations::default();
            took.note_many(Duration::from_micros(3), 2);
            took.note(Duration::from_secs(60));
            pen.histogram(Figure::seconds("wait", "Wait"), &took.histogram())
        }
    }

    #[test]
    fn names_of_users_cannot_break_out_of_their_quotes() {
        let text = text(Example).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&r#"omega_things_total{of="a\"b\\c\nd"} 3.0"#), "{text}");
        assert!(lines.contains(&"omega_size_bytes 1.5"), "{text}");
        assert!(lines.contains(&"omega_wait_seconds_bucket{le=\"0.000002\"} 0"), "{text}");
        assert!(lines.contains(&"omega_wait_seconds_bucket{le=\"0.000004\"} 2"), "{text}");
        assert!(lines.contains(&"omega_wait_seconds_bucket{le=\"+Inf\"} 3"), "{text}");
        assert!(lines.contains(&"omega_wait_seconds_sum 60.000006"), "{text}");
        assert_eq!(lines.last(), Some(&"# EOF"));
    }
}
