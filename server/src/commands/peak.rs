//! `omega peak`: peak hours of services, in which batch tasks are limited.

use crate::commands::files::amount;
use crate::commands::files::pairs;
use crate::commands::reservation::selector;
use crate::commands::shape::{DoneForShape, DoneShape};
use crate::commands::show::{self, Align, columns};
use crate::commands::{CommandArgs, CommandError, NameArgs, named};
use clap::{Args, Subcommand};
use omega_client::proto;
use omega_client::proto::machine_service_client::MachineServiceClient;
use omega_core::{
    DAY_MS, KindId, KindShare, Kinds, MachineSelector, Operator, Peak, PeakCalendar, Requirement,
};
use omega_workload::words::plural;
use serde::Serialize;
use std::collections::BTreeMap;

/// Operations on peak calendars.
#[derive(Debug, Subcommand)]
pub(crate) enum PeakCommand {
    /// List the calendars of peak hours, and whether their peaks are in effect now.
    #[command(after_help = "Example:\n  omega peak list")]
    List(CommandArgs),
    /// Create or replace a calendar of peak hours, in which batch tasks are limited on some machines.
    ///
    /// At least one --label or --machine is required.
    #[command(
        after_help = "Examples:\n  omega peak set web --label pool=web --peak 08:00-20:00,cpu=30,memory=50\n  \
        omega peak set shop --machine m1 --peak 11:30-14:00,cpu=10 --peak 17:00-22:00,cpu=0"
    )]
    Set(Box<SetArgs>),
    /// Remove a calendar of peak hours.
    #[command(mut_arg("name", named("calendar")), after_help = "Example:\n  omega peak remove web")]
    Remove(NameArgs),
    /// Run the controller that throttles or releases batch tasks during peaks.
    ///
    /// On machines where batch tasks exceed their share, the controller takes away the optional resources of batch
    /// tasks. If that is not enough, it releases batch tasks, which become pending. Outside of peaks, it restores
    /// optional resources.
    #[command(
        after_help = "Examples:\n  omega peak run\n  omega peak run --standby    # takes over when the first controller ends"
    )]
    Run(Box<crate::peak_run::PeakRunArgs>),
}

/// The machines and peak hours of the calendar to set.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("machines").required(true).multiple(true)
    .args(["labels", "machines_named"]))]
pub(crate) struct SetArgs {
    /// Name of the calendar.
    #[arg(value_name = "NAME")]
    name: String,
    /// Limit batch tasks on machines with this label. May be repeated: a machine must have all the labels. If --machine
    /// is also given, a machine must also have one of the names that --machine gives.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pairs::label)]
    labels: Vec<(String, String)>,
    /// Limit batch tasks on this machine. May be repeated.
    #[arg(long = "machine", id = "machines_named", value_name = "NAME")]
    machines: Vec<String>,
    /// Start and end of a daily peak in UTC and, for each resource kind, the maximum percentage of a machine's capacity
    /// that batch tasks may claim: 08:00-20:00,cpu=30,memory=50. May be repeated.
    #[arg(long = "peak", value_name = "FROM-UNTIL,KIND=PERCENT,...", required = true, value_parser = span)]
    peaks: Vec<Span>,
    #[command(flatten)]
    common: CommandArgs,
}

/// A peak as given in a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    from_ms: u32,
    until_ms: u32,
    shares: Vec<(String, u8)>,
}

