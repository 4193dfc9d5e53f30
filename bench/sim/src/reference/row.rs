//! One machine of the reference's cell, and claims on it.

/// Request of a task: processors, and memory in gigabytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Processors.
    pub cpu: f64,
    /// Gigabytes.
    pub memory: f64,
}

/// State of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Allocated processors.
    pub(super) cpu: f64,
    /// Allocated gigabytes.
    pub(super) memory: f64,
    /// Sequence number: the number of accepted claims.
    pub(super) sequence: u64,
}

impl Row {
    pub(super) fn fits(&self, capacity: [f64; 2], request: Request) -> bool {
        capacity[0] - self.cpu >= request.cpu && capacity[1] - self.memory >= request.memory
    }

    pub(super) fn take(&mut self, request: Request) {
        self.cpu += request.cpu;
        self.memory += request.memory;
        self.sequence += 1;
    }

    /// Allocates all free amounts, and returns them.
    pub(super) fn lock(&mut self, capacity: [f64; 2]) -> [f64; 2] {
        let free = [capacity[0] - self.cpu, capacity[1] - self.memory];
        self.take(Request { cpu: free[0], memory: free[1] });
        free
    }

    /// Releases amounts that [`Row::lock`] returned.
    pub(super) fn unlock(&mut self, locked: [f64; 2]) {
        self.give_back(Request { cpu: locked[0], memory: locked[1] });
    }

    /// Releases a request. As in the reference, releases do not change the sequence number; nor does undoing a
    /// transaction.
    pub(super) fn give_back(&mut self, request: Request) {
        self.cpu -= request.cpu;
        self.memory -= request.memory;
    }
}

/// A claim on a machine, with the machine's row as it was before the claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) machine: u32,
    pub(super) seen: Row,
}
