//! The use of claims by tasks, from the reservation to the end.
//!
//! ```text
//!   reserve ─▶ Reserved ── runs ─▶ Runs ── left ─▶ gone
//!                  └── unreserve ─▶ gone
//! ```
//!
//! A running task is reported twice: by its scheduler, and by the cell's delta. If a task has just reserved its claims,
//! a delta may still report the task as pending. So `left` ends only a use that `runs` has begun.

use super::catalog::{Catalog, Held, Stage, Use};
use super::check::{Choice, VolumeObstacle};
use super::objects::{Provisioning, Volume};
use super::{Aspect, Reach};
use omega_core::{Labels, Machine, TaskId, Text};

impl Catalog {
    /// Reserves claims: see [`super::Volumes::reserve`].
    pub(super) fn reserve(
        &mut self,
        task: TaskId,
        claims: &[Text],
        machine: &Machine,
    ) -> Result<(), VolumeObstacle> {
        // If the task used the claims on a machine before, this use has ended.
        self.end(task);
        for (claim, choice) in self.choices(task, claims, machine)? {
            let volume = match choice {
                Choice::Free(volume) => volume,
                Choice::Made => self.make_volume(&claim, machine),
            };
            self.set_volume(&claim, Some(volume));
        }
        self.begin(task, claims, &machine.name, Stage::Reserved);
        Ok(())
    }

    /// Checks all aspects, and returns the sources of volumes for the unbound claims, or the first obstacle.
    fn choices(
        &self,
        task: TaskId,
        claims: &[Text],
        machine: &Machine,
    ) -> Result<Vec<(Text, Choice)>, VolumeObstacle> {
        let resolved = self.resolve(claims, Some(task));
        Aspect::ALL.into_iter().try_for_each(|aspect| resolved.check(aspect, machine))?;
        let choices = resolved.choices(machine)?.into_iter();
        Ok(choices.map(|(claim, choice)| (claim.clone(), choice)).collect())
    }

    /// Adds a volume that a claim's class provisions for a machine, and returns its name.
    fn make_volume(&mut self, claim: &Text, machine: &Machine) -> Text {
        let mut name: Text = format!("for {claim}").into();
        while self.volumes.contains_key(&name) {
            name = format!("{name}+").into();
        }
        let spec = self.claims.get(claim).and_then(|claim| claim.spec.clone());
        let spec = spec.expect("a claim that gets a volume is there");
        let class = self.classes.get(&spec.class);
        let driver = class.map_or_else(|| "".into(), |class| class.driver.clone());
        let makes = class.and_then(|class| class.provisions.as_ref());
        let reach_from = |makes: &Provisioning| makes.reach_from(machine);
        let reach = makes.map_or(Reach::Everywhere, reach_from);
        let volume = Volume {
            name: name.clone(),
            labels: Labels::default(),
            class: spec.class,
            driver,
            bytes: spec.bytes,
            modes: spec.modes,
            mode: spec.mode,
            reach,
            claim: None,
        };
        self.volumes.insert(name.clone(), Held { volume, made: true });
        name
    }

    /// Makes volumes final: see [`super::Volumes::bind`].
    pub(super) fn bind(&mut self, task: TaskId) {
        let Some(used) = self.uses.get(&task).filter(|_| self.mirrored.is_none()) else { return };
        for name in &used.claims {
            if let Some(claim) = self.claims.get_mut(name) {
                claim.is_final |= claim.volume.is_some();
            }
        }
    }

    /// Releases a reservation: see [`super::Volumes::unreserve`]. Returns whether there was a reservation; if so, other
    /// tasks may now be able to use the volumes.
    pub(super) fn unreserve(&mut self, task: TaskId) -> bool {
        self.uses.get(&task).is_some_and(|used| used.stage == Stage::Reserved) && self.end(task)
    }

    /// Records a running task: see [`super::Volumes::runs`]. Returns whether this ended an earlier use by the task; if
    /// so, other tasks may now be able to use the volumes.
    pub(super) fn runs(&mut self, task: TaskId, claims: &[Text], machine: &Text) -> bool {
        match self.uses.get_mut(&task) {
            Some(used) if used.machine == *machine && used.claims == claims => {
                used.stage = Stage::Runs;
                self.bind(task);
                false
            }
            _ => {
                let helps = self.end(task);
                self.begin(task, claims, machine, Stage::Runs);
                self.bind(task);
                helps
            }
        }
    }

    /// Ends the use by a running task: see [`super::Volumes::left`]. Returns whether there was such a use.
    pub(super) fn left(&mut self, task: TaskId) -> bool {
        self.uses.get(&task).is_some_and(|used| used.stage == Stage::Runs) && self.end(task)
    }

    fn begin(&mut self, task: TaskId, claims: &[Text], machine: &Text, stage: Stage) {
        let used = Use { machine: machine.clone(), claims: claims.to_vec(), stage };
        self.uses.insert(task, used);
        for name in claims {
            let claim = self.claims.entry(name.clone()).or_default();
            // A claim that the task names twice counts once.
            if claim.users.insert(task) {
                *claim.machines.entry(machine.clone()).or_default() += 1;
                let volume = claim.volume.clone();
                volume.iter().for_each(|volume| self.attach(machine, volume, 1));
            }
        }
    }

    /// Ends a task's use of its claims. Returns whether there was such a use.
    fn end(&mut self, task: TaskId) -> bool {
        let Some(Use { machine, claims, .. }) = self.uses.remove(&task) else { return false };
        for name in claims {
            let Some(claim) = self.claims.get_mut(&name) else { continue };
            if !claim.users.remove(&task) {
                continue;
            }
            if let Some(tasks) = claim.machines.get_mut(&machine) {
                *tasks -= 1;
                if *tasks == 0 {
                    claim.machines.remove(&machine);
                }
            }
            let (unused, is_final) = (claim.users.is_empty(), claim.is_final);
            let (known, volume) = (claim.spec.is_some(), claim.volume.clone());
            volume.iter().for_each(|volume| self.attach(&machine, volume, -1));
            if unused && !is_final {
                self.set_volume(&name, None);
            }
            if unused && !known {
                self.claims.remove(&name);
            }
        }
        true
    }
}
