//! Faults of a run, and their ends.

use super::host::Host;
use super::plan::{Fault, Micros};
use super::{Asker, Event, TICK, World};
use crate::disk::{Operation, SimulatedDisk};
use crate::random::Dice;
use omega_store::log::ReplicaId;
use omega_store::replica::{Request, RequestId};
use std::path::PathBuf;

impl World {
    /// Injects a random fault of the plan, and schedules the next.
    pub(super) fn fault(&mut self) -> Result<(), String> {
        if self.calm {
            return Ok(());
        }
        let every = self.plan.fault_every as usize;
        let delay = every / 2 + self.dice.below(every);
        self.after(delay as Micros, Event::Fault);
        let Some(fault) = self.plan.fault(&mut self.dice) else { return Ok(()) };
        let host = self.dice.below(self.hosts.len());
        let happened = match fault {
            Fault::Crash => self.hosts[host].running.is_some().then(|| self.crash(host)),
            Fault::CrashInWrite => self.crash_in_write(host),
            Fault::CrashAll => Some(self.crash_all()),
            Fault::Partition => {
                let ids: Vec<ReplicaId> = self.hosts.iter().map(|host| host.id).collect();
                self.network.partition(&ids, &mut self.dice);
                Some(Ok(()))
            }
            Fault::Heal => {
                self.network.heal();
                Some(Ok(()))
            }
            Fault::DiskError => self.disk_error(host),
            Fault::DiskFull => self.disk_full(host),
            Fault::Pause => {
                self.hosts[host].paused_until =
                    self.now + self.dice.below(self.plan.pause_max as usize) as Micros;
                Some(Ok(()))
            }
            Fault::Rot => self.rot(host),
            Fault::Change => self.change(host),
        };
        let Some(done) = happened else { return Ok(()) };
        *self.report.faults.entry(name_of(fault)).or_default() += 1;
        done
    }

    /// Cuts the power of a host. The power is restored some time later.
    pub(super) fn crash(&mut self, host: usize) -> Result<(), String> {
        self.hosts[host].crash(&mut self.dice);
        self.lose(host);
        Ok(())
    }

    /// Ends the process on a host, which is started again some time later.
    fn lose(&mut self, host: usize) {
        self.hosts[host].running = None;
        let life = self.hosts[host].life;
        let by_operator = |(key, asker): (&(usize, u64, RequestId), &Asker)| {
            (key.0, key.1) == (host, life) && *asker == Asker::Operator
        };
        if self.calm && self.waiting.iter().any(by_operator) {
            // The operator's connection breaks. While there are faults, the simulated operator does not notice this,
            // because the known runs of injected bugs would change otherwise.
            self.operator.cut_off();
        }
        // Clients that wait for this replica's answers get none, and their requests time out.
        self.waiting.retain(|(other, old, _), _| (*other, *old) != (host, life));
        let delay = 1_000 + self.dice.below(1_500_000) as Micros;
        self.after(delay, Event::Restart(host));
    }

    fn crash_all(&mut self) -> Result<(), String> {
        let running = |host: &usize| self.hosts[*host].running.is_some();
        let up: Vec<usize> = (0..self.hosts.len()).filter(running).collect();
        up.into_iter().try_for_each(|host| self.crash(host))
    }

    fn crash_in_write(&mut self, host: usize) -> Option<Result<(), String>> {
        let one = &self.hosts[host];
        one.running.is_some().then(|| {
            one.disk.fail(Operation::PowerCut, self.dice.below(8) as u64);
            Ok(())
        })
    }

    fn disk_error(&mut self, host: usize) -> Option<Result<(), String>> {
        let one = &mut self.hosts[host];
        one.running.as_ref()?;
        one.failing = true;
        let operations =
            [Operation::Write, Operation::Sync, Operation::Name, Operation::FolderSync];
        one.disk.fail(*self.dice.pick(&operations), self.dice.below(10) as u64);
        Some(Ok(()))
    }