/// Reads `08:00-20:00,cpu=30`.
fn span(text: &str) -> Result<Span, String> {
    let mut parts = text.split(',');
    let wrong = || format!("{text:?} must be FROM-UNTIL,KIND=PERCENT, such as 08:00-20:00,cpu=30");
    let (from, until) = parts.next().and_then(|span| span.split_once('-')).ok_or_else(wrong)?;
    let share = |part: &str| {
        let (kind, percent) = part.split_once('=').ok_or_else(wrong)?;
        let percent = percent.strip_suffix('%').unwrap_or(percent);
        let percent = percent.parse().ok().filter(|percent| *percent <= 100);
        let percent = percent.ok_or_else(|| {
            format!(
                "{part:?} must have a share from 0 to 100 \
             percent"
            )
        })?;
        Ok::<_, String>((kind.to_owned(), percent))
    };
    let shares: Vec<_> = parts.map(share).collect::<Result<_, _>>()?;
    if shares.is_empty() {
        return Err(wrong());
    }
    Ok(Span { from_ms: time_of_day(from)?, until_ms: time_of_day(until)?, shares })
}

/// Reads `08:30`, up to `24:00`.
fn time_of_day(text: &str) -> Result<u32, String> {
    let read = || {
        let (hours, minutes) = text.split_once(':')?;
        let two = |digits: &str| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
        let (hours, minutes): (u32, u32) = if two(hours) && two(minutes) {
            (hours.parse().ok()?, minutes.parse().ok()?)
        } else {
            return None;
        };
        let ms = (hours * 60 + minutes) * 60_000;
        (minutes < 60 && ms <= DAY_MS).then_some(ms)
    };
    read().ok_or_else(|| {
        format!(
            "{text:?} must be a time of day such as 08:30, or 24:00 for the \
         end of the day"
        )
    })
}

/// A calendar.
#[derive(Debug, Serialize)]
struct CalendarShape {
    name: String,
    /// Requirements on the machines' labels and names, in words.
    machines: String,
    peaks: Vec<PeakShape>,
}

/// A peak.
#[derive(Debug, Serialize)]
struct PeakShape {
    /// Begin of the peak, in milliseconds since midnight.
    from_ms: u32,
    until_ms: u32,
    /// Percentage of a machine's capacity that batch tasks may claim, by kind.
    batch_max: BTreeMap<String, u8>,
    /// Whether the peak is in effect now, by the cell's time.
    holds: bool,
}

/// All calendars.
#[derive(Debug, Serialize)]
struct PeaksShape {
    calendars: Vec<CalendarShape>,
    /// Number of machines on which batch tasks exceed their share now.
    machines_over: u32,
}

pub(crate) fn list(common: &CommandArgs) -> Result<(), CommandError> {
    let caller = common.caller()?;
    let kinds = caller.kinds()?;
    let response = caller.call(&proto::ListPeaksRequest {}, |channel, request| async move {
        MachineServiceClient::new(channel).list_peaks(request).await
    })?;
    let calendars =
        response.calendars.into_iter().map(|given| shape(given, &kinds, response.now_ms));
    let calendars = calendars.collect::<Result<_, _>>()?;
    let shape = PeaksShape { calendars, machines_over: response.machines_over };
    show::print(common.output, &shape, || table(&shape))
}

pub(crate) fn set(args: &SetArgs) -> Result<(), CommandError> {
    let caller = args.common.caller()?;
    let kinds = caller.kinds()?;
    let labels = args.labels.iter();
    let labels = labels.map(|(key, value)| Requirement::equals(&**key, &**value)).collect();
    let values = args.machines.iter().map(|name| name.as_str().into()).collect();
    let name = Requirement { key: "".into(), operator: Operator::In, values };
    let names = if args.machines.is_empty() { Vec::new() } else { vec![name] };
    let peaks = args.peaks.iter().map(|span| peak(span, &kinds)).collect::<Result<_, _>>()?;
    let calendar = PeakCalendar {
        name: args.name.as_str().into(),
        machines: MachineSelector { labels, names },
        peaks,
    };
    let request = proto::SetPeaksRequest { calendar: Some((&calendar).into()) };
    let response = caller.call(&request, |channel, request| async move {
        MachineServiceClient::new(channel).set_peaks(request).await
    })?;
    let done = DoneShape { name: args.name.clone(), done: "is set", version: response.version };
    let shape = DoneForShape { done, machines: response.machines };
    show::print(args.common.output, &shape, || show::done_for("calendar", &shape))
}

