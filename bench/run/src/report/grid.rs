//! Positions of machines on the heat map: a block for each place, usually a zone, and rows within a block.

use super::RunReport;
use std::collections::BTreeMap;

/// Maximum number of cells of one map. If there are more machines, each cell is the mean of several neighbours.
pub(super) const CELLS_MAX: usize = 20_000;
/// Maximum number of blocks of a map. If there are more places, all machines are in one block.
const BLOCKS_MAX: usize = 48;
/// Width and height in pixels that the map may have on a wide screen.
const AREA: (usize, usize) = (1_128, 480);
/// Distance between two blocks in pixels. The next constant is the minimum width of a block in cells.
const GAP: usize = 24;
const COLUMNS_MIN: usize = 8;
/// Smallest and largest size of a cell in pixels. Smaller cells are hard to distinguish, and larger ones look like
/// buttons.
const CELL: (usize, usize) = (4, 22);
/// Maximum number of blocks in a row. With more, blocks are too narrow for their headings.
const BLOCKS_ACROSS: usize = 4;

/// Positions of the machines.
#[derive(Debug)]
pub(super) struct Grid {
    /// Number of cells in a row of a block.
    pub(super) columns: usize,
    /// Number of machines in a cell.
    pub(super) share: usize,
    /// Size of a cell in pixels, on a wide screen.
    pub(super) pixels: usize,
    /// The blocks in the order of their places.
    pub(super) blocks: Vec<Block>,
}

/// The machines of one place.
#[derive(Debug)]
pub(super) struct Block {
    /// Name of the place; empty if machines are not grouped.
    pub(super) place: String,
    /// Indices of the machines in the report, in the report's order.
    pub(super) machines: Vec<usize>,
}

impl Grid {
    /// Computes the positions of all machines of the report.
    pub(super) fn new(report: &RunReport) -> Grid {
        let blocks = blocks(report);
        let machines = report.heat.len();
        let share = machines.div_ceil(CELLS_MAX).max(1);
        let cells = machines.div_ceil(share).max(1);
        let pixels = (AREA.0 * AREA.1 / cells).isqrt().clamp(CELL.0, CELL.1);
        let largest = blocks.iter().map(|block| block.machines.len()).max().unwrap_or(0);
        let largest = largest.div_ceil(share).max(1);
        let across = blocks.len().clamp(1, BLOCKS_ACROSS);
        let widest = (AREA.0 - (across - 1) * GAP) / across / pixels;
        // A few blocks share the width of the map. If there are more blocks, each is slightly higher than wide.
        let columns = if blocks.len() <= BLOCKS_ACROSS {
            widest
        } else {
            (largest * 3 / 5).isqrt().clamp(COLUMNS_MIN, widest)
        };
        Grid { columns: columns.min(largest), share, pixels, blocks }
    }
}

/// Groups the machines by place. Within a place they have the order of the report.
fn blocks(report: &RunReport) -> Vec<Block> {
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, machine) in report.heat.iter().enumerate() {
        places.entry(&machine.place).or_default().push(index);
    }
    if places.len() > BLOCKS_MAX {
        return vec![Block { place: String::new(), machines: (0..report.heat.len()).collect() }];
    }
    places
        .into_iter()
        .map(|(place, machines)| Block { place: place.to_string(), machines })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::MachineHeat;

    fn grid(machines: usize, places: usize) -> Grid {
        let heat = (0..machines).map(|index| MachineHeat {
            place: format!("place {:03}", index % places),
            ..MachineHeat::default()
        });
        Grid::new(&RunReport { heat: heat.collect(), ..RunReport::default() })
    }

    #[test]
    fn every_machine_has_one_place() {
        for (machines, places) in [(1, 1), (10, 3), (12_500, 4), (70_000, 7), (300, 300)] {
            let grid = grid(machines, places);
            let mut all: Vec<usize> =
                grid.blocks.iter().flat_map(|block| block.machines.clone()).collect();
            all.sort_unstable();
            assert_eq!(all, (0..machines).collect::<Vec<_>>());
            assert!(grid.columns >= 1 && grid.columns * grid.pixels <= AREA.0);
        }
    }

    #[test]
    fn large_cells_share_and_many_places_join() {
        assert_eq!(grid(20_000, 1).share, 1);
        assert_eq!(grid(20_001, 1).share, 2);
        assert_eq!(grid(100, 48).blocks.len(), 48);
        assert_eq!(grid(100, 49).blocks.len(), 1);
        assert_eq!(grid(0, 1).blocks.len(), 0);
    }
}
