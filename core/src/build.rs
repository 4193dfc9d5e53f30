//! Builder methods, which write a job, task group or machine as one expression.
//!
//! Each method returns the value with one field set. All fields are public, so a field without a method here is set by
//! assignment.
//!
//! ```
//! use omega_core::{Amounts, Job, KindId, Machine, TaskGroup};
//!
//! let request = Amounts::zero().with(KindId::CPU, 500).with(KindId::MEMORY, 2 << 30);
//! let job = Job::service("web", TaskGroup::new(3, request).with_label("app", "web"))
//!     .with_tenant("shop")
//!     .with_precedence(200);
//! let machine = Machine::new("m1", Amounts::new([8000, 64 << 30])).with_label("rack", "r7");
//! assert_eq!(job.groups[0].labels.get("app").map(|value| &**value), Some("web"));
//! assert_eq!(machine.labels.get("rack").map(|value| &**value), Some("r7"));
//! ```

use crate::amounts::{Amounts, KindId};
use crate::cores::{CorePlace, CoreRequest, NodeCores};
use crate::ids::Precedence;
use crate::job::group::{DeviceRequest, TaskGroup};
use crate::job::{Job, JobKind};
use crate::limits::DEVICE_MILLI;
use crate::machine::{Labels, Machine, Taint, Toleration};
use crate::rules::{Port, TaskRule};
use crate::selector::MachineSelector;
use crate::text::Text;

impl Job {
    /// A service of one group for the scheduler `default`, with precedence 0.
    pub fn service(name: impl Into<Text>, group: TaskGroup) -> Job {
        Job { kind: JobKind::Service, ..Job::batch(name, group) }
    }

    /// Adds a task group.
    #[must_use]
    pub fn with_group(mut self, group: TaskGroup) -> Job {
        self.groups.push(group.into());
        self
    }

    /// Sets the tenant whose quota the job uses.
    #[must_use]
    pub fn with_tenant(mut self, tenant: impl Into<Text>) -> Job {
        self.tenant = tenant.into();
        self
    }

    /// Sets the name of the scheduler that places the job.
    #[must_use]
    pub fn with_scheduler(mut self, scheduler: impl Into<Text>) -> Job {
        self.scheduler = scheduler.into();
        self
    }

    /// Sets the precedence.
    #[must_use]
    pub fn with_precedence(mut self, precedence: i32) -> Job {
        self.precedence = Precedence(precedence);
        self
    }

    /// Makes the job a gang: none of its tasks is placed unless at least `min` of them are placed together.
    #[must_use]
    pub fn with_gang(mut self, min: u32) -> Job {
        self.gang_min = Some(min);
        self
    }

    /// Sets the expected run time of a task, in milliseconds.
    #[must_use]
    pub fn with_runtime_estimate_ms(mut self, estimate: u64) -> Job {
        self.runtime_estimate_ms = Some(estimate);
        self
    }

    /// Sets the time at which the job should have ended, in milliseconds of
    /// [`Command::Expire`](crate::Command::Expire).
    #[must_use]
    pub fn with_deadline_ms(mut self, deadline: u64) -> Job {
        self.deadline_ms = Some(deadline);
        self
    }
}

impl TaskGroup {
    /// Sets the name of the group. The default is `main`.
    #[must_use]
    pub fn named(mut self, name: impl Into<Text>) -> TaskGroup {
        self.name = name.into();
        self
    }

