//! Filters for room, and scores of free resources.

use crate::framework::plugin::{CellChecks, Filter, Reads, SCORE_MAX, Score, Tasks, lanes};
use omega_cellstate::{BLOCK, Block, CoresLeft, FEW, LeftShare, Need, View};
use omega_core::KindId;
use omega_core::limits::{DEVICE_MILLI, DEVICES_MAX};
use pulp::Arch;
use smallvec::SmallVec;

/// Filter: the machine is not draining, and has fewer tasks than a machine may have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Schedulable;

impl Filter for Schedulable {
    fn name(&self) -> &'static str {
        "schedulable"
    }

    fn reads(&self) -> Reads {
        Reads::DESCRIPTION
    }

    fn filter(&self, _tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        among & block.schedulable()
    }

    fn curable(&self, _: &Tasks<'_>, _: Block<'_>, _: u64) -> u64 {
        0
    }

    fn covers(&self) -> CellChecks {
        CellChecks::STATUS
    }
}

/// Filter: the machine has enough of every requested resource kind, enough devices and enough cores.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourcesFit;

impl Filter for ResourcesFit {
    fn name(&self) -> &'static str {
        "resources_fit"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        let room = block.room_among(tasks.need, &tasks.need.request, among);
        pieces_fit(tasks.need, block, room)
    }

    fn curable(&self, tasks: &Tasks<'_>, block: Block<'_>, refused: u64) -> u64 {
        could_fit(tasks, block, refused, &[])
    }

    fn covers(&self) -> CellChecks {
        CellChecks::ROOM
    }
}

/// Machines in `among` with enough devices and exclusive cores.
#[inline]
pub(super) fn pieces_fit(need: &Need, block: Block<'_>, among: u64) -> u64 {
    let with_devices = if need.devices.is_none() { among } else { block.devices_fit(need, among) };
    if need.cores.is_none() { with_devices } else { block.cores_fit(need, with_devices) }
}

/// Name of the resource kind that counts tasks, and so bounds the number of tasks on a machine.
const TASKS_KIND: &str = "pods";

/// Machines that could fit a task if they were empty. As in Kubernetes, neither the maximum number of tasks nor ignored
/// kinds are considered.
pub(super) fn could_fit(tasks: &Tasks<'_>, block: Block<'_>, among: u64, ignored: &[bool]) -> u64 {
    let counted = tasks.view.kinds().by_name(TASKS_KIND);
    let ignores = |kind: KindId| ignored.get(kind.index()).copied().unwrap_or(false);
    let requests = tasks.group.request.iter();
    let requests = requests.filter(|(kind, _)| Some(*kind) != counted && !ignores(*kind));
    let requests: SmallVec<[_; 8]> = requests.collect();
    let devices = tasks.need.devices.map_or(0, |devices| devices.count);
    let mut could = 0;
    for lane in lanes(among) {
        let Some(machine) = block.machine(lane) else { continue };
        let holds = |(kind, amount): &(KindId, u64)| *amount <= machine.claimable(*kind);
        let cores = tasks.need.cores.is_none_or(|cores| CoresLeft::all(&machine.numa).fits(cores));
        let fits = devices <= machine.devices && cores && requests.iter().all(holds);
        could |= u64::from(fits) << lane;
    }
    could
}

/// Maximum number of kinds in a score. A loop is compiled for each number.
pub const SCORED_KINDS_MAX: usize = 4;

/// Weights of the kinds in a score. The score is the weighted mean of the kinds' shares.
#[derive(Clone, Debug)]
struct Weights {
    kinds: Vec<KindId>,
    weights: Vec<f32>,
    better: Better,
}

/// Whether more or less free resources are better.
#[derive(Clone, Copy, Debug)]
enum Better {
    More,
    Less,
}

impl Weights {
    fn new(weights: &[(KindId, u32)], better: Better) -> Weights {
        debug_assert!((1..=SCORED_KINDS_MAX).contains(&weights.len()), "{weights:?}");
        let sum: u32 = weights.iter().map(|(_, weight)| weight).sum();
        Weights {
            kinds: weights.iter().map(|(kind, _)| *kind).collect(),
            weights: weights.iter().map(|(_, w)| *w as f32 / sum.max(1) as f32).collect(),
            better,
        }
    }

    /// Scores machines by the mean of the remaining resources.
    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        // Each number of kinds has its own loop over the lanes, so that sums stay in registers.
        let written = match self.kinds.len() {
            1 => self.write::<1>(tasks, block, among, scores),
            2 => self.write::<2>(tasks, block, among, scores),
            3 => self.write::<3>(tasks, block, among, scores),
            _ => self.write::<4>(tasks, block, among, scores),
        };
        debug_assert!(written.is_some(), "the profile has the view keep what the scores read");
    }

    fn write<const N: usize>(
        &self,
        tasks: &Tasks<'_>,
        block: Block<'_>,
        among: u64,
        scores: &mut [i32; BLOCK],
    ) -> Option<()> {
        let better = self.better;
        let share = |i: usize| {
            let kind = *self.kinds.get(i)?;
            let request = tasks.need.request.get(kind.index()).copied().unwrap_or(0);
            block.left_share(kind, request)
        };
        let mut shares = [(share(0)?, self.weights[0]); N];
        for (i, entry) in shares.iter_mut().enumerate().skip(1) {
            *entry = (share(i)?, self.weights[i]);
        }
        if among.count_ones() <= FEW {
            lanes(among).for_each(|lane| scores[lane] = average(&shares, lane, better));
        } else {
            Arch::new().dispatch(Write { shares, scores, better });
        }
        Some(())
    }
}

