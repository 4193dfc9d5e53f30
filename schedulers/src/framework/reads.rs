//! Inputs of plugins: the data on which the result of a filter or score depends.

use std::ops::BitOr;

/// Inputs on which a plugin's result depends. If a plugin reads only the machine itself, a claim on one machine leaves
/// the results for all other machines valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reads(u8);

impl Reads {
    /// Properties of the machine: labels, taints, images, topology.
    pub const DESCRIPTION: Reads = Reads(1);
    /// Free resources and devices of the machine.
    pub const AMOUNTS: Reads = Reads(2);
    /// Reported load of the machine.
    pub const LOAD: Reads = Reads(4);
    /// Tasks on other machines. A claim on one machine may change the result for other machines.
    pub const OTHER_MACHINES: Reads = Reads(8);
    /// Descriptions of other machines. A changed description changes the result for other machines, but a claim does
    /// not.
    pub const OTHER_DESCRIPTIONS: Reads = Reads(32);
    /// Properties of the job: name, tenant, precedence. The job's kind and the description of the tasks do not count.
    pub const JOB: Reads = Reads(16);
    /// Cell time: the result may change without another event. This input wakes no jobs.
    pub const TIME: Reads = Reads(64);

    /// Whether the set includes all of `other`.
    #[must_use]
    pub fn includes(self, other: Reads) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Reads {
    type Output = Reads;

    fn bitor(self, other: Reads) -> Reads {
        Reads(self.0 | other.0)
    }
}
