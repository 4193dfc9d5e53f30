//! Plots of a trace's statistics: the load over time, and the cumulative distributions.

use super::info::{Info, ValueUnit, ValuesInfo};
use crate::plot::{Axis, Line, Plot, Style};
use omega_core::{KindId, Kinds, Unit};
use std::fs;
use std::io;
use std::path::Path;

/// Writes `load` and one plot for each distribution into a folder, which is created if needed.
///
/// # Errors
/// If a file cannot be written.
pub fn write(dir: &Path, info: &Info, kinds: &Kinds) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for (name, plot) in plots(info, kinds) {
        fs::write(dir.join(format!("{name}.svg")), plot.svg())?;
        fs::write(dir.join(format!("{name}.png")), plot.png())?;
    }
    Ok(())
}

/// The plots, each with the name of its file.
fn plots(info: &Info, kinds: &Kinds) -> Vec<(String, Plot)> {
    let mut plots = Vec::new();
    if !info.load.is_empty() {
        plots.push(("load".to_owned(), load(info)));
    }
    // A constant quantity needs no plot.
    for values in info.values.iter().filter(|values| values.largest > values.least) {
        plots.push((values.what.replace(' ', "-"), distribution(info, values, kinds)));
    }
    plots
}

/// Plot of the load as a share of the cell's capacity. If there are no machines, it is a share of the largest load.
fn load(info: &Info) -> Plot {
    let has_machines = info.load.iter().any(|load| load.peak_share.is_some());
    let what = if has_machines { "asked, of what the cell has" } else { "asked, of the most" };
    let y = Axis { least: Some(0.0), ..Axis::share(what) };
    let mut plot = Plot::new(format!("{}: load", info.name), Axis::linear("hours"), y);
    if has_machines {
        plot = plot.guide(1.0, "all of the cell");
    }
    for load in &info.load {
        let whole =
            if has_machines { 1.0 } else { load.over_time.iter().copied().fold(0.0, f64::max) };
        let hours = load.bucket_ms as f64 / 3_600_000.0;
        let middle = |i: usize| (i as f64 + 0.5) * hours;
        let points = load.over_time.iter().enumerate();
        let points = points.map(|(i, share)| (middle(i), share / whole)).collect();
        plot = plot.line(Line::new(load.kind.clone(), points));
    }
    plot
}

fn distribution(info: &Info, values: &ValuesInfo, kinds: &Kinds) -> Plot {
    let (unit, factor) = match values.unit {
        ValueUnit::Ms => (", seconds", 1000.0),
        ValueUnit::Count => ("", 1.0),
        ValueUnit::Kind(kind) => match kinds.get(KindId(kind)).map(|kind| kind.unit) {
            Some(Unit::Milli) => ("", 1000.0),
            Some(Unit::Bytes) => (", GiB", f64::from(1 << 30)),
            _ => ("", 1.0),
        },
    };
    let x = Axis::log(format!("{}{unit}", values.what));
    let y = Axis { least: Some(0.0), most: Some(1.0), ..Axis::share("share of all up to it") };
    let points = values.percentiles.iter().zip(0..);
    let points =
        points.map(|(value, percent)| (*value as f64 / factor, f64::from(percent) / 100.0));
    let line = Line::new("", points.collect()).styled(Style::Steps);
    Plot::new(format!("{}: {}", info.name, values.what), x, y).line(line)
}
