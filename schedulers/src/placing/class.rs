//! Equivalence classes of tasks: tasks with equal groups in similar jobs have the same filter
//! results and scores.
//!
//! (Borg's equivalence classes, EuroSys 2015.)

use foldhash::fast::FixedState;
use omega_core::{JobId, JobKind, TaskGroup};
use std::hash::{BuildHasher, Hash, Hasher};

/// Key of an equivalence class: the group's description, the job's kind (batch or service), and the job's id. The id is
/// `None` unless a plugin reads the job.
#[derive(Debug)]
pub(crate) struct Class {
    group: TaskGroup,
    kind: JobKind,
    job: Option<JobId>,
    hash: u64,
}

/// Borrowed form of a class, for look-ups without a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClassRef<'a> {
    group: &'a TaskGroup,
    kind: JobKind,
    job: Option<JobId>,
    hash: u64,
}

impl ClassRef<'_> {
    pub(crate) fn new(group: &TaskGroup, kind: JobKind, job: Option<JobId>) -> ClassRef<'_> {
        let mut hasher = FixedState::default().build_hasher();
        (&group.request, &group.devices, &group.cores, &group.labels).hash(&mut hasher);
        (&group.images, &group.rules).hash(&mut hasher);
        (kind, job).hash(&mut hasher);
        ClassRef { group, kind, job, hash: hasher.finish() }
    }

    /// A number that is equal for equal classes.
    pub(crate) fn hash_code(self) -> u64 {
        self.hash
    }

    /// Whether both are the same class.
    pub(crate) fn is_alike(self, other: ClassRef<'_>) -> bool {
        (self.hash, self.kind, self.job) == (other.hash, other.kind, other.job)
            && is_alike(self.group, other.group)
    }

    pub(crate) fn to_class(self) -> Class {
        Class { group: self.group.clone(), kind: self.kind, job: self.job, hash: self.hash }
    }
}

impl Class {
    pub(crate) fn is(&self, other: ClassRef<'_>) -> bool {
        self.borrow().is_alike(other)
    }

    fn borrow(&self) -> ClassRef<'_> {
        ClassRef { group: &self.group, kind: self.kind, job: self.job, hash: self.hash }
    }
}

/// Whether two groups are equal in all fields that a plugin may read.
fn is_alike(one: &TaskGroup, other: &TaskGroup) -> bool {
    fn described(group: &TaskGroup) -> impl PartialEq + use<'_> {
        // All fields are listed, so that the compiler reports a new field that is not considered here.
        let TaskGroup {
            name: _,
            count: _,
            restarts: _,
            grace_ms: _,
            // Programs do not affect placement, because only the owner and the agent read them.
            run: _,
            payload: _,
            version: _,
            per_machine: _,
            // Optional resources are left out, because a group compiled for placement with its optional resources
            // includes these in `request`.
            optional: _,
            request,
            devices,
            cores,
            labels,
            images,
            volumes,
            rules,
            demand_profiles,
            cluster_request,
            any_ports,
        } = group;
        let amounts = (request, devices, cores, demand_profiles, cluster_request);
        (amounts, labels, images, rules, volumes, any_ports)
    }
    described(one) == described(other)
}
