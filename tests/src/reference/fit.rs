//! The placement check of the reference model, which scans all tasks for each rule.
//!
//! Reasons have a fixed order: the machine itself, affinity, taints, reservations, peaks, resources by kind, devices,
//! cores, ports, the group's rules in their order, the anti-affinity of running tasks, the tenant's quota.

use super::allocations::taken;
use super::{Reference, ReferenceJob};
use omega_core::{
    CorePlace, CoreRequest, DeviceRequest, DeviceSet, JobId, MachineId, Near, NodeCores, Reason,
    Spread, TaintEffect, Take, TaskGroup, TaskRule, TaskSelector, Tenants, TopologyLevel,
    WhenUnsatisfiable,
};

/// A group of a job, whose rule is checked or which a rule concerns.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) id: JobId,
    pub(super) job: &'a ReferenceJob,
    pub(super) group: usize,
}

impl Member<'_> {
    /// Whether a selector in this group's rules selects the other group's tasks.
    pub(super) fn selects(&self, selector: &TaskSelector, other: Member<'_>) -> bool {
        match selector {
            TaskSelector::SameGroup => self.id == other.id && self.group == other.group,
            TaskSelector::SameJob => self.id == other.id,
            TaskSelector::Labels { tenants, labels } => {
                let tenant = &other.job.spec.tenant;
                let pays = match tenants {
                    Tenants::Own => *tenant == self.job.spec.tenant,
                    Tenants::Any => true,
                    Tenants::Named(names) => names.contains(tenant),
                };
                pays && labels.matches(&other.job.spec.groups[other.group].labels)
            }
        }
    }
}

fn refuse(refused: bool, reason: Reason) -> Result<(), Reason> {
    if refused { Err(reason) } else { Ok(()) }
}

impl Reference {
    /// Checks one machine. Returns the devices and cores that the task would get.
    pub(super) fn check_fit(
        &self,
        of: Member<'_>,
        machine: MachineId,
        (take, wanted): (Take, DeviceSet),
    ) -> Result<(DeviceSet, NodeCores), Reason> {
        let host = self.host(machine).ok_or(Reason::MachineGone)?;
        refuse(host.draining, Reason::MachineDraining)?;
        let group = &of.job.spec.groups[of.group];
        let row = machine.row();
        let other = group.rules.machine.as_ref().is_some_and(|name| *name != host.spec.name);
        refuse(other, Reason::OtherMachine)?;
        refuse(!self.meets_affinity(of, row), Reason::AffinityUnmet)?;
        refuse(!self.tolerates(of, row), Reason::Tainted)?;
        refuse(self.is_reserved(of, row), Reason::Reserved)?;
        let (request, devices) = taken(group, take);
        let more: Vec<_> = request.iter().map(|(kind, more)| (kind, i128::from(more))).collect();
        self.check_peaks(of.id, row, &more)?;
        // An allocation with optional resources is constant all day. If the group has no optional resources, its demand
        // profile applies.
        let claimed = match take {
            Take::WithOptional if group.optional.is_some() => TaskGroup::new(1, request.clone()),
            Take::WithOptional | Take::Request => TaskGroup::clone(group),
        };
        let left = self.free_with(row, [claimed]);
        for (kind, _) in request.iter() {
            refuse(left[kind.index()] < 0, Reason::NoRoom(kind))?;
        }
        let devices = self.choose_devices(devices, row, wanted)?;
        let cores = self.choose_cores(group.cores, row)?;
        self.check_ports(of, row)?;
        for rule in &group.rules.tasks {
            self.check_rule(of, rule, row)?;
        }
        self.check_holders(of, row)?;
        Ok((devices, cores))
    }

