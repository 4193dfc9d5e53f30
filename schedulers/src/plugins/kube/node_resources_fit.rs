//! Room for a task, and the used share of a machine. (Kubernetes' NodeResourcesFit.)
//!
//! The scores in `../resources.rs` work in fractions; the score here computes the same integers as Kubernetes.

use crate::framework::plugin::{CellChecks, Filter, Reads, Score, Tasks, lanes};
use crate::plugins::kube::normalize::POINT;
use crate::plugins::resources::{ResourcesFit, could_fit, pieces_fit};
use crate::plugins::usage::{Amount, Resource, Usage, percent};
use omega_cellstate::{BLOCK, Block, FEW, View};
use omega_core::Kinds;
use pulp::Arch;
use smallvec::SmallVec;

/// Largest weight, as in Kubernetes.
const WEIGHT_MAX: u32 = 100;

/// Arguments of [`NodeResourcesFit`]. The defaults are those of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitArgs {
    /// Names of resource kinds that the filter ignores. A name without a `/` has no effect.
    pub ignored: Vec<String>,
    /// Prefixes of ignored resource kinds: the part of a kind's name before the `/`.
    pub ignored_groups: Vec<String>,
    /// Scoring strategy by usage.
    pub strategy: Strategy,
    /// Names of the scored kinds, each with its weight, 1 to 100.
    pub resources: Vec<(String, u32)>,
}

impl Default for FitArgs {
    fn default() -> FitArgs {
        FitArgs {
            ignored: Vec::new(),
            ignored_groups: Vec::new(),
            strategy: Strategy::LeastAllocated,
            resources: vec![("cpu".to_owned(), 1), ("memory".to_owned(), 1)],
        }
    }
}

/// Scoring strategy by usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The emptier the machine, the better.
    LeastAllocated,
    /// The fuller the machine, the better.
    MostAllocated,
    /// A function of the percentage in use, given by points in ascending order. Between two points the function is a
    /// straight line; before the first point and after the last it is constant.
    RequestedToCapacityRatio(Vec<ShapePoint>),
}

/// A point of [`Strategy::RequestedToCapacityRatio`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapePoint {
    /// Used part of a resource kind, in percent.
    pub percent: u8,
    /// Score at this usage, 0 to 10.
    pub score: u8,
}

/// Filter: the machine has enough of every requested resource kind, enough devices and enough cores. Score: the
/// machine's allocation with the task, by a [`Strategy`].
///
/// The cell still checks kinds that the filter ignores, so a profile adds the cell's own filter for them. If a kind is
/// not to be checked at all, do not define it in the cell.
#[derive(Clone, Debug)]
pub struct NodeResourcesFit {
    /// For each kind, whether the filter ignores it; empty if it ignores none.
    ignored: SmallVec<[bool; 16]>,
    prefer: Prefer,
    resources: Vec<(Resource, i32)>,
}

/// A strategy in the form that scoring uses.
#[derive(Clone, Debug)]
enum Prefer {
    Empty,
    Full,
    /// The points for each percentage of use, from 0 to 100.
    Shape(Box<[i32; 101]>),
}

impl NodeResourcesFit {
    /// Creates the plugin for a cell with these kinds. Names of other kinds have no effect.
    #[must_use]
    pub fn new(args: &FitArgs, kinds: &Kinds) -> NodeResourcesFit {
        let group = |name: &str| name.split_once('/').map(|(group, _)| group.to_owned());
        let is_ignored = |name: &str| {
            // Only kinds with a `/` in their names can be ignored, which excludes cpu and memory.
            group(name).is_some_and(|group| {
                let listed = args.ignored.iter().any(|ignored| ignored == name);
                listed || args.ignored_groups.contains(&group)
            })
        };
        let ignored: SmallVec<[bool; 16]> =
            kinds.iter().map(|(_, kind)| is_ignored(&kind.name)).collect();
        let resources = args.resources.iter().filter_map(|(name, weight)| {
            let resource = Resource::named(name, Amount::Nominal, kinds)?;
            Some((resource, (*weight).min(WEIGHT_MAX) as i32))
        });
        NodeResourcesFit {
            ignored: if ignored.contains(&true) { ignored } else { SmallVec::new() },
            prefer: Prefer::of(&args.strategy),
            resources: resources.collect(),
        }
    }

    /// The request without the ignored kinds.
    fn request(&self, tasks: &Tasks<'_>) -> SmallVec<[i64; 16]> {
        let all = tasks.need.request.iter().zip(&self.ignored);
        all.map(|(amount, ignored)| if *ignored { 0 } else { *amount }).collect()
    }
}

impl Prefer {
    fn of(strategy: &Strategy) -> Prefer {
        match strategy {
            Strategy::LeastAllocated => Prefer::Empty,
            Strategy::MostAllocated => Prefer::Full,
            Strategy::RequestedToCapacityRatio(points) => {
                Prefer::Shape(Box::new(std::array::from_fn(|percent| {
                    shape(points, percent as i32)
                })))
            }
        }
    }
}

/// Returns the score, 0 to 100, for a percentage of use.
fn shape(points: &[ShapePoint], percent: i32) -> i32 {
    let place = |point: &ShapePoint| (i32::from(point.percent), i32::from(point.score) * 10);
    let after = points.iter().position(|point| percent <= i32::from(point.percent));
    match (after, points.last()) {
        (_, None) => 0,
        (None, Some(last)) => place(last).1,
        (Some(0), _) => place(&points[0]).1,
        (Some(after), _) => {
            let ((x0, y0), (x1, y1)) = (place(&points[after - 1]), place(&points[after]));
            y0 + (y1 - y0) * (percent - x0) / (x1 - x0)
        }
    }
}

