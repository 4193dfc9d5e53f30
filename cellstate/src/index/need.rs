//! The needs of a task group, compiled to numbers and set ids.

use crate::index::sets::SetId;
use crate::policy::PolicySet;
use crate::policy::ports::PortNeed;
use crate::rules::{GroupRules, SoftSpread};
use crate::state::allocation_overrides::Values;
use crate::state::demand_profiles::{DemandProfileSum, DemandProfiles};
use omega_core::{Amounts, CoreRequest, DeviceRequest, KindId, Take};
use smallvec::SmallVec;
use std::sync::Arc;

/// The needs of one task of a group as numbers and set ids, compiled once per group.
#[derive(Clone, Debug)]
pub struct Need {
    /// The request, by kind in the order of the cell's kinds.
    pub request: SmallVec<[i64; 4]>,
    /// Demand profiles; `None` if the group has none. For their kinds, `request` has the highest points.
    pub demand_profiles: Option<Arc<DemandProfiles>>,
    /// Requested devices.
    pub devices: Option<DeviceRequest>,
    /// Requested exclusive cores.
    pub cores: Option<CoreRequest>,
    /// The claim of a task that gets its optional resources; `None` if the group has no optional resources.
    pub(crate) optional: Option<Box<WithOptional>>,
    /// The requested cluster resources; `None` for nearly all groups.
    pub cluster_request: Option<Box<Amounts>>,
    /// Set of the one machine that the group names; `None` if the group names no machine.
    pub machine: Option<SetId>,
    /// Machines that meet the group's required affinity; `None` if it has none.
    pub affinity: Option<SetId>,
    /// Machines whose taints the group tolerates.
    pub tolerated: SetId,
    /// Sets of preferred machines, each with its weight. Only in views.
    pub preferred: SmallVec<[(u32, SetId); 2]>,
    /// Machines on which the group tolerates every `PreferNoSchedule` taint. Only in views.
    pub unmarked: Option<SetId>,
    /// The rules about other tasks; `None` if no rule concerns the group.
    pub(crate) rules: Option<Box<GroupRules>>,
    /// The ports of the group; `None` for nearly all groups.
    pub(crate) ports: Option<Box<PortNeed>>,
    /// The policies that concern tasks of the group.
    pub(crate) policies: PolicySet,
}

/// The amounts and devices that a task claims if it gets its optional resources.
#[derive(Clone, Debug)]
pub struct WithOptional {
    pub request: Values,
    pub devices: Option<DeviceRequest>,
}

impl Need {
    /// The least amount of each kind that a task claims on a machine: the request, or the lowest point of its demand
    /// profile.
    #[must_use]
    pub fn least(&self) -> &[i64] {
        self.demand_profiles
            .as_ref()
            .map_or(&self.request, |demand_profiles| demand_profiles.least())
    }

    /// Whether a task fits on a machine, for one kind. `free` is the machine's free amount of the kind, and `sum` the
    /// sum of its demand profiles. A kind that the task does not request always fits, even if `free` is negative.
    pub(crate) fn fits(
        &self,
        kind: KindId,
        request: i64,
        free: i64,
        sum: Option<&DemandProfileSum>,
    ) -> bool {
        request <= free
            || request == 0
            || self
                .demand_profiles
                .as_ref()
                .is_some_and(|demand_profiles| demand_profiles.fits(kind, free, sum))
    }

    /// The machine sets that the group uses.
    pub(crate) fn sets(&self) -> impl Iterator<Item = SetId> {
        let preferred = self.preferred.iter().map(|(_, set)| *set);
        let sets = self.machine.into_iter().chain(self.affinity).chain([self.tolerated]);
        sets.chain(self.unmarked).chain(preferred)
    }

    /// Whether a rule about other tasks concerns this group. If so, placing a task of the group may change on which
    /// machines the next one may run.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.rules.is_some()
    }

    /// Whether tasks of the group prefer, avoid or require other tasks near them.
    #[must_use]
    pub fn draws(&self) -> bool {
        let draws = |rules: &GroupRules| !rules.pulls.is_empty() || !rules.sought.is_empty();
        self.rules.as_deref().is_some_and(draws)
    }

    /// The soft spreads of the group.
    #[must_use]
    pub fn soft_spreads(&self) -> &[SoftSpread] {
        self.rules.as_ref().map_or(&[], |rules| &rules.soft_spreads)
    }

    /// The amounts and the device request of a claim. `take` selects whether they include the optional resources.
    #[inline]
    pub(crate) fn taken(&self, take: Take) -> (&Values, Option<DeviceRequest>) {
        match (take, &self.optional) {
            (Take::WithOptional, Some(with)) => (&with.request, with.devices),
            _ => (&self.request, self.devices),
        }
    }

    /// The device request of a placed task that has devices: that of the group's request or of its optional resources.
    #[inline]
    pub(crate) fn devices_of_placed(&self) -> Option<DeviceRequest> {
        self.devices.or_else(|| self.optional.as_ref()?.devices)
    }

    /// Number of ports that the cell chooses for each task.
    #[inline]
    #[must_use]
    pub fn any_ports(&self) -> usize {
        self.ports.as_ref().map_or(0, |ports| ports.any)
    }
}
