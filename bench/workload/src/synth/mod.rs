//! A synthetic day of a large cell, after the published statistics of Google's trace of 2011.
//!
//! It is for users without a trace, and for cells of any size. The machines have the sizes of the trace's machines in
//! the same proportions (Reiss et al., SoCC 2012). The jobs have the trace's distributions of sizes, requests and
//! rules; see `drafts` for the numbers.
//!
//! The load is exact: jobs are drawn until the work within the span is the requested share of the cell's capacity.
//! Service jobs that never end are about three quarters of the load, and are present at the start. The others arrive as
//! a Poisson process (given their number, arrivals are independent and uniform over the span). None of these later jobs
//! runs at the start, so the first half hour has less load than the rest.
//!
//! Equal options give equal workloads on every platform: the random generator is seeded, and floats are only added,
//! multiplied and rounded, which gives the same results on all processors.

mod dice;
mod drafts;
mod jobs;
mod options;
mod sizes;

pub use options::SynthOptions;

use crate::stream::{Event, Head, JobEvent, JobsAt, Stream};
use crate::{LoadError, Workload};
use dice::Dice;
use omega_core::limits::MACHINES_MAX;
use omega_core::{Amounts, Kinds, Labels, Machine, Text};
use sizes::{CPU_MILLIS, DISK_BYTES, MEMORY_BYTES, ZONES, zone};
use std::collections::HashMap;

/// Number of machines in a rack.
const RACK: usize = 40;

/// A size of machines: number of such machines in the trace's cell, platform, and CPU and memory in ten-thousandths of
/// the largest machine.
struct Shape {
    share: u64,
    platform: &'static str,
    cpu: u64,
    memory: u64,
}

impl Shape {
    const fn new(share: u64, platform: &'static str, cpu: u64, memory: u64) -> Shape {
        Shape { share, platform, cpu, memory }
    }

    /// Returns this many ten-thousandths of `unit`.
    fn part(unit: u64, share: u64) -> u64 {
        unit * share / 10_000
    }
}

const SHAPES: [Shape; 10] = [
    Shape::new(6672, "P2", 5000, 4995),
    Shape::new(3835, "P2", 5000, 2493),
    Shape::new(992, "P2", 5000, 7490),
    Shape::new(788, "P1", 10_000, 10_000),
    Shape::new(123, "P0", 2500, 2498),
    Shape::new(54, "P2", 5000, 1241),
    Shape::new(5, "P2", 5000, 308),
    Shape::new(4, "P2", 5000, 9678),
    Shape::new(3, "P1", 10_000, 5000),
    Shape::new(1, "P2", 5000, 616),
];

/// Generates a workload.
#[must_use]
pub fn synthesize(options: &SynthOptions) -> Workload {
    let SynthStream { head, mut writer, drafts } = open(options);
    Workload {
        arrivals: drafts.map(|draft| writer.arrival(&draft)).collect(),
        name: head.name,
        kinds: head.kinds,
        policy: head.policy,
        machines: head.machines,
        budgets: head.budgets,
        machine_events: Vec::new(),
        volumes: head.volumes,
        notes: Vec::new(),
    }
}

/// Generates a workload whose jobs are built when they are read; until then each is a draft of 64 bytes.
#[must_use]
pub fn open(options: &SynthOptions) -> SynthStream {
    let options = SynthOptions {
        machines: options.machines.clamp(1, MACHINES_MAX as u32),
        seed: options.seed,
        span_hours: options.span_hours.clamp(1, 8760),
        utilisation_percent: options.utilisation_percent.clamp(1, 100),
    };
    let mut dice = Dice::new(options.seed);
    let machines = machines(options.machines as usize, &mut dice);
    let drafts = drafts::draw(&machines, &options, &mut dice).into_iter();
    let writer = jobs::Writer::new(machines.len() as u64, dice);
    let name = format!("synthetic, {} h", options.span_hours);
    let jobs_at = JobsAt { file: "synthetic".into(), column: "name" };
    SynthStream { head: Head::new(name, Kinds::standard(), machines, jobs_at), writer, drafts }
}

/// A synthetic workload that is read job by job.
pub struct SynthStream {
    head: Head,
    writer: jobs::Writer,
    drafts: std::vec::IntoIter<drafts::Draft>,
}

impl Stream for SynthStream {
    fn head(&self) -> &Head {
        &self.head
    }

    fn next_event(&mut self) -> Result<Option<Event>, LoadError> {
        let arrival = self.drafts.next().map(|draft| self.writer.arrival(&draft));
        Ok(arrival.map(|arrival| Event::Job(JobEvent { arrival, line: None })))
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Machines in the trace's proportions, in random order over the racks.
fn machines(count: usize, dice: &mut Dice) -> Vec<Machine> {
    let total: u64 = SHAPES.iter().map(|shape| shape.share).sum();
    let mut shapes: Vec<&Shape> = Vec::with_capacity(count);
    let mut share = 0;
    for shape in &SHAPES {
        share += shape.share;
        // The running sum is rounded, so the parts add up to the whole.
        shapes.resize((count as u64 * share).div_ceil(total) as usize, shape);
    }
    dice.shuffle(&mut shapes);

    let mut labels: HashMap<(usize, &str), Labels> = HashMap::new();
    let machine = |(i, shape): (usize, &Shape)| {
        let capacity = Amounts::new([
            Shape::part(CPU_MILLIS, shape.cpu),
            Shape::part(MEMORY_BYTES, shape.memory),
            DISK_BYTES,
        ]);
        let mut machine = Machine::new(format!("m{i:05}"), capacity);
        let rack = i / RACK;
        let shared = labels.entry((rack, shape.platform)).or_insert_with(|| {
            let text = |text: String| Text::from(text);
            Labels::new([
                ("platform", shape.platform.into()),
                ("rack", text(format!("r{rack:03}"))),
                ("zone", zone(rack % ZONES)),
            ])
        });
        machine.labels = shared.clone();
        machine
    };
    shapes.into_iter().enumerate().map(machine).collect()
}

#[cfg(test)]
mod tests;
