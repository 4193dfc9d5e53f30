//! What differs in the bytes of version 1: the tasks of a job had no volumes.

use omega_core::{
    Amounts, CardRequest, Command, JobKind, Labels, PlacementRules, Precedence, Text,
};
use serde::Deserialize;

/// The version of such bytes.
pub(super) const VERSION: u8 = 1;

/// The number of [`Command::SubmitJob`] among the commands: the golden test of this version reads
/// one.
const SUBMIT_JOB: u8 = 6;

/// Whether bytes are a command of this version that holds a job.
pub(super) fn job_in(bytes: &[u8]) -> bool {
    bytes.starts_with(&[VERSION, SUBMIT_JOB])
}

/// What follows the number of the command.
#[derive(Deserialize)]
pub(super) struct Job {
    name: Text,
    tenant: Text,
    scheduler: Text,
    precedence: Precedence,
    kind: JobKind,
    groups: Vec<TaskGroup>,
    gang_min: Option<u32>,
    run_ms_expected: Option<u64>,
}

#[derive(Deserialize)]
struct TaskGroup {
    name: Text,
    count: u32,
    request: Amounts,
    cards: Option<CardRequest>,
    labels: Labels,
    restarts: u32,
    images: Vec<Text>,
    rules: PlacementRules,
}

impl Job {
    /// The command as it is now.
    pub(super) fn into_command(self) -> Command {
        let Job { name, tenant, scheduler, precedence, kind, groups, gang_min, run_ms_expected } =
            self;
        let groups = groups.into_iter().map(TaskGroup::into_present).collect();
        Command::SubmitJob(omega_core::Job {
            name,
            tenant,
            scheduler,
            precedence,
            kind,
            groups,
            gang_min,
            run_ms_expected,
        })
    }
}

impl TaskGroup {
    fn into_present(self) -> omega_core::TaskGroup {
        let TaskGroup { name, count, request, cards, labels, restarts, images, rules } = self;
        let volumes = Vec::new();
        omega_core::TaskGroup {
            name,
            count,
            request,
            cards,
            labels,
            restarts,
            images,
            rules,
            volumes,
        }
    }
}
