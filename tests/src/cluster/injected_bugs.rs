//! Injected bugs: the faults under which each is visible, and how soon it is found.
//!
//! A bug is found if one of a few seeds fails with it. That seed must pass without the bug.

pub use on::{Proof, plan_for, prove, run_with, seeds_of};

/// Runs code without the injected bug, such as the reference with which replicas are compared.
pub(super) fn without_bugs<T>(run: impl FnOnce() -> T) -> T {
    omega_cellstate::injected_bugs::without_bugs(run)
}

mod on {
    use crate::cluster::plan::{Fault, Plan};
    use crate::cluster::{Report, Violation, run_with_plan};
    use omega_cellstate::injected_bugs::{Bug, with};
    use std::ops::Range;

    /// Result of the search for an injected bug.
    #[derive(Clone, Debug)]
    pub struct Proof {
        /// Number of seeds that passed before one failed.
        pub passed: u64,
        /// The failure; `None` if none of the seeds failed.
        pub found: Option<Violation>,
        /// The failure of that seed without the bug; `None` if it passes.
        pub without: Option<Violation>,
    }

    /// The seeds by which a bug must be found. For bugs that need two coincidences, these are seeds that are known to
    /// have both.
    #[must_use]
    pub fn seeds_of(bug: Bug) -> Range<u64> {
        match bug {
            Bug::FreedEarly => 505..515,
            Bug::RemovedLeaderStays => 10..20,
            Bug::CompactedEarly => 352..362,
            Bug::ReadOfDeposedLeader => 80..140,
            Bug::CorruptMiddleCut => 70..90,
            Bug::OtherTermAccepted => 610..620,
            Bug::LateDenied => 80..90,
            _ => 0..60,
        }
    }

    /// Runs one seed with a bug.
    ///
    /// # Errors
    /// The violation by which the bug was found.
    pub fn run_with(bug: Option<Bug>, plan_of: Bug, seed: u64) -> Result<Report, Violation> {
        let run = || run_with_plan(seed, |plan| plan_for(plan_of, plan));
        with(bug, run).map(|(report, ..)| report)
    }

    /// Searches for a seed that fails with a bug, and runs it again without the bug.
    #[must_use]
    pub fn prove(bug: Bug) -> Proof {
        for (passed, seed) in (0..).zip(seeds_of(bug)) {
            if let Err(violation) = run_with(Some(bug), bug, seed) {
                let without = run_with(None, bug, seed).err();
                return Proof { passed, found: Some(violation), without };
            }
        }
        Proof { passed: seeds_of(bug).count() as u64, found: None, without: None }
    }

    /// Adjusts a plan to the faults under which a bug is visible. Most bugs are visible under any faults.
    pub fn plan_for(bug: Bug, plan: &mut Plan) {
        match bug {
            Bug::FreedEarly | Bug::TornTailKept | Bug::SealNotSynced => writes(plan),
            Bug::SyncErrorIgnored | Bug::CacheTrusted => {
                plan.set_weight(Fault::DiskError, 20);
                plan.set_weight(Fault::Crash, 10);
            }
            Bug::CorruptMiddleCut | Bug::LostTailIgnored => rot(plan),
            Bug::IdComesBack => changes(plan),
            Bug::RemovedLeaderStays => {
                changes(plan);
                plan.set_weight(Fault::Crash, 40);
                (plan.delay_max, plan.disk_max) = (200_000, 20_000);
            }
            Bug::MembershipLate => {
                changes(plan);
                plan.snapshot_bytes = 50;
            }
            Bug::RetryCheckedAgain => {
                // Answers are lost, so calls are repeated.
                (plan.loss, plan.wander, plan.clients) = (200, 50, 6);
                (plan.replicas, plan.think_max, plan.delay_max) = (3, 5_000, 60_000);
            }
            Bug::OtherTermAccepted | Bug::CopiesAccepted => {
                elections(plan);
                plan.set_weight(Fault::Pause, 40);
                (plan.late, plan.wander, plan.fault_every) = (500, 50, 400_000);
            }
            Bug::ResolvedByIndex | Bug::OldTailKept => {
                elections(plan);
                (plan.reply_ticks, plan.snapshot_bytes) = (60, 1 << 20);
                plan.set_weight(Fault::Crash, 10);
            }
            Bug::ReadOfDeposedLeader => {
                elections(plan);
                (plan.reads, plan.wander) = (50, 0);
            }
            _ => {}
        }
    }

    /// Makes writes and compactions of logs frequent, with power failures in between.
    fn writes(plan: &mut Plan) {
        plan.weights.iter_mut().for_each(|(_, weight)| *weight = 0);
        plan.set_weight(Fault::CrashInWrite, 20);
        plan.set_weight(Fault::Crash, 10);
        (plan.clients, plan.think_max) = (6, 5_000);
        (plan.snapshot_bytes, plan.log_keep_bytes) = (2_000, 0);
        (plan.segment_bytes, plan.entries_in_flight) = (8 << 10, 4);
        (plan.disk_max, plan.delay_max, plan.fault_every) = (50_000, 500, 100_000);
        plan.faulty_for = 12_000_000;
    }

    /// Makes damage of disks frequent.
    fn rot(plan: &mut Plan) {
        plan.weights.iter_mut().for_each(|(_, weight)| *weight = 0);
        plan.set_weight(Fault::Rot, 20);
        plan.rot_in_log = 100;
        (plan.replicas, plan.clients, plan.think_max) = (3, 4, 20_000);
        (plan.snapshot_bytes, plan.segment_bytes) = (1 << 20, 16 << 10);
        plan.fault_every = 100_000;
    }

    /// Makes membership changes frequent, with changes of the leader in between.
    fn changes(plan: &mut Plan) {
        plan.set_weight(Fault::Change, 60);
        plan.set_weight(Fault::Partition, 10);
        plan.set_weight(Fault::Heal, 20);
        plan.set_weight(Fault::Rot, 0);
        (plan.replicas, plan.fault_every) = (3, 200_000);
        plan.faulty_for = 12_000_000;
    }

    /// Makes partitions of leaders frequent.
    fn elections(plan: &mut Plan) {
        plan.weights.iter_mut().for_each(|(_, weight)| *weight = 0);
        plan.set_weight(Fault::Partition, 20);
        plan.set_weight(Fault::Heal, 10);
        (plan.replicas, plan.clients, plan.think_max) = (3, 6, 5_000);
        (plan.delay_max, plan.loss, plan.disk_max) = (5_000, 0, 2_000);
        plan.faulty_for = 12_000_000;
        plan.fault_every = 800_000;
    }
}