/// The peak of a flag, with its shares ascending by kind.
fn peak(span: &Span, kinds: &Kinds) -> Result<Peak, CommandError> {
    let share = |(name, percent): &(String, u8)| {
        let kind = amount::kind(kinds, "--peak".to_owned(), name)?;
        Ok::<_, CommandError>(KindShare { kind, percent: *percent })
    };
    let mut batch_max: Vec<KindShare> = span.shares.iter().map(share).collect::<Result<_, _>>()?;
    batch_max.sort_by_key(|share| share.kind);
    Ok(Peak { from_ms: span.from_ms, until_ms: span.until_ms, batch_max })
}

pub(crate) fn remove(args: &NameArgs) -> Result<(), CommandError> {
    let request = proto::RemovePeaksRequest { name: args.name.clone() };
    let response = args.common.caller()?.call(&request, |channel, request| async move {
        MachineServiceClient::new(channel).remove_peaks(request).await
    })?;
    let shape =
        DoneShape { name: args.name.clone(), done: "is removed", version: response.version };
    show::print(args.common.output, &shape, || show::done("calendar", &shape))
}

fn shape(
    given: proto::PeakCalendar,
    kinds: &Kinds,
    now_ms: u64,
) -> Result<CalendarShape, CommandError> {
    let calendar = PeakCalendar::try_from(given)?;
    let name = |kind: KindId| kinds.get(kind).map_or_else(String::new, |kind| kind.name.clone());
    let peaks = calendar.peaks.iter().map(|peak| PeakShape {
        from_ms: peak.from_ms,
        until_ms: peak.until_ms,
        batch_max: peak.batch_max.iter().map(|share| (name(share.kind), share.percent)).collect(),
        holds: peak.is_active(now_ms),
    });
    Ok(CalendarShape {
        name: calendar.name.to_string(),
        machines: selector(&calendar.machines),
        peaks: peaks.collect(),
    })
}

/// A table with one line for each peak.
fn table(shape: &PeaksShape) -> String {
    let heading = [
        ("calendar", Align::Left),
        ("machines", Align::Left),
        ("from", Align::Right),
        ("until", Align::Right),
        ("batch at most", Align::Left),
        ("now", Align::Left),
    ];
    let mut rows = Vec::new();
    for calendar in &shape.calendars {
        for peak in &calendar.peaks {
            let shares = peak.batch_max.iter().map(|(kind, percent)| format!("{percent}% {kind}"));
            rows.push(vec![
                calendar.name.clone(),
                calendar.machines.clone(),
                clock(peak.from_ms),
                clock(peak.until_ms),
                shares.collect::<Vec<_>>().join(", "),
                if peak.holds { "holds".to_owned() } else { String::new() },
            ]);
        }
    }
    let mut text = columns(&heading, &rows);
    match shape.machines_over {
        0 => {}
        over => {
            let machines = plural(over as u64, "machine");
            text += &format!("on {machines} batch exceeds its share\n");
        }
    }
    text
}

/// A time of day, in UTC.
fn clock(ms: u32) -> String {
    let minutes = ms / 60_000;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_read_as_people_write_them() {
        let shares = vec![("cpu".to_owned(), 30), ("memory".to_owned(), 5)];
        let night = Span { from_ms: 79_200_000, until_ms: 21_600_000, shares };
        assert_eq!(span("22:00-06:00,cpu=30%,memory=5"), Ok(night));
        assert_eq!(time_of_day("24:00"), Ok(DAY_MS));
        for wrong in ["", "22:00", "22:00-06:00", "22:00-06:00,cpu", "8:00-20:00,cpu=1"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        for wrong in ["24:01-25:00,cpu=1", "08:60-09:00,cpu=1", "08:00-09:00,cpu=101"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        assert_eq!(clock(79_200_000), "22:00");
    }
}
