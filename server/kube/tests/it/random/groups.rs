//! Groups of pods in random histories.

use super::PODS;
use super::world::World;
use crate::double::{GROUPS as GROUP_LIST, PODS as POD_LIST, text};
use crate::gangs::{gang, group};
use omega_kube::adapter::{PodName, State};
use serde_json::{Value, json};
use std::sync::Arc;

const GROUPS: u32 = 4;

/// A group, by its number. All pods of a group have the same requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group(u32);

impl Group {
    pub(super) fn name(self) -> String {
        format!("g{}", self.0)
    }

    pub(super) fn milli(self) -> u32 {
        500 * (1 + self.0)
    }

    /// The minimum number of pods of the group; `None` if the group has no minimum.
    pub(super) fn min(self) -> Option<u32> {
        [Some(2), Some(3), Some(4), None][self.0 as usize]
    }
}

impl World {
    pub(super) fn set_groups_up(&mut self) {
        (0..GROUPS).for_each(|index| self.make_group(Group(index)));
        self.pair.deliver();
    }

    fn make_group(&mut self, of: Group) {
        let basic = json!({"schedulingPolicy": {"basic": {}}});
        group(&mut self.pair.server, &of.name(), &of.min().map_or(basic, gang));
    }

    /// Returns the group of a new pod.
    pub(super) fn pick_group(&mut self) -> Option<Group> {
        let index = self.chance(GROUPS + 2);
        (index < GROUPS).then_some(Group(index))
    }

    pub(super) fn groups() -> impl Iterator<Item = Group> {
        (0..GROUPS).map(Group)
    }

    pub(super) fn has_group(&self, of: Group) -> bool {
        self.pair.server.all(GROUP_LIST).any(|known| text(known, "/metadata/name") == of.name())
    }

    /// Deletes a group, or makes it again.
    pub(super) fn turn_groups(&mut self) {
        if self.chance(4) > 0 {
            return;
        }
        let group = Group(self.chance(GROUPS));
        if self.has_group(group) {
            let groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/t/podgroups";
            let path = format!("{groups}/{}", group.name());
            self.pair.server.call("DELETE", &path, &Value::Null);
        } else {
            self.make_group(group);
        }
    }

    /// Returns the pods of a group that the server has.
    pub(super) fn members(&self, of: Group) -> impl Iterator<Item = &Arc<Value>> {
        let pods = self.pair.server.all(POD_LIST);
        pods.filter(move |pod| text(pod, "/spec/schedulingGroup/podGroupName") == of.name())
    }

    /// Panics if a pod was placed although its group now has fewer placed pods than its minimum.
    pub(super) fn check_group_of(&self, pod: &PodName) {
        let adapter = &self.pair.adapter;
        let group_of =
            |pod: &PodName| Some(&adapter.pod(pod)?.spec.scheduling_group.as_ref()?.name);
        let Some(name) = group_of(pod) else { return };
        let min = World::groups().find(|group| group.name() == *name).and_then(Group::min);
        let all =
            (0..PODS).map(|index| PodName { namespace: "t".into(), name: format!("p{index}") });
        let is_placed = |pod: &PodName| {
            group_of(pod) == Some(name)
                && matches!(adapter.state(pod), Some(State::Assumed { .. } | State::Bound(_)))
        };
        let placed = all.filter(is_placed).count();
        assert!(placed >= min.unwrap_or(0) as usize, "{pod} is bound with {placed} pods of {name}");
    }
}
