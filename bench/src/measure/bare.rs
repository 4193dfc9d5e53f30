//! Bare loops: the minimum of work for each kind of measurement, on arrays, without jobs, rules or results.
//!
//! They calibrate the figures to the present computer. They use the same widths (64-bit amounts, four resource kinds)
//! and the same vector instructions as the shipped code. So the ratio is the cost of the features of that code, not of
//! its types.

use crate::measure::clock::{Figure, timed};
use omega_cellstate::{BLOCK, View};
use omega_core::KindId;
use pulp::Arch;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::collections::HashMap;
use std::hint::black_box;

/// Resource kinds.
pub(crate) const KINDS: usize = 4;

/// Resources that a task of the bare loops claims: so little that a cell never fills up.
const REQUEST: [i64; KINDS] = [100, 256 << 20, 1 << 30, 0];

/// Number of changes in the rings, as in the cell.
const RING: usize = 1 << 18;

/// A hash table with the cell's hasher.
type Table<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// Machines in blocks of 64, with one column for each resource kind, and columns with the reciprocals of two
/// capacities.
pub(crate) struct Columns {
    free: Vec<[[i64; BLOCK]; KINDS]>,
    inverse: Vec<[[f32; BLOCK]; 2]>,
    arch: Arch,
}

impl Columns {
    /// Copies the amounts of a view.
    pub(crate) fn of(view: &View) -> Columns {
        let mut columns = Columns {
            free: vec![[[0; BLOCK]; KINDS]; view.blocks()],
            inverse: vec![[[0.0; BLOCK]; 2]; view.blocks()],
            arch: Arch::new(),
        };
        for row in 0..view.rows() {
            let (block, lane) = (row / BLOCK, row % BLOCK);
            for kind in 0..KINDS {
                columns.free[block][kind][lane] = view.free(row, KindId(kind as u8));
            }
            for (kind, inverse) in columns.inverse[block].iter_mut().enumerate() {
                let machine = view.machine(row).expect("every row has a machine");
                inverse[lane] = 1.0 / machine.capacity.get(KindId(kind as u8)) as f32;
            }
        }
        columns
    }

    /// Sum over all blocks of the scores of machines with room. Room is checked for four kinds; the score is the mean
    /// of the free shares of two kinds.
    pub(crate) fn scan(&self, request: [i64; KINDS]) -> i64 {
        let mut sum = 0;
        for block in 0..self.free.len() {
            sum += self.best(block, request);
        }
        sum
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.free.len()
    }

    fn take(&mut self, row: usize) {
        for (column, amount) in self.free[row / BLOCK].iter_mut().zip(REQUEST) {
            column[row % BLOCK] -= amount;
        }
    }

    /// The best machine of one block; the first one if no machine fits.
    pub(crate) fn best_of(&self, block: usize) -> usize {
        let best = self.best(block, REQUEST);
        block * BLOCK + (best as usize & (BLOCK - 1))
    }
}

/// The loop bodies are small, so that all code in them is compiled for the widest vectors.
impl Columns {
    fn best(&self, block: usize, request: [i64; KINDS]) -> i64 {
        self.arch.dispatch(Best { free: &self.free[block], inverse: &self.inverse[block], request })
    }
}

struct Best<'a> {
    free: &'a [[i64; BLOCK]; KINDS],
    inverse: &'a [[f32; BLOCK]; 2],
    request: [i64; KINDS],
}

impl pulp::NullaryFnOnce for Best<'_> {
    type Output = i64;

    #[inline(always)]
    fn call(self) -> i64 {
        best(self.free, self.inverse, self.request)
    }
}

/// The best score of a block, with the number of the machine in the low bits; -1 if the request fits on no machine.
#[inline(always)]
fn best(free: &[[i64; BLOCK]; KINDS], inverse: &[[f32; BLOCK]; 2], request: [i64; KINDS]) -> i64 {
    let mut short = [0i64; BLOCK];
    for (column, request) in free.iter().zip(request) {
        for (short, free) in short.iter_mut().zip(column) {
            *short |= free - request;
        }
    }
    let mut scores = [0i32; BLOCK];
    for lane in 0..BLOCK {
        let cpu = double(free[0][lane] - request[0]) * f64::from(inverse[0][lane]);
        let memory = double(free[1][lane] - request[1]) * f64::from(inverse[1][lane]);
        // The low bits of a number near 2^52 are its integral part.
        let score = ((cpu + memory) * 5000.0 + 4_503_599_627_370_496.0).to_bits() as i32;
        scores[lane] = (score << 6 | lane as i32) | (short[lane] >> 63) as i32;
    }
    i64::from(scores.iter().copied().max().unwrap_or(-1))
}

