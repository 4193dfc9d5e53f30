//! Errors of simulations on the shipped cell.

use omega_core::Rejection;
use omega_core::limits::TRANSACTION_ITEMS_MAX;
use omega_schedulers::config::ConfigError;
use omega_workload::LoadError;

/// Error of a workload that cannot be simulated.
#[derive(Debug, thiserror::Error)]
pub enum ShippedError {
    /// The cell rejects a machine. Correct the machine in the input.
    #[error("machine {name:?} is invalid: {why}")]
    Machine {
        /// Name of the machine.
        name: String,
        /// The reason.
        why: Rejection,
    },
    /// The cell rejects a job. Correct the job in the input.
    #[error("job {name:?} is invalid: {why}")]
    Job {
        /// Name of the job.
        name: String,
        /// The reason.
        why: Rejection,
    },
    /// A gang has more tasks than a transaction can place. Make the gang smaller.
    #[error(
        "job {name:?} is a gang of {tasks} tasks, but the simulator places at most \
         {TRANSACTION_ITEMS_MAX} at once: make the gang smaller, or use `omega run`"
    )]
    WideGang {
        /// Name of the job.
        name: String,
        /// Number of tasks to place together.
        tasks: u32,
    },
    /// The cell rejects the policy of the input. Correct the policy.
    #[error("the policy of the input is invalid: {0}")]
    Policy(Rejection),
    /// The cell rejects a quota of the input. Correct the quota.
    #[error("the quota of tenant {tenant:?} is invalid: {why}")]
    Quota {
        /// Name of the tenant.
        tenant: String,
        /// The reason.
        why: Rejection,
    },
    /// A profile names something that the cell does not have. Correct the profile.
    #[error("the profiles are invalid: {0}")]
    Profile(ConfigError),
    /// The input has no machines. Specify machines for the run.
    #[error(
        "the input has no machines: give them with --on, such as --on 2000,cpu=64,memory=256Gi"
    )]
    NoMachines,
    /// A part of the input cannot be read. Correct that part.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The input changed during the run. Do not change files while they are read.
    #[error(
        "the input was changed while it was read: it has fewer jobs than before, so start the \
         run again"
    )]
    Changed,
}
