//! Mistakes that are made on purpose: under which faults each shows, and how soon.
//!
//! A mistake is found if some seed of few fails with it; that the same seed passes without it is part
//! of the proof.

#[cfg(feature = "planted")]
pub use on::{Proof, plan_for, proof_of, prove, run_with};

/// Runs something as it would be without a planted mistake: what replicas are compared with.
pub(super) fn sober<T>(run: impl FnOnce() -> T) -> T {
    #[cfg(feature = "planted")]
    return omega_cellstate::planted::sober(run);
    #[cfg(not(feature = "planted"))]
    run()
}

#[cfg(feature = "planted")]
mod on {
    use crate::cluster::plan::{Fault, Plan};
    use crate::cluster::{Report, Violation, run_with_plan};
    use omega_cellstate::planted::{Bug, with};

    /// How a mistake was found.
    #[derive(Clone, Debug)]
    pub struct Proof {
        /// How many seeds passed before one failed.
        pub passed: u64,
        /// What failed; `None` if none of the seeds did.
        pub found: Option<Violation>,
        /// What the same seed says without the mistake, if that is not that all is well.
        pub without: Option<Violation>,
    }

    /// How many seeds a mistake may take to be found.
    #[must_use]
    pub fn proof_of(_: Bug) -> u64 {
        60
    }

    /// Runs one seed with a mistake.
    ///
    /// # Errors
    /// What went wrong: it was found.
    pub fn run_with(bug: Option<Bug>, plan_of: Bug, seed: u64) -> Result<Report, Violation> {
        let run = || run_with_plan(seed, |plan| plan_for(plan_of, plan));
        with(bug, run).map(|(report, ..)| report)
    }

    /// Looks for a seed that fails with a mistake, and runs it again without.
    #[must_use]
    pub fn prove(bug: Bug) -> Proof {
        for seed in 0..proof_of(bug) {
            if let Err(violation) = run_with(Some(bug), bug, seed) {
                let without = run_with(None, bug, seed).err();
                return Proof { passed: seed, found: Some(violation), without };
            }
        }
        Proof { passed: proof_of(bug), found: None, without: None }
    }

    /// Favours the faults under which a mistake shows. Most show under any.
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
            Bug::OtherTermTaken | Bug::CopiesTaken => {
                elections(plan);
                plan.set_weight(Fault::Pause, 40);
                (plan.late, plan.wander, plan.fault_every) = (500, 50, 400_000);
            }
            Bug::ResolvedByIndex | Bug::OldTailKept => {
                elections(plan);
                (plan.answer_ticks, plan.snapshot_bytes) = (60, 1 << 20);
                plan.set_weight(Fault::Crash, 10);
            }
            Bug::ReadOfDeposedLeader => {
                elections(plan);
                (plan.reads, plan.wander) = (50, 0);
            }
            Bug::ReadNotAwaited => {
                (plan.reads, plan.wander, plan.delay_max) = (50, 50, 60_000);
                (plan.clients, plan.replicas) = (6, 3);
                (plan.think_max, plan.disk_max) = (5_000, 200_000);
            }
            _ => {}
        }
    }

    /// Logs that are written and compacted all the time, and power that goes meanwhile.
    fn writes(plan: &mut Plan) {
        plan.weights.iter_mut().for_each(|(_, weight)| *weight = 0);
        plan.set_weight(Fault::CrashInWrite, 20);
        plan.set_weight(Fault::Crash, 10);
        (plan.clients, plan.think_max) = (6, 5_000);
        (plan.snapshot_bytes, plan.log_keep_bytes) = (2_000, 0);
        (plan.segment_bytes, plan.entries_in_flight) = (8 << 10, 4);
        plan.fault_every = 100_000;
    }

    /// Disks that rot.
    fn rot(plan: &mut Plan) {
        plan.weights.iter_mut().for_each(|(_, weight)| *weight = 0);
        plan.set_weight(Fault::Rot, 20);
        plan.rot_in_log = 100;
        (plan.replicas, plan.clients, plan.think_max) = (3, 4, 20_000);
        (plan.snapshot_bytes, plan.segment_bytes) = (1 << 20, 16 << 10);
        plan.fault_every = 100_000;
    }

    /// Members that come and go, and leaders that change meanwhile.
    fn changes(plan: &mut Plan) {
        plan.set_weight(Fault::Change, 60);
        plan.set_weight(Fault::Partition, 10);
        plan.set_weight(Fault::Heal, 20);
        plan.set_weight(Fault::Rot, 0);
        (plan.replicas, plan.fault_every) = (3, 200_000);
        plan.faulty_for = 12_000_000;
    }

    /// Leaders that are cut off.
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
