//! Commands about machines, and free amounts as a sum over all tasks.

use super::{Host, Reference, ReferenceLoad, Row, validate};
use omega_core::limits::{AMOUNT_MAX, DEVICE_MILLI};
use omega_core::{
    Amounts, KindId, Machine, MachineId, NodeCores, Outcome, Policy, Rejection, Taint, TaskGroup,
    TaskId, TaskState, Text, TopologyLevel,
};
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Reference {
    pub(super) fn register_machine(&mut self, machine: Machine) -> Result<Outcome, Rejection> {
        validate::machine(&machine, &self.kinds)?;
        let taken = |row: &Row| row.machine.as_ref().is_some_and(|m| m.spec.name == machine.name);
        if self.rows.iter().any(taken) {
            return Err(Rejection::NameTaken(machine.name));
        }
        let row = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(Row::default());
            self.rows.len() - 1
        });
        let host = Host { spec: Arc::new(machine), draining: false, load: None };
        self.rows[row].machine = Some(host);
        self.raise(&BTreeSet::from([row]));
        self.done();
        Ok(Outcome::Machine(self.machine_id(row)))
    }

    pub(super) fn update_machine(
        &mut self,
        id: MachineId,
        machine: Machine,
    ) -> Result<Outcome, Rejection> {
        validate::machine(&machine, &self.kinds)?;
        let old = self.known(id)?.spec.clone();
        if old.name != machine.name {
            return Err(Rejection::OtherName { is: old.name.clone(), given: machine.name });
        }
        let uses_devices =
            self.placed().any(|(.., task, row)| row == id.row() && !task.devices.is_empty());
        if old.devices != machine.devices && uses_devices {
            return Err(Rejection::DevicesInUse(id));
        }
        let uses_cores =
            self.placed().any(|(.., task, row)| row == id.row() && task.cores.total() > 0);
        if old.numa != machine.numa && uses_cores {
            return Err(Rejection::CoresInUse(id));
        }
        if let Some(host) = &mut self.rows[id.row()].machine {
            host.spec = Arc::new(machine);
        }
        self.raise(&BTreeSet::from([id.row()]));
        Ok(self.done())
    }

    pub(super) fn set_taint(
        &mut self,
        id: MachineId,
        key: &Text,
        taint: Option<Taint>,
    ) -> Result<Outcome, Rejection> {
        let mut machine = Machine::clone(&self.known(id)?.spec);
        let mut taints = machine.taints.to_vec();
        let present: Vec<Taint> = taints.extract_if(.., |known| known.key == *key).collect();
        if present == Vec::from_iter(taint.clone()) {
            return Ok(Outcome::Done(self.version));
        }
        taints.extend(taint);
        machine.taints = taints.into();
        self.update_machine(id, machine)
    }

    pub(super) fn drain_machine(
        &mut self,
        id: MachineId,
        draining: bool,
    ) -> Result<Outcome, Rejection> {
        if self.known(id)?.draining == draining {
            return Ok(Outcome::Done(self.version));
        }
        if let Some(host) = &mut self.rows[id.row()].machine {
            host.draining = draining;
        }
        self.raise(&BTreeSet::from([id.row()]));
        Ok(self.done())
    }

    pub(super) fn remove_machine(&mut self, id: MachineId) -> Result<Outcome, Rejection> {
        self.known(id)?;
        for task in self.jobs.values_mut().flat_map(|job| &mut job.tasks) {
            if task.state.machine() == Some(id) {
                task.leave(TaskState::Pending);
            }
        }
        let row = &mut self.rows[id.row()];
        row.machine = None;
        row.incarnation += 1;
        self.vacant.push(id.row());
        self.raise(&BTreeSet::from([id.row()]));
        Ok(self.done())
    }

    pub(super) fn report_load(
        &mut self,
        id: MachineId,
        load: Amounts,
    ) -> Result<Outcome, Rejection> {
        let name = self.known(id)?.spec.name.clone();
        validate::amounts(&name, &load, &self.kinds)?;
        let here = self.placed().filter(|(.., at)| *at == id.row());
        let groups: Vec<TaskGroup> = here.map(|(_, job, task, _)| job.claims(task)).collect();
        let claimed = (0..self.kinds.count()).map(|kind| claimed_together(&groups, kind));
        let claimed = Amounts::new(claimed.map(|sum| sum.min(i128::from(AMOUNT_MAX)) as u64));
        let report = ReferenceLoad { used: load, claimed, at_ms: self.now_ms };
        if let Some(host) = &mut self.rows[id.row()].machine {
            host.load = Some(report);
        }
        Ok(self.done())
    }

    pub(super) fn ignore_use(&self, machine: MachineId) -> Result<Outcome, Rejection> {
        self.known(machine)?;
        Ok(Outcome::Done(self.version()))
    }

    pub(super) fn set_policy(&mut self, policy: Policy) -> Outcome {
        let before = self.all_claimable();
        self.policy = policy;
        let after = self.all_claimable();
        let changed = (0..before.len()).filter(|row| before[*row] != after[*row]).collect();
        self.raise(&changed);
        self.done()
    }

    fn all_claimable(&self) -> Vec<Vec<i128>> {
        (0..self.rows.len()).map(|row| self.claimable(row)).collect()
    }

    fn known(&self, id: MachineId) -> Result<&Host, Rejection> {
        self.host(id).ok_or(Rejection::UnknownMachine(id))
    }

    /// Capacity of a row by kind, including overcommit; zero if the row is empty.
    #[must_use]
    pub fn claimable(&self, row: usize) -> Vec<i128> {
        let of = |(kind, known): (KindId, &omega_core::ResourceKind)| {
            let Some(host) = &self.rows[row].machine else { return 0 };
            let asked = host.spec.overcommit.percent(kind);
            let percent = if known.compressible {
                asked.min(self.policy.overcommit_max.percent(kind))
            } else {
                100
            };
            i128::from(host.spec.capacity.get(kind)) * i128::from(percent) / 100
        };
        self.kinds.iter().map(of).collect()
    }

    /// Free amounts of a row by kind: the capacity minus the claims. For claims that vary over the day, the amount is
    /// the minimum of all hours.
    #[must_use]
    pub fn free(&self, row: usize) -> Vec<i128> {
        self.free_with(row, [])
    }

    /// Free amounts of a row if some groups had additional tasks on it.
    #[must_use]
    pub fn free_with(&self, row: usize, more: impl IntoIterator<Item = TaskGroup>) -> Vec<i128> {
        self.free_of(row, |_| true, more)
    }

    /// Free amounts of a row if it only had the given tasks.
    pub(super) fn free_of(
        &self,
        row: usize,
        counts: impl Fn(TaskId) -> bool,
        more: impl IntoIterator<Item = TaskGroup>,
    ) -> Vec<i128> {
        let here = self.placed().filter(|(id, .., at)| *at == row && counts(*id));
        let here = here.map(|(_, job, task, _)| job.claims(task));
        let groups: Vec<TaskGroup> = here.chain(more).collect();
        let all = self.claimable(row).into_iter().enumerate();
        all.map(|(kind, claimable)| claimable - claimed_together(&groups, kind)).collect()
    }

    /// Free amount of each device of a row.
    #[must_use]
    pub fn devices_left(&self, row: usize) -> Vec<u16> {
        let devices = self.rows[row].machine.as_ref().map_or(0, |host| host.spec.devices);
        let mut left = vec![DEVICE_MILLI as u16; usize::from(devices)];
        for (_, job, task, at) in self.placed() {
            let group = &job.spec.groups[task.group];
            let wanted = group.optional.as_ref().and_then(|optional| optional.devices);
            let share = group.devices.or(wanted).map_or(0, |devices| devices.milli_each);
            for device in task.devices.iter().filter(|_| at == row) {
                left[device] -= share;
            }
        }
        left
    }

    /// Free cores of each NUMA node of a row, up to the last node that has any.
    #[must_use]
    pub fn cores_left(&self, row: usize) -> Vec<i32> {
        let numa =
            self.rows[row].machine.as_ref().map_or(&[][..], |host| host.spec.numa.as_slice());
        let here: Vec<NodeCores> =
            self.placed().filter(|(.., at)| *at == row).map(|(_, _, task, _)| task.cores).collect();
        let taken = |node: usize| here.iter().map(|cores| i32::from(cores.of(node))).sum::<i32>();
        numa.iter().enumerate().map(|(node, cores)| i32::from(*cores) - taken(node)).collect()
    }

    /// The domain of a row at a level. At the machine level, it is the number of the row.
    pub(super) fn domain(&self, row: usize, level: &TopologyLevel) -> Option<String> {
        let host = self.rows[row].machine.as_ref()?;
        match level {
            TopologyLevel::Machine => Some(row.to_string()),
            TopologyLevel::Label(key) => host.spec.labels.get(key).map(|value| value.to_string()),
        }
    }
}

/// The highest sum of the claims of one task of each of these groups on a kind, over the 288 parts of a day.
#[must_use]
pub fn claimed_together<G: Borrow<TaskGroup>>(groups: &[G], kind: usize) -> i128 {
    let varies = groups.iter().any(|group| !group.borrow().demand_profiles.is_empty());
    let moments = 0..if varies { 288 } else { 1 };
    let claimed = |moment: usize| -> i128 {
        groups.iter().map(|group| i128::from(demand(group.borrow(), kind, moment))).sum()
    };
    moments.map(claimed).max().unwrap_or(0)
}

/// Claim of a task of a group on a kind in one of the 288 parts of a day.
fn demand(group: &TaskGroup, kind: usize, moment: usize) -> u64 {
    let demand_profile =
        group.demand_profiles.iter().find(|demand_profile| demand_profile.kind.index() == kind);
    match demand_profile {
        Some(demand_profile) => demand_profile.points[moment * demand_profile.points.len() / 288],
        None => group.request.get(KindId(kind as u8)),
    }
}