/// Converts an amount to a double. The result is exact below 2^52, and this form compiles to vector instructions.
#[inline(always)]
fn double(amount: i64) -> f64 {
    f64::from_bits(amount.max(0) as u64 | 0x4330_0000_0000_0000) - 4_503_599_627_370_496.0
}

/// Copies changed rows one by one from a row-based master into the columns of a copy.
pub(crate) fn sync(columns: &mut Columns, changed: &[u32], rounds: usize) -> Figure {
    let master: Vec<[i64; KINDS]> = vec![REQUEST; columns.free.len() * BLOCK];
    let mut sequences = vec![0u64; master.len()];
    let ((), span) = timed(|| {
        for round in 0..rounds {
            for slot in black_box(changed) {
                let row = *slot as usize;
                sequences[row] = round as u64;
                for (kind, amount) in master[row].iter().enumerate() {
                    columns.free[row / BLOCK][kind][row % BLOCK] = *amount;
                }
            }
        }
    });
    black_box(&sequences);
    span.each(rounds * changed.len().max(1))
}

/// Minimal state for a commit: rows of amounts, a hash table of tasks, and a ring of changes.
struct Master {
    free: Vec<[i64; KINDS]>,
    sequences: Vec<u64>,
    tasks: Table<(u64, u32), u32>,
    ring: Vec<u32>,
    version: usize,
}

impl Master {
    fn new(machines: usize) -> Master {
        Master {
            free: vec![[1 << 50; KINDS]; machines],
            sequences: vec![0; machines],
            tasks: Table::default(),
            ring: vec![0; RING],
            version: 0,
        }
    }

    fn commit(&mut self, task: (u64, u32), slot: u32) -> bool {
        let free = &mut self.free[slot as usize];
        if free.iter().zip(REQUEST).any(|(free, request)| *free < request) {
            return false;
        }
        free.iter_mut().zip(REQUEST).for_each(|(free, request)| *free -= request);
        self.sequences[slot as usize] += 1;
        self.tasks.insert(task, slot);
        self.ring[self.version % RING] = slot;
        self.version += 1;
        true
    }
}

/// Nanoseconds per claim of a bare commit on random machines.
pub(crate) fn commit(machines: usize, claims: usize, seed: u64) -> Figure {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut master = Master::new(machines);
    let slots: Vec<u32> = (0..claims).map(|_| rng.random_range(0..machines as u32)).collect();
    let (taken, span) = timed(|| {
        let claims = slots.iter().zip(0u32..);
        claims.filter(|(slot, i)| master.commit((u64::from(*i / 100), *i % 100), **slot)).count()
    });
    assert_eq!(taken, claims, "the bare master has room");
    span.each(claims)
}

/// Nanoseconds per placement of a bare loop. Each round copies the changes since the last round. For each of `each`
/// tasks, it then chooses the best machine of a random window of 64, deducts the request, and appends to the ring.
pub(crate) fn whole(columns: &mut Columns, placements: usize, each: usize, seed: u64) -> Figure {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let blocks = columns.free.len();
    let mut master = Master::new(blocks * BLOCK);
    let mut seen = 0;
    let ((), span) = timed(|| {
        for round in 0..placements / each {
            for version in std::mem::replace(&mut seen, master.version)..master.version {
                let row = master.ring[version % RING] as usize;
                columns.take(row);
            }
            let window = window(&mut rng, blocks);
            for task in 0..each {
                // All tasks of a round are identical, so one window suffices. A new window for each task would leave
                // the vector units idle.
                let row = columns.best_of((window + task) % blocks);
                let taken = master.commit((round as u64, task as u32), row as u32);
                assert!(taken, "the bare master has room");
            }
        }
    });
    span.each(placements)
}

fn window(rng: &mut impl Rng, blocks: usize) -> usize {
    rng.random_range(0..blocks)
}
