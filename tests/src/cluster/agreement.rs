//! Whether the replicas have come to agree after all faults, and if not, why not.

use super::World;
use super::host::Host;
use std::collections::VecDeque;

impl World {
    /// Audits what each replica has.
    pub(super) fn audit(&self) -> Result<(), String> {
        for host in &self.hosts {
            let Some(running) = &host.running else { continue };
            let audited = running.replica.applied().lock().cell.audit();
            audited.map_err(|error| format!("{}: audit: {error}", host.id))?;
        }
        Ok(())
    }

    /// The replicas that must agree in the end: those that the newest state names.
    pub(super) fn members(&self) -> VecDeque<usize> {
        let newest = self.hosts.iter().filter_map(|host| host.running.as_ref());
        let newest = newest.max_by_key(|running| running.replica.applied().lock().position.index);
        let Some(newest) = newest else { return VecDeque::new() };
        let members = newest.replica.node().membership().members();
        let is_member = |host: &usize| members.contains(&self.hosts[*host].id);
        (0..self.hosts.len()).filter(is_member).collect()
    }

    /// Whether all faults are over and forgotten: every member has the same state, which is all that
    /// was agreed on, and nobody waits.
    pub(super) fn agree(&self) -> bool {
        let members = self.members();
        let last = self.truth.last();
        let at = |host: usize| {
            let running = self.hosts[host].running.as_ref();
            running.map(|running| running.replica.applied().lock().position.index)
        };
        let idle = self.operator.is_idle() && self.history.asked.len() >= self.calm_asked();
        idle && !members.is_empty() && members.iter().all(|host| at(*host) == Some(last))
    }

    fn calm_asked(&self) -> usize {
        self.operator.asked_before_calm + 3 * self.clients.len()
    }

    /// Obstacle that keeps the replicas from agreeing.
    pub(super) fn why_not(&self) -> String {
        let one = |host: &Host| {
            let at = host.running.as_ref().map(|running| {
                let replica = &running.replica;
                let leadership = replica.node().leadership();
                let position = replica.applied().lock().position.index;
                format!(
                    "applied {position} committed {} last {} term {} leader {:?} members {:?}",
                    replica.node().committed(),
                    replica.node().last(),
                    leadership.term,
                    leadership.leader,
                    replica.node().membership().members(),
                )
            });
            let at = at.unwrap_or_else(|| format!("down, gone {}", host.gone));
            format!("\n  {}: {at}", host.id)
        };
        let hosts: String = self.hosts.iter().map(one).collect();
        format!(
            "no agreement {} us after the last fault; truth {}, asked {} of {}, operator {:?}{hosts}",
            self.now - self.plan.faulty_for,
            self.truth.last(),
            self.history.asked.len(),
            self.calm_asked(),
            self.operator,
        )
    }
}