    fn meets_affinity(&self, of: Member<'_>, row: usize) -> bool {
        let Some(host) = &self.rows[row].machine else { return false };
        let required = &of.job.spec.groups[of.group].rules.affinity.required;
        required.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(&host.spec)))
    }

    fn tolerates(&self, of: Member<'_>, row: usize) -> bool {
        let Some(host) = &self.rows[row].machine else { return false };
        let tolerations = &of.job.spec.groups[of.group].rules.tolerations;
        let mut hard =
            host.spec.taints.iter().filter(|t| t.effect != TaintEffect::PreferNoSchedule);
        hard.all(|taint| tolerations.iter().any(|toleration| toleration.covers(taint)))
    }

    /// Chooses the fullest devices that fit, and among equally full devices those with the lowest numbers. If the claim
    /// names devices, accepts only these.
    pub(super) fn choose_devices(
        &self,
        asked: Option<DeviceRequest>,
        row: usize,
        wanted: DeviceSet,
    ) -> Result<DeviceSet, Reason> {
        let Some(request) = asked else {
            return Ok(DeviceSet::default());
        };
        let left = self.devices_left(row);
        let mut fitting: Vec<(u16, usize)> = left
            .iter()
            .zip(0..)
            .filter(|(l, _)| **l >= request.milli_each)
            .map(|(l, c)| (*l, c))
            .collect();
        if !wanted.is_empty() {
            fitting.retain(|(_, device)| wanted.iter().any(|w| w == *device));
            refuse(wanted.count() != u32::from(request.count), Reason::NoDevices)?;
        }
        fitting.sort_unstable();
        refuse(fitting.len() < usize::from(request.count), Reason::NoDevices)?;
        let chosen = fitting.iter().take(usize::from(request.count));
        Ok(chosen.fold(DeviceSet::default(), |set, (_, device)| set.with(*device)))
    }

    /// Chooses cores one by one, each from the node with the fewest free cores. If all cores must be on one node,
    /// chooses the node with the fewest free cores among the nodes that have enough. Of equal nodes, the one with the
    /// lowest number is chosen.
    pub(super) fn choose_cores(
        &self,
        asked: Option<CoreRequest>,
        row: usize,
    ) -> Result<NodeCores, Reason> {
        let Some(CoreRequest { count, place }) = asked else { return Ok(NodeCores::NONE) };
        let mut left = self.cores_left(row);
        let node_with = |left: &[i32], least: i32| {
            let nodes = left.iter().zip(0..).filter(|(left, _)| **left >= least);
            nodes.min().map(|(_, node)| node).ok_or(Reason::NoCores)
        };
        if place == CorePlace::OneNode {
            let node = node_with(&left, count.into())?;
            return Ok(NodeCores::NONE.with(node, count));
        }
        let mut chosen = NodeCores::NONE;
        for _ in 0..count {
            let node = node_with(&left, 1)?;
            left[node] -= 1;
            chosen = chosen.with(node, chosen.of(node) + 1);
        }
        Ok(chosen)
    }

    fn check_ports(&self, of: Member<'_>, row: usize) -> Result<(), Reason> {
        for port in &of.job.spec.groups[of.group].rules.ports {
            let taken = self.placed().any(|(_, job, task, at)| {
                let theirs = &job.spec.groups[task.group].rules.ports;
                at == row && theirs.iter().any(|other| other.collides(port))
            });
            refuse(taken, Reason::PortTaken)?;
        }
        Ok(())
    }

    /// Whether all terms select a task.
    fn all_mean(of: Member<'_>, terms: &[Near], other: Member<'_>) -> bool {
        terms.iter().all(|term| of.selects(&term.tasks, other))
    }

    fn check_affinity(&self, of: Member<'_>, terms: &[Near], row: usize) -> Result<(), Reason> {
        let meant: Vec<usize> = self
            .placed()
            .filter(|(id, job, task, _)| {
                Reference::all_mean(of, terms, Member { id: id.job, job, group: task.group })
            })
            .map(|(.., at)| at)
            .collect();
        let mut near = true;
        let mut anywhere = false;
        for term in terms {
            let here = self.domain(row, &term.level).ok_or(Reason::NoDomain)?;
            let domains = meant.iter().filter_map(|at| self.domain(*at, &term.level));
            let domains: Vec<String> = domains.collect();
            near &= domains.contains(&here);
            anywhere |= !domains.is_empty();
        }
        let first = !anywhere && Reference::all_mean(of, terms, of);
        refuse(!near && !first, Reason::TaskAffinityUnmet)
    }

    /// Number of the selected tasks that run in a domain.
    fn count(
        &self,
        of: Member<'_>,
        selector: &TaskSelector,
        level: &TopologyLevel,
        domain: &str,
    ) -> usize {
        let counts = |(id, job, task, row): &(
            omega_core::TaskId,
            &ReferenceJob,
            &super::ReferenceTask,
            usize,
        )| {
            of.selects(selector, Member { id: id.job, job, group: task.group })
                && self.domain(*row, level).as_deref() == Some(domain)
        };
        self.placed().filter(counts).count()
    }

    fn check_rule(&self, of: Member<'_>, rule: &TaskRule, row: usize) -> Result<(), Reason> {
        match rule {
            TaskRule::AntiAffinity { from, level } => match self.domain(row, level) {
                Some(domain) => {
                    refuse(self.count(of, from, level, &domain) > 0, Reason::AntiAffinity)
                }
                None => Ok(()),
            },
            TaskRule::Affinity(terms) => self.check_affinity(of, terms, row),
            TaskRule::Prefer { .. } => Ok(()),
            TaskRule::MaxPerDomain { of: selector, level, count } => {
                let domain = self.domain(row, level).ok_or(Reason::NoDomain)?;
                let here = self.count(of, selector, level, &domain);
                refuse(here >= *count as usize, Reason::DomainFull)
            }
            TaskRule::MaxShare { level, percent } => {
                let domain = self.domain(row, level).ok_or(Reason::NoDomain)?;
                let wanted = of.job.spec.groups[of.group].count as usize;
                let most = (wanted * usize::from(*percent) / 100).max(1);
                let here = self.count(of, &TaskSelector::SameGroup, level, &domain);
                refuse(here >= most, Reason::DomainFull)
            }
            TaskRule::MaxColocated { of: selector, level, count } => {
                match self.domain(row, level) {
                    Some(domain) => {
                        let here = self.count(of, selector, level, &domain);
                        let here = here + usize::from(of.selects(selector, of));
                        refuse(here > *count as usize, Reason::DomainFull)
                    }
                    None => Ok(()),
                }
            }
            TaskRule::RuntimeAffinity(near) => {
                let domain = self.domain(row, &near.level).ok_or(Reason::NoDomain)?;
                let here = self.count(of, &near.tasks, &near.level, &domain);
                refuse(here == 0, Reason::TaskAffinityUnmet)
            }
            TaskRule::Spread(spread) if spread.when == WhenUnsatisfiable::DoNotSchedule => {
                self.check_spread(of, spread, row)
            }
            TaskRule::Spread(_) => Ok(()),
            other => panic!("the reference does not know {other:?} yet"),
        }
    }

    fn check_spread(&self, of: Member<'_>, spread: &Spread, row: usize) -> Result<(), Reason> {
        let domain = self.domain(row, &spread.level).ok_or(Reason::NoDomain)?;
        let counting = (0..self.rows.len()).filter(|row| self.counts(of, spread, *row));
        let mut domains: Vec<String> =
            counting.filter_map(|row| self.domain(row, &spread.level)).collect();
        domains.sort();
        domains.dedup();
        let count = |domain: &String| self.spread_count(of, spread, domain);
        let emptiest = if domains.len() < spread.domains_min as usize {
            0
        } else {
            domains.iter().map(count).min().unwrap_or(0)
        };
        let here = count(&domain) + usize::from(spread.counts_itself);
        refuse(here > emptiest + spread.skew_max as usize, Reason::Skew)
    }

    /// Whether a spread includes a machine.
    pub(super) fn counts(&self, of: Member<'_>, spread: &Spread, row: usize) -> bool {
        let wished = spread.when == WhenUnsatisfiable::ScheduleAnyway;
        if wished && spread.level == TopologyLevel::Machine {
            return self.rows[row].machine.is_some();
        }
        let rules = &of.job.spec.groups[of.group].rules.tasks;
        let mut levels = rules.iter().filter_map(|rule| match rule {
            TaskRule::Spread(other) if other.when == spread.when => Some(&other.level),
            _ => None,
        });
        self.rows[row].machine.is_some()
            && levels.all(|level| self.domain(row, level).is_some())
            && (!spread.honors_affinity || self.meets_affinity(of, row))
            && (!spread.honors_taints || self.tolerates(of, row))
    }

    /// Number of a spread's tasks on the machines of a domain that the spread includes.
    pub(super) fn spread_count(&self, of: Member<'_>, spread: &Spread, domain: &str) -> usize {
        let counted = self.placed().filter(|(id, job, task, row)| {
            of.selects(&spread.of, Member { id: id.job, job, group: task.group })
                && self.counts(of, spread, *row)
                && self.domain(*row, &spread.level).as_deref() == Some(domain)
        });
        counted.count()
    }

    /// Whether the anti-affinity of a running task excludes this task.
    fn check_holders(&self, of: Member<'_>, row: usize) -> Result<(), Reason> {
        for (id, job, task, at) in self.placed() {
            let holder = Member { id: id.job, job, group: task.group };
            for rule in &job.spec.groups[task.group].rules.tasks {
                let TaskRule::AntiAffinity { from, level } = rule else { continue };
                let here = self.domain(row, level);
                let meets = here.is_some() && here == self.domain(at, level);
                refuse(meets && holder.selects(from, of), Reason::AntiAffinity)?;
            }
        }
        for (id, job, task, at) in self.placed() {
            let holder = Member { id: id.job, job, group: task.group };
            for rule in &job.spec.groups[task.group].rules.tasks {
                let TaskRule::MaxColocated { of: selector, level, count } = rule else { continue };
                let Some(domain) = self.domain(row, level) else { continue };
                if self.domain(at, level).as_ref() == Some(&domain) && holder.selects(selector, of)
                {
                    let here = self.count(holder, selector, level, &domain);
                    refuse(here + 1 > *count as usize, Reason::DomainFull)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a job that has not ended has a runtime affinity that may select tasks of the group `other`.
    pub(super) fn may_be_runtime_affinity(&self, other: Member<'_>) -> bool {
        let means = |of: Member<'_>, rule: &TaskRule| match rule {
            TaskRule::RuntimeAffinity(near) => of.selects(&near.tasks, other),
            _ => false,
        };
        self.jobs.iter().filter(|(_, job)| job.alive() > 0).any(|(id, job)| {
            job.spec.groups.iter().enumerate().any(|(group, spec)| {
                let of = Member { id: *id, job, group };
                spec.rules.tasks.iter().any(|rule| means(of, rule))
            })
        })
    }

    /// Every placed task whose runtime affinity is not satisfied, with the term, the domain, and the number of missing
    /// tasks.
    pub(super) fn alone(&self) -> Vec<(Member<'_>, &Near, String, usize)> {
        let mut alone = Vec::new();
        for (id, job, task, row) in self.placed() {
            let of = Member { id: id.job, job, group: task.group };
            for rule in &job.spec.groups[task.group].rules.tasks {
                let TaskRule::RuntimeAffinity(near) = rule else { continue };
                let Some(domain) = self.domain(row, &near.level) else { continue };
                let wanted = 1 + usize::from(of.selects(&near.tasks, of));
                let here = self.count(of, &near.tasks, &near.level, &domain);
                if here < wanted {
                    alone.push((of, near, domain, wanted - here));
                }
            }
        }
        alone
    }
}