/// Score of one machine by its mean free share.
#[inline(always)]
fn average<const N: usize>(shares: &[(LeftShare<'_>, f32); N], lane: usize, better: Better) -> i32 {
    let mut left = 0.0;
    for (share, weight) in shares {
        left += weight * share.of(lane);
    }
    score_of(match better {
        Better::More => left,
        Better::Less => 1.0 - left,
    })
}

/// The score of a share, rounded to the nearest integer. After 2^23 is added, the low bits of the float are this
/// integer. These operations give equal results on every platform, and unlike a conversion they are done for many lanes
/// at once.
#[inline(always)]
fn score_of(share: f32) -> i32 {
    let scaled = share.clamp(0.0, 1.0) * SCORE_MAX as f32 + 8_388_608.0;
    (scaled.to_bits() & 0x007f_ffff) as i32
}

/// Writes the scores of a block as means of `N` kinds. A type is used in place of a function, because `pulp` compiles
/// the `call` of a type for the widest vectors.
struct Write<'a, const N: usize> {
    shares: [(LeftShare<'a>, f32); N],
    scores: &'a mut [i32; BLOCK],
    better: Better,
}

impl<const N: usize> pulp::NullaryFnOnce for Write<'_, N> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Write { shares, scores, better } = self;
        for (lane, score) in scores.iter_mut().enumerate() {
            *score = average(&shares, lane, better);
        }
    }
}

/// Score: prefers machines with more free resources, which spreads load. For services.
#[derive(Clone, Debug)]
pub struct LeastAllocated(Weights);

impl LeastAllocated {
    /// Creates the score with a weight for each counted kind, 1 to [`SCORED_KINDS_MAX`] of them.
    #[must_use]
    pub fn new(weights: &[(KindId, u32)]) -> LeastAllocated {
        LeastAllocated(Weights::new(weights, Better::More))
    }
}

impl Default for LeastAllocated {
    fn default() -> LeastAllocated {
        LeastAllocated::new(&[(KindId::CPU, 1), (KindId::MEMORY, 1)])
    }
}

impl Score for LeastAllocated {
    fn name(&self) -> &'static str {
        "least_allocated"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS | Reads::DESCRIPTION
    }

    fn keep(&self, view: &mut View) {
        self.0.kinds.iter().for_each(|kind| view.keep_inverse(*kind));
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        self.0.score(tasks, block, among, scores);
    }
}

/// Score: prefers machines with less free resources, so that large tasks find room elsewhere. For batch jobs.
#[derive(Clone, Debug)]
pub struct MostAllocated(Weights);

impl MostAllocated {
    /// Creates the score with a weight for each counted kind, 1 to [`SCORED_KINDS_MAX`] of them.
    #[must_use]
    pub fn new(weights: &[(KindId, u32)]) -> MostAllocated {
        MostAllocated(Weights::new(weights, Better::Less))
    }
}

impl Default for MostAllocated {
    fn default() -> MostAllocated {
        MostAllocated::new(&[(KindId::CPU, 1), (KindId::MEMORY, 1)])
    }
}

impl Score for MostAllocated {
    fn name(&self) -> &'static str {
        "most_allocated"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS | Reads::DESCRIPTION
    }

    fn keep(&self, view: &mut View) {
        self.0.kinds.iter().for_each(|kind| view.keep_inverse(*kind));
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        self.0.score(tasks, block, among, scores);
    }
}

/// Score: tasks that need devices prefer machines with few free devices, and other tasks prefer machines without
/// devices. So whole machines stay free for tasks that need many devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackedDevices;

impl Score for PackedDevices {
    fn name(&self) -> &'static str {
        "packed_devices"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS
    }

    fn applies(&self, tasks: &Tasks<'_>) -> bool {
        tasks.view.any_devices()
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        for lane in lanes(among) {
            let devices = block.view().devices(block.first_row() + lane);
            scores[lane] = match (tasks.need.devices, devices) {
                (_, None) => SCORE_MAX,
                (None, Some(_)) => 0,
                (Some(_), Some(devices)) => {
                    let left: i32 = devices.left().iter().map(|left| i32::from(*left).max(0)).sum();
                    let all = (DEVICE_MILLI * u32::from(DEVICES_MAX)) as i32;
                    SCORE_MAX - left * SCORE_MAX / all
                }
            };
        }
    }
}

/// Score: prefers machines where the free shares of processor and memory are equal, so that no machine has free
/// processor without memory, or memory without processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balanced;

impl Score for Balanced {
    fn name(&self) -> &'static str {
        "balanced"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS | Reads::DESCRIPTION
    }

    fn keep(&self, view: &mut View) {
        view.keep_inverse(KindId::CPU);
        view.keep_inverse(KindId::MEMORY);
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, _: u64, scores: &mut [i32; BLOCK]) {
        let request = |kind: KindId| tasks.need.request.get(kind.index()).copied().unwrap_or(0);
        let left = |kind| block.left_share(kind, request(kind));
        let (Some(cpu), Some(memory)) = (left(KindId::CPU), left(KindId::MEMORY)) else { return };
        Arch::new().dispatch(WriteBalance { cpu, memory, scores });
    }
}

/// Writes scores for the evenness of the free shares of two kinds.
struct WriteBalance<'a> {
    cpu: LeftShare<'a>,
    memory: LeftShare<'a>,
    scores: &'a mut [i32; BLOCK],
}

impl pulp::NullaryFnOnce for WriteBalance<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let WriteBalance { cpu, memory, scores } = self;
        for (lane, score) in scores.iter_mut().enumerate() {
            *score = score_of(1.0 - (cpu.of(lane) - memory.of(lane)).abs());
        }
    }
}
