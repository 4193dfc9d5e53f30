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

    /// Favours the faults under which a mistake shows.
    pub fn plan_for(bug: Bug, plan: &mut Plan) {
        let _ = (bug, plan, Fault::Heal);
    }
}
