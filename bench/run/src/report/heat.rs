//! The heat map: one cell per machine, whose colour is the claimed share of the machine.
//!
//! There is one colour per tenth of the capacity, in visually even steps, so that a legend can list them. A machine
//! with claims above its capacity has another hue. The legend is also a histogram.
//!
//! A sequence of cells with one colour is one dashed line, so the map of 12,500 machines takes only 100 kB.

use super::grid::{Block, Grid};
use super::html::{label, section};
use super::number::{NOTHING, count, percent, plural, wide};
use super::text::{clean, clip};
use super::{MachineHeat, RunReport};
use serde::Serialize;

/// Number of colours: one for machines without claims, ten for tenths of the capacity, one for claims above the
/// capacity, and one for machines without the resource.
const SHADES: usize = 13;
const SHADE_OVER: usize = 11;
const SHADE_NONE: usize = 12;
/// Largest share that is shown as the whole capacity. A sum of rounded amounts may be slightly above one.
const OVER: f64 = 1.0 + 1e-9;
/// Maximum number of characters of a machine's name on the page, so that long names do not determine the page's size.
const NAME_CHARS_MAX: usize = 40;
/// Maximum number of resource kinds that have a map. A cell has few kinds, and each map takes 100 kB.
const KINDS_MAX: usize = 8;

/// Values that the script shows at the pointer, in the order of the map.
#[derive(Debug, Default, Serialize)]
pub(super) struct Readings {
    /// For each cell, the name of its machine, or the names of its first and last machine.
    names: Vec<String>,
    kinds: Vec<String>,
    /// Thousandths of the capacity, by kind and cell; negative if the machine has no such resource.
    used: Vec<Vec<i64>>,
    columns: usize,
    /// The name of each block's place, with the index of the block's first cell.
    blocks: Vec<(String, usize)>,
}

/// The section with the map, and the values that the script shows on it.
pub(super) fn render(report: &RunReport) -> (String, Readings) {
    let title = "Machines at the end";
    let kinds = report.resources.len().min(KINDS_MAX);
    if report.heat.is_empty() || kinds == 0 {
        let body = "<p class=\"none\">The report has no machines.</p>\n";
        return (section(title, body), Readings::default());
    }
    let grid = Grid::new(report);
    let mut tabs = String::new();
    let mut rules = String::new();
    let mut panels = String::new();
    for kind in 0..kinds {
        let checked = if kind == 0 { " checked" } else { "" };
        let name = label(&report.resources[kind].name);
        tabs.push_str(&format!(
            "<input type=\"radio\" name=\"kind\" id=\"kind{kind}\"{checked}>\
             <label for=\"kind{kind}\">{name}</label>"
        ));
        rules.push_str(&format!("#kind{kind}:checked~.panel{kind}{{display:block}}"));
        panels.push_str(&panel(report, &grid, kind));
    }
    let hint = match grid.share {
        1 => "Each cell is a machine.".to_string(),
        share => format!("Each cell is the mean of {share} neighbours."),
    };
    let body = format!(
        "<style>{rules}</style>\n<p class=\"hint\">{hint} The colour shows its claimed share of \
         the resource.\
         </p>\n<div class=\"tabs\">{tabs}{panels}</div>\n"
    );
    (section(title, &body), readings(report, &grid, kinds))
}

/// The legend and the blocks of one resource kind.
fn panel(report: &RunReport, grid: &Grid, kind: usize) -> String {
    let blocks: String = grid
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| block_map(report, grid, (index, block), kind))
        .collect();
    format!(
        "\n<div class=\"panel panel{kind}\">{}<div class=\"blocks\">{blocks}</div></div>",
        legend(&report.heat, kind)
    )
}

/// The legend, with the number of machines that have each colour.
fn legend(heat: &[MachineHeat], kind: usize) -> String {
    let mut machines = [0_usize; SHADES];
    for machine in heat {
        machines[shade(used(machine, kind))] += 1;
    }
    // Most machines may have none of a rare resource. The bar of these machines is cut off, so that the other bars are
    // visible.
    let most = machines[..SHADE_NONE].iter().copied().max().unwrap_or(0).max(1);
    let entry = |index: usize| {
        let (name, meaning) = match index {
            0 => ("0".to_string(), "with nothing claimed".to_string()),
            SHADE_OVER => (">100".to_string(), "claimed beyond their capacity".to_string()),
            SHADE_NONE => ("none".to_string(), "without this resource".to_string()),
            tenth => (format!("{}", tenth * 10), format!("up to {} % claimed", tenth * 10)),
        };
        let number = machines[index];
        let height = 100.0 * number.min(most) as f64 / most as f64;
        let amount = if number == 0 { String::new() } else { count(wide(number)) };
        format!(
            "<li title=\"{} {meaning}\"><span class=\"bar\"><b>{amount}</b>\
             <i style=\"height:{height:.1}%\"></i></span><i class=\"swatch h{index}\"></i>{name}</li>",
            plural(wide(number), "machine"),
        )
    };
    let shown = if machines[SHADE_NONE] > 0 { SHADES } else { SHADES - 1 };
    let entries: String = (0..shown).map(entry).collect();
    format!(
        "<div class=\"scale\"><ul>{entries}</ul>\
         <p class=\"unit\">claimed, up to … % of the capacity; above, how many machines</p></div>"
    )
}

