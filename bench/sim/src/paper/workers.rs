//! Number of workers a MapReduce job has: as many as were asked for, or more by what the cell has idle.
//!
//! The paper has three rules for it, and a model of what they bring: a job's work is done sooner in proportion to its workers,
//! up to its activities (the map and reduce tasks that can run at one time), beyond which workers have nothing to do.

use crate::engine::Sizing;

/// Number of workers a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workers {
    /// As many as were asked for.
    AsAsked,
    /// As many as have something to do and find room.
    MaxParallelism,
    /// As many workers as help, while less than so many percent of the cell are used.
    GlobalCap(u8),
    /// As many workers as help, up to so many times the requested number.
    RelativeSize(u32),
}

/// A MapReduce job.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapReduce {
    /// Number of activities it has: its workers never need to be more.
    pub(super) activities: u32,
    /// Resources that one worker takes of the whole cell: processors and memory.
    pub(super) share: [f64; 2],
}

/// A rule, and the jobs that it is for.
pub(super) struct SizeByIdle<'a> {
    pub(super) workers: Workers,
    /// By the number of the job; `None` is no MapReduce job, and has the tasks that it asked for.
    pub(super) jobs: &'a [Option<MapReduce>],
}

impl Sizing for SizeByIdle<'_> {
    fn tasks(&mut self, job: usize, asked: u32, used: [f64; 2]) -> u32 {
        self.jobs[job].map_or(asked, |job| self.workers.of(job, asked, used))
    }
}

impl Workers {
    /// The workers of a job that asks for so many, in a cell of which so much is used. Never less than it asks for.
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
