//! Figures of this process, from `/proc`, under the names that Kubernetes' programs have for them.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Number of clock ticks in a second, which is the same on all Linux systems of the supported processors.
const TICKS: f64 = 100.0;

/// Collector of the figures, which are read at each request.
#[derive(Debug)]
pub(super) struct Process;

/// The figures.
#[derive(Debug, Default, PartialEq)]
struct Figures {
    cpu_seconds: f64,
    resident_bytes: f64,
    virtual_bytes: f64,
    start_seconds: f64,
    open_files: f64,
}

impl Figures {
    /// Reads the figures; `None` if the system has no `/proc`.
    fn read() -> Option<Figures> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let system = std::fs::read_to_string("/proc/stat").ok()?;
        let files = std::fs::read_dir("/proc/self/fd").ok()?.count();
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let mut figures = Figures::parse(&stat, &system, &status)?;
        #[expect(clippy::cast_precision_loss, reason = "a process has few files")]
        let files = files as f64;
        figures.open_files = files;
        Some(figures)
    }

    fn parse(stat: &str, system: &str, status: &str) -> Option<Figures> {
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let resident_kib: f64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
        // The name of the program, in parentheses, may have spaces.
        let (_, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // Numbers as in proc(5), where the first of these fields has the number 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let booted = system.lines().find_map(|line| line.strip_prefix("btime "))?;
        let booted: f64 = booted.trim().parse().ok()?;
        Some(Figures {
            cpu_seconds: (field(14)? + field(15)?) / TICKS,
            start_seconds: booted + field(22)? / TICKS,
            virtual_bytes: field(23)?,
            resident_bytes: resident_kib * 1024.0,
            open_files: 0.0,
        })
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(figures) = Figures::read() else { return Ok(()) };
        let counter = ConstCounter::new(figures.cpu_seconds);
        let help = "Processor time of the process in seconds";
        let kind = counter.metric_type();
        counter.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, kind)?)?;
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Memory in use in bytes", figures.resident_bytes),
            ("process_virtual_memory_bytes", "Virtual memory in bytes", figures.virtual_bytes),
            ("process_start_time_seconds", "Start of the process", figures.start_seconds),
            ("process_open_fds", "Number of open files", figures.open_files),
        ] {
            let gauge = ConstGauge::new(value);
            let kind = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_a_name_with_spaces() {
        let numbers: Vec<String> = (4..=52).map(|number| (number * 100).to_string()).collect();
        let stat = format!("7 (a b) c) S {}\n", numbers.join(" "));
        let figures =
            Figures::parse(&stat, "cpu 1\nbtime 1000\n", "VmRSS:\t    12 kB\n").expect("figures");
        let expected = Figures {
            cpu_seconds: 29.0,
            start_seconds: 1022.0,
            virtual_bytes: 2300.0,
            resident_bytes: 12.0 * 1024.0,
            open_files: 0.0,
        };
        assert_eq!(figures, expected);
        assert_eq!(Figures::parse("", "btime 1", ""), None);
    }
}
