//! Checker of the ROADEF/EURO challenge 2012, written only from the contest's rules, with its own reader.
//!
//! It shares no code with `omega-reassign`, computes everything again for every assignment, and names the broken rule.
//! [`random_model`] writes small instances in the contest's format, with so little room that all rules matter.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers too")]

use rand::{Rng, RngExt};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A process of an instance.
#[derive(Debug)]
struct Process {
    service: usize,
    requirements: Vec<i128>,
    move_cost: i128,
}

/// A machine of an instance.
#[derive(Debug)]
struct Machine {
    neighbourhood: i128,
    location: i128,
    capacities: Vec<i128>,
    safety_capacities: Vec<i128>,
    move_costs: Vec<i128>,
}

/// A service of an instance.
#[derive(Debug)]
struct Service {
    spread_min: usize,
    dependencies: Vec<usize>,
}

/// A balance objective of an instance.
#[derive(Debug)]
struct Balance {
    resources: [usize; 2],
    target: i128,
    weight: i128,
}

/// An instance of the contest.
#[derive(Debug)]
pub struct Model {
    transient: Vec<bool>,
    load_weights: Vec<i128>,
    machines: Vec<Machine>,
    services: Vec<Service>,
    processes: Vec<Process>,
    balances: Vec<Balance>,
    weights: [i128; 3],
}

impl Model {
    /// Reads an instance.
    ///
    /// # Panics
    /// If the text is not an instance.
    #[must_use]
    pub fn read(text: &str) -> Model {
        let mut numbers =
            text.split_whitespace().map(|word| word.parse::<i128>().expect("a number"));
        let mut next = || numbers.next().expect("a complete model");
        let (mut transient, mut load_weights) = (Vec::new(), Vec::new());
        let resources = next();
        for _ in 0..resources {
            transient.push(next() == 1);
            load_weights.push(next());
        }
        let count = next();
        let machines = (0..count).map(|_| Machine {
            neighbourhood: next(),
            location: next(),
            capacities: (0..resources).map(|_| next()).collect(),
            safety_capacities: (0..resources).map(|_| next()).collect(),
            move_costs: (0..count).map(|_| next()).collect(),
        });
        let machines = machines.collect();
        let services = (0..next()).map(|_| {
            let spread_min = next() as usize;
            let dependencies = next();
            Service {
                spread_min,
                dependencies: (0..dependencies).map(|_| next() as usize).collect(),
            }
        });
        let services = services.collect();
        let processes = (0..next()).map(|_| Process {
            service: next() as usize,
            requirements: (0..resources).map(|_| next()).collect(),
            move_cost: next(),
        });
        let processes = processes.collect();
        let balances = (0..next()).map(|_| Balance {
            resources: [next() as usize, next() as usize],
            target: next(),
            weight: next(),
        });
        let balances = balances.collect();
        let weights = [next(), next(), next()];
        assert!(numbers.next().is_none(), "nothing follows the weights");
        Model { transient, load_weights, machines, services, processes, balances, weights }
    }

    /// Number of machines.
    #[must_use]
    pub fn machines(&self) -> usize {
        self.machines.len()
    }

