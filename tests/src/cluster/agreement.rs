//! Agreement of replicas: during a run, with the agreed log and with their own promises; after all faults, with each
//! other.

use super::client::Client;
use super::host::Host;
use super::promises::Bound;
use super::{CALM_MAX, World};
use omega_store::log::ReplicaId;
use omega_store::replica::FIRST;
use std::collections::{BTreeSet, VecDeque};

impl World {
    /// Compares the content of a replica's disk with its promises.
    pub(super) fn remembers(&mut self, host: usize) -> Result<(), String> {
        let one = &self.hosts[host];
        let Some(running) = &one.running else { return Ok(()) };
        let bound = if one.rotten { Bound::Proven } else { Bound::Promised };
        // If more than one bit is damaged, the end of a log may be lost without a trace.
        let known = !one.rotten || one.bit_rot;
        if known { self.promises.remembers(running.replica.node(), bound) } else { Ok(()) }
    }

    /// Compares the state of a replica with the agreed state.
    pub(super) fn compare(&mut self, host: usize) -> Result<(), String> {
        let one = &self.hosts[host];
        let Some(running) = &one.running else { return Ok(()) };
        let node = running.replica.node();
        let fingerprint = running.replica.fingerprint();
        let state = running.replica.applied().lock();
        let index = state.position.index;
        // A replica that has just joined has no state yet.
        if index < FIRST.index {
            return Ok(());
        }
        let compared = self.truth.compare_all(index, fingerprint, &state.cell);
        let members = compared.and_then(|()| self.truth.members(index, node.membership()));
        members.map_err(|error| format!("{}: {error}", one.id))
    }

    /// Audits the cell of each replica.
    pub(super) fn audit(&self) -> Result<(), String> {
        for host in &self.hosts {
            let Some(running) = &host.running else { continue };
            let state = running.replica.applied().lock();
            let audited = state.cell.audit().map_err(|error| format!("audit: {error}"));
            let at_end = state.position.index == self.truth.last();
            let same = if at_end { self.truth.compare_last(&state.cell) } else { Ok(()) };
            audited.and(same).map_err(|error| format!("{}: {error}", host.id))?;
        }
        Ok(())
    }

    /// The replicas that must agree at the end: the members in the newest state.
    pub(super) fn members(&self) -> VecDeque<usize> {
        let newest = self.hosts.iter().filter_map(|host| host.running.as_ref());
        let newest = newest.max_by_key(|running| running.replica.applied().lock().position.index);
        let Some(newest) = newest else { return VecDeque::new() };
        let members = newest.replica.node().membership().members();
        let is_member = |host: &usize| members.contains(&self.hosts[*host].id);
        (0..self.hosts.len()).filter(is_member).collect()
    }

    /// Whether all running members have the same membership. The memberships may differ if the leader is lost before
    /// other members learn of a promotion. The membership of these members then lists the former voters, of which they
    /// may be only half.
    pub(super) fn members_agree(&self) -> bool {
        let members = self.members();
        let running = members.iter().filter_map(|host| self.hosts[*host].running.as_ref());
        let mut known = running.map(|running| running.replica.node().membership());
        let first = known.next();
        known.all(|one| Some(one) == first)
    }

    /// Whether, in each running member's membership, the voters without these hosts are a majority.
    pub(super) fn voters_can_spare(&self, hosts: &[usize]) -> bool {
        let spared: Vec<ReplicaId> = hosts.iter().map(|host| self.hosts[*host].id).collect();
        let is_majority = |voters: &BTreeSet<ReplicaId>| {
            let left = voters.iter().filter(|voter| !spared.contains(voter)).count();
            voters.is_empty() || 2 * left > voters.len()
        };
        let members = self.members();
        let mut running = members.iter().filter_map(|host| self.hosts[*host].running.as_ref());
        running.all(|running| {
            let known = running.replica.node().membership();
            is_majority(&known.voters) && is_majority(&known.voters_outgoing)
        })
    }