    fn disk_full(&mut self, host: usize) -> Option<Result<(), String>> {
        let disk = &self.hosts[host].disk;
        disk.set_capacity(Some(disk.used() + self.dice.below(20_000) as u64));
        // One in three disks stays full until all faults are over.
        if !self.dice.chance(33) {
            let delay = 200_000 + self.dice.below(2_000_000);
            self.after(delay as Micros, Event::Room(host));
        }
        Some(Ok(()))
    }

    /// Damages the disk of a replica, if the others can continue without it.
    fn rot(&mut self, host: usize) -> Option<Result<(), String>> {
        let all_well = self.hosts.iter().all(|one| one.gone || one.is_up(self.now) && !one.rotten);
        let members = self.members();
        let enough = members.len() >= 3 && members.iter().all(|host| !self.hosts[*host].gone);
        if !all_well
            || !enough
            || !self.members_agree()
            || !self.voters_can_spare(&[host])
            || !self.operator.is_idle()
            || !members.contains(&host)
        {
            return None;
        }
        let crashed = self.crash(host);
        let disk = &self.hosts[host].disk;
        let what = if self.dice.below(100) < self.plan.rot_in_log {
            rot_in_log(disk, &mut self.dice)
        } else {
            disk.rot(&mut self.dice)
        };
        self.hosts[host].rotten = true;
        self.hosts[host].bit_rot = what.ends_with("flipped");
        Some(crashed)
    }

    /// Whether a majority of the members is sound without this host. Damage of a disk may be detected much later, so
    /// operators must keep enough members to tolerate it.
    fn can_spare(&self, host: usize) -> bool {
        let left: Vec<usize> = self.members().into_iter().filter(|other| *other != host).collect();
        let sound = left.iter().filter(|host| !self.hosts[**host].rotten).count();
        sound > left.len() / 2
    }

    /// Lets the operator change the membership.
    fn change(&mut self, host: usize) -> Option<Result<(), String>> {
        let members = self.members();
        if !self.operator.is_idle() || members.is_empty() {
            return None;
        }
        let id = self.hosts[host].id;
        match self.dice.below(5) {
            // This is an operator's error, or a replica that was considered lost has returned.
            4 => self.operator.add_again(id),
            0 if members.len() < 5 => self.operator.add(),
            1 if members.len() > 2 && members.contains(&host) && self.can_spare(host) => {
                self.operator.remove(id)
            }
            2 if members.len() > 2 && members.contains(&host) => self.operator.exchange(id),
            _ => self.operator.transfer(id),
        }
        Some(Ok(()))
    }

    /// Handles a replica that has stopped by itself.
    pub(super) fn stopped(&mut self, host: usize, of_disk: bool, why: &str) -> Result<(), String> {
        let one = &mut self.hosts[host];
        if one.rotten {
            one.running = None;
            one.gone = true;
            let id = one.id;
            self.operator.replace(id);
            return self.forgive_torn_tails();
        }
        if !(one.failing && of_disk) {
            return Err(format!("{} stopped: {why}", one.id));
        }
        // After a restart, the disk has its content again.
        if self.dice.chance(50) {
            self.hosts[host].crash(&mut self.dice);
        }
        self.lose(host);
        Ok(())
    }

    /// Lets the operator send a request, or wait for the result of the last one.
    pub(super) fn operate(&mut self) -> Result<(), String> {
        self.after(2 * TICK, Event::Operator);
        for id in std::mem::take(&mut self.operator.to_make) {
            let mut host = Host::new(id, self.settings.node.seed ^ id.0, self.plan.segment_bytes);
            host.bootstrap(self.truth.cell().kinds(), None);
            self.hosts.push(host);
            self.start(self.hosts.len() - 1)?;
        }
        let up: Vec<usize> =
            (0..self.hosts.len()).filter(|host| self.hosts[*host].is_up(self.now)).collect();
        if up.is_empty() {
            return Ok(());
        }
        let host = *self.dice.pick(&up);
        if let Some(leader) = self.operator.leads.take() {
            let others = self.members().into_iter().map(|host| self.hosts[host].id);
            let others: Vec<ReplicaId> = others.filter(|id| *id != leader).collect();
            if !others.is_empty() {
                self.operator.transfer_first(*self.dice.pick(&others));
            }
        }
        let Some(ask) = self.operator.ask() else { return Ok(()) };
        self.ask_for_operator(host, ask)
    }