/// One block with its heading.
fn block_map(
    report: &RunReport,
    grid: &Grid,
    (index, block): (usize, &Block),
    kind: usize,
) -> String {
    let shares: Vec<Option<f64>> =
        block.machines.iter().map(|&machine| used(&report.heat[machine], kind)).collect();
    let cells: Vec<usize> = shares.chunks(grid.share).map(|chunk| shade(mean(chunk))).collect();
    let rows = cells.len().div_ceil(grid.columns);
    let paths: String = (0..SHADES)
        .map(|shade| (shade, path(&cells, grid.columns, shade)))
        .filter(|(_, path)| !path.is_empty())
        .map(|(shade, path)| format!("<path class=\"h{shade}\" d=\"{path}\"/>"))
        .collect();
    let name = if block.place.is_empty() && grid.blocks.len() == 1 {
        "all".to_string()
    } else if block.place.is_empty() {
        "no place".to_string()
    } else {
        label(&block.place)
    };
    format!(
        "<figure class=\"block\"><figcaption><b title=\"{name}\">{name}</b> \
         <span>{}, mean {}</span></figcaption>\
         <svg data-block=\"{index}\" width=\"{}\" viewBox=\"0 0 {} {rows}\" aria-hidden=\"true\">\
         {paths}</svg></figure>",
        plural(wide(block.machines.len()), "machine"),
        mean(&shares).map_or_else(|| NOTHING.to_string(), percent),
        grid.columns * grid.pixels,
        grid.columns,
    )
}

/// A dashed line through all cells with a shade.
fn path(cells: &[usize], columns: usize, shade: usize) -> String {
    let mut path = String::new();
    for (row, cells) in cells.chunks(columns).enumerate() {
        let mut column = 0;
        for run in cells.chunk_by(|a, b| a == b) {
            if run[0] == shade {
                path.push_str(&format!("M{column} {row}.5h{}", run.len()));
            }
            column += run.len();
        }
    }
    path
}

/// The claimed share of a machine; `None` if the machine has no such resource.
fn used(machine: &MachineHeat, kind: usize) -> Option<f64> {
    machine.used.get(kind).copied().flatten().filter(|share| share.is_finite())
}

/// The colour for a share.
fn shade(share: Option<f64>) -> usize {
    match share {
        None => SHADE_NONE,
        Some(share) if share <= 0.0 => 0,
        Some(share) if share > OVER => SHADE_OVER,
        // Because of rounding, a sum that should be 0.3 may be slightly more.
        Some(share) => ((share * 10.0 - 1e-9).ceil() as usize).clamp(1, 10),
    }
}

/// The mean of the values that are present.
fn mean(shares: &[Option<f64>]) -> Option<f64> {
    let there = shares.iter().flatten().count();
    (there > 0).then(|| shares.iter().flatten().sum::<f64>() / there as f64)
}

/// The names and shares of all cells, in the order of the map.
fn readings(report: &RunReport, grid: &Grid, kinds: usize) -> Readings {
    let mut readings = Readings {
        kinds: report.resources[..kinds].iter().map(|resource| clean(&resource.name)).collect(),
        used: vec![Vec::new(); kinds],
        columns: grid.columns,
        ..Readings::default()
    };
    for block in &grid.blocks {
        readings.blocks.push((clean(&block.place), readings.names.len()));
        for cell in block.machines.chunks(grid.share) {
            readings.names.push(cell_name(report, cell));
            for (kind, column) in readings.used.iter_mut().enumerate() {
                let shares: Vec<Option<f64>> =
                    cell.iter().map(|&machine| used(&report.heat[machine], kind)).collect();
                column.push(mean(&shares).map_or(-1, |share| (share * 1_000.0).round() as i64));
            }
        }
    }
    readings
}

/// The name of a cell's machine, or the names of its first and last machine.
fn cell_name(report: &RunReport, cell: &[usize]) -> String {
    let name = |&machine: &usize| clip(&clean(&report.heat[machine].name), NAME_CHARS_MAX);
    match cell {
        [] => String::new(),
        [only] => name(only),
        [first, .., last] => format!("{} … {}", name(first), name(last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_are_tenths_and_the_ends_are_their_own() {
        for (share, expected) in [
            (None, SHADE_NONE),
            (Some(0.0), 0),
            (Some(0.000_1), 1),
            (Some(0.1), 1),
            (Some(0.1 + 0.2), 3),
            (Some(0.999), 10),
            (Some(1.0), 10),
            (Some(1.001), SHADE_OVER),
        ] {
            assert_eq!(shade(share), expected, "{share:?}");
        }
    }

    #[test]
    fn runs_of_a_shade_are_one_line() {
        let cells = [1, 1, 2, 1, 1, 1, 2];
        assert_eq!(path(&cells, 3, 1), "M0 0.5h2M0 1.5h3");
        assert_eq!(path(&cells, 3, 2), "M2 0.5h1M0 2.5h1");
        assert_eq!(path(&cells, 3, 5), "");
    }
}