    /// Whether all members have applied all agreed commands, after the operator has finished and clients have made
    /// enough calls.
    pub(super) fn agree(&self) -> bool {
        let members = self.members();
        let last = self.truth.last();
        let at = |host: usize| {
            let running = self.hosts[host].running.as_ref();
            running.map(|running| running.replica.applied().lock().position.index)
        };
        let idle = self.operator.is_idle() && self.history.calls.len() >= self.calm_asked();
        idle && !members.is_empty() && members.iter().all(|host| at(*host) == Some(last))
    }

    /// Whether a replica is down, permanently or not, when all faults are over. In this case the operator confirms that
    /// logs with a torn end have no other damage.
    pub(super) fn is_one_lost(&self) -> bool {
        self.calm && self.hosts.iter().any(|host| host.gone || host.kept_down)
    }

    /// Cuts the power of a minority of the members, if the others can continue without them. No disk is damaged, and
    /// the operator does nothing.
    pub(super) fn keep_minority_down(&mut self) -> Result<(), String> {
        let members = self.members();
        let sound = self.hosts.iter().all(|host| !host.gone && !host.rotten);
        if !self.plan.majority_first || members.len() < 3 || !sound || !self.operator.is_idle() {
            return Ok(());
        }
        let first = self.dice.below(members.len());
        let minority = members.iter().cycle().skip(first).take((members.len() - 1) / 2);
        let minority: Vec<usize> = minority.copied().collect();
        if !self.voters_can_spare(&minority) {
            return Ok(());
        }
        for host in minority {
            self.hosts[host].kept_down = true;
            *self.report.faults.entry("kept down").or_default() += 1;
            self.crash(host)?;
        }
        Ok(())
    }

    /// Lets the majority serve clients without the replicas that were kept down, and then restores the power of these.
    pub(super) fn recover_without_minority(&mut self) -> Result<(), String> {
        let down: Vec<usize> =
            (0..self.hosts.len()).filter(|host| self.hosts[*host].kept_down).collect();
        if down.is_empty() {
            return Ok(());
        }
        while self.history.calls.len() < self.calm_asked() {
            if self.now > self.plan.faulty_for + CALM_MAX {
                return Err(format!("without {down:?}: {}", self.why_not()));
            }
            self.next()?;
        }
        self.report.majority_max = self.now - self.plan.faulty_for;
        self.well_since = self.now;
        for host in down {
            self.hosts[host].kept_down = false;
            self.restart(host)?;
        }
        Ok(())
    }

    fn calm_asked(&self) -> usize {
        self.operator.asked_before_calm + 3 * self.clients.len()
    }

    /// Reason why the replicas do not agree.
    pub(super) fn why_not(&self) -> String {
        let one = |host: &Host| {
            let at = host.running.as_ref().map(|running| {
                let replica = &running.replica;
                let leadership = replica.node().leadership();
                let position = replica.applied().lock().position.index;
                format!(
                    "applied {position} committed {} last {} term {} leader {:?} doubt {:?} {:?}",
                    replica.node().committed(),
                    replica.node().last(),
                    leadership.term,
                    leadership.leader,
                    replica.node().suspected_loss(),
                    replica.node().membership(),
                )
            });
            let at = at.unwrap_or_else(|| format!("down, gone {}", host.gone));
            format!("\n  {}: {at}", host.id)
        };
        let hosts: String = self.hosts.iter().map(one).collect();
        let waits = |client: &Client| {
            let asked = client.pending.as_ref()?;
            Some(format!("\n  a client of {} waits: {asked:?}", client.home))
        };
        let waiting: String = self.clients.iter().filter_map(waits).collect();
        format!(
            "no agreement {} us after the last fault; truth {}, asked {} of {}, operator {:?}{hosts}{waiting}",
            self.now - self.plan.faulty_for,
            self.truth.last(),
            self.history.calls.len(),
            self.calm_asked(),
            self.operator,
        )
    }
}
