//! Number of workers of a MapReduce job: the requested number, or more while the cell is idle.
//!
//! The paper has three rules, and a model of the gain: the run time of a job is divided by the ratio of its workers to
//! the requested workers. Workers beyond the number of the job's activities (the map and reduce tasks that can run at
//! one time) gain nothing.

use crate::engine::Sizing;

/// Rule for the number of workers of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workers {
    /// As many as requested.
    AsAsked,
    /// As many workers as the job has activities for, but not more than fit.
    MaxParallelism,
    /// As many workers as the job has activities for, but only until this percentage of the cell is in use.
    GlobalCap(u8),
    /// As many workers as the job has activities for, up to this multiple of the requested number.
    RelativeSize(u32),
}

/// A MapReduce job.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapReduce {
    /// Number of the job's activities, which is the maximum useful number of workers.
    pub(super) activities: u32,
    /// Resources of one worker as a share of the cell: processors and memory.
    pub(super) share: [f64; 2],
}

/// A rule with its jobs.
pub(super) struct SizeByIdle<'a> {
    pub(super) workers: Workers,
    /// Jobs by number; `None` is a job that is not a MapReduce job, and has its requested number of tasks.
    pub(super) jobs: &'a [Option<MapReduce>],
}

impl Sizing for SizeByIdle<'_> {
    fn tasks(&mut self, job: usize, asked: u32, used: [f64; 2]) -> u32 {
        self.jobs[job].map_or(asked, |job| self.workers.of(job, asked, used))
    }
}

impl Workers {
    /// Returns the number of workers of a job, given the used shares of the cell; never less than the requested number.
    pub(super) fn of(self, job: MapReduce, asked: u32, used: [f64; 2]) -> u32 {
        let below = |most: f64| {
            let room = |kind: usize| ((most - used[kind]).max(0.0) / job.share[kind]) as u32;
            room(0).min(room(1)).min(job.activities)
        };
        let more = match self {
            Workers::AsAsked => asked,
            Workers::MaxParallelism => below(1.0),
            Workers::GlobalCap(percent) => below(f64::from(percent) / 100.0),
            Workers::RelativeSize(times) => below(1.0).min(asked.saturating_mul(times)),
        };
        more.max(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job whose workers take a thousandth of the cell each.
    const JOB: MapReduce = MapReduce { activities: 100, share: [0.001, 0.000_5] };

    #[test]
    fn workers_are_bounded_by_activities_room_and_rule() {
        let of = |workers: Workers, asked, used| workers.of(JOB, asked, [used, used]);
        assert_eq!(of(Workers::AsAsked, 10, 0.0), 10);
        assert_eq!(of(Workers::MaxParallelism, 10, 0.5), 100, "all activities");
        assert_eq!(of(Workers::MaxParallelism, 10, 0.949_5), 50, "what is idle");
        assert_eq!(of(Workers::RelativeSize(4), 10, 0.5), 40, "four times");
        assert_eq!(of(Workers::GlobalCap(60), 10, 0.549_5), 50, "up to the cap");
        assert_eq!(of(Workers::GlobalCap(60), 10, 0.7), 10, "beyond it, none");
        assert_eq!(of(Workers::MaxParallelism, 200, 0.0), 200, "never less than was asked for");
        assert_eq!(of(Workers::MaxParallelism, 10, 1.5), 10);
    }
}
