//! A list of volumes, compared with a naive one that has only the objects, and scans all of them for each query.

use crate::cell::histories::seeds;
use omega_core::{
    Amounts, JobId, LabelSelector, Labels, Machine, MachineSelector, Operator, Requirement, TaskId,
    Text,
};
use omega_schedulers::volumes::{
    AccessModes, Aspect, BindingTime, Provisioning, Reach, StorageClass, Volume, VolumeClaim,
    VolumeMode, Volumes,
};
use omega_tests::random::Dice;
use std::collections::{BTreeMap, BTreeSet};

const CLASSES: [&str; 4] = ["early", "late", "makes", "unknown"];
const DRIVERS: [&str; 2] = ["d0", "d1"];

fn class(name: &str) -> Option<StorageClass> {
    let zone =
        Requirement { key: "zone".into(), operator: Operator::NotIn, values: vec!["z2".into()] };
    let within = Reach::Matching(vec![MachineSelector { labels: vec![zone], names: Vec::new() }]);
    let provisions = Some(Provisioning { within, by: vec!["zone".into()] });
    let (binding, provisions) = match name {
        "early" => (BindingTime::Early, None),
        "late" => (BindingTime::Late, None),
        "makes" => (BindingTime::Late, provisions),
        _ => return None,
    };
    Some(StorageClass { name: name.into(), driver: "d1".into(), binding, provisions })
}

fn machines() -> Vec<Machine> {
    let machine = |i: usize| {
        let mut machine = Machine::new(format!("m{i}"), Amounts::new([1]));
        let host = format!("h{i}");
        let zone = format!("z{}", i % 3);
        machine.labels = Labels::new([("host", host.as_str()), ("zone", zone.as_str())]);
        machine
    };
    let mut machines: Vec<Machine> = (0..6).map(machine).collect();
    machines.push(Machine::new("bare", Amounts::new([1])));
    machines
}

#[derive(Clone, Debug)]
struct Used {
    claims: Vec<Text>,
    machine: Text,
    runs: bool,
}

/// A naive list of volumes.
#[derive(Default, Debug)]
struct Naive {
    volumes: BTreeMap<Text, Volume>,
    made: BTreeSet<Text>,
    claims: BTreeMap<Text, VolumeClaim>,
    /// The volume of each claim, and whether that choice is final.
    has: BTreeMap<Text, (Text, bool)>,
    limits: BTreeMap<(Text, Text), u32>,
    uses: BTreeMap<TaskId, Used>,
}

impl Naive {
    fn has_owner(&self, volume: &Volume) -> bool {
        volume.claim.is_some() || self.has.values().any(|(name, _)| *name == volume.name)
    }

    fn users<'a>(&'a self, claim: &'a Text) -> impl Iterator<Item = &'a Used> {
        self.uses.values().filter(move |used| used.claims.contains(claim))
    }

    /// Chooses volumes for all unbound claims of a task on a machine; an empty name stands for a volume to be
    /// provisioned.
    fn choose(&self, claims: &[Text], machine: &Machine) -> Option<BTreeMap<Text, Text>> {
        let mut choices = BTreeMap::new();
        let mut open = Vec::new();
        for name in claims {
            let claim = self.claims.get(name).filter(|claim| !claim.is_ending)?;
            match self.has.get(name) {
                Some((volume, _)) if !self.volumes.get(volume)?.reach.includes(machine) => None?,
                Some(_) => {}
                None => open.push(claim),
            }
        }
        open.sort_by_key(|claim| (claim.bytes, claim.name.clone()));
        open.dedup();
        for claim in open {
            let class = class(&claim.class).filter(|class| class.binding == BindingTime::Late)?;
            let any_kept = self.volumes.values().any(|v| v.claim.as_ref() == Some(&claim.name));
            let chosen = |volume: &Volume| {
                volume.class == claim.class
                    && volume.modes.includes(claim.modes)
                    && claim.selector.matches(&volume.labels)
                    && !self.has_owner(volume)
            };
            let fits = self.volumes.values().filter(|volume| {
                let kept = volume.claim.as_ref() == Some(&claim.name);
                (if any_kept { kept } else { chosen(volume) })
                    && volume.bytes >= claim.bytes
                    && volume.mode == claim.mode
                    && volume.reach.includes(machine)
                    && !choices.values().any(|name: &Text| *name == volume.name)
            });
            let best = fits.min_by_key(|volume| (volume.bytes, volume.name.clone()));
            let made = class.provisions.filter(|makes| makes.within.includes(machine));
            let made = made.map(|_| Text::from(""));
            choices.insert(claim.name.clone(), best.map(|v| v.name.clone()).or(made)?);
        }
        Some(choices)
    }