    /// Sets a label of the tasks.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<Text>, value: impl Into<Text>) -> TaskGroup {
        self.labels = with(&self.labels, key.into(), value.into());
        self
    }

    /// Sets how many times a failed task is restarted.
    #[must_use]
    pub fn with_restarts(mut self, restarts: u32) -> TaskGroup {
        self.restarts = restarts;
        self
    }

    /// Requests whole devices, and the matching amount of the kind `gpu`.
    #[must_use]
    pub fn with_devices(self, gpu: KindId, count: u8) -> TaskGroup {
        self.with_shared_devices(gpu, DeviceRequest { count, milli_each: DEVICE_MILLI as u16 })
    }

    /// Requests devices or parts of devices, and the matching total of the kind `gpu`.
    #[must_use]
    pub fn with_shared_devices(mut self, gpu: KindId, devices: DeviceRequest) -> TaskGroup {
        self.request.set(gpu, u64::from(devices.count) * u64::from(devices.milli_each));
        self.devices = Some(devices);
        self
    }

    /// Requests exclusive cores for each task. The `cpu` that the task requests must include these cores.
    #[must_use]
    pub fn with_cores(mut self, count: u16, place: CorePlace) -> TaskGroup {
        self.cores = Some(CoreRequest { count, place });
        self
    }

    /// Requests cluster resources, such as licences, for each task.
    #[must_use]
    pub fn with_cluster_request(mut self, amounts: Amounts) -> TaskGroup {
        self.cluster_request = amounts;
        self
    }

    /// Requires machines that match the selector. After several calls, a machine must match at least one of the
    /// selectors.
    #[must_use]
    pub fn on(mut self, machines: MachineSelector) -> TaskGroup {
        self.rules.affinity.required.get_or_insert_default().push(machines);
        self
    }

    /// Adds a toleration.
    #[must_use]
    pub fn tolerating(mut self, toleration: Toleration) -> TaskGroup {
        self.rules.tolerations.push(toleration);
        self
    }

    /// Adds a rule about other tasks.
    #[must_use]
    pub fn with_rule(mut self, rule: TaskRule) -> TaskGroup {
        self.rules.tasks.push(rule);
        self
    }

    /// Adds a port that each task uses exclusively on its machine.
    #[must_use]
    pub fn with_port(mut self, port: Port) -> TaskGroup {
        self.rules.ports.push(port);
        self
    }

    /// Adds a port with this name, whose number the cell chooses for each task.
    #[must_use]
    pub fn with_any_port(mut self, name: impl Into<Text>) -> TaskGroup {
        self.any_ports.push(name.into());
        self
    }
}

impl Machine {
    /// Sets a label of the machine.
    #[must_use]
    pub fn with_label(mut self, key: impl Into<Text>, value: impl Into<Text>) -> Machine {
        self.labels = with(&self.labels, key.into(), value.into());
        self
    }

    /// Adds a taint to the machine.
    #[must_use]
    pub fn with_taint(mut self, taint: Taint) -> Machine {
        let mut taints = self.taints.into_vec();
        taints.push(taint);
        self.taints = taints.into();
        self
    }

    /// Sets the overcommit of a kind: how much of it may be claimed, in percent of the machine's capacity.
    #[must_use]
    pub fn with_overcommit(mut self, kind: KindId, percent: u32) -> Machine {
        self.overcommit = self.overcommit.with(kind, percent);
        self
    }

    /// Sets for each NUMA node how many cores tasks may use exclusively.
    #[must_use]
    pub fn with_numa(mut self, cores: NodeCores) -> Machine {
        self.numa = cores;
        self
    }
}

/// Returns the labels with one more label. A label with the same key is replaced.
fn with(labels: &Labels, key: Text, value: Text) -> Labels {
    let kept = labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    Labels::new(kept.chain([(key, value)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{TaintEffect, TolerationOperator};

    #[test]
    fn a_later_label_replaces_an_earlier_one() {
        let machine = Machine::new("m", Amounts::zero()).with_label("rack", "1");
        let machine = machine.with_label("zone", "a").with_label("rack", "2");
        assert_eq!(machine.labels, Labels::new([("rack", "2"), ("zone", "a")]));
        assert!(machine.labels.is_sorted());
    }

    #[test]
    fn devices_are_counted_in_the_request_and_in_the_capacity() {
        let group = TaskGroup::new(1, Amounts::new([500])).with_devices(KindId::GPU, 2);
        let machine = Machine::new("m", Amounts::new([500])).with_devices(KindId::GPU, 2);
        assert!(group.request.fits_in(&machine.capacity));
        assert_eq!(group.request.get(KindId::GPU), 2000);
    }

    #[test]
    fn rules_and_taints_are_added_not_replaced() {
        let taint = |key: &str| Taint {
            key: key.into(),
            value: "".into(),
            effect: TaintEffect::NoSchedule,
        };
        let machine =
            Machine::new("m", Amounts::zero()).with_taint(taint("a")).with_taint(taint("b"));
        assert_eq!(machine.taints.len(), 2);
        let any = Toleration {
            key: None,
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect: None,
        };
        let group = TaskGroup::new(1, Amounts::zero()).named("g").tolerating(any);
        assert!(machine.taints.iter().all(|taint| group.rules.tolerations[0].covers(taint)));
        let job = Job::service("j", group.clone()).with_group(group.named("h")).with_gang(2);
        assert_eq!((job.groups.len(), job.gang_min, job.kind), (2, Some(2), JobKind::Service));
    }
}