    fn ask_for_operator(&mut self, host: usize, ask: Request) -> Result<(), String> {
        let life = self.hosts[host].life;
        let Some(running) = self.hosts[host].running.as_mut() else { return Ok(()) };
        let id = running.replica.request(ask);
        self.waiting.insert((host, life, id), Asker::Operator);
        self.with(host, |_| {})
    }

    /// Ends all faults: there are no partitions, disks have space, and all hosts have power.
    pub(super) fn make_calm(&mut self) -> Result<(), String> {
        self.calm = true;
        self.well_since = self.now;
        self.network.calm = true;
        self.network.heal();
        self.set_clocks_right();
        self.operator.asked_before_calm = self.history.calls.len();
        self.keep_minority_down()?;
        for host in 0..self.hosts.len() {
            let one = &mut self.hosts[host];
            one.disk.set_capacity(None);
            if std::mem::take(&mut one.paused_until) > self.now {
                // Writes to the replica's log do not wait for the end of its pause.
                let life = one.life;
                self.after(0, Event::LogWork(host, life));
            }
            let one = &mut self.hosts[host];
            if !one.disk.has_power() {
                self.crash(host)?;
                continue;
            }
            one.disk.mend();
            if one.running.is_none() {
                self.restart(host)?;
            }
        }
        self.forgive_torn_tails()
    }

    /// If a replica is permanently lost, replicas with torn logs wait for it in vain. When all other faults are over,
    /// the operator restarts them with a confirmation that their disks are sound.
    pub(super) fn forgive_torn_tails(&mut self) -> Result<(), String> {
        let lost = self.is_one_lost();
        let torn = (0..self.hosts.len()).filter(|host| lost && self.hosts[*host].is_torn());
        torn.collect::<Vec<_>>().into_iter().try_for_each(|host| self.crash(host))
    }
}

fn name_of(fault: Fault) -> &'static str {
    match fault {
        Fault::Crash => "crash",
        Fault::CrashInWrite => "crash in a write",
        Fault::CrashAll => "crash of all",
        Fault::Partition => "partition",
        Fault::Heal => "heal",
        Fault::DiskError => "disk error",
        Fault::DiskFull => "disk full",
        Fault::Pause => "pause",
        Fault::Rot => "rot",
        Fault::Change => "change of members",
    }
}

/// Damages records of a log: a bit flips, or everything from some offset on becomes zero. Damage at random places of
/// files would mostly be in unused bytes.
fn rot_in_log(disk: &SimulatedDisk, dice: &mut Dice) -> String {
    let is_log = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "log");
    let logs: Vec<PathBuf> = disk.files().into_iter().filter(is_log).collect();
    let Some(path) = (!logs.is_empty()).then(|| dice.pick(&logs)) else {
        return "nothing to damage".into();
    };
    let bit = dice.chance(50);
    disk.damage(path, |bytes| {
        let used: Vec<usize> = (LOG_HEADER..bytes.len()).filter(|at| bytes[*at] != 0).collect();
        if used.is_empty() {
            return;
        }
        let at = *dice.pick(&used);
        if bit { bytes[at] ^= 1 << dice.below(8) } else { bytes[at..].fill(0) }
    });
    if bit { "a bit flipped".into() } else { "the end zeroed".into() }
}

/// Offset in bytes at which the records of a segment begin.
const LOG_HEADER: usize = 4096;