    /// Number of processes.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.processes.len()
    }

    fn on<'a>(
        &'a self,
        assignment: &'a [usize],
        machine: usize,
    ) -> impl Iterator<Item = usize> + 'a {
        (0..self.processes.len()).filter(move |process| assignment[*process] == machine)
    }

    fn used(&self, assignment: &[usize], machine: usize, resource: usize) -> i128 {
        self.on(assignment, machine)
            .map(|process| self.processes[process].requirements[resource])
            .sum()
    }

    /// Cost of an assignment by the contest's formula.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn check(&self, initial: &[usize], assignment: &[usize]) -> Result<i128, String> {
        self.check_machines(initial, assignment)?;
        self.check_services(assignment)?;
        Ok(self.load_cost(assignment)
            + self.balance_cost(assignment)
            + self.move_cost(initial, assignment))
    }

    fn check_machines(&self, initial: &[usize], assignment: &[usize]) -> Result<(), String> {
        for (at, machine) in self.machines.iter().enumerate() {
            let mut services = BTreeSet::new();
            for process in self.on(assignment, at) {
                if !services.insert(self.processes[process].service) {
                    return Err(format!("conflict: machine {at}, process {process}"));
                }
            }
            for (resource, capacity) in machine.capacities.iter().enumerate() {
                let mut used = self.used(assignment, at, resource);
                if self.transient[resource] {
                    let left = self.on(initial, at).filter(|process| assignment[*process] != at);
                    used += left
                        .map(|process| self.processes[process].requirements[resource])
                        .sum::<i128>();
                }
                if used > *capacity {
                    return Err(format!(
                        "capacity: machine {at}, resource {resource}, {used} of {capacity}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_services(&self, assignment: &[usize]) -> Result<(), String> {
        let domains = |service: usize, domain: &dyn Fn(&Machine) -> i128| -> BTreeSet<i128> {
            let processes =
                self.processes.iter().zip(assignment).filter(|(p, _)| p.service == service);
            processes.map(|(_, machine)| domain(&self.machines[*machine])).collect()
        };
        for (at, service) in self.services.iter().enumerate() {
            if domains(at, &|machine| machine.location).len() < service.spread_min {
                return Err(format!("spread: service {at}"));
            }
            for on in &service.dependencies {
                let mine = domains(at, &|machine| machine.neighbourhood);
                if !mine.is_subset(&domains(*on, &|machine| machine.neighbourhood)) {
                    return Err(format!("dependency: service {at} on {on}"));
                }
            }
        }
        Ok(())
    }

    fn load_cost(&self, assignment: &[usize]) -> i128 {
        let mut cost = 0;
        for (at, machine) in self.machines.iter().enumerate() {
            for (resource, weight) in self.load_weights.iter().enumerate() {
                let above =
                    self.used(assignment, at, resource) - machine.safety_capacities[resource];
                cost += weight * above.max(0);
            }
        }
        cost
    }

    fn balance_cost(&self, assignment: &[usize]) -> i128 {
        let mut cost = 0;
        for balance in &self.balances {
            for (at, machine) in self.machines.iter().enumerate() {
                let free = |r: usize| machine.capacities[r] - self.used(assignment, at, r);
                let [first, second] = balance.resources;
                cost += balance.weight * (balance.target * free(first) - free(second)).max(0);
            }
        }
        cost
    }

    fn move_cost(&self, initial: &[usize], assignment: &[usize]) -> i128 {
        let moved = |process: &usize| initial[*process] != assignment[*process];
        let all = || (0..self.processes.len()).filter(moved);
        let processes: i128 = all().map(|process| self.processes[process].move_cost).sum();
        let of_service = |service| all().filter(|p| self.processes[*p].service == service).count();
        let services = (0..self.services.len()).map(of_service).max().unwrap_or(0) as i128;
        let machines: i128 =
            all().map(|p| self.machines[initial[p]].move_costs[assignment[p]]).sum();
        self.weights[0] * processes + self.weights[1] * services + self.weights[2] * machines
    }
}

/// Reads an assignment.
///
/// # Panics
/// If the text is not an assignment.
#[must_use]
pub fn read_assignment(text: &str) -> Vec<usize> {
    text.split_whitespace().map(|word| word.parse().expect("a machine")).collect()
}

/// Writes a small random instance, and an assignment that obeys its rules.
///
/// # Panics
/// Never, because writing to a string does not fail.
pub fn random_model(rng: &mut impl Rng) -> (String, Vec<usize>) {
    let (resources, machines) = (rng.random_range(1..=6), rng.random_range(2..=7_usize));
    let services = rng.random_range(1..=8_usize);
    let (assignment, of_service) = random_assignment(rng, machines, services);
    let requirements: Vec<Vec<i64>> = assignment
        .iter()
        .map(|_| (0..resources).map(|_| rng.random_range(0..=9)).collect())
        .collect();
    let mut text = format!("{resources}\n");
    for _ in 0..resources {
        writeln!(text, "{} {}", rng.random_range(0..=1), rng.random_range(0..=10)).unwrap();
    }
    writeln!(text, "{machines}").unwrap();
    let domains: Vec<[usize; 2]> =
        (0..machines).map(|_| [rng.random_range(0..3), rng.random_range(0..4)]).collect();
    for (machine, [neighbourhood, location]) in domains.iter().enumerate() {
        let on = |process: &usize| assignment[*process] == machine;
        let used = |r: usize| -> i64 {
            (0..assignment.len()).filter(on).map(|process| requirements[process][r]).sum()
        };
        let capacities: Vec<i64> =
            (0..resources).map(|r| used(r) + rng.random_range(0..12)).collect();
        let safety: Vec<i64> = capacities.iter().map(|most| rng.random_range(0..=*most)).collect();
        let costs: Vec<i64> = (0..machines).map(|_| rng.random_range(0..=3)).collect();
        writeln!(
            text,
            "{neighbourhood} {location} {} {} {}",
            words(&capacities),
            words(&safety),
            words(&costs)
        )
        .unwrap();
    }
    write_services(rng, &mut text, (&assignment, &of_service), (services, &domains));
    writeln!(text, "{}", assignment.len()).unwrap();
    for (service, requirements) in of_service.iter().zip(&requirements) {
        writeln!(text, "{service} {} {}", words(requirements), rng.random_range(0..=5)).unwrap();
    }
    let balances = rng.random_range(0..=2);
    writeln!(text, "{balances}").unwrap();
    for _ in 0..balances {
        let mut resource = || rng.random_range(0..resources);
        let (first, second) = (resource(), resource());
        writeln!(text, "{first} {second} {}\n{}", rng.random_range(0..4), rng.random_range(0..5))
            .unwrap();
    }
    writeln!(
        text,
        "{} {} {}",
        rng.random_range(0..4),
        rng.random_range(0..20),
        rng.random_range(0..4)
    )
    .unwrap();
    (text, assignment)
}

/// Assigns machines to processes, and returns also their services. No two processes of a service share a machine.
fn random_assignment(
    rng: &mut impl Rng,
    machines: usize,
    services: usize,
) -> (Vec<usize>, Vec<usize>) {
    let (mut assignment, mut of_service) = (Vec::new(), Vec::new());
    for service in 0..services {
        for machine in 0..machines {
            if rng.random_range(0..3) == 0 {
                assignment.push(machine);
                of_service.push(service);
            }
        }
    }
    (assignment, of_service)
}

/// Writes services whose spread and dependencies are satisfied: each minimum is at most the present spread, and only
/// dependencies that are satisfied are chosen.
fn write_services(
    rng: &mut impl Rng,
    text: &mut String,
    (assignment, of_service): (&[usize], &[usize]),
    (services, domains): (usize, &[[usize; 2]]),
) {
    let of = |service: usize, which: usize| -> BTreeSet<usize> {
        let all = assignment.iter().zip(of_service).filter(|(_, other)| **other == service);
        all.map(|(machine, _)| domains[*machine][which]).collect()
    };
    writeln!(text, "{services}").unwrap();
    for service in 0..services {
        let spread = rng.random_range(0..=of(service, 1).len());
        let holds = |on: &usize| *on != service && of(service, 0).is_subset(&of(*on, 0));
        let on: Vec<i64> = (0..services)
            .filter(holds)
            .filter(|_| rng.random_range(0..2) == 0)
            .map(|on| on as i64)
            .collect();
        writeln!(text, "{spread} {} {}", on.len(), words(&on)).unwrap();
    }
}

fn words(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}