    /// Binds a claim to the volume that is kept for it. If several are kept, it is bound to the first, unless its class
    /// binds late.
    fn take_kept(&mut self, name: &Text) {
        let Some(claim) = self.claims.get(name) else { return };
        let kept = self.volumes.values().filter(|v| v.claim.as_ref() == Some(name));
        let kept: Vec<_> = kept.filter(|v| v.mode == claim.mode).map(|v| v.name.clone()).collect();
        let waits = class(&claim.class).is_some_and(|class| class.binding == BindingTime::Late);
        if kept.len() == 1 || !waits && !kept.is_empty() {
            self.has.entry(name.clone()).or_insert((kept[0].clone(), true));
        }
    }

    fn restricted(&self, claims: &[Text], machine: &Machine) -> bool {
        claims.iter().filter(|name| self.has.contains_key(*name)).any(|name| {
            let Some(claim) = self.claims.get(name) else { return false };
            let known = |(volume, _): &(Text, bool)| self.volumes.contains_key(volume);
            let many = [AccessModes::MANY_READERS, AccessModes::MANY_WRITERS];
            let shared = many.iter().any(|mode| claim.modes.includes(*mode));
            let elsewhere = self.users(name).any(|used| used.machine != machine.name);
            let one = claim.modes.includes(AccessModes::ONE_TASK) && self.users(name).count() > 0;
            self.has.get(name).is_some_and(known) && (one || elsewhere && !shared)
        })
    }

    fn driver(&self, claim: &Text) -> Option<Text> {
        let spec = self.claims.get(claim)?;
        match self.has.get(claim) {
            Some((volume, _)) => self.volumes.get(volume).map(|volume| volume.driver.clone()),
            None => Some(class(&spec.class).filter(|c| c.binding == BindingTime::Late)?.driver),
        }
    }

    fn too_many(&self, claims: &[Text], machine: &Machine) -> bool {
        let here = self.uses.values().filter(|used| used.machine == machine.name);
        let here: BTreeSet<&Text> = here.flat_map(|used| &used.claims).collect();
        let attached = |claim: &&&Text| self.has.contains_key(**claim);
        let here: BTreeSet<&Text> = here.iter().filter(attached).copied().collect();
        let new: BTreeSet<&Text> = claims.iter().filter(|claim| !here.contains(claim)).collect();
        DRIVERS.into_iter().any(|driver| {
            let of = |claim: &&&Text| self.driver(claim).is_some_and(|d| *d == *driver);
            let limit = self.limits.get(&(machine.name.clone(), driver.into()));
            let new = new.iter().filter(of).count();
            let used = here.iter().filter(of).count() + new;
            new > 0 && limit.is_some_and(|limit| used > *limit as usize)
        })
    }

    fn allows(&self, aspect: Aspect, claims: &[Text], machine: &Machine) -> bool {
        let volume = |claim: &Text| self.volumes.get(&self.has.get(claim)?.0);
        match aspect {
            Aspect::Binding => self.choose(claims, machine).is_some(),
            Aspect::Zone => {
                let known = claims.iter().filter(|claim| self.claims.contains_key(*claim));
                known.filter_map(volume).all(|volume| volume.reach.includes(machine))
            }
            Aspect::Limits => !self.too_many(claims, machine),
            Aspect::Restrictions => !self.restricted(claims, machine),
        }
    }

    fn end(&mut self, task: TaskId) {
        let Some(used) = self.uses.remove(&task) else { return };
        for claim in &used.claims {
            if self.users(claim).count() == 0 && self.has.get(claim).is_some_and(|has| !has.1) {
                let (volume, _) = self.has.remove(claim).unwrap();
                if self.made.remove(&volume) {
                    self.volumes.remove(&volume);
                }
            }
        }
    }

    fn bind(&mut self, task: TaskId) {
        for claim in self.uses.get(&task).map(|used| used.claims.clone()).unwrap_or_default() {
            if let Some(has) = self.has.get_mut(&claim) {
                has.1 = true;
            }
        }
    }
}

