//! Pods that still wait when nothing changes any more, although what they need is free. They are computed from the
//! server's objects only.

use super::groups::Group;
use super::storage::{attachments, claims_of, find, has_space, host, limit, number, wanted};
use super::world::World;
use crate::double::{CLAIMS, NODES as NODE_LIST, PODS, VOLUMES, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Amounts of processors per node, in thousandths.
type Free = BTreeMap<String, i64>;

fn milli(pod: &Value) -> i64 {
    let request = text(pod, "/spec/containers/0/resources/requests/cpu");
    request.trim_end_matches('m').parse().expect("thousandths")
}

fn is_bound(pod: &Value) -> bool {
    !text(pod, "/spec/nodeName").is_empty()
}

impl World {
    /// Returns the pods and groups that wait although they could run.
    pub(super) fn starved(&self) -> Vec<String> {
        let unbound = self.pair.server.all(PODS).filter(|pod| !is_bound(pod));
        let alone = unbound.filter(|pod| self.is_alone(pod));
        let starved = alone.filter(|pod| self.could_run(pod));
        let pods = starved.map(|pod| text(pod, "/metadata/name").to_owned());
        let groups = World::groups().filter(|group| self.could_run_together(*group));
        pods.chain(groups.map(Group::name)).collect()
    }

    /// Whether a pod has no group, or its group exists and has enough bound pods.
    fn is_alone(&self, pod: &Value) -> bool {
        let name = text(pod, "/spec/schedulingGroup/podGroupName");
        let Some(group) = World::groups().find(|group| group.name() == name) else { return true };
        self.has_group(group) && self.bound_of(group) >= group.min().unwrap_or(0) as usize
    }

    fn bound_of(&self, group: Group) -> usize {
        self.members(group).filter(|pod| is_bound(pod)).count()
    }

    /// Whether a node has room for a pod and its volumes. If the pod has neither a group nor claims, pods of lower
    /// priority do not count, because it may preempt them.
    fn could_run(&self, pod: &Value) -> bool {
        let grouped = !text(pod, "/spec/schedulingGroup/podGroupName").is_empty();
        let preempts = claims_of(pod).next().is_none() && !grouped;
        let below = if preempts { pod["spec"]["priority"].as_i64().unwrap_or(0) } else { i64::MIN };
        let free = self.free_without(below);
        free.iter().any(|(node, free)| *free >= milli(pod) && self.reaches(pod, node))
    }

    /// Whether there is room for the pods that a group still lacks. Groups with claims are not checked.
    fn could_run_together(&self, group: Group) -> bool {
        let (Some(min), bound) = (group.min(), self.bound_of(group)) else { return false };
        let waiting: Vec<_> = self.members(group).filter(|pod| !is_bound(pod)).collect();
        let missing = (min as usize).saturating_sub(bound);
        let claiming = waiting.iter().any(|pod| claims_of(pod).next().is_some());
        if missing == 0 || waiting.len() < missing || !self.has_group(group) || claiming {
            return false;
        }
        let free = self.free_without(i64::MIN);
        let places = free.values().map(|free| (*free).max(0) / i64::from(group.milli()));
        places.sum::<i64>() >= missing as i64
    }

    /// Returns the amounts that would be free on the nodes without the bound pods of a priority lower than `below`.
    fn free_without(&self, below: i64) -> Free {
        let server = &self.pair.server;
        let nodes =
            server.all(NODE_LIST).map(|node| (text(node, "/metadata/name").to_owned(), 4000));
        let mut free: Free = nodes.collect();
        let stay = |pod: &Value| pod["spec"]["priority"].as_i64().unwrap_or(0) >= below;
        for pod in server.all(PODS).filter(|pod| is_bound(pod) && stay(pod)) {
            if let Some(free) = free.get_mut(text(pod, "/spec/nodeName")) {
                *free -= milli(pod);
            }
        }
        free
    }

    /// Whether a pod's claims could be bound on a node, and their volumes attached.
    fn reaches(&self, pod: &Value, node: &str) -> bool {
        let server = &self.pair.server;
        let on: BTreeSet<String> = wanted(server)
            .chain(attachments(server))
            .filter(|(at, _)| at == node)
            .map(|(_, volume)| volume)
            .collect();
        let (mut more, mut disks) = (0, 0);
        for name in claims_of(pod) {
            let Some(claim) = find(server, CLAIMS, name) else { return false };
            let one = claim["spec"]["accessModes"][0] == "ReadWriteOncePod";
            let used = server
                .all(PODS)
                .any(|pod| is_bound(pod) && claims_of(pod).any(|other| other == name));
            if one && used {
                return false;
            }
            let volume = text(claim, "/spec/volumeName");
            match (find(server, VOLUMES, volume), text(claim, "/spec/storageClassName")) {
                (Some(volume), _) if host(volume) != node => return false,
                (Some(_), "local") => {}
                (Some(_), _) => more += usize::from(!on.contains(volume)),
                (None, "late") if self.controllers.measured && !has_space(number(node)) => {
                    return false;
                }
                (None, "late") => more += 1,
                (None, "local") => disks += 1,
                (None, _) => return false,
            }
        }
        let free = server.all(VOLUMES).filter(|volume| {
            text(volume, "/spec/storageClassName") == "local"
                && text(volume, "/spec/claimRef/name").is_empty()
                && host(volume) == node
        });
        let limit = limit(number(node)).map_or(usize::MAX, |limit| limit as usize);
        free.count() >= disks && (more == 0 || on.len() + more <= limit)
    }
}