impl Filter for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "node_resources_fit"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS
    }

    fn filter(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64) -> u64 {
        if self.ignored.is_empty() {
            ResourcesFit.filter(tasks, block, among)
        } else {
            let room = block.room_among(tasks.need, &self.request(tasks), among);
            pieces_fit(tasks.need, block, room)
        }
    }

    fn curable(&self, tasks: &Tasks<'_>, block: Block<'_>, refused: u64) -> u64 {
        could_fit(tasks, block, refused, &self.ignored)
    }

    fn covers(&self) -> CellChecks {
        if self.ignored.is_empty() { CellChecks::ROOM } else { CellChecks::NOTHING }
    }
}

impl Score for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "node_resources_fit"
    }

    fn reads(&self) -> Reads {
        Reads::AMOUNTS | Reads::DESCRIPTION
    }

    fn keep(&self, view: &mut View) {
        self.resources.iter().for_each(|(resource, _)| resource.keep(view));
    }

    fn score(&self, tasks: &Tasks<'_>, block: Block<'_>, among: u64, scores: &mut [i32; BLOCK]) {
        let usages = self.resources.iter().filter_map(|(resource, weight)| {
            resource.usage(tasks, block).map(|usage| (usage, *weight))
        });
        match &self.prefer {
            Prefer::Empty => average_all::<true>(usages, among, scores),
            Prefer::Full => average_all::<false>(usages, among, scores),
            Prefer::Shape(worth) => {
                let usages: SmallVec<[_; 4]> = usages.collect();
                lanes(among).for_each(|lane| scores[lane] = worth_of(&usages, worth, lane));
            }
        }
    }
}

/// The percentage of a kind that is left (if `LEFT`) or in use, and its weight: 0 and 0 on a machine without the kind.
#[inline(always)]
fn share<const LEFT: bool>(usage: &Usage<'_>, lane: usize) -> (i32, i32) {
    let capacity = usage.capacity[lane];
    let used = usage.with(lane);
    let part = if LEFT { capacity - used } else { used };
    let has = i32::from(capacity > 0);
    (percent(part, capacity) as i32 * has, has)
}

/// Divides a weighted sum of percentages by the sum of the weights. Returns the mean, rounded down to whole points; 0
/// if the weights are 0.
#[inline(always)]
fn average(sum: i32, weight: i32) -> i32 {
    // Both numbers are small: the percentages of 16 kinds with weights of 100 sum up to 160,000. So after a half is
    // added, the quotient stays above the next lower integer even if the division of single-precision floats rounds
    // down.
    let quotient = (sum as f32 + 0.5) / weight.max(1) as f32;
    let floor = ((quotient - 0.5).max(0.0) + 8_388_608.0).to_bits() & 0x007f_ffff;
    floor as i32 * POINT * i32::from(weight > 0)
}

/// Writes the averages of a block.
fn average_all<'a, const LEFT: bool>(
    usages: impl Iterator<Item = (Usage<'a>, i32)>,
    among: u64,
    scores: &mut [i32; BLOCK],
) {
    let mut sums = Sums { sums: [0; BLOCK], weights: [0; BLOCK] };
    if among.count_ones() <= FEW {
        for (usage, weight) in usages {
            lanes(among).for_each(|lane| sums.add::<LEFT>(&usage, weight, lane));
        }
        lanes(among).for_each(|lane| scores[lane] = sums.average(lane));
        return;
    }
    for (usage, weight) in usages {
        Arch::new().dispatch(Add::<LEFT> { usage, weight, into: &mut sums });
    }
    Arch::new().dispatch(Average { sums: &sums, scores });
}

/// Sums for each machine of a block: weighted percentages, and weights.
struct Sums {
    sums: [i32; BLOCK],
    weights: [i32; BLOCK],
}

impl Sums {
    #[inline(always)]
    fn add<const LEFT: bool>(&mut self, usage: &Usage<'_>, weight: i32, lane: usize) {
        let (share, has) = share::<LEFT>(usage, lane);
        self.sums[lane] += weight * share;
        self.weights[lane] += weight * has;
    }

    #[inline(always)]
    fn average(&self, lane: usize) -> i32 {
        average(self.sums[lane], self.weights[lane])
    }
}

/// Adds one kind to the sums, with vector instructions.
struct Add<'a, const LEFT: bool> {
    usage: Usage<'a>,
    weight: i32,
    into: &'a mut Sums,
}

impl<const LEFT: bool> pulp::NullaryFnOnce for Add<'_, LEFT> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Add { usage, weight, into } = self;
        (0..BLOCK).for_each(|lane| into.add::<LEFT>(&usage, weight, lane));
    }
}

/// Divides the sums by the weights, with vector instructions.
struct Average<'a> {
    sums: &'a Sums,
    scores: &'a mut [i32; BLOCK],
}

impl pulp::NullaryFnOnce for Average<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        (0..BLOCK).for_each(|lane| self.scores[lane] = self.sums.average(lane));
    }
}

/// The weighted mean of the points for the used percentages, rounded to the nearest. Kinds with 0
/// points are excluded.
fn worth_of(usages: &[(Usage<'_>, i32)], worth: &[i32; 101], lane: usize) -> i32 {
    let (mut sum, mut weights) = (0, 0);
    for (usage, weight) in usages.iter().filter(|(usage, _)| usage.capacity[lane] > 0) {
        let worth = worth[share::<false>(usage, lane).0 as usize];
        if worth > 0 {
            sum += weight * worth;
            weights += weight;
        }
    }
    if weights == 0 { 0 } else { (2 * sum + weights) / (2 * weights) * POINT }
}