struct World {
    ours: Volumes,
    naive: Naive,
    machines: Vec<Machine>,
    dice: Dice,
    seed: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let ours = Volumes::default();
        CLASSES.into_iter().filter_map(class).for_each(|class| ours.put_class(class));
        let (naive, dice) = (Naive::default(), Dice::new(seed));
        World { ours, naive, machines: machines(), dice, seed }
    }

    fn modes(&mut self) -> AccessModes {
        let all = [
            AccessModes::ONE_MACHINE,
            AccessModes::MANY_WRITERS,
            AccessModes::ONE_TASK,
            AccessModes::ONE_MACHINE | AccessModes::MANY_READERS,
        ];
        *self.dice.pick(&all)
    }

    fn mode(&mut self) -> VolumeMode {
        if self.dice.chance(10) { VolumeMode::Block } else { VolumeMode::Filesystem }
    }

    fn reach(&mut self) -> Reach {
        let values = |key: &str, values: &[&str]| {
            let values = values.iter().map(|value| Text::from(*value)).collect();
            let label = Requirement { key: key.into(), operator: Operator::In, values };
            MachineSelector { labels: vec![label], names: Vec::new() }
        };
        let host = format!("h{}", self.dice.below(6));
        let any = match self.dice.below(5) {
            0 => return Reach::Everywhere,
            1 => vec![values("zone", &["z0"]), values("zone", &["z1"])],
            2 => vec![values("zone", &["z1", "z2"])],
            3 => vec![values("zone", &["z0"])],
            _ => vec![values("host", &[&host])],
        };
        Reach::Matching(any)
    }

    fn put_volume(&mut self) {
        let name: Text = format!("v{}", self.dice.below(12)).into();
        let claim: Option<Text> =
            self.dice.chance(10).then(|| format!("c{}", self.dice.below(8)).into());
        let all = AccessModes::ONE_MACHINE | AccessModes::MANY_READERS;
        let all = all | AccessModes::MANY_WRITERS | AccessModes::ONE_TASK;
        let volume = Volume {
            name: name.clone(),
            labels: self.dice.chance(50).then_some(("tier", "fast")).into_iter().collect(),
            class: (*self.dice.pick(&["early", "late", "makes"])).into(),
            driver: (*self.dice.pick(&DRIVERS)).into(),
            bytes: 1 + self.dice.below(5) as u64,
            modes: if self.dice.chance(70) { all } else { self.modes() },
            mode: self.mode(),
            reach: self.reach(),
            claim: claim.clone(),
        };
        // The existing object is not replaced.
        let naive = &mut self.naive;
        if naive.volumes.contains_key(&name) || naive.has.values().any(|(has, _)| *has == name) {
            return;
        }
        self.ours.put_volume(volume.clone()).unwrap();
        naive.volumes.insert(name, volume);
        claim.iter().for_each(|claim| naive.take_kept(claim));
    }

    fn remove_volume(&mut self) {
        let name: Text = format!("v{}", self.dice.below(12)).into();
        let is_of = self.naive.has.values().any(|(has, _)| *has == name);
        let there = self.naive.volumes.contains_key(&name);
        assert_eq!(self.ours.remove_volume(&name).is_ok(), there && !is_of, "seed {}", self.seed);
        if !is_of {
            self.naive.volumes.remove(&name);
        }
    }

    fn put_claim(&mut self) {
        let name: Text = format!("c{}", self.dice.below(8)).into();
        if self.naive.claims.contains_key(&name) {
            return;
        }
        let wanted: Option<Text> =
            self.dice.chance(15).then(|| format!("v{}", self.dice.below(12)).into());
        let fast = Requirement::equals("tier", "fast");
        let claim = VolumeClaim {
            name: name.clone(),
            class: (*self.dice.pick(&["early", "late", "late", "makes", "unknown", ""])).into(),
            bytes: 1 + self.dice.below(5) as u64,
            modes: self.modes(),
            mode: self.mode(),
            selector: LabelSelector {
                requirements: self.dice.chance(25).then_some(fast).into_iter().collect(),
            },
            volume: wanted.clone(),
            is_ending: self.dice.chance(5),
        };
        let naive = &mut self.naive;
        let taken = wanted.as_ref().is_some_and(|volume| {
            let kept = naive.volumes.get(volume).and_then(|volume| volume.claim.clone());
            naive.has.iter().any(|(of, (has, _))| has == volume && *of != name)
                || kept.is_some_and(|of| of != name)
        });
        assert_eq!(self.ours.put_claim(claim.clone()).is_ok(), !taken, "seed {}", self.seed);
        if taken {
            return;
        }
        if let Some(volume) = wanted {
            naive.has.insert(name.clone(), (volume, true));
        }
        naive.claims.insert(name.clone(), claim);
        naive.take_kept(&name);
    }

    fn remove_claim(&mut self) {
        let name: Text = format!("c{}", self.dice.below(8)).into();
        let used = self.naive.users(&name).count() > 0;
        let removed = self.naive.claims.contains_key(&name) && !used;
        assert_eq!(self.ours.remove_claim(&name).is_ok(), removed, "seed {}", self.seed);
        if removed {
            self.naive.claims.remove(&name);
            if let Some((volume, _)) = self.naive.has.remove(&name)
                && self.naive.made.remove(&volume)
            {
                self.naive.volumes.remove(&volume);
            }
        }
    }

    fn some_claims(&mut self) -> Vec<Text> {
        let count = 1 + self.dice.below(3);
        (0..count).map(|_| format!("c{}", self.dice.below(9)).into()).collect()
    }

    fn some_task(&mut self) -> TaskId {
        TaskId { job: JobId(1), index: self.dice.below(10) as u32 }
    }

    fn reserve(&mut self) {
        let (task, claims) = (self.some_task(), self.some_claims());
        let machine = self.machines[self.dice.below(self.machines.len())].clone();
        self.naive.end(task);
        let allowed =
            Aspect::ALL.into_iter().all(|aspect| self.naive.allows(aspect, &claims, &machine));
        let reserved = self.ours.reserve(task, &claims, &machine);
        assert_eq!(reserved.is_ok(), allowed, "seed {} {reserved:?}", self.seed);
        if !allowed {
            return;
        }
        for (claim, volume) in self.naive.choose(&claims, &machine).unwrap() {
            let ours = self.ours.claim(&claim).unwrap().volume.unwrap();
            if volume.is_empty() {
                let made = self.ours.volume(&ours).unwrap();
                let bytes = self.naive.claims[&claim].bytes;
                assert!(made.bytes == bytes && made.reach.includes(&machine), "{made:?}");
                self.naive.made.insert(ours.clone());
                self.naive.volumes.insert(ours.clone(), Volume { claim: None, ..made });
            } else {
                assert_eq!(ours, volume, "seed {}: the smallest", self.seed);
            }
            self.naive.has.insert(claim, (ours, false));
        }
        let machine = machine.name;
        self.naive.uses.insert(task, Used { claims, machine, runs: false });
    }

    fn step(&mut self) {
        let task = self.some_task();
        let runs = self.naive.uses.get(&task).map(|used| used.runs);
        match self.dice.below(100) {
            0..20 => self.put_volume(),
            20..40 => self.put_claim(),
            40..43 => self.remove_volume(),
            43..47 => self.remove_claim(),
            47..50 => {
                let machine = self.machines[self.dice.below(self.machines.len())].name.clone();
                let driver: Text = (*self.dice.pick(&DRIVERS)).into();
                let limit = self.dice.chance(70).then(|| self.dice.below(4) as u32);
                self.ours.set_limit(machine.clone(), driver.clone(), limit);
                match limit {
                    Some(limit) => self.naive.limits.insert((machine, driver), limit),
                    None => self.naive.limits.remove(&(machine, driver)),
                };
            }
            50..75 => self.reserve(),
            75..80 => {
                self.ours.bind(task);
                self.naive.bind(task);
            }
            80..87 => {
                self.ours.unreserve(task);
                if runs == Some(false) {
                    self.naive.end(task);
                }
            }
            87..93 => {
                self.ours.left(task);
                if runs == Some(true) {
                    self.naive.end(task);
                }
            }
            _ => self.runs(task),
        }
    }

    /// Records that a scheduler has placed the task, whether it had reserved volumes or not.
    fn runs(&mut self, task: TaskId) {
        let known = self.naive.uses.get(&task).cloned();
        let machine = self.machines[self.dice.below(self.machines.len())].name.clone();
        let other = Used { claims: self.some_claims(), machine, runs: true };
        let used = known.filter(|_| self.dice.chance(70)).unwrap_or(other);
        self.ours.runs(task, &used.claims, &used.machine);
        let same = |known: &Used| known.claims == used.claims && known.machine == used.machine;
        if !self.naive.uses.get(&task).is_some_and(same) {
            self.naive.end(task);
        }
        self.naive.uses.insert(task, Used { runs: true, ..used });
        self.naive.bind(task);
    }

    fn check(&mut self) {
        let claims = self.some_claims();
        for machine in &self.machines {
            for aspect in Aspect::ALL {
                let ours = self.ours.obstacle_of(&claims, aspect, machine);
                let naive = self.naive.allows(aspect, &claims, machine);
                let context = format!("seed {} {aspect:?} {claims:?} {ours:?}", self.seed);
                assert_eq!(ours.is_none(), naive, "{context} {:#?}", self.naive);
            }
            let here = self.naive.uses.values().filter(|used| used.machine == machine.name);
            let here = here.flat_map(|used| &used.claims);
            let here: BTreeSet<Text> =
                here.filter_map(|claim| Some(self.naive.has.get(claim)?.0.clone())).collect();
            assert_eq!(self.ours.attached(&machine.name), here.into_iter().collect::<Vec<_>>());
        }
        for name in self.naive.claims.keys() {
            let ours = self.ours.claim(name).unwrap();
            let has = ours.volume.map(|volume| (volume, ours.is_final));
            assert_eq!(has.as_ref(), self.naive.has.get(name), "seed {}", self.seed);
            let users: Vec<TaskId> = ours.users;
            let used = self.naive.uses.iter().filter(|(_, used)| used.claims.contains(name));
            assert_eq!(users, used.map(|(task, _)| *task).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_list_of_volumes_answers_as_a_naive_one() {
    for seed in seeds(300) {
        let mut world = World::new(seed);
        for _ in 0..200 {
            world.step();
            world.check();
        }
    }
}
